//! What the raw stream tells.

/// Bits of a page's offset.
pub(super) const PAGE_SHIFT: u32 = 12;
/// Pages have at most 512 GiB.
pub(super) const PAGE_BITS_MAX: u8 = 39;
pub(super) const INSTRUCTION_BYTES_MAX: u8 = 15;
pub(super) const WALK_MAX: usize = 5;

/// An instruction as it stands in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// Its virtual address.
    pub address: u64,
    /// The physical one, 0 if it is in no RAM.
    pub physical: u64,
    pub(super) length: u8,
    pub(super) bytes: [u8; INSTRUCTION_BYTES_MAX as usize],
}

impl Bytes {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// An instruction of these bytes, 15 at most, whose address is the physical one too.
    pub fn new(address: u64, text: &[u8]) -> Bytes {
        let mut bytes = [0; INSTRUCTION_BYTES_MAX as usize];
        bytes[..text.len()].copy_from_slice(text);
        Bytes { address, physical: address, length: text.len() as u8, bytes }
    }
}

/// Which entries of page tables a translation reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableWalk {
    /// Virtual address of what is translated.
    pub virt: u64,
    /// Its physical page's address.
    pub page: u64,
    /// The entries' addresses, from the root; 0 behind the last one.
    pub entries: [u64; WALK_MAX],
    /// Bits of an offset into the page.
    pub page_bits: u8,
}

impl TableWalk {
    /// What tells a page and where its translation stands from another one.
    pub(crate) fn key(&self) -> (u64, u64, u64) {
        let bits = u32::from(self.page_bits);
        let last = self.entries.iter().rfind(|entry| **entry != 0);
        (self.virt >> bits, self.page >> bits, last.copied().unwrap_or(0))
    }
}

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Which instruction of the block.
    pub instruction: u32,
    /// Bytes.
    pub size: u8,
    /// Whether it writes.
    pub is_store: bool,
    /// Whether a device answers.
    pub is_io: bool,
    /// The virtual address.
    pub virt: u64,
    /// The physical address.
    pub phys: u64,
}

/// What a device did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// Bytes were moved from or to RAM.
    Dma {
        /// Whether RAM was written.
        is_write: bool,
        /// The physical address.
        addr: u64,
        /// How many.
        bytes: u64,
    },
    /// Software wrote a register of the NIC.
    Register {
        /// Where in the NIC's registers.
        offset: u64,
        /// Bytes.
        size: u8,
        /// What was written.
        value: u64,
    },
    /// A frame arrives.
    RxFrame,
    /// Part of a frame goes to memory: physical address of its buffer.
    RxBuffer,
    /// The frame is in memory.
    RxDone,
    /// The frame is thrown away.
    RxDropped,
    /// A transmit descriptor as read: the buffer's address, and the two words behind it.
    TxDescriptor(u64, u32, u32),
    /// An interrupt: its vector in the NIC's table, 0 for the one that others have.
    Interrupt(u32),
    /// Nothing that matters here.
    Other,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// The window begins. What stood before are the NIC's registers as software had set them.
    Begin,
    /// What a device does while no block is executed.
    Device(Device),
    /// From here on:
    State {
        /// With the operating system's rights.
        is_privileged: bool,
        /// What tells the address space from others.
        space: u64,
    },
    /// What led to the next block, a handler, where that is told.
    Trap {
        /// An interrupt, or else an exception.
        is_interrupt: bool,
        /// The address that the handler goes back to.
        address: u64,
    },
    /// A block was executed: its number, and how many of its instructions had begun. [`Stream::exchange`] has the rest.
    Block(u32, u32),
    /// The processor has waited for an interrupt behind the last block, for so many nanoseconds.
    Slept(u64),
    /// The window is over; how many instructions had begun in it.
    End(u64),
}
