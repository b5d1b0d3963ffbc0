//! The bimodal predictor (Smith 1981): two-bit counters indexed by address.

use serde::{Deserialize, Serialize};

use super::counters::Counters;
use super::word;

/// The bimodal predictor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Bimodal(Counters);

impl Bimodal {
    pub(super) fn new(entries: u32) -> Bimodal {
        Bimodal(Counters::new(entries, false))
    }

    /// Predicts, then updates with the outcome.
    #[inline]
    pub(super) fn predict(&mut self, pc: u64, taken: bool) -> bool {
        let predicted = self.look_up(pc);
        self.learn(pc, taken);
        predicted
    }

    #[inline]
    pub(super) fn look_up(&self, pc: u64) -> bool {
        self.0.predict(word(pc))
    }

    #[inline]
    pub(super) fn learn(&mut self, pc: u64, taken: bool) {
        self.0.learn(word(pc), taken);
    }

    pub(super) fn is_compatible(&self, fresh: &Bimodal) -> bool {
        self.0.is_compatible(&fresh.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_exit_costs_one_misprediction() {
        let mut predictor = Bimodal::new(1024);
        // Three rounds of a loop of five: one misprediction while learning, then one per exit.
        let outcomes = [true, true, true, true, false].repeat(3);
        let wrong: Vec<usize> =
            (0..15).filter(|i| predictor.predict(0x100, outcomes[*i]) != outcomes[*i]).collect();
        assert_eq!(wrong, [0, 4, 9, 14]);
    }

    #[test]
    fn addresses_one_table_size_apart_share_a_counter() {
        let mut predictor = Bimodal::new(16);
        for _ in 0..3 {
            predictor.predict(0x100, true);
        }
        assert!(predictor.look_up(0x100 + 32));
        assert!(!predictor.look_up(0x100 + 16));
    }
}
