//! Container of checkpoints: magic, format version, hash of the rest, and the rest.

use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::checkpoint::CheckpointError;

const MAGIC_BYTES: usize = 16;
/// Offset of the hash, after magic and version.
const HASH_AT: usize = MAGIC_BYTES + 4;
/// Offset of the rest.
const PAYLOAD_AT: usize = HASH_AT + 8;

/// File format of checkpoints: one of machines, one of networks.
pub trait Format {
    /// First bytes of the file.
    const MAGIC: &'static [u8; MAGIC_BYTES];
    /// Version of the file's layout. Sections have their own versions.
    const VERSION: u32;
    /// Size limit of the file.
    const BYTES_MAX: u64;
}

/// A checkpoint in memory: the contents of its file.
pub struct File<F> {
    bytes: Vec<u8>,
    format: PhantomData<F>,
}

impl<F> Clone for File<F> {
    fn clone(&self) -> File<F> {
        File::of(self.bytes.clone())
    }
}

impl<F> fmt::Debug for File<F> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "CheckpointFile({:016x})", self.hash())
    }
}

impl<F> File<F> {
    fn of(bytes: Vec<u8>) -> File<F> {
        File { bytes, format: PhantomData }
    }

    /// Placeholder for a checkpoint that is not made yet; it cannot be restored.
    pub fn empty() -> File<F> {
        File::of(Vec::new())
    }

    /// Writes the file atomically: on an error, `path` is unchanged.
    pub fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        let io = |error| CheckpointError::Io { action: "write", path: path.to_owned(), error };
        doorbell_files::replace(path, &self.bytes).map_err(io)
    }

    /// The file's size in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Hash stored in the file, over everything after it. Two boots of one guest have the same hash.
    pub fn hash(&self) -> u64 {
        let stored = self.bytes.get(HASH_AT..).and_then(|rest| rest.first_chunk());
        stored.map_or(0, |hash| u64::from_le_bytes(*hash))
    }

    /// The file's contents.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes after the hash.
    pub(crate) fn payload(&self) -> &[u8] {
        self.bytes.get(PAYLOAD_AT..).unwrap_or_default()
    }
}

impl<F: Format> File<F> {
    /// Reads a file and checks that it is complete.
    pub fn read(path: &Path) -> Result<File<F>, CheckpointError> {
        let io = |error| CheckpointError::Io { action: "read", path: path.to_owned(), error };
        let bytes = doorbell_files::read_bounded(path, F::BYTES_MAX);
        File::from_bytes(bytes.map_err(io)?)
    }

    /// Checks that `bytes` are a complete checkpoint.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<File<F>, CheckpointError> {
        let rest = bytes.strip_prefix(F::MAGIC.as_slice()).ok_or(CheckpointError::NotACheckpoint)?;
        let (version, rest) = rest.split_first_chunk::<4>().ok_or(CheckpointError::Damaged)?;
        let found = u32::from_le_bytes(*version);
        if found != F::VERSION {
            return Err(CheckpointError::Version { found, reads: F::VERSION });
        }
        let (hash, payload) = rest.split_first_chunk::<8>().ok_or(CheckpointError::Damaged)?;
        if xxh3_64(payload) != u64::from_le_bytes(*hash) {
            return Err(CheckpointError::Damaged);
        }
        Ok(File::of(bytes))
    }

    /// The bytes before the payload; [`seal`](File::seal) fills in the hash.
    pub(crate) fn begin() -> Vec<u8> {
        let mut bytes = F::MAGIC.to_vec();
        bytes.extend_from_slice(&F::VERSION.to_le_bytes());
        bytes.resize(PAYLOAD_AT, 0);
        bytes
    }

    /// Completes the bytes of [`begin`](File::begin) and a payload.
    pub(crate) fn seal(mut bytes: Vec<u8>) -> File<F> {
        let hash = xxh3_64(&bytes[PAYLOAD_AT..]);
        bytes[HASH_AT..PAYLOAD_AT].copy_from_slice(&hash.to_le_bytes());
        File::of(bytes)
    }
}
