//! Files with records: plain, compressed as a whole (gzip as DynamoRIO does it; xz and Zstandard too), or a zip archive, whose members are
//! read one after the other. A folder has a file for each thread, or for each core.

use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use doorbell_trace::container::{Failure, Unpacker};
use zip::ZipArchive;
use zip::result::ZipError;

use crate::error::{Error, Wrong, unpacking};
use crate::record::{RECORD_BYTES, Record, version};

const ZIP: &[u8] = b"PK\x03\x04";
/// Bytes that are unpacked at a time: whole records.
const PIECE: usize = 8192 * RECORD_BYTES;

/// Where a folder of DynamoRIO's has its traces, and what its tracer left.
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
            error => {
                Error::Damaged { file, records, what: format!("its zip archive makes no sense ({error})") }
            }
        }
    }
}

fn is_zip(file: &mut File) -> io::Result<bool> {
    let mut first = Vec::new();
    file.take(ZIP.len() as u64).read_to_end(&mut first)?;
    io::Seek::rewind(file)?;
    Ok(first == ZIP)
}

/// Whether a file is of this format, by what it begins with. A folder can be of no other.
pub fn is_of_drmemtrace(path: &Path) -> bool {
    // A pipe would be waited for.
    path.is_dir() || path.is_file() && begins_so(path).unwrap_or(false)
}

fn begins_so(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let mut first = [0; RECORD_BYTES];
    let got = if is_zip(&mut file)? {
        let Ok(mut archive) = ZipArchive::new(file) else { return Ok(false) };
        let Ok(member) = archive.by_index(0) else { return Ok(false) };
        let mut bytes = Vec::new();
        // What cannot be unpacked is not known to be one.
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

/// The traces of a folder, by name.
fn in_folder(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let traces = folder.join(TRACES);
    let folder = if traces.is_dir() { &traces } else { folder };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() && begins_so(&path)? {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The files that a name stands for.
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

/// Whether more records are wanted.
pub type Reads = ControlFlow<()>;

/// Unpacked bytes as records.
struct Cutter<'a> {
    path: &'a Path,
    records: u64,
    see: &'a mut dyn FnMut(Record) -> Result<Reads, Wrong>,
}

impl Cutter<'_> {
    /// Some more bytes, which end with a record.
    fn cut(&mut self, bytes: &[u8]) -> Result<Reads, Error> {
        let (records, rest) = bytes.as_chunks::<RECORD_BYTES>();
        for record in records {
            let reads = (self.see)(Record::from_bytes(record))
                .map_err(|wrong| wrong.of(self.path.to_owned(), self.records))?;
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
        let mut piece = vec![0; PIECE];
        for number in 0..archive.len() {
            let mut member = archive.by_index(number).map_err(zipped(self.path, self.records))?;
            loop {
                let mut filled = 0;
                while filled < piece.len() {
                    match member.read(&mut piece[filled..]) {
                        Ok(0) => break,
                        Ok(count) => filled += count,
                        Err(error) => return Err(zipped(self.path, self.records)(ZipError::Io(error))),
                    }
                }
                if self.cut(&piece[..filled])?.is_break() {
                    return Ok(());
                }
                if filled < piece.len() {
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
            if self.cut(&piece[..whole])?.is_break() {
                return Ok(());
            }
            outcome.map_err(|failure| unpacking(failure, self.path.to_owned(), self.records))?;
            if filled < piece.len() {
                return Ok(());
            }
        }
    }
}

/// Shows each record of a file, in order, as long as they are wanted; how many there were.
pub fn each(path: &Path, see: &mut dyn FnMut(Record) -> Result<Reads, Wrong>) -> Result<u64, Error> {
    let mut file = File::open(path).map_err(host(path))?;
    let mut cutter = Cutter { path, records: 0, see };
    if is_zip(&mut file).map_err(host(path))? {
        cutter.archive(file)?
    } else {
        cutter.stream(file)?
    }
    Ok(cutter.records)
}
