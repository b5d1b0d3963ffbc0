//! What can be wrong with a trace in a file, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use super::{Compression, Variant};

/// Why a trace cannot be read or written. Records are numbered from 0.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The host's answer.
    #[error("cannot open {}: {error}", file.display())]
    Open {
        /// Which file.
        file: PathBuf,
        /// What the host said.
        error: io::Error,
    },
    /// There is no trace in it.
    #[error("{} is {what}; {advice}", file.display())]
    NoTrace {
        /// Which file.
        file: PathBuf,
        /// What it is instead.
        what: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// Not even one record.
    #[error("{} has no instructions; was it made to its end? Make or fetch it again", .0.display())]
    Empty(PathBuf),
    /// The host could not go on reading.
    #[error("cannot read {} after {records} records: {error}", file.display())]
    Read {
        /// Which file.
        file: PathBuf,
        /// How many records were read.
        records: u64,
        /// What the host said.
        error: io::Error,
    },
    /// The end of compressed data is missing.
    #[error(
        "{} is cut off: its {} data end too early, after {records} records; make or fetch it again", file.display(), compression.name()
    )]
    Cut {
        /// Which file.
        file: PathBuf,
        /// How it is compressed.
        compression: Compression,
        /// How many records were read.
        records: u64,
    },
    /// What the records end with is not one.
    #[error(
        "{} ends {rest} bytes into record {records}, and a record of the variant {} has {}; it is cut off, or of the variant {}",
        file.display(), variant.name(), variant.record_bytes(), variant.other().name()
    )]
    WithinRecord {
        /// Which file.
        file: PathBuf,
        /// As what it was read.
        variant: Variant,
        /// How many records were read.
        records: u64,
        /// Bytes behind them.
        rest: usize,
    },
    /// Compressed data are not what was compressed.
    #[error(
        "{} is damaged: its {} data make no sense near byte {at} of the file, after {records} records ({what}); make or fetch it again",
        file.display(), compression.name()
    )]
    Damaged {
        /// Which file.
        file: PathBuf,
        /// How it is compressed.
        compression: Compression,
        /// How many records were read.
        records: u64,
        /// How far the file was read.
        at: u64,
        /// What the library that decompresses says.
        what: String,
    },
    /// Compressed data ended, the file did not.
    #[error(
        "{} goes on behind the end of its {} data, at byte {at} of the file, after {records} records; what follows is no more {} data: \
         cut it off, or make or fetch the file again",
        file.display(), compression.name(), compression.name()
    )]
    Trailing {
        /// Which file.
        file: PathBuf,
        /// How it is compressed.
        compression: Compression,
        /// How many records were read.
        records: u64,
        /// Where the data end.
        at: u64,
    },
    /// Decompressing would take too much memory.
    #[error(
        "{} needs more than {memory_mib} MiB of memory to be decompressed; compress it again with less, such as by {} without \
         any options", file.display(), compression.name()
    )]
    Memory {
        /// Which file.
        file: PathBuf,
        /// How it is compressed.
        compression: Compression,
        /// What there may be.
        memory_mib: u64,
    },
    /// A byte that says yes or no says neither.
    #[error(
        "record {record} of {} has {value:#04x} at its byte {at}, where 0 or 1 says {}: it is damaged, no trace of ChampSim's, or of the \
         variant {}", file.display(), if *at == 8 { "whether it is a branch" } else { "whether it was taken" }, variant.other().name()
    )]
    Flag {
        /// Which file.
        file: PathBuf,
        /// As what it was read.
        variant: Variant,
        /// Which record.
        record: u64,
        /// Which of its bytes.
        at: usize,
        /// What it has.
        value: u8,
    },
    /// A trace is gone through twice and was not the same.
    #[error("{} has changed while it was read; start again when it is whole", .0.display())]
    Changed(PathBuf),
    /// A record has no room.
    #[error(
        "instruction {record} for {} writes more than two registers or addresses, which the variant standard has no room for; write \
         the variant cloudsuite", file.display()
    )]
    NoRoom {
        /// Which file.
        file: PathBuf,
        /// Which record.
        record: u64,
    },
    /// The host's answer.
    #[error("cannot write {}: {error}", file.display())]
    Write {
        /// Which file.
        file: PathBuf,
        /// What the host said.
        error: io::Error,
    },
    /// The ending of its name stands for something else than what would be in it.
    #[error("cannot write {}: nothing here makes .{ending}; name it .xz, .gz, .zst, or without such an ending", file.display())]
    Ending {
        /// Which file.
        file: PathBuf,
        /// The ending.
        ending: String,
    },
    /// A name of something that is no file.
    #[error("cannot write {}: it is there and no ordinary file; choose another name", .0.display())]
    NoFile(PathBuf),
    /// There was nothing to write.
    #[error("cannot write {}: a trace has one instruction at least", .0.display())]
    Nothing(PathBuf),
}

impl Error {
    pub(super) fn open(file: &Path, error: io::Error) -> Error {
        Error::Open { file: file.to_owned(), error }
    }

    pub(super) fn write(file: &Path, error: io::Error) -> Error {
        Error::Write { file: file.to_owned(), error }
    }
}
