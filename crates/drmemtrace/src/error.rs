//! Errors of reading drmemtrace traces, with advice.

use std::io;
use std::path::PathBuf;

use doorbell_trace::container::{Failure, MEMORY_MIB};
use doorbell_trace::system::TraceError;

/// Error of reading a trace.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Error of the host.
    #[error("cannot read {}: {error}", file.display())]
    Host {
        /// The file.
        file: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// No temporary folder for the converted trace.
    #[error("{0}")]
    Scratch(io::Error),
    /// The folder has no trace.
    #[error(
        "{} is a folder without DynamoRIO traces; name a trace, or a folder whose files begin with a drmemtrace header{}",
        folder.display(),
        if *is_raw { " (`drrun -t drmemtrace -indir` converts the contents of raw)" } else { "" }
    )]
    Nothing {
        /// The folder.
        folder: PathBuf,
        /// It has the tracer's raw output.
        is_raw: bool,
    },
    /// More files than a trace may have harts.
    #[error("{} has {files} files, but a Doorbell trace has at most {} harts; put fewer of them into a folder", folder.display(), u16::MAX)]
    TooMany {
        /// The folder.
        folder: PathBuf,
        /// Number of files.
        files: usize,
    },
    /// The trace cannot be used.
    #[error("{} {problem}", file.display())]
    Unfit {
        /// The file.
        file: PathBuf,
        /// Reason and advice.
        problem: String,
    },
    /// The file is truncated.
    #[error("{} is cut off after {records} records: {what}; copy it again, or record it again", file.display())]
    Cut {
        /// The file.
        file: PathBuf,
        /// Records read before.
        records: u64,
        /// Missing part.
        what: &'static str,
    },
    /// The contents are invalid.
    #[error("{} is damaged after {records} records: {what}; copy it again, or record it again", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Records read before.
        records: u64,
        /// Description of the damage.
        what: String,
    },
    /// The converted trace cannot be written or read.
    #[error("{}: {error}", file.display())]
    Trace {
        /// The file.
        file: PathBuf,
        /// The reason.
        error: TraceError,
    },
}

/// Error of a record, without its location.
#[derive(Debug)]
pub(crate) enum RecordError {
    Damaged(&'static str),
    Unfit(String),
    Write(TraceError),
}

impl From<TraceError> for RecordError {
    fn from(error: TraceError) -> RecordError {
        RecordError::Write(error)
    }
}

impl RecordError {
    /// Adds the location.
    pub fn in_file(self, file: PathBuf, records: u64) -> Error {
        match self {
            RecordError::Damaged(what) => Error::Damaged { file, records, what: what.to_owned() },
            RecordError::Unfit(problem) => Error::Unfit { file, problem },
            RecordError::Write(error) => Error::Trace { file, error },
        }
    }
}

/// Converts a decompression error.
pub(crate) fn unpacking(failure: Failure, file: PathBuf, records: u64) -> Error {
    match failure {
        Failure::Host(error) => Error::Host { file, error },
        Failure::Cut => Error::Cut { file, records, what: "its compressed data end too early" },
        Failure::Damaged { at, what } => {
            let what = format!("its compressed data are invalid near byte {at} of the file ({what})");
            Error::Damaged { file, records, what }
        }
        Failure::Trailing { at } => {
            let what = format!("other data follow its compressed data, at byte {at} of the file");
            Error::Damaged { file, records, what }
        }
        Failure::Memory => {
            let what = format!("decompression needs more than {MEMORY_MIB} MiB of memory");
            Error::Damaged { file, records, what }
        }
    }
}
