//! What can be wrong with a drmemtrace trace, and what to do about it.

use std::io;
use std::path::PathBuf;

use doorbell_trace::container::{Failure, MEMORY_MIB};
use doorbell_trace::system::TraceError;

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The host said so.
    #[error("cannot read {}: {error}", file.display())]
    Host {
        /// Which file.
        file: PathBuf,
        /// What it said.
        error: io::Error,
    },
    /// There is no place for what is made of it.
    #[error("{0}")]
    Scratch(io::Error),
    /// There is none in a folder.
    #[error(
        "{} is a folder without traces of DynamoRIO's; name a trace, or a folder whose files begin with drmemtrace's header{}",
        folder.display(),
        if *is_raw { " (`drrun -t drmemtrace -indir` makes them of what is in raw)" } else { "" }
    )]
    Nothing {
        /// Which folder.
        folder: PathBuf,
        /// It has what the tracer itself leaves.
        is_raw: bool,
    },
    /// More than a trace has harts.
    #[error("{} has {files} files, and a trace of ours at most {} harts; put fewer of them into a folder", folder.display(), u16::MAX)]
    TooMany {
        /// Which folder.
        folder: PathBuf,
        /// How many.
        files: usize,
    },
    /// A version that is not known.
    #[error(
        "{} is of version {found} of drmemtrace's format, and versions 1 to 7 are read; record it by another DynamoRIO", file.display()
    )]
    Version {
        /// Which file.
        file: PathBuf,
        /// Its version.
        found: u64,
    },
    /// Nothing that can be played.
    #[error("{} {problem}", file.display())]
    Unfit {
        /// Which file.
        file: PathBuf,
        /// Why, and what to do.
        problem: &'static str,
    },
    /// It was not written to its end.
    #[error("{} is cut off after {records} records: {what}; copy it again, or record it again", file.display())]
    Cut {
        /// Which file.
        file: PathBuf,
        /// How many records were read.
        records: u64,
        /// What is missing.
        what: &'static str,
    },
    /// It holds what cannot be.
    #[error("{} is damaged after {records} records: {what}; copy it again, or record it again", file.display())]
    Damaged {
        /// Which file.
        file: PathBuf,
        /// How many records were read.
        records: u64,
        /// What is wrong.
        what: String,
    },
    /// What becomes of it cannot be written or read.
    #[error("{}: {error}", file.display())]
    Trace {
        /// Which file.
        file: PathBuf,
        /// Why.
        error: TraceError,
    },
}

/// What is wrong with records, before it is known where they stand.
#[derive(Debug)]
pub(crate) enum Wrong {
    Damaged(&'static str),
    Unfit(&'static str),
    Version(u64),
    Write(TraceError),
}

impl From<TraceError> for Wrong {
    fn from(error: TraceError) -> Wrong {
        Wrong::Write(error)
    }
}

impl Wrong {
    /// Of records of a file.
    pub fn of(self, file: PathBuf, records: u64) -> Error {
        match self {
            Wrong::Damaged(what) => Error::Damaged { file, records, what: what.to_owned() },
            Wrong::Unfit(problem) => Error::Unfit { file, problem },
            Wrong::Version(found) => Error::Version { file, found },
            Wrong::Write(error) => Error::Trace { file, error },
        }
    }
}

/// What it means that a compressed file cannot be unpacked.
pub(crate) fn unpacking(failure: Failure, file: PathBuf, records: u64) -> Error {
    match failure {
        Failure::Host(error) => Error::Host { file, error },
        Failure::Cut => Error::Cut { file, records, what: "its compressed data end too early" },
        Failure::Damaged { at, what } => {
            let what = format!("its compressed data make no sense near byte {at} of the file ({what})");
            Error::Damaged { file, records, what }
        }
        Failure::Trailing { at } => {
            let what = format!("something else follows its compressed data, at byte {at} of the file");
            Error::Damaged { file, records, what }
        }
        Failure::Memory => {
            let what = format!("more than {MEMORY_MIB} MiB of memory would be needed to unpack it");
            Error::Damaged { file, records, what }
        }
    }
}
