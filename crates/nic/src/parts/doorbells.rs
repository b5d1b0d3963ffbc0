//! When software wrote the tail register, for as long as descriptors that it covers have not been fetched. An
//! observer's: not state, and forgotten where software does with the tail what no driver does.

use std::collections::VecDeque;

use doorbell_sim::Ps;

/// Doorbells kept.
const KEPT: usize = 1024;

/// Writes of the tail register, oldest first: when, and the tail.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doorbells(VecDeque<(Ps, u32)>);

impl Doorbells {
    /// The tail was written.
    pub fn record(&mut self, now: Ps, tail: u32) {
        if self.0.back().is_some_and(|(_, last)| *last == tail) {
            return;
        }
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back((now, tail));
    }

    /// When the descriptor of this index was covered; to be asked in the order of the ring. Zero if it is not
    /// known.
    pub fn time_of(&mut self, index: u32) -> Ps {
        while self.0.front().is_some_and(|(_, tail)| *tail == index) {
            self.0.pop_front();
        }
        self.0.front().map_or(Ps::ZERO, |(at, _)| *at)
    }

    /// All descriptors up to the tail are fetched.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_covered_by_the_first_tail_beyond_it() {
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
