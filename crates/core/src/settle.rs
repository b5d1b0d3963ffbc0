//! Dispatch-slot accounting of a core with two threads: each slot belongs to one thread, so that both
//! threads' accounts sum to the core's width × cycles.
//!
//! A slot that dispatches an op belongs to the op's thread. Unused slots are charged to the thread that owns
//! the cycle (even cycles: thread 0, odd cycles: thread 1), with the cause for which that thread did not use
//! them. If one thread sleeps, the other owns all cycles. A cycle is settled when neither thread can dispatch
//! in it any more; until then each thread logs its own slots.

use std::collections::VecDeque;

use doorbell_sim::CoreCycle;
use serde::{Deserialize, Serialize};

use crate::accounts::Accounts;
use crate::saved::cycle;
use crate::stats::Cause;

/// A run of cycles of one thread; exactly one cycle if ops were dispatched in it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Stretch {
    #[serde(deserialize_with = "cycle")]
    until: CoreCycle,
    /// Ops dispatched, and how many of them were squashed.
    used: u32,
    cleared: u32,
    /// Why the remaining slots were empty.
    cause: Cause,
}

/// One thread's log of slots that are not yet settled.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SlotLog {
    stretches: VecDeque<Stretch>,
    /// The end of the last stretch.
    #[serde(deserialize_with = "cycle")]
    end: CoreCycle,
    #[serde(deserialize_with = "cycle")]
    settled: CoreCycle,
    /// Settled cycles that were not timed.
    #[serde(deserialize_with = "cycle")]
    untimed: u64,
}

impl SlotLog {
    /// The cycle up to which slots are settled.
    pub(crate) fn settled(&self) -> CoreCycle {
        self.settled
    }

    /// Timed cycles whose slots are settled.
    pub(crate) fn timed(&self) -> u64 {
        self.settled.number() - self.untimed
    }

    /// Number of unsettled stretches.
    pub(crate) fn len(&self) -> usize {
        self.stretches.len()
    }

    /// Closes the cycle in which ops were dispatched. If it had empty slots, [`empty`](SlotLog::empty) has
    /// already logged it.
    pub(crate) fn begin(&mut self, open: CoreCycle, [used, cleared]: [u32; 2]) {
        if used > 0 && self.end <= open {
            self.push(Stretch { until: open + 1, used, cleared, cause: Cause::Base });
        }
    }

    /// Logs cycles with empty slots; `used` ops were dispatched in the first of them.
    pub(crate) fn empty(&mut self, cause: Cause, from: CoreCycle, to: CoreCycle, [used, cleared]: [u32; 2]) {
        if used > 0 {
            self.push(Stretch { until: from + 1, used, cleared, cause });
        }
        if to > self.end {
            self.push(Stretch { until: to, used: 0, cleared: 0, cause });
        }
    }

    fn push(&mut self, stretch: Stretch) {
        self.end = stretch.until;
        self.stretches.push_back(stretch);
    }

    /// Whether the saved log is consistent, and with the open cycle `open`.
    pub(crate) fn ends_before(&self, open: CoreCycle) -> bool {
        let mut ends = self.stretches.iter().map(|stretch| stretch.until);
        let first = ends.next().is_none_or(|first| first > self.settled);
        let sound = |stretch: &Stretch| stretch.cleared <= stretch.used && stretch.used <= 16;
        let last = self.stretches.back().map_or(self.settled, |stretch| stretch.until);
        first
            && self.untimed <= self.settled.number()
            && self
                .stretches
                .iter()
                .zip(self.stretches.iter().skip(1))
                .all(|pair| pair.0.until < pair.1.until)
            && self.stretches.iter().all(sound)
            && self.end == last
            && self.end <= open + 1
    }
}

/// Settles the slots of both threads up to the earlier end of their logs.
pub(crate) fn settle(threads: [&mut Accounts; 2]) {
    const LOGGED: &str = "each SMT thread has a slot log";
    let width = threads[0].width;
    loop {
        let logs = [0, 1].map(|thread: usize| threads[thread].log.as_deref().expect(LOGGED));
        let [Some(first), Some(second)] = logs.map(|log| log.stretches.front().copied()) else { return };
        let (from, to) = (logs[0].settled, first.until.min(second.until));
        let untimed = [first, second].iter().all(|stretch| stretch.cause == Cause::Untimed);
        // Both threads change mode together, but not in the same cycle; until the second changes, the first
        // counts as asleep.
        let sleep = |stretch: Stretch| match stretch.cause {
            Cause::Untimed if !untimed => Stretch { cause: Cause::Idle, ..stretch },
            _ => stretch,
        };
        let stretches = [sleep(first), sleep(second)];
        let used: u64 = stretches.iter().map(|stretch| u64::from(stretch.used)).sum();
        let sleeps = stretches.map(|stretch| stretch.cause == Cause::Idle && stretch.used == 0);
        let odd = to.number() / 2 - from.number() / 2;
        let turns = match sleeps {
            [true, false] => [0, to - from],
            [false, true] => [to - from, 0],
            _ => [to - from - odd, odd],
        };
        for (thread, Stretch { used: own, cleared, cause, .. }) in stretches.into_iter().enumerate() {
            let books = &mut *threads[thread];
            books.slots.0[Cause::Base as usize] += u64::from(own - cleared);
            books.slots.0[Cause::Clear as usize] += u64::from(cleared);
            // A stretch with dispatched ops is one cycle long.
            let left = turns[thread] * width.saturating_sub(used);
            match used > 0 && cause.is_front_end() {
                true => books.fetch_bandwidth += left,
                false => books.slots.0[cause as usize] += left,
            }
            let log = books.log.as_deref_mut().expect(LOGGED);
            log.settled = to;
            log.untimed += if untimed { to - from } else { 0 };
            if log.stretches.front().is_some_and(|stretch| stretch.until == to) {
                log.stretches.pop_front();
            }
        }
    }
}
