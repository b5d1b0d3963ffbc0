//! Slots of a core with two threads: each slot is one thread's, so that both threads' books sum to the core's width × cycles.
//!
//! A slot in which an op is dispatched is its thread's. Those of a cycle that stay empty are the books' of the thread whose turn the
//! cycle is, the even cycles thread 0's and the odd ones thread 1's, for the reason why *it* did not take them; where one thread
//! sleeps, all are the other's. Which slots stay empty is known when neither thread can dispatch in a cycle any more: until then each thread keeps
//! what it did.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::accounts::Accounts;
use crate::saved::cycle;
use crate::stats::Cause;

/// A stretch of cycles of one thread, of a single one if it dispatched ops.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Stretch {
    #[serde(deserialize_with = "cycle")]
    until: u64,
    /// Ops dispatched, and of them those that were thrown away.
    used: u32,
    cleared: u32,
    /// Why no more were.
    cause: Cause,
}

/// What a thread did with the slots that are not settled.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SlotLog {
    stretches: VecDeque<Stretch>,
    /// Up to where the stretches go.
    #[serde(deserialize_with = "cycle")]
    end: u64,
    #[serde(deserialize_with = "cycle")]
    settled: u64,
    /// Of these, cycles that were not timed.
    #[serde(deserialize_with = "cycle")]
    untimed: u64,
}

impl SlotLog {
    /// Up to where slots are in the books.
    pub(crate) fn settled(&self) -> u64 {
        self.settled
    }

    /// Timed cycles whose slots are in the books.
    pub(crate) fn timed(&self) -> u64 {
        self.settled - self.untimed
    }

    /// How many stretches wait.
    pub(crate) fn len(&self) -> usize {
        self.stretches.len()
    }

    /// The cycle in which ops were dispatched is over; if slots of it stayed empty, [`empty`](SlotLog::empty) was told.
    pub(crate) fn begin(&mut self, open: u64, [used, cleared]: [u32; 2]) {
        if used > 0 && self.end <= open {
            self.push(Stretch { until: open + 1, used, cleared, cause: Cause::Base });
        }
    }

    /// Slots stayed empty in these cycles, in the first of which so many ops were dispatched.
    pub(crate) fn empty(&mut self, cause: Cause, (from, to): (u64, u64), [used, cleared]: [u32; 2]) {
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

    /// Whether what was saved agrees with itself and with the cycle in which ops are being dispatched.
    pub(crate) fn ends_before(&self, open: u64) -> bool {
        let mut ends = self.stretches.iter().map(|stretch| stretch.until);
        let first = ends.next().is_none_or(|first| first > self.settled);
        let sound = |stretch: &Stretch| stretch.cleared <= stretch.used && stretch.used <= 16;
        let last = self.stretches.back().map_or(self.settled, |stretch| stretch.until);
        first
            && self.untimed <= self.settled
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

/// Enters the slots of both threads up to where both have come.
pub(crate) fn settle(threads: [&mut Accounts; 2]) {
    const LOGGED: &str = "each thread of a core keeps what it did";
    let width = threads[0].width;
    loop {
        let logs = [0, 1].map(|thread: usize| threads[thread].log.as_deref().expect(LOGGED));
        let [Some(first), Some(second)] = logs.map(|log| log.stretches.front().copied()) else { return };
        let (from, to) = (logs[0].settled, first.until.min(second.until));
        let untimed = [first, second].iter().all(|stretch| stretch.cause == Cause::Untimed);
        // The mode of both changes at once, but not in the same cycle: until then it is as if one slept.
        let sleep = |stretch: Stretch| match stretch.cause {
            Cause::Untimed if !untimed => Stretch { cause: Cause::Idle, ..stretch },
            _ => stretch,
        };
        let stretches = [sleep(first), sleep(second)];
        let used: u64 = stretches.iter().map(|stretch| u64::from(stretch.used)).sum();
        let sleeps = stretches.map(|stretch| stretch.cause == Cause::Idle && stretch.used == 0);
        let odd = to / 2 - from / 2;
        let turns = match sleeps {
            [true, false] => [0, to - from],
            [false, true] => [to - from, 0],
            _ => [to - from - odd, odd],
        };
        for (thread, Stretch { used: own, cleared, cause, .. }) in stretches.into_iter().enumerate() {
            let books = &mut *threads[thread];
            books.slots.0[Cause::Base as usize] += u64::from(own - cleared);
            books.slots.0[Cause::Clear as usize] += u64::from(cleared);
            // Where ops are dispatched a stretch is one cycle.
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
