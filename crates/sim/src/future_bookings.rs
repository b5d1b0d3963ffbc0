//! Resource time booked beyond the present, so that busy-time counters can be read at any moment.
//!
//! A model that computes a request's timing when it is made adds the whole busy time to its counter at once.
//! A measurement that ends earlier must subtract the part after its end: [`FutureBookings::time_after`].

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::time::Ps;

/// Maximum number of intervals kept; beyond it, the oldest are assumed to have ended.
const KEPT_MAX: usize = 4096;

/// Booked intervals that may end in the future.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FutureBookings {
    intervals: VecDeque<(Ps, Ps)>,
}

impl FutureBookings {
    /// Adds a booked interval.
    #[inline]
    pub fn add(&mut self, begin: Ps, end: Ps) {
        if begin < end {
            if self.intervals.len() == KEPT_MAX {
                self.intervals.pop_front();
            }
            self.intervals.push_back((begin, end));
        }
    }

    /// Drops intervals that ended by `now`; no later query is for an earlier time.
    #[inline]
    pub fn forget_ended(&mut self, now: Ps) {
        while self.intervals.front().is_some_and(|(_, end)| *end <= now) {
            self.intervals.pop_front();
        }
    }

    /// Total picoseconds of all intervals after `at`.
    pub fn time_after(&self, at: Ps) -> u64 {
        self.intervals.iter().map(|(begin, end)| end.saturating_sub(at.max(*begin)).0).sum()
    }

    /// Whether a restored state is valid: no interval ends after `latest`.
    pub fn is_consistent(&self, latest: Ps) -> bool {
        self.intervals.len() <= KEPT_MAX
            && self.intervals.iter().all(|(begin, end)| begin < end && *end <= latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_after_counts_only_the_part_after_a_moment() {
        let mut ahead = FutureBookings::default();
        [(10, 20), (40, 70), (30, 35), (50, 50)]
            .into_iter()
            .for_each(|(begin, end)| ahead.add(Ps(begin), Ps(end)));
        assert_eq!([0, 15, 33, 50, 70].map(|at| ahead.time_after(Ps(at))), [45, 40, 32, 20, 0]);
        ahead.forget_ended(Ps(36));
        assert_eq!(
            (ahead.intervals.len(), ahead.time_after(Ps(36))),
            (2, 30),
            "an ended interval after an unended one is kept"
        );
    }

    #[test]
    fn kept_intervals_are_bounded() {
        let mut ahead = FutureBookings::default();
        (0..5000).for_each(|n| ahead.add(Ps(2 * n), Ps(2 * n + 1)));
        assert_eq!(ahead.time_after(Ps::ZERO), KEPT_MAX as u64);
        assert!(ahead.is_consistent(Ps(9999)) && !ahead.is_consistent(Ps(9998)));
    }
}
