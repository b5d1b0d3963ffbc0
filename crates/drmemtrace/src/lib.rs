//! drmemtrace, the offline format of DynamoRIO's memory tracer: what programs executed, user mode for the most part, made into traces of
//! our own format.
//!
//! A file is of records of 12 bytes ([`record`]), plain, compressed or in a zip archive ([`file`]); it is of one thread, of one core, or
//! (older) of several threads in turn. Each file becomes a hart ([`lane`]): an instruction's record, with its encoding where that comes first
//! ([`decode`]), its loads and stores, and where it went. What has no place in a trace of ours is counted ([`tally`]).
//!
//! Read is what raw2trace makes (versions 1 to 7); not what the tracer itself leaves (`raw`), nor what it hands to a simulator beside it.
//! Not read: Snappy and LZ4, 32-bit programs, traces that were filtered.

#![forbid(unsafe_code)]

mod decode;
mod error;
mod file;
mod lane;
mod record;
mod regdeps;
mod tally;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use doorbell_trace::Scratch;
use doorbell_trace::system::{Counts, Description, TraceFile, TraceWriter};

use decode::Isa;
pub use error::Error;
use error::Wrong;
use file::Reads;
pub use file::is_of_drmemtrace;
use lane::{Lane, Spaces};
use record::{Kind, marker};
use tally::Tally;

/// What a trace was made into.
#[derive(Clone, Debug)]
pub struct Converted {
    /// What ours holds.
    pub counts: Counts,
    /// What there was, and what of it is lost, a line each.
    pub notes: Vec<String>,
}

/// The files that a name stands for: itself, or those in the folder.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, Error> {
    file::files(path)
}

/// What is known from the records before the first instruction.
fn head(path: &Path) -> Result<(u64, Isa), Error> {
    let (mut version, mut isa) = (0, Isa::Unknown);
    file::each(path, &mut |record| {
        match (Kind::of(record.kind), record.size) {
            (Some(Kind::Header), _) | (Some(Kind::Marker), marker::VERSION) => version = record.value,
            (Some(Kind::Marker), marker::FILE_TYPE) => isa = Isa::of(record.value)?,
            (Some(Kind::Instruction(_)), _) => return Ok(Reads::Break(())),
            _ => {}
        }
        Ok(Reads::Continue(()))
    })?;
    Ok((version, isa))
}

/// Makes a trace, or a folder of them, into one of ours.
pub fn convert(input: &Path, output: &Path) -> Result<Converted, Error> {
    let files = file::files(input)?;
    let (version, isa) = head(&files[0])?;
    let description = Description {
        recorder: format!("drmemtrace, version {version}"),
        recorded: input.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        isa: isa.name().to_owned(),
        harts: files.len() as u16,
        ..Description::default()
    };
    let writing = |error| Error::Trace { file: output.to_owned(), error };
    let mut to = TraceWriter::create(output, &description).map_err(writing)?;
    let (mut spaces, mut tally) = (Spaces::default(), Tally::default());
    for (hart, path) in files.iter().enumerate() {
        let mut lane = Lane::new(&mut to, hart as u16, &mut spaces, &mut tally);
        let records = file::each(path, &mut |record| lane.see(record).map(Reads::Continue))?;
        let (told, ended) = (lane.isa(), lane.end());
        let of = |wrong: Wrong| wrong.of(path.clone(), records);
        if told != isa {
            return Err(of(Wrong::Unfit(
                "is of another instruction set than the first file; convert them apart",
            )));
        }
        if !ended.map_err(of)? {
            return Err(Error::Cut { file: path.clone(), records, what: "its footer is missing" });
        }
    }
    if tally.instructions == 0 {
        return Err(Error::Unfit { file: input.to_owned(), problem: "has no instruction; record it again" });
    }
    let counts = to.finish().map_err(writing)?;
    Ok(Converted { counts, notes: tally.words(spaces.count()) })
}

/// Opens one as if it were of our own format: it is made into one that lasts as long as it is used.
pub fn open(path: &Path) -> Result<(TraceFile, Vec<String>), Error> {
    let folder = Scratch::new().map_err(Error::Scratch)?;
    let converted = folder.path().join("converted.dbt");
    let notes = convert(path, &converted)?.notes;
    let opened = TraceFile::open_within(folder, &converted);
    Ok((opened.map_err(|error| Error::Trace { file: path.to_owned(), error })?, notes))
}
