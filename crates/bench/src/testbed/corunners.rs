//! Co-runners of a machine: the traces in `beside.traces`, each played on an extra core with a number after
//! those of the harts. They are available in benchmarks on one machine, and on the test node of cabled nodes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use doorbell_machine::playback::{CorunnerStats, Pages, PagesConfig, TraceInput};
use doorbell_machine::{ConfigError, Machine};
use doorbell_results::{PlayedNeighbour, PlayedTrace};
use doorbell_trace::champsim::Variant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::RunError;
use crate::plan::config::RunConfig;
use crate::plan::options::{self, Options};
use crate::ratio::per;
use crate::testbed::traces::{NamedTrace, contents};

doorbell_sim::config! {
    /// Traces that run on extra cores of the machine, or of the test node.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct CorunnerConfig {
        /// Traces (docs/traces.md), each played in a loop on an extra core that no guest sees. These cores
        /// are numbered after the harts and are configured as hart.N, with N from platform.harts on. A trace
        /// must have one hart and no devices; traces of ChampSim and DynamoRIO are supported.
        pub traces: Vec<PathBuf> = Vec::new(),
        /// Whether ChampSim traces among them use its format variant `cloudsuite`.
        #[serde(skip_serializing_if = "options::is_default")]
        pub cloudsuite: bool = false,
        /// Page tables of traces with virtual addresses only: `kernel`, `champsim` or `identity`
        /// (docs/traces.md); `kernel` by default.
        pub pages: Pages = Pages::Kernel,
    }
}

impl Options for CorunnerConfig {
    const SECTION: &'static str = "beside";
    const QUIET: bool = true;

    fn validate(&self, _: &RunConfig) -> Result<(), ConfigError> {
        Ok(())
    }

    fn trace_cores(&self) -> u32 {
        self.traces.len() as u32
    }
}

impl CorunnerConfig {
    /// Identity of the traces by their contents, for stored results; empty if there are none.
    pub(crate) fn identity(&self) -> Result<String, RunError> {
        let each = self.traces.iter().map(|path| Ok(format!(" beside {}", contents(path)?.1)));
        each.collect()
    }
}

/// Co-runner traces, opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Corunners {
    /// One per file, even if it is played several times.
    traces: Arc<Vec<NamedTrace>>,
    own: CorunnerConfig,
}

impl Corunners {
    /// Opens the configured traces, reading each file once. Unplayable files are errors, doubtful ones cause
    /// a warning.
    pub fn open(own: &CorunnerConfig, say: &mut dyn FnMut(&str)) -> Result<Corunners, RunError> {
        let variant = Variant::of(own.cloudsuite);
        let mut traces: Vec<NamedTrace> = Vec::new();
        for path in &own.traces {
            if traces.iter().all(|opened| opened.path != *path) {
                say(&format!("reading the co-runner trace {}", path.display()));
                let trace = NamedTrace::open(path, variant)?;
                trace.trace.check_corunner().map_err(RunError::playback(path))?;
                trace.doubts(variant).iter().for_each(|doubt| say(doubt));
                traces.push(trace);
            }
        }
        Ok(Corunners { traces: Arc::new(traces), own: own.clone() })
    }

    /// Adds them to a machine that was just built.
    pub fn join(&self, machine: &mut Machine) -> Result<(), RunError> {
        let Some(first) = self.traces.first() else { return Ok(()) };
        let input = |path: &PathBuf| {
            self.traces.iter().find(|opened| opened.path == *path).map(|opened| opened.trace.clone())
        };
        let traces: Vec<TraceInput> = self.own.traces.iter().filter_map(input).collect();
        let pages = PagesConfig { pages: self.own.pages, ..PagesConfig::default() };
        machine.play_corunners(&traces, &pages).map_err(RunError::playback(&first.path))
    }

    /// Their descriptions in results.
    pub fn descriptions(&self) -> Vec<PlayedTrace> {
        self.traces.iter().map(|named| named.description.clone()).collect()
    }
}

/// Returns an error if a co-runner has failed.
pub(crate) fn check_failure(machine: &mut Machine) -> Result<(), RunError> {
    let failed = machine.take_corunner_failure();
    failed.map_or(Ok(()), |error| Err(RunError::playback(Path::new("beside.traces"))(error)))
}

/// Counts of the co-runners so far.
pub(crate) fn stats(machine: &Machine) -> Vec<CorunnerStats> {
    machine.corunners().collect()
}

/// Figures of the co-runners between two samples, `seconds` apart.
pub(crate) fn figures(
    [begin, end]: &[Vec<CorunnerStats>; 2],
    config: &RunConfig,
    seconds: f64,
) -> Vec<PlayedNeighbour> {
    let named = &config.options::<CorunnerConfig>().traces;
    let each = named.iter().zip(begin.iter().zip(end));
    let of = |(path, (begin, end)): (&PathBuf, (&CorunnerStats, &CorunnerStats))| {
        let instructions = end.instructions - begin.instructions;
        let cycles = config.hart(end.core).core.frequency.0 as f64 * seconds;
        PlayedNeighbour {
            file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            first_core: end.core,
            instructions,
            ipc: per(instructions as f64, cycles),
            rounds: end.rounds - begin.rounds,
        }
    };
    each.map(of).collect()
}

#[cfg(test)]
mod tests {
    use doorbell_trace::champsim::{Record, Writer};

    use super::*;

    fn written(path: &Path, records: u64, ip: u64) {
        let mut writer = Writer::create(path, Variant::Standard).unwrap();
        let record = Record { ip, ..Record::default() };
        (0..records).for_each(|_| writer.write_record(&record).unwrap());
        writer.finish().unwrap();
    }

    fn of(traces: &[&PathBuf]) -> CorunnerConfig {
        let traces = traces.iter().map(|path| (*path).clone()).collect();
        CorunnerConfig { traces, ..CorunnerConfig::default() }
    }

    #[test]
    fn file_is_read_once_and_unplayable_file_is_named_in_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let [path, short, none] = ["one", "short", "none"].map(|name| folder.path().join(name));
        written(&path, 20_000, 0x40_0000);
        written(&short, 100, 0x40_0000);
        let mut messages = Vec::new();
        let opened =
            Corunners::open(&of(&[&path, &path]), &mut |line| messages.push(line.to_owned())).unwrap();
        assert_eq!((opened.descriptions().len(), messages.len()), (1, 1), "{messages:?}");
        assert_eq!(opened.descriptions()[0].file, "one");
        for (wrong, message) in [(&none, "none: "), (&short, "has 99 instructions")] {
            let error = Corunners::open(&of(&[&path, wrong]), &mut |_| {}).unwrap_err().to_string();
            let name = wrong.file_name().unwrap().to_str().unwrap();
            assert!(error.contains(message) && error.contains(name), "{error}");
        }
    }

    #[test]
    fn identity_depends_on_the_contents_of_the_traces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one");
        written(&path, 100, 0x40_0000);
        let before = of(&[&path]).identity().unwrap();
        assert_eq!(of(&[&path]).identity().unwrap(), before);
        assert_eq!(of(&[&path, &path]).identity().unwrap(), before.repeat(2));
        written(&path, 101, 0x40_0000);
        assert_ne!(of(&[&path]).identity().unwrap(), before);
        assert_eq!(of(&[]).identity().unwrap(), "", "without traces the identity is unchanged");
        assert!(of(&[&folder.path().join("none")]).identity().unwrap_err().to_string().contains("none"));
    }
}
