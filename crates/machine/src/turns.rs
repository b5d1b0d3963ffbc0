//! Several harts take turns.
//!
//! The harts' way is cut into segments that end at the multiples of `core.quantum` and at each event. Within a segment they
//! run one after another, by number, each to the segment's end. Only what would show that they do not run at the
//! same time keeps them closer: a hart that wants to read the time or to access a device waits until no other is
//! behind it, so that time never seems to go back and devices are accessed in order of time.
//!
//! With a `core.lookahead` segments are as long as that, and events in them happen when all harts have come to their end: a hart that goes on
//! for some time finds its state in the host's caches, where turns that end at each event of many cores' frames, or, of timed
//! harts, with each block, find it gone. A hart that wants to read the time or to access a device waits for events behind it, too.
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

    /// The first hart that has not come to the segment's end and need not wait: for the others, of which these two are earliest, or
    /// for the next event.
    fn next(&self, at: &[Ps], (first, second): (Ps, Ps), end: Ps, event: Ps) -> Option<Turn> {
        let others = |index: usize| event.min(if at[index] == first { second } else { first });
        let waits = |index: &usize| self.ahead[*index] && at[*index] > others(*index);
        let hart = (0..at.len()).find(|index| at[*index] < end && !waits(index))?;
        let waiting = (0..at.len()).filter(|index| at[*index] > at[hart] && waits(index));
        let end = waiting.map(|index| at[index]).min().unwrap_or(end).min(end);
        Some(Turn { hart, end, others: others(hart) })
    }

    /// A hart's turn begins.
    fn begin(&mut self, hart: usize) {
        self.ahead[hart] = false;
    }

    /// A hart's turn has ended so.
    fn ended(&mut self, hart: usize, stop: &Stop) {
        match stop {
            Stop::Ahead => self.ahead[hart] = true,
            Stop::Slot => {}
            _ => self.restart(),
        }
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
        let (segment, ahead) = self.segment();
        let end_of = |at: Ps| Ps((at.0 / segment.0 + 1).saturating_mul(segment.0));
        // Where the segment ends that the limit in time lies in.
        let last_end = Ps(limits.time.0.checked_next_multiple_of(segment.0).unwrap_or(u64::MAX));
        loop {
            if let Some(outcome) = self.pending_outcome(limits) {
                return outcome;
            }
            let event = self.queue.next_time();
            let earliest = first_two(self.harts.ready());
            let now = earliest.0.min(event);
            if now == Ps::MAX {
                return self.asleep(limits);
            }
            if self.corunners.is_some() && self.uses_timing() {
                self.run_corunners(now);
                if self.outcome.is_some() {
                    continue;
                }
            }
            let end = end_of(now);
            let turns_end = if ahead { end } else { end.min(event) };
            match self.turns.next(self.harts.ready(), earliest, turns_end, event) {
                Some(turn) if end <= last_end => {
                    if self.instructions_left(limits) == 0 {
                        return Outcome::Instructions;
                    }
                    self.take_turn(&turn, limits);
                }
                None if event <= limits.time => {
                    self.handle_next_event();
                    self.turns.restart();
                }
                _ => {
                    self.reached = self.reached.max(limits.time);
                    return Outcome::Time;
                }
            }
        }
    }

    /// How long segments are, and whether events in them wait for their end.
    fn segment(&self) -> (Ps, bool) {
        match self.config.core.lookahead {
            Ps::ZERO => (self.config.core.quantum, false),
            lookahead => (lookahead, true),
        }
    }

    /// A hart runs until its turn ends.
    fn take_turn(&mut self, &Turn { hart, end, others }: &Turn, limits: &Limits) {
        self.harts[hart].set_synced_until(others);
        self.turns.begin(hart);
        let stop = match self.uses_timing() {
            true => self.run_hart_timed(hart, end, limits),
            false => self.run_hart(hart, end, limits),
        };
        self.turns.ended(hart, &stop);
    }
}
