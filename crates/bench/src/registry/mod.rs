//! What a benchmark is, which there are by name, and the sections of the configuration that are theirs.

mod benchmarks;

use doorbell_loadgen::{Kind, Returned};
use doorbell_machine::ConfigError;
use doorbell_machine::overlay::nearest;
use doorbell_sim::Ps;

use crate::beside::BesideConfig;
use crate::config::RunConfig;
use crate::counting::Counting;
use crate::drive::DriveConfig;
use crate::nodes::NodeGuest;
use crate::options::{OptionSections, Section};
use crate::prepared::MeasureNodes;
use crate::resolve::path_of;
use crate::run_up::RunUp;
use crate::session::{Ready, Workload};

pub use benchmarks::{BENCHMARKS, NETWORK, PLAYED};

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
    /// What whoever runs it should know of this configuration.
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

    /// Refuses what is set ("path=value") of sections that other benchmarks have and this one has not: it would change nothing but the
    /// configuration's hash.
    pub fn refuse_of_others<'s>(&self, set: impl IntoIterator<Item = &'s String>) -> Result<(), ConfigError> {
        for path in set.into_iter().map(|assignment| path_of(assignment)) {
            let section = path.split('.').next().unwrap_or_default();
            let has = |known: &&Benchmark| known.options.iter().any(|own| own.name == section);
            let whose: Vec<&str> = BENCHMARKS.iter().filter(has).map(|known| known.name).collect();
            if !whose.is_empty() && !has(&self) {
                let whose = whose.join(", ");
                let problem =
                    format!("it is for {whose}, and {} has no [{section}]; leave it out", self.name);
                return Err(ConfigError::new(path, problem));
            }
        }
        Ok(())
    }
}

/// What is no benchmark's own.
const OF_ALL: &[Section] = &[Section::of::<DriveConfig>(), Section::of::<BesideConfig>()];

/// The sections of these benchmarks, in the benchmarks' order, and those of all.
pub(crate) fn options_of(benchmarks: &[Benchmark]) -> OptionSections {
    let own = benchmarks.iter().flat_map(|known| known.options);
    OptionSections::of(own.chain(OF_ALL).copied())
}

impl Default for OptionSections {
    /// Those of all benchmarks.
    fn default() -> OptionSections {
        options_of(BENCHMARKS)
    }
}

/// The sections that no program has that runs in one machine: they say how a run goes, and are no node's of a network.
pub(crate) fn sections_of_runs() -> Vec<&'static str> {
    let one = BENCHMARKS.iter().filter(|known| matches!(known.nodes, Nodes::One));
    let of_nodes: Vec<&str> = one.flat_map(|known| known.options).map(|section| section.name).collect();
    OptionSections::default().names().into_iter().filter(|name| !of_nodes.contains(name)).collect()
}

/// The benchmark called `name`.
pub fn benchmark(name: &str) -> Result<&'static Benchmark, ConfigError> {
    BENCHMARKS.iter().find(|known| known.name == name).ok_or_else(|| {
        let names: Vec<&str> = BENCHMARKS.iter().map(|known| known.name).collect();
        let hint =
            nearest(name, names.iter()).map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
        ConfigError::new(
            "benchmark",
            format!("there is no benchmark \"{name}\"{hint} (benchmarks: {})", names.join(", ")),
        )
    })
}

#[cfg(test)]
mod tests;
