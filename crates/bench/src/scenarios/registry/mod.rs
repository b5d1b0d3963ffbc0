//! What a benchmark is, which there are by name, and the sections of the configuration that are theirs.

mod benchmarks;

use doorbell_machine::ConfigError;
use doorbell_machine::overlay::nearest;

use crate::measure::benchmark::{Benchmark, Nodes};
use crate::plan::config::RunConfig;
use crate::plan::drive::DriveConfig;
use crate::plan::options::{OptionSections, Section, path_of};
use crate::testbed::corunners::BesideConfig;

pub use benchmarks::{BENCHMARKS, NETWORK, PLAYED};

impl Benchmark {
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

/// Those of all benchmarks.
pub(crate) fn sections() -> OptionSections {
    options_of(BENCHMARKS)
}

/// A configuration with the sections of all benchmarks, at their defaults.
pub fn defaults() -> RunConfig {
    RunConfig::of_options(sections())
}

/// The sections that no program has that runs in one machine: they say how a run goes, and are no node's of a network.
pub(crate) fn sections_of_runs() -> Vec<&'static str> {
    let one = BENCHMARKS.iter().filter(|known| matches!(known.nodes, Nodes::One));
    let of_nodes: Vec<&str> = one.flat_map(|known| known.options).map(|section| section.name).collect();
    sections().names().into_iter().filter(|name| !of_nodes.contains(name)).collect()
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
