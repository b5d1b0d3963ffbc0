//! Direct cache access: where the lines that a device writes are put.
//!
//! What a line may meet with is three primitives, of which policies are built: a *placement* for each TLP ([`Placement`]: the last level, an
//! L2, memory), *masks of ways* for each device and for descriptors apart ([`WayMask`]), and *invalidation on consumption* ([`Invalidate`]):
//! a line whose contents nobody will ask for again leaves all caches without a write-back.
//!
//! Three pieces. A [`Placement`] is *what happens* to a line: the mechanism, in `device.rs`. A [`DcaPolicy`] is *what the user
//! asked for*, for each device and each kind of data. A [`Steering`](steering::Steering) *decides*, line by line, with what
//! it has seen. A researcher's policy is a new [`Strategy`] with its arm in `steering.rs`; a new place is a new
//! [`Placement`] with its arm in `device.rs`.
//!
//! The default is what Intel describes as Data Direct I/O, with the ways as a register sets them: a write of a whole
//! line updates it where it is in the LLC, or takes room in the DCA ways; reads take no room.

mod queues;
mod steering;

use doorbell_sim::Ps;
use doorbell_sim::ports::DmaKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ways::WayMask;

pub use doorbell_sim::memory::{DEVICES_MAX, PLATFORM_DEVICES};
pub use queues::{QueueDca, QueueDirection};
pub(crate) use steering::SteeringState;
pub use steering::{Inbound, Seen, Steering};

/// What happens to a line that a device writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Updated where it is in the LLC; otherwise room is made in these ways.
    Llc(WayMask),
    /// Updated where it is in the LLC; otherwise it goes to memory.
    Update,
    /// To memory; a copy in the LLC is dropped.
    Memory,
    /// Into this hart's L2 (and, where the LLC includes the L2s, into these ways of it).
    L2(usize, WayMask),
}

/// Where a kind of data is put, as configuration files spell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Into the LLC: updated where it is, otherwise room is made in the DCA ways.
    #[default]
    Allocate,
    /// Updated where it is in the LLC; otherwise to memory.
    Update,
    /// To memory.
    Memory,
    /// Into a core's L2.
    L2,
    /// Into the L2 of the core that the queue belongs to.
    #[serde(rename = "queue-l2")]
    QueueL2,
}

/// Which lines of frames are dropped from all caches when they have been consumed, written to memory by nobody: Sweeper's idea
/// (Vemmou, Cho and Daglis, MICRO 2022). There software says what it is done with, by an instruction of its own; here devices know it from
/// what drivers do anyway. Dropping takes no time and no bandwidth.
///
/// A sent frame is dead only if software does not look at its buffer again: as a forwarder on DPDK, and unlike TCP, which may have to
/// send it again. Guests' data are never lost: they lie in the model's memory, whatever its caches say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Invalidate {
    /// None: lines stay until they make room.
    #[default]
    Never,
    /// Frames' data that the device has read to send, line by line. A line that it reads from its middle on stays, as what is before may
    /// be alive; behind a frame's end there is nothing.
    Sent,
    /// Receive buffers that software gives to the device, when it has fetched their descriptors: what they held is gone by then, whoever
    /// consumed it. Lines that only part of a buffer lies in stay.
    Returned,
    /// Both.
    Both,
}

impl Invalidate {
    /// Whether sent frames are dropped.
    pub fn drops_sent(self) -> bool {
        matches!(self, Invalidate::Sent | Invalidate::Both)
    }

    /// Whether what receive buffers held is dropped when they are given back.
    pub fn drops_returned(self) -> bool {
        matches!(self, Invalidate::Returned | Invalidate::Both)
    }
}

/// Whether a policy stays as it is written, or changes by what it sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Each kind of data goes where the policy says.
    #[default]
    Fixed,
    /// As fixed, but payload goes to memory for a while when too many of the lines put into the LLC leave it unused.
    LeakAware,
}

/// One device's policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DcaPolicy {
    /// Whether the device's writes may go to caches at all; otherwise all go to memory.
    pub enabled: bool,
    /// The ways of the LLC in which room is made: "0-3", "0,5", "all".
    pub ways: WayMask,
    /// The ways for descriptors, if they are others.
    pub descriptor_ways: Option<WayMask>,
    /// Bytes of a frame that count as its header, 0 to 65536.
    pub header_bytes: u32,
    /// Where headers go: "allocate", "update", "memory", "l2", or "queue-l2", the L2 of the queue's core: hart n's for queue n (with
    /// fewer harts, of n modulo their number), unless `memory.dca.queues` names another.
    pub headers: Place,
    /// Where the rest of the frame goes. With "memory" the policy is header-only.
    pub payload: Place,
    /// Where written-back descriptors go.
    pub descriptors: Place,
    /// The hart whose L2 "l2" means, 0 to 15 and one that there is.
    pub l2_hart: u32,
    /// Whether lines that the device reads from memory take room in the DCA ways.
    pub read_allocate: bool,
    /// Whether the device's read of a line that the LLC has is a use of it for its replacement.
    pub read_promotes: bool,
    /// Lines of frames that leave all caches without a write-back once they have been consumed: "never", "sent", "returned" (receive
    /// buffers that software has given to the device again) or "both".
    pub invalidate: Invalidate,
    /// "fixed" or "leak-aware".
    pub strategy: Strategy,
    /// Of leak-aware: lines put into the LLC after which it decides again, 16 to 1048576.
    pub window_lines: u32,
    /// Of leak-aware: the share of these that may leave unused, in per cent, 0 to 100.
    pub leak_percent: u32,
}

impl Default for DcaPolicy {
    /// On, with 4 of the 16 default ways, as in the gem5 paper's machine (ISPASS 2024, table I).
    fn default() -> DcaPolicy {
        DcaPolicy {
            enabled: true,
            ways: WayMask::first(4),
            descriptor_ways: None,
            header_bytes: 64,
            headers: Place::Allocate,
            payload: Place::Allocate,
            descriptors: Place::Allocate,
            l2_hart: 0,
            read_allocate: false,
            read_promotes: true,
            invalidate: Invalidate::Never,
            strategy: Strategy::Fixed,
            window_lines: 4096,
            leak_percent: 10,
        }
    }
}

/// The policy of one device that is not the common one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceDca {
    /// The device, 0 to 63: from 0 on the PCI functions, NICs first, from 56 on the disks.
    pub device: u8,
    /// Its policy.
    pub policy: DcaPolicy,
}

/// Direct cache access of all devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DcaConfig {
    /// Of every PCI function that is not named below. A disk that is not named has no direct cache access: what a root complex does for
    /// those behind it is not done for others.
    pub policy: DcaPolicy,
    /// Devices with policies of their own.
    pub devices: Vec<DeviceDca>,
    /// Policies that come into force while a measurement runs, at most 4096.
    pub schedule: Vec<DcaChange>,
    /// Queues of devices for which some things are otherwise, whatever policy is in force.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueDca>,
    /// Whether a write for which the device itself asks for a core goes into that core's L2: the 82576 asks where software has set
    /// DCA_RXCTRL and DCA_TXCTRL. True unless set.
    #[serde(skip_serializing_if = "is_true")]
    pub hints: bool,
}

impl Default for DcaConfig {
    fn default() -> DcaConfig {
        let (policy, devices, schedule) = (DcaPolicy::default(), Vec::new(), Vec::new());
        DcaConfig { policy, devices, schedule, queues: Vec::new(), hints: true }
    }
}

fn is_true(value: &bool) -> bool {
    *value
}

/// A policy that comes into force in the course of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DcaChange {
    /// From the beginning of the measurement, at most 100s.
    pub after: Ps,
    /// The device, 0 to 63, as above; without it, all PCI functions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u8>,
    /// The policy. What is not named is as in the default policy, not as in the one before.
    pub policy: DcaPolicy,
}

/// The most changes of policy in a measurement.
const CHANGES_MAX: usize = 4096;

impl DcaPolicy {
    /// Whether anything goes into a core's L2.
    pub(crate) fn places_in_l2(&self) -> bool {
        [self.headers, self.payload, self.descriptors].iter().any(|place| place.is_l2())
    }

    /// No direct cache access.
    pub fn off() -> DcaPolicy {
        DcaPolicy { enabled: false, ..DcaPolicy::default() }
    }

    /// Says what is wrong with the policy on a machine with an LLC of `ways` ways and so many harts.
    pub fn validate(&self, ways: u32, harts: usize) -> Result<(), String> {
        self.ways.validate("ways", ways)?;
        if let Some(mask) = self.descriptor_ways {
            mask.validate("descriptor_ways", ways)?;
        }
        if self.header_bytes > 65536 {
            return Err(format!("header_bytes is {}; it must be at most 65536", self.header_bytes));
        }
        if self.l2_hart as usize >= harts {
            return Err(format!("l2_hart is {}, but the harts are 0 to {}", self.l2_hart, harts - 1));
        }
        if !(16..=1 << 20).contains(&self.window_lines) {
            return Err(format!("window_lines is {}; it must be from 16 to 1048576", self.window_lines));
        }
        if self.leak_percent > 100 {
            return Err(format!("leak_percent is {}; it must be at most 100", self.leak_percent));
        }
        Ok(())
    }

    /// Which part of its traffic a line of this kind and offset is.
    #[inline]
    fn part(&self, kind: DmaKind, offset: u32) -> Part {
        match kind {
            DmaKind::RxData | DmaKind::TxData if offset < self.header_bytes => Part::Header,
            DmaKind::RxData | DmaKind::TxData => Part::Payload,
            _ => Part::Descriptor,
        }
    }

    /// Where a line goes, as the policy is written; `own` is the hart of the queue that it is for.
    #[inline]
    pub fn place(&self, kind: DmaKind, offset: u32, own: usize) -> Placement {
        let descriptor_ways = self.descriptor_ways.unwrap_or(self.ways);
        let (place, ways) = match self.part(kind, offset) {
            Part::Header => (self.headers, self.ways),
            Part::Payload => (self.payload, self.ways),
            Part::Descriptor => (self.descriptors, descriptor_ways),
        };
        place.resolve(self.enabled, ways, self.l2_hart as usize, own)
    }
}

/// What of a device's traffic a line is, as policies tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Header,
    Payload,
    Descriptor,
}

impl Place {
    fn is_l2(self) -> bool {
        matches!(self, Place::L2 | Place::QueueL2)
    }

    /// The place with these ways, where "l2" means one hart and "queue-l2" another.
    #[inline]
    fn resolve(self, enabled: bool, ways: WayMask, hart: usize, own: usize) -> Placement {
        match self {
            _ if !enabled => Placement::Memory,
            Place::Allocate => Placement::Llc(ways),
            Place::Update => Placement::Update,
            Place::Memory => Placement::Memory,
            Place::L2 => Placement::L2(hart, ways),
            Place::QueueL2 => Placement::L2(own, ways),
        }
    }
}

impl DcaConfig {
    /// All policies, whenever they are in force.
    fn all(&self) -> impl Iterator<Item = &DcaPolicy> {
        let scheduled = self.schedule.iter().map(|change| &change.policy);
        let named = self.devices.iter().map(|entry| &entry.policy);
        named.chain(scheduled).chain([&self.policy])
    }

    /// Whether any policy puts lines into a core's L2.
    pub(crate) fn places_in_l2(&self) -> bool {
        self.all().any(DcaPolicy::places_in_l2) || self.queues.iter().any(QueueDca::places_in_l2)
    }

    /// Whether anything depends on the queue that a line is for.
    pub fn tells_queues_apart(&self) -> bool {
        let by_queue = |policy: &DcaPolicy| {
            [policy.headers, policy.payload, policy.descriptors].contains(&Place::QueueL2)
        };
        !self.queues.is_empty() || self.all().any(by_queue)
    }

    /// Whether any policy drops what returned buffers held.
    pub fn drops_returned(&self) -> bool {
        self.all().any(|policy| policy.invalidate.drops_returned())
    }

    /// Says what is wrong with the parameters.
    pub fn validate(&self, ways: u32, harts: usize) -> Result<(), String> {
        self.policy.validate(ways, harts).map_err(|problem| format!("policy.{problem}"))?;
        for (index, entry) in self.devices.iter().enumerate() {
            if usize::from(entry.device) >= DEVICES_MAX {
                return Err(format!("devices[{index}].device is {}; devices are 0 to 63", entry.device));
            }
            if self.devices[..index].iter().any(|other| other.device == entry.device) {
                return Err(format!("devices names device {} twice", entry.device));
            }
            let policy = entry.policy.validate(ways, harts);
            policy.map_err(|problem| format!("devices[{index}].policy.{problem}"))?;
        }
        queues::validate(&self.queues, ways, harts)?;
        self.validate_schedule(ways, harts)
    }

    fn validate_schedule(&self, ways: u32, harts: usize) -> Result<(), String> {
        if self.schedule.len() > CHANGES_MAX {
            return Err(format!("schedule has {} entries; it can have {CHANGES_MAX}", self.schedule.len()));
        }
        for (index, change) in self.schedule.iter().enumerate() {
            if change.after > Ps(100 * Ps::PER_SECOND) {
                return Err(format!("schedule[{index}].after is {}; it must be at most 100s", change.after));
            }
            if change.device.is_some_and(|device| usize::from(device) >= DEVICES_MAX) {
                return Err(format!("schedule[{index}].device is too large; devices are 0 to 63"));
            }
            let policy = change.policy.validate(ways, harts);
            policy.map_err(|problem| format!("schedule[{index}].policy.{problem}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_data_goes_where_the_policy_says() {
        let policy = DcaPolicy {
            payload: Place::Memory,
            descriptors: Place::Update,
            header_bytes: 128,
            ..DcaPolicy::default()
        };
        assert_eq!(policy.place(DmaKind::RxData, 127, 0), Placement::Llc(WayMask(0xf)));
        assert_eq!(policy.place(DmaKind::RxData, 128, 0), Placement::Memory);
        assert_eq!(policy.place(DmaKind::RxDescriptorWriteback, 0, 0), Placement::Update);
        let off = DcaPolicy { enabled: false, ..policy };
        assert_eq!(off.place(DmaKind::RxData, 0, 0), Placement::Memory);
    }

    #[test]
    fn descriptors_can_have_ways_of_their_own() {
        let policy = DcaPolicy { descriptor_ways: Some(WayMask(0x10)), ..DcaPolicy::default() };
        assert_eq!(policy.place(DmaKind::TxDescriptorWriteback, 0, 0), Placement::Llc(WayMask(0x10)));
        assert_eq!(policy.place(DmaKind::RxData, 0, 0), Placement::Llc(WayMask(0xf)));
    }

    #[test]
    fn an_illegal_policy_is_refused_by_name() {
        let bad = DcaPolicy { ways: WayMask(0), ..DcaPolicy::default() };
        assert!(bad.validate(16, 1).unwrap_err().starts_with("ways is empty"));
        let bad = DcaPolicy { l2_hart: 2, ..DcaPolicy::default() };
        assert!(bad.validate(16, 2).unwrap_err().contains("0 to 1"));
        let twice = DeviceDca { device: 3, policy: DcaPolicy::default() };
        let config = DcaConfig { devices: vec![twice.clone(), twice], ..DcaConfig::default() };
        assert!(config.validate(16, 1).unwrap_err().contains("twice"));
    }

    #[test]
    fn a_policy_is_written_as_text() {
        let text = "ways = \"2-3\"\npayload = \"memory\"\nstrategy = \"leak-aware\"\n";
        let policy: DcaPolicy = toml::from_str(text).unwrap();
        assert_eq!(
            (policy.ways, policy.payload, policy.strategy),
            (WayMask(0xc), Place::Memory, Strategy::LeakAware)
        );
        assert!(
            toml::from_str::<DcaPolicy>("way = \"2\"").unwrap_err().to_string().contains("descriptor_ways")
        );
    }
}
