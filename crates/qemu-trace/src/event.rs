//! What a recording is made of, once decoded: ops and, between them, what no op says.

use doorbell_sim::Op;

use crate::stream::TableWalk;

/// Why an instruction is followed by another than the one that stands behind it or that it jumps to. QEMU 10.0 tells that nobody:
/// it is inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trap {
    /// From a device or a timer. The instruction before it was executed.
    Interrupt,
    /// An instruction that was not executed, and is none of the ops, caused it, such as by an access to a page that was not there.
    Exception,
    /// The instruction before it goes to the operating system, or back from it.
    System,
}

/// What a DMA request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// A descriptor: whether for transmission, which ring, its place in it.
    Descriptor(bool, u8, u32),
    /// A frame's bytes: whether it is transmitted, the frame's number, from 0 in each direction, the first byte's place in it.
    Frame(bool, u64, u64),
    /// Something else of the NIC's, or another device's.
    Other,
}

/// What the NIC does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nic {
    /// Software tells it of descriptors: whether for transmission, which ring, the tail.
    Doorbell(bool, u8, u32),
    /// It moves bytes.
    Dma {
        /// Whether it writes memory.
        is_write: bool,
        /// The physical address.
        addr: u64,
        /// How many.
        bytes: u64,
        /// Of what.
        of: Of,
    },
    /// A frame comes from the wire: its number.
    Arrives(u64),
    /// All of it is in memory.
    Delivered(u64),
    /// It was thrown away.
    Dropped(u64),
    /// All of a frame was read: its number.
    Sent(u64),
    /// It interrupts; which vector of its table.
    Interrupt(u32),
}

/// What happens between two instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// From here on: whether privileged, and the address space (CR3).
    Space(bool, u64),
    /// The next instruction is a handler's, or what a handler returns to.
    Trap(Trap),
    /// The processor waits for an interrupt.
    Waits,
    /// A page is used for the first time, or again after others, and this is how it is translated.
    Page(TableWalk),
    /// See there.
    Nic(Nic),
}

/// Who takes a decoded recording.
pub trait Recorder {
    /// The next op. An instruction's last one has its length.
    fn op(&mut self, op: Op);
    /// Something happens behind the ops so far.
    fn event(&mut self, event: Event);
}
