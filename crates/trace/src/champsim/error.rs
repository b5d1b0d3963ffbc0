//! Errors of reading and writing trace files, with advice.

use std::io;
use std::path::{Path, PathBuf};

use super::{Compression, Variant};

/// Error of a trace file. Records are numbered from 0.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened.
    #[error("cannot open {}: {error}", file.display())]
    Open {
        /// The file.
        file: PathBuf,
        /// Error of the host.
        error: io::Error,
    },
    /// The file is of another type.
    #[error("{} is {what}; {advice}", file.display())]
    NoTrace {
        /// The file.
        file: PathBuf,
        /// Detected file type.
        what: &'static str,
        /// Advice.
        advice: &'static str,
    },
    /// The file has no record.
    #[error("{} has no instructions; make or fetch it again", .0.display())]
    Empty(PathBuf),
    /// The host failed to read further.
    #[error("cannot read {} after {records} records: {error}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Records read before.
        records: u64,
        /// Error of the host.
        error: io::Error,
    },
    /// The compressed data are truncated.
    #[error(
        "{} is cut off: its {} data end too early, after {records} records; make or fetch it again", file.display(), compression.name()
    )]
    Cut {
        /// The file.
        file: PathBuf,
        /// Its compression.
        compression: Compression,
        /// Records read before.
        records: u64,
    },
    /// The file does not end at the end of a record.
    #[error(
        "{} ends {rest} bytes into record {records}, but a record of variant {} has {} bytes; the file is truncated, or of variant {}",
        file.display(), variant.name(), variant.record_bytes(), variant.other().name()
    )]
    WithinRecord {
        /// The file.
        file: PathBuf,
        /// Variant used for reading.
        variant: Variant,
        /// Records read before.
        records: u64,
        /// Bytes after the last record.
        rest: usize,
    },
    /// The compressed data are corrupt.
    #[error(
        "{} is damaged: its {} data are invalid near byte {at} of the file, after {records} records ({what}); make or fetch it again",
        file.display(), compression.name()
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Its compression.
        compression: Compression,
        /// Records read before.
        records: u64,
        /// File offset reached.
        at: u64,
        /// Error of the decompression library.
        what: String,
    },
    /// The file has other data after the compressed data.
    #[error(
        "{} has other data after the end of its {} data, at byte {at} of the file, after {records} records; \
         remove them, or make or fetch the file again",
        file.display(), compression.name()
    )]
    Trailing {
        /// The file.
        file: PathBuf,
        /// Its compression.
        compression: Compression,
        /// Records read before.
        records: u64,
        /// File offset of the other data.
        at: u64,
    },
    /// Decompression exceeds the memory limit.
    #[error(
        "{} needs more than {memory_mib} MiB of memory for decompression; compress it again with a smaller window, such as by {} without \
         any options", file.display(), compression.name()
    )]
    Memory {
        /// The file.
        file: PathBuf,
        /// Its compression.
        compression: Compression,
        /// The limit.
        memory_mib: u64,
    },
    /// A boolean byte is neither 0 nor 1.
    #[error(
        "record {record} of {} has {value:#04x} at its byte {at}, the {} flag, which must be 0 or 1: the file is damaged, no ChampSim trace, or of \
         variant {}", file.display(), if *at == 8 { "branch" } else { "taken" }, variant.other().name()
    )]
    Flag {
        /// The file.
        file: PathBuf,
        /// Variant used for reading.
        variant: Variant,
        /// The record.
        record: u64,
        /// Offset of the byte in the record.
        at: usize,
        /// Its value.
        value: u8,
    },
    /// The file changed between the two passes over it.
    #[error("{} changed while it was read; start again when it is complete", .0.display())]
    Changed(PathBuf),
    /// The record does not fit into the variant.
    #[error(
        "instruction {record} for {} writes more than two registers or addresses, the limit of variant standard; write \
         variant cloudsuite", file.display()
    )]
    NoRoom {
        /// The file.
        file: PathBuf,
        /// The record.
        record: u64,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {error}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// Error of the host.
        error: io::Error,
    },
    /// The file name has the extension of an unsupported compression.
    #[error("cannot write {}: compression .{ending} is not supported; name it .xz, .gz or .zst, or without such an ending", file.display())]
    Ending {
        /// The file.
        file: PathBuf,
        /// The extension.
        ending: String,
    },
    /// The file name belongs to something that is not a regular file.
    #[error("cannot write {}: it exists and is not a regular file; choose another name", .0.display())]
    NoFile(PathBuf),
    /// No instruction was written.
    #[error("cannot write {}: a trace needs at least one instruction", .0.display())]
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
