//! Registry of benchmarks: lookup by name, and their sections of the configuration.

use doorbell_machine::ConfigError;
use doorbell_machine::overlay::nearest;

use crate::measure::benchmark::{Benchmark, Nodes};
use crate::plan::config::RunConfig;
use crate::plan::drive::DriveConfig;
use crate::plan::options::{OptionSections, Section, path_of};
use crate::scenarios::BENCHMARKS;
use crate::testbed::corunners::CorunnerConfig;

impl Benchmark {
    /// Rejects assignments ("path=value") to sections that only other benchmarks have: they would change
    /// nothing but the configuration's hash.
    pub fn reject_foreign_settings<'s>(
        &self,
        set: impl IntoIterator<Item = &'s String>,
    ) -> Result<(), ConfigError> {
        for path in set.into_iter().map(|assignment| path_of(assignment)) {
            let section = path.split('.').next().unwrap_or_default();
            let has_section =
                |benchmark: &&Benchmark| benchmark.options.iter().any(|own| own.name == section);
            let owners = BENCHMARKS.iter().filter(has_section).map(|benchmark| benchmark.name);
            let owners: Vec<&str> = owners.collect();
            if !owners.is_empty() && !has_section(&self) {
                let owners = owners.join(", ");
                let problem =
                    format!("it is for {owners}, but {} has no [{section}]; remove this setting", self.name);
                return Err(ConfigError::new(path, problem));
            }
        }
        Ok(())
    }
}

/// Sections that every benchmark has.
const COMMON_SECTIONS: &[Section] = &[Section::of::<DriveConfig>(), Section::of::<CorunnerConfig>()];

/// The sections of these benchmarks, in the benchmarks' order, and the common sections.
pub(crate) fn options_of(benchmarks: &[Benchmark]) -> OptionSections {
    let own = benchmarks.iter().flat_map(|benchmark| benchmark.options);
    OptionSections::of(own.chain(COMMON_SECTIONS).copied())
}

/// The sections of all benchmarks.
pub(crate) fn sections() -> OptionSections {
    options_of(BENCHMARKS)
}

/// A configuration with the sections of all benchmarks, at their defaults.
pub fn defaults() -> RunConfig {
    RunConfig::of_options(sections())
}

/// Sections of a whole run, which a node of a network cannot have: all except those of single-machine
/// benchmarks.
pub(crate) fn run_sections() -> Vec<&'static str> {
    let one = BENCHMARKS.iter().filter(|benchmark| matches!(benchmark.nodes, Nodes::One));
    let node_sections: Vec<&str> =
        one.flat_map(|benchmark| benchmark.options).map(|section| section.name).collect();
    sections().names().into_iter().filter(|name| !node_sections.contains(name)).collect()
}

/// The benchmark called `name`.
pub fn benchmark(name: &str) -> Result<&'static Benchmark, ConfigError> {
    BENCHMARKS.iter().find(|benchmark| benchmark.name == name).ok_or_else(|| {
        let names: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
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
