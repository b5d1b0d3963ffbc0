//! The issue queue of two threads: how many entries are taken in each cycle. The threads' ops come in no order of time, so that
//! releases alone ([`wheel`](crate::wheel)) do not tell.

use serde::{Deserialize, Serialize};

use crate::bookings::SPAN;
use crate::saved::cycle;

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Occupancy {
    /// Entries taken in each cycle of the span that begins at `base`.
    taken: Vec<u16>,
    #[serde(deserialize_with = "cycle")]
    base: u64,
    size: u16,
}

impl Occupancy {
    pub(crate) fn new(size: u32) -> Occupancy {
        Occupancy { taken: vec![0; SPAN as usize], base: 0, size: size as u16 }
    }

    /// The first cycle from `from` on with a free entry.
    #[inline]
    pub(crate) fn first_free(&self, from: u64) -> u64 {
        let mut at = from.max(self.base);
        while at < self.base + SPAN && self.taken[(at % SPAN) as usize] >= self.size {
            at += 1;
        }
        at
    }

    /// An entry is taken from a cycle on until it can be used again.
    #[inline]
    pub(crate) fn take(&mut self, from: u64, free_from: u64) {
        let end = free_from.min(self.base + SPAN);
        self.each(from.max(self.base), end, |taken| taken.iter_mut().for_each(|taken| *taken += 1));
    }

    /// Does the same with these cycles of the span, which are one stretch of the list, or two.
    #[inline]
    fn each(&mut self, from: u64, to: u64, mut change: impl FnMut(&mut [u16])) {
        if from >= to {
            return;
        }
        let [first, last] = [from, to - 1].map(|at| (at % SPAN) as usize);
        if first <= last {
            change(&mut self.taken[first..=last]);
        } else {
            change(&mut self.taken[first..]);
            change(&mut self.taken[..=last]);
        }
    }

    /// Nobody asks for a cycle before `base` any more.
    pub(crate) fn advance(&mut self, base: u64) {
        self.each(self.base, base.min(self.base + SPAN), |taken| taken.fill(0));
        self.base = self.base.max(base);
    }

    /// Whether a saved one is one of this kind and agrees with itself.
    pub(crate) fn fits(&self, fresh: &Occupancy) -> bool {
        // An op that came late may have been given an entry that one of a later cycle has too.
        self.taken.len() == fresh.taken.len()
            && self.size == fresh.size
            && self.taken.iter().all(|taken| *taken < u16::MAX / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_has_an_entry_when_the_first_is_given_back_whoever_asks_last() {
        let mut queue = Occupancy::new(2);
        queue.take(100, 150);
        queue.take(100, 120);
        assert_eq!(queue.first_free(100), 120, "illegal at 119, legal at 120");
        assert_eq!(queue.first_free(80), 80, "what came later does not hold up what was there before it");
        queue.take(80, 200);
        assert_eq!(queue.first_free(110), 150);
        queue.advance(160);
        queue.take(150, 170);
        assert_eq!([queue.first_free(150), queue.first_free(170)], [170, 170]);
    }
}
