//! Block device specifics (VIRTIO 1.2, 5.2): features, configuration space and requests.

use doorbell_sim::PhysAddr;
use doorbell_sim::ports::DmaPurpose;
use serde::{Deserialize, Serialize};

use super::GuestMemory;
use super::disk::VirtioDiskStats;
use super::medium::{Medium, MediumError, SECTOR_BYTES};
use super::queue::{CHAIN_MAX, Chain};

/// The offered block features (5.2.3); those of the transport are in `mmio`.
pub const FEATURES: u64 =
    F_SIZE_MAX | F_SEG_MAX | F_BLK_SIZE | F_FLUSH | F_TOPOLOGY | F_DISCARD | F_WRITE_ZEROES;
const F_SIZE_MAX: u64 = 1 << 1;
const F_SEG_MAX: u64 = 1 << 2;
const F_BLK_SIZE: u64 = 1 << 6;
const F_FLUSH: u64 = 1 << 9;
const F_TOPOLOGY: u64 = 1 << 10;
const F_DISCARD: u64 = 1 << 13;
const F_WRITE_ZEROES: u64 = 1 << 14;

/// Size of configuration space, up to write_zeroes_may_unmap and its padding.
pub const CONFIG_BYTES: usize = 60;
/// Longest buffer, enough for several adjacent pages.
const SEGMENT_BYTES_MAX: u32 = 128 << 10;
/// Most data buffers in a request: half the longest chain, minus header and status.
const SEGMENTS_MAX: u32 = CHAIN_MAX as u32 / 2 - 2;
/// Longest request, even if the driver ignores the limits: bounds the host's cost of a request.
const REQUEST_BYTES_MAX: u64 = 16 << 20;
/// Most sectors in a discard or write-zeroes request.
const RANGE_SECTORS_MAX: u32 = 1 << 15;
/// 4 KiB, the granularity of stored writes, as a power of two of sectors.
const PHYSICAL_BLOCK_EXPONENT: u8 = 3;

const HEADER_BYTES: u64 = 16;
const RANGE_BYTES: u64 = 16;
const ID_BYTES: usize = 20;
/// Size of a single copy.
const COPY_BYTES: u64 = 64 << 10;

const T_IN: u32 = 0;
const T_OUT: u32 = 1;
const T_FLUSH: u32 = 4;
const T_GET_ID: u32 = 8;
const T_DISCARD: u32 = 11;
const T_WRITE_ZEROES: u32 = 13;

const S_OK: u8 = 0;
const S_IOERR: u8 = 1;
const S_UNSUPP: u8 = 2;

/// Flag of a write-zeroes range: the device may unmap it. Has no effect here.
const RANGE_UNMAP: u32 = 1;

/// A request taken from the ring that is not due yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    chain: Chain,
    kind: u32,
    sector: u64,
}

/// Failure of a request with this status.
struct Failed(u8);

impl Request {
    /// Reads a request's header. `None` if the chain has no room for header and status, which puts the device
    /// into an error state.
    pub fn read(chain: Chain, memory: &mut dyn GuestMemory) -> Option<Request> {
        if chain.len(false) < HEADER_BYTES || chain.len(true) == 0 {
            return None;
        }
        let mut header = [0; HEADER_BYTES as usize];
        gather(&chain, memory, 0, &mut header).ok()?;
        let [a, b, c, d, _, _, _, _, sector @ ..] = header;
        Some(Request { kind: u32::from_le_bytes([a, b, c, d]), sector: u64::from_le_bytes(sector), chain })
    }

    /// The chain's first descriptor.
    pub fn head(&self) -> u16 {
        self.chain.head
    }

    /// Bytes transferred to or from the medium, which determine the transfer time.
    pub fn medium_bytes(&self) -> u64 {
        match self.kind {
            T_IN => self.room().min(REQUEST_BYTES_MAX),
            T_OUT => self.payload().min(REQUEST_BYTES_MAX),
            _ => 0,
        }
    }

    /// Whether the request could have come from a ring; a checkpoint may contain anything.
    pub fn is_valid(&self) -> bool {
        self.chain.segments.len() as u64 <= CHAIN_MAX
            && self.chain.len(false) >= HEADER_BYTES
            && self.chain.len(true) > 0
    }

    /// Data bytes from the driver, after the header.
    fn payload(&self) -> u64 {
        self.chain.len(false) - HEADER_BYTES
    }

    /// Room for data bytes to the driver, before the status.
    fn room(&self) -> u64 {
        self.chain.len(true) - 1
    }

    /// Performs the request. Returns the bytes written to guest memory; `None` if not even the status could
    /// be written.
    pub fn perform(
        &self,
        slot: u8,
        medium: &mut Medium,
        memory: &mut dyn GuestMemory,
        stats: &mut VirtioDiskStats,
    ) -> Option<u32> {
        let done = match self.kind {
            T_IN => self.read_sectors(medium, memory, stats),
            T_OUT => self.write_sectors(medium, memory, stats),
            T_FLUSH => {
                stats.flushes += 1;
                Ok(0)
            }
            T_GET_ID => self.identify(slot, memory),
            T_DISCARD | T_WRITE_ZEROES => self.clear(medium, memory, stats),
            _ => Err(Failed(S_UNSUPP)),
        };
        let (status, written) = match done {
            Ok(written) => (S_OK, written),
            Err(Failed(status)) => {
                stats.failed_requests += u64::from(status == S_IOERR);
                stats.unsupported_requests += u64::from(status == S_UNSUPP);
                (status, 0)
            }
        };
        let (place, _) = self.chain.pieces(true, self.room(), 1).next()?;
        memory.write(place, &[status], DmaPurpose::Ring).then_some(written as u32 + 1)
    }

    /// Byte offset of the request on the medium, if `bytes` are whole sectors within it.
    fn offset(&self, medium: &Medium, bytes: u64) -> Result<u64, Failed> {
        if bytes > REQUEST_BYTES_MAX || !bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(Failed(S_IOERR));
        }
        range(medium, self.sector, bytes / SECTOR_BYTES)
    }

    /// Checks that all buffers are in RAM, so that a failing request transfers nothing.
    fn check_buffers(
        &self,
        writable: bool,
        from: u64,
        len: u64,
        memory: &mut dyn GuestMemory,
        stats: &mut VirtioDiskStats,
    ) -> Result<(), Failed> {
        if self.chain.pieces(writable, from, len).all(|(place, bytes)| memory.contains(place, bytes)) {
            return Ok(());
        }
        stats.outside_ram += 1;
        Err(Failed(S_IOERR))
    }

    fn read_sectors(
        &self,
        medium: &Medium,
        memory: &mut dyn GuestMemory,
        stats: &mut VirtioDiskStats,
    ) -> Result<u64, Failed> {
        let len = self.room();
        let mut offset = self.offset(medium, len)?;
        self.check_buffers(true, 0, len, memory, stats)?;
        let mut buffer = vec![0; COPY_BYTES.min(len) as usize];
        for (place, bytes) in copies(self.chain.pieces(true, 0, len)) {
            let piece = &mut buffer[..bytes as usize];
            medium.read(offset, piece).map_err(|error| failed(error, stats))?;
            memory.write(place, piece, DmaPurpose::Data);
            offset += bytes;
        }
        stats.reads += 1;
        stats.read_bytes += len;
        Ok(len)
    }

    fn write_sectors(
        &self,
        medium: &mut Medium,
        memory: &mut dyn GuestMemory,
        stats: &mut VirtioDiskStats,
    ) -> Result<u64, Failed> {
        let len = self.payload();
        let mut offset = self.offset(medium, len)?;
        self.check_buffers(false, HEADER_BYTES, len, memory, stats)?;
        let mut buffer = vec![0; COPY_BYTES.min(len) as usize];
        for (place, bytes) in copies(self.chain.pieces(false, HEADER_BYTES, len)) {
            let piece = &mut buffer[..bytes as usize];
            memory.read(place, piece, DmaPurpose::Data);
            medium.write(offset, piece).map_err(|error| failed(error, stats))?;
            offset += bytes;
        }
        stats.writes += 1;
        stats.written_bytes += len;
        Ok(0)
    }

    fn identify(&self, slot: u8, memory: &mut dyn GuestMemory) -> Result<u64, Failed> {
        let mut id = [0; ID_BYTES];
        let name = format!("doorbell-disk{slot}");
        id[..name.len()].copy_from_slice(name.as_bytes());
        let mut done = 0;
        for (place, bytes) in self.chain.pieces(true, 0, self.room().min(ID_BYTES as u64)) {
            if !memory.write(place, &id[done..done + bytes as usize], DmaPurpose::Data) {
                return Err(Failed(S_IOERR));
            }
            done += bytes as usize;
        }
        Ok(done as u64)
    }

    /// Discard and write-zeroes, for a single range as advertised (5.2.6).
    fn clear(
        &self,
        medium: &mut Medium,
        memory: &mut dyn GuestMemory,
        stats: &mut VirtioDiskStats,
    ) -> Result<u64, Failed> {
        if self.payload() != RANGE_BYTES {
            return Err(Failed(S_IOERR));
        }
        let mut bytes = [0; RANGE_BYTES as usize];
        gather(&self.chain, memory, HEADER_BYTES, &mut bytes)?;
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
        let first = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let sectors = u32::from_le_bytes([i, j, k, l]);
        let allowed = if self.kind == T_WRITE_ZEROES { RANGE_UNMAP } else { 0 };
        if u32::from_le_bytes([m, n, o, p]) & !allowed != 0 {
            return Err(Failed(S_UNSUPP));
        }
        if sectors > RANGE_SECTORS_MAX {
            return Err(Failed(S_IOERR));
        }
        let offset = range(medium, first, u64::from(sectors))?;
        let len = u64::from(sectors) * SECTOR_BYTES;
        if self.kind == T_DISCARD {
            medium.discard(offset, len);
            stats.discards += 1;
        } else {
            medium.write_zeros(offset, len).map_err(|error| failed(error, stats))?;
            stats.zeroings += 1;
        }
        Ok(0)
    }
}

fn failed(error: MediumError, stats: &mut VirtioDiskStats) -> Failed {
    match error {
        MediumError::Full => stats.refused_writes += 1,
        MediumError::Host => stats.host_failures += 1,
    }
    Failed(S_IOERR)
}

fn range(medium: &Medium, first: u64, sectors: u64) -> Result<u64, Failed> {
    let inside = first <= medium.sectors() && sectors <= medium.sectors() - first;
    if inside { Ok(first * SECTOR_BYTES) } else { Err(Failed(S_IOERR)) }
}

/// Copies from the readable buffers, starting at byte `from`.
fn gather(chain: &Chain, memory: &mut dyn GuestMemory, from: u64, into: &mut [u8]) -> Result<(), Failed> {
    let mut done = 0;
    for (place, bytes) in chain.pieces(false, from, into.len() as u64) {
        if !memory.read(place, &mut into[done..done + bytes as usize], DmaPurpose::Ring) {
            return Err(Failed(S_IOERR));
        }
        done += bytes as usize;
    }
    Ok(())
}

/// Splits pieces into single copies.
fn copies(pieces: impl Iterator<Item = (PhysAddr, u64)>) -> impl Iterator<Item = (PhysAddr, u64)> {
    pieces.flat_map(|(place, bytes)| {
        let starts = (0..bytes).step_by(COPY_BYTES as usize);
        starts.map(move |at| (PhysAddr(place.0 + at), COPY_BYTES.min(bytes - at)))
    })
}

/// The configuration space of a disk with the given number of sectors (5.2.4).
pub fn config_space(sectors: u64) -> [u8; CONFIG_BYTES] {
    let mut space = [0; CONFIG_BYTES];
    let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &sectors.to_le_bytes());
    put(8, &SEGMENT_BYTES_MAX.to_le_bytes());
    put(12, &SEGMENTS_MAX.to_le_bytes());
    put(20, &(SECTOR_BYTES as u32).to_le_bytes());
    put(24, &[PHYSICAL_BLOCK_EXPONENT, 0]);
    put(26, &(1u16 << PHYSICAL_BLOCK_EXPONENT).to_le_bytes());
    put(34, &1u16.to_le_bytes()); // num_queues
    put(36, &RANGE_SECTORS_MAX.to_le_bytes());
    put(40, &1u32.to_le_bytes()); // max_discard_seg
    put(44, &(1u32 << PHYSICAL_BLOCK_EXPONENT).to_le_bytes()); // discard_sector_alignment
    put(48, &RANGE_SECTORS_MAX.to_le_bytes());
    put(52, &1u32.to_le_bytes()); // max_write_zeroes_seg
    put(56, &[1]); // write_zeroes_may_unmap
    space
}
