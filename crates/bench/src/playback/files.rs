//! The file that is played, and what tells it from another.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use doorbell_results::PlayedTrace;
use doorbell_trace::system::TraceFile;
use xxhash_rust::xxh3::Xxh3;

use crate::error::RunError;

/// Bytes that are hashed at a time.
const PIECE: usize = 1 << 20;

/// A trace with the name of its file.
pub struct NamedTrace {
    /// The file.
    pub path: PathBuf,
    /// The trace.
    pub trace: TraceFile,
    /// What results say of it.
    pub known: PlayedTrace,
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
    /// Opens a file and reads it once, for its hash.
    pub fn open(path: &Path) -> Result<NamedTrace, RunError> {
        let failed = |error| RunError::TraceFile { path: path.to_owned(), error };
        let trace = TraceFile::open(path).map_err(failed)?;
        let (bytes, xxh3) = hashed(path).map_err(RunError::io("read", path))?;
        let description = trace.description();
        let known = PlayedTrace {
            file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            bytes,
            xxh3,
            recorder: description.recorder.clone(),
            recorded: description.recorded.clone(),
            isa: description.isa.clone(),
            harts: description.harts,
            instructions: trace.counts().instructions.iter().sum(),
        };
        Ok(NamedTrace { path: path.to_owned(), trace, known })
    }

    /// Names it by its contents: what results depend on.
    pub fn identity(&self) -> &str {
        &self.known.xxh3
    }
}

fn hashed(path: &Path) -> std::io::Result<(u64, String)> {
    let (mut file, mut hash, mut piece) = (File::open(path)?, Xxh3::new(), vec![0; PIECE]);
    let mut bytes = 0;
    loop {
        match file.read(&mut piece)? {
            0 => return Ok((bytes, format!("{:032x}", hash.digest128()))),
            count => {
                hash.update(&piece[..count]);
                bytes += count as u64;
            }
        }
    }
}
