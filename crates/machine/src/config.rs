//! Machine configuration: a preset and the user's overrides become a [`MachineConfig`], which is checked as a
//! whole before the machine is built.

use std::collections::BTreeMap;

use doorbell_attach::AttachConfig;
use doorbell_loadgen::LoadGenConfig;
use doorbell_nic::{NicConfig, NicModel};
use doorbell_pcie::{LinkConfig as PcieConfig, Place};
use doorbell_platform::{DiskConfig, InterruptsKind, MmuMode, RtcConfig};
use doorbell_sim::config::{OutOfRange, PowersOfTwo, is_default};
use doorbell_sim::ram::PAGE_BYTES;
use doorbell_sim::{Bytes, Clock, Hertz, Ps, config};
use doorbell_wire::{LinkConfig, MacAddr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::harts_config::{HartParts, HartTable, HartTables, HartsConfig};
use crate::machine::build_bridge;
use crate::ports_config::{
    PortConfig, PortTable, PortTables, PortsConfig, default_place, non_default_tables,
};
use crate::timed::threads::core_memory_config;

/// A whole machine, as configuration files write it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MachineConfig {
    /// The platform that the guest sees.
    pub platform: PlatformConfig,
    /// The cores.
    pub core: CoreConfig,
    /// Microarchitecture of timed cores.
    pub pipeline: doorbell_core::PipelineConfig,
    /// Caches, interconnect and DRAM of timed machines.
    pub memory: doorbell_memory::MemoryConfig,
    /// The disks.
    pub disk: DiskConfig,
    /// Attachment of the NICs to memory and cores.
    pub attach: AttachConfig,
    /// The PCI Express link of each NIC that is attached by PCI Express.
    pub pcie: PcieConfig,
    /// The NICs.
    pub nic: NicConfig,
    /// The links.
    pub link: LinkConfig,
    /// The load generators and their traffic.
    pub loadgen: LoadGenConfig,
    /// Per-port settings, by port number: any keys of `nic`, `attach`, `pcie` and `link`.
    #[serde(skip_serializing_if = "PortTables::is_empty")]
    #[schemars(with = "BTreeMap<String, PortTable>")]
    pub port: PortTables,
    /// Per-hart settings, by hart number: any keys of `core`, `pipeline` and the private part of `memory`.
    #[serde(skip_serializing_if = "HartTables::is_empty")]
    #[schemars(with = "BTreeMap<String, HartTable>")]
    pub hart: HartTables,
    /// Cores in addition to those of the harts, for programs that the guest cannot detect
    /// ([`Machine::play_corunners`](crate::Machine::play_corunners)). Follows from the traces to play, so it is
    /// not a setting.
    #[serde(skip_deserializing, skip_serializing_if = "is_default")]
    #[schemars(skip)]
    pub trace_cores: u32,
}

config! {
    /// Guest-visible part of a machine.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct PlatformConfig {
        /// Guest memory, 64MiB to 12GiB in whole pages of 4 KiB.
        pub ram: Bytes = Bytes(256 << 20),
        /// Number of harts, 1 to 64.
        pub harts: u32 [1..=HARTS_MAX] = 1,
        /// Threads per core (SMT), 1 or 2: with 2, harts 0 and 1 are the threads of core 0, harts 2 and 3
        /// those of core 1, and so on. In timed machines, SMT needs out-of-order cores.
        #[serde(skip_serializing_if = "is_one")]
        pub threads: u32 [1..=2] = 1,
        /// Frequency of the `time` counter, 1MHz to 4GHz.
        pub timebase: Hertz [Hertz(1_000_000)..=TIMEBASE_MAX] = Hertz(1_000_000_000),
        /// Whether harts have `stimecmp` (Sstc); without it the kernel calls the firmware to set each timer.
        pub sstc: bool = true,
        /// Interrupt controllers: `plic`, with interrupt lines to the harts, or `aia`. With `aia`, PCI
        /// functions send messages (MSI, MSI-X) to an interrupt file in each hart, and an APLIC converts the
        /// other devices' lines to messages.
        #[serde(skip_serializing_if = "InterruptsKind::is_default")]
        pub interrupts: InterruptsKind = InterruptsKind::default(),
        /// Largest address translation mode that the device tree offers.
        pub mmu: MmuMode = MmuMode::Sv48,
        /// Number of NICs, 0 to 16, each with its own link and load generator.
        pub nics: u32 [..=NICS_MAX] = 1,
        /// Ports per card: 1, 2 or 4. With 4, ports 0 to 3 are functions 0 to 3 of one PCI device, ports 4 to
        /// 7 those of the next, and so on. Functions of one device share its attachment: one PCI Express link
        /// with its tags and credits. Ports 1 to 3 then use the `attach` and `pcie` of port 0.
        #[serde(skip_serializing_if = "is_one")]
        pub ports_per_card: u32 [PowersOfTwo(1..=4)] = 1,
        /// Places of bridges between PCI buses, such as ["1e.0", "0:01.0"]: device 1e of the root bus, and
        /// device 1 of the bus behind that bridge. A port's `at` places its NIC behind a bridge.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub bridges: Vec<Place> = Vec::new(),
        /// The real-time clock.
        pub rtc: RtcConfig = RtcConfig::default(),
        /// Seed of the kernel's first random numbers. It is separate from a run's seed, so that runs with
        /// different seeds can share a boot.
        pub boot_seed: u64 = 1,
    }
}

fn is_one(threads: &u32) -> bool {
    *threads == 1
}

/// Whether cores, caches and memory have timing models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CoreModel {
    /// Every instruction takes the same time, and memory accesses take none.
    #[default]
    Functional,
    /// With timing models, which can be switched on and off during a run.
    Timed,
}

config! {
    /// Core model, and the parameters of functional execution, in which every instruction takes the same
    /// time.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct CoreConfig {
        /// Core model: `functional`, or `timed` with timing models of cores, caches and memory.
        pub model: CoreModel = CoreModel::Functional,
        /// Clock frequency, 1MHz to 20GHz.
        pub frequency: Hertz [Hertz(1_000_000)..=Hertz(20_000_000_000)] = Hertz(3_000_000_000),
        /// Instructions per cycle, from 0.01 to 16.
        pub ipc: f64 [0.01..=16.0] = 1.0,
        /// Instructions per cycle while timing models warm up, from 0.1 to 16. The value must be high enough
        /// to carry the load: otherwise buffers are full when the measurement begins.
        pub warming_ipc: f64 [0.1..=16.0] = 3.0,
        /// How far one hart may run ahead of the others in functional execution: 10ns to 100us. It has no
        /// effect with one hart.
        pub quantum: Ps [Ps::from_ns(10)..=Ps::from_us(100)] = Ps::from_ns(500),
        /// How far a hart may run ahead of devices and, also in timed execution, of other harts: 0ns to 1us.
        /// 0ns is exact: the earliest timed hart runs one block at a time, and a functional hart stops at
        /// each event. With a larger value, a hart sees devices and other harts late by at most that, and
        /// many harts need less host time. It has no effect with one hart; SMT threads need 0ns.
        #[serde(skip_serializing_if = "is_default")]
        pub lookahead: Ps [..=Ps::from_us(1)] = Ps::ZERO,
    }
}

impl CoreConfig {
    /// The clock whose edges are the starts of instructions.
    pub fn slot_clock(&self) -> Clock {
        Clock::new(Hertz((self.frequency.0 as f64 * self.ipc).round() as u64))
    }

    /// Checks every value; errors are about keys of the table at `path`.
    pub(crate) fn validate(&self, path: &str) -> Result<(), ConfigError> {
        self.check_ranges().map_err(|error| ConfigError::out_of_range(path, error))?;
        let is_valid = self.model != CoreModel::Timed || self.ipc == 1.0;
        let problem = "it must be 1.0 with core.model=timed".to_owned();
        ConfigError::unless(is_valid, &format!("{path}.ipc"), problem)
    }
}

/// A configuration error: the key, and what is wrong with its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct ConfigError {
    /// The key's path, in the form that `--set` takes.
    pub key: String,
    /// The problem, and the accepted values.
    pub problem: String,
    /// Whether the key does not exist, so that similar keys can be suggested.
    pub is_unknown_key: bool,
    /// Whether the value is valid but the host cannot provide it.
    pub is_host_limit: bool,
}

impl ConfigError {
    /// An error about `key`.
    pub fn new(key: impl Into<String>, problem: impl ToString) -> ConfigError {
        ConfigError {
            key: key.into(),
            problem: problem.to_string(),
            is_unknown_key: false,
            is_host_limit: false,
        }
    }

    /// An error, unless the value of `key` is valid.
    pub(crate) fn unless(is_valid: bool, key: &str, problem: String) -> Result<(), ConfigError> {
        if is_valid { Ok(()) } else { Err(ConfigError::new(key, problem)) }
    }

    /// An error about a value of `key` that the host cannot provide.
    pub fn host_limit(key: impl Into<String>, problem: impl ToString) -> ConfigError {
        ConfigError { is_host_limit: true, ..ConfigError::new(key, problem) }
    }

    /// An error about a parameter of the table at `path`.
    pub(crate) fn out_of_range(path: &str, error: OutOfRange) -> ConfigError {
        ConfigError::in_part(path, &error.to_string())
    }

    /// Converts a problem reported by a part of the machine, "key is value; it must be …", with a key
    /// relative to `part`.
    pub(crate) fn in_part(part: &str, problem: &str) -> ConfigError {
        let (key, rest) = problem.split_once(' ').unwrap_or(("", problem));
        ConfigError::new(format!("{part}.{key}"), rest)
    }
}

/// Bound on how far a hart is ahead of other harts and of events. A functional hart is ahead by at most its
/// turn; a timed one by at most its block or a posted write's wait for credits. Credits return over a path of
/// three latencies of at most 1 ms each.
pub(crate) const AHEAD_MAX: Ps = Ps::from_us(5000);
/// Maximum number of harts of a machine: sharers of a line and changed harts are bits of a 64-bit word.
pub const HARTS_MAX: u32 = u64::BITS;
/// Maximum number of ports of a machine.
pub(crate) const NICS_MAX: u32 = 16;
const RAM_MIN: u64 = 64 << 20;
const RAM_MAX: u64 = 12 << 30;
/// The device tree stores the timebase in 32 bits.
const TIMEBASE_MAX: Hertz = Hertz(4_000_000_000);

impl MachineConfig {
    /// Checks each value and the combinations of values.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = ConfigError::unless;
        let p = &self.platform;
        check(
            (RAM_MIN..=RAM_MAX).contains(&p.ram.0) && p.ram.0.is_multiple_of(PAGE_BYTES),
            "platform.ram",
            format!("{} is not from \"64MiB\" to \"12GiB\" in whole pages of 4 KiB", p.ram),
        )?;
        p.check_ranges().map_err(|error| ConfigError::out_of_range("platform", error))?;
        let whole = p.harts.is_multiple_of(p.threads);
        let problem =
            format!("{}, but {} harts (platform.harts) do not fill whole cores", p.threads, p.harts);
        check(whole, "platform.threads", problem)?;
        let lookahead = self.core.lookahead;
        let problem = format!("{lookahead}; threads of a core (platform.threads=2) run in step and need 0ns");
        check(p.threads == 1 || lookahead == Ps::ZERO, "core.lookahead", problem)?;
        self.check_corunners()?;
        self.harts().validate(self.cores_with_corunners())?;
        if p.threads > 1 {
            self.harts().validate_threads(p.harts as usize)?;
        }
        self.disk.validate().map_err(|(key, problem)| ConfigError::new(format!("disk.{key}"), problem))?;
        if self.core.model == CoreModel::Timed {
            let memory = core_memory_config(&self.memory, p.threads as usize);
            memory
                .validate((p.harts / p.threads + self.trace_cores) as usize)
                .map_err(|e| ConfigError::in_part("memory", &e))?;
        }
        self.ports().validate(p.nics as usize)?;
        self.check_dca_queues()?;
        build_bridge(self, &[])?;
        self.loadgen.validate().map_err(|e| ConfigError::new("loadgen", e))?;
        Ok(())
    }

    /// Number of harts and of cores for co-running programs.
    pub(crate) fn cores_with_corunners(&self) -> usize {
        (self.platform.harts + self.trace_cores) as usize
    }

    fn check_corunners(&self) -> Result<(), ConfigError> {
        let fail = |problem: String| Err(ConfigError::new("beside.traces", problem));
        match self.trace_cores {
            0 => Ok(()),
            _ if self.core.model == CoreModel::Functional => {
                fail("co-running traces need timed cores; set core.model=timed".to_owned())
            }
            _ if self.platform.threads > 1 => {
                fail("co-running traces need cores without SMT; set platform.threads=1".to_owned())
            }
            traces if self.cores_with_corunners() > HARTS_MAX as usize => fail(format!(
                "{traces} traces, {} harts; together they may use at most {HARTS_MAX} cores",
                self.platform.harts
            )),
            _ => Ok(()),
        }
    }

    /// Configuration in which the guest boots: the guest-visible part of this one, and defaults for the rest.
    /// So a boot's result depends on the guest only, not on the machine that booted it first. Disks get the
    /// largest write limit.
    pub fn for_boot(&self) -> MachineConfig {
        let NicConfig { mac, model, pause_frames, .. } = self.nic;
        let nic = NicConfig { mac, model, pause_frames, ..NicConfig::default() };
        let disk = DiskConfig { written_max: DiskConfig::WRITTEN_MAX, ..DiskConfig::default() };
        let port = non_default_tables(&self.port, PortTable::visible);
        MachineConfig { platform: self.platform.clone(), nic, disk, port, ..MachineConfig::default() }
    }

    /// Configuration of the harts.
    pub fn harts(&self) -> HartsConfig<'_> {
        HartsConfig(self)
    }

    /// Configuration of one hart. `self` must be valid.
    pub fn hart(&self, index: usize) -> HartParts {
        self.harts().hart(index).expect("the configuration was checked")
    }

    /// Configuration of the ports.
    pub fn ports(&self) -> PortsConfig<'_> {
        PortsConfig(self)
    }

    /// Configuration of one port. `self` must be valid.
    pub fn port(&self, index: usize) -> PortConfig {
        self.ports().port(index).expect("the configuration was checked")
    }

    /// Configuration of all ports. `self` must be valid.
    pub fn all_ports(&self) -> impl Iterator<Item = PortConfig> {
        (0..self.platform.nics as usize).map(|index| self.port(index))
    }

    /// MAC address of a port's NIC.
    pub fn mac_of(&self, index: usize) -> MacAddr {
        self.port(index).nic.mac_of(index)
    }

    /// Hash of the guest-visible configuration. A checkpoint can only be restored in a machine with the same
    /// hash.
    pub fn guest_hash(&self) -> u64 {
        let macs: Vec<_> = self.all_ports().enumerate().map(|(i, port)| port.nic.mac_of(i).0).collect();
        let ports = (0..self.platform.nics as usize).map(|i| (i, self.ports().place(i)));
        let moved: Vec<_> = ports
            .filter(|(i, place)| *place != default_place(*i, self.platform.ports_per_card as usize))
            .collect();
        let mut visible = postcard::to_stdvec(&(&self.platform, macs)).expect("a configuration serialises");
        if !moved.is_empty() {
            visible.extend(postcard::to_stdvec(&moved).expect("a configuration serialises"));
        }
        // Machines with only the default model keep the hash that they had before there were other models.
        let models: Vec<_> = self.all_ports().map(|port| port.nic.model).collect();
        if models.iter().any(|model| *model != NicModel::default()) {
            visible.extend(postcard::to_stdvec(&models).expect("a configuration serialises"));
        }
        // Drivers enable PAUSE if the link partner advertises it.
        let pauses: Vec<_> = self.all_ports().map(|port| port.nic.pause_frames).collect();
        if pauses.contains(&true) {
            visible.extend(postcard::to_stdvec(&pauses).expect("a configuration serialises"));
        }
        xxh3_64(&visible)
    }
}
