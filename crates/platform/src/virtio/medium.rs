//! What a disk holds: a file of the host's, opened for reading only, and over it the blocks that the guest wrote.
//!
//! So a run changes nothing outside itself and can be repeated. A file is known by its size and a hash of its contents:
//! by these a checkpoint, which has only the written blocks, finds out whether it is given the same file again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

/// Bytes of a sector, the unit in which drivers count.
pub const SECTOR_BYTES: u64 = 512;
/// Bytes of a block, the unit in which writes are kept.
pub const BLOCK_BYTES: u64 = 4096;
/// What a block of zeros is taken to cost in memory.
const ZERO_BLOCK_BYTES: u64 = 256;

/// Why a file cannot be a disk.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// It cannot be opened or read.
    #[error("cannot read the disk {}: {error}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the host said.
        error: io::Error,
    },
    /// It is a folder, a device or the like.
    #[error("the disk {} is not a regular file", path.display())]
    NotAFile {
        /// Which file.
        path: PathBuf,
    },
    /// It has no sectors.
    #[error("the disk {} is empty; make it as large as the disk is to be, for instance: truncate -s 1G FILE", path.display())]
    Empty {
        /// Which file.
        path: PathBuf,
    },
    /// Its last sector is not whole.
    #[error(
        "the disk {} has {bytes} bytes, which are not whole sectors of {SECTOR_BYTES}; fill it up with: truncate -s %{SECTOR_BYTES} FILE",
        path.display()
    )]
    NotWholeSectors {
        /// Which file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
}

/// Which disk it is, whatever the file is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskIdentity {
    /// Its size.
    pub bytes: u64,
    /// XXH3 of its contents.
    pub hash: u64,
}

impl std::fmt::Display for DiskIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes with the hash {:016x}", self.bytes, self.hash)
    }
}

/// A file to be used as a disk, read once to know it. Clones share the open file.
#[derive(Clone, Debug)]
pub struct DiskFile {
    file: Arc<File>,
    identity: DiskIdentity,
}

impl DiskFile {
    /// Opens a file and reads it through.
    pub fn open(path: &Path) -> Result<DiskFile, DiskError> {
        let io = |error| DiskError::Io { path: path.to_owned(), error };
        // Before opening: to open a named pipe would wait for a writer.
        if !std::fs::metadata(path).map_err(io)?.is_file() {
            return Err(DiskError::NotAFile { path: path.to_owned() });
        }
        let mut file = File::open(path).map_err(io)?;
        let mut hasher = Xxh3::new();
        let mut buffer = vec![0; 1 << 20];
        let mut bytes = 0;
        loop {
            let count = file.read(&mut buffer).map_err(io)?;
            if count == 0 {
                break;
            }
            hasher.update(&buffer[..count]);
            bytes += count as u64;
        }
        if bytes == 0 {
            return Err(DiskError::Empty { path: path.to_owned() });
        }
        if !bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(DiskError::NotWholeSectors { path: path.to_owned(), bytes });
        }
        Ok(DiskFile { file: Arc::new(file), identity: DiskIdentity { bytes, hash: hasher.digest() } })
    }

    /// Which disk it is.
    pub fn identity(&self) -> DiskIdentity {
        self.identity
    }
}

/// Why data do not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediumError {
    /// The limit of what is kept is reached.
    Full,
    /// The host does not give the file's contents.
    Host,
}

type Block = Box<[u8; BLOCK_BYTES as usize]>;

/// A disk's contents as the guest sees them.
#[derive(Clone, Debug)]
pub struct Medium {
    base: DiskFile,
    /// Written blocks by number; `None` is a block of zeros.
    written: BTreeMap<u64, Option<Block>>,
    data_blocks: u64,
    written_bytes_max: u64,
}

/// The parts of `len` bytes from `offset` that lie in one block each: its number, where in it, how many bytes.
fn parts(offset: u64, len: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + len;
    let blocks = offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES);
    blocks.map(move |block| {
        let from = offset.max(block * BLOCK_BYTES);
        let to = end.min((block + 1) * BLOCK_BYTES);
        (block, (from % BLOCK_BYTES) as usize, (to - from) as usize)
    })
}

impl Medium {
    /// A disk of which nothing was written yet, and which keeps at most `written_bytes_max` of what is.
    pub fn new(base: DiskFile, written_bytes_max: u64) -> Medium {
        Medium { base, written: BTreeMap::new(), data_blocks: 0, written_bytes_max }
    }

    /// The file below.
    pub fn base(&self) -> &DiskFile {
        &self.base
    }

    /// The size in sectors.
    pub fn sectors(&self) -> u64 {
        self.base.identity.bytes / SECTOR_BYTES
    }

    /// Reads from a place inside the disk.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), MediumError> {
        let (mut at, end) = (offset, offset + into.len() as u64);
        while at < end {
            let block = at / BLOCK_BYTES;
            let rest = &mut into[(at - offset) as usize..];
            let next = self.written.range(block..).next();
            let stop = match next {
                Some((number, contents)) if *number == block => {
                    let stop = end.min((block + 1) * BLOCK_BYTES);
                    let piece = &mut rest[..(stop - at) as usize];
                    let from = (at % BLOCK_BYTES) as usize;
                    match contents {
                        Some(contents) => piece.copy_from_slice(&contents[from..from + piece.len()]),
                        None => piece.fill(0),
                    }
                    stop
                }
                _ => {
                    let stop = end.min(next.map_or(u64::MAX, |(number, _)| number * BLOCK_BYTES));
                    let piece = &mut rest[..(stop - at) as usize];
                    self.base.file.read_exact_at(piece, at).map_err(|_| MediumError::Host)?;
                    stop
                }
            };
            at = stop;
        }
        Ok(())
    }

    /// Writes to a place inside the disk.
    pub fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), MediumError> {
        self.make_room(offset, from.len() as u64, BLOCK_BYTES)?;
        let mut done = 0;
        for (block, at, len) in parts(offset, from.len() as u64) {
            let bytes = &from[done..done + len];
            self.change(block, at, len, |piece| piece.copy_from_slice(bytes))?;
            done += len;
        }
        Ok(())
    }

    /// Fills a place inside the disk with zeros.
    pub fn write_zeros(&mut self, offset: u64, len: u64) -> Result<(), MediumError> {
        self.make_room(offset, len, ZERO_BLOCK_BYTES)?;
        for (block, at, len) in parts(offset, len) {
            if len as u64 == BLOCK_BYTES {
                if let Some(Some(_)) = self.written.insert(block, None) {
                    self.data_blocks -= 1;
                }
            } else {
                self.make_room(block * BLOCK_BYTES, BLOCK_BYTES, BLOCK_BYTES)?;
                self.change(block, at, len, |piece| piece.fill(0))?;
            }
        }
        Ok(())
    }

    /// The guest does not need a place's contents any more: blocks that lie in it wholly are forgotten, so that the file's
    /// contents show again. What a driver reads from a discarded place is up to the device.
    pub fn discard(&mut self, offset: u64, len: u64) {
        let (first, end) = (offset.div_ceil(BLOCK_BYTES), (offset + len) / BLOCK_BYTES);
        if first >= end {
            return;
        }
        let discarded: Vec<u64> = self.written.range(first..end).map(|(number, _)| *number).collect();
        for number in discarded {
            if let Some(Some(_)) = self.written.remove(&number) {
                self.data_blocks -= 1;
            }
        }
    }

    /// Fails if what is kept would become more than is allowed, with `block_bytes` for each block that is new.
    fn make_room(&self, offset: u64, len: u64, block_bytes: u64) -> Result<(), MediumError> {
        let zeros = self.written.len() as u64 - self.data_blocks;
        let held = self.data_blocks * BLOCK_BYTES + zeros * ZERO_BLOCK_BYTES;
        let kept = |block: &u64| match self.written.get(block) {
            Some(Some(_)) => true,
            Some(None) => block_bytes == ZERO_BLOCK_BYTES,
            None => false,
        };
        let new = parts(offset, len).filter(|(block, ..)| !kept(block)).count() as u64;
        if held + new * block_bytes > self.written_bytes_max { Err(MediumError::Full) } else { Ok(()) }
    }

    /// Changes a part of a block, which is first copied from the file.
    fn change(
        &mut self,
        block: u64,
        at: usize,
        len: usize,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<(), MediumError> {
        if !matches!(self.written.get(&block), Some(Some(_))) {
            let mut contents = Box::new([0; BLOCK_BYTES as usize]);
            // The disk's last block need not be whole.
            let whole =
                self.base.identity.bytes.saturating_sub(block * BLOCK_BYTES).min(BLOCK_BYTES) as usize;
            if len < whole {
                self.read(block * BLOCK_BYTES, &mut contents[..whole])?;
            }
            self.written.insert(block, Some(contents));
            self.data_blocks += 1;
        }
        let contents = self.written.get_mut(&block).and_then(Option::as_mut).expect("it was just put there");
        change(&mut contents[at..at + len]);
        Ok(())
    }

    /// Numbers of the written blocks, in order, and whether they hold data (or else zeros).
    pub fn written_blocks(&self) -> Vec<(u64, bool)> {
        self.written.iter().map(|(number, contents)| (*number, contents.is_some())).collect()
    }

    /// The contents of the written blocks that hold data, in order.
    pub fn written_data(&self) -> impl Iterator<Item = &[u8; BLOCK_BYTES as usize]> {
        self.written.values().flatten().map(|contents| &**contents)
    }

    /// A hash of what was written.
    pub fn written_hash(&self) -> u64 {
        let mut hasher = Xxh3::new();
        self.written_data().for_each(|contents| hasher.update(contents));
        hasher.digest()
    }

    /// Puts written blocks back: `blocks` as [`written_blocks`](Medium::written_blocks) gave them, and their data from
    /// `read`. What is wrong, if they are not this disk's.
    pub fn put_back(
        &mut self,
        blocks: &[(u64, bool)],
        mut read: impl FnMut(&mut [u8]) -> bool,
    ) -> Result<(), &'static str> {
        if !blocks.is_sorted_by(|one, next| one.0 < next.0) {
            return Err("its written blocks are not in order");
        }
        if blocks.last().is_some_and(|(number, _)| *number >= self.base.identity.bytes.div_ceil(BLOCK_BYTES))
        {
            return Err("a block was written behind its end");
        }
        (self.written, self.data_blocks) = (BTreeMap::new(), 0);
        for (number, data) in blocks {
            let mut contents = None;
            if *data {
                let mut bytes = Box::new([0; BLOCK_BYTES as usize]);
                if !read(&mut bytes[..]) {
                    return Err("a written block is missing");
                }
                self.data_blocks += 1;
                contents = Some(bytes);
            }
            self.written.insert(*number, contents);
        }
        Ok(())
    }
}
