//! Tables of two-bit saturating counters.

use serde::{Deserialize, Serialize};

/// Two-bit counters: 0 and 1 predict not taken, 2 and 3 taken. Initially weakly taken or weakly not taken.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Counters(Vec<u8>);

impl Counters {
    pub(super) fn new(entries: u32, taken: bool) -> Counters {
        Counters(vec![if taken { 2 } else { 1 }; entries as usize])
    }

    #[inline(always)]
    pub(super) fn predict(&self, index: u64) -> bool {
        self.0[index as usize & (self.0.len() - 1)] >= 2
    }

    #[inline(always)]
    pub(super) fn learn(&mut self, index: u64, taken: bool) {
        let mask = self.0.len() - 1;
        let counter = &mut self.0[index as usize & mask];
        *counter = if taken { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
    }

    pub(super) fn is_compatible(&self, fresh: &Counters) -> bool {
        self.0.len() == fresh.0.len() && self.0.iter().all(|counter| *counter <= 3)
    }
}
