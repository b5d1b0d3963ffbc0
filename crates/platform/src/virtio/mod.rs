//! A block device behind virtio-mmio, for file systems that do not fit into the guest's memory.
//!
//! Document: Virtual I/O Device (VIRTIO) Version 1.2: 2 (basic facilities, split virtqueues), 4.2 (virtio
//! over MMIO), 5.2 (block device). Equivalent to QEMU's `virt` with `-global virtio-mmio.force-legacy=false`
//! and `virtio-blk-device`.
//!
//! Modelled: the non-legacy register layout, status and feature negotiation, one request queue with indirect
//! descriptors and event indexes, reads, writes, flush, identification, discard and write-zeroes, reset, and
//! DEVICE_NEEDS_RESET for ring rule violations. Not modelled: legacy registers, packed rings, resetting a
//! single queue, several queues, shared memory regions (there are none), a change of capacity, zones,
//! lifetime, secure erase.
//!
//! Path of a request: the driver's notification ([`mmio`]) → chains are taken from the ring ([`queue`]) and
//! scheduled ([`disk`]) → when due, the data are copied between memory and the medium ([`block`], [`medium`])
//! → the used ring and the interrupt. The medium is a host file that is never written: the guest's writes
//! overlay it.

pub mod block;
pub mod config;
pub mod disk;
pub mod medium;
pub mod mmio;
pub mod queue;

use doorbell_sim::PhysAddr;
use doorbell_sim::ports::DmaPurpose;

pub use config::DiskConfig;
pub use disk::{VirtioDisk, VirtioDiskState, VirtioDiskStats};
pub use medium::{DiskError, DiskFile, Medium};
pub use mmio::read_empty;

/// A device's access to guest memory. Reads and writes return `false`, without effect, if the range is not
/// entirely RAM.
pub trait GuestMemory {
    /// Whether `len` bytes from `addr` are RAM.
    fn contains(&self, addr: PhysAddr, len: u64) -> bool;
    /// Copies memory out.
    fn read(&mut self, addr: PhysAddr, into: &mut [u8], purpose: DmaPurpose) -> bool;
    /// Copies bytes into memory.
    fn write(&mut self, addr: PhysAddr, from: &[u8], purpose: DmaPurpose) -> bool;
}
