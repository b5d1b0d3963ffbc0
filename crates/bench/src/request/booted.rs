//! What is known of a benchmark's boot before it: which configurations go on from one checkpoint, and which file of the cache that is.

use std::path::PathBuf;

use crate::error::RunError;
use crate::request::planned::BenchmarkPlan;
use crate::store::paths::{Places, image_for};
use crate::testbed::control::Control;
use crate::testbed::nodes::{NodeGuest, NodesPlan};
use crate::testbed::ramp::RunUp;
use crate::testbed::ready::{Plan as _, Source};
use crate::testbed::session::MachinePlan;

impl BenchmarkPlan<'_> {
    /// What decides its boot, in words: plans of which it is the same go on from one checkpoint. Nothing is built for it.
    pub fn boots_as(&self) -> String {
        let (benchmark, config) = (self.benchmark, self.config);
        let Some((plan, _)) = &self.nodes else {
            let machine = config.machine();
            let image = image_for(benchmark.image, &machine);
            let words = (benchmark.guest_words)(config);
            let all = (machine.guest_hash(), image, &config.run.image, words, &config.run.disks);
            return format!("{} {all:?}", benchmark.name);
        };
        let guest = |guest: &NodeGuest| format!("{guest:?}");
        let identities: Vec<String> = plan.guests.iter().map(guest).collect();
        let run_up = plan.run_up.as_ref().map_or(String::new(), RunUp::identity);
        format!("{} {:016x} {run_up}", plan.name, plan.key(&identities))
    }

    /// The file of the cache from which it goes on, whether or not it is there. Images that are missing are built.
    pub fn checkpoint(self, places: &Places, control: &mut Control) -> Result<PathBuf, RunError> {
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
