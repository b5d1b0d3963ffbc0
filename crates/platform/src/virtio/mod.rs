//! A block device behind virtio-mmio, for file systems that do not fit into the guest's memory.
//!
//! Document: Virtual I/O Device (VIRTIO) Version 1.2: 2 (basic facilities, split virtqueues), 4.2 (virtio over MMIO),
//! 5.2 (block device). What QEMU's `virt` has with `-global virtio-mmio.force-legacy=false` and `virtio-blk-device`.
//!
//! Modelled: the non-legacy register layout, status and feature negotiation, one request queue with indirect
//! descriptors and event indexes, reads, writes, flush, identification, discard and write-zeroes, reset, and
//! DEVICE_NEEDS_RESET for rings that are broken. Not modelled: legacy registers, packed rings, resetting a queue by itself,
//! several queues, shared memory regions (there are none), a change of capacity, zones, lifetime, secure erase.
//!
//! The way of a request: the driver's notification ([`mmio`]) → chains are taken off the ring ([`queue`]) and priced
//! ([`disk`]) → when the time has come, the data move between memory and the medium ([`block`], [`medium`]) → the used
//! ring and the interrupt. The medium is a file of the host's that is never written: what the guest writes lies over it.

pub mod block;
pub mod config;
pub mod disk;
pub mod medium;
pub mod mmio;
pub mod queue;

use doorbell_sim::PhysAddr;
use doorbell_sim::ports::DmaKind;

pub use config::DiskConfig;
pub use disk::{VirtioDisk, VirtioDiskState, VirtioDiskStats};
pub use medium::{DiskError, DiskFile, Medium};
pub use mmio::read_empty;

/// Reads of the rings, their descriptors and the requests' headers, in the words that caches and accounts have for a NIC's.
const RING_READ: DmaKind = DmaKind::TxDescriptorFetch;
/// Writes to the used ring, and of a request's status.
const RING_WRITE: DmaKind = DmaKind::TxDescriptorWriteback;
/// A request's data on their way from memory.
const DATA_READ: DmaKind = DmaKind::TxData;
/// The same to memory.
const DATA_WRITE: DmaKind = DmaKind::RxData;

/// A device's way to guest memory. Reads and writes answer `false`, with nothing done, where not all of it is RAM.
pub trait GuestMemory {
    /// Whether `len` bytes from `addr` are RAM.
    fn contains(&self, addr: PhysAddr, len: u64) -> bool;
    /// Copies memory out.
    fn read(&mut self, addr: PhysAddr, into: &mut [u8], kind: DmaKind) -> bool;
    /// Copies bytes into memory.
    fn write(&mut self, addr: PhysAddr, from: &[u8], kind: DmaKind) -> bool;
}
