//! What a benchmark is: what boots, when it is ready, what it does to frames, and how it is measured.

use std::collections::BTreeMap;

use doorbell_loadgen::{Kind, Rate, Returned};
use doorbell_machine::ConfigError;
use doorbell_results::PointSummary;
use doorbell_sim::Ps;

use crate::error::RunError;
use crate::plan::config::RunConfig;
use crate::plan::counting::Counting;
use crate::plan::options::Section;
use crate::plan::workload::{Ready, Workload};
use crate::store::folder::ResultFolder;
use crate::store::paths::CachePaths;
use crate::testbed::control::Control;
use crate::testbed::nodes::{NodeGuest, NodesTestbed};
use crate::testbed::ramp::RunUp;
use crate::testbed::ready::Source;
use crate::testbed::session::Session;
use crate::window::observe::Observe;

/// What a benchmark is made of.
#[derive(Clone, Copy, Debug)]
pub enum Nodes {
    /// One machine, and a load generator at each of its ports.
    One,
    /// Machines on cables: the one that is tested and one that drives it, or a gateway that is tested between two others.
    Joined {
        /// What runs in them, of which the first is tested and the second drives; a third is behind the first.
        guests: fn(&RunConfig) -> Result<Vec<NodeGuest>, ConfigError>,
        /// A load that is at its pace before measurements begin.
        run_up: fn(&RunConfig) -> Option<RunUp>,
        /// How they are measured.
        measure: MeasureNodes,
    },
    /// Those that a network's file describes.
    Network,
}

/// How nodes that are ready are measured at a load. What there is of it beside its summary goes to the load's folder.
pub type MeasureNodes = fn(&NodesTestbed, &NodesLoad, &mut Control) -> Result<Measured, RunError>;

/// A load of nodes.
pub struct NodesLoad<'a> {
    /// What runs in them.
    pub benchmark: &'static Benchmark,
    /// The configuration.
    pub config: &'a RunConfig,
    /// The rate that is asked of a drive node.
    pub rate: Rate,
    /// What is observed: where what crosses the cable is captured, whether nodes are profiled, and the trace of one of them.
    pub observe: &'a Observe,
    /// Where files go.
    pub folder: &'a ResultFolder,
}

/// A load's results, beside the files that are written.
pub struct Measured {
    /// The configuration that it was measured with, its load filled in.
    pub config: RunConfig,
    /// Its figures.
    pub summary: PointSummary,
    /// What the figures of ports and timing models mean.
    pub meanings: BTreeMap<String, String>,
}

/// A benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Benchmark {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it measures, in one line.
    pub summary: &'static str,
    /// One machine with load generators, or two machines.
    pub nodes: Nodes,
    /// The image that it runs in.
    pub image: &'static str,
    /// What the console shows when the application is ready.
    pub ready_marker: &'static str,
    /// The words that it adds to the kernel's command line.
    pub guest_words: fn(&RunConfig) -> String,
    /// Its sections of the configuration; several benchmarks may share one.
    pub options: &'static [Section],
    /// What it sets in the configuration; the user's own settings are laid over it.
    pub defaults: &'static [&'static str],
    /// What it does to test frames.
    pub returned: fn(&RunConfig) -> Returned,
    /// Requests that are sent, each once, before the first measurement.
    pub preload: Option<Kind>,
    /// Whether it is measured without any traffic.
    pub silent: bool,
    /// How long it may keep a frame that nothing else holds up.
    pub pause: fn(&RunConfig) -> Ps,
    /// Descriptors of its receive and transmit rings, where its options say so: those of programs that poll.
    pub rings: fn(&RunConfig) -> Option<[u32; 2]>,
    /// What its program counts, where a frame is delivered only when the program has seen it.
    pub counting: Option<&'static Counting>,
    /// Whether its program can run on this machine: what no section can check alone.
    pub check: fn(&RunConfig) -> Result<(), ConfigError>,
    /// A remark on this configuration, for the terminal.
    pub remark: fn(&RunConfig) -> Option<String>,
}

impl Benchmark {
    /// What it boots with this configuration.
    pub fn workload(&self, config: &RunConfig) -> Workload {
        Workload {
            name: self.name.to_owned(),
            image: self.image.to_owned(),
            words: (self.guest_words)(config),
            ready: Ready::Marker(self.ready_marker),
            returned: (self.returned)(config),
            preload: self.preload,
            silent: self.silent,
            pause: (self.pause)(config),
            rings: (self.rings)(config),
            counting: self.counting,
        }
    }
}

impl Session {
    /// Gets a benchmark's application ready.
    pub fn prepare(
        config: &RunConfig,
        benchmark: &'static Benchmark,
        places: &CachePaths,
        source: &Source,
        control: &mut Control,
    ) -> Result<Session, RunError> {
        (benchmark.check)(config)?;
        Self::prepare_workload(config, benchmark.workload(config), places, source, control)
    }
}
