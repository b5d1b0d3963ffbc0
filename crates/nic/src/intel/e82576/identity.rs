//! What the PCI configuration space of an 82576 says of it (datasheet, chapter 9), for a copper port.
//! Not modelled: the PCI Express, error reporting, alternative routing and single-root virtualisation capabilities.

use crate::identity::{BarIdentity, MessagesIdentity, PciIdentity, PowerManagementIdentity};

/// Size of the register window, BAR 0.
pub const MMIO_BYTES: u64 = 128 << 10;
/// Size of the I/O window, BAR 2.
pub const IO_BYTES: u64 = 32;
/// Size of the window with MSI-X's table, BAR 3.
pub const MESSAGE_BYTES: u64 = 16 << 10;
/// MSI-X's vectors.
pub const VECTORS: usize = 25;

/// The 82576's identity.
pub const IDENTITY: PciIdentity = PciIdentity {
    vendor: 0x8086,
    device: 0x10c9,
    subsystem_vendor: 0x8086,
    subsystem: 0xa03c,
    class: 0x02_0000,
    revision: 0x01,
    interrupt_pin: 1,
    min_grant: 0,
    max_latency: 0,
    bars: &[
        BarIdentity { index: 0, size: MMIO_BYTES, io: false },
        BarIdentity { index: 2, size: IO_BYTES, io: true },
        BarIdentity { index: 3, size: MESSAGE_BYTES, io: false },
    ],
    power_management: PowerManagementIdentity { offset: 0x40, capabilities: 0xc823 },
    messages: Some(MessagesIdentity {
        msi: 0x50,
        msix: 0x70,
        vectors: VECTORS as u16,
        bar: 3,
        pending: 0x2000,
    }),
};
