//! How many frames a program sent at a time: behind one doorbell, which is a store of a transmit ring's tail.
//!
//! Of a device with one ring, frames that are read behind a doorbell were rung for by it, or by one before it that came while others were
//! still to be read. Of one with several, a frame does not tell which ring it is of; how far each ring's tail moved does tell how many there
//! were.

use std::collections::BTreeMap;

use super::ring::Tail;

/// How many frames the program sent at a time: behind one doorbell of a transmit ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    /// How often so many were sent at once.
    pub counts: BTreeMap<u64, u64>,
}

impl Batches {
    /// Frames a batch.
    pub fn mean(&self) -> Option<f64> {
        let batches: u64 = self.counts.values().sum();
        let frames: u64 = self.counts.iter().map(|(size, count)| size * count).sum();
        (batches > 0).then(|| frames as f64 / batches as f64)
    }

    /// The largest.
    pub fn largest(&self) -> u64 {
        self.counts.keys().next_back().copied().unwrap_or(0)
    }

    fn add(&mut self, size: u64, count: u64) {
        if size > 0 {
            *self.counts.entry(size).or_default() += count;
        }
    }
}

/// One device's doorbells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Doorbells {
    /// Frames that were read since the last one, and all.
    since: u64,
    read: u64,
    between: Batches,
    /// Each ring's last tail, and how often one moved on by so many descriptors.
    tails: BTreeMap<u8, u64>,
    moves: BTreeMap<u64, u64>,
}

impl Doorbells {
    /// A frame is read.
    pub fn read(&mut self) {
        self.since += 1;
        self.read += 1;
    }

    /// A doorbell.
    pub fn ring(&mut self, tail: Tail) {
        self.between.add(std::mem::take(&mut self.since), 1);
        let before = self.tails.insert(tail.queue, tail.value);
        // How far one moves that comes round depends on the ring's length, which is not told.
        if let Some(moved) = before.and_then(|before| tail.value.checked_sub(before)) {
            *self.moves.entry(moved).or_default() += 1;
        }
    }

    /// There are no more: its batches are among `all`.
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
    fn of_one_ring_frames_between_two_doorbells_are_a_batch() {
        let (mut doorbells, mut all) = (Doorbells::default(), Batches::default());
        for batch in 1..=3 {
            ring(&mut doorbells, 0, batch);
            (0..batch).for_each(|_| doorbells.read());
        }
        doorbells.end(&mut all);
        assert_eq!(all.counts, BTreeMap::from([(1, 1), (2, 1), (3, 1)]));
    }

    #[test]
    fn of_several_rings_a_batch_is_what_its_own_tail_moved_by_in_frames() {
        for (descriptors, queues) in [(1, 2), (2, 4)] {
            let (mut doorbells, mut all) = (Doorbells::default(), Batches::default());
            for turn in 0..100 {
                // Both ring before anything is read.
                (0..queues).for_each(|queue| ring(&mut doorbells, queue, turn * 3 * descriptors % 240));
                (0..3 * queues).for_each(|_| doorbells.read());
            }
            doorbells.end(&mut all);
            assert_eq!((all.mean(), all.largest()), (Some(3.0), 3), "{descriptors} a frame");
        }
    }
}
