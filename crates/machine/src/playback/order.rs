//! Events of harts that were recorded together: they run_event in the order in which they did. Traces that were merged never ran beside each
//! other, so that each of them has an order of its own.

use std::collections::VecDeque;
use std::ops::Range;

use doorbell_sim::Ps;
use doorbell_trace::system::{DeviceEvent, DeviceReader, TraceFile};

use super::PlaybackError;
use super::device_replay::PendingEvent;
use super::rate_replay::{Next, RateReplay};

/// So many events are read before their instructions are played, and no more: at another pace all of them, since what a device does to a
/// frame was recorded behind instructions that a slower program comes to only with later frames (a ring's frames have fewer); as recorded,
/// while one of their harts has come to its last one that is known and another keeps them from happening.
pub(super) const AHEAD: usize = 1 << 14;

/// What a hart's events are, as far as they were read: how many were not, and behind which instruction the last one is.
#[derive(Clone, Copy, Default)]
struct ReadState {
    unread: u64,
    last: Option<u64>,
}

impl ReadState {
    /// Before its hart has so many instructions behind it, it comes to nothing that is not known.
    fn known_until(&self) -> u64 {
        if self.unread > 0 { self.last.unwrap_or(0) } else { u64::MAX }
    }

    /// Whether its hart, behind so many instructions, may come to what is not known.
    fn may_reach_unread(&self, reached: u64) -> bool {
        self.known_until() <= reached
    }
}

/// See the module.
pub(super) struct Order {
    /// Its harts, as the trace numbers them.
    harts: Range<usize>,
    reader: Option<DeviceReader>,
    read_state: Vec<ReadState>,
    /// Those that have not happened.
    pub ahead: VecDeque<PendingEvent>,
    /// How they go at another pace; they are not ahead then, but the instructions of those that were read are known.
    pub rate_replay: Option<Box<RateReplay>>,
    pub read_ahead: VecDeque<(u16, u64)>,
    /// What happens next, and when, if what it follows has happened.
    pub upcoming: Option<(Ps, Next)>,
    /// The moment of the last one.
    pub event_at: Ps,
}

impl Order {
    /// Of all events of a trace, or of none.
    pub fn new(
        file: Option<&TraceFile>,
        harts: Range<usize>,
        event_counts: &[u64],
    ) -> Result<Order, PlaybackError> {
        let unread = |hart| event_counts.get(hart).copied().unwrap_or(0);
        Ok(Order {
            read_state: harts.clone().map(|hart| ReadState { unread: unread(hart), last: None }).collect(),
            harts,
            reader: file.map(TraceFile::devices).transpose()?,
            ahead: VecDeque::new(),
            rate_replay: None,
            read_ahead: VecDeque::new(),
            upcoming: None,
            event_at: Ps::ZERO,
        })
    }

    /// The harts of a trace's orders: those of each of the traces that it was merged of, or all.
    pub fn harts(file: Option<&TraceFile>, harts: usize) -> Vec<Range<usize>> {
        let whole = || std::iter::once(0..harts).collect();
        let parts = file.map(|file| file.description().parts());
        let parts = parts.map(|all| all.into_iter().map(|part| part.start.into()..part.end.into()).collect());
        parts.unwrap_or_else(whole)
    }

    /// The next event of its own in the file; others are only looked at by `check`.
    pub fn read(
        &mut self,
        check: impl Fn(&DeviceEvent) -> Result<(), PlaybackError>,
    ) -> Result<Option<DeviceEvent>, PlaybackError> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        while let Some(event) = reader.next()? {
            check(&event)?;
            let hart = usize::from(event.hart);
            if self.harts.contains(&hart) {
                let state = &mut self.read_state[hart - self.harts.start];
                *state = ReadState { unread: state.unread.saturating_sub(1), last: Some(event.after) };
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Whether this hart, behind so many instructions now, may come to an event that was not read.
    #[inline]
    pub fn may_reach_unread(&self, hart: usize, reached: u64) -> bool {
        match self.rate_replay {
            Some(_) => {
                let first = self.read_ahead.front();
                first.is_some_and(|(of, after)| usize::from(*of) == hart && *after <= reached)
            }
            None => self.read_state[hart - self.harts.start].may_reach_unread(reached),
        }
    }

    /// Before this hart has so many instructions behind it, it [wants](Order::wants) nothing and nothing [waits for](Order::waits_for) it;
    /// `None` at another pace, where each block may matter.
    pub fn unchecked_until(&self, hart: usize) -> Option<u64> {
        if self.rate_replay.is_some() {
            return None;
        }
        let first = self.upcoming.is_none().then(|| self.ahead.front()).flatten();
        let own = first.filter(|(event, _)| usize::from(event.hart) == hart);
        let known = self.read_state[hart - self.harts.start].known_until();
        Some(own.map_or(known, |(event, _)| event.after.min(known)))
    }

    /// Whether so much has been read that no hart comes to what is not known, or as much as there is room for; at another pace more, and
    /// more still if frames are wanted.
    pub fn has_read_enough(&mut self, reached: &[u64]) -> bool {
        if let Some(rate_replay) = &self.rate_replay {
            let is_behind = |(hart, after): &(u16, u64)| *after <= reached[usize::from(*hart)];
            while self.read_ahead.front().is_some_and(is_behind) {
                self.read_ahead.pop_front();
            }
            return self.read_ahead.len() >= AHEAD && !rate_replay.needs_frames();
        }
        let own = self.read_state.iter().zip(&reached[self.harts.clone()]);
        self.ahead.len() >= AHEAD || !own.into_iter().any(|(state, reached)| state.may_reach_unread(*reached))
    }

    /// An event was read.
    pub fn push(&mut self, event: PendingEvent) {
        match &mut self.rate_replay {
            Some(rate_replay) => {
                self.read_ahead.push_back((event.0.hart, event.0.after));
                rate_replay.push(event);
            }
            None => self.ahead.push_back(event),
        }
    }

    /// The first event that its instruction has to be played for.
    pub fn first_pending(&self) -> Option<&DeviceEvent> {
        match &self.rate_replay {
            Some(rate_replay) => rate_replay.first_software_event(),
            None => self.ahead.front().map(|(event, _)| event),
        }
    }

    /// No more frames arrive, if these have ended: none of its harts goes on.
    pub fn stop(&mut self, goes_on: impl Fn(usize) -> bool) -> bool {
        let Some(rate_replay) = self.rate_replay.as_mut().filter(|rate_replay| !rate_replay.stopped) else {
            return false;
        };
        rate_replay.stopped = !self.harts.clone().any(goes_on);
        rate_replay.stopped
    }

    /// Whether its first event waits for this hart, which is behind so many instructions now: what is to run_event next, happens no sooner for it
    /// where events keep their order.
    #[inline]
    pub fn waits_for(&self, hart: usize, reached: u64) -> bool {
        if self.rate_replay.is_some() {
            return true;
        }
        let first = self.upcoming.is_none().then(|| self.ahead.front()).flatten();
        first.is_some_and(|(event, _)| usize::from(event.hart) == hart && event.after <= reached)
    }
}
