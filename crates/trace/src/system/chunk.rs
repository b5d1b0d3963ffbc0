//! File layout: a file header, chunks, and an index at the end.
//!
//! | Bytes | File header |
//! |---|---|
//! | 0..8 | `DBtrace\n` |
//! | 8..12 | version, little-endian as all numbers; this is version 3 |
//! | 12..16 | zero |
//!
//! | Bytes | Chunk header; its compressed bytes follow |
//! |---|---|
//! | 0..4 | `DBck` |
//! | 4 | kind: 1 description, 2 a hart's steps, 3 devices' events, 4 index |
//! | 5 | zero |
//! | 6..8 | hart number |
//! | 8..12, 12..16 | bytes compressed and uncompressed |
//! | 16..24, 24..32 | hart: instructions before the chunk, and up to its end; events: event numbers |
//! | 32..40 | XXH3 (64 bits) of the preceding 32 bytes and the compressed bytes |
//!
//! The compressed bytes are one zstd frame. Uncompressed, hart and device chunks are columns: the length of
//! each (4 bytes), then their bytes. The description is JSON, the index postcard. The file's last 16 bytes
//! are the index's offset (8 bytes) and `DBindex
//! `.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::TraceError;

/// The first bytes of a file.
pub const MAGIC: &[u8; 8] = b"DBtrace\n";
/// The version that this program writes.
pub const VERSION: u32 = 3;
/// The oldest version that this program reads. It has no [`StoreOrigin`](super::StoreOrigin) in register
/// events. Like version 2, it has only the numbers of a NIC's DMA.
pub const OLDEST: u32 = 1;
/// The last bytes of a file.
pub const END_MAGIC: &[u8; 8] = b"DBindex\n";
/// Bytes of the file header, and of the trailer after the index.
pub const EDGE_BYTES: u64 = 16;
/// Bytes of a chunk header.
pub const HEAD_BYTES: usize = 40;
const CHUNK_MAGIC: &[u8; 4] = b"DBck";
/// Chunk size limit, compressed and uncompressed.
pub const CHUNK_MAX: usize = 64 << 20;
const LEVEL: i32 = 3;

/// Content of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum Kind {
    /// [`Description`](super::Description) of the trace.
    Description = 1,
    /// Steps of a hart.
    Hart = 2,
    /// Device events.
    Devices = 3,
    /// Offsets of the other chunks.
    Index = 4,
}

/// Chunk header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Content.
    pub kind: Kind,
    /// Hart number.
    pub hart: u16,
    /// Instructions of the hart before the chunk, or the number of its first event.
    pub first: u64,
    /// The same at the chunk's end.
    pub end: u64,
}

/// Compresses bytes and prepends a chunk header.
pub fn packed(head: Head, bytes: &[u8]) -> io::Result<Vec<u8>> {
    assert!(bytes.len() <= CHUNK_MAX, "chunks end well below the size limit");
    let body = zstd::bulk::compress(bytes, LEVEL)?;
    let mut chunk = Vec::with_capacity(HEAD_BYTES + body.len());
    chunk.extend_from_slice(CHUNK_MAGIC);
    chunk.extend([head.kind as u8, 0]);
    chunk.extend(head.hart.to_le_bytes());
    chunk.extend((body.len() as u32).to_le_bytes());
    chunk.extend((bytes.len() as u32).to_le_bytes());
    chunk.extend(head.first.to_le_bytes());
    chunk.extend(head.end.to_le_bytes());
    chunk.extend_from_slice(&[0; 8]);
    chunk.extend_from_slice(&body);
    let check = checksum(&chunk);
    chunk[32..HEAD_BYTES].copy_from_slice(&check.to_le_bytes());
    Ok(chunk)
}

fn checksum(chunk: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(&chunk[..32]);
    hash.update(&chunk[HEAD_BYTES..]);
    hash.digest()
}

/// Reads the chunk at the current position; `at` is its file offset, for errors.
pub fn read(from: &mut impl Read, at: u64) -> Result<(Head, Vec<u8>), TraceError> {
    let damaged = |what: &str| TraceError::Damaged { at, what: what.to_owned() };
    let mut chunk = vec![0; HEAD_BYTES];
    let cut = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("the file ends within a chunk"),
        _ => TraceError::Io(error),
    };
    from.read_exact(&mut chunk).map_err(cut)?;
    let word = |at: usize| u32::from_le_bytes(chunk[at..at + 4].try_into().expect("four bytes")) as usize;
    let long = |at: usize| u64::from_le_bytes(chunk[at..at + 8].try_into().expect("eight bytes"));
    let kind = match (&chunk[..4] == CHUNK_MAGIC, chunk[4]) {
        (true, 1) => Kind::Description,
        (true, 2) => Kind::Hart,
        (true, 3) => Kind::Devices,
        (true, 4) => Kind::Index,
        _ => return Err(damaged("no chunk header here")),
    };
    let hart = u16::from_le_bytes([chunk[6], chunk[7]]);
    let (body, unpacked, check) = (word(8), word(12), long(32));
    let head = Head { kind, hart, first: long(16), end: long(24) };
    if body > CHUNK_MAX || unpacked > CHUNK_MAX || head.end < head.first {
        return Err(damaged("invalid chunk header"));
    }
    chunk.resize(HEAD_BYTES + body, 0);
    from.read_exact(&mut chunk[HEAD_BYTES..]).map_err(cut)?;
    if checksum(&chunk) != check {
        return Err(damaged("chunk checksum mismatch"));
    }
    let bytes = zstd::bulk::decompress(&chunk[HEAD_BYTES..], unpacked);
    let bytes = bytes.map_err(|error| damaged(&format!("a chunk cannot be unpacked: {error}")))?;
    if bytes.len() != unpacked {
        return Err(damaged("a chunk's length differs from its header"));
    }
    Ok((head, bytes))
}

/// Concatenates columns.
pub fn join(columns: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes: Vec<u8> = columns.iter().flat_map(|column| (column.len() as u32).to_le_bytes()).collect();
    columns.iter().for_each(|column| bytes.extend_from_slice(column));
    bytes
}

/// Splits concatenated columns.
pub fn split<const N: usize>(bytes: &[u8]) -> Option<[Vec<u8>; N]> {
    let (lengths, mut rest) = bytes.split_at_checked(4 * N)?;
    let mut columns = [const { Vec::new() }; N];
    for (column, length) in columns.iter_mut().zip(lengths.as_chunks::<4>().0) {
        let (bytes, remaining) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        (*column, rest) = (bytes.to_vec(), remaining);
    }
    rest.is_empty().then_some(columns)
}

pub fn begin(to: &mut impl Write) -> io::Result<()> {
    to.write_all(MAGIC)?;
    to.write_all(&VERSION.to_le_bytes())?;
    to.write_all(&[0; 4])
}
