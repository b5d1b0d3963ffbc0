//! Trace writer; the file name's extension selects the compression. The file appears when it is complete,
//! replacing any existing one; if writing fails, nothing is left.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use doorbell_sim::Op;
use flate2::write::GzEncoder;
use liblzma::stream::{Check, Stream};
use liblzma::write::XzEncoder;
use tempfile::NamedTempFile;

use super::merged::Recorder;
use crate::scratch::{persist, temporary};

use super::{Compression, Error, Record, RegisterNumbers, Variant};

/// Size of writes to the file and to the compressor.
const WRITE_BYTES: usize = 256 << 10;
/// With traces, level 6 halves the size of level 1 at a twentieth of its speed; level 3 gets most of that.
const XZ_LEVEL: u32 = 3;
const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 3;
/// Extensions that are rejected, because they would misstate the file's format.
const OTHER_ENDINGS: &[&str] = &["bz2", "lz4", "lzma", "zip", "tar", "7z", "br", "lz"];

impl Compression {
    /// Compression that a file name selects.
    pub fn of_name(path: &Path) -> Result<Compression, Error> {
        let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        if OTHER_ENDINGS.contains(&ending.as_str()) {
            return Err(Error::Ending { file: path.to_owned(), ending });
        }
        let known = Compression::ALL.into_iter().find(|kind| kind.ending() == Some(&ending));
        Ok(known.unwrap_or(Compression::Plain))
    }
}

/// Compressor of the written data.
enum Packer<W: Write> {
    Plain(W),
    Xz(XzEncoder<W>),
    Gzip(GzEncoder<W>),
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> Packer<W> {
    fn new(compression: Compression, to: W) -> io::Result<Packer<W>> {
        Ok(match compression {
            Compression::Plain => Packer::Plain(to),
            Compression::Xz => {
                Packer::Xz(XzEncoder::new_stream(to, Stream::new_easy_encoder(XZ_LEVEL, Check::Crc64)?))
            }
            Compression::Gzip => Packer::Gzip(GzEncoder::new(to, flate2::Compression::new(GZIP_LEVEL))),
            Compression::Zstd => {
                let mut encoder = zstd::Encoder::new(to, ZSTD_LEVEL)?;
                encoder.include_checksum(true)?;
                Packer::Zstd(encoder)
            }
        })
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Packer::Plain(to) => to.write_all(bytes),
            Packer::Xz(encoder) => encoder.write_all(bytes),
            Packer::Gzip(encoder) => encoder.write_all(bytes),
            Packer::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    fn finish(self) -> io::Result<W> {
        match self {
            Packer::Plain(to) => Ok(to),
            Packer::Xz(encoder) => encoder.finish(),
            Packer::Gzip(encoder) => encoder.finish(),
            Packer::Zstd(encoder) => encoder.finish(),
        }
    }
}

/// Compresses a trace in memory.
#[cfg(test)]
pub(super) fn pack(compression: Compression, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut packer = Packer::new(compression, Vec::new())?;
    packer.write_all(bytes)?;
    packer.finish()
}

/// Trace writer; see the module.
pub struct Writer {
    file: PathBuf,
    /// Final path: `file`, or the target of that link.
    target: PathBuf,
    variant: Variant,
    /// `None` after a failure.
    to: Option<Packer<BufWriter<NamedTempFile>>>,
    recorder: Recorder,
    /// Records not compressed yet.
    waiting: Vec<u8>,
    written: u64,
    shortened: u64,
}

impl Writer {
    /// Creates a trace, compressed by its extension: .xz, .gz, .zst, or plain.
    pub fn create(path: impl AsRef<Path>, variant: Variant) -> Result<Writer, Error> {
        let file = path.as_ref().to_owned();
        let compression = Compression::of_name(&file)?;
        // A link is kept; its target is replaced.
        let target = fs::canonicalize(&file).unwrap_or_else(|_| file.clone());
        if fs::metadata(&target).is_ok_and(|there| !there.is_file()) {
            return Err(Error::NoFile(file));
        }
        let to = temporary(&target).and_then(|temporary_file| {
            Packer::new(compression, BufWriter::with_capacity(WRITE_BYTES, temporary_file))
        });
        let to = Some(to.map_err(|error| Error::write(&file, error))?);
        let recorder = Recorder::new(RegisterNumbers::Own);
        Ok(Writer { file, target, variant, to, recorder, waiting: Vec::new(), written: 0, shortened: 0 })
    }

    /// Sets the meaning of the register numbers in ops.
    #[must_use]
    pub fn with_numbers(mut self, numbers: RegisterNumbers) -> Writer {
        self.recorder = Recorder::new(numbers);
        self
    }

    /// Writes consecutive ops. Registers and addresses beyond the record's limits are left out.
    pub fn write(&mut self, ops: &[Op]) -> Result<(), Error> {
        for op in ops {
            if let Some(record) = self.recorder.take(op) {
                let (record, is_short) = record.truncated_to(self.variant);
                self.shortened += u64::from(is_short);
                self.write_record(&record)?;
            }
        }
        Ok(())
    }

    /// Number of instructions that were not written completely.
    pub fn shortened(&self) -> u64 {
        self.shortened
    }

    /// Writes a record. A record that does not fit the variant is not written, but later ones may be.
    pub fn write_record(&mut self, record: &Record) -> Result<(), Error> {
        record
            .put(self.variant, &mut self.waiting)
            .map_err(|_| Error::NoRoom { file: self.file.clone(), record: self.written })?;
        self.written += 1;
        if self.waiting.len() >= WRITE_BYTES { self.compress() } else { Ok(()) }
    }

    /// Instructions written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    fn compress(&mut self) -> Result<(), Error> {
        let to = self.to.as_mut().ok_or_else(|| io::Error::other("an earlier write failed"));
        let done = to.and_then(|to| to.write_all(&self.waiting));
        self.waiting.clear();
        done.map_err(|error| {
            self.to = None;
            Error::write(&self.file, error)
        })
    }

    /// Completes the trace and moves it into place. An instruction that has not ended is left out.
    pub fn finish(mut self) -> Result<(), Error> {
        if self.written == 0 {
            return Err(Error::Nothing(self.file));
        }
        self.compress()?;
        let to = self.to.take().expect("compress checked it");
        let file = to.finish().and_then(|to| to.into_inner().map_err(io::IntoInnerError::into_error));
        file.and_then(|file| persist(file, &self.target)).map_err(|error| Error::write(&self.file, error))
    }
}
