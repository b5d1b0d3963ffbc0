//! Direct cache access: placement of the lines that a device writes.
//!
//! Policies are built of three primitives: a *placement* per TLP ([`Placement`]: the last level, an L2,
//! memory), *way masks* per device and separately for descriptors ([`WayMask`]), and *invalidation on
//! consumption* ([`Invalidate`]): a line whose contents will not be used again leaves all caches without a
//! write-back.
//!
//! A [`Placement`] is the mechanism for one line, implemented in `device.rs`. A [`DcaPolicy`] is the user's
//! configuration, per device and [`Part`] of its traffic: rings of other devices and interrupt messages are
//! placed like descriptors, their data like payload. [`Steering`](steering::Steering) decides line by line
//! and keeps the state of adaptive policies. To add a policy, add a [`Strategy`] with its arm in
//! `steering.rs`; to add a destination, a [`Placement`] with its arm in `device.rs`.
//!
//! The default is Data Direct I/O as Intel describes it; a register sets its ways. A write of a whole line
//! updates it in the LLC if present, else allocates it in the DCA ways; reads do not allocate.

mod queues;
mod steering;

use doorbell_sim::Ps;
use doorbell_sim::config::check;
use doorbell_sim::ports::DmaPurpose;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ways::WayMask;

pub use doorbell_sim::memory::{DEVICES_MAX, PLATFORM_DEVICES};
pub use queues::{QueueDca, QueueDirection};
pub(crate) use steering::SteeringState;
pub use steering::{Inbound, LineEvent, Steering};

/// Destination of a line that a device writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Updated in place if the LLC has it; otherwise allocated in these ways.
    Llc(WayMask),
    /// Updated in place if the LLC has it; otherwise written to memory.
    Update,
    /// Written to memory; a copy in the LLC is dropped.
    Memory,
    /// Into this hart's L2; an inclusive LLC also allocates a copy in these ways.
    L2(usize, WayMask),
}

/// Destination of a kind of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Into the LLC: updated in place, or else allocated in the DCA ways.
    #[default]
    Allocate,
    /// Updated in place if the LLC has it; otherwise to memory.
    Update,
    /// To memory.
    Memory,
    /// Into a core's L2.
    L2,
    /// Into the L2 of the core that the queue belongs to.
    #[serde(rename = "queue-l2")]
    QueueL2,
}

/// Lines of frames that are dropped from all caches after consumption, without a write-back: the idea of
/// Sweeper (Vemmou, Cho and Daglis, MICRO 2022). There software marks consumed data with an instruction; here
/// the device infers it from what drivers do anyway. Dropping takes no time and no bandwidth.
///
/// A transmitted frame may be dropped only if software does not read its buffer again. That holds for a DPDK
/// forwarder but not for TCP, which may retransmit. Guest data are never lost: they are in the model's
/// memory, not in its caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Invalidate {
    /// None: lines stay until they are evicted.
    #[default]
    Never,
    /// Data of frames that the device has read for transmission, line by line. A line read from its middle is
    /// kept, as the bytes before may be in use; nothing follows a frame's end.
    Sent,
    /// Receive buffers that software returns to the device, when their descriptors are fetched: the old
    /// contents have been consumed by then. Lines only partly inside a buffer are kept.
    Returned,
    /// Both "sent" and "returned".
    Both,
}

impl Invalidate {
    /// Whether transmitted frames are dropped.
    pub fn drops_sent(self) -> bool {
        matches!(self, Invalidate::Sent | Invalidate::Both)
    }

    /// Whether the contents of returned receive buffers are dropped.
    pub fn drops_returned(self) -> bool {
        matches!(self, Invalidate::Returned | Invalidate::Both)
    }
}

/// Whether a policy is static or adaptive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Each kind of data goes to its configured place.
    #[default]
    Fixed,
    /// As "fixed", but a queue's payload goes to memory for a while when too many of its lines placed in the
    /// LLC leave it unused.
    LeakAware,
}

/// One device's policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DcaPolicy {
    /// Whether the device's writes may go to caches at all; otherwise all go to memory.
    pub enabled: bool,
    /// LLC ways for allocation: "0-3", "0,5", "all".
    pub ways: WayMask,
    /// LLC ways for descriptors, if different.
    pub descriptor_ways: Option<WayMask>,
    /// Bytes of a frame that count as its header, 0 to 65536.
    pub header_bytes: u32,
    /// Destination of headers: "allocate", "update", "memory", "l2", or "queue-l2", the L2 of the queue's
    /// core. That is hart n for queue n (modulo the number of harts), unless `memory.dca.queues` names
    /// another.
    pub headers: Place,
    /// Destination of the rest of the frame, and of data of devices other than NICs. With "memory" the policy
    /// is header-only.
    pub payload: Place,
    /// Destination of written-back descriptors, of writes to other devices' rings, and of interrupt messages.
    pub descriptors: Place,
    /// The hart whose L2 "l2" means, 0 to 15; the machine must have it.
    pub l2_hart: u32,
    /// Whether lines that the device reads from memory are allocated in the DCA ways.
    pub read_allocate: bool,
    /// Whether a device's read that hits the LLC counts as a use for replacement.
    pub read_promotes: bool,
    /// Lines of frames that leave all caches without a write-back after consumption: "never", "sent",
    /// "returned" (receive buffers that software has returned to the device) or "both".
    pub invalidate: Invalidate,
    /// "fixed" or "leak-aware".
    pub strategy: Strategy,
    /// For "leak-aware", which decides per queue: the queue's lines placed in the LLC between decisions, 16 to
    /// 1048576.
    pub window_lines: u32,
    /// For "leak-aware": percentage of these lines that may leave unused, 0 to 100.
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

/// A device's own policy.
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
    /// Policy of every PCI function that `devices` does not name. A disk that is not named has no direct
    /// cache access, as it is not behind the root complex.
    pub policy: DcaPolicy,
    /// Devices with their own policies.
    pub devices: Vec<DeviceDca>,
    /// Policies that take effect during a measurement, at most 4096.
    pub schedule: Vec<DcaChange>,
    /// Exceptions for single queues of devices, whatever policy is in force.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueDca>,
    /// Whether a write with a DCA hint goes into the L2 of the core that the hint names: the 82576 sends
    /// hints if software sets DCA_RXCTRL and DCA_TXCTRL. Default: true.
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

/// A policy that takes effect during a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DcaChange {
    /// Time from the start of the measurement, at most 100s.
    pub after: Ps,
    /// The device, 0 to 63, as above; without it, all PCI functions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u8>,
    /// The policy. Settings not given are those of the default policy, not of the previous one.
    pub policy: DcaPolicy,
}

/// Maximum number of policy changes in a measurement.
const CHANGES_MAX: usize = 4096;

impl DcaPolicy {
    /// Whether any kind of data goes into a core's L2.
    pub(crate) fn places_in_l2(&self) -> bool {
        [self.headers, self.payload, self.descriptors].iter().any(|place| place.is_l2())
    }

    /// No direct cache access.
    pub fn off() -> DcaPolicy {
        DcaPolicy { enabled: false, ..DcaPolicy::default() }
    }

    /// Checks the policy for a machine with `harts` harts and an LLC of `ways` ways.
    pub fn validate(&self, ways: u32, harts: usize) -> Result<(), String> {
        self.ways.validate("ways", ways)?;
        if let Some(mask) = self.descriptor_ways {
            mask.validate("descriptor_ways", ways)?;
        }
        check("header_bytes", &self.header_bytes, ..=65536)?;
        check("window_lines", &self.window_lines, 16..=1 << 20)?;
        check("leak_percent", &self.leak_percent, ..=100)?;
        if self.l2_hart as usize >= harts {
            return Err(format!("l2_hart is {}, but the harts are 0 to {}", self.l2_hart, harts - 1));
        }
        Ok(())
    }

    /// Placement of a line under this policy; `own` is the hart of its queue.
    #[inline]
    pub fn place(&self, purpose: DmaPurpose, offset: u32, own: usize) -> Placement {
        let descriptor_ways = self.descriptor_ways.unwrap_or(self.ways);
        let (place, ways) = match Part::of(purpose, offset, self.header_bytes) {
            Part::Header => (self.headers, self.ways),
            Part::Payload => (self.payload, self.ways),
            Part::Descriptor => (self.descriptors, descriptor_ways),
        };
        place.resolve(self.enabled, ways, self.l2_hart as usize, own)
    }
}

/// Part of a device's traffic, as policies distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The first bytes of a frame.
    Header,
    /// The rest of a frame, and all data of devices other than NICs.
    Payload,
    /// Descriptors, rings and interrupt messages.
    Descriptor,
}

impl Part {
    /// Part to which a line belongs that is `offset` bytes into its frame; the header has `header_bytes`.
    #[inline]
    pub fn of(purpose: DmaPurpose, offset: u32, header_bytes: u32) -> Part {
        match purpose {
            DmaPurpose::RxData | DmaPurpose::TxData if offset < header_bytes => Part::Header,
            DmaPurpose::RxData | DmaPurpose::TxData | DmaPurpose::Data => Part::Payload,
            DmaPurpose::RxDescriptor
            | DmaPurpose::TxDescriptor
            | DmaPurpose::Ring
            | DmaPurpose::Interrupt => Part::Descriptor,
        }
    }
}

impl Place {
    fn is_l2(self) -> bool {
        matches!(self, Place::L2 | Place::QueueL2)
    }

    /// The placement in these ways; "l2" means `hart` and "queue-l2" means `own`.
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
    /// All policies, including scheduled ones.
    fn all(&self) -> impl Iterator<Item = &DcaPolicy> {
        let scheduled = self.schedule.iter().map(|change| &change.policy);
        let named = self.devices.iter().map(|entry| &entry.policy);
        named.chain(scheduled).chain([&self.policy])
    }

    /// Whether any policy puts lines into a core's L2.
    pub(crate) fn places_in_l2(&self) -> bool {
        self.all().any(DcaPolicy::places_in_l2) || self.queues.iter().any(QueueDca::places_in_l2)
    }

    /// Whether placements depend on the line's queue.
    pub fn depends_on_queue(&self) -> bool {
        let by_queue = |policy: &DcaPolicy| {
            [policy.headers, policy.payload, policy.descriptors].contains(&Place::QueueL2)
        };
        !self.queues.is_empty() || self.all().any(by_queue)
    }

    /// Whether any policy drops the contents of returned buffers.
    pub fn drops_returned(&self) -> bool {
        self.all().any(|policy| policy.invalidate.drops_returned())
    }

    /// Checks the parameters.
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
        assert_eq!(policy.place(DmaPurpose::RxData, 127, 0), Placement::Llc(WayMask(0xf)));
        assert_eq!(policy.place(DmaPurpose::RxData, 128, 0), Placement::Memory);
        assert_eq!(policy.place(DmaPurpose::RxDescriptor, 0, 0), Placement::Update);
        let off = DcaPolicy { enabled: false, ..policy };
        assert_eq!(off.place(DmaPurpose::RxData, 0, 0), Placement::Memory);
    }

    #[test]
    fn descriptors_can_have_their_own_ways() {
        let policy = DcaPolicy { descriptor_ways: Some(WayMask(0x10)), ..DcaPolicy::default() };
        assert_eq!(policy.place(DmaPurpose::TxDescriptor, 0, 0), Placement::Llc(WayMask(0x10)));
        assert_eq!(policy.place(DmaPurpose::RxData, 0, 0), Placement::Llc(WayMask(0xf)));
    }

    #[test]
    fn an_invalid_policy_is_rejected_by_name() {
        let bad = DcaPolicy { ways: WayMask(0), ..DcaPolicy::default() };
        assert!(bad.validate(16, 1).unwrap_err().starts_with("ways is empty"));
        let bad = DcaPolicy { l2_hart: 2, ..DcaPolicy::default() };
        assert!(bad.validate(16, 2).unwrap_err().contains("0 to 1"));
        let twice = DeviceDca { device: 3, policy: DcaPolicy::default() };
        let config = DcaConfig { devices: vec![twice.clone(), twice], ..DcaConfig::default() };
        assert!(config.validate(16, 1).unwrap_err().contains("twice"));
    }

    #[test]
    fn a_policy_is_read_from_text() {
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
