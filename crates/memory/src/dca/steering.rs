//! Decides line by line where a device's write goes.
//!
//! To add a policy: a variant of [`Strategy`], an arm in [`Steering::place`], and, if it is adaptive, an arm
//! in [`Steering::observe`] and its state in [`SteeringState`], which is saved with the caches.
//!
//! Adaptive policies learn for each queue of each device, from the fates of the lines that it wrote. The two
//! directions of a queue number share this state, and interrupt messages and rings belong to the queue of
//! their tag, by default 0.

use std::collections::BTreeMap;

use doorbell_sim::memory::DmaAccess;
use serde::{Deserialize, Serialize};

use super::queues::{QUEUES_MAX, QueueDca};
use super::{DEVICES_MAX, DcaConfig, DcaPolicy, PLATFORM_DEVICES, Part, Placement, Strategy};
use crate::paged::{self, Paged, Runs};
use crate::ways::WayMask;

/// A line about to be written, as input to a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inbound {
    /// Device, kind of data and offset in the frame.
    pub access: DmaAccess,
    /// Part of the device's traffic, by the machine's length of headers.
    pub part: Part,
    /// Whether the whole line is written.
    pub full: bool,
    /// Whether the LLC has the line.
    pub in_llc: bool,
}

/// Event after a placement, as feedback to a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEvent {
    /// A line written by this access has entered a cache, unused.
    Placed(DmaAccess),
    /// A written line was evicted to memory before any use.
    Leaked,
}

/// Policies of all devices; see the module.
#[derive(Clone, Debug)]
pub struct Steering {
    /// The first is the default of devices without their own.
    policies: Vec<DcaPolicy>,
    /// Index of each device's policy.
    of_device: [u8; DEVICES_MAX],
    learnt: Option<Learnt>,
    /// Lines of RAM.
    lines: u32,
    /// Exceptions for single queues, from the configuration; constant.
    queues: Vec<QueueDca>,
    /// Number of harts that a device's DCA hint may name; 0 if hints are off or there are no L2s.
    hint_harts: usize,
    /// Default hart of each queue: the queue number modulo the number of harts.
    default_hart: [u8; QUEUES_MAX],
}

/// A queue of a device, as an index from 0: the device and the queue number.
type QueueIndex = u16;

/// Index of the queue that an access belongs to.
fn queue_index(access: &DmaAccess) -> QueueIndex {
    let (device, queue) = (usize::from(access.device), usize::from(access.tag.queue));
    (device % DEVICES_MAX * QUEUES_MAX + queue % QUEUES_MAX) as QueueIndex
}

/// State of the adaptive policies.
#[derive(Clone, Debug)]
struct Learnt {
    windows: BTreeMap<QueueIndex, LeakWindow>,
    /// For each line of RAM, one more than the index of the queue that last placed it in a cache; 0 for none.
    writers: Paged<QueueIndex>,
}

/// Saved state of the adaptive policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LearntState {
    windows: BTreeMap<QueueIndex, LeakWindow>,
    writers: Runs<QueueIndex>,
}

/// State of one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct LeakWindow {
    /// Lines placed in this window.
    placed: u32,
    /// Lines leaked in this window.
    leaked: u32,
    /// Number of further payload lines that go to memory.
    evading: u32,
}

/// Saved state; policies may have changed since the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SteeringState {
    policies: Vec<DcaPolicy>,
    of_device: Vec<u8>,
    learnt: Option<LearntState>,
}

impl Steering {
    /// Steering by a valid configuration, on a machine with `harts` harts, with or without L2s, and with
    /// `lines` lines of RAM.
    pub fn new(config: &DcaConfig, harts: usize, have_l2: bool, lines: u32) -> Steering {
        let mut steering = Steering {
            policies: Vec::new(),
            of_device: [0; DEVICES_MAX],
            learnt: None,
            lines,
            queues: config.queues.clone(),
            hint_harts: if config.hints && have_l2 { harts } else { 0 },
            default_hart: std::array::from_fn(|queue| (queue % harts.max(1)) as u8),
        };
        steering.set_all(config.policy.clone());
        for entry in &config.devices {
            steering.set(entry.device, entry.policy.clone());
        }
        // A policy that takes effect later learns from the start, too.
        config.all().for_each(|policy| steering.learn_for(policy));
        steering
    }

    /// Begins to learn if a policy is adaptive.
    fn learn_for(&mut self, policy: &DcaPolicy) {
        if policy.strategy != Strategy::Fixed && self.learnt.is_none() {
            self.learnt = Some(Learnt::new(self.lines));
        }
    }

    /// The policy of a device.
    #[inline]
    pub fn policy(&self, device: u8) -> &DcaPolicy {
        &self.policies[usize::from(self.of_device[usize::from(device) % DEVICES_MAX])]
    }

    /// Sets a device's policy.
    pub fn set(&mut self, device: u8, policy: DcaPolicy) {
        self.learn_for(&policy);
        let index = &mut self.of_device[usize::from(device) % DEVICES_MAX];
        if *index == 0 {
            *index = self.policies.len() as u8;
            self.policies.push(policy);
        } else {
            self.policies[usize::from(*index)] = policy;
        }
    }

    /// Sets the policy of every PCI Express device and turns direct cache access off for others.
    pub fn set_all(&mut self, policy: DcaPolicy) {
        self.learn_for(&policy);
        let off = DcaPolicy { enabled: false, ..policy.clone() };
        self.policies = vec![policy];
        self.of_device = [0; DEVICES_MAX];
        (PLATFORM_DEVICES..DEVICES_MAX as u8).for_each(|device| self.set(device, off.clone()));
    }

    /// Decides the placement of a line.
    #[inline]
    pub fn place(&mut self, inbound: &Inbound) -> Placement {
        let policy = self.policy(inbound.access.device);
        let placement = self.place_fixed(policy, &inbound.access);
        match policy.strategy {
            Strategy::Fixed => placement,
            Strategy::LeakAware => self.evade_leaks(inbound, placement),
        }
    }

    /// Placement by DCA hint, queue and policy.
    #[inline]
    fn place_fixed(&self, policy: &DcaPolicy, access: &DmaAccess) -> Placement {
        let queue = self.queue(access);
        if let Some(core) = access.tag.core
            && policy.enabled
            && usize::from(core) < self.hint_harts
        {
            return Placement::L2(core.into(), queue.map_or(policy.ways, |queue| queue.read_ways(policy)));
        }
        let own = self.default_hart[usize::from(access.tag.queue) % QUEUES_MAX].into();
        match queue {
            None => policy.place(access.purpose, access.offset, own),
            Some(queue) => queue.place(policy, access, own),
        }
    }

    /// The exceptions of the queue that an access belongs to.
    #[inline]
    fn queue(&self, access: &DmaAccess) -> Option<&QueueDca> {
        self.queues.iter().find(|queue| queue.matches(access))
    }

    /// Ways in which lines that a device's read brings in are allocated, if they are.
    pub fn read_ways(&self, access: &DmaAccess) -> Option<WayMask> {
        let policy = self.policy(access.device);
        let ways = || self.queue(access).map_or(policy.ways, |queue| queue.read_ways(policy));
        (policy.enabled && policy.read_allocate).then(ways)
    }

    /// Sends payload that would be allocated to memory while there are too many leaks.
    fn evade_leaks(&mut self, inbound: &Inbound, placement: Placement) -> Placement {
        let policy =
            &self.policies[usize::from(self.of_device[usize::from(inbound.access.device) % DEVICES_MAX])];
        let Some(learnt) = &mut self.learnt else { return placement };
        let window = learnt.windows.entry(queue_index(&inbound.access)).or_default();
        if window.placed >= policy.window_lines {
            let limit = u64::from(window.placed) * u64::from(policy.leak_percent);
            if 100 * u64::from(window.leaked) > limit {
                window.evading = policy.window_lines;
            }
            (window.placed, window.leaked) = (0, 0);
        }
        let takes_room = inbound.part == Part::Payload && placement != Placement::Memory && !inbound.in_llc;
        if takes_room && window.evading > 0 {
            window.evading -= 1;
            return Placement::Memory;
        }
        placement
    }

    /// Records the fate of a line.
    #[inline]
    pub fn observe(&mut self, line: u32, event: LineEvent) {
        if let Some(learnt) = &mut self.learnt {
            learnt.observe(line, event);
        }
    }

    pub(crate) fn save(&self) -> SteeringState {
        SteeringState {
            policies: self.policies.clone(),
            of_device: self.of_device.to_vec(),
            learnt: self.learnt.as_ref().map(Learnt::save),
        }
    }

    /// Checks a saved state.
    pub(crate) fn check(&self, state: &SteeringState, ways: u32, harts: usize) -> Result<(), String> {
        if !(1..=DEVICES_MAX + 1).contains(&state.policies.len()) || state.of_device.len() != DEVICES_MAX {
            return Err("the saved state has policies for a different number of devices".to_owned());
        }
        if state.of_device.iter().any(|index| usize::from(*index) >= state.policies.len()) {
            return Err("a device of the saved state has a policy that does not exist".to_owned());
        }
        if state.learnt.as_ref().is_some_and(|learnt| !learnt.is_valid(self.lines)) {
            return Err("the saved state has queues or lines that the machine does not have".to_owned());
        }
        state.policies.iter().try_for_each(|policy| policy.validate(ways, harts))
    }

    pub(crate) fn restore(&mut self, state: SteeringState) {
        self.policies = state.policies;
        self.of_device.copy_from_slice(&state.of_device);
        self.learnt = state.learnt.map(|state| {
            let mut learnt = Learnt { windows: state.windows, ..Learnt::new(self.lines) };
            learnt.writers.restore(&state.writers);
            learnt
        });
    }
}

impl Learnt {
    fn new(lines: u32) -> Learnt {
        Learnt { windows: BTreeMap::new(), writers: Paged::new(lines as usize) }
    }

    fn observe(&mut self, line: u32, event: LineEvent) {
        match event {
            LineEvent::Placed(access) => {
                let queue = queue_index(&access);
                *self.writers.at(line as usize) = queue + 1;
                let window = self.windows.entry(queue).or_default();
                window.placed = window.placed.saturating_add(1);
            }
            LineEvent::Leaked => {
                let Some(queue) = self.writers.get(line as usize).checked_sub(1) else { return };
                let window = self.windows.entry(queue).or_default();
                window.leaked = window.leaked.saturating_add(1);
            }
        }
    }

    fn save(&self) -> LearntState {
        LearntState { windows: self.windows.clone(), writers: self.writers.runs() }
    }
}

impl LearntState {
    fn is_valid(&self, lines: u32) -> bool {
        let queues = DEVICES_MAX * QUEUES_MAX;
        self.windows.keys().all(|queue| usize::from(*queue) < queues)
            && self.writers.iter().all(|run| usize::from(run.1) <= queues)
            && paged::length(&self.writers) == u64::from(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dca::DeviceDca;
    use doorbell_sim::ports::{DmaPurpose, DmaTag};

    /// Lines of RAM.
    const LINES: u32 = 1 << 10;

    /// A window of 16 lines of an access, of which some leak.
    fn learn(steering: &mut Steering, access: DmaAccess, leaks: u32) {
        (0..16).for_each(|line| steering.observe(line, LineEvent::Placed(access)));
        (0..leaks).for_each(|line| steering.observe(line, LineEvent::Leaked));
    }

    fn inbound(device: u8, part: Part, offset: u32) -> Inbound {
        let access = DmaAccess::plain(device, DmaPurpose::RxData, offset);
        Inbound { access, part, full: true, in_llc: false }
    }

    #[test]
    fn a_device_can_have_its_own_policy_until_all_are_set() {
        let devices = vec![DeviceDca { device: 1, policy: DcaPolicy::off() }];
        let mut steering = Steering::new(&DcaConfig { devices, ..DcaConfig::default() }, 1, true, LINES);
        let place = |steering: &mut Steering, device| steering.place(&inbound(device, Part::Header, 0));
        assert_eq!(place(&mut steering, 0), Placement::Llc(WayMask(0xf)));
        assert_eq!(place(&mut steering, 1), Placement::Memory);
        steering.set(0, DcaPolicy::off());
        assert_eq!(place(&mut steering, 0), Placement::Memory);
        steering.set_all(DcaPolicy { ways: WayMask(0x30), ..DcaPolicy::default() });
        assert_eq!([0, 1].map(|device| place(&mut steering, device)), [Placement::Llc(WayMask(0x30)); 2]);
    }

    #[test]
    fn a_platform_device_writes_to_memory_unless_it_is_listed() {
        let on = DeviceDca { device: PLATFORM_DEVICES + 1, policy: DcaPolicy::default() };
        let mut steering =
            Steering::new(&DcaConfig { devices: vec![on], ..DcaConfig::default() }, 1, true, LINES);
        let place = |steering: &mut Steering, device| steering.place(&inbound(device, Part::Payload, 0));
        let (memory, llc) = (Placement::Memory, Placement::Llc(WayMask(0xf)));
        let last = PLATFORM_DEVICES - 1;
        let devices = [last, PLATFORM_DEVICES, PLATFORM_DEVICES + 1, 63];
        assert_eq!(devices.map(|device| place(&mut steering, device)), [llc, memory, llc, memory]);
        steering.set(63, DcaPolicy::default());
        assert_eq!(devices.map(|device| place(&mut steering, device)), [llc, memory, llc, llc]);
        steering.set_all(DcaPolicy::default());
        assert_eq!(devices.map(|device| place(&mut steering, device)), [llc, memory, memory, memory]);
    }

    #[test]
    fn leak_aware_sends_payload_to_memory_after_a_window_with_too_many_leaks() {
        let policy = DcaPolicy {
            strategy: Strategy::LeakAware,
            window_lines: 16,
            leak_percent: 25,
            ..DcaPolicy::default()
        };
        let mut steering = Steering::new(&DcaConfig { policy, ..DcaConfig::default() }, 1, true, LINES);
        let payload = inbound(0, Part::Payload, 64);
        let window = |steering: &mut Steering, leaks| {
            learn(steering, payload.access, leaks);
            steering.place(&payload)
        };
        assert_eq!(window(&mut steering, 4), Placement::Llc(WayMask(0xf)), "a quarter is allowed");
        assert_eq!(window(&mut steering, 5), Placement::Memory);
        assert_eq!(steering.place(&inbound(0, Part::Header, 0)), Placement::Llc(WayMask(0xf)));
        assert_eq!(steering.place(&Inbound { in_llc: true, ..payload }), Placement::Llc(WayMask(0xf)));
        (0..15).for_each(|_| assert_eq!(steering.place(&payload), Placement::Memory));
        assert_eq!(
            steering.place(&payload),
            Placement::Llc(WayMask(0xf)),
            "the LLC is tried again after a window"
        );
    }

    #[test]
    fn each_queue_of_each_device_learns_from_its_own_lines() {
        let policy = DcaPolicy { strategy: Strategy::LeakAware, window_lines: 16, ..DcaPolicy::default() };
        let mut steering = Steering::new(&DcaConfig { policy, ..DcaConfig::default() }, 1, true, LINES);
        let payload = |device, queue| {
            let access = inbound(device, Part::Payload, 64).access;
            let access = DmaAccess { tag: DmaTag { queue, core: None }, ..access };
            Inbound { access, ..inbound(device, Part::Payload, 64) }
        };
        let [leaky, quiet, other_queue] = [payload(0, 0), payload(1, 0), payload(0, 1)];
        let [memory, llc] = [Placement::Memory, Placement::Llc(WayMask(0xf))];
        // Both devices fill a window, and only lines of the first one leak.
        (16..32).for_each(|line| steering.observe(line, LineEvent::Placed(quiet.access)));
        learn(&mut steering, leaky.access, 16);
        let mut restored = steering.clone();
        assert_eq!(steering.place(&quiet), llc);
        assert_eq!(steering.place(&other_queue), llc);
        assert_eq!(steering.place(&leaky), memory);
        // A line that another queue writes is that queue's.
        (0..16).for_each(|line| steering.observe(line, LineEvent::Placed(other_queue.access)));
        (0..16).for_each(|line| steering.observe(line, LineEvent::Leaked));
        assert_eq!([&quiet, &other_queue].map(|line| steering.place(line)), [llc, memory]);
        let state = steering.save();
        assert_eq!(restored.check(&state, 16, 1), Ok(()));
        restored.restore(state.clone());
        assert_eq!(restored.save(), state);
        let mut small = Steering::new(&DcaConfig::default(), 1, true, LINES - 1);
        assert!(small.check(&state, 16, 1).is_err(), "a machine with fewer lines");
        small.observe(0, LineEvent::Placed(leaky.access));
        assert_eq!(small.save().learnt, None, "no policy is adaptive");
    }
}
