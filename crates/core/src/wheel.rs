//! The issue queue: entries are allocated in program order and released in any order. A timing wheel counts
//! the releases of each upcoming cycle; releases beyond its span are in a heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use doorbell_sim::CoreCycle;
use serde::{Deserialize, Serialize};

use crate::modulo::Modulo;
use crate::saved::cycle;

/// Span of the wheel in cycles.
const SPAN: u64 = 1024;

/// The issue queue as a timing wheel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Wheel {
    /// Releases in each cycle of the span.
    counts: Modulo<u16>,
    #[serde(deserialize_with = "cycle")]
    now: CoreCycle,
    size: u32,
    held: u32,
    in_wheel: u32,
    far: BinaryHeap<Reverse<CoreCycle>>,
}

impl Wheel {
    pub(crate) fn new(size: u32) -> Wheel {
        Wheel {
            counts: Modulo::new(SPAN, 0),
            now: CoreCycle::ZERO,
            size,
            held: 0,
            in_wheel: 0,
            far: BinaryHeap::new(),
        }
    }

    /// The first cycle from `at` on with a free entry. `at` never decreases.
    #[inline]
    pub(crate) fn admit(&mut self, at: CoreCycle) -> CoreCycle {
        if at == self.now + 1 && self.far.is_empty() {
            // The common case: one cycle later, and an empty heap.
            self.now = at;
            self.release();
        } else if at > self.now {
            self.advance(at);
        }
        if self.held >= self.size {
            self.wait();
        }
        self.now
    }

    /// Allocates an entry that can be reused from cycle `free_from` on.
    #[inline]
    pub(crate) fn push(&mut self, free_from: CoreCycle) {
        debug_assert!(free_from > self.now);
        self.held += 1;
        if free_from - self.now < SPAN {
            *self.counts.get_mut(free_from.number()) += 1;
            self.in_wheel += 1;
        } else {
            self.far.push(Reverse(free_from));
        }
    }

    /// Releases the entries of the current cycle.
    #[inline(always)]
    fn release(&mut self) {
        let released = u32::from(std::mem::take(self.counts.get_mut(self.now.number())));
        self.held -= released;
        self.in_wheel -= released;
    }

    #[inline(never)]
    fn advance(&mut self, at: CoreCycle) {
        while self.now < at && self.in_wheel > 0 {
            self.now += 1;
            self.release();
        }
        self.now = at;
        while self.far.peek().is_some_and(|first| first.0 <= at) {
            self.far.pop();
            self.held -= 1;
        }
    }

    #[cold]
    fn wait(&mut self) {
        while self.held >= self.size {
            let next = match self.far.peek() {
                Some(first) if self.in_wheel == 0 => first.0,
                _ => self.now + 1,
            };
            self.advance(next);
        }
    }

    /// Whether saved state is consistent and matches this configuration.
    pub(crate) fn is_compatible(&self, fresh: &Wheel) -> bool {
        let counted: u32 = self.counts.all().iter().map(|count| u32::from(*count)).sum();
        let far_is_sound = self.far.iter().all(|at| at.0 > self.now && at.0.number() < u64::MAX / 4);
        self.counts.all().len() == fresh.counts.all().len()
            && self.size == fresh.size
            && self.held <= self.size
            && counted == self.in_wheel
            && u64::from(self.in_wheel) + self.far.len() as u64 == u64::from(self.held)
            && *self.counts.get(self.now.number()) == 0
            && far_is_sound
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_full_queue_admits_exactly_at_the_first_release() {
        let mut wheel = Wheel::new(2);
        assert_eq!(wheel.admit(CoreCycle::new(1)).number(), 1);
        wheel.push(CoreCycle::new(50));
        assert_eq!(wheel.admit(CoreCycle::new(1)).number(), 1);
        wheel.push(CoreCycle::new(20));
        assert_eq!(wheel.admit(CoreCycle::new(19)).number(), 20, "illegal at 19, legal at 20");
        wheel.push(CoreCycle::new(5_000));
        assert_eq!(wheel.admit(CoreCycle::new(21)).number(), 50);
        wheel.push(CoreCycle::new(6_000));
        assert_eq!(wheel.admit(CoreCycle::new(60)).number(), 5_000, "beyond the wheel's span");
    }

    proptest! {
        #[test]
        fn wheel_matches_a_list_of_release_times(size in 1u32..6, steps in proptest::collection::vec((0u64..40, 1u64..3000), 1..300)) {
            let (mut wheel, mut plain, mut at) = (Wheel::new(size), Vec::<u64>::new(), 1u64);
            for (later, stay) in steps {
                at += later;
                plain.sort_unstable();
                plain.retain(|free| *free > at);
                while plain.len() >= size as usize {
                    at = plain.remove(0);
                    plain.retain(|free| *free > at);
                }
                prop_assert_eq!(wheel.admit(CoreCycle::new(at)).number(), at);
                wheel.push(CoreCycle::new(at + stay));
                plain.push(at + stay);
            }
        }
    }
}
