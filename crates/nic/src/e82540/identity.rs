//! What the PCI configuration space of an 82540EM says of it (manual chapter 4 and §6.3.3). The
//! space itself belongs to the room `pcie`, which gets these figures from `machine`.

/// A base address register's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarIdentity {
    /// Which of the six registers.
    pub index: u8,
    /// Size in bytes, a power of two.
    pub size: u64,
    /// An I/O window instead of a memory window.
    pub io: bool,
}

/// The power management capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerManagementIdentity {
    /// Where it stands in configuration space.
    pub offset: u8,
    /// The capabilities word: PME from D0, D3hot and D3cold, device-specific initialisation, version 1.1.
    pub capabilities: u16,
}

/// The figures in one function's configuration space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciIdentity {
    /// Vendor.
    pub vendor: u16,
    /// Device.
    pub device: u16,
    /// Subsystem vendor.
    pub subsystem_vendor: u16,
    /// Subsystem.
    pub subsystem: u16,
    /// Class, subclass and programming interface.
    pub class: u32,
    /// Silicon revision.
    pub revision: u8,
    /// Interrupt pin: 1 is INTA.
    pub interrupt_pin: u8,
    /// Min_Gnt, in units of 250 ns.
    pub min_grant: u8,
    /// Max_Lat, in units of 250 ns.
    pub max_latency: u8,
    /// The windows.
    pub bars: [BarIdentity; 2],
    /// The one capability modelled; message signalled interrupts are not.
    pub power_management: PowerManagementIdentity,
}

/// Size of the register window, BAR 0.
pub const MMIO_BYTES: u64 = 128 << 10;
/// Size of the I/O window, BAR 2.
pub const IO_BYTES: u64 = 64;

/// The 82540EM's identity.
pub const IDENTITY: PciIdentity = PciIdentity {
    vendor: 0x8086,
    device: 0x100e,
    subsystem_vendor: 0x8086,
    subsystem: 0x001e,
    class: 0x02_0000,
    revision: 0x02,
    interrupt_pin: 1,
    min_grant: 0xff,
    max_latency: 0x00,
    bars: [
        BarIdentity { index: 0, size: MMIO_BYTES, io: false },
        BarIdentity { index: 2, size: IO_BYTES, io: true },
    ],
    power_management: PowerManagementIdentity { offset: 0xdc, capabilities: 0xc822 },
};
