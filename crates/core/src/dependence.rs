//! Memory-dependence prediction: store sets (Chrysos and Emer, ISCA 1998). A load and a store that violated
//! memory order share a set. The load then waits for the address of the set's last store; stores of a set
//! also wait for each other.

use serde::{Deserialize, Serialize};

use crate::config::PipelineConfig;

/// The store-set predictor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoreSets {
    /// The set of each hashed instruction address; 0 is none.
    sets: Vec<u16>,
    /// Number of the last store of each set; 0 is none.
    last: Vec<u64>,
    /// Loads until the sets are cleared.
    left: u64,
    clear_every: u64,
}

/// Number of distinct sets.
const SETS: usize = 256;

impl StoreSets {
    pub(crate) fn new(config: &PipelineConfig) -> StoreSets {
        StoreSets {
            sets: vec![0; config.store_sets as usize],
            last: vec![0; SETS],
            left: config.store_set_clear,
            clear_every: config.store_set_clear,
        }
    }

    #[inline(always)]
    fn place(&self, pc: u64) -> usize {
        (pc >> 1 ^ pc >> 11) as usize & (self.sets.len() - 1)
    }

    /// The number of the store that the load at `pc` waits for; 0 is none.
    #[inline]
    pub(crate) fn load(&mut self, pc: u64) -> u64 {
        self.left -= 1;
        if self.left == 0 {
            self.sets.fill(0);
            self.left = self.clear_every;
        }
        match self.sets[self.place(pc)] {
            0 => 0,
            set => self.last[usize::from(set) % SETS],
        }
    }

    /// The number of the store that store `number` at `pc` waits for; 0 is none.
    #[inline]
    pub(crate) fn store(&mut self, pc: u64, number: u64) -> u64 {
        match self.sets[self.place(pc)] {
            0 => 0,
            set => std::mem::replace(&mut self.last[usize::from(set) % SETS], number),
        }
    }

    /// Merges the sets of a load and the store that it wrongly passed.
    pub(crate) fn clash(&mut self, load_pc: u64, store_pc: u64) {
        let (load, store) = (self.place(load_pc), self.place(store_pc));
        let set = match (self.sets[load], self.sets[store]) {
            (0, 0) => (load % (SETS - 1) + 1) as u16,
            (0, set) | (set, 0) => set,
            (one, other) => one.min(other),
        };
        self.sets[load] = set;
        self.sets[store] = set;
    }

    /// Whether saved state matches this configuration.
    pub(crate) fn is_compatible(&self, fresh: &StoreSets) -> bool {
        self.sets.len() == fresh.sets.len()
            && self.last.len() == fresh.last.len()
            && self.last.iter().all(|number| *number < u64::MAX / 4)
            && self.clear_every == fresh.clear_every
            && (1..=self.clear_every).contains(&self.left)
    }
}
