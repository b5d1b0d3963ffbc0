//! Compressed files, taken apart as streams: xz (The .xz File Format 1.2.1), gzip (RFC 1952) and Zstandard (RFC 8878).
//!
//! How a file is compressed shows in its first bytes. Any number of streams, members or frames may follow each other, as `xz -T`,
//! `pigz`, `pzstd` or `cat` leave them; between and behind them `xz` and `gzip` allow zeros as padding. Everything is checked that
//! the formats have to check: sums, indices, lengths. Anything else behind the end is an error, as it is none of the trace's.
//!
//! A plain trace has no magic number. One whose first instruction has an address that begins like a magic number would be
//! mistaken, which takes 32 bits of it, of gzip 27.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;
use liblzma::stream::Error as XzError;

use super::source::Source;
use super::xz::XzDecoder;

/// The longest magic number, and what else tells other files.
const PEEKED: usize = 512;
/// What a dictionary or window may take: that of `xz -9e` and `zstd --ultra -22`, and some more.
pub const MEMORY_MIB: u64 = 256;
/// Zstandard has a window of a power of two; this one is the largest that its own tool takes without being told.
const ZSTD_WINDOW_LOG: u32 = 27;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    Plain,
    /// .xz
    Xz,
    /// .gz
    Gzip,
    /// .zst
    Zstd,
}

impl Compression {
    /// All of them.
    pub const ALL: [Compression; 4] =
        [Compression::Plain, Compression::Xz, Compression::Gzip, Compression::Zstd];

    /// Its tool's name.
    pub const fn name(self) -> &'static str {
        match self {
            Compression::Plain => "plain",
            Compression::Xz => "xz",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        }
    }

    /// What names of such files end with, without a dot.
    pub const fn ending(self) -> Option<&'static str> {
        match self {
            Compression::Plain => None,
            Compression::Xz => Some("xz"),
            Compression::Gzip => Some("gz"),
            Compression::Zstd => Some("zst"),
        }
    }

    /// Of data that begin with these bytes.
    pub fn of(bytes: &[u8]) -> Compression {
        match bytes {
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            // Deflate is the only method, and the flags' upper three bits are reserved.
            [0x1f, 0x8b, 8, ..=0x1f, ..] => Compression::Gzip,
            // A frame, or one to be skipped, with which pzstd begins.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
            _ => Compression::Plain,
        }
    }
}

/// Why no more bytes come.
#[derive(Debug)]
pub enum Failure {
    /// The file cannot be read.
    Host(io::Error),
    /// It ends before its data do.
    Cut,
    /// The data are wrong, noticed when so many bytes of the file had been read.
    Damaged {
        /// Where in the file.
        at: u64,
        /// What the library says that unpacks it.
        what: String,
    },
    /// Something else follows the data, which end there.
    Trailing {
        /// Where in the file.
        at: u64,
    },
    /// More memory would be needed than there may be.
    Memory,
}

/// Where a file is being read.
enum Place<R: Read> {
    Plain(Source<R>),
    Xz(XzDecoder<R>),
    Gzip(GzDecoder<Source<R>>),
    Zstd(zstd::Decoder<'static, Source<R>>),
    /// Nothing more comes.
    End,
}

/// A file's contents, decompressed.
pub struct Unpacker<R: Read> {
    compression: Compression,
    place: Place<R>,
}

impl<R: Read> Unpacker<R> {
    /// Looks at the first bytes; `None` if there are none.
    pub fn new(from: R) -> io::Result<Option<Unpacker<R>>> {
        let mut source = Source::new(from);
        let first = source.peek(PEEKED)?;
        if first.is_empty() {
            return Ok(None);
        }
        let compression = Compression::of(first);
        let place = Place::new(compression, source)?;
        Ok(Some(Unpacker { compression, place }))
    }

    /// How it is compressed.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Reads until `to` is full or the end has come; how many bytes that are.
    pub fn fill(&mut self, to: &mut [u8]) -> (usize, Result<(), Failure>) {
        let mut filled = 0;
        while filled < to.len() {
            match self.place.read(&mut to[filled..]) {
                Ok(0) if matches!(self.place, Place::End) => break,
                Ok(0) => {
                    if let Err(failure) = self.next_stream() {
                        return (filled, Err(failure));
                    }
                }
                Ok(count) => filled += count,
                Err(error) => return (filled, Err(self.place.failure(error))),
            }
        }
        (filled, Ok(()))
    }

    /// Goes on behind the end of a stream, member or frame.
    fn next_stream(&mut self) -> Result<(), Failure> {
        let Some(mut source) = std::mem::replace(&mut self.place, Place::End).into_source() else {
            return Ok(());
        };
        let data_end = source.at();
        if matches!(self.compression, Compression::Xz | Compression::Gzip) {
            skip_zeros(&mut source).map_err(Failure::Host)?;
        }
        let padding = source.at() - data_end;
        let next = source.peek(PEEKED).map_err(Failure::Host)?;
        let is_padded = self.compression != Compression::Xz || padding.is_multiple_of(4);
        if next.is_empty() && is_padded {
            return Ok(());
        }
        if !is_padded || Compression::of(next) != self.compression {
            return Err(Failure::Trailing { at: data_end });
        }
        self.place = Place::new(self.compression, source).map_err(Failure::Host)?;
        Ok(())
    }
}

fn skip_zeros(source: &mut Source<impl Read>) -> io::Result<()> {
    loop {
        let there = source.fill_buf()?;
        let zeros = there.iter().take_while(|byte| **byte == 0).count();
        let all = zeros == there.len();
        source.consume(zeros);
        if zeros == 0 || !all {
            return Ok(());
        }
    }
}

impl<R: Read> Place<R> {
    fn new(compression: Compression, source: Source<R>) -> io::Result<Place<R>> {
        Ok(match compression {
            Compression::Plain => Place::Plain(source),
            Compression::Xz => Place::Xz(XzDecoder::new(source, MEMORY_MIB << 20)?),
            Compression::Gzip => Place::Gzip(GzDecoder::new(source)),
            Compression::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(source)?.single_frame();
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                Place::Zstd(decoder)
            }
        })
    }

    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Place::Plain(source) => source.read(to),
            Place::Xz(decoder) => decoder.read(to),
            Place::Gzip(decoder) => decoder.read(to),
            Place::Zstd(decoder) => decoder.read(to),
            Place::End => Ok(0),
        }
    }

    fn into_source(self) -> Option<Source<R>> {
        match self {
            Place::Xz(decoder) => Some(decoder.into_source()),
            Place::Gzip(decoder) => Some(decoder.into_inner()),
            Place::Zstd(decoder) => Some(decoder.finish()),
            Place::Plain(_) | Place::End => None,
        }
    }

    fn source(&self) -> Option<&Source<R>> {
        match self {
            Place::Plain(source) => Some(source),
            Place::Xz(decoder) => Some(decoder.source()),
            Place::Gzip(decoder) => Some(decoder.get_ref()),
            Place::Zstd(decoder) => Some(decoder.get_ref()),
            Place::End => None,
        }
    }

    /// What an error in reading means.
    fn failure(&self, error: io::Error) -> Failure {
        let source = self.source();
        if source.is_none_or(Source::has_failed) {
            return Failure::Host(error);
        }
        let xz = error.get_ref().and_then(|inner| inner.downcast_ref::<XzError>());
        if xz == Some(&XzError::MemLimit) || error.to_string().contains("too much memory") {
            return Failure::Memory;
        }
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return Failure::Cut;
        }
        Failure::Damaged { at: source.map_or(0, Source::at), what: error.to_string() }
    }
}
