//! Devices in a trace, and the address ranges of their registers, inferred from register stores.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use doorbell_attach::Attachment;
use doorbell_platform::map::{self, InterruptsKind, RegionId};
use doorbell_sim::Ps;
use doorbell_sim::memory::PLATFORM_DEVICES;
use doorbell_trace::system::{Description, DeviceEvent, EventKind};

use super::device_replay::DeviceReplay;
use crate::config::{ConfigError, MachineConfig};

/// Whether the event is a NIC's: a frame or DMA.
pub(super) fn is_of_nic(event: &DeviceEvent) -> bool {
    let moves =
        matches!(event.what, EventKind::FrameIn { .. } | EventKind::FrameOut { .. } | EventKind::Dma(_));
    moves && event.device < PLATFORM_DEVICES
}

/// Mapping of a trace's NICs to ports, whose attachment and link they use. NICs map by number if each number
/// has a port, else in order. Numbers may have gaps, or not begin at 0, in part of a trace or from another
/// recorder.
#[derive(Clone, Default)]
pub(super) struct Ports {
    /// NIC numbers in ascending order.
    nics: Vec<u8>,
    by_number: bool,
    last: usize,
}

impl Ports {
    /// Maps these NICs to `ports` ports.
    pub fn new(nics: &BTreeSet<u8>, ports: usize) -> Ports {
        let by_number = nics.iter().all(|number| usize::from(*number) < ports);
        Ports { nics: nics.iter().copied().collect(), by_number, last: ports.saturating_sub(1) }
    }

    /// Port of a device.
    #[inline]
    pub fn port_of(&self, device: u8) -> usize {
        let place = match self.nics.binary_search(&device) {
            Ok(place) if !self.by_number => place,
            _ => device.into(),
        };
        place.min(self.last)
    }
}

const PAGE_SHIFT: u32 = 12;
/// Maximum distance between registers of one device: the 82540EM and its successors have 128 KiB of them.
const REACH: u64 = 128 << 10;

/// Checks that each device with its own policy for direct cache access occurs in a trace.
pub(super) fn check_named(config: &MachineConfig, replays: &[DeviceReplay]) -> Result<(), ConfigError> {
    let told: BTreeSet<u8> =
        replays.iter().flat_map(|replay| replay.survey.devices.keys().copied()).collect();
    config.check_dca_entries(
        |device| told.contains(&device),
        || match told.iter().map(u8::to_string).collect::<Vec<_>>() {
            none if none.is_empty() => "the traces have no devices".to_owned(),
            numbers => format!("the traces have {}", numbers.join(", ")),
        },
    )
}

/// Attachments of the ports, at least one. Ports of one card share it.
pub(super) struct Attachments {
    /// Each attachment, with the first port that uses it.
    pub all: Vec<(usize, Attachment)>,
    /// Index in `all` of each port's attachment.
    of_port: Vec<usize>,
}

impl Attachments {
    pub fn new(config: &MachineConfig) -> Attachments {
        let mut attachments = Attachments { all: Vec::new(), of_port: Vec::new() };
        let Attachments { all, of_port } = &mut attachments;
        for port in 0..config.platform.nics as usize {
            let card = config.ports().card(port);
            if card == port {
                let own = config.port(port);
                all.push((port, Attachment::new(&own.attach, &own.pcie, 0)));
            }
            of_port.extend(all.iter().position(|(first, _)| *first == card));
        }
        if all.is_empty() {
            all.push((0, Attachment::new(&config.attach, &config.pcie, 0)));
            of_port.push(0);
        }
        attachments.set_timed(true, Ps::ZERO);
        attachments
    }

    /// Number of ports.
    pub fn ports(&self) -> usize {
        self.of_port.len()
    }

    /// Attachment of a port.
    pub fn attachment(&mut self, port: usize) -> &mut Attachment {
        &mut self.all[self.of_port[port]].1
    }

    pub fn set_timed(&mut self, timed: bool, now: Ps) {
        self.all.iter_mut().for_each(|(_, attachment)| attachment.set_timed(timed, now));
    }
}

/// Target of a device access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Registers of this device.
    Device(u8),
    /// Configuration space, served by the root complex.
    Configuration,
    /// A device outside PCI, at no cost beyond the core's.
    Other,
}

/// Devices by register address.
#[derive(Default)]
pub(super) struct DeviceMap {
    /// Device by part of a merged trace and register page. Parts may use the same addresses.
    pages: BTreeMap<(usize, u64), u8>,
    parts: Vec<Range<u16>>,
    /// Whether the recorded machine has our memory map.
    is_ours: bool,
}

impl DeviceMap {
    /// Creates an empty map for a trace.
    pub fn new(of: &Description) -> DeviceMap {
        DeviceMap { pages: BTreeMap::new(), parts: of.parts(), is_ours: of.isa == "riscv64" }
    }

    fn part_of(&self, hart: usize) -> usize {
        self.parts.iter().position(|part| hart < part.end.into()).unwrap_or(0)
    }

    /// Adds the device of a register store.
    pub fn note(&mut self, event: &DeviceEvent) {
        if let EventKind::Register { addr, .. } = event.what {
            let part = self.part_of(event.hart.into());
            self.pages.entry((part, addr.0 >> PAGE_SHIFT)).or_insert(event.device);
        }
    }

    /// Returns the target of an access: the nearest device with a register store below the address, else
    /// above it.
    pub fn target(&self, hart: usize, addr: u64) -> Target {
        let (part, page) = (self.part_of(hart), addr >> PAGE_SHIFT);
        let is_near = |known: &(usize, u64)| known.0 == part && known.1.abs_diff(page) < REACH >> PAGE_SHIFT;
        let below = self.pages.range(..=(part, page)).next_back().filter(|(known, _)| is_near(known));
        let above = || self.pages.range((part, page)..).next().filter(|(known, _)| is_near(known));
        let near = below.or_else(above);
        if let Some((_, device)) = near {
            return Target::Device(*device);
        }
        match map::lookup(addr, InterruptsKind::Plic).map(|(region, _)| region.id).filter(|_| self.is_ours) {
            Some(RegionId::PciIo | RegionId::PciMmio32 | RegionId::PciMmio64) => Target::Device(0),
            Some(RegionId::PciEcam) => Target::Configuration,
            _ => Target::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use doorbell_sim::PhysAddr;

    use super::*;

    #[test]
    fn nics_map_to_ports_by_number_or_in_order() {
        let ports = |nics: &[u8], ports| Ports::new(&nics.iter().copied().collect(), ports);
        let of = |all: Ports, devices: [u8; 3]| devices.map(|device| all.port_of(device));
        assert_eq!(of(ports(&[0, 1], 2), [0, 1, 56]), [0, 1, 1]);
        assert_eq!(of(ports(&[1, 2], 2), [1, 2, 56]), [0, 1, 1]);
        assert_eq!(of(ports(&[0, 5], 2), [0, 5, 5]), [0, 1, 1]);
        assert_eq!(of(ports(&[1, 2], 3), [1, 2, 0]), [1, 2, 0]);
        assert_eq!(of(ports(&[1], 1), [0, 1, 2]), [0, 0, 0]);
    }

    #[test]
    fn register_belongs_to_the_nearest_device() {
        let new = |isa: &str| DeviceMap::new(&Description { isa: isa.into(), ..Description::default() });
        let mut devices = new("x86_64");
        for (device, addr) in [(3, 0xfeb0_3818), (4, 0xfeb2_2818)] {
            let what = EventKind::Register { addr: PhysAddr(addr), size: 4, value: 1, stored: None };
            devices.note(&DeviceEvent { device, hart: 0, after: 0, since: Ps(0), what });
        }
        let targets =
            [0xfeb0_0008, 0xfeb0_3818, 0xfeb1_5000, 0xfeb2_2000, 0xfeb2_3818].map(|at| devices.target(0, at));
        assert_eq!(targets, [3, 3, 3, 4, 4].map(Target::Device));
        assert_eq!(devices.target(0, 0xfee0_0000), Target::Other, "interrupt controller of an x86 machine");
        let ours = new("riscv64");
        let of = |id| map::REGIONS.iter().find(|region| region.id == id).expect("there is one").base;
        assert_eq!(ours.target(0, of(RegionId::PciMmio32)), Target::Device(0), "no store recorded");
        assert_eq!(ours.target(0, of(RegionId::PciEcam)), Target::Configuration);
        assert_eq!(ours.target(0, of(RegionId::Uart)), Target::Other);
    }
}
