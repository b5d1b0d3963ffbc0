//! What two threads of a core take of its stages, cycle by cycle: fetch in turns, and the widths of decode, rename, dispatch,
//! commit and of the way to the cache; the issue queue.
//!
//! One thread fetches a cycle: of two that could, the one that did not fetch last. All other widths are
//! slots, of which either thread's ops take what is left. The threads' ops are priced stretch by stretch, in the order in which they are
//! fetched: a stretch finds what the other thread's, up to there, has left. How the other goes on is not known yet; where
//! its next groups are expected, by the pace at which it fetched lately, its turns are left to it.

use serde::{Deserialize, Serialize};

use crate::bookings::{Bookings, BookingsState, guard, one};
use crate::config::PipelineConfig;
use crate::occupancy::Occupancy;
use crate::saved::{cycle, cycles};

/// A stage with a width.
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

/// How far behind the other a thread may fall; it fetches nothing before.
pub(crate) const BEHIND_MAX: u64 = 1024;
/// Parts of a cycle in which paces are kept.
const PARTS: u64 = 256;

/// A cycle in parts; one of a damaged state may be later than any.
fn parts(cycle: u64) -> u64 {
    cycle.saturating_mul(PARTS)
}

/// How a thread fetches.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Pace {
    /// Its last group.
    #[serde(deserialize_with = "cycle")]
    last: u64,
    /// Cycles between two groups, if it were alone, lately; in parts of a cycle.
    #[serde(deserialize_with = "cycle")]
    gap: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    stages: Bookings,
    pub queue: Occupancy,
    /// Neither thread fetches anything before.
    pub floor: u64,
    paces: [Pace; 2],
    /// The thread whose ops are priced.
    thread: usize,
    /// When the other one is expected to fetch next, in parts of a cycle; none if it is asleep.
    rival: Option<u64>,
}

/// What is saved of [`Shared`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SharedState {
    stages: BookingsState,
    queue: Occupancy,
    #[serde(deserialize_with = "cycle")]
    floor: u64,
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
            floor: 0,
            paces: [Pace { last: 0, gap: PARTS }; 2],
            thread: 0,
            rival: None,
        }
    }

    /// It is this thread's turn to be priced, which fetches at `own` next; the other one does at `other`, if it is awake.
    pub(crate) fn turn(&mut self, thread: usize, own: u64, other: Option<u64>) {
        let first = other.map_or(own, |other| own.min(other).max(own.max(other).saturating_sub(BEHIND_MAX)));
        self.floor = self.floor.max(first);
        self.queue.advance(self.floor);
        self.thread = thread;
        self.rival = other.map(parts);
    }

    /// The thread fetches a group in the first cycle from `from` on that is its own.
    #[inline]
    pub(crate) fn fetch(&mut self, from: u64) -> u64 {
        let from = from.max(self.floor);
        let Pace { last, gap } = self.paces[self.thread];
        // Whatever the other thread does, it would have fetched now.
        let alone = from.saturating_sub(last).clamp(1, BEHIND_MAX) * PARTS;
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

    /// The first cycle from `from` on with a slot of a stage.
    #[inline]
    pub(crate) fn first(&self, stage: Stage, from: u64) -> u64 {
        self.stages.first_free(from, guard(stage as u32))
    }

    /// Takes a slot of a stage in the first cycle from `from` on that has one.
    #[inline]
    pub(crate) fn take(&mut self, stage: Stage, from: u64) -> u64 {
        let at = self.first(stage, from);
        self.stages.take(at, one(stage as u32), self.floor);
        at
    }

    /// Dispatches an op in the first cycle from `from` on with a slot and an entry of the issue queue.
    #[inline]
    pub(crate) fn dispatch(&mut self, from: u64) -> u64 {
        let mut at = from;
        loop {
            let slot = self.first(Stage::Dispatch, at);
            at = self.queue.first_free(slot);
            if at == slot {
                return self.take(Stage::Dispatch, at);
            }
        }
    }

    /// Requests from before what is remembered ([`Bookings::late`]).
    pub(crate) fn late(&self) -> u64 {
        self.stages.late()
    }

    /// The same, and counts from zero again.
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

    /// What was saved of one of this kind.
    pub(crate) fn restored(&self, state: SharedState) -> Result<Shared, String> {
        let paces_are_sound = state.paces.iter().all(|pace| pace.gap <= BEHIND_MAX * PARTS);
        if !state.queue.fits(&self.queue) || !paces_are_sound || state.rival.len() > 1 {
            return Err("the parts that threads share are of another core or damaged".into());
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
