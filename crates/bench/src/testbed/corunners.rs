//! Programs beside a machine: traces that `beside.traces` names, each on a core of its own behind those of the harts. Any benchmark on one
//! machine can have them, and of nodes on cables the tested one.

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

/// What is played beside the machine, or beside the tested one of two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BesideConfig {
    /// Traces (docs/traces.md), each played over and over again on a core of its own behind those of the harts, which is hart.N as well
    /// (N from platform.harts on), but no guest sees it. One hart each, without devices; ChampSim's and DynamoRIO's will do.
    pub traces: Vec<PathBuf>,
    /// Whether ChampSim's among them are of its variant `cloudsuite`.
    #[serde(skip_serializing_if = "options::is_default")]
    pub cloudsuite: bool,
    /// Page tables of traces with virtual addresses alone: `kernel`, `champsim` or `identity` (docs/traces.md); `kernel` if nothing is said.
    pub pages: Pages,
}

impl Default for BesideConfig {
    fn default() -> Self {
        BesideConfig { traces: Vec::new(), cloudsuite: false, pages: Pages::Kernel }
    }
}

impl Options for BesideConfig {
    const SECTION: &'static str = "beside";
    const QUIET: bool = true;

    fn validate(&self, _: &RunConfig) -> Result<(), ConfigError> {
        Ok(())
    }

    fn trace_cores(&self) -> u32 {
        self.traces.len() as u32
    }
}

impl BesideConfig {
    /// Names the traces by their contents, for what is kept of results; nothing where there are none.
    pub(crate) fn identity(&self) -> Result<String, RunError> {
        let each = self.traces.iter().map(|path| Ok(format!(" beside {}", contents(path)?.1)));
        each.collect()
    }
}

/// The traces, opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    /// Each file once.
    traces: Arc<Vec<NamedTrace>>,
    own: BesideConfig,
}

impl Programs {
    /// Opens what is named, if anything is: each file is read once, and what cannot be played or is doubtful is said.
    pub fn open(own: &BesideConfig, say: &mut dyn FnMut(&str)) -> Result<Programs, RunError> {
        let variant = Variant::of(own.cloudsuite);
        let mut traces: Vec<NamedTrace> = Vec::new();
        for path in &own.traces {
            if traces.iter().all(|known| known.path != *path) {
                say(&format!("reading {}, to be played beside it", path.display()));
                let trace = NamedTrace::open(path, variant)?;
                trace.trace.check_corunner().map_err(RunError::playback(path))?;
                trace.doubts(variant).iter().for_each(|doubt| say(doubt));
                traces.push(trace);
            }
        }
        Ok(Programs { traces: Arc::new(traces), own: own.clone() })
    }

    /// Has them played beside the harts of a machine that was just built.
    pub fn join(&self, machine: &mut Machine) -> Result<(), RunError> {
        let Some(first) = self.traces.first() else { return Ok(()) };
        let input = |path: &PathBuf| {
            self.traces.iter().find(|known| known.path == *path).map(|known| known.trace.clone())
        };
        let traces: Vec<TraceInput> = self.own.traces.iter().filter_map(input).collect();
        let pages = PagesConfig { pages: self.own.pages, ..PagesConfig::default() };
        machine.play_corunners(&traces, &pages).map_err(RunError::playback(&first.path))
    }

    /// What results say of them.
    pub fn known(&self) -> Vec<PlayedTrace> {
        self.traces.iter().map(|named| named.known.clone()).collect()
    }
}

/// One that cannot go on ends the run.
pub(crate) fn went_on(machine: &mut Machine) -> Result<(), RunError> {
    let failed = machine.take_corunner_failure();
    failed.map_or(Ok(()), |error| Err(RunError::playback(Path::new("beside.traces"))(error)))
}

/// What programs have done so far.
pub(crate) fn look(machine: &Machine) -> Vec<CorunnerStats> {
    machine.corunners().collect()
}

/// What they did from one look to another, so many seconds later.
pub(crate) fn figures(
    [begin, end]: [&[CorunnerStats]; 2],
    config: &RunConfig,
    seconds: f64,
) -> Vec<PlayedNeighbour> {
    let named = &config.options::<BesideConfig>().traces;
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

    fn of(traces: &[&PathBuf]) -> BesideConfig {
        let traces = traces.iter().map(|path| (*path).clone()).collect();
        BesideConfig { traces, ..BesideConfig::default() }
    }

    #[test]
    fn a_file_is_read_once_and_one_that_cannot_be_played_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let [path, short, none] = ["one", "short", "none"].map(|name| folder.path().join(name));
        written(&path, 20_000, 0x40_0000);
        written(&short, 100, 0x40_0000);
        let mut said = Vec::new();
        let opened = Programs::open(&of(&[&path, &path]), &mut |line| said.push(line.to_owned())).unwrap();
        assert_eq!((opened.known().len(), said.len()), (1, 1), "{said:?}");
        assert_eq!(opened.known()[0].file, "one");
        for (wrong, says) in [(&none, "none: "), (&short, "has 99 instructions")] {
            let error = Programs::open(&of(&[&path, wrong]), &mut |_| {}).unwrap_err().to_string();
            let name = wrong.file_name().unwrap().to_str().unwrap();
            assert!(error.contains(says) && error.contains(name), "{error}");
        }
    }

    #[test]
    fn traces_are_named_by_their_contents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one");
        written(&path, 100, 0x40_0000);
        let before = of(&[&path]).identity().unwrap();
        assert_eq!(of(&[&path]).identity().unwrap(), before);
        assert_eq!(of(&[&path, &path]).identity().unwrap(), before.repeat(2));
        written(&path, 101, 0x40_0000);
        assert_ne!(of(&[&path]).identity().unwrap(), before);
        assert_eq!(
            of(&[]).identity().unwrap(),
            "",
            "what is kept of results without traces is called as it was"
        );
        assert!(of(&[&folder.path().join("none")]).identity().unwrap_err().to_string().contains("none"));
    }
}
