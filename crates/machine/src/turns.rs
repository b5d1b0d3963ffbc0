//! Round-robin execution of several harts.
//!
//! Time is divided into segments that end at multiples of `core.quantum` and at each event. Within a segment
//! the harts run one after another, by number, each to the segment's end. Harts stay closer only where the
//! difference would be visible: a hart that reads the time or accesses a device waits until no other hart is
//! behind it. So time never appears to go back, and device accesses are in time order.
//!
//! With `core.lookahead`, segments have that length, and their events are handled when all harts have reached
//! the end. A hart that runs that long finds its state in the host's caches. Turns that end at each event or,
//! for timed harts, at each block would evict it. A hart that reads the time or accesses a device then also
//! waits for events behind it.
//!
//! The order of turns depends only on the machine's state: stopping and continuing a run, by a limit, a
//! debugger or a checkpoint, changes no result. Therefore a time limit does not cut a turn short: the run
//! ends when every hart has reached the end of the limit's segment. For the same reason the set of waiting
//! harts is part of the state, and a turn ends where another hart's wait may end.

use doorbell_riscv::Stop;
use doorbell_sim::Ps;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::run::{Limits, Step, Turn};

/// Harts that wait for the others to catch up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Turns {
    ahead: Vec<bool>,
}

impl Turns {
    pub fn new(harts: usize) -> Turns {
        Turns { ahead: vec![false; harts] }
    }

    /// Ends all waits, after something that may let a waiting hart execute another instruction, such as an
    /// interrupt.
    pub fn restart(&mut self) {
        self.ahead.fill(false);
    }

    /// Whether this state fits a machine with `harts` harts.
    pub fn is_for(&self, harts: usize) -> bool {
        self.ahead.len() == harts
    }

    /// The first hart that has not reached the segment's end and need not wait for other harts or for the
    /// next event. `first` and `second` are the harts' two earliest times.
    fn next(&self, at: &[Ps], first: Ps, second: Ps, end: Ps, event: Ps) -> Option<Turn> {
        let others = |index: usize| event.min(if at[index] == first { second } else { first });
        let waits = |index: &usize| self.ahead[*index] && at[*index] > others(*index);
        let hart = (0..at.len()).find(|index| at[*index] < end && !waits(index))?;
        let waiting = (0..at.len()).filter(|index| at[*index] > at[hart] && waits(index));
        let end = waiting.map(|index| at[index]).min().unwrap_or(end).min(end);
        Some(Turn { hart, end, others: others(hart) })
    }

    /// Begins a hart's turn.
    fn begin(&mut self, hart: usize) {
        self.ahead[hart] = false;
    }

    /// Ends a hart's turn, which stopped for the reason `stop`.
    fn finish(&mut self, hart: usize, stop: &Stop) {
        match stop {
            Stop::Ahead => self.ahead[hart] = true,
            Stop::Slot => {}
            _ => self.restart(),
        }
    }
}

/// The two earliest times, which are equal if two harts share the earliest.
fn first_two(at: &[Ps]) -> (Ps, Ps) {
    at.iter().fold((Ps::MAX, Ps::MAX), |(first, second), &at| (first.min(at), second.min(first.max(at))))
}

impl Machine {
    /// The next step of several harts that execute in turns.
    pub(crate) fn next_turn(&mut self, limits: &Limits) -> Step {
        let (segment, ahead) = self.segment();
        let event = self.queue.next_time();
        let (first, second) = first_two(self.harts.ready());
        let now = first.min(event);
        if now == Ps::MAX {
            return Step::Asleep;
        }
        if self.corunners.is_some() && self.uses_timing() {
            self.run_corunners(now);
            if self.outcome.is_some() {
                return Step::Stored;
            }
        }
        let begin = Ps(now.0 - now.0 % segment.0);
        let end = begin.saturating_add(segment);
        let turns_end = if ahead { end } else { end.min(event) };
        match self.turns.next(self.harts.ready(), first, second, turns_end, event) {
            Some(turn) if begin < limits.time => Step::Hart(turn),
            None if event <= limits.time => Step::Event,
            _ => Step::Time,
        }
    }

    /// Length of segments, and whether events in a segment wait for its end.
    fn segment(&self) -> (Ps, bool) {
        match self.config.core.lookahead {
            Ps::ZERO => (self.config.core.quantum, false),
            lookahead => (lookahead, true),
        }
    }

    /// Runs a hart until its turn ends.
    pub(crate) fn take_turn(&mut self, &Turn { hart, end, others }: &Turn, limits: &Limits) {
        self.harts[hart].set_synced_until(others);
        self.turns.begin(hart);
        let stop = self.run_hart(hart, end, limits);
        self.turns.finish(hart, &stop);
    }
}
