//! The address map of QEMU's `virt` machine (hw/riscv/virt, version 10.0) for the devices modelled here:
//! their addresses and PLIC sources. RAM is not in the table: it starts at [`RAM_BASE`] and has the
//! configured size, up to [`RAM_LIMIT`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Start of RAM.
pub const RAM_BASE: u64 = 0x8000_0000;
/// RAM must end at or below the 64-bit PCI window.
pub const RAM_LIMIT: u64 = 0x4_0000_0000;
/// Sources of the PLIC, numbered from 1.
pub const PLIC_SOURCES: u32 = 95;
/// Sources of the APLIC, numbered from 1.
pub const APLIC_SOURCES: u32 = 96;
/// Number of virtio slots.
pub const VIRTIO_SLOTS: u32 = 8;
/// Bytes of each slot.
pub const VIRTIO_SLOT_BYTES: u64 = 0x1000;
/// The PLIC source of the first slot; the others follow.
pub const VIRTIO_IRQ: u32 = 1;
/// The PLIC source of the UART.
pub const UART_IRQ: u32 = 10;
/// The PLIC source of the RTC.
pub const RTC_IRQ: u32 = 11;
/// The PLIC source of PCI INTA of device 0; INTB to INTD follow.
pub const PCI_INTX_IRQ: u32 = 32;
/// Number of INTx sources.
pub const PCI_INTX_COUNT: u32 = 4;

/// The interrupt controllers of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InterruptsKind {
    /// A PLIC, which drives interrupt lines of the harts. It does not support message-signalled interrupts.
    #[default]
    Plic,
    /// An APLIC, and interrupt files in the harts (IMSIC) that receive messages from the APLIC and from PCI
    /// functions.
    Aia,
}

impl InterruptsKind {
    /// Whether it is the default.
    pub fn is_default(&self) -> bool {
        *self == InterruptsKind::default()
    }
}

/// The regions of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RegionId {
    /// The reset vector's ROM.
    ResetRom,
    /// The power switch.
    Syscon,
    /// The real-time clock.
    Rtc,
    /// Software and timer interrupts.
    Clint,
    /// PCI I/O ports.
    PciIo,
    /// The PLIC.
    Plic,
    /// The APLIC's root domain, for machine mode, at the PLIC's address.
    AplicMachine,
    /// The APLIC's domain for supervisor mode.
    AplicSupervisor,
    /// The console.
    Uart,
    /// The virtio slots.
    Virtio,
    /// The harts' interrupt files of machine mode.
    ImsicMachine,
    /// The harts' interrupt files of supervisor mode.
    ImsicSupervisor,
    /// PCI configuration space.
    PciEcam,
    /// PCI memory below 4 GiB.
    PciMmio32,
    /// PCI memory above RAM.
    PciMmio64,
}

/// A row of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The device.
    pub id: RegionId,
    /// Its name in listings.
    pub name: &'static str,
    /// The first address.
    pub base: u64,
    /// Size in bytes.
    pub size: u64,
    /// The device's first PLIC source, and the number of sources.
    pub interrupts: Option<(u32, u32)>,
}

const fn region(
    id: RegionId,
    name: &'static str,
    base: u64,
    size: u64,
    interrupts: Option<(u32, u32)>,
) -> Region {
    Region { id, name, base, size, interrupts }
}

/// The map, in order of addresses and of [`RegionId`], including the regions of all interrupt controllers.
pub const REGIONS: [Region; 15] = [
    region(RegionId::ResetRom, "reset ROM", 0x1000, 0xf000, None),
    region(RegionId::Syscon, "syscon", 0x10_0000, 0x1000, None),
    region(RegionId::Rtc, "RTC", 0x10_1000, 0x1000, Some((RTC_IRQ, 1))),
    region(RegionId::Clint, "CLINT", 0x200_0000, 0x1_0000, None),
    region(RegionId::PciIo, "PCI I/O", 0x300_0000, 0x1_0000, None),
    region(RegionId::Plic, "PLIC", 0xc00_0000, 0x60_0000, None),
    region(RegionId::AplicMachine, "APLIC (M)", 0xc00_0000, 0x8000, None),
    region(RegionId::AplicSupervisor, "APLIC (S)", 0xd00_0000, 0x8000, None),
    region(RegionId::Uart, "UART", 0x1000_0000, 0x100, Some((UART_IRQ, 1))),
    region(
        RegionId::Virtio,
        "virtio",
        0x1000_1000,
        VIRTIO_SLOTS as u64 * VIRTIO_SLOT_BYTES,
        Some((VIRTIO_IRQ, VIRTIO_SLOTS)),
    ),
    region(RegionId::ImsicMachine, "IMSIC (M)", 0x2400_0000, 0x400_0000, None),
    region(RegionId::ImsicSupervisor, "IMSIC (S)", 0x2800_0000, 0x400_0000, None),
    region(RegionId::PciEcam, "PCI ECAM", 0x3000_0000, 0x1000_0000, Some((PCI_INTX_IRQ, PCI_INTX_COUNT))),
    region(RegionId::PciMmio32, "PCI MMIO32", 0x4000_0000, 0x4000_0000, None),
    region(RegionId::PciMmio64, "PCI MMIO64", 0x4_0000_0000, 0x4_0000_0000, None),
];

/// The row of a device.
pub const fn get(id: RegionId) -> Region {
    REGIONS[id as usize]
}

impl Region {
    /// Whether a machine with these interrupt controllers has the region.
    pub const fn is_present(&self, interrupts: InterruptsKind) -> bool {
        match self.id {
            RegionId::Plic => matches!(interrupts, InterruptsKind::Plic),
            RegionId::AplicMachine
            | RegionId::AplicSupervisor
            | RegionId::ImsicMachine
            | RegionId::ImsicSupervisor => matches!(interrupts, InterruptsKind::Aia),
            _ => true,
        }
    }
}

/// The region of an address, and the offset in it. RAM and holes belong to no region.
pub fn lookup(addr: u64, interrupts: InterruptsKind) -> Option<(Region, u64)> {
    let after = REGIONS.partition_point(|region| region.base <= addr);
    let region = REGIONS[..after].iter().rfind(|region| region.is_present(interrupts))?;
    let offset = addr - region.base;
    (offset < region.size).then_some((*region, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [InterruptsKind; 2] = [InterruptsKind::Plic, InterruptsKind::Aia];

    #[test]
    fn regions_do_not_overlap_each_other_or_ram_or_share_an_interrupt() {
        for kind in KINDS {
            let regions: Vec<Region> = REGIONS.into_iter().filter(|region| region.is_present(kind)).collect();
            for pair in regions.windows(2) {
                assert!(pair[0].base + pair[0].size <= pair[1].base, "{pair:?}");
            }
        }
        for region in REGIONS {
            assert!(region.base + region.size <= RAM_BASE || region.base >= RAM_LIMIT, "{region:?}");
        }
        let mut used = [false; PLIC_SOURCES as usize + 1];
        for (first, count) in REGIONS.iter().filter_map(|region| region.interrupts) {
            for source in first..first + count {
                assert!(source >= 1 && !std::mem::replace(&mut used[source as usize], true));
            }
        }
    }

    #[test]
    fn get_returns_the_row_of_each_region() {
        for region in REGIONS {
            assert_eq!(get(region.id), region);
        }
    }

    #[test]
    fn lookup_agrees_with_a_linear_search_at_every_edge() {
        let mut addresses = vec![0, RAM_BASE, u64::MAX];
        for region in REGIONS {
            let end = region.base + region.size;
            addresses.extend([region.base - 1, region.base, end - 1, end]);
        }
        for (addr, kind) in addresses.into_iter().flat_map(|addr| KINDS.map(|kind| (addr, kind))) {
            let inside = |r: &&Region| addr >= r.base && addr - r.base < r.size;
            let naive = REGIONS.iter().filter(|r| r.is_present(kind)).find(inside);
            assert_eq!(lookup(addr, kind), naive.map(|r| (*r, addr - r.base)), "{addr:#x} {kind:?}");
        }
    }
}
