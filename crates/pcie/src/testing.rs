//! A function that no machine has, for this crate's tests.

use crate::identity::{BARS, BarKind, Capability, FunctionIdentity, HeaderType, MsiX};

/// Memory, I/O ports, an interrupt pin, and power management at 0xdc.
pub(crate) fn function() -> FunctionIdentity {
    let mut bars = [BarKind::None; BARS];
    bars[0] = BarKind::Memory32 { bytes: 128 << 10, prefetchable: false };
    bars[1] = BarKind::Io { bytes: 64 };
    FunctionIdentity {
        vendor: 0xd00b,
        device: 0x0002,
        revision: 0x03,
        class: 0x02_0000,
        subsystem_vendor: 0xd00b,
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

/// A function with every kind of base address register and capability.
pub(crate) fn everything() -> FunctionIdentity {
    FunctionIdentity {
        bars: [
            BarKind::Memory64 { bytes: 8 << 30, prefetchable: true },
            BarKind::None,
            BarKind::Io { bytes: 256 },
            BarKind::Memory32 { bytes: 4096, prefetchable: true },
            BarKind::Memory64 { bytes: 16 << 10, prefetchable: false },
            BarKind::None,
        ],
        capabilities: vec![
            Capability::PowerManagement { offset: 0x40, capabilities: 0x0003, no_soft_reset: true },
            Capability::Msi { offset: 0x50, messages: 4, wide: true, masks: true },
            Capability::MsiX(MsiX { offset: 0x70, vectors: 70, table: (4, 0x1000), pending: (4, 0x2000) }),
        ],
        extended_space: true,
        ..function()
    }
}
