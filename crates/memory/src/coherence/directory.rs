//! The directory at the LLC: which private caches have a line, and whether one of them owns it.
//!
//! It stands beside the LLC's tags and is asked with them. A line that one core owns (exclusive or modified: it may have written it
//! without a word) is fetched from there; before a core may write, all other copies are taken away, one snoop a cycle, and all answers
//! are awaited. A core that evicts a line says so, so that the directory never takes anybody for a sharer who is none. One with few
//! `entries` takes the copies of its victims away (*back-invalidation*), as the snoop filter of a non-inclusive LLC does: Yan et al.,
//! "Attack Directories, Not Caches" (S&P 2019), describe that of Skylake servers, 12 ways of 2048 sets beside each slice.
//!
//! Requests for one line wait for each other where its newest copy is still on its way: a snoop is answered when that has come. Not
//! modelled: room for transactions at the directory, retries, and links that snoops and acknowledgements would fill; data have theirs.

use serde::{Deserialize, Serialize};

use super::Probe;
use super::config::{Answers, CoherenceConfig, CoherenceKind};
use super::sharers::bits;
use super::snoops::Asker;
use super::stats::DirectoryStats;
use crate::backing::MainMemory;
use crate::config::{Inclusion, MemoryConfig};
use crate::fabric::Moment;
use crate::replacement::ReplacerState;
use crate::system::MemorySystem;
use crate::tags::{Evicted, Flags, Tags, TagsState};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    /// The lines that it has, if they are limited.
    tags: Option<Tags>,
    latency: u64,
    snoop: u64,
    answers: Answers,
    pub stats: DirectoryStats,
}

/// What a snapshot keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DirectoryState {
    tags: Option<(TagsState, ReplacerState)>,
    stats: DirectoryStats,
}

/// Who is asked, and for what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snoop {
    /// Harts, a bit each.
    pub harts: u64,
    /// The first of them sends the line, and does not only acknowledge.
    pub line: bool,
    pub asker: Asker,
}

impl Directory {
    /// An empty one, if the configuration wants one for so many cores, beside an LLC of RAM from `base` on.
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

    /// Nobody has the line any more.
    pub fn forget(&mut self, line: u32) {
        if let Some(tags) = &mut self.tags
            && let Some(slot) = tags.find(line)
        {
            tags.remove(slot);
        }
    }

    /// Somebody has the line now, or will at once. Returns the line that is not tracked any more.
    fn track(&mut self, line: u32) -> Option<u32> {
        let tags = self.tags.as_mut()?;
        if let Some(slot) = tags.find(line) {
            tags.touch(slot);
            return None;
        }
        let (_, evicted) = tags.insert(line, Flags::SHARED, u32::MAX, (0, 0), false);
        evicted.map(|evicted| evicted.line)
    }

    /// Says which line is in a private cache and not here, or here and in none; `shared` says whether somebody has a copy, `all` are
    /// those that somebody has.
    pub fn check_lines(
        &self,
        shared: impl Fn(u32) -> bool,
        mut all: impl Iterator<Item = u32>,
    ) -> Result<(), String> {
        let Some(tags) = &self.tags else { return Ok(()) };
        if let Some((_, stale)) = tags.iter().find(|(_, line)| !shared(*line)) {
            return Err(format!("the directory takes line {stale} for shared, and nobody has it"));
        }
        match all.find(|line| tags.find(*line).is_none()) {
            Some(line) => Err(format!("line {line} is in a private cache and not in the directory")),
            None => Ok(()),
        }
    }

    pub fn save(&self) -> DirectoryState {
        DirectoryState { tags: self.tags.as_ref().map(Tags::save), stats: self.stats.clone() }
    }

    /// Says what is impossible about a saved state.
    pub fn check(&self, state: &DirectoryState, lines: u32) -> Result<(), String> {
        match (&self.tags, &state.tags) {
            (None, None) => Ok(()),
            (Some(tags), Some(saved)) => tags.check(saved, lines, 0),
            _ => Err("a directory with entries for one without, or the other way round".to_owned()),
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
    /// The directory, which there is, asks private caches about a line that was looked up and is there at `ready` at the latest.
    /// Returns when and where the answer is that is last at who asked: at the LLC, or as near to its stop as the LLC is.
    pub(super) fn snoop<const TIMED: bool>(&mut self, snoop: Snoop, looked: Moment, ready: u64) -> Moment {
        let directory = self.directory.as_mut().expect("who snoops is the directory");
        directory.stats.snoops += u64::from(snoop.harts.count_ones());
        directory.stats.forwards += u64::from(snoop.line);
        if !TIMED {
            return Moment { at: 0, ..looked };
        }
        let (leaves, takes) = (looked.at + directory.latency, directory.snoop);
        let direct = directory.answers == Answers::Direct;
        let to = match snoop.asker {
            Asker::Core(hart) if direct => Some(self.core_stop(hart)),
            _ => None,
        };
        let mut last = looked;
        for (turn, hart) in (0..).zip(bits(snoop.harts)) {
            let stop = self.core_stop(hart);
            let asked = self.request(looked.stop, stop, leaves + turn) + self.latency;
            let line = snoop.line && turn == 0;
            let mut at = asked.max(ready) + takes;
            if line {
                at = self.harts[hart].to.take_many(at, 64, self.llc.now).1;
            }
            let answer = match (to, line) {
                (Some(_), _) => Moment { at, stop },
                (None, true) => {
                    Moment { at: self.carry(stop, looked.stop, at, 64).1 + self.latency, ..looked }
                }
                (None, false) => Moment {
                    at: self.acknowledged(Moment { at, stop }, looked.stop) + self.latency,
                    ..looked
                },
            };
            last = self.later(last, answer, to.unwrap_or(looked.stop));
        }
        last
    }

    /// A private cache will have the line, which was looked up at `t`. Returns when the directory has room for that.
    pub(crate) fn track<const TIMED: bool>(&mut self, line: u32, t: u64) -> u64 {
        let Some(victim) = self.directory.as_mut().and_then(|directory| directory.track(line)) else {
            return t;
        };
        let found = self.probe(None, victim, Probe::Take);
        let stats = &mut self.directory.as_mut().expect("it has had a victim").stats;
        stats.back_invalidations += 1;
        stats.back_invalidated_copies += u64::from(found.harts.count_ones());
        stats.back_invalidated_dirty += u64::from(found.dirty);
        let looked = Moment { at: t, stop: self.home(victim) };
        let answered = match found.dirty {
            true => self.line_of_copy::<TIMED>(&found, true, looked, Asker::Home),
            false => self.copies_gone::<TIMED>(&found, looked, Asker::Home),
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
