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
    /// Stretches of entries that end behind the span.
    far: Vec<Far>,
}

/// An entry is taken from a cycle on until it can be used again.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Far {
    #[serde(deserialize_with = "cycle")]
    from: u64,
    #[serde(deserialize_with = "cycle")]
    until: u64,
}

impl Occupancy {
    pub(crate) fn new(size: u32) -> Occupancy {
        Occupancy { taken: vec![0; SPAN as usize], base: 0, size: size as u16, far: Vec::new() }
    }

    /// The first cycle from `from` on with a free entry.
    #[inline]
    pub(crate) fn first_free(&self, from: u64) -> u64 {
        let mut at = from.max(self.base);
        while at < self.base + SPAN && self.taken[(at % SPAN) as usize] >= self.size {
            at += 1;
        }
        if at < self.base + SPAN || self.far.is_empty() { at } else { self.first_free_far(at) }
    }

    /// The same behind the span.
    #[cold]
    fn first_free_far(&self, mut at: u64) -> u64 {
        loop {
            let here = || self.far.iter().filter(|far| far.from <= at && at < far.until);
            match here().map(|far| far.until).min() {
                Some(until) if here().count() >= usize::from(self.size) => at = until,
                _ => return at,
            }
        }
    }

    /// An entry is taken from a cycle on until it can be used again.
    #[inline]
    pub(crate) fn take(&mut self, from: u64, free_from: u64) {
        let end = self.base + SPAN;
        if free_from > end {
            self.far.push(Far { from, until: free_from });
        }
        self.enter(from.max(self.base), free_from.min(end));
    }

    /// Counts an entry in these cycles of the span.
    #[inline]
    fn enter(&mut self, from: u64, to: u64) {
        self.each(from, to, |taken| taken.iter_mut().for_each(|taken| *taken += 1));
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

    /// No request is for a cycle before `base` any more.
    pub(crate) fn advance(&mut self, base: u64) {
        let end = self.base + SPAN;
        self.each(self.base, base.min(end), |taken| taken.fill(0));
        self.base = self.base.max(base);
        if !self.far.is_empty() {
            self.come_near(end);
        }
    }

    /// What lay behind the old end of the span and before the new one is in the span now.
    #[cold]
    fn come_near(&mut self, end: u64) {
        let new_end = self.base + SPAN;
        for Far { from, until } in std::mem::take(&mut self.far) {
            self.enter(from.max(end).max(self.base), until.min(new_end));
            if until > new_end {
                self.far.push(Far { from, until });
            }
        }
    }

    /// Whether a saved one is one of this kind and agrees with itself.
    pub(crate) fn fits(&self, fresh: &Occupancy) -> bool {
        // An op that came late may have been given an entry that one of a later cycle has too.
        self.taken.len() == fresh.taken.len()
            && self.size == fresh.size
            && self.taken.iter().all(|taken| *taken < u16::MAX / 2)
            && self.far.len() < usize::from(u16::MAX / 2)
            && self.far.iter().all(|far| far.from < far.until && far.until > self.base + SPAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn near_and_far_entries_are_answered_as_by_a_list_without_bounds(
            size in 1u32..5,
            ops in proptest::collection::vec((0usize..40, 0u64..3 * SPAN, 0u64..60, 0u64..60), 1..120),
        ) {
            let (mut queue, mut all, mut base) = (Occupancy::new(size), Vec::<(u64, u64)>::new(), 0);
            for (kind, far, near, stay) in ops {
                base += if kind == 0 { far } else { near / 8 };
                queue.advance(base);
                let from = base + if kind % 8 == 1 { far } else { near };
                let full = |at: u64| all.iter().filter(|(from, until)| (*from..*until).contains(&at)).count();
                let ends = all.iter().map(|entry| entry.1).filter(|until| *until > from);
                let free = ends.chain([from]).filter(|at| full(*at) < size as usize).min();
                let expected = free.expect("nothing is taken after the last end");
                prop_assert_eq!(queue.first_free(from), expected);
                let until = expected + 1 + if kind % 8 == 2 { far } else { stay };
                queue.take(expected, until);
                all.push((expected, until));
            }
        }
    }

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
