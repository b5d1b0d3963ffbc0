//! Frames sent per doorbell, which is a store of a transmit tail.
//!
//! With one ring, frames read after a doorbell belong to it, or to an earlier one that came while others were
//! still to be read. With several rings, a trace lacks the ring of a frame, but the tail differences give the
//! number of frames.

use std::collections::BTreeMap;

use super::ring::Tail;

/// Batch sizes: frames sent per doorbell of a transmit ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    /// Number of batches by size.
    pub counts: BTreeMap<u64, u64>,
}

impl Batches {
    /// Mean number of frames per batch.
    pub fn mean(&self) -> Option<f64> {
        let batches: u64 = self.counts.values().sum();
        let frames: u64 = self.counts.iter().map(|(size, count)| size * count).sum();
        (batches > 0).then(|| frames as f64 / batches as f64)
    }

    /// The largest batch.
    pub fn largest(&self) -> u64 {
        self.counts.keys().next_back().copied().unwrap_or(0)
    }

    fn add(&mut self, size: u64, count: u64) {
        if size > 0 {
            *self.counts.entry(size).or_default() += count;
        }
    }
}

/// Doorbells of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Doorbells {
    /// Frames read since the last doorbell, and in total.
    since: u64,
    read: u64,
    between: Batches,
    /// Last tail of each ring, and number of tail steps by length in descriptors.
    tails: BTreeMap<u8, u64>,
    moves: BTreeMap<u64, u64>,
}

impl Doorbells {
    /// Records that a frame is read.
    pub fn read(&mut self) {
        self.since += 1;
        self.read += 1;
    }

    /// Records a doorbell.
    pub fn ring(&mut self, tail: Tail) {
        self.between.add(std::mem::take(&mut self.since), 1);
        let before = self.tails.insert(tail.queue, tail.value);
        // Wrapped tails are not counted: the length of the step depends on the ring's, which is not recorded.
        if let Some(moved) = before.and_then(|before| tail.value.checked_sub(before)) {
            *self.moves.entry(moved).or_default() += 1;
        }
    }

    /// Ends the recording, and adds its batches to `all`.
    pub fn end(&mut self, all: &mut Batches) {
        self.between.add(std::mem::take(&mut self.since), 1);
        if self.tails.len() <= 1 {
            self.between.counts.iter().for_each(|(size, count)| all.add(*size, *count));
            return;
        }
        let descriptors: u64 = self.moves.iter().map(|(moved, count)| moved * count).sum();
        let of_frame = ((descriptors + self.read / 2) / self.read.max(1)).max(1);
        for (moved, count) in &self.moves {
            all.add(moved.div_ceil(of_frame), *count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ring::Direction;
    use super::*;

    fn ring(doorbells: &mut Doorbells, queue: u8, value: u64) {
        doorbells.ring(Tail { direction: Direction::Transmit, queue, value });
    }

    #[test]
    fn with_one_ring_frames_between_two_doorbells_are_a_batch() {
        let (mut doorbells, mut all) = (Doorbells::default(), Batches::default());
        for batch in 1..=3 {
            ring(&mut doorbells, 0, batch);
            (0..batch).for_each(|_| doorbells.read());
        }
        doorbells.end(&mut all);
        assert_eq!(all.counts, BTreeMap::from([(1, 1), (2, 1), (3, 1)]));
    }

    #[test]
    fn with_several_rings_a_batch_is_a_tail_step() {
        for (descriptors, queues) in [(1, 2), (2, 4)] {
            let (mut doorbells, mut all) = (Doorbells::default(), Batches::default());
            for turn in 0..100 {
                // All doorbells come before any read.
                (0..queues).for_each(|queue| ring(&mut doorbells, queue, turn * 3 * descriptors % 240));
                (0..3 * queues).for_each(|_| doorbells.read());
            }
            doorbells.end(&mut all);
            assert_eq!((all.mean(), all.largest()), (Some(3.0), 3), "{descriptors} per frame");
        }
    }
}
