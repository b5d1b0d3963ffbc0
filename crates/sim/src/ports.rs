//! Ports between neighbouring crates. A device uses only the traits below; `machine` connects the two sides.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::frame::Frame;
use crate::time::Ps;

/// A guest-physical address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PhysAddr(pub u64);

impl fmt::Display for PhysAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Size of a core's access to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessSize {
    /// One byte.
    B1,
    /// Two bytes.
    B2,
    /// Four bytes.
    B4,
    /// Eight bytes.
    B8,
}

impl AccessSize {
    /// The size as a number of bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            AccessSize::B1 => 1,
            AccessSize::B2 => 2,
            AccessSize::B4 => 4,
            AccessSize::B8 => 8,
        }
    }

    /// The access size of `bytes` bytes, if valid.
    pub const fn from_bytes(bytes: u64) -> Option<AccessSize> {
        match bytes {
            1 => Some(AccessSize::B1),
            2 => Some(AccessSize::B2),
            4 => Some(AccessSize::B4),
            8 => Some(AccessSize::B8),
            _ => None,
        }
    }

    /// A mask of the low bits that the access moves.
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes())
    }
}

/// Purpose of a device's transfer, for placement policies, accounting and traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DmaPurpose {
    /// Receive descriptors of a NIC.
    RxDescriptor,
    /// Received frame data.
    RxData,
    /// Transmit descriptors of a NIC, and its head write-backs.
    TxDescriptor,
    /// Frame data to transmit.
    TxData,
    /// Descriptors, queues and request headers of other devices, such as virtio's rings.
    Ring,
    /// Data of other devices, such as disk blocks or copied memory.
    Data,
    /// A message signalled interrupt.
    Interrupt,
}

impl DmaPurpose {
    /// All purposes in the order of their discriminants.
    pub const ALL: [DmaPurpose; 7] = [
        DmaPurpose::RxDescriptor,
        DmaPurpose::RxData,
        DmaPurpose::TxDescriptor,
        DmaPurpose::TxData,
        DmaPurpose::Ring,
        DmaPurpose::Data,
        DmaPurpose::Interrupt,
    ];
}

/// Whether a device reads or writes memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DmaDirection {
    /// From memory to the device.
    Read,
    /// From the device to memory.
    Write,
}

/// Routing attributes of a request of a multi-queue device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DmaTag {
    /// Queue number within its direction.
    pub queue: u8,
    /// Target core of the placement hint: the written data should go to its cache.
    pub core: Option<u8>,
}

/// A device's request to memory. The function of [`DmaPort`] that it is passed to is its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaRequest {
    /// Address of the first byte.
    pub addr: PhysAddr,
    /// Length in bytes.
    pub len: u32,
    /// Purpose of the transfer.
    pub purpose: DmaPurpose,
    /// Offset of the first byte in its frame, so that policies such as "only the first bytes go to the cache"
    /// work for frames in several buffers; 0 for other data.
    pub offset: u32,
    /// Queue and target core.
    pub tag: DmaTag,
}

impl DmaRequest {
    /// A request of a device with one queue and no target core.
    pub const fn plain(addr: PhysAddr, len: u32, purpose: DmaPurpose, offset: u32) -> DmaRequest {
        DmaRequest { addr, len, purpose, offset, tag: DmaTag { queue: 0, core: None } }
    }
}

/// A device's access to guest memory. Timing and data are separate: the completion time is computed first,
/// and when a request completes the device moves the bytes with [`read`](DmaPort::read) or
/// [`write`](DmaPort::write). A read therefore returns memory as it is at that time, and a write becomes
/// visible when it arrives, in the order of the machine's events.
///
/// Requests of one direction complete in the order made. Outside RAM, reads return all ones and writes are
/// dropped; the port's owner counts both.
pub trait DmaPort {
    /// Computes when a read issued at `now` completes.
    fn request_read(&mut self, now: Ps, request: DmaRequest) -> Ps;
    /// Computes when a posted write completes, that is, when the data is visible in memory.
    fn request_write(&mut self, now: Ps, request: DmaRequest) -> Ps;
    /// Copies guest memory into `into`, immediately.
    fn read(&mut self, addr: PhysAddr, into: &mut [u8]);
    /// Copies `from` into guest memory, immediately.
    fn write(&mut self, addr: PhysAddr, from: &[u8]);
    /// Hints that software returned these `bytes` as a buffer for a future frame, so their contents are dead.
    /// Moves no data and takes no time.
    fn buffer_returned(&mut self, addr: PhysAddr, bytes: u64) {
        let _ = (addr, bytes);
    }
}

/// A level-triggered interrupt line.
pub trait IrqPort {
    /// Drives the line to `level`; no effect if it already has that level.
    fn set_irq(&mut self, level: bool);
}

/// Message-signalled interrupts in addition to the line. Each has a vector, and is a memory write if software
/// enabled messages.
pub trait IrqSink: IrqPort {
    /// Raises `vector` at `now`. With messages enabled, one is sent after all earlier writes of the device,
    /// or stays pending while masked. Otherwise nothing happens, because the line signals the interrupt.
    fn raise(&mut self, now: Ps, vector: u16);

    /// Clears the cause of `vector`: a message that is still pending is not sent.
    fn withdraw(&mut self, vector: u16);
}

/// Wake-up timers of a component. `E` is the component's event type.
pub trait Timers<E> {
    /// Schedules `event` for delivery at `at` (not before the present).
    fn wake_at(&mut self, at: Ps, event: E);
}

/// The sending end of a link. The link is a serial resource.
pub trait WirePort {
    /// Sends a frame; its first bit leaves at `now` or when the link is free. Returns when the last bit and
    /// the inter-frame gap have left, that is, when the sender may continue.
    fn send(&mut self, now: Ps, frame: Frame) -> Ps;
    /// When the link is free for another frame.
    fn free_at(&self) -> Ps;
}

/// Observer of received frames; does nothing by default.
pub trait DeliveryPort {
    /// A frame of `wire_bytes` bytes, FCS included, is complete in memory in these pieces (address, length in
    /// bytes), and its descriptors are visible to software.
    fn frame_in_memory(&mut self, _now: Ps, _pieces: &[(PhysAddr, u32)], _wire_bytes: u32) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dma_purposes_are_listed_in_discriminant_order() {
        for (index, purpose) in DmaPurpose::ALL.iter().enumerate() {
            assert_eq!(*purpose as usize, index);
        }
    }
}
