//! Pipeline stages shared by two SMT threads, cycle by cycle: alternating fetch; the widths of decode,
//! rename, dispatch, commit and store drain; the issue queue.
//!
//! One thread fetches per cycle: if both could, the one that did not fetch last. All other widths are slots
//! that ops of either thread take on demand. The threads are timed block by block, in the order in which they
//! fetch: a block finds the slots that the other thread has left up to that point. The other thread's later
//! demand is not known yet. Its fetch turns are therefore reserved where its next groups are expected,
//! extrapolated from its recent fetch rate.

use doorbell_sim::CoreCycle;
use serde::{Deserialize, Serialize};

use crate::bookings::{Bookings, BookingsState, guard, one};
use crate::config::PipelineConfig;
use crate::occupancy::Occupancy;
use crate::saved::{cycle, cycles};

/// A stage with a limited width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    Fetch,
    Decode,
    Rename,
    Dispatch,
    Commit,
    Drain,
}

/// Maximum lag of one thread behind the other, in cycles; a thread that lags more fetches later.
pub(crate) const BEHIND_MAX: u64 = 1024;
/// Resolution of the fetch rate: parts per cycle.
const PARTS: u64 = 256;

/// Converts a cycle to parts; saturates, because a corrupt state may have any cycle.
fn parts(cycle: CoreCycle) -> u64 {
    cycle.number().saturating_mul(PARTS)
}

/// Recent fetch rate of a thread.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Pace {
    /// The cycle of its last group.
    #[serde(deserialize_with = "cycle")]
    last: CoreCycle,
    /// Recent average of cycles between two groups without competition, in parts of a cycle.
    #[serde(deserialize_with = "cycle")]
    gap: u64,
}

/// The shared stages.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    stages: Bookings,
    pub queue: Occupancy,
    /// The earliest fetch cycle of either thread.
    pub floor: CoreCycle,
    paces: [Pace; 2],
    /// The active thread.
    thread: usize,
    /// The expected next fetch of the other thread, in parts of a cycle; none if it sleeps.
    rival: Option<u64>,
}

/// Saved state of [`Shared`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SharedState {
    stages: BookingsState,
    queue: Occupancy,
    #[serde(deserialize_with = "cycle")]
    floor: CoreCycle,
    paces: [Pace; 2],
    thread: bool,
    #[serde(deserialize_with = "cycles")]
    rival: Vec<u64>,
}

impl Shared {
    pub(crate) fn new(config: &PipelineConfig) -> Shared {
        let limits = [
            1,
            config.decode_width,
            config.rename_width,
            config.dispatch_width,
            config.commit_width,
            config.drain_width,
        ];
        Shared {
            stages: Bookings::new(&limits),
            queue: Occupancy::new(config.iq),
            floor: CoreCycle::ZERO,
            paces: [Pace { last: CoreCycle::ZERO, gap: PARTS }; 2],
            thread: 0,
            rival: None,
        }
    }

    /// Activates this thread, which fetches next at `own`; the other thread fetches next at `other`, if
    /// awake.
    pub(crate) fn turn(&mut self, thread: usize, own: CoreCycle, other: Option<CoreCycle>) {
        let first = other.map_or(own, |other| own.min(other).max(own.max(other).saturating_sub(BEHIND_MAX)));
        self.floor = self.floor.max(first);
        self.queue.advance(self.floor);
        self.thread = thread;
        self.rival = other.map(parts);
    }

    /// Fetches a group in the first cycle from `from` on that is this thread's turn.
    #[inline]
    pub(crate) fn fetch(&mut self, from: CoreCycle) -> CoreCycle {
        let from = from.max(self.floor);
        let Pace { last, gap } = self.paces[self.thread];
        // Without the other thread it would have fetched now.
        let alone = from.since(last).clamp(1, BEHIND_MAX) * PARTS;
        let gap = gap - gap / 8 + alone / 8;
        let mut at = from;
        loop {
            at = self.stages.first_free(at, guard(Stage::Fetch as u32));
            match &mut self.rival {
                Some(next) if at == last + 1 && *next <= parts(at) => {
                    *next = parts(at).saturating_add(self.paces[1 - self.thread].gap);
                    at += 1;
                }
                _ => break,
            }
        }
        self.stages.take(at, one(Stage::Fetch as u32), self.floor);
        self.paces[self.thread] = Pace { last: at, gap };
        at
    }

    /// The first cycle from `from` on with a free slot of a stage.
    #[inline]
    pub(crate) fn first(&self, stage: Stage, from: CoreCycle) -> CoreCycle {
        self.stages.first_free(from, guard(stage as u32))
    }

    /// Takes a slot of a stage in the first cycle from `from` on that has a free one.
    #[inline]
    pub(crate) fn take(&mut self, stage: Stage, from: CoreCycle) -> CoreCycle {
        let at = self.first(stage, from);
        self.stages.take(at, one(stage as u32), self.floor);
        at
    }

    /// Dispatches an op in the first cycle from `from` on with a dispatch slot and an issue-queue entry.
    #[inline]
    pub(crate) fn dispatch(&mut self, from: CoreCycle) -> CoreCycle {
        let mut at = from;
        loop {
            let slot = self.first(Stage::Dispatch, at);
            at = self.queue.first_free(slot);
            if at == slot {
                return self.take(Stage::Dispatch, at);
            }
        }
    }

    /// Bookings before the range of the table ([`Bookings::late`]).
    pub(crate) fn late(&self) -> u64 {
        self.stages.late()
    }

    /// Returns [`late`](Shared::late) and resets it.
    pub(crate) fn take_late(&mut self) -> u64 {
        self.stages.take_late()
    }

    pub(crate) fn save(&self) -> SharedState {
        SharedState {
            stages: self.stages.save(),
            queue: self.queue.clone(),
            floor: self.floor,
            paces: self.paces,
            thread: self.thread == 1,
            rival: self.rival.into_iter().collect(),
        }
    }

    /// Restores saved state of this configuration.
    pub(crate) fn restored(&self, state: SharedState) -> Result<Shared, String> {
        let paces_are_sound = state.paces.iter().all(|pace| pace.gap <= BEHIND_MAX * PARTS);
        if !state.queue.is_compatible(&self.queue) || !paces_are_sound || state.rival.len() > 1 {
            return Err("the saved SMT state belongs to another core configuration or is corrupt".into());
        }
        Ok(Shared {
            stages: self.stages.restored(state.stages)?,
            queue: state.queue,
            floor: state.floor,
            paces: state.paces,
            thread: usize::from(state.thread),
            rival: state.rival.first().copied(),
        })
    }
}
