//! Reads a trace record by record, in constant memory.
//!
//! A thread reads and decompresses some blocks ahead; it ends with the reader, or when it next delivers a
//! block. A file must end at the end of a record and of the compressed data. Any other defect is reported
//! after the records that could be read; if the data are corrupt, these may already be wrong.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{Compression, Error, Record, Variant, foreign};
use crate::batches::Batches;
use crate::container::{Failure, MEMORY_MIB, Unpacker};

/// 256 KiB, or 384 KiB in the larger variant.
const BLOCK_RECORDS: usize = 4096;
/// Groups of blocks decoded ahead.
const BLOCKS_AHEAD: usize = 1;

/// Decompressed bytes; a whole number of records, except in the last block.
#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    length: usize,
    /// Last block only: result of the whole file.
    end: Option<Result<(), Failure>>,
}

/// Trace reader; see the module.
pub struct Reader {
    file: PathBuf,
    variant: Variant,
    compression: Compression,
    blocks: Batches<Block>,
    block: Block,
    at: usize,
    records: u64,
    has_ended: bool,
}

impl Reader {
    /// Opens a file under any name, plain or compressed.
    pub fn open(path: impl AsRef<Path>, variant: Variant) -> Result<Reader, Error> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|error| Error::open(path, error))?;
        let metadata = file.metadata().map_err(|error| Error::open(path, error))?;
        if metadata.is_dir() {
            let (what, advice) = ("a folder", "name the trace that is in it");
            return Err(Error::NoTrace { file: path.to_owned(), what, advice });
        }
        Reader::new(path, file, variant)
    }

    /// Reads from any stream; messages call it `name`.
    pub fn new(
        name: impl Into<PathBuf>,
        from: impl Read + Send + 'static,
        variant: Variant,
    ) -> Result<Reader, Error> {
        let file = name.into();
        let mut unpacker = match Unpacker::new(from) {
            Ok(Some(unpacker)) => unpacker,
            Ok(None) => return Err(Error::Empty(file)),
            Err(error) => return Err(Error::Read { file, records: 0, error }),
        };
        let compression = unpacker.compression();
        let block_bytes = BLOCK_RECORDS * variant.record_bytes();
        let fill = move |block: &mut Block| block.fill(&mut unpacker, block_bytes);
        let blocks = Batches::new("trace", BLOCKS_AHEAD, fill).map_err(|error| Error::open(&file, error))?;
        let block = Block::default();
        let mut reader =
            Reader { file, variant, compression, blocks, block, at: 0, records: 0, has_ended: false };
        reader.next_block();
        if let Some((what, advice)) = foreign::kind(&reader.block.bytes[..reader.block.length]) {
            return Err(Error::NoTrace { file: reader.file, what, advice });
        }
        Ok(reader)
    }

    /// Compression of the file.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Records read so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    fn next_block(&mut self) {
        assert!(self.blocks.next(&mut self.block), "the last block is marked");
        self.at = 0;
    }

    /// Range of the next record in the block; `None` at the end.
    #[inline]
    fn advance(&mut self) -> Result<Option<std::ops::Range<usize>>, Error> {
        let size = self.variant.record_bytes();
        loop {
            let begin = self.at;
            if self.block.length - begin >= size {
                self.at = begin + size;
                return Ok(Some(begin..begin + size));
            }
            if let Some(end) = self.block.end.take() {
                return self.end(end, self.block.length - begin).map(|()| None);
            }
            self.next_block();
        }
    }

    /// Result of the end of the trace, with `rest` bytes after the last record.
    fn end(&self, end: Result<(), Failure>, rest: usize) -> Result<(), Error> {
        let (file, records, compression) = (self.file.clone(), self.records, self.compression);
        Err(match end {
            Ok(()) if rest > 0 => Error::WithinRecord { file, variant: self.variant, records, rest },
            Ok(()) if records == 0 => Error::Empty(file),
            Ok(()) => return Ok(()),
            Err(Failure::Host(error)) => Error::Read { file, records, error },
            Err(Failure::Cut) => Error::Cut { file, compression, records },
            Err(Failure::Damaged { at, what }) => Error::Damaged { file, compression, records, at, what },
            Err(Failure::Trailing { at }) => Error::Trailing { file, compression, records, at },
            Err(Failure::Memory) => Error::Memory { file, compression, memory_mib: MEMORY_MIB },
        })
    }
}

impl Iterator for Reader {
    type Item = Result<Record, Error>;

    #[inline]
    fn next(&mut self) -> Option<Result<Record, Error>> {
        if self.has_ended {
            return None;
        }
        let bytes = match self.advance() {
            Ok(Some(range)) => &self.block.bytes[range],
            Ok(None) => {
                self.has_ended = true;
                return None;
            }
            Err(error) => {
                self.has_ended = true;
                return Some(Err(error));
            }
        };
        if let Some((at, value)) = Record::wrong_flag(bytes) {
            self.has_ended = true;
            let (file, variant, record) = (self.file.clone(), self.variant, self.records);
            return Some(Err(Error::Flag { file, variant, record, at, value }));
        }
        self.records += 1;
        Some(Ok(Record::from_bytes(self.variant, bytes)))
    }
}

impl Block {
    /// Fills a block; returns whether more follow.
    fn fill(&mut self, from: &mut Unpacker<impl Read>, block_bytes: usize) -> bool {
        self.bytes.resize(block_bytes, 0);
        let (length, outcome) = from.fill(&mut self.bytes);
        let is_last = length < block_bytes || outcome.is_err();
        (self.length, self.end) = (length, is_last.then_some(outcome));
        !is_last
    }
}
