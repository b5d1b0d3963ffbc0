//! Configuration of the attachment, and the chain of stages derived from it.

use std::fmt;

use doorbell_pcie::PathConfig;
use doorbell_sim::config::{PowersOfTwo, check};
use doorbell_sim::memory::DmaEntryPoint;
use doorbell_sim::{BitsPerSec, Bytes, Clock, Hertz, Ps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of stages of a chain.
pub(crate) const STAGES_MAX: usize = 8;
const LATENCY_MAX: Ps = Ps::from_ms(1);
/// Default time of a device to respond to a register read, as in a PCI Express slot.
const REGISTER_LATENCY: Ps = Ps::from_ns(20);
/// Size of a register, for the functional path's latency.
const REGISTER_BYTES: u64 = 4;

/// Kind of attachment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AttachKind {
    /// PCI Express link, described by `[pcie]`.
    #[default]
    Pcie,
    /// Chain of buses and store-and-forward bridges.
    Bus,
    /// On the die, at the memory bus.
    MemoryBus,
    /// On the die, at the last-level cache.
    Llc,
    /// On the die, at the last-level cache; payload of frames goes to memory.
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

/// A bus, and the bridge at its end towards memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StageConfig {
    /// Bytes per cycle: 1B to 1KiB.
    pub width: Bytes,
    /// Clock: 1MHz to 100GHz.
    pub clock: Hertz,
    /// Latency from a transfer's last cycle to its arrival at the other end; the bus is free meanwhile. At
    /// most 1ms.
    #[serde(default)]
    pub latency: Ps,
    /// Whether transactions are split: a read releases the bus between request and data. Otherwise it holds
    /// the bus for the round trip.
    #[serde(default = "split")]
    pub split: bool,
    /// Whether each direction has separate wires. Only with split transactions.
    #[serde(default)]
    pub full_duplex: bool,
    /// Cycles of a transfer for arbitration, address and command, 0 to 64. With the data, a transfer takes at
    /// least one cycle.
    #[serde(default = "address_cycles")]
    pub address_cycles: u32,
    /// Reads of the device in flight over this bus, 1 to 1024: the bridge reserves buffers for their data.
    #[serde(default = "default_entries")]
    pub outstanding: u32,
    /// Latency of the bridge, either way, after it has received the whole transaction. At most 1ms.
    #[serde(default)]
    pub bridge_latency: Ps,
    /// Writes that the bridge buffers in each direction, 1 to 4096, until they are forwarded or, in the last
    /// bridge, visible.
    #[serde(default = "default_entries")]
    pub buffer: u32,
}

const fn split() -> bool {
    true
}

const fn address_cycles() -> u32 {
    1
}

const fn default_entries() -> u32 {
    8
}

impl StageConfig {
    /// Cycles of a transfer of `bytes`.
    pub fn cycles(&self, bytes: u64) -> u64 {
        (u64::from(self.address_cycles) + bytes.div_ceil(self.width.0)).max(1)
    }

    fn rate(&self) -> BitsPerSec {
        BitsPerSec(8 * self.width.0 * self.clock.0)
    }

    fn validate(&self) -> Result<(), String> {
        check("width", &self.width, Bytes(1)..=Bytes(1024))?;
        check("clock", &self.clock, Hertz(1_000_000)..=Hertz(100_000_000_000))?;
        check("latency", &self.latency, ..=LATENCY_MAX)?;
        check("bridge_latency", &self.bridge_latency, ..=LATENCY_MAX)?;
        check("address_cycles", &self.address_cycles, 0..=64)?;
        check("outstanding", &self.outstanding, 1..=1024)?;
        check("buffer", &self.buffer, 1..=4096)?;
        if self.full_duplex && !self.split {
            return Err("full_duplex is true, which needs split = true".to_owned());
        }
        Ok(())
    }
}

/// Parameters of the attachment. A key is rejected for kinds other than those named in its description.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a table of keys, or one of the names ste, hte, htd, ocm, occ, ocs, ste-2005, hte-2005, htd-2005 and pcie"
)]
pub struct AttachConfig {
    /// "pcie", "bus", "memory-bus", "llc" or "llc-headers".
    pub kind: AttachKind,
    /// Kind "bus": where the chain enters the memory system, "root-complex" (default), "llc", "llc-headers"
    /// or "memory-bus".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enters: Option<DmaEntryPoint>,
    /// Kind "bus": maximum size of a transaction, a power of two from 16B to 4KiB; default 64B. No
    /// transaction crosses a multiple of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Bytes>,
    /// On-die kinds: bytes per cycle each way, 1B to 1KiB; default 32B.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<Bytes>,
    /// On-die kinds: the clock, 1MHz to 100GHz; default 2GHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<Hertz>,
    /// On-die kinds: one-way latency, at most 1ms; default 4500ps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Ps>,
    /// On-die kinds: lines in flight each way, 1 to 1024; default 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outstanding: Option<u32>,
    /// All kinds except "pcie": time of the device to respond to a register read, at most 1ms; default 20ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub register_latency: Option<Ps>,
    /// Kind "bus": whether a read waits before memory until the device's earlier writes are visible, as the
    /// rules of PCI require (default true). Crossbars that only route do not enforce this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_push_writes: Option<bool>,
    /// Kind "bus": the stages from the device to memory, 1 to 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<Vec<StageConfig>>,
}

/// A chain with all parameters resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    /// From the device to memory.
    pub stages: Vec<StageConfig>,
    /// Maximum size of a transaction; none crosses a multiple of it.
    pub burst: Bytes,
    pub register_latency: Ps,
    /// See [`AttachConfig::reads_push_writes`].
    pub reads_push_writes: bool,
}

impl AttachConfig {
    /// Where the device's requests enter the memory system.
    pub fn entry(&self) -> DmaEntryPoint {
        match self.kind {
            AttachKind::Pcie => DmaEntryPoint::RootComplex,
            AttachKind::Bus => self.enters.unwrap_or_default(),
            AttachKind::MemoryBus => DmaEntryPoint::MemoryBus,
            AttachKind::Llc => DmaEntryPoint::Llc,
            AttachKind::LlcHeaders => DmaEntryPoint::LlcHeaders,
        }
    }

    /// The same configuration, with defaults filled in for all keys of its kind.
    pub fn resolved(&self) -> AttachConfig {
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
            // Width of a server's mesh (Arm CMN-600: 256 bits); latency from a register read of 30 ns in all,
            // the value of Binkert et al. (2005) for an on-die NIC.
            whole.width.get_or_insert(Bytes(32));
            whole.clock.get_or_insert(Hertz(2_000_000_000));
            whole.latency.get_or_insert(Ps(4500));
            whole.outstanding.get_or_insert(64);
        }
        whole
    }

    /// The chain for validated parameters; `None` for PCI Express.
    pub(crate) fn chain(&self) -> Option<Chain> {
        let whole = self.resolved();
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

    /// Checks the parameters. The message names the parameter and its valid values.
    pub fn validate(&self) -> Result<(), String> {
        self.check_keys()?;
        check("burst", &self.burst, PowersOfTwo(Bytes(16)..=Bytes(4096)))?;
        check("register_latency", &self.register_latency, ..=LATENCY_MAX)?;
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

    /// Rejects keys of other kinds.
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
                let names: Vec<String> = kinds.iter().map(|kind| format!("\"{kind}\"")).collect();
                return Err(format!(
                    "{name} applies to kind {} only, not to \"{}\"",
                    names.join(", "),
                    self.kind
                ));
            }
        }
        Ok(())
    }
}

impl Chain {
    /// The functional path with the same parameters: the sum of all latencies, and in both directions the
    /// bandwidth of the narrowest stage.
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
