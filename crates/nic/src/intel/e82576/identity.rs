//! The 82576's PCI configuration space for a copper port (datasheet, chapter 9).

use doorbell_pcie::{BarKind, Capability, FunctionIdentity, HeaderType, MsiX};

/// Size of the register window, BAR 0.
pub const MMIO_BYTES: u64 = 128 << 10;
/// Size of the I/O window, BAR 2.
pub const IO_BYTES: u64 = 32;
pub(super) const IO_BAR: u8 = 2;
/// Size of the window with the MSI-X table, BAR 3.
pub const MESSAGE_BYTES: u64 = 16 << 10;
const MESSAGE_BAR: u8 = 3;
/// MSI-X vectors.
pub const VECTORS: usize = 25;

pub(super) fn identity() -> FunctionIdentity {
    let mut bars = [BarKind::None; 6];
    bars[0] = BarKind::Memory32 { bytes: MMIO_BYTES, prefetchable: false };
    bars[usize::from(IO_BAR)] = BarKind::Io { bytes: IO_BYTES };
    bars[usize::from(MESSAGE_BAR)] = BarKind::Memory32 { bytes: MESSAGE_BYTES, prefetchable: false };
    FunctionIdentity {
        vendor: 0x8086,
        device: 0x10c9,
        revision: 0x01,
        class: 0x02_0000,
        subsystem_vendor: 0x8086,
        subsystem: 0xa03c,
        bars,
        interrupt_pin: 1,
        min_grant_max_latency: [0; 2],
        capabilities: vec![
            // PME from D0, D3hot and D3cold, device-specific initialisation, version 1.2.
            Capability::PowerManagement { offset: 0x40, capabilities: 0xc823, no_soft_reset: false },
            Capability::Msi { offset: 0x50, messages: 1, wide: true, masks: true },
            Capability::MsiX(MsiX {
                offset: 0x70,
                vectors: VECTORS as u16,
                table: (MESSAGE_BAR, 0),
                pending: (MESSAGE_BAR, 0x2000),
            }),
        ],
        extended_space: false,
        header: HeaderType::Function,
    }
}
