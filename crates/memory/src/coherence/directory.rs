//! The directory at the LLC: which private caches have a line, and whether one of them owns it.
//!
//! It is looked up together with the LLC's tags. A line that one core owns (exclusive or modified: it may
//! have been written silently) is fetched from that core. Before a core may write, all other copies are
//! invalidated, with one snoop per cycle, and all responses are awaited. A core notifies the directory of
//! evictions, so its sharer lists are exact. A directory with limited `entries` invalidates the copies of its
//! victims (*back-invalidation*), as the snoop filter of a non-inclusive LLC does. Yan et al., "Attack
//! Directories, Not Caches" (S&P 2019), describe that of Skylake servers: 12 ways of 2048 sets per slice.
//!
//! Requests for a line are serialized while its newest copy is in flight: a snoop is answered when the copy
//! has arrived. Not modelled: transaction buffers of the directory, retries, and link bandwidth of snoops and
//! acknowledgements; data use link bandwidth.

use doorbell_sim::{UncoreCycle, UncoreDomain};
use serde::{Deserialize, Serialize};

use super::Probe;
use super::config::{Answers, CoherenceConfig, CoherenceKind};
use super::sharers::bits;
use super::snoops::Requester;
use super::stats::DirectoryStats;
use crate::backing::MainMemory;
use crate::config::{Inclusion, MemoryConfig};
use crate::fabric::Moment;
use crate::system::MemorySystem;
use crate::tags::{Evicted, Flags, SavedTags, Tags};

/// The directory; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    /// Tracked lines, if their number is limited.
    tags: Option<Tags<UncoreDomain>>,
    latency: u64,
    snoop: u64,
    answers: Answers,
    pub stats: DirectoryStats,
}

/// Saved state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DirectoryState {
    tags: Option<SavedTags>,
    stats: DirectoryStats,
}

/// A snoop of private caches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snoop {
    /// Bit mask of the snooped harts.
    pub harts: u64,
    /// Whether the first of them sends the line; otherwise all only acknowledge.
    pub line: bool,
    pub requester: Requester,
}

impl Directory {
    /// An empty directory, if the configuration has one for `cores` cores; RAM starts at `base`.
    pub fn new(config: &MemoryConfig, cores: usize, base: doorbell_sim::PhysAddr) -> Option<Directory> {
        let own: &CoherenceConfig = &config.coherence;
        let tags = || {
            let cache = own.cache();
            let mut tags = Tags::new(cache.sets(), cache.ways, cache.replacement);
            tags.divide(config.llc.slices, config.llc.scatter, base);
            tags
        };
        (own.kind_for(cores) == CoherenceKind::Directory).then(|| Directory {
            tags: (own.entries > 0).then(tags),
            latency: u64::from(own.latency),
            snoop: u64::from(own.snoop),
            answers: own.answers,
            stats: DirectoryStats::default(),
        })
    }

    /// Stops tracking a line that no private cache has any more.
    pub fn untrack(&mut self, line: u32) {
        if let Some(tags) = &mut self.tags
            && let Some(slot) = tags.find(line)
        {
            tags.remove(slot);
        }
    }

    /// Tracks a line that a private cache has or is about to get. Returns the line that is no longer tracked.
    fn track(&mut self, line: u32) -> Option<u32> {
        let tags = self.tags.as_mut()?;
        if let Some(slot) = tags.find(line) {
            tags.touch(slot);
            return None;
        }
        let (_, evicted) = tags.insert(line, Flags::SHARED, u32::MAX, UncoreCycle::ZERO, 0, false);
        evicted.map(|evicted| evicted.line)
    }

    /// Checks that the tracked lines are exactly those in private caches. `shared` returns whether a private
    /// cache has the line; `all` are the lines of private caches.
    pub fn check_lines(
        &self,
        shared: impl Fn(u32) -> bool,
        mut all: impl Iterator<Item = u32>,
    ) -> Result<(), String> {
        let Some(tags) = &self.tags else { return Ok(()) };
        if let Some((_, stale)) = tags.iter().find(|(_, line)| !shared(*line)) {
            return Err(format!("the directory tracks line {stale}, but no private cache has it"));
        }
        match all.find(|line| tags.find(*line).is_none()) {
            Some(line) => Err(format!("line {line} is in a private cache and not in the directory")),
            None => Ok(()),
        }
    }

    pub fn save(&self) -> DirectoryState {
        DirectoryState { tags: self.tags.as_ref().map(Tags::save), stats: self.stats.clone() }
    }

    /// Checks a saved state.
    pub fn check(&self, state: &DirectoryState, lines: u32) -> Result<(), String> {
        match (&self.tags, &state.tags) {
            (None, None) => Ok(()),
            (Some(tags), Some(saved)) => tags.check(saved, lines, UncoreCycle::ZERO),
            _ => Err("the saved state and the machine differ in limiting the directory's entries".to_owned()),
        }
    }

    pub fn restore(&mut self, state: DirectoryState) {
        if let (Some(tags), Some(saved)) = (&mut self.tags, state.tags) {
            tags.restore(saved);
        }
        self.stats = state.stats;
    }
}

impl<M: MainMemory> MemorySystem<M> {
    /// Snoops private caches for a line that was looked up and is in those caches by `ready`. Returns the
    /// time and stop from which the last response goes to the requester: the responding core's stop with
    /// direct responses, otherwise the slice's. The way from there to the requester is not included.
    pub(super) fn snoop<const TIMED: bool>(
        &mut self,
        snoop: Snoop,
        lookup_done: Moment,
        ready: UncoreCycle,
    ) -> Moment {
        let directory = self.directory.as_mut().expect("only a directory sends snoops");
        directory.stats.snoops += u64::from(snoop.harts.count_ones());
        directory.stats.forwards += u64::from(snoop.line);
        if !TIMED {
            return Moment { at: UncoreCycle::ZERO, ..lookup_done };
        }
        let (leaves, takes) = (lookup_done.at + directory.latency, directory.snoop);
        let direct = directory.answers == Answers::Direct;
        let to = match snoop.requester {
            Requester::Core(hart) if direct => Some(self.core_stop(hart)),
            _ => None,
        };
        let mut last = lookup_done;
        for (turn, hart) in (0..).zip(bits(snoop.harts)) {
            let stop = self.core_stop(hart);
            let snooped = self.request(lookup_done.stop, stop, leaves + turn) + self.latency;
            let line = snoop.line && turn == 0;
            let mut at = snooped.max(ready) + takes;
            if line {
                at = self.harts[hart].to.take_many(at, 64, self.llc.now).last;
            }
            let answer = match (to, line) {
                (Some(_), _) => Moment { at, stop },
                (None, true) => Moment {
                    at: self.carry(stop, lookup_done.stop, at, 64).last + self.latency,
                    ..lookup_done
                },
                (None, false) => Moment {
                    at: self.ack_arrival(Moment { at, stop }, lookup_done.stop) + self.latency,
                    ..lookup_done
                },
            };
            last = self.later(last, answer, to.unwrap_or(lookup_done.stop));
        }
        last
    }

    /// Tracks a line, looked up at `t`, that a private cache will get. Returns when the directory has room
    /// for it.
    pub(crate) fn track<const TIMED: bool>(&mut self, line: u32, t: UncoreCycle) -> UncoreCycle {
        let Some(victim) = self.directory.as_mut().and_then(|directory| directory.track(line)) else {
            return t;
        };
        let found = self.probe(None, victim, Probe::Invalidate);
        let stats = &mut self.directory.as_mut().expect("the directory returned a victim").stats;
        stats.back_invalidations += 1;
        stats.back_invalidated_copies += u64::from(found.harts.count_ones());
        stats.back_invalidated_dirty += u64::from(found.dirty);
        let lookup_done = Moment { at: t, stop: self.home(victim) };
        let answered = match found.dirty {
            true => self.fetch_copy::<TIMED>(&found, true, lookup_done, Requester::Home),
            false => self.copies_invalidated::<TIMED>(&found, lookup_done, Requester::Home),
        }
        .at;
        if !found.dirty && self.inclusion != Inclusion::Exclusive {
            return answered;
        }
        self.traffic.core_to_llc_bytes += 64;
        let state = if found.dirty { Flags::MODIFIED } else { Flags::EXCLUSIVE };
        let flags = state.with_class(self.classes.get(victim)).with_fresh(found.fresh);
        let ways = bits(found.harts).next().map_or(self.core_ways, |hart| self.harts[hart].llc_ways);
        self.evict_into_llc::<TIMED>(Evicted { line: victim, flags, level: 0 }, answered, ways)
    }
}
