//! Several harts take turns.
//!
//! The harts' way is cut into segments that end at the multiples of `core.quantum` and at each event. Within a segment they
//! run one after another, by number, each to the segment's end. Only what would show that they do not run at the
//! same time keeps them closer: a hart that wants to read the time or to access a device waits until no other is
//! behind it, so that time never seems to go back and devices are accessed in order of time.
//!
//! Whose turn it is follows from the machine's state alone: where a run is stopped and taken up again, by a limit, a
//! debugger or a checkpoint, nothing comes out differently. That is why a limit in time does not cut a turn short
//! (the run ends once every hart has come to the end of the limit's segment), why it is part of the state which harts
//! wait, and why a turn ends where another hart's waiting may.

use doorbell_riscv::Stop;
use doorbell_sim::Ps;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::run::{Limits, Outcome};

/// Which harts wait for others to catch up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Turns {
    ahead: Vec<bool>,
}

impl Turns {
    pub fn new(harts: usize) -> Turns {
        Turns { ahead: vec![false; harts] }
    }

    /// Something happened that may give a waiting hart another instruction to execute, such as an interrupt.
    pub fn restart(&mut self) {
        self.ahead.fill(false);
    }

    /// Whether this can be the state of so many harts.
    pub fn is_for(&self, harts: usize) -> bool {
        self.ahead.len() == harts
    }

    /// The first hart that has not come to the segment's end and need not wait.
    fn next(&self, at: &[Ps], end: Ps) -> Turn {
        let (first, second) = first_two(at);
        let others = |index: usize| if at[index] == first { second } else { first };
        let waits = |index: &usize| self.ahead[*index] && at[*index] > others(*index);
        let next = (0..at.len()).find(|index| at[*index] < end && !waits(index));
        let hart = next.expect("the hart that is furthest behind waits for none");
        let waiting = (0..at.len()).filter(|index| at[*index] > at[hart] && waits(index));
        let end = waiting.map(|index| at[index]).min().unwrap_or(end).min(end);
        Turn { hart, end, others: others(hart) }
    }
}

/// Who runs, until when, and how far the others have come; those that wait will go on from the present.
struct Turn {
    hart: usize,
    end: Ps,
    others: Ps,
}

/// The two earliest times, which are the same if two harts are the earliest.
fn first_two(at: &[Ps]) -> (Ps, Ps) {
    at.iter().fold((Ps::MAX, Ps::MAX), |(first, second), &at| (first.min(at), second.min(first.max(at))))
}

impl Machine {
    /// Runs a machine with several harts; see [`Machine::run`].
    pub(crate) fn run_in_turns(&mut self, limits: &Limits) -> Outcome {
        loop {
            if let Some(outcome) = self.ended(limits) {
                return outcome;
            }
            let next_event = self.queue.next_time();
            let earliest = self.harts.ready().iter().copied().min().filter(|at| *at < Ps::MAX);
            if earliest.is_none() && next_event == Ps::MAX {
                return self.asleep(limits);
            }
            let end = self.last_turns_end(limits.time).min(next_event);
            if next_event > limits.time && earliest.is_none_or(|earliest| earliest >= end) {
                self.reached = self.reached.max(limits.time);
                return Outcome::Time;
            }
            match earliest {
                Some(earliest) if earliest < next_event => {
                    if self.instructions_left(limits) == 0 {
                        return Outcome::Instructions;
                    }
                    let end = self.segment_end(earliest).min(next_event);
                    self.take_turn(end, limits);
                }
                _ => {
                    self.handle_next_event();
                    self.turns.restart();
                }
            }
        }
    }

    fn segment_end(&self, earliest: Ps) -> Ps {
        let quantum = self.config.core.quantum.0;
        Ps((earliest.0 / quantum + 1).saturating_mul(quantum))
    }

    /// Where the segment ends that a limit in time lies in.
    fn last_turns_end(&self, limit: Ps) -> Ps {
        Ps(limit.0.checked_next_multiple_of(self.config.core.quantum.0).unwrap_or(u64::MAX))
    }

    /// The next hart runs until its turn ends.
    fn take_turn(&mut self, end: Ps, limits: &Limits) {
        let Turn { hart: index, end, others } = self.turns.next(self.harts.ready(), end);
        self.harts[index].set_synced_until(others);
        self.turns.ahead[index] = false;
        match self.run_hart(index, end, limits) {
            Stop::Ahead => self.turns.ahead[index] = true,
            Stop::Slot => {}
            _ => self.turns.restart(),
        }
    }
}
