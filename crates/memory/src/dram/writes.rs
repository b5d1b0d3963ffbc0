//! A channel's write queue: writes wait in it until it is drained at the high mark or when the channel is
//! idle.

use serde::{Deserialize, Serialize};

use super::mapping::Place;
use super::{Command, DramCycle};
use crate::in_flight::{InFlight, InFlightState};

/// A waiting write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub arrived: DramCycle,
    pub place: Place,
}

/// The write queue; see the module.
#[derive(Clone, Debug)]
pub(super) struct WriteQueue {
    /// The waiting lines, oldest first. The rest of each entry is in `waiting`, so that a search walks plain
    /// numbers.
    lines: Vec<u64>,
    /// Filter of the waiting lines, a bit per value of the line number's last six bits; most look-ups end
    /// here.
    some: u64,
    waiting: Vec<Waiting>,
    /// Entries held by writes whose commands are booked, each from its arrival to its column command.
    pub entries: InFlight<Command>,
}

/// Saved state: the waiting lines with their arrivals, and the entries of booked writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WriteQueueState {
    pub waiting: Vec<(u64, DramCycle)>,
    entries: InFlightState<Command>,
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

    /// Arrival of the write with `before` others ahead of it.
    pub fn arrival(&self, before: usize) -> Option<DramCycle> {
        self.waiting.get(before).map(|waiting| waiting.arrived)
    }

    /// First cycle from `at` on at which an entry is free.
    pub fn free_from(&mut self, at: DramCycle) -> DramCycle {
        self.entries.admit_with_reserved(at, self.lines.len())
    }

    /// Removes the first `count` writes and passes each to `go`, which returns its column command. Writes to
    /// the same row go one after another. Entries that ended by `past` may be dropped.
    pub fn drain(&mut self, count: usize, past: DramCycle, mut go: impl FnMut(Waiting) -> DramCycle) {
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

    /// Restores a saved queue; `place` maps a line.
    pub fn restore(
        state: &WriteQueueState,
        capacity: u64,
        place: impl Fn(u64) -> Place,
    ) -> Result<WriteQueue, String> {
        let mut queue = WriteQueue::new(capacity);
        queue.entries.check(&state.entries, super::CYCLE_MAX)?;
        if state.waiting.len() as u64 > capacity || state.waiting.iter().any(|w| w.1 > super::CYCLE_MAX) {
            return Err("a write queue in the saved state is too long or has times out of range".to_owned());
        }
        for &(line, arrived) in &state.waiting {
            if queue.holds(line) {
                return Err("a line is twice in a write queue".to_owned());
            }
            queue.push(line, Waiting { arrived, place: place(line) });
        }
        queue.entries.restore(state.entries.clone());
        Ok(queue)
    }
}
