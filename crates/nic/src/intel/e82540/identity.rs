//! The 82540EM's PCI configuration space (manual chapter 4 and §6.3.3).

use doorbell_pcie::{BarKind, Capability, FunctionIdentity, HeaderType};

/// Size of the register window, BAR 0.
pub const MMIO_BYTES: u64 = 128 << 10;
/// Size of the I/O window, BAR 2.
pub const IO_BYTES: u64 = 64;
pub(super) const IO_BAR: u8 = 2;

pub(super) fn identity() -> FunctionIdentity {
    let mut bars = [BarKind::None; 6];
    bars[0] = BarKind::Memory32 { bytes: MMIO_BYTES, prefetchable: false };
    bars[usize::from(IO_BAR)] = BarKind::Io { bytes: IO_BYTES };
    FunctionIdentity {
        vendor: 0x8086,
        device: 0x100e,
        revision: 0x02,
        class: 0x02_0000,
        subsystem_vendor: 0x8086,
        subsystem: 0x001e,
        bars,
        interrupt_pin: 1,
        min_grant_max_latency: [0xff, 0],
        // PME from D0, D3hot and D3cold, device-specific initialisation, version 1.1.
        capabilities: vec![Capability::PowerManagement {
            offset: 0xdc,
            capabilities: 0xc822,
            no_soft_reset: false,
        }],
        extended_space: false,
        header: HeaderType::Function,
    }
}
