//! The Bi-Mode predictor (Lee, Chen, Mudge, MICRO 1997): a choice table indexed by address selects one of two
//! direction tables indexed by address and global history. Branches with opposite biases therefore do not
//! alias.

use serde::{Deserialize, Serialize};

use super::counters::Counters;
use super::word;

/// The Bi-Mode predictor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct BiMode {
    choice: Counters,
    /// The direction tables for branches biased to not taken, and to taken.
    directions: [Counters; 2],
    /// Global history, the latest outcome in the lowest bit.
    history: u64,
}

impl BiMode {
    pub(super) fn new(choice: u32, direction: u32) -> BiMode {
        BiMode {
            choice: Counters::new(choice, false),
            directions: [Counters::new(direction, false), Counters::new(direction, true)],
            history: 0,
        }
    }

    /// Predicts, then trains: always the selected direction table, and the choice table unless the prediction
    /// was correct although the choice disagreed with the outcome.
    #[inline]
    pub(super) fn predict(&mut self, pc: u64, taken: bool) -> bool {
        let index = word(pc) ^ self.history;
        let choice = self.choice.predict(word(pc));
        let direction = &mut self.directions[usize::from(choice)];
        let predicted = direction.predict(index);
        direction.learn(index, taken);
        if !(predicted == taken && choice != taken) {
            self.choice.learn(word(pc), taken);
        }
        self.history = self.history << 1 | u64::from(taken);
        predicted
    }

    /// Swaps the histories of two SMT threads.
    pub(super) fn exchange_history(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.history, &mut other.history);
    }

    pub(super) fn is_compatible(&self, fresh: &BiMode) -> bool {
        self.choice.is_compatible(&fresh.choice)
            && self.directions.iter().zip(&fresh.directions).all(|(saved, fresh)| saved.is_compatible(fresh))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference model: the same algorithm on maps, with signed counters.
    struct Plain {
        choice: std::collections::BTreeMap<u64, i32>,
        direction: [std::collections::BTreeMap<u64, i32>; 2],
        history: Vec<bool>,
    }

    impl Plain {
        fn predict(&mut self, pc: u64, taken: bool) -> bool {
            let history = self.history.iter().rev().take(10).enumerate();
            let history: u64 = history.map(|(age, taken)| u64::from(*taken) << age).sum();
            let slot = pc / 2 % 1024;
            let choice = self.choice.entry(slot).or_insert(-1);
            let leaning = *choice >= 0;
            let start = if leaning { 0 } else { -1 };
            let counter = self.direction[usize::from(leaning)].entry(slot ^ history).or_insert(start);
            let predicted = *counter >= 0;
            let step = if taken { 1 } else { -1 };
            *counter = (*counter + step).clamp(-2, 1);
            if predicted != taken || leaning == taken {
                *choice = (*choice + step).clamp(-2, 1);
            }
            self.history.push(taken);
            predicted
        }
    }

    #[test]
    fn bimode_matches_a_reference_model() {
        let mut rng = doorbell_sim::rng::Rng::stream(3, "bimode");
        let mut predictor = BiMode::new(1024, 1024);
        let mut plain =
            Plain { choice: Default::default(), direction: Default::default(), history: Vec::new() };
        let mut right = 0;
        for step in 0..20_000u64 {
            let pc = 0x4000 + rng.below(40) * 6;
            let taken = match pc % 4 {
                0 => step % 3 != 0,
                _ => rng.below(10) < 8,
            };
            let predicted = predictor.predict(pc, taken);
            assert_eq!(predicted, plain.predict(pc, taken), "step {step}");
            right += u64::from(predicted == taken);
        }
        assert!(right > 12_000, "{right}");
    }

    #[test]
    fn a_short_pattern_is_learnt() {
        let mut predictor = BiMode::new(8192, 8192);
        let wrong = (0..1000).filter(|step| predictor.predict(0x100, step % 4 == 0) != (step % 4 == 0));
        assert!(wrong.filter(|step| *step > 100).count() == 0);
    }
}
