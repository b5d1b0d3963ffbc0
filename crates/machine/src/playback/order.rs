//! Device events of harts that were recorded together: events run in recorded order. Each part of a merged
//! trace has its own order, as the parts were not recorded together.

use std::collections::VecDeque;
use std::ops::Range;

use doorbell_sim::Ps;
use doorbell_trace::system::{DeviceEvent, DeviceReader, TraceFile};

use super::PlaybackError;
use super::device_replay::PendingEvent;
use super::rate_replay::{Next, RateReplay};

/// Maximum number of events read ahead of their instructions. At another rate, this many are read: a frame's
/// device events were recorded after instructions that a slower program reaches only with later frames, but a
/// ring has fewer frames than this. As recorded, events are read ahead while one hart has reached its last
/// known event and another one holds them back.
pub(super) const AHEAD: usize = 1 << 14;

/// Read position among a hart's events: number of unread events, and instruction of the last one read.
#[derive(Clone, Copy, Default)]
struct ReadState {
    unread: u64,
    last: Option<u64>,
}

impl ReadState {
    /// Instruction count up to which the hart's events are known.
    fn known_until(&self) -> u64 {
        if self.unread > 0 { self.last.unwrap_or(0) } else { u64::MAX }
    }

    /// Whether the hart, after `reached` instructions, may reach an unread event.
    fn may_reach_unread(&self, reached: u64) -> bool {
        self.known_until() <= reached
    }
}

/// Events of harts recorded together.
pub(super) struct EventOrder {
    /// Harts, as numbered in the trace.
    harts: Range<usize>,
    reader: Option<DeviceReader>,
    read_state: Vec<ReadState>,
    /// Events that were read and have not run.
    pub ahead: VecDeque<PendingEvent>,
    /// Replay at another rate. `ahead` is then empty, and `read_ahead` has hart and instruction of each event
    /// read.
    pub rate_replay: Option<Box<RateReplay>>,
    pub read_ahead: VecDeque<(u16, u64)>,
    /// Time and kind of the next event, if its dependencies are met.
    pub upcoming: Option<(Ps, Next)>,
    /// Time of the last event.
    pub event_at: Ps,
}

impl EventOrder {
    /// Creates the order of a trace's events; without a file there are none.
    pub fn new(
        file: Option<&TraceFile>,
        harts: Range<usize>,
        event_counts: &[u64],
    ) -> Result<EventOrder, PlaybackError> {
        let unread = |hart| event_counts.get(hart).copied().unwrap_or(0);
        Ok(EventOrder {
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

    /// Hart range of each order of a trace: one per part of a merged trace, else one of all harts.
    pub fn harts(file: Option<&TraceFile>, harts: usize) -> Vec<Range<usize>> {
        let whole = || std::iter::once(0..harts).collect();
        let parts = file.map(|file| file.description().parts());
        let parts = parts.map(|all| all.into_iter().map(|part| part.start.into()..part.end.into()).collect());
        parts.unwrap_or_else(whole)
    }

    /// Reads the next event of its harts. Applies `check` to the events of all harts.
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

    /// Whether a hart, after `reached` instructions, may reach an unread event.
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

    /// Instruction count up to which the hart [reaches no unread event](EventOrder::may_reach_unread) and no
    /// event [waits for it](EventOrder::waits_for). `None` at another rate, where each block may matter.
    pub fn unchecked_until(&self, hart: usize) -> Option<u64> {
        if self.rate_replay.is_some() {
            return None;
        }
        let first = self.upcoming.is_none().then(|| self.ahead.front()).flatten();
        let own = first.filter(|(event, _)| usize::from(event.hart) == hart);
        let known = self.read_state[hart - self.harts.start].known_until();
        Some(own.map_or(known, |(event, _)| event.after.min(known)))
    }

    /// Whether enough events are read: no hart can reach an unread one, or the limit is reached. At another
    /// rate, the limit applies unless frames are needed.
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

    /// Adds an event that was read.
    pub fn push(&mut self, event: PendingEvent) {
        match &mut self.rate_replay {
            Some(rate_replay) => {
                self.read_ahead.push_back((event.0.hart, event.0.after));
                rate_replay.push(event);
            }
            None => self.ahead.push_back(event),
        }
    }

    /// The first event that waits for its instruction to be played.
    pub fn first_pending(&self) -> Option<&DeviceEvent> {
        match &self.rate_replay {
            Some(rate_replay) => rate_replay.first_software_event(),
            None => self.ahead.front().map(|(event, _)| event),
        }
    }

    /// Stops frame arrivals if none of its harts still runs. Returns whether they stopped.
    pub fn stop(&mut self, is_active: impl Fn(usize) -> bool) -> bool {
        let Some(rate_replay) = self.rate_replay.as_mut().filter(|rate_replay| !rate_replay.stopped) else {
            return false;
        };
        rate_replay.stopped = !self.harts.clone().any(is_active);
        rate_replay.stopped
    }

    /// Whether the first event waits for this hart, which has done `reached` instructions. Once the next
    /// event has a time, the hart's progress does not change it, as events keep their order.
    #[inline]
    pub fn waits_for(&self, hart: usize, reached: u64) -> bool {
        if self.rate_replay.is_some() {
            return true;
        }
        let first = self.upcoming.is_none().then(|| self.ahead.front()).flatten();
        first.is_some_and(|(event, _)| usize::from(event.hart) == hart && event.after <= reached)
    }
}
