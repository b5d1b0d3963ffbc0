//! Trace files to play, and their identity.

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

/// Bytes read and hashed at a time.
const PIECE: usize = 1 << 20;

/// A trace with the name of its file.
pub struct NamedTrace {
    /// The file.
    pub path: PathBuf,
    /// The trace.
    pub trace: TraceInput,
    /// Its description in results.
    pub description: PlayedTrace,
    /// The importer's notes on a trace in a foreign format, such as lost information.
    notes: Vec<String>,
}

impl fmt::Debug for NamedTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedTrace")
            .field("path", &self.path)
            .field("description", &self.description)
            .finish_non_exhaustive()
    }
}

impl NamedTrace {
    /// Possible errors in the interpretation of the file.
    pub(crate) fn doubts(&self, variant: Variant) -> Vec<String> {
        let all = self.notes.iter().cloned().chain(self.trace.doubt(variant));
        all.map(|doubt| format!("{}: {doubt}", self.path.display())).collect()
    }

    /// Opens a trace and reads all of it for its hash. A DynamoRIO trace may be a folder. A file that is
    /// neither in DynamoRIO's nor in Doorbell's format, and is not named `*.dbt`, is read as a ChampSim trace
    /// of this variant.
    pub fn open(path: &Path, variant: Variant) -> Result<NamedTrace, RunError> {
        let mut notes = Vec::new();
        let trace = if is_of_drmemtrace(path) {
            let opened = doorbell_drmemtrace::open(path)?;
            notes = opened.1;
            Ok(TraceInput::own(opened.0))
        } else if has_dbt_extension(path) {
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
        let description = PlayedTrace { file, bytes, xxh3, recorder, recorded, isa, harts, instructions };
        Ok(NamedTrace { path: path.to_owned(), trace, description, notes })
    }
}

/// Traces that are played concurrently. The first one is measured.
#[derive(Debug)]
pub struct Traces {
    all: Vec<NamedTrace>,
    /// The largest number of NICs in one of them.
    nics: u32,
    doubts: Vec<String>,
}

impl Traces {
    /// Opens at least one file. With `cloudsuite`, ChampSim traces are in its variant with 96 bytes per
    /// instruction.
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

    /// The measured trace.
    pub fn first(&self) -> &NamedTrace {
        &self.all[0]
    }

    /// The co-runners of the measured trace.
    pub fn neighbours(&self) -> &[NamedTrace] {
        &self.all[1..]
    }

    /// Possible errors in the interpretation of the files.
    pub fn doubts(&self) -> &[String] {
        &self.doubts
    }

    /// Whether one of them is a ChampSim trace.
    pub fn has_champsim(&self) -> bool {
        self.all.iter().any(|named| named.trace.file().is_none())
    }

    /// Number of cores that they need.
    pub fn harts(&self) -> u32 {
        self.all.iter().map(|trace| u32::from(trace.description.harts)).sum()
    }

    /// Their properties that the configuration depends on.
    pub fn shape(&self) -> Shape {
        let is_physical = self.all.iter().all(|named| named.trace.is_physical());
        Shape { harts: self.harts(), nics: self.nics, is_physical }
    }

    /// Hash of their contents and their interpretation, on which results depend.
    pub fn identity(&self) -> String {
        let each = self
            .all
            .iter()
            .map(|trace| format!("{} {}\n", trace.description.xxh3, trace.description.recorder));
        format!("{:032x}", xxh3_128(each.collect::<String>().as_bytes()))
    }

    /// The playback plan for a configuration.
    pub(crate) fn plan(&self, config: &RunConfig) -> Plan {
        let neighbours = self.neighbours().iter();
        let plan = neighbours
            .fold(Plan::of(self.first().trace.clone()), |plan, next| plan.with_neighbour(next.trace.clone()));
        let own = config.options::<PlaybackConfig>();
        Plan { seed: config.run.seed, pages: own.tables(), sleeps: own.sleeps, ..plan.at_pace(own.pace()) }
    }

    /// Identity of the run, for results.
    pub fn ran(&self, commit: &str) -> RunIdentity {
        let traces = self.all.iter().map(|trace| trace.description.clone()).collect();
        RunIdentity { doorbell_commit: commit.to_owned(), traces, ..RunIdentity::default() }
    }
}

fn has_dbt_extension(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "dbt")
}

fn is_of_drmemtrace(path: &Path) -> bool {
    !has_dbt_extension(path) && doorbell_drmemtrace::is_of_drmemtrace(path)
}

/// Size and hash of a trace's file, or of all its files. They are cached until size or modification time
/// change.
pub(crate) fn contents(path: &Path) -> Result<(u64, String), RunError> {
    type Cache = BTreeMap<Vec<(PathBuf, u64, Option<SystemTime>)>, (u64, String)>;
    static CACHE: Mutex<Cache> = Mutex::new(Cache::new());
    let files =
        if is_of_drmemtrace(path) { doorbell_drmemtrace::files(path)? } else { vec![path.to_owned()] };
    let key = |file: &PathBuf| std::fs::metadata(file).map(|is| (file.clone(), is.len(), is.modified().ok()));
    let key: Vec<_> = files.iter().map(key).collect::<Result<_, _>>().map_err(RunError::io("read", path))?;
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(contents) = cache.get(&key) {
        return Ok(contents.clone());
    }
    let contents = hashed(&files).map_err(RunError::io("read", path))?;
    cache.insert(key, contents.clone());
    Ok(contents)
}

/// Total size of files, and the hash of their concatenated contents.
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
