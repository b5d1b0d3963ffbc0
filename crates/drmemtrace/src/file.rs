//! Trace files: plain, compressed as a whole (gzip as by DynamoRIO; also xz and Zstandard), or a zip archive,
//! whose members are read in order. A folder has one file per thread or per core.

use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use doorbell_trace::container::{Failure, Unpacker};
use zip::ZipArchive;
use zip::result::ZipError;

use crate::error::{Error, RecordError, unpacking};
use crate::record::{RECORD_BYTES, Record, version};

const ZIP: &[u8] = b"PK\x03\x04";
/// Bytes decompressed at a time: whole records.
const PIECE: usize = 8192 * RECORD_BYTES;

/// Subfolders of a DynamoRIO output folder: traces, and raw output of the tracer.
const TRACES: &str = "trace";
const RAW: &str = "raw";

fn host(file: &Path) -> impl Fn(io::Error) -> Error {
    move |error| Error::Host { file: file.to_owned(), error }
}

fn zipped(file: &Path, records: u64) -> impl Fn(ZipError) -> Error {
    move |error| {
        let file = file.to_owned();
        match error {
            ZipError::Io(error) if error.raw_os_error().is_some() => Error::Host { file, error },
            error => Error::Damaged { file, records, what: format!("its zip archive is invalid ({error})") },
        }
    }
}

fn is_zip(file: &mut File) -> io::Result<bool> {
    let mut first = Vec::new();
    file.take(ZIP.len() as u64).read_to_end(&mut first)?;
    io::Seek::rewind(file)?;
    Ok(first == ZIP)
}

/// Returns whether a file is a drmemtrace trace, judging by its header. Folders always count, because no
/// other format has them.
pub fn is_of_drmemtrace(path: &Path) -> bool {
    // Opening a pipe would block.
    path.is_dir() || path.is_file() && has_header(path).unwrap_or(false)
}

fn has_header(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let mut first = [0; RECORD_BYTES];
    let got = if is_zip(&mut file)? {
        let Ok(mut archive) = ZipArchive::new(file) else { return Ok(false) };
        let Ok(member) = archive.by_index(0) else { return Ok(false) };
        let mut bytes = Vec::new();
        // If decompression fails, no header is found.
        let _ = member.take(RECORD_BYTES as u64).read_to_end(&mut bytes);
        first[..bytes.len()].copy_from_slice(&bytes);
        bytes.len()
    } else {
        match Unpacker::new(file)? {
            Some(mut unpacker) => unpacker.fill(&mut first).0,
            None => 0,
        }
    };
    Ok(version(&first[..got]).is_some())
}

/// Trace files in a folder, sorted by name.
fn in_folder(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let traces = folder.join(TRACES);
    let folder = if traces.is_dir() { &traces } else { folder };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() && has_header(&path)? {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Trace files of a path.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, Error> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let found = in_folder(path).map_err(host(path))?;
    if found.is_empty() {
        let is_raw = path.join(RAW).is_dir() || path.ends_with(RAW);
        return Err(Error::Nothing { folder: path.to_owned(), is_raw });
    }
    if found.len() > usize::from(u16::MAX) {
        return Err(Error::TooMany { folder: path.to_owned(), files: found.len() });
    }
    Ok(found)
}

/// Whether to continue reading.
pub type Reads = ControlFlow<()>;

/// Splits decompressed bytes into records.
struct RecordReader<'a> {
    path: &'a Path,
    records: u64,
    see: &'a mut dyn FnMut(Record) -> Result<Reads, RecordError>,
}

impl RecordReader<'_> {
    /// Splits bytes that end with a record.
    fn split(&mut self, bytes: &[u8]) -> Result<Reads, Error> {
        let (records, rest) = bytes.as_chunks::<RECORD_BYTES>();
        for record in records {
            let reads = (self.see)(Record::from_bytes(record))
                .map_err(|error| error.in_file(self.path.to_owned(), self.records))?;
            self.records += 1;
            if reads.is_break() {
                return Ok(reads);
            }
        }
        if rest.is_empty() {
            return Ok(Reads::Continue(()));
        }
        let what = "it ends within a record";
        Err(Error::Cut { file: self.path.to_owned(), records: self.records, what })
    }

    fn archive(&mut self, file: File) -> Result<(), Error> {
        let mut archive = ZipArchive::new(file).map_err(zipped(self.path, 0))?;
        let mut piece = Vec::with_capacity(PIECE);
        for number in 0..archive.len() {
            let mut member = archive.by_index(number).map_err(zipped(self.path, self.records))?;
            loop {
                piece.clear();
                let read = member.by_ref().take(PIECE as u64).read_to_end(&mut piece);
                read.map_err(|error| zipped(self.path, self.records)(ZipError::Io(error)))?;
                if self.split(&piece)?.is_break() {
                    return Ok(());
                }
                if piece.len() < PIECE {
                    break;
                }
            }
        }
        Ok(())
    }

    fn stream(&mut self, file: File) -> Result<(), Error> {
        let Some(mut unpacker) = Unpacker::new(file).map_err(host(self.path))? else { return Ok(()) };
        let mut piece = vec![0; PIECE];
        loop {
            let (filled, outcome): (usize, Result<(), Failure>) = unpacker.fill(&mut piece);
            let whole = if outcome.is_ok() { filled } else { filled - filled % RECORD_BYTES };
            if self.split(&piece[..whole])?.is_break() {
                return Ok(());
            }
            outcome.map_err(|failure| unpacking(failure, self.path.to_owned(), self.records))?;
            if filled < piece.len() {
                return Ok(());
            }
        }
    }
}

/// Calls `see` for each record of a file, in order, until it breaks; returns the number of records.
pub fn each(path: &Path, see: &mut dyn FnMut(Record) -> Result<Reads, RecordError>) -> Result<u64, Error> {
    let mut file = File::open(path).map_err(host(path))?;
    let mut reader = RecordReader { path, records: 0, see };
    if is_zip(&mut file).map_err(host(path))? {
        reader.archive(file)?
    } else {
        reader.stream(file)?
    }
    Ok(reader.records)
}
