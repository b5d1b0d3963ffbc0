//! Converts traces of drmemtrace, the offline format of DynamoRIO's memory tracer, to Doorbell's own. They
//! contain programs, mostly in user mode.
//!
//! A file consists of 12-byte records ([`record`]), plain, compressed or in a zip archive ([`file`]). It has
//! one thread, one core, or (older) several threads in turn. Each file becomes a hart ([`converter`]):
//! instructions with their encodings at first use ([`decode`]), loads and stores, and branch targets.
//! Information that Doorbell's format cannot express is counted ([`tally`]).
//!
//! The input is the output of raw2trace (versions 1 to 7), not the tracer's raw output (`raw`) or its online
//! format. Not supported: Snappy and LZ4, 32-bit programs, filtered traces.

#![forbid(unsafe_code)]

mod decode;
mod error;
mod file;
mod hart_converter;
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
use error::RecordError;
use file::Reads;
pub use file::is_of_drmemtrace;
use hart_converter::{HartConverter, Spaces};
use record::{Kind, marker};
use tally::Tally;

/// Result of a conversion.
#[derive(Clone, Debug)]
pub struct Converted {
    /// Totals of the converted trace.
    pub counts: Counts,
    /// Summary of the input and of lost information, one line each.
    pub notes: Vec<String>,
}

/// Trace files of a path: itself, or those in the folder.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, Error> {
    file::files(path)
}

/// Version and instruction set, from the records before the first instruction.
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

/// Converts a trace, or a folder of traces, to Doorbell's format.
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
        let mut converter = HartConverter::new(&mut to, hart as u16, &mut spaces, &mut tally);
        let records = file::each(path, &mut |record| converter.record(record).map(Reads::Continue))?;
        let (file_isa, ended) = (converter.isa(), converter.end());
        let of = |error: RecordError| error.in_file(path.clone(), records);
        if file_isa != isa {
            return Err(of(RecordError::Unfit(
                "has another instruction set than the first file; convert them separately".into(),
            )));
        }
        if !ended.map_err(of)? {
            return Err(Error::Cut { file: path.clone(), records, what: "its footer is missing" });
        }
    }
    if tally.instructions == 0 {
        return Err(Error::Unfit {
            file: input.to_owned(),
            problem: "has no instruction; record it again".into(),
        });
    }
    let counts = to.finish().map_err(writing)?;
    Ok(Converted { counts, notes: tally.summary(spaces.count()) })
}

/// Opens a trace like one of Doorbell's format: converts it to a temporary file that lives as long as the
/// result.
pub fn open(path: &Path) -> Result<(TraceFile, Vec<String>), Error> {
    let folder = Scratch::new().map_err(Error::Scratch)?;
    let converted = folder.path().join("converted.dbt");
    let notes = convert(path, &converted)?.notes;
    let opened = TraceFile::open_within(folder, &converted);
    Ok((opened.map_err(|error| Error::Trace { file: path.to_owned(), error })?, notes))
}
