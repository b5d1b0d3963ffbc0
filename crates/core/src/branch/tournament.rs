//! The tournament predictor of the Alpha 21264 (Kessler, "The Alpha 21264 Microprocessor", IEEE Micro 19(2),
//! 1999): a local predictor uses the branch's own history, a global predictor uses the history of all
//! branches. A chooser, also indexed by global history, selects between them. Sizes are configurable; all
//! counters have two bits (the 21264's local ones have three).

use serde::{Deserialize, Serialize};

use super::counters::Counters;
use super::word;
use crate::config::BranchConfig;

/// The tournament predictor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Tournament {
    /// Local histories, indexed by branch address, the latest outcome in the lowest bit.
    histories: Vec<u32>,
    /// Indexed by local history.
    local: Counters,
    /// Indexed by global history.
    global: Counters,
    /// The chooser: taken selects the global prediction.
    choice: Counters,
    /// Global history, the latest outcome in the lowest bit.
    history: u64,
}

impl Tournament {
    pub(super) fn new(config: &BranchConfig) -> Tournament {
        Tournament {
            histories: vec![0; config.tournament_histories as usize],
            local: Counters::new(config.tournament_local_entries, false),
            global: Counters::new(config.tournament_global_entries, false),
            choice: Counters::new(config.tournament_global_entries, false),
            history: 0,
        }
    }

    /// Predicts, then trains: both parts always, the chooser if they differed.
    #[inline]
    pub(super) fn predict(&mut self, pc: u64, taken: bool) -> bool {
        let branch = word(pc) as usize & (self.histories.len() - 1);
        let own = u64::from(self.histories[branch]);
        let (local, global) = (self.local.predict(own), self.global.predict(self.history));
        let predicted = if self.choice.predict(self.history) { global } else { local };
        if local != global {
            self.choice.learn(self.history, global == taken);
        }
        self.local.learn(own, taken);
        self.global.learn(self.history, taken);
        self.histories[branch] = self.histories[branch] << 1 | u32::from(taken);
        self.history = self.history << 1 | u64::from(taken);
        predicted
    }

    /// Swaps the histories of two SMT threads.
    pub(super) fn exchange_history(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.history, &mut other.history);
    }

    pub(super) fn is_compatible(&self, fresh: &Tournament) -> bool {
        self.histories.len() == fresh.histories.len()
            && self.local.is_compatible(&fresh.local)
            && self.global.is_compatible(&fresh.global)
            && self.choice.is_compatible(&fresh.choice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictor() -> Tournament {
        Tournament::new(&BranchConfig::default())
    }

    /// Mispredictions per branch, without the first hundred rounds.
    fn wrong(rounds: u64, branches: impl Fn(u64) -> Vec<(u64, bool)>) -> Vec<u64> {
        let mut predictor = predictor();
        let mut wrong = Vec::new();
        for round in 0..rounds {
            for (index, (pc, taken)) in branches(round).into_iter().enumerate() {
                wrong.resize(wrong.len().max(index + 1), 0);
                let hit = predictor.predict(pc, taken) == taken;
                wrong[index] += u64::from(!hit && round >= 100);
            }
        }
        wrong
    }

    #[test]
    fn local_history_learns_a_loop_despite_random_branches() {
        let mut rng = doorbell_sim::rng::Rng::stream(5, "tournament");
        let noise: Vec<bool> = (0..4000).map(|_| rng.below(2) == 1).collect();
        let wrong = wrong(4000, |round| vec![(0x100, noise[round as usize]), (0x200, round % 10 != 9)]);
        assert!(wrong[0] > 1000 && wrong[1] < 200, "{wrong:?}");
    }

    #[test]
    fn global_history_learns_a_correlated_branch() {
        let mut rng = doorbell_sim::rng::Rng::stream(6, "tournament");
        let coin: Vec<bool> = (0..4000).map(|_| rng.below(2) == 1).collect();
        let wrong = wrong(4000, |round| vec![(0x100, coin[round as usize]), (0x200, coin[round as usize])]);
        assert!(wrong[0] > 1000 && wrong[1] < 800, "{wrong:?}");
    }

    #[test]
    fn tournament_matches_a_reference_model() {
        use std::collections::BTreeMap;
        let config = BranchConfig::default();
        let bits = |entries: u32| entries.trailing_zeros() as usize;
        let mut rng = doorbell_sim::rng::Rng::stream(7, "tournament");
        let mut predictor = predictor();
        let (mut own, mut all) = (BTreeMap::<u64, Vec<bool>>::new(), Vec::<bool>::new());
        let mut tables: [BTreeMap<Vec<bool>, i32>; 3] = Default::default();
        let last = |history: &[bool], bits: usize| -> Vec<bool> {
            let padded = std::iter::repeat_n(false, bits).chain(history.iter().copied());
            let padded: Vec<bool> = padded.collect();
            padded[padded.len() - bits..].to_vec()
        };
        for step in 0..20_000u64 {
            let pc = 0x4000 + rng.below(40) * 6;
            let taken = if pc.is_multiple_of(4) { !step.is_multiple_of(3) } else { rng.below(10) < 8 };
            let local = last(own.entry(pc).or_default(), bits(config.tournament_local_entries));
            let global = last(&all, bits(config.tournament_global_entries));
            let keys = [local, global.clone(), global];
            let predictions = [0, 1, 2].map(|table| *tables[table].get(&keys[table]).unwrap_or(&-1) >= 0);
            let expected = if predictions[2] { predictions[1] } else { predictions[0] };
            assert_eq!(predictor.predict(pc, taken), expected, "step {step}");
            let mut learn = |table: usize, up: bool| {
                let counter = tables[table].entry(keys[table].clone()).or_insert(-1);
                *counter = (*counter + if up { 1 } else { -1 }).clamp(-2, 1);
            };
            if predictions[0] != predictions[1] {
                learn(2, predictions[1] == taken);
            }
            learn(0, taken);
            learn(1, taken);
            own.entry(pc).or_default().push(taken);
            all.push(taken);
        }
    }
}
