//! The PCI host bridge: configuration accesses through ECAM, address decoding by the functions' base
//! address registers, and the routing of interrupt pins, as QEMU's `virt` wires its generic host.
//!
//! Documents: PCI Express Base Specification, section 7.2.2 (ECAM); PCI Local Bus Specification 3.0,
//! sections 2.2.6 (interrupt pins) and 6.1 (absent functions). Modelled: one root bus, one function a
//! device, device 0 being the bridge itself. An absent function reads as all ones and swallows writes.
//! Not modelled: further buses, multi-function devices. If base address registers overlap, which is
//! software's mistake, the lower device and register answers and the other one not at all.

use doorbell_sim::AccessSize;
use doorbell_sim::snapshot::SnapshotError;
use serde::{Deserialize, Serialize};

use crate::config_space::{ConfigEffects, ConfigSpace, ConfigSpaceState};
use crate::identity::{BARS, BarKind, FunctionIdentity};

/// Devices on a bus.
pub const DEVICES: usize = 32;
/// Interrupt sources that the pins share.
pub const INTX_LINES: u32 = 4;

/// How the bridge is wired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostBridgeConfig {
    /// The interrupt controller's source of INTA of device 0; three more follow.
    pub first_intx_irq: u32,
}

impl Default for HostBridgeConfig {
    /// As on QEMU's `virt`.
    fn default() -> HostBridgeConfig {
        HostBridgeConfig { first_intx_irq: 32 }
    }
}

/// A configuration that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotError {
    /// Device 0 is the bridge and there is none beyond 31.
    #[error("PCI device number {0} is not free for a device; use 1 to 31")]
    Range(u8),
    /// Two functions want one device number.
    #[error("PCI device number {0} is given twice")]
    Taken(u8),
}

/// Where an access to memory or I/O lands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The device number.
    pub device: u8,
    /// Which base address register.
    pub bar: u8,
    /// The offset from its base.
    pub offset: u64,
}

/// The outcome of a configuration write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigWrite {
    /// The device written to.
    pub device: u8,
    /// What has changed.
    pub effects: ConfigEffects,
}

doorbell_sim::stats! {
    /// What the host bridge counts.
    pub struct HostBridgeStats {
        /// Configuration reads.
        config_reads,
        /// Configuration writes.
        config_writes,
        /// Configuration accesses to functions that do not exist.
        absent_functions,
        /// Configuration accesses that are not aligned to their size, or wider than four bytes.
        odd_accesses,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    base: u64,
    last: u64,
    device: u8,
    bar: u8,
}

/// The live bridge and the functions behind it.
#[derive(Clone, Debug)]
pub struct HostBridge {
    config: HostBridgeConfig,
    functions: Vec<Option<ConfigSpace>>,
    /// What is decoded now, sorted by base, without overlaps. Made anew when a configuration write
    /// changes it.
    memory: Vec<Range>,
    io: Vec<Range>,
    /// Its counters.
    pub stats: HostBridgeStats,
}

/// What a snapshot keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostBridgeState {
    functions: Vec<(u8, ConfigSpaceState)>,
    stats: HostBridgeStats,
}

impl HostBridgeState {
    /// The version of this layout.
    pub const VERSION: u32 = 1;
}

struct EcamAddress {
    bus: u64,
    device: u8,
    function: u64,
    register: u64,
}

impl EcamAddress {
    fn new(offset: u64) -> EcamAddress {
        EcamAddress {
            bus: offset >> 20,
            device: (offset >> 15 & 0x1f) as u8,
            function: offset >> 12 & 0x7,
            register: offset & 0xfff,
        }
    }
}

/// Which register of which function an offset into ECAM means, as `lspci` and the specification name them.
pub fn ecam_name(offset: u64) -> String {
    let EcamAddress { bus, device, function, register } = EcamAddress::new(offset);
    format!("{bus:02x}:{device:02x}.{function} {}", crate::header::register_name(register))
}

impl HostBridge {
    /// A bridge with these functions behind it, each at its device number.
    pub fn new(
        config: HostBridgeConfig,
        slots: Vec<(u8, FunctionIdentity)>,
    ) -> Result<HostBridge, SlotError> {
        let mut functions = vec![None; DEVICES];
        functions[0] = Some(ConfigSpace::new(FunctionIdentity::gpex_host_bridge()));
        for (device, identity) in slots {
            if device == 0 || usize::from(device) >= DEVICES {
                return Err(SlotError::Range(device));
            }
            let slot = &mut functions[usize::from(device)];
            if slot.is_some() {
                return Err(SlotError::Taken(device));
            }
            *slot = Some(ConfigSpace::new(identity));
        }
        let (memory, io) = (Vec::new(), Vec::new());
        Ok(HostBridge { config, functions, memory, io, stats: HostBridgeStats::default() })
    }

    /// The function at a device number.
    pub fn function(&self, device: u8) -> Option<&ConfigSpace> {
        self.functions.get(usize::from(device))?.as_ref()
    }

    /// The device numbers in use, the bridge's own included.
    pub fn devices(&self) -> impl Iterator<Item = u8> {
        (0..DEVICES as u8).filter(|device| self.function(*device).is_some())
    }

    fn at(&mut self, address: &EcamAddress) -> Option<&mut ConfigSpace> {
        let found = address.bus == 0 && address.function == 0;
        let function = self.functions[usize::from(address.device)].as_mut().filter(|_| found);
        if function.is_none() {
            self.stats.absent_functions += 1;
        }
        function
    }

    fn count_odd(&mut self, offset: u64, size: AccessSize) {
        if size == AccessSize::B8 || !offset.is_multiple_of(size.bytes()) {
            self.stats.odd_accesses += 1;
        }
    }

    /// Reads configuration space at an offset into ECAM.
    pub fn config_read(&mut self, offset: u64, size: AccessSize) -> u64 {
        self.stats.config_reads += 1;
        self.count_odd(offset, size);
        let address = EcamAddress::new(offset);
        self.at(&address).map_or(size.mask(), |function| function.read(address.register, size))
    }

    /// Writes configuration space at an offset into ECAM.
    pub fn config_write(&mut self, offset: u64, size: AccessSize, value: u64) -> ConfigWrite {
        self.stats.config_writes += 1;
        self.count_odd(offset, size);
        let address = EcamAddress::new(offset);
        let effects = self
            .at(&address)
            .map_or(ConfigEffects::default(), |function| function.write(address.register, size, value));
        if effects.decode_changed {
            self.rebuild_decoder();
        }
        ConfigWrite { device: address.device, effects }
    }

    fn rebuild_decoder(&mut self) {
        self.memory.clear();
        self.io.clear();
        for (device, function) in self.functions.iter().enumerate() {
            let Some(function) = function else { continue };
            for bar in 0..BARS {
                let kind = function.identity().bars[bar];
                let Some(base) = function.bar_base(bar) else { continue };
                let range = Range {
                    base,
                    last: base.saturating_add(kind.bytes() - 1),
                    device: device as u8,
                    bar: bar as u8,
                };
                let space = if matches!(kind, BarKind::Io { .. }) { &mut self.io } else { &mut self.memory };
                if space.iter().all(|other| range.last < other.base || other.last < range.base) {
                    space.push(range);
                }
            }
        }
        self.memory.sort_by_key(|range| range.base);
        self.io.sort_by_key(|range| range.base);
    }

    /// Which device answers a memory access.
    pub fn decode_memory(&self, addr: u64) -> Option<Decoded> {
        decode(&self.memory, addr)
    }

    /// Which device answers an I/O access.
    pub fn decode_io(&self, port: u64) -> Option<Decoded> {
        decode(&self.io, port)
    }

    /// The interrupt controller's source of a device's pin (1 to 4 for INTA to INTD).
    pub fn intx_irq(&self, device: u8, pin: u8) -> u32 {
        assert!((1..=4).contains(&pin), "PCI has no interrupt pin {pin}");
        self.config.first_intx_irq + (u32::from(device) + u32::from(pin) - 1) % INTX_LINES
    }

    /// Drives a device's interrupt, before masks. Returns whether its pin's level has changed.
    pub fn set_interrupt(&mut self, device: u8, level: bool) -> bool {
        self.functions[usize::from(device)]
            .as_mut()
            .expect("the machine drives interrupts of devices that it has placed")
            .set_interrupt(level)
    }

    /// The levels of the interrupt controller's sources, with their numbers; devices share them.
    pub fn intx_levels(&self) -> [(u32, bool); INTX_LINES as usize] {
        let first = self.config.first_intx_irq;
        let mut levels = [first, first + 1, first + 2, first + 3].map(|source| (source, false));
        for device in self.devices() {
            let function = self.function(device).expect("it is in use");
            if function.interrupt_line() {
                let source = self.intx_irq(device, function.identity().interrupt_pin);
                levels[(source - first) as usize].1 = true;
            }
        }
        levels
    }

    /// Whether a device may start DMA.
    pub fn bus_master(&self, device: u8) -> bool {
        self.function(device).is_some_and(ConfigSpace::bus_master)
    }

    /// Resets all functions, as a reset of the machine does.
    pub fn reset(&mut self) {
        for function in self.functions.iter_mut().flatten() {
            function.reset();
            function.set_interrupt(false);
        }
        self.rebuild_decoder();
    }

    /// The state to keep.
    pub fn save(&self) -> HostBridgeState {
        let functions = self.functions.iter().enumerate();
        let saved =
            functions.filter_map(|(device, function)| Some((device as u8, function.as_ref()?.save())));
        HostBridgeState { functions: saved.collect(), stats: self.stats.clone() }
    }

    /// Takes a saved state over, if it has the same devices.
    pub fn restore(&mut self, state: HostBridgeState) -> Result<(), SnapshotError> {
        let devices: Vec<u8> = state.functions.iter().map(|(device, _)| *device).collect();
        if devices != self.devices().collect::<Vec<_>>() {
            return Err(SnapshotError::Inconsistent {
                name: "pci".into(),
                problem: format!("it has the device numbers {devices:?}"),
            });
        }
        // All or nothing: a function that refuses must not leave others changed.
        let mut functions = self.functions.clone();
        for (device, saved) in state.functions {
            let function = functions[usize::from(device)].as_mut().expect("the numbers are the same");
            function.restore(saved)?;
        }
        self.functions = functions;
        self.stats = state.stats;
        self.rebuild_decoder();
        Ok(())
    }
}

fn decode(ranges: &[Range], addr: u64) -> Option<Decoded> {
    let after = ranges.partition_point(|range| range.base <= addr);
    let range = ranges[..after].last().filter(|range| addr <= range.last)?;
    Some(Decoded { device: range.device, bar: range.bar, offset: addr - range.base })
}

#[cfg(test)]
#[path = "host_bridge_tests.rs"]
mod tests;
