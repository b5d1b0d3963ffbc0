//! The device side of a split virtqueue (VIRTIO 1.2, 2.7): takes descriptor chains from the available ring
//! and returns them on the used ring.
//!
//! If a driver violates the rules of the ring, operations return [`RingViolation`], and the device needs a
//! reset. A chain has at most [`CHAIN_MAX`] descriptors, so that no ring makes the device work without end.

use doorbell_sim::PhysAddr;
use doorbell_sim::ports::DmaPurpose;
use serde::{Deserialize, Serialize};

use super::GuestMemory;

/// The largest queue that the device offers.
pub const QUEUE_SIZE_MAX: u16 = 256;
/// The longest chain, including indirect descriptors.
pub const CHAIN_MAX: u64 = 256;

const DESCRIPTOR_BYTES: u64 = 16;
const F_NEXT: u16 = 1;
const F_WRITE: u16 = 2;
const F_INDIRECT: u16 = 4;
/// Flag of the available ring: the driver disables interrupts.
const NO_INTERRUPT: u16 = 1;

/// The driver violated the rules of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingViolation;

/// One buffer of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
    /// Whether the device writes to it; otherwise it reads from it.
    pub writable: bool,
}

/// A chain of descriptors: buffers to read, then buffers to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// Its first descriptor, which identifies the chain to the driver.
    pub head: u16,
    /// Its buffers.
    pub segments: Vec<Segment>,
}

impl Chain {
    /// Total size of the writable or of the readable buffers.
    pub fn len(&self, writable: bool) -> u64 {
        self.segments.iter().filter(|segment| segment.writable == writable).map(|s| u64::from(s.len)).sum()
    }

    /// The pieces that hold bytes `from..from + len` of the writable or of the readable buffers.
    pub fn pieces(&self, writable: bool, from: u64, len: u64) -> impl Iterator<Item = (PhysAddr, u64)> {
        let (mut skip, mut left) = (from, len);
        self.segments.iter().filter(move |segment| segment.writable == writable).filter_map(move |segment| {
            let skipped = skip.min(u64::from(segment.len));
            skip -= skipped;
            let taken = (u64::from(segment.len) - skipped).min(left);
            left -= taken;
            (taken > 0).then_some((PhysAddr(segment.addr.wrapping_add(skipped)), taken))
        })
    }
}

/// A queue's registers, and the device's progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Descriptors in the table.
    pub size: u16,
    /// Whether the driver has enabled the queue.
    pub ready: bool,
    /// The descriptor table.
    pub descriptors: u64,
    /// The available ring, written by the driver.
    pub driver: u64,
    /// The used ring, written by the device.
    pub device: u64,
    next_avail: u16,
    next_used: u16,
}

/// Negotiated features that affect the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingFeatures {
    /// VIRTIO_F_INDIRECT_DESC.
    pub indirect: bool,
    /// VIRTIO_F_EVENT_IDX.
    pub event_index: bool,
}

#[derive(Clone, Copy)]
struct Descriptor {
    addr: u64,
    len: u32,
    flags: u16,
    next: u16,
}

fn read_u16(memory: &mut dyn GuestMemory, addr: u64) -> Result<u16, RingViolation> {
    let mut bytes = [0; 2];
    memory
        .read(PhysAddr(addr), &mut bytes, DmaPurpose::Ring)
        .then(|| u16::from_le_bytes(bytes))
        .ok_or(RingViolation)
}

fn write(memory: &mut dyn GuestMemory, addr: u64, bytes: &[u8]) -> Result<(), RingViolation> {
    memory.write(PhysAddr(addr), bytes, DmaPurpose::Ring).then_some(()).ok_or(RingViolation)
}

fn descriptor(memory: &mut dyn GuestMemory, table: u64, index: u16) -> Result<Descriptor, RingViolation> {
    let mut bytes = [0; DESCRIPTOR_BYTES as usize];
    let place = PhysAddr(table.wrapping_add(DESCRIPTOR_BYTES * u64::from(index)));
    if !memory.read(place, &mut bytes, DmaPurpose::Ring) {
        return Err(RingViolation);
    }
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
    Ok(Descriptor {
        addr: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        len: u32::from_le_bytes([i, j, k, l]),
        flags: u16::from_le_bytes([m, n]),
        next: u16::from_le_bytes([o, p]),
    })
}

impl Default for Queue {
    fn default() -> Queue {
        Queue {
            size: QUEUE_SIZE_MAX,
            ready: false,
            descriptors: 0,
            driver: 0,
            device: 0,
            next_avail: 0,
            next_used: 0,
        }
    }
}

impl Queue {
    /// Whether size and addresses allow the queue to be enabled (2.7, 2.7.10.1).
    pub fn is_valid(&self) -> bool {
        (1..=QUEUE_SIZE_MAX).contains(&self.size)
            && self.size.is_power_of_two()
            && self.descriptors.is_multiple_of(16)
            && self.driver.is_multiple_of(2)
            && self.device.is_multiple_of(4)
    }

    /// Enables the queue: both rings restart.
    pub fn enable(&mut self) {
        (self.ready, self.next_avail, self.next_used) = (true, 0, 0);
    }

    /// Takes the next chain from the available ring, if there is one.
    pub fn pop(
        &mut self,
        memory: &mut dyn GuestMemory,
        features: RingFeatures,
    ) -> Result<Option<Chain>, RingViolation> {
        let available = read_u16(memory, self.driver.wrapping_add(2))?;
        let waiting = available.wrapping_sub(self.next_avail);
        if waiting == 0 {
            return Ok(None);
        }
        if waiting > self.size {
            return Err(RingViolation);
        }
        let slot = u64::from(self.next_avail % self.size);
        let head = read_u16(memory, self.driver.wrapping_add(4 + 2 * slot))?;
        let chain = self.walk(memory, head, features)?;
        self.next_avail = self.next_avail.wrapping_add(1);
        Ok(Some(chain))
    }

    fn walk(
        &self,
        memory: &mut dyn GuestMemory,
        head: u16,
        features: RingFeatures,
    ) -> Result<Chain, RingViolation> {
        let mut segments: Vec<Segment> = Vec::new();
        let (mut table, mut entries, mut inside) = (self.descriptors, u64::from(self.size), false);
        let (mut index, mut taken) = (head, 0);
        loop {
            // A chain with more descriptors than its table is a loop.
            if u64::from(index) >= entries || taken == entries || segments.len() as u64 == CHAIN_MAX {
                return Err(RingViolation);
            }
            taken += 1;
            let Descriptor { addr, len, flags, next } = descriptor(memory, table, index)?;
            if flags & F_INDIRECT != 0 {
                // 2.7.5.3.1: only if negotiated, last in the chain, and not nested.
                if !features.indirect || inside || flags & F_NEXT != 0 {
                    return Err(RingViolation);
                }
                let count = u64::from(len) / DESCRIPTOR_BYTES;
                if count == 0 || count > CHAIN_MAX || !u64::from(len).is_multiple_of(DESCRIPTOR_BYTES) {
                    return Err(RingViolation);
                }
                (table, entries, inside) = (addr, count, true);
                (index, taken) = (0, 0);
                continue;
            }
            let writable = flags & F_WRITE != 0;
            if !writable && segments.last().is_some_and(|last| last.writable) {
                return Err(RingViolation);
            }
            segments.push(Segment { addr, len, writable });
            if flags & F_NEXT == 0 {
                return Ok(Chain { head, segments });
            }
            index = next;
        }
    }

    /// Requests a notification for the next chain.
    pub fn request_notification(&self, memory: &mut dyn GuestMemory) -> Result<(), RingViolation> {
        let place = self.device.wrapping_add(4 + 8 * u64::from(self.size));
        write(memory, place, &self.next_avail.to_le_bytes())
    }

    /// Returns a chain to the driver, to which the device wrote `written` bytes. Returns whether to interrupt
    /// the driver.
    pub fn push(
        &mut self,
        memory: &mut dyn GuestMemory,
        head: u16,
        written: u32,
        features: RingFeatures,
    ) -> Result<bool, RingViolation> {
        let slot = u64::from(self.next_used % self.size);
        let mut entry = [0; 8];
        entry[..4].copy_from_slice(&u32::from(head).to_le_bytes());
        entry[4..].copy_from_slice(&written.to_le_bytes());
        write(memory, self.device.wrapping_add(4 + 8 * slot), &entry)?;
        let old = self.next_used;
        self.next_used = old.wrapping_add(1);
        write(memory, self.device.wrapping_add(2), &self.next_used.to_le_bytes())?;
        if features.event_index {
            // 2.7.10: the driver states the used index after which it needs an interrupt.
            let wanted = read_u16(memory, self.driver.wrapping_add(4 + 2 * u64::from(self.size)))?;
            Ok(wanted == old)
        } else {
            Ok(read_u16(memory, self.driver)? & NO_INTERRUPT == 0)
        }
    }
}
