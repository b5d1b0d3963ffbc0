//! The indirect-target predictor: a tagged table indexed by address and by a history of recent indirect
//! targets (a target cache after Chang, Hao and Patt, ISCA 1997). On a tag miss the BTB predicts.

use serde::{Deserialize, Serialize};

use super::{digest, word};

/// The indirect-target predictor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Indirect {
    /// Tag (upper half) and target; 0 is empty.
    entries: Vec<u64>,
    history: u64,
}

impl Indirect {
    pub(super) fn new(entries: u32) -> Indirect {
        Indirect { entries: vec![0; entries as usize], history: 0 }
    }

    /// Returns whether the predicted target was `target`, none on a tag miss; then enters the target.
    pub(super) fn predict(&mut self, pc: u64, target: u64) -> Option<bool> {
        if self.entries.is_empty() {
            return None;
        }
        let index = digest(word(pc) ^ self.history << 7) as usize & (self.entries.len() - 1);
        let entry = u64::from(digest(pc ^ self.history) | 1) << 32 | u64::from(digest(target));
        let old = self.entries[index];
        self.entries[index] = entry;
        // The history holds four targets of eight bits each.
        self.history = (self.history << 8 | u64::from(digest(target) & 0xff)) & 0xffff_ffff;
        (old >> 32 == entry >> 32).then_some(old == entry)
    }

    /// Swaps the histories of two SMT threads.
    pub(super) fn exchange_history(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.history, &mut other.history);
    }

    pub(super) fn is_compatible(&self, fresh: &Indirect) -> bool {
        self.entries.len() == fresh.entries.len()
    }
}
