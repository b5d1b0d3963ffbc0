//! The PCI host bridge and its tree of buses: ECAM configuration accesses, address decoding by base address
//! registers and bridge windows, and routing of interrupt pins, wired like QEMU's generic host on `virt`.
//!
//! Documents: PCI Express Base Specification, section 7.2.2 (ECAM); PCI Local Bus Specification 3.0, sections
//! 2.2.6 (interrupt pins) and 6.1 (absent functions); PCI-to-PCI Bridge Architecture Specification 1.2,
//! sections 3.1 (bus numbers), 4 (windows) and 9.1 (pins of devices behind bridges). Device 0 of the root bus
//! is the host bridge itself. An absent function reads as all ones and ignores writes. If software programs
//! overlapping base address registers, the function listed first responds and the other one does not.

use doorbell_sim::AccessSize;
use doorbell_sim::snapshot::SnapshotError;
use serde::{Deserialize, Serialize};

use crate::config_space::{ConfigSpace, ConfigSpaceState};
use crate::decoder::{Decoded, Decoder};
use crate::header::register_name;
use crate::identity::{FunctionIdentity, HeaderType};
use crate::messages::MessagesState;
use crate::place::Place;

/// Number of interrupt sources that the pins share.
pub const INTX_LINES: u32 = 4;

/// Interrupt controller source of INTA of device 0, as on QEMU's `virt`; the other three follow.
const FIRST_INTX_IRQ: u32 = 32;

/// A function and its position.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Its position. A bridge must be listed before the functions behind it; bridges are numbered from zero.
    pub place: Place,
    /// Its description.
    pub identity: FunctionIdentity,
}

/// Index of a function in the list of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub usize);

/// Error in a PCI tree. Each variant has the slot's index in the list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotError {
    /// Device 0 of the root bus is the host bridge.
    #[error("{1} is the host bridge's place; devices of the root bus are 01 to 1f")]
    HostBridge(usize, Place),
    /// Two functions have the same position.
    #[error("{1} is already used by another function")]
    Taken(usize, Place),
    /// The bridge does not exist, or is listed later.
    #[error("{1} is behind bridge {bridge}, which is not listed before it", bridge = .1.behind.unwrap_or(0))]
    NoBridge(usize, Place),
    /// Software finds the functions of a device by its function 0.
    #[error("{1} cannot be found by software: its device has no function 0")]
    NoFunctionZero(usize, Place),
}

/// Effects of a configuration write to a function other than the host bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigWrite {
    /// Functions that must be reset: they woke up, or their bus was reset.
    pub reset: Vec<FunctionId>,
    /// Functions whose permission to start DMA has changed.
    pub bus_master_changed: Vec<FunctionId>,
    /// The level of an interrupt pin may have changed.
    pub interrupt_changed: bool,
    /// The function written to, if it has messages: a pending message may be due.
    pub may_send: Option<FunctionId>,
}

doorbell_sim::stats! {
    /// Counters of the host bridge.
    pub struct HostBridgeStats {
        /// Configuration reads.
        config_reads,
        /// Configuration writes.
        config_writes,
        /// Configuration accesses to functions that do not exist.
        absent_functions,
        /// Configuration accesses that are unaligned or wider than four bytes.
        odd_accesses,
    }
}

/// A function in the tree.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Index of the bridge in front of it; `None` on the root bus.
    pub above: Option<usize>,
    pub place: Place,
    pub space: ConfigSpace,
}

/// The bridges in front of a function, from its own bus upward.
pub(crate) fn bridges_above(members: &[Member], index: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(members[index].above, |bridge| members[*bridge].above)
}

/// The host bridge and the functions behind it.
#[derive(Clone, Debug)]
pub struct HostBridge {
    /// The host bridge's own registers.
    own: ConfigSpace,
    /// Indexed by [`FunctionId`], in the order of the list of slots.
    members: Vec<Member>,
    /// Decoded address ranges; rebuilt when a configuration write changes them.
    decoder: Decoder,
    /// Counters.
    pub stats: HostBridgeStats,
}

/// Saved state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostBridgeState {
    own: ConfigSpaceState,
    functions: Vec<(Place, ConfigSpaceState)>,
    stats: HostBridgeStats,
}

impl HostBridgeState {
    /// Version of this layout.
    pub const VERSION: u32 = 2;
}

struct EcamAddress {
    bus: u8,
    device: u8,
    function: u8,
    register: u64,
}

impl EcamAddress {
    fn new(offset: u64) -> EcamAddress {
        EcamAddress {
            bus: (offset >> 20) as u8,
            device: (offset >> 15 & 0x1f) as u8,
            function: (offset >> 12 & 0x7) as u8,
            register: offset & 0xfff,
        }
    }
}

impl HostBridge {
    /// A host bridge with these functions behind it.
    pub fn new(slots: Vec<Slot>) -> Result<HostBridge, SlotError> {
        let own = ConfigSpace::new(FunctionIdentity::gpex_host_bridge());
        let (mut members, mut bridges): (Vec<Member>, Vec<usize>) = (Vec::new(), Vec::new());
        for (index, Slot { place, identity }) in slots.into_iter().enumerate() {
            let above = match place.behind {
                None if place.device == 0 => return Err(SlotError::HostBridge(index, place)),
                None => None,
                Some(bridge) => {
                    Some(*bridges.get(usize::from(bridge)).ok_or(SlotError::NoBridge(index, place))?)
                }
            };
            if members.iter().any(|other: &Member| other.place == place) {
                return Err(SlotError::Taken(index, place));
            }
            let space = ConfigSpace::new(identity);
            if space.is_bridge() {
                bridges.push(index);
            }
            members.push(Member { above, place, space });
        }
        let places: Vec<Place> = members.iter().map(|member| member.place).collect();
        for (index, member) in members.iter_mut().enumerate() {
            let zero = Place { function: 0, ..member.place };
            if !places.contains(&zero) {
                return Err(SlotError::NoFunctionZero(index, member.place));
            }
            if places.iter().any(|other| *other != member.place && Place { function: 0, ..*other } == zero) {
                member.space.mark_multifunction();
            }
        }
        let (decoder, stats) = (Decoder::default(), HostBridgeStats::default());
        Ok(HostBridge { own, members, decoder, stats })
    }

    /// A function's registers, mutable.
    pub fn function_mut(&mut self, id: FunctionId) -> &mut ConfigSpace {
        &mut self.members[id.0].space
    }

    /// A function's registers.
    pub fn function(&self, id: FunctionId) -> &ConfigSpace {
        &self.members[id.0].space
    }

    /// Index of the function that a configuration access reaches; bridges forward it by the bus numbers that
    /// software has assigned.
    fn find(&self, address: &EcamAddress) -> Option<usize> {
        let mut above = None;
        if address.bus != 0 {
            loop {
                let leads = |(index, member): (usize, &Member)| {
                    let windows = member.space.windows().filter(|w| w.leads_to(address.bus))?;
                    (member.above == above).then_some((index, windows))
                };
                let (bridge, windows) = self.members.iter().enumerate().find_map(leads)?;
                above = Some(bridge);
                if windows.secondary == address.bus {
                    break;
                }
            }
        }
        self.members.iter().position(|member| {
            let Place { device, function, .. } = member.place;
            member.above == above && (device, function) == (address.device, address.function)
        })
    }

    /// Function and register at an ECAM offset, named as in `lspci` and the specification.
    pub fn ecam_name(&self, offset: u64) -> String {
        let address = EcamAddress::new(offset);
        let kind = self
            .find(&address)
            .map_or(HeaderType::Function, |found| self.members[found].space.identity().header);
        let EcamAddress { bus, device, function, register } = address;
        format!("{bus:02x}:{device:02x}.{function} {}", register_name(kind, register))
    }

    fn is_own(address: &EcamAddress) -> bool {
        (address.bus, address.device, address.function) == (0, 0, 0)
    }

    fn count(&mut self, offset: u64, size: AccessSize) {
        if size == AccessSize::B8 || !offset.is_multiple_of(size.bytes()) {
            self.stats.odd_accesses += 1;
        }
    }

    /// The function and the register of an access to a vendor capability at an offset into ECAM.
    pub fn vendor_access(&self, offset: u64, size: AccessSize) -> Option<(FunctionId, u16)> {
        let address = EcamAddress::new(offset);
        let found = self.find(&address).filter(|_| !HostBridge::is_own(&address))?;
        let is_vendors = self.members[found].space.is_vendors(address.register, size);
        is_vendors.then_some((FunctionId(found), address.register as u16))
    }

    /// Reads configuration space at an offset into ECAM.
    pub fn config_read(&mut self, offset: u64, size: AccessSize) -> u64 {
        self.stats.config_reads += 1;
        self.count(offset, size);
        let address = EcamAddress::new(offset);
        if HostBridge::is_own(&address) {
            return self.own.read(address.register, size);
        }
        let Some(found) = self.find(&address) else {
            self.stats.absent_functions += 1;
            return size.mask();
        };
        self.members[found].space.read(address.register, size)
    }

    /// Writes configuration space at an offset into ECAM.
    pub fn config_write(&mut self, offset: u64, size: AccessSize, value: u64) -> ConfigWrite {
        self.stats.config_writes += 1;
        self.count(offset, size);
        let address = EcamAddress::new(offset);
        let mut outcome = ConfigWrite::default();
        if HostBridge::is_own(&address) {
            self.own.write(address.register, size, value);
            return outcome;
        }
        let Some(found) = self.find(&address) else {
            self.stats.absent_functions += 1;
            return outcome;
        };
        let has_messages = self.members[found].space.identity().has_messages();
        outcome.may_send = has_messages.then_some(FunctionId(found));
        let masters = self.masters();
        let effects = self.members[found].space.write(address.register, size, value);
        if effects.reset {
            outcome.reset.push(FunctionId(found));
        }
        if effects.secondary_reset {
            outcome.reset =
                (0..self.members.len()).filter(|id| self.is_behind(*id, found)).map(FunctionId).collect();
            for id in &outcome.reset {
                self.members[id.0].space.reset();
            }
        }
        if effects.decode_changed || effects.secondary_reset {
            self.decoder = Decoder::new(&self.members);
        }
        if effects.bus_master_changed || effects.secondary_reset {
            let changed = masters.into_iter().enumerate().map(|(id, before)| (FunctionId(id), before));
            outcome.bus_master_changed =
                changed.filter(|(id, before)| self.bus_master(*id) != *before).map(|(id, _)| id).collect();
        }
        outcome.interrupt_changed = effects.interrupt_changed || effects.secondary_reset;
        outcome
    }

    fn masters(&self) -> Vec<bool> {
        (0..self.members.len()).map(|id| self.bus_master(FunctionId(id))).collect()
    }

    fn is_behind(&self, index: usize, bridge: usize) -> bool {
        bridges_above(&self.members, index).any(|above| above == bridge)
    }

    /// Target of a memory access.
    pub fn decode_memory(&self, addr: u64) -> Option<Decoded> {
        self.decoder.memory(addr)
    }

    /// Target of an I/O access.
    pub fn decode_io(&self, port: u64) -> Option<Decoded> {
        self.decoder.io(port)
    }

    /// Interrupt controller source of a pin (1 to 4 for INTA to INTD) of a device on the root bus.
    pub fn intx_irq(&self, device: u8, pin: u8) -> u32 {
        assert!((1..=4).contains(&pin), "PCI has no interrupt pin {pin}");
        FIRST_INTX_IRQ + (u32::from(device) + u32::from(pin) - 1) % INTX_LINES
    }

    /// Interrupt source of a function's pin. A bridge connects the pins behind it to its own, rotated by the
    /// device numbers.
    fn source_of(&self, index: usize) -> u32 {
        let mut pin = self.members[index].space.identity().interrupt_pin;
        let mut device = self.members[index].place.device;
        for bridge in bridges_above(&self.members, index) {
            pin = (pin - 1 + device) % INTX_LINES as u8 + 1;
            device = self.members[bridge].place.device;
        }
        self.intx_irq(device, pin)
    }

    /// Sets a function's interrupt, before masking. Returns whether its pin's level has changed.
    pub fn set_interrupt(&mut self, id: FunctionId, level: bool) -> bool {
        self.members[id.0].space.set_interrupt(level)
    }

    /// Numbers and levels of the interrupt controller's sources; devices share them.
    pub fn intx_levels(&self) -> [(u32, bool); INTX_LINES as usize] {
        let mut levels = std::array::from_fn(|line| (FIRST_INTX_IRQ + line as u32, false));
        for (index, member) in self.members.iter().enumerate() {
            if member.space.interrupt_line() {
                levels[(self.source_of(index) - FIRST_INTX_IRQ) as usize].1 = true;
            }
        }
        levels
    }

    /// Requester ID of a function: bus number as assigned by software, device and function number.
    pub fn requester_id(&self, id: FunctionId) -> u16 {
        let Member { above, place: Place { device, function, .. }, .. } = &self.members[id.0];
        let windows = above.and_then(|bridge| self.members[bridge].space.windows());
        let bus = windows.map_or(0, |windows| windows.secondary);
        u16::from(bus) << 8 | u16::from(*device) << 3 | u16::from(*function)
    }

    /// Whether a function may start DMA and all bridges on its path forward it.
    pub fn bus_master(&self, id: FunctionId) -> bool {
        let is_master = |index: usize| self.members[index].space.bus_master();
        is_master(id.0) && bridges_above(&self.members, id.0).all(is_master)
    }

    /// Resets all functions, as a reset of the machine does.
    pub fn reset(&mut self) {
        let spaces = self.members.iter_mut().map(|member| &mut member.space);
        for space in spaces.chain([&mut self.own]) {
            space.reset();
            space.set_interrupt(false);
        }
        self.decoder = Decoder::new(&self.members);
    }

    /// Returns the state to save.
    pub fn save(&self) -> HostBridgeState {
        let functions = self.members.iter().map(|member| (member.place, member.space.save())).collect();
        HostBridgeState { own: self.own.save(), functions, stats: self.stats.clone() }
    }

    /// Saved message state of all functions with messages, in list order.
    pub fn save_messages(&self) -> Vec<MessagesState> {
        self.members.iter().filter_map(|member| member.space.save_messages()).collect()
    }

    /// Restores the message state for the same number of functions and vectors.
    pub fn restore_messages(&mut self, states: Vec<MessagesState>) -> Result<(), SnapshotError> {
        let have = |member: &&mut Member| member.space.identity().has_messages();
        let mut members: Vec<&mut Member> = self.members.iter_mut().filter(have).collect();
        if members.len() != states.len() {
            let problem = format!(
                "the saved state has messages of {} functions, the machine has {}",
                states.len(),
                members.len()
            );
            return Err(SnapshotError::Inconsistent { name: "pci.messages".into(), problem });
        }
        members.iter_mut().zip(states).try_for_each(|(member, state)| member.space.restore_messages(state))
    }

    /// Restores a saved state with the same functions.
    pub fn restore(&mut self, state: HostBridgeState) -> Result<(), SnapshotError> {
        let places: Vec<Place> = state.functions.iter().map(|(place, _)| *place).collect();
        if places != self.members.iter().map(|member| member.place).collect::<Vec<_>>() {
            let list: Vec<String> = places.iter().map(Place::to_string).collect();
            let problem = format!("the saved state has functions at {}", list.join(", "));
            return Err(SnapshotError::Inconsistent { name: "pci".into(), problem });
        }
        // All or nothing: if one function rejects its state, no other may have changed.
        let (mut own, mut members) = (self.own.clone(), self.members.clone());
        own.restore(state.own)?;
        for (member, (_, saved)) in members.iter_mut().zip(state.functions) {
            member.space.restore(saved)?;
        }
        (self.own, self.members, self.stats) = (own, members, state.stats);
        self.decoder = Decoder::new(&self.members);
        Ok(())
    }
}

#[cfg(test)]
#[path = "host_bridge_tests.rs"]
mod tests;
