//! What makes one PCI function differ from another before software has touched it: identifiers,
//! base address registers, capabilities.

/// Base address registers of a type 0 header.
pub const BARS: usize = 6;

/// What a base address register asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BarKind {
    /// Not implemented, or the upper half of the 64-bit one before it.
    #[default]
    None,
    /// Memory anywhere below 4 GiB.
    Memory32 {
        /// A power of two from 16 bytes.
        bytes: u64,
        /// Reading has no side effects.
        prefetchable: bool,
    },
    /// Memory anywhere; takes two registers.
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
    /// The size asked for; 0 if none is.
    pub const fn bytes(self) -> u64 {
        match self {
            BarKind::None => 0,
            BarKind::Memory32 { bytes, .. } | BarKind::Memory64 { bytes, .. } | BarKind::Io { bytes } => {
                bytes
            }
        }
    }

    /// The read-only type bits in the register's lowest byte.
    pub const fn type_bits(self) -> u32 {
        match self {
            BarKind::None => 0,
            BarKind::Memory32 { prefetchable, .. } => (prefetchable as u32) << 3,
            BarKind::Memory64 { prefetchable, .. } => 0x4 | (prefetchable as u32) << 3,
            BarKind::Io { .. } => 0x1,
        }
    }
}

/// An entry of the capability list, at a place that the device's manual fixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Power management with the states D0 and D3hot.
    PowerManagement {
        /// Offset in configuration space, a multiple of four from 0x40.
        offset: u8,
        /// The PMC register: version and what the function can do. D1 and D2 are not offered.
        capabilities: u16,
        /// The function keeps its registers on the way from D3hot to D0.
        no_soft_reset: bool,
    },
    /// Message signalled interrupts: one vector, 64-bit address.
    Msi {
        /// Offset in configuration space, a multiple of four from 0x40.
        offset: u8,
    },
}

impl Capability {
    /// Where it lies.
    pub const fn offset(self) -> u8 {
        match self {
            Capability::PowerManagement { offset, .. } | Capability::Msi { offset } => offset,
        }
    }

    /// How many bytes it has.
    pub const fn bytes(self) -> u8 {
        match self {
            Capability::PowerManagement { .. } => 8,
            Capability::Msi { .. } => 14,
        }
    }
}

/// What the registers behind the common ones are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderType {
    /// A function's: six base address registers, a subsystem.
    #[default]
    Function,
    /// A bridge's to another PCI bus: bus numbers and windows. It has neither base address registers nor a subsystem here.
    Bridge,
}

/// Power states that a function can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerState {
    /// Working.
    D0,
    /// Off but for configuration accesses.
    D3Hot,
}

/// A function as it comes out of reset.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Minimum grant and maximum latency, of interest to old software only.
    pub min_grant_max_latency: [u8; 2],
    /// The capability list, in the order in which it is linked.
    pub capabilities: Vec<Capability>,
    /// The function is PCI Express: configuration space beyond 256 bytes exists (and is empty).
    pub extended_space: bool,
    /// The form of its header.
    pub header: HeaderType,
}

impl FunctionIdentity {
    /// The host bridge of QEMU's generic PCI Express host (`gpex`).
    pub fn gpex_host_bridge() -> FunctionIdentity {
        FunctionIdentity {
            vendor: 0x1b36,
            device: 0x0008,
            revision: 0,
            class: 0x06_0000,
            subsystem_vendor: 0x1af4,
            subsystem: 0x1100,
            bars: [BarKind::None; BARS],
            interrupt_pin: 0,
            min_grant_max_latency: [0; 2],
            capabilities: Vec::new(),
            extended_space: false,
            header: HeaderType::Function,
        }
    }

    /// The Intel 82540EM, with the subsystem, revision and base address registers of QEMU's `e1000`
    /// (which has no flash register, and so the I/O ports one place earlier than the manual) and,
    /// unlike it, the manual's power management capability at 0xdc.
    pub fn intel_82540em() -> FunctionIdentity {
        let mut bars = [BarKind::None; BARS];
        bars[0] = BarKind::Memory32 { bytes: 128 << 10, prefetchable: false };
        bars[1] = BarKind::Io { bytes: 64 };
        FunctionIdentity {
            vendor: 0x8086,
            device: 0x100e,
            revision: 0x03,
            class: 0x02_0000,
            subsystem_vendor: 0x1af4,
            subsystem: 0x1100,
            bars,
            interrupt_pin: 1,
            min_grant_max_latency: [0; 2],
            // Version 2, device-specific initialisation, PME from D0 and D3hot.
            capabilities: vec![Capability::PowerManagement {
                offset: 0xdc,
                capabilities: 0x4822,
                no_soft_reset: false,
            }],
            extended_space: false,
            header: HeaderType::Function,
        }
    }

    /// A bridge between two buses: the PCI bridge of Intel's I/O controller hubs, as QEMU's `i82801b11-bridge` has it but for its list
    /// of capabilities, which is empty here.
    pub fn pci_bridge() -> FunctionIdentity {
        FunctionIdentity {
            vendor: 0x8086,
            device: 0x244e,
            revision: 0x92,
            class: 0x06_0400,
            subsystem_vendor: 0,
            subsystem: 0,
            bars: [BarKind::None; BARS],
            interrupt_pin: 0,
            min_grant_max_latency: [0; 2],
            capabilities: Vec::new(),
            extended_space: false,
            header: HeaderType::Bridge,
        }
    }

    /// Says what is wrong with the description; a wrong one is this program's bug.
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
                return Some("a capability does not lie on a word from 0x40 on");
            }
            if taken[start..start + bytes].iter_mut().any(|byte| std::mem::replace(byte, true)) {
                return Some("two capabilities overlap");
            }
        }
        let managed = |c: &&Capability| matches!(c, Capability::PowerManagement { .. });
        if self.capabilities.iter().filter(managed).count() > 1
            || self.capabilities.iter().filter(|c| !managed(c)).count() > 1
        {
            return Some("a capability is there twice");
        }
        None
    }
}
