//! Definition of a benchmark: its guests, ready condition, treatment of frames, and measurement.

use std::collections::BTreeMap;

use doorbell_loadgen::{Kind, Rate, Returned};
use doorbell_machine::ConfigError;
use doorbell_results::PointSummary;
use doorbell_sim::Ps;

use crate::error::RunError;
use crate::plan::config::RunConfig;
use crate::plan::counting::Counting;
use crate::plan::options::Section;
use crate::plan::resolved::Resolved;
use crate::plan::workload::{Ready, Workload};
use crate::store::folder::ResultFolder;
use crate::store::paths::CachePaths;
use crate::testbed::control::Control;
use crate::testbed::nodes::{NodeGuest, NodesTestbed};
use crate::testbed::ramp::Ramp;
use crate::testbed::ready::Source;
use crate::testbed::session::Session;
use crate::window::observe::Observe;

/// Topology of a benchmark.
#[derive(Clone, Copy, Debug)]
pub enum Nodes {
    /// One machine with a load generator at each port.
    One,
    /// Cabled machines: a test node and a drive node, or a gateway as the test node between two others.
    Joined {
        /// Software of the nodes: the test node, the drive node, and in some benchmarks a server behind the
        /// test node.
        guests: fn(&RunConfig) -> Result<Vec<NodeGuest>, ConfigError>,
        /// A load that reaches a steady rate before measurements begin.
        ramp: fn(&RunConfig) -> Option<Ramp>,
        /// Measures the nodes.
        measure: MeasureNodes,
    },
    /// The topology of a network file.
    Network,
}

/// Measures a load on nodes that are ready. Results other than the summary are written to the load's folder.
pub type MeasureNodes = fn(&NodesTestbed, &NodesLoad, &mut Control) -> Result<Measured, RunError>;

/// A load on nodes.
pub struct NodesLoad<'a> {
    /// The benchmark.
    pub benchmark: &'static Benchmark,
    /// The configuration.
    pub config: &'a RunConfig,
    /// Requested rate of a drive node.
    pub rate: Rate,
    /// Requested observations: capture of the cable, profiles of the nodes, and a trace of one of them.
    pub observe: &'a Observe,
    /// Folder for the result files.
    pub folder: &'a ResultFolder,
}

/// Results of a load that are not written to files.
pub struct Measured {
    /// The configuration of the measurement, including the load.
    pub config: RunConfig,
    /// Its figures.
    pub summary: PointSummary,
    /// Meanings of the figures of ports and timing models.
    pub meanings: BTreeMap<String, String>,
}

/// A benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Benchmark {
    /// Its name on the command line.
    pub name: &'static str,
    /// The measured quantity, in one line.
    pub summary: &'static str,
    /// Its topology.
    pub nodes: Nodes,
    /// Its image.
    pub image: &'static str,
    /// Text on the console when the application is ready.
    pub ready_marker: &'static str,
    /// Words added to the kernel's command line.
    pub guest_words: fn(&RunConfig) -> String,
    /// Its sections of the configuration; several benchmarks may share one.
    pub options: &'static [Section],
    /// Its default settings, which the user's settings override.
    pub defaults: &'static [&'static str],
    /// The form in which test frames return.
    pub returned: fn(&RunConfig) -> Returned,
    /// Requests that are each sent once before the first measurement.
    pub preload: Option<Kind>,
    /// Whether it is measured without any traffic.
    pub silent: bool,
    /// Maximum time for which its program keeps a frame before it sends one back.
    pub pause: fn(&RunConfig) -> Ps,
    /// Descriptors of its receive and transmit rings, if its options set them, as polling programs do.
    pub rings: fn(&RunConfig) -> Option<[u32; 2]>,
    /// The program's counters, if a frame counts as delivered only when the program has processed it.
    pub counting: Option<&'static Counting>,
    /// Checks that its program can run on this machine, beyond the checks of single sections.
    pub check: fn(&RunConfig) -> Result<(), ConfigError>,
    /// A remark on this configuration, for the terminal.
    pub remark: fn(&RunConfig) -> Option<String>,
}

impl Benchmark {
    /// Its workload with this configuration.
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
    /// Prepares a benchmark's session.
    pub fn prepare(
        config: &Resolved,
        benchmark: &'static Benchmark,
        places: &CachePaths,
        source: &Source,
        control: &mut Control,
    ) -> Result<Session, RunError> {
        (benchmark.check)(config)?;
        Self::prepare_workload(config, benchmark.workload(config), places, source, control)
    }
}
