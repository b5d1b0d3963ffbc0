//! A file of entries that are each held for a stretch of time: miss-status holding registers, write-back buffers, the queues of a
//! memory controller.
//!
//! Requests come in any order of time: a device's are priced when it asks, which may be tens of microseconds ahead. So the file keeps the
//! stretches and counts, for the time of a request, those that cover it. It answers as a list without bounds would: the first time at or
//! after the request's at which an entry is free. Stretches stand in the order of their ends, in blocks. A block whose stretches all
//! begin later is passed over, so bookings far ahead cost a near request little, and inserting moves one block at most.
//!
//! Blocks are dropped when all their stretches ended before `past`, which the owner gives: no request is expected from before it. One
//! that comes nevertheless finds what is left, so it may be admitted too early, never too late; [`InFlight::late`] counts these.
//!
//! One reservation: how long a request will hold its entry is not known when it is admitted, so one that is priced late, for an early
//! time, may overlap with later ones that have been admitted already.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Stretches of a block.
const BLOCK: usize = 32;
/// More stretches than this are not accepted from a saved state.
const SAVED_MAX: usize = 1 << 20;

/// A held entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    /// From when.
    pub from: u64,
    /// Until when; from then on another may have it.
    pub until: u64,
    /// For which line.
    pub line: u32,
}

/// Stretches in the order of their ends. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    held: Vec<Held>,
    /// The earliest beginning of all.
    from: u64,
    /// For each line, the bit of its number's last seven bits.
    lines: u128,
}

/// A line's bit in [`Block::lines`].
#[inline]
fn bit(line: u32) -> u128 {
    1 << (line % u128::BITS)
}

impl Block {
    fn of(held: Vec<Held>) -> Block {
        let from = held.iter().map(|held| held.from).min().unwrap_or(u64::MAX);
        let lines = held.iter().fold(0, |lines, held| lines | bit(held.line));
        Block { held, from, lines }
    }

    #[inline]
    fn first(&self) -> u64 {
        self.held.first().map_or(0, |held| held.until)
    }

    #[inline]
    fn last(&self) -> u64 {
        self.held.last().map_or(0, |held| held.until)
    }

    #[inline]
    fn insert(&mut self, entry: Held) {
        let behind = self.held.iter().rev().take_while(|held| held.until > entry.until).count();
        self.held.insert(self.held.len() - behind, entry);
        self.from = self.from.min(entry.from);
        self.lines |= bit(entry.line);
    }
}

/// See the module. Its times are of whatever unit the owner chooses.
#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    entries: usize,
    /// In the order of their ends.
    blocks: VecDeque<Block>,
    /// The end of the last stretch.
    last: u64,
    /// An empty list to be used again.
    spare: Vec<Held>,
    state: InFlightState,
}

/// What a snapshot keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InFlightState {
    /// The blocks, filled in when a snapshot is taken.
    held: Vec<Vec<Held>>,
    /// The last end of all stretches that were dropped.
    dropped: u64,
    /// A stretch in which the file is known to be full, so that a long queue is not walked again and again.
    full: (u64, u64),
    /// The sum of all stretches.
    busy: u64,
    late: u64,
}

impl InFlight {
    /// A file of `entries` entries, at least one.
    pub fn new(entries: u32) -> InFlight {
        let entries = entries as usize;
        assert!(entries > 0, "a file of miss registers or buffers has entries");
        InFlight {
            entries,
            blocks: VecDeque::new(),
            last: 0,
            spare: Vec::with_capacity(BLOCK),
            state: Default::default(),
        }
    }

    /// When a request of time `t` gets an entry.
    #[inline]
    pub fn admit(&mut self, t: u64) -> u64 {
        if self.last <= t { t } else { self.first_free(t, self.entries) }
    }

    /// The same where others that are not booked yet take `waiting` entries. While they take all, the request is not held up.
    #[inline]
    pub fn admit_beside(&mut self, t: u64, waiting: usize) -> u64 {
        if self.last <= t { t } else { self.first_free(t, self.entries.saturating_sub(waiting)) }
    }

    fn first_free(&mut self, mut t: u64, entries: usize) -> u64 {
        self.state.late += u64::from(t < self.state.dropped);
        // Where fewer entries count, more is full than is known.
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

    /// How many stretches cover `t`, and the first end of them.
    fn covering(&self, t: u64) -> (usize, u64) {
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

    /// Holds an entry for `line` from `from`, when it has been admitted, until `until`. No request is expected from before `past`.
    pub fn hold(&mut self, line: u32, from: u64, until: u64, past: u64) {
        if until <= from {
            return;
        }
        self.state.busy += until - from;
        self.last = self.last.max(until);
        let entry = Held { from, until, line };
        let mut index = self.blocks.len();
        if self.blocks.back().is_none_or(|last| last.first() > until) {
            index = self.blocks.partition_point(|block| block.first() <= until).max(1).min(index);
        }
        match self.blocks.get_mut(index.wrapping_sub(1)) {
            Some(block) if block.held.len() < BLOCK => block.insert(entry),
            _ => self.insert_with_room(index, entry, past),
        }
    }

    /// Makes room behind or in the block before `index`, which is full if there is one.
    #[cold]
    fn insert_with_room(&mut self, mut index: usize, entry: Held, past: u64) {
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
        // In the order of time no block is cut.
        let at = if full.last() <= entry.until { BLOCK } else { BLOCK / 2 };
        held.extend(full.held.drain(at..));
        let cut = held.first().map_or(u64::MAX, |first| first.until);
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

    /// The stretch that ends after `t` and is held for `line`.
    pub fn find(&self, line: u32, t: u64) -> Option<Held> {
        if self.last <= t {
            return None;
        }
        let blocks = self.blocks.iter().rev().take_while(|block| block.last() > t);
        let mut may_hold = blocks.filter(|block| block.lines & bit(line) != 0);
        let found = may_hold.find_map(|block| block.held.iter().rev().find(|entry| entry.line == line));
        found.filter(|entry| entry.until > t).copied()
    }

    /// The sum of all stretches: over a time, the average number of entries held.
    pub fn busy(&self) -> u64 {
        self.state.busy
    }

    /// Requests from before what is kept, which may have been admitted too early.
    pub fn late(&self) -> u64 {
        self.state.late
    }

    pub fn save(&self) -> InFlightState {
        let held = self.blocks.iter().map(|block| block.held.clone()).collect();
        InFlightState { held, ..self.state.clone() }
    }

    /// Says what is impossible about a saved state with nothing after `latest`.
    pub fn check(&self, state: &InFlightState, latest: u64) -> Result<(), String> {
        let all = || state.held.iter().flatten();
        if all().count() > SAVED_MAX || state.held.iter().any(|block| !(1..=BLOCK).contains(&block.len())) {
            return Err("more held entries than are kept".to_owned());
        }
        if !all().is_sorted_by_key(|entry| entry.until) || all().any(|entry| entry.from >= entry.until) {
            return Err("held entries out of order".to_owned());
        }
        let last = all().last().map_or(0, |entry| entry.until);
        if [last, state.dropped, state.full.0, state.full.1].iter().any(|time| *time > latest) {
            return Err("a held entry is impossibly late".to_owned());
        }
        Ok(())
    }

    pub fn restore(&mut self, mut state: InFlightState) {
        self.blocks = std::mem::take(&mut state.held).into_iter().map(Block::of).collect();
        self.last = self.blocks.back().map_or(state.dropped, Block::last);
        self.state = state;
    }
}

#[cfg(test)]
#[path = "in_flight_tests.rs"]
mod tests;
