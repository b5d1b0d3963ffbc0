//! Contents of the raw stream.

/// Width of a page offset.
pub(super) const PAGE_SHIFT: u32 = 12;
/// Largest page: 512 GiB.
pub(super) const PAGE_BITS_MAX: u8 = 39;
pub(super) const INSTRUCTION_BYTES_MAX: u8 = 15;
pub(super) const WALK_MAX: usize = 5;

/// An instruction in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// Virtual address.
    pub address: u64,
    /// Physical address; 0 if it is not in RAM.
    pub physical: u64,
    pub(super) length: u8,
    pub(super) bytes: [u8; INSTRUCTION_BYTES_MAX as usize],
}

impl Bytes {
    /// The instruction's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// An instruction of at most 15 bytes, with equal virtual and physical address.
    pub fn new(address: u64, text: &[u8]) -> Bytes {
        let mut bytes = [0; INSTRUCTION_BYTES_MAX as usize];
        bytes[..text.len()].copy_from_slice(text);
        Bytes { address, physical: address, length: text.len() as u8, bytes }
    }
}

/// Page-table entries that a translation reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableWalk {
    /// Virtual address translated.
    pub virt: u64,
    /// Address of its physical page.
    pub page: u64,
    /// Addresses of the entries, from the root; 0 after the last one.
    pub entries: [u64; WALK_MAX],
    /// Width of an offset into the page.
    pub page_bits: u8,
}

impl TableWalk {
    /// Key that identifies a page and its last-level entry.
    pub(crate) fn key(&self) -> (u64, u64, u64) {
        let bits = u32::from(self.page_bits);
        let last = self.entries.iter().rfind(|entry| **entry != 0);
        (self.virt >> bits, self.page >> bits, last.copied().unwrap_or(0))
    }
}

/// A memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Index of the instruction in its block.
    pub instruction: u32,
    /// Size in bytes.
    pub size: u8,
    /// Whether it writes.
    pub is_store: bool,
    /// Whether it accesses a device.
    pub is_io: bool,
    /// Virtual address.
    pub virt: u64,
    /// Physical address.
    pub phys: u64,
}

/// A raw device event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// DMA from or to RAM.
    Dma {
        /// Whether RAM is written.
        is_write: bool,
        /// Physical address.
        addr: u64,
        /// Size in bytes.
        bytes: u64,
    },
    /// Software writes a register of the NIC.
    Register {
        /// Offset in the NIC's register space.
        offset: u64,
        /// Size in bytes.
        size: u8,
        /// Value written.
        value: u64,
    },
    /// A frame arrives.
    RxFrame,
    /// Part of a frame is written to memory.
    RxBuffer,
    /// The frame is completely in memory.
    RxDone,
    /// The frame is dropped.
    RxDropped,
    /// A transmit descriptor is read: buffer address, and the two following words.
    TxDescriptor(u64, u32, u32),
    /// An interrupt: its MSI-X vector; 0 for other interrupts.
    Interrupt(u32),
    /// An irrelevant event.
    Other,
}

/// Item of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// The window begins. The items before it are the NIC's register writes by software.
    Begin,
    /// A device event between blocks.
    Device(Device),
    /// State of the processor from here on.
    State {
        /// Privileged execution.
        is_privileged: bool,
        /// Identifies the address space.
        space: u64,
    },
    /// Trap to the handler in the next block, if the plugin reports it.
    Trap {
        /// Interrupt; otherwise exception.
        is_interrupt: bool,
        /// Return address of the handler.
        address: u64,
    },
    /// A block was executed: its number, and how many of its instructions began. [`Stream::exchange`] has the
    /// rest.
    Block(u32, u32),
    /// The processor waited for an interrupt after the last block, in nanoseconds.
    Slept(u64),
    /// The window ends; number of instructions that began in it.
    End(u64),
}
