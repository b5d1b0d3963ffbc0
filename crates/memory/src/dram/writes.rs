//! A channel's write queue: writes wait in it until there are many or nothing else is to do.

use serde::{Deserialize, Serialize};

use super::mapping::Place;
use crate::in_flight::{InFlight, InFlightState};

/// A write that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub arrived: u64,
    pub place: Place,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct WriteQueue {
    /// The lines that wait, oldest first, with the rest beside them so that looking for one is a walk over plain numbers.
    lines: Vec<u64>,
    /// Of each line that waits, the bit of its number's last six bits: mostly it need not be looked for.
    some: u64,
    waiting: Vec<Waiting>,
    /// The entries that are held by writes whose commands are booked: each from its arrival to its column command.
    pub entries: InFlight,
}

/// What a snapshot keeps: the waiting lines with their arrivals, and the entries of others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WriteQueueState {
    pub waiting: Vec<(u64, u64)>,
    entries: InFlightState,
}

impl WriteQueue {
    pub fn new(capacity: u64) -> WriteQueue {
        let room = capacity as usize + 1;
        WriteQueue {
            lines: Vec::with_capacity(room),
            some: 0,
            waiting: Vec::with_capacity(room),
            entries: InFlight::new(capacity as u32),
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
    pub fn free_from(&mut self, at: u64) -> u64 {
        self.entries.admit_beside(at, self.lines.len())
    }

    /// Takes out the first `count` writes and hands each to `go`, which answers with its column command; writes of
    /// the same row go one behind the other. What was over by `past` may be forgotten.
    pub fn drain(&mut self, count: usize, past: u64, mut go: impl FnMut(Waiting) -> u64) {
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
                        self.entries.hold(0, waiting.arrived, column, past);
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
        WriteQueueState { waiting: waiting.collect(), entries: self.entries.save() }
    }

    /// A queue as it was saved; `place` tells where a line lies.
    pub fn restore(
        state: &WriteQueueState,
        capacity: u64,
        place: impl Fn(u64) -> Place,
    ) -> Result<WriteQueue, String> {
        let mut queue = WriteQueue::new(capacity);
        queue.entries.check(&state.entries, super::CYCLE_MAX)?;
        if state.waiting.len() as u64 > capacity || state.waiting.iter().any(|w| w.1 > super::CYCLE_MAX) {
            return Err("a write queue is too long or its times impossible".to_owned());
        }
        for &(line, arrived) in &state.waiting {
            if queue.holds(line) {
                return Err("a line waits twice to be written".to_owned());
            }
            queue.push(line, Waiting { arrived, place: place(line) });
        }
        queue.entries.restore(state.entries.clone());
        Ok(queue)
    }
}
