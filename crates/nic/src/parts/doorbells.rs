//! Times of tail register writes (doorbells), kept until the descriptors that they cover are fetched. For
//! observers only; not saved. The times are only correct if software moves the tail as drivers do.

use std::collections::VecDeque;

use doorbell_sim::Ps;

/// Maximum number of doorbells kept.
const KEPT: usize = 1024;

/// Tail register writes, oldest first: time and tail.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doorbells(VecDeque<(Ps, u32)>);

impl Doorbells {
    /// Records a tail write.
    pub fn record(&mut self, now: Ps, tail: u32) {
        if self.0.back().is_some_and(|(_, last)| *last == tail) {
            return;
        }
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back((now, tail));
    }

    /// Time of the tail write that covers the descriptor at `index`; zero if unknown. Must be called in ring
    /// order.
    pub fn time_of(&mut self, index: u32) -> Ps {
        while self.0.front().is_some_and(|(_, tail)| *tail == index) {
            self.0.pop_front();
        }
        self.0.front().map_or(Ps::ZERO, |(at, _)| *at)
    }

    /// Discards all entries.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_tail_beyond_a_descriptor_covers_it() {
        let mut doorbells = Doorbells::default();
        // A ring of eight.
        for (at, tail) in [(10, 2), (20, 2), (30, 6), (40, 1)] {
            doorbells.record(Ps(at), tail);
        }
        let covered = [0, 1, 2, 5, 6, 7, 0].map(|index| doorbells.time_of(index).0);
        assert_eq!(covered, [10, 10, 30, 30, 40, 40, 40]);
        assert_eq!(doorbells.time_of(1), Ps::ZERO, "no tail is beyond it");
    }
}
