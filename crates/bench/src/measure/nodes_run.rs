//! A measurement of several nodes: the restored network, what is recorded, and the result files.

use std::path::PathBuf;
use std::time::Instant;

use doorbell_machine::{Network, WatchReport};
use doorbell_results::{FunctionCost, KindFigures, PointSummary};
use doorbell_wire::pcap::{PcapFile, WHOLE_FRAMES};

use crate::error::RunError;
use crate::figures::counters::MeasuredCounters;
use crate::figures::host_cost::HostCost;
use crate::measure::benchmark::{Measured, NodesLoad};
use crate::plan::config::RunConfig;
use crate::testbed::nodes::NodesTestbed;
use crate::testbed::ready::Plan as _;
use crate::window::interval::meanings;
use crate::window::observe::{Delivered, NodeTrace, digest};

/// A network of nodes that is being measured.
pub(crate) struct NodesRun<'a> {
    pub network: Network,
    pub trace: Option<NodeTrace>,
    nodes: &'a NodesTestbed,
    load: &'a NodesLoad<'a>,
    started: Instant,
    /// Instructions executed before.
    booted: u64,
}

impl<'a> NodesRun<'a> {
    /// Restores the network and starts the captures, each of a link into a file. A requested trace has the
    /// configuration `config` of its node, and describes the run as `what`.
    pub fn begin<'c>(
        nodes: &'a NodesTestbed,
        load: &'a NodesLoad<'a>,
        captures: impl IntoIterator<Item = (usize, PathBuf)>,
        tested: Option<usize>,
        config: impl FnOnce(usize) -> &'c RunConfig,
        what: &str,
    ) -> Result<NodesRun<'a>, RunError> {
        let started = Instant::now();
        let mut network = nodes.network()?;
        load.observe.check_nodes(&network)?;
        for (link, file) in captures {
            network.capture(link, PcapFile::create(&file, WHOLE_FRAMES)?);
        }
        let trace = NodeTrace::create(load.observe, &network, tested, config, what)?;
        let booted = network.instructions();
        Ok(NodesRun { network, trace, nodes, load, started, booted })
    }

    /// Checks that all frames are accounted for, and completes captures and trace.
    pub fn end(&mut self) -> Result<HostCost, RunError> {
        self.network.check_conservation();
        self.network.finish_captures()?;
        if let Some(trace) = self.trace.take() {
            trace.finish(self.nodes, &mut self.network)?;
        }
        Ok(HostCost::since(self.started, self.network.instructions() - self.booted))
    }

    /// Costs of a node by function and by kind of CPU time. The names of the files that it writes include the
    /// node's name.
    pub fn profile(
        &mut self,
        node: usize,
        watched: Option<WatchReport>,
        delivered: &Delivered<'_>,
    ) -> Result<(Option<Vec<FunctionCost>>, Option<KindFigures>), RunError> {
        let Some(watched) = watched else { return Ok((None, None)) };
        let name = self.network.config().nodes[node].0.clone();
        let (image, machine) = (&self.nodes.plan.images()[node], self.network.node_mut(node));
        let mut observed = digest(self.load.observe, image, machine, watched, None)?;
        let profile = observed.profile(delivered);
        for (file, contents) in &observed.files {
            let (stem, ending) = file.split_once('.').expect("file names have extensions");
            self.load.folder.write(&format!("{stem}-{name}.{ending}"), contents)?;
        }
        Ok(profile)
    }

    /// Adds the test node's costs to the summary.
    pub fn profile_test_node(
        &mut self,
        watched: Option<WatchReport>,
        summary: &mut PointSummary,
    ) -> Result<(), RunError> {
        (summary.functions, summary.kinds) = self.profile(0, watched, &Delivered::of(summary))?;
        Ok(())
    }

    /// Writes the result files, with the counters of each node at both ends of the measurement.
    pub fn write(
        self,
        config: RunConfig,
        summary: PointSummary,
        counters: &[MeasuredCounters],
    ) -> Result<Measured, RunError> {
        self.load.folder.write_nodes(&config, &self.network, counters)?;
        Ok(Measured { config, meanings: meanings(&summary, &self.network), summary })
    }
}
