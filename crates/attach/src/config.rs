//! The parameters, as a configuration file spells them, and the chain of stages that they describe.

use std::fmt;

use doorbell_pcie::PathConfig;
use doorbell_sim::memory::Entry;
use doorbell_sim::{BitsPerSec, Bytes, Clock, Hertz, Ps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A chain has so many stages at most.
pub(crate) const STAGES_MAX: usize = 8;
const LATENCY_MAX: Ps = Ps::from_ms(1);
/// What a device takes to answer a register read, as in a PCI Express slot.
const REGISTER_LATENCY: Ps = Ps::from_ns(20);
/// Of a register, for the functional path's latency.
const REGISTER_BYTES: u64 = 4;

/// How a device is attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AttachKind {
    /// By a PCI Express link, which `[pcie]` describes.
    #[default]
    Pcie,
    /// By a chain of buses and store-and-forward bridges.
    Bus,
    /// On the die, at the memory bus.
    MemoryBus,
    /// On the die, at the last-level cache.
    Llc,
    /// The same, but frames' payload goes to memory.
    LlcHeaders,
}

impl fmt::Display for AttachKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AttachKind::Pcie => "pcie",
            AttachKind::Bus => "bus",
            AttachKind::MemoryBus => "memory-bus",
            AttachKind::Llc => "llc",
            AttachKind::LlcHeaders => "llc-headers",
        })
    }
}

/// One bus, and the bridge at its end towards memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StageConfig {
    /// Bytes that it moves in a cycle: 1B to 1KiB.
    pub width: Bytes,
    /// Its clock: 1MHz to 100GHz.
    pub clock: Hertz,
    /// From a transfer's last cycle until it is at the other end. The bus is free meanwhile. At most 1ms.
    #[serde(default)]
    pub latency: Ps,
    /// Whether a read lets go of the bus between its request and its data; otherwise it holds it for the whole round trip.
    #[serde(default = "split")]
    pub split: bool,
    /// Whether it has wires for each way, so that the two do not wait for each other. Only with split transactions.
    #[serde(default)]
    pub full_duplex: bool,
    /// Cycles of a transfer besides its data: for arbitration, address and command. A transfer takes one in all at least. 0 to 64.
    #[serde(default = "address_cycles")]
    pub address_cycles: u32,
    /// The device's reads under way over this bus at a time, 1 to 1024: the bridge keeps room for their data.
    #[serde(default = "places")]
    pub outstanding: u32,
    /// The bridge holds a transaction for so long when the whole of it is there, either way. At most 1ms.
    #[serde(default)]
    pub bridge_latency: Ps,
    /// Writes that the bridge holds until they are sent on, or visible if it is the last, 1 to 4096: the device's one way, the
    /// cores' the other.
    #[serde(default = "places")]
    pub buffer: u32,
}

const fn split() -> bool {
    true
}

const fn address_cycles() -> u32 {
    1
}

const fn places() -> u32 {
    8
}

impl StageConfig {
    /// Cycles that a transfer of `bytes` takes.
    pub fn cycles(&self, bytes: u64) -> u64 {
        (u64::from(self.address_cycles) + bytes.div_ceil(self.width.0)).max(1)
    }

    fn rate(&self) -> BitsPerSec {
        BitsPerSec(8 * self.width.0 * self.clock.0)
    }

    fn validate(&self) -> Result<(), String> {
        let StageConfig { width, clock, latency, bridge_latency, .. } = self;
        if !(1..=1024).contains(&width.0) {
            return Err(format!("width is {width}; it must be from 1B to 1KiB"));
        }
        if !(1_000_000..=100_000_000_000).contains(&clock.0) {
            return Err(format!("clock is {clock}; it must be from 1MHz to 100GHz"));
        }
        for (name, value) in [("latency", latency), ("bridge_latency", bridge_latency)] {
            if *value > LATENCY_MAX {
                return Err(format!("{name} is {value}; it must be at most {LATENCY_MAX}"));
            }
        }
        for (name, value, min, max) in [
            ("address_cycles", self.address_cycles, 0, 64),
            ("outstanding", self.outstanding, 1, 1024),
            ("buffer", self.buffer, 1, 4096),
        ] {
            if !(min..=max).contains(&value) {
                return Err(format!("{name} is {value}; it must be from {min} to {max}"));
            }
        }
        if self.full_duplex && !self.split {
            return Err("full_duplex is true, which a bus without split transactions cannot be".to_owned());
        }
        Ok(())
    }
}

/// The parameters. Each key belongs to the kinds that it names and is refused with others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a table of keys, or one of the words ste, hte, htd, ocm, occ, ocs, ste-2005, hte-2005, htd-2005 and pcie"
)]
pub struct AttachConfig {
    /// "pcie", "bus", "memory-bus", "llc" or "llc-headers".
    pub kind: AttachKind,
    /// Of a bus: where its end towards memory enters the memory system: "root-complex" (unless given), "llc", "llc-headers" or
    /// "memory-bus".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enters: Option<Entry>,
    /// Of a bus: the most that one transaction moves, a power of two from 16B to 4KiB; 64B unless given. None crosses a multiple of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Bytes>,
    /// On the die: bytes that are moved in a cycle each way, 1B to 1KiB; 32B unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<Bytes>,
    /// On the die: the clock, 1MHz to 100GHz; 2GHz unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<Hertz>,
    /// On the die: one way, at most 1ms; 4500ps unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Ps>,
    /// On the die: lines under way at a time each way, 1 to 1024; 64 unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outstanding: Option<u32>,
    /// Of all but PCI Express: the device takes so long to answer a register read, at most 1ms; 20ns unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub register_latency: Option<Ps>,
    /// Of a bus: whether a read waits in front of memory until the device's earlier writes are visible, as the rules of PCI want it
    /// (true unless given). Crossbars that only route do not make it wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_push_writes: Option<bool>,
    /// Of a bus: its stages, from the device to memory, 1 to 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<Vec<StageConfig>>,
}

/// A chain as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// From the device to memory.
    pub stages: Vec<StageConfig>,
    /// The most that one transaction moves, and what none crosses a multiple of.
    pub burst: Bytes,
    pub register_latency: Ps,
    /// See [`AttachConfig::reads_push_writes`].
    pub reads_push_writes: bool,
}

impl AttachConfig {
    /// Where the device's requests enter the memory system.
    pub fn entry(&self) -> Entry {
        match self.kind {
            AttachKind::Pcie => Entry::RootComplex,
            AttachKind::Bus => self.enters.unwrap_or_default(),
            AttachKind::MemoryBus => Entry::MemoryBus,
            AttachKind::Llc => Entry::Llc,
            AttachKind::LlcHeaders => Entry::LlcHeaders,
        }
    }

    /// The same with every key that its kind has.
    pub fn in_force(&self) -> AttachConfig {
        let mut whole = self.clone();
        if self.kind == AttachKind::Pcie {
            return whole;
        }
        whole.register_latency.get_or_insert(REGISTER_LATENCY);
        if self.kind == AttachKind::Bus {
            whole.enters.get_or_insert_default();
            whole.burst.get_or_insert(Bytes(64));
            whole.reads_push_writes.get_or_insert(true);
        } else {
            // The data path of a server's mesh (Arm CMN-600: 256 bits), and a register read that takes 30 ns in all,
            // as Binkert et al. (2005) have it for a NIC on the die.
            whole.width.get_or_insert(Bytes(32));
            whole.clock.get_or_insert(Hertz(2_000_000_000));
            whole.latency.get_or_insert(Ps(4500));
            whole.outstanding.get_or_insert(64);
        }
        whole
    }

    /// The chain, of parameters that were validated; none of PCI Express.
    pub(crate) fn chain(&self) -> Option<Chain> {
        let whole = self.in_force();
        let register_latency = whole.register_latency?;
        if let Some(stages) = whole.stages {
            let (burst, reads_push_writes) = (whole.burst?, whole.reads_push_writes?);
            return Some(Chain { stages, burst, register_latency, reads_push_writes });
        }
        let places = whole.outstanding?;
        let stage = StageConfig {
            width: whole.width?,
            clock: whole.clock?,
            latency: whole.latency?,
            split: true,
            full_duplex: true,
            address_cycles: 0,
            outstanding: places,
            bridge_latency: Ps::ZERO,
            buffer: places,
        };
        let (stages, burst) = (vec![stage], Bytes(doorbell_sim::memory::LINE_BYTES));
        Some(Chain { stages, burst, register_latency, reads_push_writes: false })
    }

    /// Says what is wrong with the parameters, naming the one and what it can be.
    pub fn validate(&self) -> Result<(), String> {
        self.check_keys()?;
        if let Some(burst) = self.burst
            && !(burst.0.is_power_of_two() && (16..=4096).contains(&burst.0))
        {
            return Err(format!("burst is {burst}; it must be 16B, 32B … 4KiB"));
        }
        if let Some(latency) = self.register_latency.filter(|latency| *latency > LATENCY_MAX) {
            return Err(format!("register_latency is {latency}; it must be at most {LATENCY_MAX}"));
        }
        match (self.kind, &self.stages) {
            (AttachKind::Pcie, _) => Ok(()),
            (AttachKind::Bus, None) => {
                let example = "attach.stages=[{width=\"8B\",clock=\"133MHz\"}]";
                Err(format!("stages is missing; the kind \"bus\" has 1 to {STAGES_MAX}, such as {example}"))
            }
            (AttachKind::Bus, Some(stages)) => {
                if !(1..=STAGES_MAX).contains(&stages.len()) {
                    return Err(format!(
                        "stages has {} entries; it must have 1 to {STAGES_MAX}",
                        stages.len()
                    ));
                }
                let mut each = stages.iter().enumerate();
                each.try_for_each(|(index, stage)| {
                    stage.validate().map_err(|problem| format!("stages[{index}].{problem}"))
                })
            }
            (AttachKind::MemoryBus | AttachKind::Llc | AttachKind::LlcHeaders, _) => {
                self.chain().map_or(Ok(()), |chain| chain.stages[0].validate())
            }
        }
    }

    /// Refuses keys of other kinds.
    fn check_keys(&self) -> Result<(), String> {
        use AttachKind::{Bus, Llc, LlcHeaders, MemoryBus};
        let on_die: &[AttachKind] = &[MemoryBus, Llc, LlcHeaders];
        for (name, is_given, kinds) in [
            ("stages", self.stages.is_some(), &[Bus][..]),
            ("enters", self.enters.is_some(), &[Bus]),
            ("burst", self.burst.is_some(), &[Bus]),
            ("reads_push_writes", self.reads_push_writes.is_some(), &[Bus]),
            ("width", self.width.is_some(), on_die),
            ("clock", self.clock.is_some(), on_die),
            ("latency", self.latency.is_some(), on_die),
            ("outstanding", self.outstanding.is_some(), on_die),
            ("register_latency", self.register_latency.is_some(), &[Bus, MemoryBus, Llc, LlcHeaders]),
        ] {
            if is_given && !kinds.contains(&self.kind) {
                let those: Vec<String> = kinds.iter().map(|kind| format!("\"{kind}\"")).collect();
                return Err(format!(
                    "{name} is a key of kind {} and not of \"{}\"",
                    those.join(", "),
                    self.kind
                ));
            }
        }
        Ok(())
    }
}

impl Chain {
    /// The functional path with the same parameters: all latencies, and both ways the bandwidth of the narrowest stage.
    pub fn path(&self) -> PathConfig {
        let narrowest = self.stages.iter().min_by_key(|stage| stage.rate().0).expect("a chain has a stage");
        let overhead = Bytes(u64::from(narrowest.address_cycles) * narrowest.width.0);
        let sum =
            |of: &dyn Fn(&StageConfig) -> Ps| self.stages.iter().fold(Ps::ZERO, |all, one| all + of(one));
        let latency = sum(&|stage| stage.latency + stage.bridge_latency);
        let transfers = sum(&|stage| Clock::new(stage.clock).edge(stage.cycles(REGISTER_BYTES)));
        PathConfig {
            latency,
            up_bandwidth: narrowest.rate(),
            down_bandwidth: narrowest.rate(),
            mmio_latency: latency + transfers + Ps(self.register_latency.0 / 2),
            max_payload: self.burst,
            max_read_request: self.burst,
            request_overhead: overhead,
            completion_overhead: overhead,
        }
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
