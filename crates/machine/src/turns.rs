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

use doorbell_riscv::{Hart, Stop};
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
}

impl Machine {
    /// Runs a machine with several harts; see [`Machine::run`].
    pub(crate) fn run_in_turns(&mut self, limits: &Limits) -> Outcome {
        loop {
            if let Some(outcome) = self.ended(limits) {
                return outcome;
            }
            let next_event = self.queue.next_time();
            let earliest = self.runnable().map(|(_, hart)| hart.time()).min();
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
                    if self.instructions() >= limits.instructions {
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

    fn runnable(&self) -> impl Iterator<Item = (usize, &Hart)> {
        self.harts.iter().enumerate().filter(|(_, hart)| Machine::can_run(hart))
    }

    /// How far the harts other than this one have come; those that wait will go on from the present.
    fn others_reached(&self, index: usize) -> Ps {
        let others = self.runnable().filter(|(other, _)| *other != index);
        others.map(|(_, hart)| hart.time()).min().unwrap_or(Ps::MAX)
    }

    fn segment_end(&self, earliest: Ps) -> Ps {
        let quantum = self.config.core.quantum.0;
        Ps((earliest.0 / quantum + 1).saturating_mul(quantum))
    }

    /// Where the segment ends that a limit in time lies in.
    fn last_turns_end(&self, limit: Ps) -> Ps {
        Ps(limit.0.checked_next_multiple_of(self.config.core.quantum.0).unwrap_or(u64::MAX))
    }

    /// The first hart that has not come to the segment's end and need not wait runs until it does.
    fn take_turn(&mut self, end: Ps, limits: &Limits) {
        let waits = |(index, hart): &(usize, &Hart)| {
            self.turns.ahead[*index] && hart.time() > self.others_reached(*index)
        };
        let next = self.runnable().find(|each| each.1.time() < end && !waits(each));
        let (index, hart) = next.expect("the hart that is furthest behind waits for none");
        let now = hart.time();
        let waiting = self.runnable().filter(|each| waits(each) && each.1.time() > now);
        let end = waiting.map(|(_, hart)| hart.time()).min().unwrap_or(end).min(end);
        let others = self.others_reached(index);
        self.harts[index].set_synced_until(others);
        self.turns.ahead[index] = false;
        match self.run_hart(index, end, limits) {
            Stop::Ahead => self.turns.ahead[index] = true,
            Stop::Slot => {}
            _ => self.turns.restart(),
        }
    }
}
