//! Compressed streams: xz (The .xz File Format 1.2.1), gzip (RFC 1952) and Zstandard (RFC 8878).
//!
//! The first bytes identify the compression. Streams, members or frames may be concatenated, as by `xz -T`,
//! `pigz`, `pzstd` or `cat`; `xz` and `gzip` allow zero padding between and after them. All checks that the
//! formats provide are made: checksums, indices, lengths. Other data after the end are an error.
//!
//! A plain trace has no magic number. It is misidentified only if its first instruction address matches one
//! in 32 bits (27 for gzip).

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;
use liblzma::stream::Error as XzError;

use super::source::Source;
use super::xz::XzDecoder;

/// Bytes examined for magic numbers, and for recognising other file types.
const PEEK_BYTES: usize = 512;
/// Memory limit for a dictionary or window: that of `xz -9e` and `zstd --ultra -22`, and some more.
pub const MEMORY_MIB: u64 = 256;
/// Largest Zstandard window: the default limit of the zstd tool. Windows are powers of two.
const ZSTD_WINDOW_LOG: u32 = 27;

/// Compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Uncompressed.
    Plain,
    /// .xz
    Xz,
    /// .gz
    Gzip,
    /// .zst
    Zstd,
}

impl Compression {
    /// All compressions.
    pub const ALL: [Compression; 4] =
        [Compression::Plain, Compression::Xz, Compression::Gzip, Compression::Zstd];

    /// Name of the tool.
    pub const fn name(self) -> &'static str {
        match self {
            Compression::Plain => "plain",
            Compression::Xz => "xz",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        }
    }

    /// File name extension, without the dot.
    pub const fn ending(self) -> Option<&'static str> {
        match self {
            Compression::Plain => None,
            Compression::Xz => Some("xz"),
            Compression::Gzip => Some("gz"),
            Compression::Zstd => Some("zst"),
        }
    }

    /// Compression of data that begin with these bytes.
    pub fn of(bytes: &[u8]) -> Compression {
        match bytes {
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            // Deflate is the only method, and the flags' upper three bits are reserved.
            [0x1f, 0x8b, 8, ..=0x1f, ..] => Compression::Gzip,
            // A frame, or a skippable frame, with which pzstd begins.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
            _ => Compression::Plain,
        }
    }
}

/// Reason why the stream ended early.
#[derive(Debug)]
pub enum Failure {
    /// Error of the host.
    Host(io::Error),
    /// The file ends before its data do.
    Cut,
    /// The data are corrupt.
    Damaged {
        /// File offset reached.
        at: u64,
        /// Error of the decompression library.
        what: String,
    },
    /// Other data follow the compressed data.
    Trailing {
        /// File offset of the other data.
        at: u64,
    },
    /// Decompression exceeds the memory limit.
    Memory,
}

/// Decoder of the current stream.
enum Decoder<R: Read> {
    Plain(Source<R>),
    Xz(XzDecoder<R>),
    Gzip(GzDecoder<Source<R>>),
    Zstd(zstd::Decoder<'static, Source<R>>),
    /// End of the data.
    End,
}

/// Decompressor of a file.
pub struct Unpacker<R: Read> {
    compression: Compression,
    decoder: Decoder<R>,
}

impl<R: Read> Unpacker<R> {
    /// Examines the first bytes; `None` if the file is empty.
    pub fn new(from: R) -> io::Result<Option<Unpacker<R>>> {
        let mut source = Source::new(from);
        let first = source.peek(PEEK_BYTES)?;
        if first.is_empty() {
            return Ok(None);
        }
        let compression = Compression::of(first);
        let decoder = Decoder::new(compression, source)?;
        Ok(Some(Unpacker { compression, decoder }))
    }

    /// Compression of the file.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Reads until `to` is full or the data end; returns the number of bytes.
    pub fn fill(&mut self, to: &mut [u8]) -> (usize, Result<(), Failure>) {
        let mut filled = 0;
        while filled < to.len() {
            match self.decoder.read(&mut to[filled..]) {
                Ok(0) if matches!(self.decoder, Decoder::End) => break,
                Ok(0) => {
                    if let Err(failure) = self.next_stream() {
                        return (filled, Err(failure));
                    }
                }
                Ok(count) => filled += count,
                Err(error) => return (filled, Err(self.decoder.failure(error))),
            }
        }
        (filled, Ok(()))
    }

    /// Continues after the end of a stream, member or frame.
    fn next_stream(&mut self) -> Result<(), Failure> {
        let Some(mut source) = std::mem::replace(&mut self.decoder, Decoder::End).into_source() else {
            return Ok(());
        };
        let data_end = source.at();
        if matches!(self.compression, Compression::Xz | Compression::Gzip) {
            skip_zeros(&mut source).map_err(Failure::Host)?;
        }
        let padding = source.at() - data_end;
        let next = source.peek(PEEK_BYTES).map_err(Failure::Host)?;
        let is_padded = self.compression != Compression::Xz || padding.is_multiple_of(4);
        if next.is_empty() && is_padded {
            return Ok(());
        }
        if !is_padded || Compression::of(next) != self.compression {
            return Err(Failure::Trailing { at: data_end });
        }
        self.decoder = Decoder::new(self.compression, source).map_err(Failure::Host)?;
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

impl<R: Read> Decoder<R> {
    fn new(compression: Compression, source: Source<R>) -> io::Result<Decoder<R>> {
        Ok(match compression {
            Compression::Plain => Decoder::Plain(source),
            Compression::Xz => Decoder::Xz(XzDecoder::new(source, MEMORY_MIB << 20)?),
            Compression::Gzip => Decoder::Gzip(GzDecoder::new(source)),
            Compression::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(source)?.single_frame();
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                Decoder::Zstd(decoder)
            }
        })
    }

    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Decoder::Plain(source) => source.read(to),
            Decoder::Xz(decoder) => decoder.read(to),
            Decoder::Gzip(decoder) => decoder.read(to),
            Decoder::Zstd(decoder) => decoder.read(to),
            Decoder::End => Ok(0),
        }
    }

    fn into_source(self) -> Option<Source<R>> {
        match self {
            Decoder::Xz(decoder) => Some(decoder.into_source()),
            Decoder::Gzip(decoder) => Some(decoder.into_inner()),
            Decoder::Zstd(decoder) => Some(decoder.finish()),
            Decoder::Plain(_) | Decoder::End => None,
        }
    }

    fn source(&self) -> Option<&Source<R>> {
        match self {
            Decoder::Plain(source) => Some(source),
            Decoder::Xz(decoder) => Some(decoder.source()),
            Decoder::Gzip(decoder) => Some(decoder.get_ref()),
            Decoder::Zstd(decoder) => Some(decoder.get_ref()),
            Decoder::End => None,
        }
    }

    /// Classifies a read error.
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
