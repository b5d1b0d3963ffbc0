//! What a card's PCI configuration space says of it. The space itself belongs to the room `pcie`, which gets these figures from
//! `machine`.

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

/// Message signalled interrupts: MSI with one message, and MSI-X.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagesIdentity {
    /// Where MSI stands in configuration space.
    pub msi: u8,
    /// Where MSI-X stands.
    pub msix: u8,
    /// MSI-X's vectors.
    pub vectors: u16,
    /// Which base address register its table and its pending bits are behind.
    pub bar: u8,
    /// Where the pending bits begin there; the table begins at 0.
    pub pending: u32,
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
    pub bars: &'static [BarIdentity],
    /// Power management.
    pub power_management: PowerManagementIdentity,
    /// Message signalled interrupts, if it has any.
    pub messages: Option<MessagesIdentity>,
}
