//! Resources that are released in program order, and widths of in-order stages.

use doorbell_sim::CoreCycle;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::modulo::{Modulo, cycles};
use crate::saved::cycle;
use crate::shared::{Shared, Stage};

/// A queue whose entries are allocated and released in program order: reorder buffer, load and store queue,
/// registers. It records, per entry, when the entry can be reused: a cycle, or a cycle with more information.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "T: Copy + Into<u64> + Serialize + DeserializeOwned")]
pub(crate) struct Ring<T: Copy = CoreCycle> {
    #[serde(deserialize_with = "cycles")]
    free_from: Modulo<T>,
    #[serde(deserialize_with = "cycle")]
    next: u64,
    #[serde(deserialize_with = "cycle")]
    size: u64,
}

impl<T: Copy + Default> Ring<T> {
    pub(crate) fn new(size: u32) -> Ring<T> {
        let size = u64::from(size);
        Ring { free_from: Modulo::new(size, T::default()), next: size, size }
    }

    /// Number of entries.
    #[inline(always)]
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The cycle from which the next op has an entry.
    #[inline(always)]
    pub(crate) fn free_from(&self) -> T {
        *self.free_from.get(self.next - self.size)
    }

    /// The cycle from which there are entries for `ops` ops, at most [`size`](Ring::size).
    #[inline(always)]
    pub(crate) fn free_for(&self, ops: u64) -> T {
        *self.free_from.get(self.next - self.size + ops - 1)
    }

    /// Allocates the next op's entry, which can be reused from cycle `free_from` on.
    #[inline(always)]
    pub(crate) fn push(&mut self, free_from: T) {
        self.free_from.set(self.next, free_from);
        self.next += 1;
    }

    /// Changes the number of entries, up to the initial number.
    pub(crate) fn resize(&mut self, size: u32) {
        self.size = u64::from(size);
    }

    /// Whether saved state matches this configuration.
    pub(crate) fn is_compatible(&self, fresh: &Ring<T>) -> bool {
        self.free_from.all().len() == fresh.free_from.all().len()
            && self.size == fresh.size
            && self.next >= self.size
    }
}

/// A stage that handles ops in order, at most `width` per cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limiter {
    #[serde(deserialize_with = "cycle")]
    cycle: CoreCycle,
    left: u32,
    width: u32,
}

impl Limiter {
    pub(crate) fn new(width: u32) -> Limiter {
        Limiter { cycle: CoreCycle::ZERO, left: width, width }
    }

    /// The cycle in which an op that arrives at `at` would be handled.
    #[inline(always)]
    pub(crate) fn peek(&self, at: CoreCycle) -> CoreCycle {
        at.max(self.cycle + u64::from(self.left == 0))
    }

    /// Handles an op that arrives at `at`; returns the cycle.
    #[inline(always)]
    pub(crate) fn take(&mut self, at: CoreCycle) -> CoreCycle {
        let at = self.peek(at);
        self.take_at(at);
        at
    }

    /// Handles an op in a cycle returned by [`peek`](Limiter::peek).
    #[inline(always)]
    pub(crate) fn take_at(&mut self, at: CoreCycle) {
        debug_assert!(at == self.peek(at));
        self.left = if at > self.cycle { self.width } else { self.left } - 1;
        self.cycle = at;
    }

    /// Like [`take`](Limiter::take), but if SMT threads share the stage, limited by the slots that both have
    /// taken.
    #[inline(always)]
    pub(crate) fn take_of<const THREADS: bool>(
        &mut self,
        stage: Stage,
        shared: Option<&mut Shared>,
        at: CoreCycle,
    ) -> CoreCycle {
        match shared {
            Some(shared) if THREADS => self.take(shared.take(stage, self.peek(at))),
            _ => self.take(at),
        }
    }

    /// The cycle of the last op.
    #[inline(always)]
    pub(crate) fn last(&self) -> CoreCycle {
        self.cycle
    }

    /// Blocks the stage until `cycle`.
    pub(crate) fn skip_to(&mut self, cycle: CoreCycle) {
        if cycle > self.cycle {
            self.cycle = cycle;
            self.left = self.width;
        }
    }

    /// Whether saved state matches this configuration.
    pub(crate) fn is_compatible(&self, fresh: &Limiter) -> bool {
        self.width == fresh.width && self.left <= self.width
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_reused_in_release_order() {
        let mut ring = Ring::new(3);
        for free_from in [10, 20, 30].map(CoreCycle::new) {
            assert_eq!(ring.free_from(), CoreCycle::ZERO);
            ring.push(free_from);
        }
        assert_eq!(ring.free_from(), CoreCycle::new(10));
        ring.push(CoreCycle::new(40));
        assert_eq!(ring.free_from(), CoreCycle::new(20));
    }

    #[test]
    fn a_stage_handles_its_width_per_cycle_in_order() {
        let mut stage = Limiter::new(2);
        let taken = [5, 3, 3, 9, 9, 9].map(|at| stage.take(CoreCycle::new(at)));
        assert_eq!(taken, [5, 5, 6, 9, 9, 10].map(CoreCycle::new));
    }
}
