//! The issue queue shared by two SMT threads: occupied entries per cycle. The threads' ops do not arrive in
//! time order, so that release times alone ([`wheel`](crate::wheel)) are not enough.

use doorbell_sim::CoreCycle;
use serde::{Deserialize, Serialize};

use crate::bookings::SPAN;
use crate::saved::cycle;

/// The issue-queue occupancy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Occupancy {
    /// Entries occupied in each cycle of the span that starts at `base`.
    taken: Vec<u16>,
    #[serde(deserialize_with = "cycle")]
    base: CoreCycle,
    size: u16,
    /// Allocations that end after the span.
    far: Vec<Far>,
}

/// An entry allocated in `from` and reusable from `until`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Far {
    #[serde(deserialize_with = "cycle")]
    from: CoreCycle,
    #[serde(deserialize_with = "cycle")]
    until: CoreCycle,
}

impl Occupancy {
    pub(crate) fn new(size: u32) -> Occupancy {
        Occupancy { taken: vec![0; SPAN as usize], base: CoreCycle::ZERO, size: size as u16, far: Vec::new() }
    }

    /// The first cycle from `from` on with a free entry.
    #[inline]
    pub(crate) fn first_free(&self, from: CoreCycle) -> CoreCycle {
        let mut at = from.max(self.base);
        while at < self.base + SPAN && self.taken[(at.number() % SPAN) as usize] >= self.size {
            at += 1;
        }
        if at < self.base + SPAN || self.far.is_empty() { at } else { self.first_free_far(at) }
    }

    /// Like [`first_free`](Occupancy::first_free), after the span.
    #[cold]
    fn first_free_far(&self, mut at: CoreCycle) -> CoreCycle {
        loop {
            let here = || self.far.iter().filter(|far| far.from <= at && at < far.until);
            match here().map(|far| far.until).min() {
                Some(until) if here().count() >= usize::from(self.size) => at = until,
                _ => return at,
            }
        }
    }

    /// Allocates an entry from cycle `from` until `free_from`.
    #[inline]
    pub(crate) fn take(&mut self, from: CoreCycle, free_from: CoreCycle) {
        let end = self.base + SPAN;
        if free_from > end {
            self.far.push(Far { from, until: free_from });
        }
        self.enter(from.max(self.base), free_from.min(end));
    }

    /// Counts an entry in these cycles of the span.
    #[inline]
    fn enter(&mut self, from: CoreCycle, to: CoreCycle) {
        self.each(from, to, |taken| taken.iter_mut().for_each(|taken| *taken += 1));
    }

    /// Applies `change` to these cycles of the span: one slice of the ring, or two if it wraps.
    #[inline]
    fn each(&mut self, from: CoreCycle, to: CoreCycle, mut change: impl FnMut(&mut [u16])) {
        if from >= to {
            return;
        }
        let [first, last] = [from, to - 1].map(|at| (at.number() % SPAN) as usize);
        if first <= last {
            change(&mut self.taken[first..=last]);
        } else {
            change(&mut self.taken[first..]);
            change(&mut self.taken[..=last]);
        }
    }

    /// Advances the span to `base`; no request comes for an earlier cycle any more.
    pub(crate) fn advance(&mut self, base: CoreCycle) {
        let end = self.base + SPAN;
        self.each(self.base, base.min(end), |taken| taken.fill(0));
        self.base = self.base.max(base);
        if !self.far.is_empty() {
            self.move_into_span(end);
        }
    }

    /// Enters far allocations into the cycles between the old and the new end of the span.
    #[cold]
    fn move_into_span(&mut self, end: CoreCycle) {
        let new_end = self.base + SPAN;
        for Far { from, until } in std::mem::take(&mut self.far) {
            self.enter(from.max(end).max(self.base), until.min(new_end));
            if until > new_end {
                self.far.push(Far { from, until });
            }
        }
    }

    /// Whether saved state is consistent and matches this configuration.
    pub(crate) fn is_compatible(&self, fresh: &Occupancy) -> bool {
        // Late bookings can over-commit a cycle, so that `taken` may exceed `size`.
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

    fn first_free(queue: &Occupancy, from: u64) -> u64 {
        queue.first_free(CoreCycle::new(from)).number()
    }

    fn take(queue: &mut Occupancy, from: u64, until: u64) {
        queue.take(CoreCycle::new(from), CoreCycle::new(until));
    }

    proptest! {
        #[test]
        fn near_and_far_entries_match_an_unbounded_list(
            size in 1u32..5,
            ops in proptest::collection::vec((0usize..40, 0u64..3 * SPAN, 0u64..60, 0u64..60), 1..120),
        ) {
            let (mut queue, mut all, mut base) = (Occupancy::new(size), Vec::<(u64, u64)>::new(), 0);
            for (kind, far, near, stay) in ops {
                base += if kind == 0 { far } else { near / 8 };
                queue.advance(CoreCycle::new(base));
                let from = base + if kind % 8 == 1 { far } else { near };
                let full = |at: u64| all.iter().filter(|(from, until)| (*from..*until).contains(&at)).count();
                let ends = all.iter().map(|entry| entry.1).filter(|until| *until > from);
                let free = ends.chain([from]).filter(|at| full(*at) < size as usize).min();
                let expected = free.expect("nothing is taken after the last end");
                prop_assert_eq!(first_free(&queue, from), expected);
                let until = expected + 1 + if kind % 8 == 2 { far } else { stay };
                take(&mut queue, expected, until);
                all.push((expected, until));
            }
        }
    }

    #[test]
    fn a_full_queue_admits_at_the_first_release_in_any_request_order() {
        let mut queue = Occupancy::new(2);
        take(&mut queue, 100, 150);
        take(&mut queue, 100, 120);
        assert_eq!(first_free(&queue, 100), 120, "illegal at 119, legal at 120");
        assert_eq!(first_free(&queue, 80), 80, "a later allocation does not delay an earlier cycle");
        take(&mut queue, 80, 200);
        assert_eq!(first_free(&queue, 110), 150);
        queue.advance(CoreCycle::new(160));
        take(&mut queue, 150, 170);
        assert_eq!([first_free(&queue, 150), first_free(&queue, 170)], [170, 170]);
    }
}
