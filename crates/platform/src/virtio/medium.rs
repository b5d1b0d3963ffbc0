//! A disk's contents: a host file, opened read-only, overlaid by the blocks that the guest wrote.
//!
//! So a run changes nothing outside itself and can be repeated. A file is identified by its size and a hash
//! of its contents. A checkpoint has only the written blocks, and uses this identity to check that it gets
//! the same file again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

/// Bytes of a sector, the driver's unit.
pub const SECTOR_BYTES: u64 = 512;
/// Bytes of a block, the granularity of stored writes.
pub const BLOCK_BYTES: u64 = 4096;
/// Memory charged for a block of zeros.
const ZERO_BLOCK_BYTES: u64 = 256;

/// Reasons why a file cannot be a disk.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The file cannot be opened or read.
    #[error("cannot read the disk {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The host's error.
        error: io::Error,
    },
    /// It is a folder, a device or the like.
    #[error("the disk {} is not a regular file", path.display())]
    NotAFile {
        /// The file.
        path: PathBuf,
    },
    /// The file is empty.
    #[error("the disk {} is empty; make it as large as the disk should be, for instance: truncate -s 1G FILE", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The last sector is incomplete.
    #[error(
        "the disk {} has {bytes} bytes, not a multiple of the sector size {SECTOR_BYTES}; pad it with: truncate -s %{SECTOR_BYTES} FILE",
        path.display()
    )]
    NotWholeSectors {
        /// The file.
        path: PathBuf,
        /// The file's size.
        bytes: u64,
    },
}

/// Identity of a disk, independent of the file's name.
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

/// A file to be used as a disk, hashed when opened. Clones share the open file.
#[derive(Clone, Debug)]
pub struct DiskFile {
    file: Arc<File>,
    identity: DiskIdentity,
}

impl DiskFile {
    /// Opens a file and computes its hash.
    pub fn open(path: &Path) -> Result<DiskFile, DiskError> {
        let io = |error| DiskError::Io { path: path.to_owned(), error };
        // Checked before opening, because opening a named pipe would wait for a writer.
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

    /// The disk's identity.
    pub fn identity(&self) -> DiskIdentity {
        self.identity
    }
}

/// Reasons why a transfer fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediumError {
    /// The limit of stored writes is reached.
    Full,
    /// The host cannot read the file.
    Host,
}

type Block = Box<[u8; BLOCK_BYTES as usize]>;

/// A disk's contents from the guest's view.
#[derive(Clone, Debug)]
pub struct Medium {
    base: DiskFile,
    /// Written blocks by number; `None` is a block of zeros.
    written: BTreeMap<u64, Option<Block>>,
    data_blocks: u64,
    written_bytes_max: u64,
}

/// Splits `len` bytes from `offset` into parts within one block: block number, offset in the block, length.
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
    /// A disk without written blocks, which stores at most `written_bytes_max` of writes.
    pub fn new(base: DiskFile, written_bytes_max: u64) -> Medium {
        Medium { base, written: BTreeMap::new(), data_blocks: 0, written_bytes_max }
    }

    /// The underlying file.
    pub fn base(&self) -> &DiskFile {
        &self.base
    }

    /// The size in sectors.
    pub fn sectors(&self) -> u64 {
        self.base.identity.bytes / SECTOR_BYTES
    }

    /// Reads at an offset within the disk.
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

    /// Writes at an offset within the disk.
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

    /// Fills a range within the disk with zeros.
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

    /// Drops blocks that lie entirely in a range whose contents the guest no longer needs; the file's
    /// contents become visible again. The device may choose what a driver reads from a discarded range.
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

    /// Fails if the stored writes would exceed the limit, charging `block_bytes` for each new block.
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

    /// Modifies a part of a block, after copying it from the file if needed.
    fn change(
        &mut self,
        block: u64,
        at: usize,
        len: usize,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<(), MediumError> {
        if !matches!(self.written.get(&block), Some(Some(_))) {
            let mut contents = Box::new([0; BLOCK_BYTES as usize]);
            // The disk's last block may be incomplete.
            let whole =
                self.base.identity.bytes.saturating_sub(block * BLOCK_BYTES).min(BLOCK_BYTES) as usize;
            if len < whole {
                self.read(block * BLOCK_BYTES, &mut contents[..whole])?;
            }
            self.written.insert(block, Some(contents));
            self.data_blocks += 1;
        }
        let contents = self.written.get_mut(&block).and_then(Option::as_mut).expect("it was just inserted");
        change(&mut contents[at..at + len]);
        Ok(())
    }

    /// Numbers of the written blocks, in order, and whether each holds data (or else zeros).
    pub fn written_blocks(&self) -> Vec<(u64, bool)> {
        self.written.iter().map(|(number, contents)| (*number, contents.is_some())).collect()
    }

    /// The contents of the written blocks that hold data, in order.
    pub fn written_data(&self) -> impl Iterator<Item = &[u8; BLOCK_BYTES as usize]> {
        self.written.values().flatten().map(|contents| &**contents)
    }

    /// Hash of the written data.
    pub fn written_hash(&self) -> u64 {
        let mut hasher = Xxh3::new();
        self.written_data().for_each(|contents| hasher.update(contents));
        hasher.digest()
    }

    /// Restores written blocks: `blocks` as [`written_blocks`](Medium::written_blocks) returned them, and
    /// their data from `read`. Returns the problem if they do not fit this disk.
    pub fn restore_blocks(
        &mut self,
        blocks: &[(u64, bool)],
        mut read: impl FnMut(&mut [u8]) -> bool,
    ) -> Result<(), &'static str> {
        if !blocks.is_sorted_by(|one, next| one.0 < next.0) {
            return Err("its written blocks are not in order");
        }
        if blocks.last().is_some_and(|(number, _)| *number >= self.base.identity.bytes.div_ceil(BLOCK_BYTES))
        {
            return Err("a block is beyond its end");
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
