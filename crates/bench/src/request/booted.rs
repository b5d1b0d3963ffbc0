//! Identity of a benchmark's boot: which configurations share a boot checkpoint, and its file name in the cache.

use std::path::PathBuf;

use crate::error::RunError;
use crate::request::planned::BenchmarkPlan;
use crate::store::paths::CachePaths;
use crate::testbed::control::Control;
use crate::testbed::nodes::{NodeGuest, NodesPlan};
use crate::testbed::ramp::Ramp;
use crate::testbed::ready::{Plan as _, Source};
use crate::testbed::session::MachinePlan;

impl BenchmarkPlan<'_> {
    /// Key of the boot: plans with equal keys start from the same checkpoint. Builds no image.
    pub fn boots_as(&self) -> String {
        let (benchmark, config) = (self.benchmark, self.config);
        let Some((plan, _)) = &self.nodes else {
            let machine = config.machine();
            let words = (benchmark.guest_words)(config);
            let all = (machine.guest_hash(), benchmark.image, &config.run.image, words, &config.run.disks);
            return format!("{} {all:?}", benchmark.name);
        };
        let guest = |guest: &NodeGuest| format!("{guest:?}");
        let identities: Vec<String> = plan.guests.iter().map(guest).collect();
        let ramp = plan.ramp.as_ref().map_or(String::new(), Ramp::identity);
        format!("{} {:016x} {ramp}", plan.name, plan.key(&identities))
    }

    /// Path of the boot checkpoint in the cache, which need not exist. Builds missing images.
    pub fn checkpoint(self, places: &CachePaths, control: &mut Control) -> Result<PathBuf, RunError> {
        let name = match self.nodes {
            None => {
                let workload = self.benchmark.workload(self.config);
                MachinePlan::new(self.config, workload, places, control)?.file_name()
            }
            Some((plan, _)) => NodesPlan::new(plan, places, &Source::Cache, control)?.file_name(),
        };
        Ok(places.checkpoints().join(name))
    }
}
