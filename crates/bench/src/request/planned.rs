//! A benchmark, whatever it is made of, from its plan to its results: one machine, a machine that a second node drives, two nodes
//! of its own, or a network. Commands and studies go by this way alone, and so measure the same.

use std::path::Path;

use doorbell_image::Image;
use doorbell_loadgen::Rate;
use doorbell_machine::CoreModel;
use doorbell_results::RunIdentity;

use crate::error::RunError;
use crate::measure::benchmark::{Benchmark, MeasureNodes, Measured, Nodes, NodesLoad};
use crate::measure::driven::{driven_guests, run_driven};
use crate::measure::node_profile::profile_test_node;
use crate::measure::point::run_point_sent;
use crate::plan::config::RunConfig;
use crate::plan::drive::{DriveConfig, DriveKind};
use crate::request::network::{NetworkRun, run_network};
use crate::store::folder::ResultFolder;
use crate::store::paths::{Images, Places, check_cards, guest_identity, image_for};
use crate::testbed::control::Control;
use crate::testbed::corunners::BesideConfig;
use crate::testbed::nodes::NodesTestbed;
use crate::testbed::nodes::TestbedPlan;
use crate::testbed::ready::{Plan as _, Source};
use crate::testbed::session::Session;
use crate::window::observe::{Delivered, Observe, profile_of_node};

/// A benchmark with a configuration, checked; nothing is built or booted yet.
#[derive(Clone, Debug)]
pub struct BenchmarkPlan<'a> {
    pub(crate) benchmark: &'static Benchmark,
    pub(crate) config: &'a RunConfig,
    /// The nodes, and how they are measured; without them it is one machine.
    pub(crate) nodes: Option<(TestbedPlan, MeasureNodes)>,
}

impl<'a> BenchmarkPlan<'a> {
    /// Refuses what cannot be. A network has this name among checkpoints, and so many host threads run its nodes.
    pub fn new(
        benchmark: &'static Benchmark,
        config: &'a RunConfig,
        (network_name, threads): (&str, usize),
    ) -> Result<BenchmarkPlan<'a>, RunError> {
        let joined = |name: &str, guests| TestbedPlan::joined(config, name, guests);
        let nodes: Option<(TestbedPlan, MeasureNodes)> = match benchmark.nodes {
            Nodes::One if config.options::<DriveConfig>().kind == DriveKind::Node => {
                let guests = driven_guests(benchmark, config)?;
                Some((joined(&format!("{}-driven", benchmark.name), guests.into())?, driven))
            }
            Nodes::One => None,
            Nodes::Joined { guests, run_up, measure } => {
                let plan = joined(benchmark.name, guests(config)?)?;
                Some((TestbedPlan { run_up: run_up(config), ..plan }, measure))
            }
            Nodes::Network => {
                let (plan, _) = TestbedPlan::network(config, network_name, threads)?;
                Some((plan, network))
            }
        };
        // Benchmarks have their ports named by place; what users' nodes run goes by the names that Linux gives.
        if let (Nodes::Network, Some((plan, _))) = (&benchmark.nodes, &nodes) {
            let mut guests = plan.guests.iter().zip(&plan.network.nodes);
            guests.try_for_each(|(guest, (_, node))| check_cards(&guest.image, node))?;
        }
        Ok(BenchmarkPlan { benchmark, config, nodes })
    }

    /// Refuses what cannot be observed of it.
    pub fn check(&self, observe: &Observe) -> Result<(), RunError> {
        let tested = if matches!(self.benchmark.nodes, Nodes::Network) { None } else { Some(0) };
        let network = self.nodes.as_ref().map(|(plan, _)| (&plan.network, tested));
        if network.is_none() {
            let timed = self.config.core.model == CoreModel::Timed;
            observe.check_machine(timed, self.config.loadgen.stages)?;
        }
        Ok(observe.check_node(network)?)
    }

    /// Names what runs in its machine, or in all its nodes; images that are missing are built.
    pub fn identity(&self, images: &mut Images, say: &mut dyn FnMut(&str)) -> Result<String, RunError> {
        if let Some((plan, _)) = &self.nodes {
            return plan.identity(images, say);
        }
        let (benchmark, config) = (self.benchmark, self.config);
        let own = image_for(benchmark.image, &config.machine());
        let image = images.get(own, config.run.image.as_deref(), say)?;
        let words = format!("{} {}", image.command_line(), (benchmark.guest_words)(config));
        Ok(guest_identity(image, &words) + &config.options::<BesideConfig>().identity()?)
    }

    /// Gets it ready.
    pub fn prepare(
        self,
        places: &Places,
        source: &Source,
        control: &mut Control,
    ) -> Result<Prepared, RunError> {
        let Self { benchmark, config, nodes } = self;
        let ready = match nodes {
            None => {
                let session = Session::prepare(config, benchmark, places, source, control)?;
                Ready::Machine(Box::new(session))
            }
            Some((plan, measure)) => {
                let testbed = plan.prepare(places, source, control)?;
                Ready::Nodes(Box::new(testbed), measure)
            }
        };
        Ok(Prepared { benchmark, ready })
    }
}

/// A benchmark that is ready to be measured, any number of times.
pub struct Prepared {
    benchmark: &'static Benchmark,
    ready: Ready,
}

enum Ready {
    Machine(Box<Session>),
    Nodes(Box<NodesTestbed>, MeasureNodes),
}

impl Prepared {
    /// What got ready, in words.
    pub fn who(&self) -> &'static str {
        match self.ready {
            Ready::Machine(_) => "ready",
            Ready::Nodes(..) => "all nodes ready",
        }
    }

    /// Host time and instructions of the boot; `None` if it came from a checkpoint.
    pub fn boot(&self) -> Option<(f64, u64)> {
        match &self.ready {
            Ready::Machine(session) => session.boot,
            Ready::Nodes(testbed, _) => testbed.boot,
        }
    }

    /// Whether measurements leave fingerprints.
    pub fn set_fingerprint(&mut self, wanted: bool) {
        match &mut self.ready {
            Ready::Machine(session) => session.fingerprint = wanted,
            Ready::Nodes(testbed, _) => testbed.fingerprint = wanted,
        }
    }

    /// Writes the checkpoint from which measurements start.
    pub fn write_checkpoint(&self, path: &Path) -> Result<(), RunError> {
        match &self.ready {
            Ready::Machine(session) => session.checkpoint().write(path)?,
            Ready::Nodes(testbed, _) => testbed.checkpoint().write(path)?,
        }
        Ok(())
    }

    /// What runs, for results.
    pub fn ran(&self) -> RunIdentity {
        match &self.ready {
            Ready::Machine(session) => session.ran(),
            Ready::Nodes(testbed, _) => testbed.ran(),
        }
    }

    /// What is booted, an image a node.
    pub fn images(&self) -> Vec<&Image> {
        match &self.ready {
            Ready::Machine(session) => vec![session.image()],
            Ready::Nodes(testbed, _) => testbed.plan.images().iter().collect(),
        }
    }

    /// Measures a load, and writes to `folder` what there is of it beside its summary. A network's generators have the rates of `config`,
    /// all others `rate`. Of what `observe` asks for, nodes have captures, profiles, and the trace of
    /// one of them.
    pub fn measure(
        &self,
        (config, rate): (&RunConfig, Rate),
        observe: &Observe,
        folder: &ResultFolder,
        control: &mut Control,
    ) -> Result<Measured, RunError> {
        match &self.ready {
            Ready::Machine(session) => {
                let point = run_point_sent(session, (&config.loadgen.traffic, rate), observe, control)?;
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

/// Node 1 sends frames to the benchmark in node 0.
fn driven(testbed: &NodesTestbed, load: &NodesLoad, control: &mut Control) -> Result<Measured, RunError> {
    let NodesLoad { benchmark, config, rate, observe, folder } = *load;
    let offered = (rate, config.loadgen.traffic.frame_size);
    let mut point = run_driven(testbed, (config, benchmark), offered, observe, control)?;
    profile_test_node(load, testbed, (&mut point.network, point.watched.take()), &mut point.summary)?;
    folder.write_nodes(&point.config, &point.network, &point.counters)?;
    if let Some(limit) = point.limit() {
        (control.say)(&limit);
    }
    Ok(Measured { config: point.config, summary: point.summary, meanings: point.meanings })
}

/// What a network's file says; each of its cables is captured in a file of its own.
fn network(testbed: &NodesTestbed, load: &NodesLoad, control: &mut Control) -> Result<Measured, RunError> {
    let NodesLoad { config, observe, folder, .. } = *load;
    let captures = observe.capture.as_ref().map(|_| folder.path());
    let mut run = run_network(testbed, (config, &config.topology()?), (captures, observe), control)?;
    profile_nodes(load, testbed, &mut run)?;
    folder.write_nodes(config, &run.network, &run.counters)?;
    Ok(Measured { config: config.clone(), summary: run.summary, meanings: run.meanings })
}

/// The same of each timed node of a network.
fn profile_nodes(load: &NodesLoad, testbed: &NodesTestbed, run: &mut NetworkRun) -> Result<(), RunError> {
    let Some(own) = &mut run.summary.network else { return Ok(()) };
    let names: Vec<String> = run.network.config().nodes.iter().map(|(name, _)| name.clone()).collect();
    let watched = names.iter().zip(std::mem::take(&mut run.watched)).enumerate();
    for (node, (name, (watched, bytes))) in watched {
        let Some(figures) = own.nodes.get_mut(name) else { continue };
        let image = &testbed.plan.images()[node];
        let delivered = Delivered { bytes, ports: &figures.ports, seconds: run.summary.simulated_seconds };
        let of = (&mut run.network, node);
        let (functions, kinds) = profile_of_node(load.observe, of, image, watched, &delivered, load.folder)?;
        (figures.functions, figures.kinds) = (functions, kinds);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::resolve::resolve;
    use crate::scenarios::registry::benchmark;

    /// What the nodes are called among checkpoints, if there are several.
    fn nodes(name: &str, set: &[&str]) -> Result<Option<String>, String> {
        let known = benchmark(name).unwrap();
        let set: Vec<String> = known.defaults.iter().chain(set).map(|&text| text.to_owned()).collect();
        let config = resolve("fast", &set).unwrap();
        let plan = BenchmarkPlan::new(known, &config, ("mine", 1)).map_err(|error| error.to_string())?;
        Ok(plan.nodes.map(|(nodes, _)| nodes.name))
    }

    #[test]
    fn what_is_got_ready_follows_from_the_benchmark_and_from_what_drives_it() {
        assert_eq!(nodes("testpmd", &[]), Ok(None));
        assert_eq!(nodes("testpmd", &["drive.kind=node"]), Ok(Some("testpmd-driven".to_owned())));
        assert_eq!(nodes("iperf", &["drive.kind=node"]), Ok(Some("iperf".to_owned())));
        let error = nodes("compute", &["drive.kind=node"]).unwrap_err();
        assert!(error.starts_with("drive.kind: ") && error.contains("no load for compute"), "{error}");
    }
}
