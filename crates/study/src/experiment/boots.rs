//! Boots that points share: which ones are still to be made, so that somebody can make each of them once, before the points.

use std::collections::BTreeSet;

use doorbell_bench::{BenchmarkPlan, Control, Places, RunError, Source};

use super::plan::{Plan, Work};

/// More different boots than this are made by whichever point comes first: to look for so many checkpoints takes longer than that saves.
const LOOKED_FOR_MAX: usize = 64;

impl Plan {
    fn boot_of(&self, index: usize) -> Result<BenchmarkPlan<'_>, RunError> {
        BenchmarkPlan::new(self.benchmark, &self.points[index].config, (self.benchmark.name, 1))
    }

    /// A point for each boot of which the cache has no checkpoint, of these points.
    pub fn boots(
        &self,
        points: &[usize],
        places: &Places,
        control: &mut Control,
    ) -> Result<Vec<usize>, RunError> {
        let mut seen = BTreeSet::new();
        let mut different = Vec::new();
        for &index in points.iter().filter(|&&index| self.points[index].work != Work::Play) {
            if seen.insert(self.boot_of(index)?.boots_as()) {
                different.push(index);
            }
        }
        if different.len() > LOOKED_FOR_MAX {
            return Ok(Vec::new());
        }
        let mut missing = Vec::new();
        for index in different {
            if !self.boot_of(index)?.checkpoint(places, control)?.exists() {
                missing.push(index);
            }
        }
        Ok(missing)
    }

    /// Makes the boot of a point, unless the cache has its checkpoint.
    pub fn boot(&self, index: usize, places: &Places, control: &mut Control) -> Result<(), RunError> {
        self.boot_of(index)?.prepare(places, &Source::Cache, control).map(drop)
    }
}
