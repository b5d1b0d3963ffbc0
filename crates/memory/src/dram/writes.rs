//! A channel's write queue: writes wait in it until there are many or nothing else is to do.

use serde::{Deserialize, Serialize};

use super::mapping::Place;

/// A write that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub arrived: u64,
    pub place: Place,
}

/// The entries of a queue that are held by requests whose commands are booked: each from its arrival to its column command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entries {
    /// Arrival and column command of the last requests. A ring as long as the queue.
    gone: Vec<(u64, u64)>,
    next: u64,
    /// The last column command of all.
    last_gone: u64,
}

impl Entries {
    pub fn new(capacity: u64) -> Entries {
        Entries { gone: vec![(0, 0); capacity as usize], next: 0, last_gone: 0 }
    }

    /// A request holds an entry.
    #[inline]
    pub fn hold(&mut self, arrived: u64, column: u64) {
        self.gone[self.next as usize] = (arrived, column);
        self.next = if self.next + 1 == self.gone.len() as u64 { 0 } else { self.next + 1 };
        self.last_gone = self.last_gone.max(column);
    }

    /// The first cycle from `at` on at which, with `waiting` entries taken by others, one is free.
    #[inline]
    pub fn free_from(&self, at: u64, waiting: usize) -> u64 {
        if at >= self.last_gone && waiting < self.gone.len() { at } else { self.free_later(at, waiting) }
    }

    fn free_later(&self, mut at: u64, waiting: usize) -> u64 {
        loop {
            // An entry held from later on does not count: its request was made early.
            let held = self.gone.iter().filter(|(arrived, column)| *arrived <= at && *column > at);
            if held.clone().count() + waiting < self.gone.len() {
                return at;
            }
            match held.map(|(_, column)| *column).min() {
                Some(next) => at = next,
                None => return at,
            }
        }
    }

    /// Says what is wrong with a state that was read back.
    pub fn validate(&self, capacity: u64) -> Result<(), String> {
        let late = |cycle: u64| cycle > super::CYCLE_MAX;
        let times = self.gone.iter().all(|gone| !late(gone.0) && !late(gone.1)) && !late(self.last_gone);
        if self.gone.len() as u64 != capacity || self.next >= capacity || !times {
            return Err("a queue has another length or its times are impossible".to_owned());
        }
        Ok(())
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct WriteQueue {
    /// The lines that wait, oldest first, with the rest beside them so that looking for one is a walk over plain numbers.
    lines: Vec<u64>,
    /// Of each line that waits, the bit of its number's last six bits: mostly it need not be looked for.
    some: u64,
    waiting: Vec<Waiting>,
    entries: Entries,
}

/// What a snapshot keeps: the waiting lines with their arrivals, and the ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WriteQueueState {
    pub waiting: Vec<(u64, u64)>,
    entries: Entries,
}

impl WriteQueue {
    pub fn new(capacity: u64) -> WriteQueue {
        let room = capacity as usize + 1;
        WriteQueue {
            lines: Vec::with_capacity(room),
            some: 0,
            waiting: Vec::with_capacity(room),
            entries: Entries::new(capacity),
        }
    }

    pub fn len(&self) -> usize {
        self.lines.len()
    }

    pub fn holds(&self, line: u64) -> bool {
        self.some >> (line % 64) & 1 != 0 && self.lines.contains(&line)
    }

    pub fn push(&mut self, line: u64, waiting: Waiting) {
        self.lines.push(line);
        self.some |= 1 << (line % 64);
        self.waiting.push(waiting);
    }

    /// When the write with `before` others ahead of it arrived.
    pub fn arrival(&self, before: usize) -> Option<u64> {
        self.waiting.get(before).map(|waiting| waiting.arrived)
    }

    /// The first cycle from `at` on at which an entry is free.
    pub fn free_from(&self, at: u64) -> u64 {
        self.entries.free_from(at, self.len())
    }

    /// Takes out the first `count` writes and hands each to `go`, which answers with its column command; writes of
    /// the same row go one behind the other.
    pub fn drain(&mut self, count: usize, mut go: impl FnMut(Waiting) -> u64) {
        const DONE: u16 = u16::MAX;
        let mut gone = 0;
        let mut first = 0;
        while gone < count && first < self.waiting.len() {
            let Place { row, bank, .. } = self.waiting[first].place;
            if bank != DONE {
                for index in first..self.waiting.len() {
                    let waiting = self.waiting[index];
                    if gone < count && waiting.place.bank == bank && waiting.place.row == row {
                        let column = go(waiting);
                        self.entries.hold(waiting.arrived, column);
                        self.waiting[index].place.bank = DONE;
                        gone += 1;
                    }
                }
            }
            first += 1;
        }
        let mut keep = self.waiting.iter().map(|waiting| waiting.place.bank != DONE);
        self.lines.retain(|_| keep.next().unwrap_or(true));
        self.some = self.lines.iter().fold(0, |some, line| some | 1 << (line % 64));
        self.waiting.retain(|waiting| waiting.place.bank != DONE);
    }

    pub fn save(&self) -> WriteQueueState {
        let waiting = self.lines.iter().zip(&self.waiting).map(|(line, waiting)| (*line, waiting.arrived));
        WriteQueueState { waiting: waiting.collect(), entries: self.entries.clone() }
    }

    /// A queue as it was saved; `place` tells where a line lies.
    pub fn restore(
        state: &WriteQueueState,
        capacity: u64,
        place: impl Fn(u64) -> Place,
    ) -> Result<WriteQueue, String> {
        let mut queue = WriteQueue::new(capacity);
        state.entries.validate(capacity)?;
        if state.waiting.len() as u64 > capacity || state.waiting.iter().any(|w| w.1 > super::CYCLE_MAX) {
            return Err("a write queue is too long or its times impossible".to_owned());
        }
        for &(line, arrived) in &state.waiting {
            if queue.holds(line) {
                return Err("a line waits twice to be written".to_owned());
            }
            queue.push(line, Waiting { arrived, place: place(line) });
        }
        queue.entries = state.entries.clone();
        Ok(queue)
    }
}
