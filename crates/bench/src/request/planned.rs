//! Runs a benchmark of any kind from its plan to its results: one machine, a machine driven by a second node, two
//! nodes, or a network. All commands and studies use this path, and so measure alike.

use std::path::Path;

use doorbell_image::Image;
use doorbell_loadgen::Rate;
use doorbell_machine::CoreModel;
use doorbell_results::RunIdentity;

use crate::error::RunError;
use crate::figures::host_cost::HostCost;
use crate::measure::benchmark::{Benchmark, MeasureNodes, Measured, Nodes, NodesLoad};
use crate::measure::driven::{driven_guests, measure_driven};
use crate::measure::point::run_point_sent;
use crate::plan::config::RunConfig;
use crate::plan::drive::{DriveConfig, DriveKind};
use crate::plan::resolved::Resolved;
use crate::request::network::measure_network;
use crate::store::folder::ResultFolder;
use crate::store::paths::{CachePaths, Images, check_cards, guest_identity};
use crate::testbed::control::Control;
use crate::testbed::corunners::CorunnerConfig;
use crate::testbed::nodes::NodesTestbed;
use crate::testbed::nodes::TestbedPlan;
use crate::testbed::ready::{Plan, Source, Testbed};
use crate::testbed::session::Session;
use crate::window::observe::Observe;

/// A benchmark with a validated configuration, before anything is built or booted.
#[derive(Clone, Debug)]
pub struct BenchmarkPlan<'a> {
    pub(crate) benchmark: &'static Benchmark,
    pub(crate) config: &'a Resolved,
    /// The nodes and the function that measures them; `None` for a single machine.
    pub(crate) nodes: Option<(TestbedPlan, MeasureNodes)>,
}

impl<'a> BenchmarkPlan<'a> {
    /// Creates a plan, or returns an error if the configuration is invalid. `network_name` names a network's checkpoint,
    /// and `threads` is the number of host threads that run its nodes.
    pub fn new(
        benchmark: &'static Benchmark,
        config: &'a Resolved,
        network_name: &str,
        threads: usize,
    ) -> Result<BenchmarkPlan<'a>, RunError> {
        let joined = |name: &str, guests| TestbedPlan::joined(config, name, guests);
        let nodes: Option<(TestbedPlan, MeasureNodes)> = match benchmark.nodes {
            Nodes::One if config.options::<DriveConfig>().kind == DriveKind::Node => {
                let guests = driven_guests(benchmark, config)?;
                Some((joined(&format!("{}-driven", benchmark.name), guests.into())?, measure_driven))
            }
            Nodes::One => None,
            Nodes::Joined { guests, ramp, measure } => {
                let plan = joined(benchmark.name, guests(config)?)?;
                Some((TestbedPlan { ramp: ramp(config), ..plan }, measure))
            }
            Nodes::Network => {
                let (plan, _) = TestbedPlan::network(config, network_name, threads)?;
                Some((plan, measure_network))
            }
        };
        // Benchmarks rename their ports by PCI location; the nodes of users rely on the names that Linux assigns.
        if let (Nodes::Network, Some((plan, _))) = (&benchmark.nodes, &nodes) {
            let mut guests = plan.guests.iter().zip(&plan.network.nodes);
            guests.try_for_each(|(guest, (_, node))| check_cards(&guest.image, node))?;
        }
        Ok(BenchmarkPlan { benchmark, config, nodes })
    }

    /// Rejects observations that this benchmark does not support.
    pub fn check(&self, observe: &Observe) -> Result<(), RunError> {
        let tested = if matches!(self.benchmark.nodes, Nodes::Network) { None } else { Some(0) };
        let network = self.nodes.as_ref().map(|(plan, _)| (&plan.network, tested));
        if network.is_none() {
            let timed = self.config.core.model == CoreModel::Timed;
            observe.check_machine(timed, self.config.loadgen.stages)?;
        }
        Ok(observe.check_node(network)?)
    }

    /// Identity of the software in the machine, or in all nodes. Builds missing images.
    pub fn identity(&self, images: &mut Images, say: &mut dyn FnMut(&str)) -> Result<String, RunError> {
        if let Some((plan, _)) = &self.nodes {
            return plan.identity(images, say);
        }
        let (benchmark, config) = (self.benchmark, self.config);
        let image = images.get(benchmark.image, config.run.image.as_deref(), say)?;
        let words = format!("{} {}", image.command_line(), (benchmark.guest_words)(config));
        Ok(guest_identity(image, &words) + &config.options::<CorunnerConfig>().identity()?)
    }

    /// Boots the guests, or restores them from a checkpoint.
    pub fn prepare(
        self,
        places: &CachePaths,
        source: &Source,
        control: &mut Control,
    ) -> Result<Prepared, RunError> {
        let Self { benchmark, config, nodes } = self;
        Ok(match nodes {
            None => {
                let session = Session::prepare(config, benchmark, places, source, control)?;
                Prepared::of(benchmark, session, Ready::Machine)
            }
            Some((plan, measure)) => {
                let testbed = plan.prepare(places, source, control)?;
                Prepared::of(benchmark, testbed, |testbed| Ready::Nodes(testbed, measure))
            }
        })
    }
}

/// A booted benchmark, which can be measured any number of times.
pub struct Prepared {
    benchmark: &'static Benchmark,
    ready: Ready,
    boot: Option<HostCost>,
    ran: RunIdentity,
    images: Vec<Image>,
}

enum Ready {
    Machine(Box<Session>),
    Nodes(Box<NodesTestbed>, MeasureNodes),
}

impl Prepared {
    fn of<P: Plan>(
        benchmark: &'static Benchmark,
        testbed: Testbed<P>,
        ready: impl FnOnce(Box<Testbed<P>>) -> Ready,
    ) -> Prepared {
        let (boot, ran, images) = (testbed.boot, testbed.ran(), testbed.plan.images().to_vec());
        Prepared { benchmark, ready: ready(Box::new(testbed)), boot, ran, images }
    }

    /// Cost of the boot; `None` if the guests came from a checkpoint.
    pub fn boot(&self) -> Option<HostCost> {
        self.boot
    }

    /// Identity of the software that runs, for results.
    pub fn ran(&self) -> &RunIdentity {
        &self.ran
    }

    /// The booted images, one per node.
    pub fn images(&self) -> &[Image] {
        &self.images
    }

    /// Sets whether measurements write fingerprints.
    pub fn set_fingerprint(&mut self, wanted: bool) {
        match &mut self.ready {
            Ready::Machine(session) => session.fingerprint = wanted,
            Ready::Nodes(testbed, _) => testbed.fingerprint = wanted,
        }
    }

    /// Writes the checkpoint that measurements start from.
    pub fn write_checkpoint(&self, path: &Path) -> Result<(), RunError> {
        match &self.ready {
            Ready::Machine(session) => session.checkpoint().write(path)?,
            Ready::Nodes(testbed, _) => testbed.checkpoint().write(path)?,
        }
        Ok(())
    }

    /// Measures one load, and writes everything but its summary to `folder`. A network's generators use the rates in
    /// `config`, all others `rate`. Nodes support captures, profiles and the trace of one node
    /// of the observations in `observe`.
    pub fn measure(
        &self,
        config: &RunConfig,
        rate: Rate,
        observe: &Observe,
        folder: &ResultFolder,
        control: &mut Control,
    ) -> Result<Measured, RunError> {
        match &self.ready {
            Ready::Machine(session) => {
                let point = run_point_sent(session, &config.loadgen.traffic, rate, observe, control)?;
                folder.write_point(&point)?;
                Ok(Measured { config: point.config, summary: point.summary, meanings: point.meanings })
            }
            Ready::Nodes(testbed, measure) => {
                let benchmark = self.benchmark;
                measure(testbed, &NodesLoad { benchmark, config, rate, observe, folder }, control)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::benchmark;
    use crate::request::resolve::resolve;

    /// The name of the nodes' checkpoint, if there are several nodes.
    fn nodes(name: &str, set: &[&str]) -> Result<Option<String>, String> {
        let known = benchmark(name).unwrap();
        let set: Vec<String> = known.defaults.iter().chain(set).map(|&text| text.to_owned()).collect();
        let config = resolve("fast", &set).unwrap();
        let plan = BenchmarkPlan::new(known, &config, "mine", 1).map_err(|error| error.to_string())?;
        Ok(plan.nodes.map(|(nodes, _)| nodes.name))
    }

    #[test]
    fn benchmark_and_drive_kind_decide_which_nodes_boot() {
        assert_eq!(nodes("testpmd", &[]), Ok(None));
        assert_eq!(nodes("testpmd", &["drive.kind=node"]), Ok(Some("testpmd-driven".to_owned())));
        assert_eq!(nodes("iperf", &["drive.kind=node"]), Ok(Some("iperf".to_owned())));
        let error = nodes("compute", &["drive.kind=node"]).unwrap_err();
        assert!(
            error.starts_with("drive.kind: ") && error.contains("which compute does not process"),
            "{error}"
        );
    }
}
