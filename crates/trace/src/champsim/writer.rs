//! Writing a trace, compressed as its name's ending says. It appears whole when it is finished, in the place of one that may be there; before, and
//! if anything goes wrong, there is nothing of it.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use doorbell_sim::Op;
use flate2::write::GzEncoder;
use liblzma::stream::{Check, Stream};
use liblzma::write::XzEncoder;
use tempfile::NamedTempFile;

use super::merged::Recorder;
use crate::scratch::{lock, remove_left_behind};

use super::{Compression, Error, Numbers, Record, Variant};

/// Bytes that go to the file, and to what compresses, at once.
const WRITE_BYTES: usize = 256 << 10;
/// Of traces, level 6 would make half of level 1's size at a twentieth of its speed, and level 3 does for most of it.
const XZ_LEVEL: u32 = 3;
const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 3;
/// Endings of names by which others would take a trace for what it is not.
const OTHER_ENDINGS: &[&str] = &["bz2", "lz4", "lzma", "zip", "tar", "7z", "br", "lz"];

impl Compression {
    /// Of a file with this name.
    pub fn of_name(path: &Path) -> Result<Compression, Error> {
        let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        if OTHER_ENDINGS.contains(&ending.as_str()) {
            return Err(Error::Ending { file: path.to_owned(), ending });
        }
        let known = Compression::ALL.into_iter().find(|kind| kind.ending() == Some(&ending));
        Ok(known.unwrap_or(Compression::Plain))
    }
}

/// Compresses what is written to it.
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

/// A trace as the bytes of a file.
#[cfg(test)]
pub(super) fn pack(compression: Compression, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut packer = Packer::new(compression, Vec::new())?;
    packer.write_all(bytes)?;
    packer.finish()
}

/// See the module.
pub struct Writer {
    file: PathBuf,
    /// Where it is to be: `file`, or what it is a link to.
    target: PathBuf,
    variant: Variant,
    /// None once writing has failed.
    to: Option<Packer<BufWriter<NamedTempFile>>>,
    recorder: Recorder,
    /// Records that have not been compressed yet.
    waiting: Vec<u8>,
    written: u64,
    shortened: u64,
}

impl Writer {
    /// Begins a trace, compressed as the name's ending says: .xz, .gz, .zst, or not at all.
    pub fn create(path: impl AsRef<Path>, variant: Variant) -> Result<Writer, Error> {
        let file = path.as_ref().to_owned();
        let compression = Compression::of_name(&file)?;
        // A link keeps, and what it leads to is replaced.
        let target = fs::canonicalize(&file).unwrap_or_else(|_| file.clone());
        if fs::metadata(&target).is_ok_and(|there| !there.is_file()) {
            return Err(Error::NoFile(file));
        }
        let to = temporary(&target)
            .and_then(|beside| Packer::new(compression, BufWriter::with_capacity(WRITE_BYTES, beside)));
        let to = Some(to.map_err(|error| Error::write(&file, error))?);
        let recorder = Recorder::new(Numbers::Own);
        Ok(Writer { file, target, variant, to, recorder, waiting: Vec::new(), written: 0, shortened: 0 })
    }

    /// Whose the registers of the ops are that will be written.
    #[must_use]
    pub fn of(mut self, numbers: Numbers) -> Writer {
        self.recorder = Recorder::new(numbers);
        self
    }

    /// Writes ops that were executed one after the other. What an instruction writes more than its record has room for is left out.
    pub fn write(&mut self, ops: &[Op]) -> Result<(), Error> {
        for op in ops {
            if let Some(record) = self.recorder.take(op) {
                let (record, is_short) = record.fitted(self.variant);
                self.shortened += u64::from(is_short);
                self.write_record(&record)?;
            }
        }
        Ok(())
    }

    /// Of how many instructions something was left out.
    pub fn shortened(&self) -> u64 {
        self.shortened
    }

    /// Writes a record. One that its variant has no room for is not written, and others may follow.
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
        let to = self.to.as_mut().ok_or_else(|| io::Error::other("it failed before"));
        let done = to.and_then(|to| to.write_all(&self.waiting));
        self.waiting.clear();
        done.map_err(|error| {
            self.to = None;
            Error::write(&self.file, error)
        })
    }

    /// Puts the trace in its place. Ops of an instruction that has not ended are left out.
    pub fn finish(mut self) -> Result<(), Error> {
        if self.written == 0 {
            return Err(Error::Nothing(self.file));
        }
        self.compress()?;
        let to = self.to.take().expect("it has just been written to");
        put_in_place(to, &self.target).map_err(|error| Error::write(&self.file, error))
    }
}

/// A file beside another, which goes when it is dropped. Its name says what it is, in case the process is killed.
fn temporary(target: &Path) -> io::Result<NamedTempFile> {
    let name = target.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    prefix.push(format!(".tmp-{}-", std::process::id()));
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Who may read a trace is the user's choice (umask), as with all files.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    remove_left_behind(folder(target));
    let beside = builder.tempfile_in(folder(target))?;
    lock(beside.as_file());
    Ok(beside)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn put_in_place(to: Packer<BufWriter<NamedTempFile>>, target: &Path) -> io::Result<()> {
    let file = to.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.as_file().sync_all()?;
    file.persist(target).map_err(|error| error.error)?;
    fs::File::open(folder(target))?.sync_all()
}
