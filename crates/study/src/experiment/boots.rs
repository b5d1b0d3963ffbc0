//! Boots shared by several points: finds those that are missing from the cache, so that each can be made once
//! before the points are measured.

use std::collections::BTreeSet;

use doorbell_bench::{BenchmarkPlan, CachePaths, Control, RunError, Source};

use super::plan::{Plan, Work};

/// Limit on different boots: above it, boots are left to the points, because checking for their checkpoints
/// takes longer than it saves.
const CHECKED_BOOTS_MAX: usize = 64;

impl Plan {
    fn boot_of(&self, index: usize) -> Result<BenchmarkPlan<'_>, RunError> {
        BenchmarkPlan::new(self.benchmark, &self.points[index].config, self.benchmark.name, 1)
    }

    /// Returns one of the given points for each boot that has no checkpoint in the cache.
    pub fn boots(
        &self,
        points: &[usize],
        places: &CachePaths,
        control: &mut Control,
    ) -> Result<Vec<usize>, RunError> {
        let mut seen = BTreeSet::new();
        let mut different = Vec::new();
        for &index in points.iter().filter(|&&index| self.points[index].work != Work::Play) {
            if seen.insert(self.boot_of(index)?.boots_as()) {
                different.push(index);
            }
        }
        if different.len() > CHECKED_BOOTS_MAX {
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

    /// Makes the boot checkpoint of a point, unless it is in the cache.
    pub fn boot(&self, index: usize, places: &CachePaths, control: &mut Control) -> Result<(), RunError> {
        self.boot_of(index)?.prepare(places, &Source::Cache, control).map(drop)
    }
}
