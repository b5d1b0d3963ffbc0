//! Ports: how neighbouring rooms meet. A device knows the traits below and nothing of who stands
//! behind them; `machine` joins the two sides.

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

/// How many bytes a core's access to a device moves.
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

    /// The size of `bytes` bytes, if an access can have it.
    pub const fn from_bytes(bytes: u64) -> Option<AccessSize> {
        match bytes {
            1 => Some(AccessSize::B1),
            2 => Some(AccessSize::B2),
            4 => Some(AccessSize::B4),
            8 => Some(AccessSize::B8),
            _ => None,
        }
    }

    /// A mask of as many low bits as the access moves.
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes())
    }
}

/// What a device moves by DMA, so that placement policies and accounts can tell the kinds apart: in a NIC's words. What another device
/// moves counts as what is most alike, and an interrupt's message as a descriptor's write-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DmaKind {
    /// Fetch of receive descriptors.
    RxDescriptorFetch,
    /// Write-back of receive descriptors.
    RxDescriptorWriteback,
    /// Received frame data.
    RxData,
    /// Fetch of transmit descriptors.
    TxDescriptorFetch,
    /// Write-back of transmit descriptors.
    TxDescriptorWriteback,
    /// Frame data to transmit.
    TxData,
}

impl DmaKind {
    /// All kinds, each at its number.
    pub const ALL: [DmaKind; 6] = [
        DmaKind::RxDescriptorFetch,
        DmaKind::RxDescriptorWriteback,
        DmaKind::RxData,
        DmaKind::TxDescriptorFetch,
        DmaKind::TxDescriptorWriteback,
        DmaKind::TxData,
    ];

    /// Whether the device reads memory; else it writes it.
    pub fn is_read(self) -> bool {
        matches!(self, DmaKind::RxDescriptorFetch | DmaKind::TxDescriptorFetch | DmaKind::TxData)
    }
}

/// What a device with several queues says of a request beside what it moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DmaTag {
    /// The queue that the request is for, among those of its direction.
    pub queue: u8,
    /// The core into whose cache the device asks what it writes to be put.
    pub core: Option<u8>,
}

/// What a device asks of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaRequest {
    /// Where its first byte is in memory.
    pub addr: PhysAddr,
    /// How many bytes.
    pub len: u32,
    /// What is moved.
    pub kind: DmaKind,
    /// Which byte of its frame the first one is, so that a policy such as "the first bytes to the cache" works over
    /// frames in several buffers; 0 for descriptors.
    pub offset: u32,
    /// For which queue, and which core is asked for.
    pub tag: DmaTag,
    /// Comes back with a [`Done::Later`].
    pub token: u64,
}

impl DmaRequest {
    /// A request of a device that has one queue and asks for no core.
    pub const fn plain(addr: PhysAddr, len: u32, kind: DmaKind, offset: u32) -> DmaRequest {
        DmaRequest { addr, len, kind, offset, tag: DmaTag { queue: 0, core: None }, token: 0 }
    }
}

/// When a request is done: a time, or a completion that comes later as an event that carries the
/// request's token (a memory controller that reorders cannot name the time in advance).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Done at this time.
    At(Ps),
    /// The requester's completion function will be called with its token.
    Later,
}

/// A device's way to guest memory. *When* and *what* are apart: a request is priced first, and at the
/// time it is done the device moves the bytes with [`read`](DmaPort::read) or
/// [`write`](DmaPort::write). So a read sees memory as it is when the data leaves it, and a write
/// is visible from the moment it arrives, in the one order of the machine's events.
///
/// Requests of one direction are done in the order made. An address outside RAM reads as all ones,
/// swallows writes, and is counted by the port's owner.
pub trait DmaPort {
    /// Prices a read that the device asks for at `now`.
    fn request_read(&mut self, now: Ps, request: DmaRequest) -> Done;
    /// Prices a (posted) write; done when the data is visible in memory.
    fn request_write(&mut self, now: Ps, request: DmaRequest) -> Done;
    /// Copies guest memory into `into`, now.
    fn read(&mut self, addr: PhysAddr, into: &mut [u8]);
    /// Copies `from` into guest memory, now.
    fn write(&mut self, addr: PhysAddr, from: &[u8]);
    /// The device has learnt that software gave it these `bytes` for a frame to come: what they hold is dead. A hint that moves
    /// nothing and takes no time.
    fn buffer_returned(&mut self, addr: PhysAddr, bytes: u64) {
        let _ = (addr, bytes);
    }
}

/// A ring of descriptors in memory that software polls: how it looks, for whoever wants to know what a core polls. Each descriptor has
/// a byte of status with a bit that the device sets when it is done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolledRing {
    /// Where it lies.
    pub base: PhysAddr,
    /// Bytes of all of it.
    pub bytes: u64,
    /// Bytes of a descriptor.
    pub descriptor_bytes: u64,
    /// Which byte of a descriptor has the status.
    pub status_at: u64,
    /// The bits of the status of which one at least is set when the device is done.
    pub done: u8,
}

/// A level-triggered interrupt line.
pub trait IrqPort {
    /// Drives the line to `level`; driving it to the level it has is allowed and does nothing.
    fn set_irq(&mut self, level: bool);
}

/// Interrupts that are messages, beside the line: each has a vector, and is a write to memory where software has asked for that.
pub trait IrqSink: IrqPort {
    /// Interrupt `vector` at `now`. With messages enabled one is sent, behind all that the device has written before, or stays
    /// pending while software masks it; without them nothing happens, as the line tells of the interrupt.
    fn raise(&mut self, now: Ps, vector: u16);

    /// What `vector` was raised for has been seen to: a message that is still pending is not sent.
    fn withdraw(&mut self, vector: u16);
}

/// A component's own wake-ups. `E` is the component's event type.
pub trait Timers<E> {
    /// Asks for `event` to be handed back at `at` (not before the present).
    fn wake_at(&mut self, at: Ps, event: E);
}

/// The end of a link into which a component sends frames. The link is a serial resource.
pub trait WirePort {
    /// Sends a frame whose first bit may leave at `now` or as soon after as the link is free.
    /// Returns when the last bit (and the inter-frame gap) has left, that is when the sender may go on.
    fn send(&mut self, now: Ps, frame: Frame) -> Ps;
    /// When the link towards the far end is free for another frame.
    fn free_at(&self) -> Ps;
}

/// Who wants to know what a receiver has been given; nobody, by default.
pub trait DeliveryPort {
    /// A frame of so many bytes on the wire, FCS included, is whole in memory, in these pieces (address and length in
    /// bytes), and software can see its descriptors.
    fn frame_in_memory(&mut self, _now: Ps, _pieces: &[(PhysAddr, u32)], _wire_bytes: u32) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_dma_stand_in_their_order() {
        for (index, kind) in DmaKind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, index);
        }
    }
}
