//! Description of a PCI function at reset: identifiers, base address registers, capabilities.

use std::mem::discriminant;

use crate::messages::ENTRY_BYTES;

/// Base address registers per type 0 header.
pub const BARS: usize = 6;

/// Kind and size of a base address register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BarKind {
    /// Not implemented, or the upper half of the preceding 64-bit register.
    #[default]
    None,
    /// Memory below 4 GiB.
    Memory32 {
        /// A power of two from 16 bytes.
        bytes: u64,
        /// Reading has no side effects.
        prefetchable: bool,
    },
    /// Memory at any address; takes two registers.
    Memory64 {
        /// A power of two from 16 bytes.
        bytes: u64,
        /// Reading has no side effects.
        prefetchable: bool,
    },
    /// I/O ports.
    Io {
        /// A power of two from 4 to 256 bytes.
        bytes: u64,
    },
}

impl BarKind {
    /// Requested size; 0 if not implemented.
    pub const fn bytes(self) -> u64 {
        match self {
            BarKind::None => 0,
            BarKind::Memory32 { bytes, .. } | BarKind::Memory64 { bytes, .. } | BarKind::Io { bytes } => {
                bytes
            }
        }
    }

    /// Read-only type bits in the register's lowest byte.
    pub const fn type_bits(self) -> u32 {
        match self {
            BarKind::None => 0,
            BarKind::Memory32 { prefetchable, .. } => (prefetchable as u32) << 3,
            BarKind::Memory64 { prefetchable, .. } => 0x4 | (prefetchable as u32) << 3,
            BarKind::Io { .. } => 0x1,
        }
    }
}

/// An entry of the capability list, at the offset given in the device's manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Power management with the states D0 and D3hot.
    PowerManagement {
        /// Offset in configuration space, a multiple of four from 0x40.
        offset: u8,
        /// PMC register: version and supported features. D1 and D2 are not supported.
        capabilities: u16,
        /// The function keeps its registers on the transition from D3hot to D0.
        no_soft_reset: bool,
    },
    /// Message signalled interrupts in configuration space.
    Msi {
        /// Offset in configuration space, a multiple of four from 0x40.
        offset: u8,
        /// Number of messages requested: a power of two up to 32.
        messages: u8,
        /// Whether addresses have 64 bits instead of 32.
        wide: bool,
        /// Whether each vector can be masked.
        masks: bool,
    },
    /// Message signalled interrupts in a table behind a base address register.
    MsiX(MsiX),
    /// A capability of the vendor's own (ID 09h). The function sees each access to it
    /// ([`config_read`](crate::PciFunction::config_read), [`config_written`](crate::PciFunction::config_written)).
    Vendor {
        /// Offset in configuration space, a multiple of four from 0x40.
        offset: u8,
        /// The bytes after ID, next pointer and length, as they are after reset.
        bytes: &'static [u8],
        /// The bits of these bytes that software can write; shorter than `bytes` where the rest is read-only.
        writable: &'static [u8],
    },
}

/// Bytes of a vendor capability's header: ID, next pointer, length.
pub(crate) const VENDOR_HEADER: usize = 3;

/// MSI-X capability of a function, and location of its structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsiX {
    /// Offset in configuration space, a multiple of four from 0x40.
    pub offset: u8,
    /// Number of vectors, 1 to 2048.
    pub vectors: u16,
    /// Table: number of a memory base address register, and offset from its base, a multiple of eight.
    pub table: (u8, u32),
    /// Pending bits, likewise.
    pub pending: (u8, u32),
}

impl MsiX {
    /// Size of the table in bytes.
    pub fn table_bytes(&self) -> u64 {
        ENTRY_BYTES * u64::from(self.vectors)
    }

    /// Size of the pending bits in bytes, whole quadwords.
    pub fn pending_bytes(&self) -> u64 {
        8 * u64::from(self.vectors).div_ceil(64)
    }
}

impl Capability {
    /// Offset in configuration space.
    pub const fn offset(self) -> u8 {
        match self {
            Capability::PowerManagement { offset, .. }
            | Capability::Msi { offset, .. }
            | Capability::Vendor { offset, .. } => offset,
            Capability::MsiX(msix) => msix.offset,
        }
    }

    /// Size in bytes.
    pub const fn bytes(self) -> u8 {
        match self {
            Capability::PowerManagement { .. } => 8,
            Capability::Msi { wide, masks, .. } => match (wide, masks) {
                (false, false) => 10,
                (true, false) => 14,
                (false, true) => 20,
                (true, true) => 24,
            },
            Capability::MsiX(_) => 12,
            Capability::Vendor { bytes, .. } => (VENDOR_HEADER + bytes.len()) as u8,
        }
    }
}

/// Layout of the registers after the common ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderType {
    /// A function: six base address registers and subsystem IDs.
    #[default]
    Function,
    /// A bridge to another PCI bus: bus numbers and windows. Here it has no base address registers and no
    /// subsystem IDs.
    Bridge,
}

/// Power states of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerState {
    /// Operational.
    D0,
    /// Off, except for configuration accesses.
    D3Hot,
}

/// A function as after reset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionIdentity {
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Revision ID.
    pub revision: u8,
    /// Base class, subclass and programming interface, as 0xBBSSPP.
    pub class: u32,
    /// Subsystem vendor ID.
    pub subsystem_vendor: u16,
    /// Subsystem ID.
    pub subsystem: u16,
    /// The base address registers.
    pub bars: [BarKind; BARS],
    /// 1 to 4 for INTA to INTD, 0 for none.
    pub interrupt_pin: u8,
    /// Minimum grant and maximum latency, used by old software only.
    pub min_grant_max_latency: [u8; 2],
    /// The capability list, in link order.
    pub capabilities: Vec<Capability>,
    /// Whether the function is PCI Express: configuration space beyond 256 bytes exists (and is empty).
    pub extended_space: bool,
    /// Header layout.
    pub header: HeaderType,
}

impl FunctionIdentity {
    /// The host bridge of QEMU's generic PCI Express host (`gpex`).
    pub fn gpex_host_bridge() -> FunctionIdentity {
        FunctionIdentity {
            vendor: 0x1b36,
            device: 0x0008,
            class: 0x06_0000,
            subsystem_vendor: 0x1af4,
            subsystem: 0x1100,
            ..FunctionIdentity::default()
        }
    }

    /// A bridge between two buses: the PCI bridge of Intel's I/O controller hubs, like QEMU's
    /// `i82801b11-bridge` but without its capabilities.
    pub fn pci_bridge() -> FunctionIdentity {
        FunctionIdentity {
            vendor: 0x8086,
            device: 0x244e,
            revision: 0x92,
            class: 0x06_0400,
            header: HeaderType::Bridge,
            ..FunctionIdentity::default()
        }
    }

    /// Returns the error in the description, if any; an error is a bug in this program.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        for (index, bar) in self.bars.iter().enumerate() {
            let bytes = bar.bytes();
            let fits = match bar {
                BarKind::None => true,
                BarKind::Memory32 { .. } => (16..=1 << 31).contains(&bytes),
                BarKind::Memory64 { .. } => {
                    (16..=1 << 40).contains(&bytes) && self.bars.get(index + 1) == Some(&BarKind::None)
                }
                BarKind::Io { .. } => (4..=256).contains(&bytes),
            };
            if !fits || (bytes != 0 && !bytes.is_power_of_two()) {
                return Some("a base address register has an impossible size or place");
            }
        }
        if self.header == HeaderType::Bridge && self.bars != [BarKind::None; BARS] {
            return Some("a bridge has no base address registers");
        }
        if self.interrupt_pin > 4 {
            return Some("there are four interrupt pins");
        }
        let mut taken = [false; 256];
        for capability in &self.capabilities {
            let (start, bytes) = (usize::from(capability.offset()), usize::from(capability.bytes()));
            if start < 0x40 || start % 4 != 0 || start + bytes > 256 {
                return Some("a capability is not word-aligned at 0x40 or above");
            }
            if taken[start..start + bytes].iter_mut().any(|byte| std::mem::replace(byte, true)) {
                return Some("two capabilities overlap");
            }
        }
        for (index, capability) in self.capabilities.iter().enumerate() {
            let is_alike = |other: &Capability| discriminant(other) == discriminant(capability);
            if !matches!(capability, Capability::Vendor { .. })
                && self.capabilities[..index].iter().any(is_alike)
            {
                return Some("a capability is listed twice");
            }
            match capability {
                Capability::PowerManagement { .. } => {}
                Capability::Msi { messages, .. } => {
                    if !messages.is_power_of_two() || *messages > 32 {
                        return Some("MSI has 1, 2, 4, 8, 16 or 32 messages");
                    }
                }
                Capability::MsiX(msix) if !self.fits(msix) => {
                    return Some(
                        "MSI-X's table and pending bits must be inside memory base address registers and not overlap",
                    );
                }
                Capability::MsiX(_) => {}
                Capability::Vendor { bytes, writable, .. } => {
                    if bytes.len() > 0xff - VENDOR_HEADER || writable.len() > bytes.len() {
                        return Some(
                            "a vendor capability is too long, or more of it is writable than it has",
                        );
                    }
                }
            }
        }
        None
    }

    /// Whether MSI-X's table and pending bits are inside their base address registers and do not overlap.
    fn fits(&self, msix: &MsiX) -> bool {
        let parts = [(msix.table, msix.table_bytes()), (msix.pending, msix.pending_bytes())];
        let inside = |((bar, offset), bytes): ((u8, u32), u64)| {
            let bar = self.bars.get(usize::from(bar)).copied().unwrap_or_default();
            let is_memory = matches!(bar, BarKind::Memory32 { .. } | BarKind::Memory64 { .. });
            is_memory && offset % 8 == 0 && u64::from(offset) + bytes <= bar.bytes()
        };
        let [((table, first), bytes), ((pending, other), other_bytes)] = parts;
        let (first, other) = (u64::from(first), u64::from(other));
        let apart = table != pending || first + bytes <= other || other + other_bytes <= first;
        (1..=2048).contains(&msix.vectors) && parts.into_iter().all(inside) && apart
    }

    /// The MSI-X capability, if the function has it.
    pub(crate) fn msix(&self) -> Option<&MsiX> {
        self.capabilities.iter().find_map(|capability| match capability {
            Capability::MsiX(msix) => Some(msix),
            _ => None,
        })
    }

    /// Whether the function supports messages instead of its interrupt pin.
    pub(crate) fn has_messages(&self) -> bool {
        self.capabilities.iter().any(|capability| !matches!(capability, Capability::PowerManagement { .. }))
    }
}
