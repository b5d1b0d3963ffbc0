//! Programs beside a machine: traces that `neighbour.traces` names, each on a core of its own behind those of the harts. Any benchmark on one
//! machine can have them, and of nodes on cables the tested one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use doorbell_machine::Machine;
use doorbell_machine::playback::{BesideStats, TraceInput};
use doorbell_results::{PlayedNeighbour, PlayedTrace};
use doorbell_trace::champsim::Variant;

use crate::config::RunConfig;
use crate::error::RunError;
use crate::interval::per;
use crate::neighbour::NeighbourConfig;
use crate::playback::NamedTrace;

/// The traces, opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    /// Each file once.
    traces: Arc<Vec<NamedTrace>>,
    own: NeighbourConfig,
}

impl Programs {
    /// Opens what a configuration names, if it names any: each file is read once. What is doubtful in it is said.
    pub fn open(own: &NeighbourConfig, say: &mut dyn FnMut(&str)) -> Result<Programs, RunError> {
        let variant = if own.cloudsuite { Variant::CloudSuite } else { Variant::Standard };
        let mut traces: Vec<NamedTrace> = Vec::new();
        for path in &own.traces {
            if traces.iter().all(|known| known.path != *path) {
                say(&format!("reading {}, to be played beside it", path.display()));
                let trace = NamedTrace::open(path, variant)?;
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
        machine.play_beside(&traces, &self.own.tables()).map_err(RunError::playback(&first.path))
    }

    /// What results say of them.
    pub fn known(&self) -> Vec<PlayedTrace> {
        self.traces.iter().map(|named| named.known.clone()).collect()
    }
}

/// What programs have done so far.
pub(crate) fn look(machine: &Machine) -> Vec<BesideStats> {
    machine.beside().collect()
}

/// What they did from one look to another, so many seconds later.
pub(crate) fn figures(
    [begin, end]: [&[BesideStats]; 2],
    config: &RunConfig,
    seconds: f64,
) -> Vec<PlayedNeighbour> {
    let named = &config.options::<NeighbourConfig>().traces;
    let each = named.iter().zip(begin.iter().zip(end));
    let of = |(path, (begin, end)): (&PathBuf, (&BesideStats, &BesideStats))| {
        let instructions = end.instructions - begin.instructions;
        let cycles = config.hart(end.core).core.frequency.0 as f64 * seconds;
        PlayedNeighbour {
            file: file_name(path),
            first_core: end.core,
            instructions,
            ipc: per(instructions as f64, cycles),
            rounds: end.rounds - begin.rounds,
        }
    };
    each.map(of).collect()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_once_and_one_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one.champsim");
        let mut writer = doorbell_trace::champsim::Writer::create(&path, Variant::Standard).unwrap();
        let record = doorbell_trace::champsim::Record { ip: 0x40_0000, ..Default::default() };
        (0..100).for_each(|_| writer.write_record(&record).unwrap());
        writer.finish().unwrap();
        let of = |traces: &[&PathBuf]| NeighbourConfig {
            traces: traces.iter().map(|path| (*path).clone()).collect(),
            ..NeighbourConfig::default()
        };
        let mut said = Vec::new();
        let opened = Programs::open(&of(&[&path, &path]), &mut |line| said.push(line.to_owned())).unwrap();
        assert_eq!((opened.known().len(), said.len()), (1, 1), "{said:?}");
        assert_eq!(opened.known()[0].file, "one.champsim");
        let none = folder.path().join("none.champsim");
        let error = Programs::open(&of(&[&path, &none]), &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("none.champsim"), "{error}");
    }
}
