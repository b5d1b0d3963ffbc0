//! What is booked for later than the present, so that counters of time can be read at any moment as if nothing were.
//!
//! Models that price a request when it is made count at once what it takes. Of a measurement that ends meanwhile, only what lies before its
//! end is a part: [`Ahead::behind`] says how much does not.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::time::Ps;

/// Of more stretches than these, the oldest are taken to be over.
const KEPT_MAX: usize = 4096;

/// Stretches of time that may not be over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ahead {
    stretches: VecDeque<(Ps, Ps)>,
}

impl Ahead {
    /// A stretch was booked.
    #[inline]
    pub fn add(&mut self, begin: Ps, end: Ps) {
        if begin < end {
            if self.stretches.len() == KEPT_MAX {
                self.stretches.pop_front();
            }
            self.stretches.push_back((begin, end));
        }
    }

    /// No request asks for a moment before `now` any more.
    #[inline]
    pub fn forget_until(&mut self, now: Ps) {
        while self.stretches.front().is_some_and(|(_, end)| *end <= now) {
            self.stretches.pop_front();
        }
    }

    /// Picoseconds of all stretches that lie behind a moment.
    pub fn behind(&self, at: Ps) -> u64 {
        self.stretches.iter().map(|(begin, end)| end.saturating_sub(at.max(*begin)).0).sum()
    }

    /// Whether a saved one is possible.
    pub fn is_consistent(&self, latest: Ps) -> bool {
        self.stretches.len() <= KEPT_MAX
            && self.stretches.iter().all(|(begin, end)| begin < end && *end <= latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_is_booked_only_the_part_behind_a_moment_is_told() {
        let mut ahead = Ahead::default();
        [(10, 20), (40, 70), (30, 35), (50, 50)]
            .into_iter()
            .for_each(|(begin, end)| ahead.add(Ps(begin), Ps(end)));
        assert_eq!([0, 15, 33, 50, 70].map(|at| ahead.behind(Ps(at))), [45, 40, 32, 20, 0]);
        ahead.forget_until(Ps(36));
        assert_eq!(
            (ahead.stretches.len(), ahead.behind(Ps(36))),
            (2, 30),
            "what is behind one that is not over stays"
        );
    }

    #[test]
    fn no_more_are_kept_than_is_stated() {
        let mut ahead = Ahead::default();
        (0..5000).for_each(|n| ahead.add(Ps(2 * n), Ps(2 * n + 1)));
        assert_eq!(ahead.behind(Ps::ZERO), KEPT_MAX as u64);
        assert!(ahead.is_consistent(Ps(9999)) && !ahead.is_consistent(Ps(9998)));
    }
}
