//! The files that are played, and what tells them from others.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use doorbell_machine::playback::{Plan, PlaybackError, TraceInput};
use doorbell_results::{PlayedTrace, RunIdentity};
use doorbell_trace::champsim::{self, Variant};
use doorbell_trace::system::{Description, TraceFile};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::error::RunError;
use crate::plan::config::RunConfig;
use crate::plan::playback::{PlaybackConfig, Shape};

/// Bytes that are hashed at a time.
const PIECE: usize = 1 << 20;

/// A trace with the name of its file.
pub struct NamedTrace {
    /// The file.
    pub path: PathBuf,
    /// The trace.
    pub trace: TraceInput,
    /// What results say of it.
    pub known: PlayedTrace,
    /// What has no place in it, of one in another format.
    notes: Vec<String>,
}

impl fmt::Debug for NamedTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedTrace")
            .field("path", &self.path)
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}

impl NamedTrace {
    /// What may be wrong with how it is read.
    pub(crate) fn doubts(&self, variant: Variant) -> Vec<String> {
        let all = self.notes.iter().cloned().chain(self.trace.doubt(variant));
        all.map(|doubt| format!("{}: {doubt}", self.path.display())).collect()
    }

    /// Opens a file and reads it once, for its hash; of DynamoRIO's it may be a folder. One that is of neither its format nor our own, and
    /// not called so, is taken for ChampSim's, of this variant.
    pub fn open(path: &Path, variant: Variant) -> Result<NamedTrace, RunError> {
        let mut notes = Vec::new();
        let trace = if is_of_drmemtrace(path) {
            let opened = doorbell_drmemtrace::open(path)?;
            notes = opened.1;
            Ok(TraceInput::own(opened.0))
        } else if is_called_ours(path) {
            TraceFile::open(path).map(TraceInput::own).map_err(PlaybackError::from)
        } else {
            TraceInput::open(path, variant, None)
        };
        let trace = trace.map_err(RunError::playback(path))?.named(path);
        let (bytes, xxh3) = contents(path)?;
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (recorder, recorded, isa) = match trace.file().map(|own| own.description()) {
            Some(Description { recorder, recorded, isa, .. }) => {
                (recorder.clone(), recorded.clone(), isa.clone())
            }
            None => (format!("ChampSim's format, {variant:?}"), file.clone(), champsim::ISA.to_owned()),
        };
        let (harts, instructions) = (trace.harts(), trace.instructions());
        let known = PlayedTrace { file, bytes, xxh3, recorder, recorded, isa, harts, instructions };
        Ok(NamedTrace { path: path.to_owned(), trace, known, notes })
    }
}

/// Traces that are played side by side. The first is the one that is measured.
#[derive(Debug)]
pub struct Traces {
    all: Vec<NamedTrace>,
    /// The most NICs that one of them has.
    nics: u32,
    doubts: Vec<String>,
}

impl Traces {
    /// Opens files, at least one. `cloudsuite`: ChampSim's among them are of its variant with 96 bytes an instruction.
    pub fn open(paths: &[PathBuf], cloudsuite: bool) -> Result<Traces, RunError> {
        let variant = Variant::of(cloudsuite);
        let all: Vec<NamedTrace> =
            paths.iter().map(|path| NamedTrace::open(path, variant)).collect::<Result<_, _>>()?;
        assert!(!all.is_empty(), "there is a trace to play");
        let doubts = all.iter().flat_map(|trace| trace.doubts(variant)).collect();
        let mut nics = 0;
        for named in &all {
            nics = nics.max(named.trace.nics().map_err(RunError::playback(&named.path))?);
        }
        Ok(Traces { all, nics, doubts })
    }

    /// The one that is measured.
    pub fn first(&self) -> &NamedTrace {
        &self.all[0]
    }

    /// What is played beside it.
    pub fn neighbours(&self) -> &[NamedTrace] {
        &self.all[1..]
    }

    /// What may be wrong with how they are read.
    pub fn doubts(&self) -> &[String] {
        &self.doubts
    }

    /// Whether one of them is ChampSim's.
    pub fn has_champsim(&self) -> bool {
        self.all.iter().any(|named| named.trace.file().is_none())
    }

    /// How many cores they take.
    pub fn harts(&self) -> u32 {
        self.all.iter().map(|trace| u32::from(trace.known.harts)).sum()
    }

    /// What a configuration has to know of them.
    pub fn shape(&self) -> Shape {
        let is_physical = self.all.iter().all(|named| named.trace.is_physical());
        Shape { harts: self.harts(), nics: self.nics, is_physical }
    }

    /// Names them by their contents and how they are read: what results depend on.
    pub fn identity(&self) -> String {
        let each = self.all.iter().map(|trace| format!("{} {}\n", trace.known.xxh3, trace.known.recorder));
        format!("{:032x}", xxh3_128(each.collect::<String>().as_bytes()))
    }

    /// What is played on a configuration.
    pub(crate) fn plan(&self, config: &RunConfig) -> Plan {
        let beside = self.neighbours().iter();
        let plan =
            beside.fold(Plan::of(self.first().trace.clone()), |plan, next| plan.with_neighbour(next.trace.clone()));
        let own = config.options::<PlaybackConfig>();
        Plan { seed: config.run.seed, pages: own.tables(), sleeps: own.sleeps, ..plan.at_pace(own.pace()) }
    }

    /// What ran, for results.
    pub fn ran(&self, commit: &str) -> RunIdentity {
        let traces = self.all.iter().map(|trace| trace.known.clone()).collect();
        RunIdentity { doorbell_commit: commit.to_owned(), traces, ..RunIdentity::default() }
    }
}

fn is_called_ours(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "dbt")
}

fn is_of_drmemtrace(path: &Path) -> bool {
    !is_called_ours(path) && doorbell_drmemtrace::is_of_drmemtrace(path)
}

/// Bytes and hash of a trace's file, or of the files that it is made of. They are read once, and again when they are others.
pub(crate) fn contents(path: &Path) -> Result<(u64, String), RunError> {
    type Known = BTreeMap<Vec<(PathBuf, u64, Option<SystemTime>)>, (u64, String)>;
    static KNOWN: Mutex<Known> = Mutex::new(Known::new());
    let files =
        if is_of_drmemtrace(path) { doorbell_drmemtrace::files(path)? } else { vec![path.to_owned()] };
    let key = |file: &PathBuf| std::fs::metadata(file).map(|is| (file.clone(), is.len(), is.modified().ok()));
    let key: Vec<_> = files.iter().map(key).collect::<Result<_, _>>().map_err(RunError::io("read", path))?;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(contents) = known.get(&key) {
        return Ok(contents.clone());
    }
    let contents = hashed(&files).map_err(RunError::io("read", path))?;
    known.insert(key, contents.clone());
    Ok(contents)
}

/// Bytes and hash of files, one behind the other.
fn hashed(paths: &[PathBuf]) -> std::io::Result<(u64, String)> {
    let (mut hash, mut piece, mut bytes) = (Xxh3::new(), vec![0; PIECE], 0);
    for path in paths {
        let mut file = File::open(path)?;
        loop {
            let count = file.read(&mut piece)?;
            if count == 0 {
                break;
            }
            hash.update(&piece[..count]);
            bytes += count as u64;
        }
    }
    Ok((bytes, format!("{:032x}", hash.digest128())))
}
