//! What the PCI configuration space of an 82540EM says of it (manual chapter 4 and §6.3.3). The
//! space itself belongs to the room `pcie`, which gets these figures from `machine`.

use crate::identity::{BarIdentity, PciIdentity, PowerManagementIdentity};

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
    bars: &[
        BarIdentity { index: 0, size: MMIO_BYTES, io: false },
        BarIdentity { index: 2, size: IO_BYTES, io: true },
    ],
    power_management: PowerManagementIdentity { offset: 0xdc, capabilities: 0xc822 },
    messages: None,
};
