//! Events of harts that were recorded together: they happen in the order in which they did. Traces that were merged never ran beside each
//! other, so that each of them has an order of its own.

use std::collections::VecDeque;
use std::ops::Range;

use doorbell_sim::Ps;
use doorbell_trace::system::{DeviceEvent, DeviceReader, TraceFile};

use super::PlaybackError;
use super::lane::ToCome;

/// So many events are read before their instructions are played, and no more: at another pace all of them, since what a device does to a
/// frame was recorded behind instructions that a slower program comes to only with later frames (a ring's frames have fewer); as recorded,
/// while one of their harts has come to its last one that is known and another keeps them from happening.
pub(super) const AHEAD: usize = 1 << 14;

/// What a hart's events are, as far as they were read: how many were not, and behind which instruction the last one is.
#[derive(Clone, Copy, Default)]
struct Told {
    left: u64,
    last: Option<u64>,
}

impl Told {
    /// Whether its hart, behind so many instructions, may come to what is not known.
    fn wants(&self, reached: u64) -> bool {
        self.left > 0 && self.last.is_none_or(|last| last <= reached)
    }
}

/// See the module.
pub(super) struct Order {
    /// Its harts, as the trace numbers them.
    harts: Range<usize>,
    reader: Option<DeviceReader>,
    told: Vec<Told>,
    /// Those that have not happened.
    pub ahead: VecDeque<ToCome>,
    /// When the first of them happens, if its instruction has been played.
    pub upcoming: Option<Ps>,
    /// The moment of the last one.
    pub event_at: Ps,
}

impl Order {
    /// Of all events of a trace, or of none.
    pub fn new(file: Option<&TraceFile>, harts: Range<usize>, told: &[u64]) -> Result<Order, PlaybackError> {
        let left = |hart| told.get(hart).copied().unwrap_or(0);
        Ok(Order {
            told: harts.clone().map(|hart| Told { left: left(hart), last: None }).collect(),
            harts,
            reader: file.map(TraceFile::devices).transpose()?,
            ahead: VecDeque::new(),
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
                let told = &mut self.told[hart - self.harts.start];
                *told = Told { left: told.left.saturating_sub(1), last: Some(event.after) };
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Whether one of its harts may come to an event that was not read.
    #[inline]
    pub fn wants(&self, hart: usize, reached: u64) -> bool {
        self.told[hart - self.harts.start].wants(reached)
    }

    /// Whether so much has been read that no hart comes to what is not known, or as much as there is room for.
    pub fn is_far_enough(&self, reached: &[u64]) -> bool {
        let own = self.told.iter().zip(&reached[self.harts.clone()]);
        self.ahead.len() >= AHEAD || !own.into_iter().any(|(told, reached)| told.wants(*reached))
    }

    /// Whether its first event waits for this hart, which is behind so many instructions now.
    #[inline]
    pub fn waits_for(&self, hart: usize, reached: u64) -> bool {
        let first = self.upcoming.is_none().then(|| self.ahead.front()).flatten();
        first.is_some_and(|(event, _)| usize::from(event.hart) == hart && event.after <= reached)
    }
}
