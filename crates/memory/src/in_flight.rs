//! A file of entries, each held for a time interval: miss-status holding registers, write-back buffers, the
//! queues of a memory controller.
//!
//! Requests come in any order of time: a device's are timed when issued, possibly tens of microseconds ahead.
//! The file keeps the intervals and counts those that cover a request's time. The result equals that of an
//! unbounded list: the first time, at or after the request's, at which an entry is free. Intervals are
//! ordered by end time, in blocks. A block whose intervals all begin later is skipped, so bookings far ahead
//! cost an early request little. An insertion moves at most one block.
//!
//! A block is dropped when all its intervals ended before `past`, a time given by the owner before which it
//! expects no request. A request from before it uses the remaining intervals, so it may be admitted too early
//! but never too late; [`InFlight::late`] counts these.
//!
//! Limitation: the length of a request's interval is unknown when it is admitted. A request for an early time
//! that is timed late may therefore overlap with later ones already admitted.

use std::collections::VecDeque;

use doorbell_sim::{Cycle, Domain};
use serde::{Deserialize, Serialize};

/// Intervals per block.
const BLOCK: usize = 32;
/// Limit of intervals accepted from a saved state.
const SAVED_MAX: usize = 1 << 20;

/// An entry held for an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) struct HeldEntry<D> {
    /// Start of the interval.
    pub from: Cycle<D>,
    /// End of the interval; the entry is free again from then on.
    pub until: Cycle<D>,
    /// Line for which it is held.
    pub line: u32,
}

/// Intervals in the order of their ends; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block<D> {
    held: Vec<HeldEntry<D>>,
    /// Earliest start.
    from: Cycle<D>,
    /// Filter of the lines: a bit per value of the line number's last seven bits.
    lines: u128,
}

/// A line's bit in [`Block::lines`].
#[inline]
fn bit(line: u32) -> u128 {
    1 << (line % u128::BITS)
}

impl<D: Domain> Block<D> {
    fn of(held: Vec<HeldEntry<D>>) -> Block<D> {
        let from = held.iter().map(|held| held.from).min().unwrap_or(Cycle::MAX);
        let lines = held.iter().fold(0, |lines, held| lines | bit(held.line));
        Block { held, from, lines }
    }

    #[inline]
    fn first(&self) -> Cycle<D> {
        self.held.first().map_or(Cycle::ZERO, |held| held.until)
    }

    #[inline]
    fn last(&self) -> Cycle<D> {
        self.held.last().map_or(Cycle::ZERO, |held| held.until)
    }

    #[inline]
    fn insert(&mut self, entry: HeldEntry<D>) {
        let behind = self.held.iter().rev().take_while(|held| held.until > entry.until).count();
        self.held.insert(self.held.len() - behind, entry);
        self.from = self.from.min(entry.from);
        self.lines |= bit(entry.line);
    }
}

/// The entries and their intervals; see the module. Times are cycles of clock domain `D`.
#[derive(Clone, Debug)]
pub(crate) struct InFlight<D> {
    entries: usize,
    /// In the order of their intervals' ends.
    blocks: VecDeque<Block<D>>,
    /// End of the last interval.
    last: Cycle<D>,
    /// An empty list kept for reuse.
    spare: Vec<HeldEntry<D>>,
    state: InFlightState<D>,
}

/// Saved state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) struct InFlightState<D> {
    /// The blocks; filled in only when saving.
    held: Vec<Vec<HeldEntry<D>>>,
    /// Latest end of all dropped intervals.
    dropped: Cycle<D>,
    /// An interval in which all entries are in use, cached so that a long queue is not walked repeatedly.
    full: (Cycle<D>, Cycle<D>),
    /// Total length of all intervals.
    busy: u64,
    late: u64,
}

impl<D: Domain> InFlight<D> {
    /// A file of `entries` entries, at least one.
    pub fn new(entries: u32) -> InFlight<D> {
        let entries = entries as usize;
        assert!(entries > 0, "a file of miss registers or buffers needs at least one entry");
        InFlight {
            entries,
            blocks: VecDeque::new(),
            last: Cycle::ZERO,
            spare: Vec::with_capacity(BLOCK),
            state: Default::default(),
        }
    }

    /// Returns when a request for time `t` gets an entry.
    #[inline]
    pub fn admit(&mut self, t: Cycle<D>) -> Cycle<D> {
        if self.last <= t { t } else { self.first_free(t, self.entries) }
    }

    /// The same if `waiting` entries are reserved for requests not booked yet. If they take all entries, the
    /// request is not delayed.
    #[inline]
    pub fn admit_with_reserved(&mut self, t: Cycle<D>, waiting: usize) -> Cycle<D> {
        if self.last <= t { t } else { self.first_free(t, self.entries.saturating_sub(waiting)) }
    }

    fn first_free(&mut self, mut t: Cycle<D>, entries: usize) -> Cycle<D> {
        self.state.late += u64::from(t < self.state.dropped);
        // With fewer entries available, the cached full interval is a lower bound; it is not updated.
        let all = entries == self.entries;
        loop {
            if self.state.full.0 <= t && t < self.state.full.1 {
                t = self.state.full.1;
            }
            let (held, first_end) = self.covering(t);
            if held < entries || held == 0 {
                return t;
            }
            match self.state.full.1 == t {
                true if all => self.state.full.1 = first_end,
                false if all => self.state.full = (t, first_end),
                _ => {}
            }
            t = first_end;
        }
    }

    /// Number of intervals that cover `t`, and the first end among them.
    fn covering(&self, t: Cycle<D>) -> (usize, Cycle<D>) {
        let (mut count, mut first_end) = (0, t);
        for block in self.blocks.iter().rev() {
            if block.last() <= t {
                break;
            }
            if block.from > t {
                continue;
            }
            for entry in block.held.iter().rev() {
                if entry.until <= t {
                    break;
                }
                if entry.from <= t {
                    count += 1;
                    first_end = entry.until;
                }
            }
        }
        (count, first_end)
    }

    /// Holds an entry for `line` from its admission at `from` until `until`. No request is expected from
    /// before `past`.
    pub fn hold(&mut self, line: u32, from: Cycle<D>, until: Cycle<D>, past: Cycle<D>) {
        if until <= from {
            return;
        }
        self.state.busy += until - from;
        self.last = self.last.max(until);
        let entry = HeldEntry { from, until, line };
        let mut index = self.blocks.len();
        if self.blocks.back().is_none_or(|last| last.first() > until) {
            index = self.blocks.partition_point(|block| block.first() <= until).max(1).min(index);
        }
        match self.blocks.get_mut(index.wrapping_sub(1)) {
            Some(block) if block.held.len() < BLOCK => block.insert(entry),
            _ => self.insert_with_room(index, entry, past),
        }
    }

    /// Inserts where the block before `index` is full or there is none.
    #[cold]
    fn insert_with_room(&mut self, mut index: usize, entry: HeldEntry<D>, past: Cycle<D>) {
        while index > 1 && self.blocks[0].last() <= past {
            self.drop_first();
            index -= 1;
        }
        let mut held = std::mem::take(&mut self.spare);
        held.reserve(BLOCK);
        let Some(full) = index.checked_sub(1).map(|before| &mut self.blocks[before]) else {
            held.push(entry);
            self.blocks.push_front(Block::of(held));
            return;
        };
        // Insertions in time order do not split a block.
        let at = if full.last() <= entry.until { BLOCK } else { BLOCK / 2 };
        held.extend(full.held.drain(at..));
        let cut = held.first().map_or(Cycle::MAX, |first| first.until);
        *full = Block::of(std::mem::take(&mut full.held));
        if entry.until < cut && at < BLOCK {
            full.insert(entry);
        } else {
            let place = held.iter().take_while(|other| other.until <= entry.until).count();
            held.insert(place, entry);
        }
        self.blocks.insert(index, Block::of(held));
    }

    fn drop_first(&mut self) {
        if let Some(mut gone) = self.blocks.pop_front() {
            self.state.dropped = self.state.dropped.max(gone.last());
            gone.held.clear();
            self.spare = gone.held;
        }
    }

    /// The interval held for `line` that ends after `t`.
    pub fn find(&self, line: u32, t: Cycle<D>) -> Option<HeldEntry<D>> {
        if self.last <= t {
            return None;
        }
        let blocks = self.blocks.iter().rev().take_while(|block| block.last() > t);
        let mut may_hold = blocks.filter(|block| block.lines & bit(line) != 0);
        let found = may_hold.find_map(|block| block.held.iter().rev().find(|entry| entry.line == line));
        found.filter(|entry| entry.until > t).copied()
    }

    /// Total length of all intervals; divided by a time, the average number of entries in use.
    pub fn busy(&self) -> u64 {
        self.state.busy
    }

    /// Number of requests for a time before the oldest interval kept, possibly admitted too early.
    pub fn late(&self) -> u64 {
        self.state.late
    }

    pub fn save(&self) -> InFlightState<D> {
        let held = self.blocks.iter().map(|block| block.held.clone()).collect();
        InFlightState { held, ..self.state.clone() }
    }

    /// Checks a saved state; no time may be after `latest`.
    pub fn check(&self, state: &InFlightState<D>, latest: Cycle<D>) -> Result<(), String> {
        let all = || state.held.iter().flatten();
        if all().count() > SAVED_MAX || state.held.iter().any(|block| !(1..=BLOCK).contains(&block.len())) {
            return Err("too many entries in use in the saved state".to_owned());
        }
        if !all().is_sorted_by_key(|entry| entry.until) || all().any(|entry| entry.from >= entry.until) {
            return Err("the entries in use are out of order".to_owned());
        }
        let last = all().last().map_or(Cycle::ZERO, |entry| entry.until);
        if [last, state.dropped, state.full.0, state.full.1].iter().any(|time| *time > latest) {
            return Err("the time of an entry in use is out of range".to_owned());
        }
        Ok(())
    }

    pub fn restore(&mut self, mut state: InFlightState<D>) {
        self.blocks = std::mem::take(&mut state.held).into_iter().map(Block::of).collect();
        self.last = self.blocks.back().map_or(state.dropped, Block::last);
        self.state = state;
    }
}

#[cfg(test)]
#[path = "in_flight_tests.rs"]
mod tests;
