//! The indirect-target predictor: a tagged table indexed by address and by a history of the last targets of computed jumps
//! (a target cache after Chang, Hao and Patt, ISCA 1997). Without an entry the BTB decides.

use serde::{Deserialize, Serialize};

use super::{digest, word};

/// See the module.
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

    /// Whether the predictor named `target`, if it knew the jump at all; then it learns the target.
    pub(super) fn predict(&mut self, pc: u64, target: u64) -> Option<bool> {
        if self.entries.is_empty() {
            return None;
        }
        let index = digest(word(pc) ^ self.history << 7) as usize & (self.entries.len() - 1);
        let entry = u64::from(digest(pc ^ self.history) | 1) << 32 | u64::from(digest(target));
        let known = self.entries[index];
        self.entries[index] = entry;
        // Four targets of eight bits each.
        self.history = (self.history << 8 | u64::from(digest(target) & 0xff)) & 0xffff_ffff;
        (known >> 32 == entry >> 32).then_some(known == entry)
    }

    /// The histories of two threads change places.
    pub(super) fn exchange_history(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.history, &mut other.history);
    }

    pub(super) fn fits(&self, fresh: &Indirect) -> bool {
        self.entries.len() == fresh.entries.len()
    }
}
