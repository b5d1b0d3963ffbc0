//! Resources that are released in program order, and widths of stages that work in order.

use serde::{Deserialize, Serialize};

use crate::modulo::{Modulo, cycles};
use crate::saved::cycle;
use crate::shared::{Shared, Stage};

/// A queue whose entries are taken and released in program order: reorder buffer, load and store queue, registers. What
/// counts is from when the entry of the op `size` places ahead can be used again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ring {
    #[serde(deserialize_with = "cycles")]
    free_from: Modulo<u64>,
    #[serde(deserialize_with = "cycle")]
    next: u64,
    #[serde(deserialize_with = "cycle")]
    size: u64,
}

impl Ring {
    pub(crate) fn new(size: u32) -> Ring {
        let size = u64::from(size);
        Ring { free_from: Modulo::new(size, 0), next: size, size }
    }

    /// How many entries there are.
    #[inline(always)]
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// From when there is an entry for the next op.
    #[inline(always)]
    pub(crate) fn free_from(&self) -> u64 {
        *self.free_from.get(self.next - self.size)
    }

    /// From when on there are entries for so many ops, at most as many as there are.
    #[inline(always)]
    pub(crate) fn free_for(&self, ops: u64) -> u64 {
        *self.free_from.get(self.next - self.size + ops - 1)
    }

    /// The next op takes an entry and gives it back so that another can have it from cycle `free_from`.
    #[inline(always)]
    pub(crate) fn push(&mut self, free_from: u64) {
        self.free_from.set(self.next, free_from);
        self.next += 1;
    }

    /// Has so many entries from now on, at most as many as at first.
    pub(crate) fn resize(&mut self, size: u32) {
        self.size = u64::from(size);
    }

    /// Whether a saved ring is one of this kind.
    pub(crate) fn fits(&self, fresh: &Ring) -> bool {
        self.free_from.all().len() == fresh.free_from.all().len()
            && self.size == fresh.size
            && self.next >= self.size
    }
}

/// A stage that handles ops in order, at most so many a cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limiter {
    #[serde(deserialize_with = "cycle")]
    cycle: u64,
    left: u32,
    width: u32,
}

impl Limiter {
    pub(crate) fn new(width: u32) -> Limiter {
        Limiter { cycle: 0, left: width, width }
    }

    /// When an op that comes at `at` would be handled.
    #[inline(always)]
    pub(crate) fn peek(&self, at: u64) -> u64 {
        at.max(self.cycle + u64::from(self.left == 0))
    }

    /// Handles the op that comes at `at`.
    #[inline(always)]
    pub(crate) fn take(&mut self, at: u64) -> u64 {
        let at = self.peek(at);
        self.take_at(at);
        at
    }

    /// Handles an op at a cycle that is no earlier than [`peek`](Limiter::peek) said.
    #[inline(always)]
    pub(crate) fn take_at(&mut self, at: u64) {
        debug_assert!(at == self.peek(at));
        self.left = if at > self.cycle { self.width } else { self.left } - 1;
        self.cycle = at;
    }

    /// The same, where threads share the stage: behind what both have taken of it.
    #[inline(always)]
    pub(crate) fn take_of<const THREADS: bool>(
        &mut self,
        stage: Stage,
        shared: Option<&mut Shared>,
        at: u64,
    ) -> u64 {
        match shared {
            Some(shared) if THREADS => self.take(shared.take(stage, self.peek(at))),
            _ => self.take(at),
        }
    }

    /// The cycle of the last op.
    #[inline(always)]
    pub(crate) fn last(&self) -> u64 {
        self.cycle
    }

    /// Nothing is handled before `cycle`.
    pub(crate) fn skip_to(&mut self, cycle: u64) {
        if cycle > self.cycle {
            self.cycle = cycle;
            self.left = self.width;
        }
    }

    /// Whether a saved one is one of this kind.
    pub(crate) fn fits(&self, fresh: &Limiter) -> bool {
        self.width == fresh.width && self.left <= self.width
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_free_when_the_op_that_had_it_is_gone() {
        let mut ring = Ring::new(3);
        for free_from in [10, 20, 30] {
            assert_eq!(ring.free_from(), 0);
            ring.push(free_from);
        }
        assert_eq!(ring.free_from(), 10);
        ring.push(40);
        assert_eq!(ring.free_from(), 20);
    }

    #[test]
    fn a_stage_handles_its_width_a_cycle_in_order() {
        let mut stage = Limiter::new(2);
        assert_eq!([5, 3, 3, 9, 9, 9].map(|at| stage.take(at)), [5, 5, 6, 9, 9, 10]);
    }
}
