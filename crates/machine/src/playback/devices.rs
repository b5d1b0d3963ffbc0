//! Which devices traces tell of, and whose registers lie where: known from what was stored to them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use doorbell_attach::Attachment;
use doorbell_platform::map::{self, InterruptsKind, RegionId};
use doorbell_sim::Ps;
use doorbell_sim::memory::PLATFORM_DEVICES;
use doorbell_trace::system::{Description, DeviceEvent, EventKind};

use super::device_replay::DeviceReplay;
use crate::config::{ConfigError, MachineConfig};

/// Whether a NIC did this: something with frames, or DMA.
pub(super) fn is_of_nic(event: &DeviceEvent) -> bool {
    let moves =
        matches!(event.what, EventKind::FrameIn { .. } | EventKind::FrameOut { .. } | EventKind::Dma(_));
    moves && event.device < PLATFORM_DEVICES
}

/// Which port's attachment and link a trace's devices have. NICs are ports by their numbers, where there are as many ports; else in
/// their order: a part of a trace, or another recorder, may have numbers that do not begin at 0 or leave some out.
#[derive(Clone, Default)]
pub(super) struct Ports {
    /// In ascending order.
    nics: Vec<u8>,
    by_number: bool,
    last: usize,
}

impl Ports {
    /// Of these NICs, where there are so many ports.
    pub fn new(nics: &BTreeSet<u8>, ports: usize) -> Ports {
        let by_number = nics.iter().all(|number| usize::from(*number) < ports);
        Ports { nics: nics.iter().copied().collect(), by_number, last: ports.saturating_sub(1) }
    }

    /// A device's.
    #[inline]
    pub fn of(&self, device: u8) -> usize {
        let place = match self.nics.binary_search(&device) {
            Ok(place) if !self.by_number => place,
            _ => device.into(),
        };
        place.min(self.last)
    }
}

const PAGE_SHIFT: u32 = 12;
/// Registers of one device lie no further apart: the 82540EM and its successors have 128 KiB of them.
const REACH: u64 = 128 << 10;

/// Devices that direct cache access treats apart are ones that a trace tells of.
pub(super) fn check_named(config: &MachineConfig, replays: &[DeviceReplay]) -> Result<(), ConfigError> {
    let told: BTreeSet<u8> =
        replays.iter().flat_map(|replay| replay.survey.devices.keys().copied()).collect();
    config.check_dca_entries(
        |device| told.contains(&device),
        || match told.iter().map(u8::to_string).collect::<Vec<_>>() {
            none if none.is_empty() => "no trace that is played tells of a device".to_owned(),
            numbers => format!("what is played tells of {}", numbers.join(", ")),
        },
    )
}

/// The ports' attachments, one at least: those of one card have one.
pub(super) struct Attachments {
    /// Each, with the first port that has it.
    pub all: Vec<(usize, Attachment)>,
    /// Each port's, by its number in `all`.
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

    /// How many ports there are.
    pub fn ports(&self) -> usize {
        self.of_port.len()
    }

    /// A port's.
    pub fn of(&mut self, port: usize) -> &mut Attachment {
        &mut self.all[self.of_port[port]].1
    }

    pub fn set_timed(&mut self, timed: bool, now: Ps) {
        self.all.iter_mut().for_each(|(_, attachment)| attachment.set_timed(timed, now));
    }
}

/// What an access to a device goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Registers of this device.
    Device(u8),
    /// Configuration space, which the root complex answers.
    Configuration,
    /// Something beside PCI, at no cost but the core's.
    Other,
}

/// See the module.
#[derive(Default)]
pub(super) struct DeviceMap {
    /// Of each of the traces that it was merged of, whose devices may have the same addresses.
    pages: BTreeMap<(usize, u64), u8>,
    parts: Vec<Range<u16>>,
    /// Whether the machine was laid out as ours is.
    is_ours: bool,
}

impl DeviceMap {
    /// Of this trace.
    pub fn new(of: &Description) -> DeviceMap {
        DeviceMap { pages: BTreeMap::new(), parts: of.parts(), is_ours: of.isa == "riscv64" }
    }

    fn part_of(&self, hart: usize) -> usize {
        self.parts.iter().position(|part| hart < part.end.into()).unwrap_or(0)
    }

    /// Learns from an event.
    pub fn note(&mut self, event: &DeviceEvent) {
        if let EventKind::Register { addr, .. } = event.what {
            let part = self.part_of(event.hart.into());
            self.pages.entry((part, addr.0 >> PAGE_SHIFT)).or_insert(event.device);
        }
    }

    /// Whose a register is: that of the nearest one below that was stored to, or of the nearest one above.
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
    fn nics_are_ports_by_their_numbers_or_else_in_their_order() {
        let ports = |nics: &[u8], ports| Ports::new(&nics.iter().copied().collect(), ports);
        let of = |all: Ports, devices: [u8; 3]| devices.map(|device| all.of(device));
        assert_eq!(of(ports(&[0, 1], 2), [0, 1, 56]), [0, 1, 1]);
        assert_eq!(of(ports(&[1, 2], 2), [1, 2, 56]), [0, 1, 1]);
        assert_eq!(of(ports(&[0, 5], 2), [0, 5, 5]), [0, 1, 1]);
        assert_eq!(of(ports(&[1, 2], 3), [1, 2, 0]), [1, 2, 0]);
        assert_eq!(of(ports(&[1], 1), [0, 1, 2]), [0, 0, 0]);
    }

    #[test]
    fn a_register_belongs_to_the_device_whose_registers_lie_round_it() {
        let new = |isa: &str| DeviceMap::new(&Description { isa: isa.into(), ..Description::default() });
        let mut devices = new("x86_64");
        for (device, addr) in [(3, 0xfeb0_3818), (4, 0xfeb2_2818)] {
            let what = EventKind::Register { addr: PhysAddr(addr), size: 4, value: 1, stored: None };
            devices.note(&DeviceEvent { device, hart: 0, after: 0, since: Ps(0), what });
        }
        let targets =
            [0xfeb0_0008, 0xfeb0_3818, 0xfeb1_5000, 0xfeb2_2000, 0xfeb2_3818].map(|at| devices.target(0, at));
        assert_eq!(targets, [3, 3, 3, 4, 4].map(Target::Device));
        assert_eq!(
            devices.target(0, 0xfee0_0000),
            Target::Other,
            "the interrupt controller of an x86 machine"
        );
        let ours = new("riscv64");
        let of = |id| map::REGIONS.iter().find(|region| region.id == id).expect("there is one").base;
        assert_eq!(ours.target(0, of(RegionId::PciMmio32)), Target::Device(0), "nothing was stored there");
        assert_eq!(ours.target(0, of(RegionId::PciEcam)), Target::Configuration);
        assert_eq!(ours.target(0, of(RegionId::Uart)), Target::Other);
    }
}
