//! What a machine is made of. A preset and the user's overrides become a [`MachineConfig`], which is
//! checked as a whole before anything is built from it.

use doorbell_attach::AttachConfig;
use doorbell_loadgen::LoadGenConfig;
use doorbell_nic::{MacAddress, NicConfig, NicModel};
use doorbell_pcie::{LinkConfig as PcieConfig, Place};
use doorbell_platform::{DiskConfig, FirmwareKind, InterruptsKind, MmuMode, RtcConfig};
use doorbell_sim::ram::PAGE_BYTES;
use doorbell_sim::{Bytes, Clock, Hertz, Ps};
use doorbell_wire::LinkConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::harts_config::{HartParts, HartTables, HartsConfig};
use crate::machine::build_bridge;
use crate::ports_config::{PortConfig, PortTable, PortTables, PortsConfig, default_place, non_default_tables};
use crate::timed::threads::core_memory_config;

/// A whole machine, as configuration files write it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MachineConfig {
    /// What the guest sees: changing it needs a new boot.
    pub platform: PlatformConfig,
    /// The cores.
    pub core: CoreConfig,
    /// The disks, if files for them are named.
    pub disk: DiskConfig,
    /// What the cores are like inside, where they are timed.
    pub pipeline: doorbell_core::PipelineConfig,
    /// Caches, interconnect and DRAM, where they are timed.
    pub memory: doorbell_memory::MemoryConfig,
    /// How NICs are attached to memory and cores.
    pub attach: AttachConfig,
    /// The PCI Express link of each NIC that is attached by one.
    pub pcie: PcieConfig,
    /// The NICs.
    pub nic: NicConfig,
    /// The link between each NIC and its load generator, both ways.
    pub link: LinkConfig,
    /// The load generators.
    pub loadgen: LoadGenConfig,
    /// What ports have of their own.
    #[serde(skip_serializing_if = "PortTables::is_empty")]
    pub port: PortTables,
    /// What harts have of their own.
    #[serde(skip_serializing_if = "HartTables::is_empty")]
    pub hart: HartTables,
    /// Cores behind those of the harts, for programs that no guest sees ([`Machine::play_corunners`](crate::Machine::play_corunners)).
    #[serde(skip_serializing_if = "is_zero")]
    pub beside: u32,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The part of a machine that a guest can tell from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PlatformConfig {
    /// Guest memory, 64MiB to 12GiB in whole pages of 4 KiB.
    pub ram: Bytes,
    /// How many harts, 1 to 64.
    pub harts: u32,
    /// Threads of a core (SMT), 1 or 2: with 2, harts 0 and 1 are the threads of core 0, harts 2 and 3 those of core 1, and so on. Of
    /// timed machines the cores must be out of order.
    #[serde(skip_serializing_if = "is_one")]
    pub threads: u32,
    /// Frequency of the `time` counter, 1MHz to 4GHz.
    pub timebase: Hertz,
    /// Whether harts have `stimecmp` (Sstc); without it the kernel asks the firmware for each timer.
    pub sstc: bool,
    /// The firmware: `opensbi` (the image's) or `builtin`.
    pub firmware: FirmwareKind,
    /// The interrupt controllers: `plic`, whose lines go to the harts, or `aia`, with which PCI functions interrupt by messages (MSI,
    /// MSI-X) to a file in each hart, and an APLIC turns the other devices' lines into messages.
    #[serde(skip_serializing_if = "InterruptsKind::is_default")]
    pub interrupts: InterruptsKind,
    /// The largest address translation that the device tree offers.
    pub mmu: MmuMode,
    /// How many NICs, 0 to 16, each with its own link and load generator.
    pub nics: u32,
    /// Ports of a card: 1, 2 or 4. With 4, ports 0 to 3 are functions 0 to 3 of one PCI device, ports 4 to 7 those of the next, and so
    /// on. Functions of one device share its attachment: one PCI Express link with its tags and credits. Port 0's `attach` and `pcie` are
    /// those of ports 1 to 3, too.
    #[serde(skip_serializing_if = "is_one")]
    pub ports_per_card: u32,
    /// Where bridges between PCI buses are, such as ["1e.0", "0:01.0"]: at device 1e of the root bus, and at device 1 of the bus behind
    /// that one. NICs are put behind them by their ports' `at`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bridges: Vec<Place>,
    /// The real-time clock.
    pub rtc: RtcConfig,
    /// From which the kernel's first random numbers come. Apart from a run's seed, so that runs with
    /// different seeds can share a boot.
    pub boot_seed: u64,
}

fn is_no_time(time: &Ps) -> bool {
    *time == Ps::ZERO
}

fn is_one(threads: &u32) -> bool {
    *threads == 1
}

impl Default for PlatformConfig {
    fn default() -> Self {
        PlatformConfig {
            ram: Bytes(256 << 20),
            harts: 1,
            threads: 1,
            timebase: Hertz(1_000_000_000),
            sstc: true,
            firmware: FirmwareKind::default(),
            interrupts: InterruptsKind::default(),
            mmu: MmuMode::Sv48,
            nics: 1,
            ports_per_card: 1,
            bridges: Vec::new(),
            rtc: RtcConfig::default(),
            boot_seed: 1,
        }
    }
}

/// Whether cores, caches and memory have timing models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CoreModel {
    /// Every instruction costs the same, and memory nothing.
    #[default]
    Functional,
    /// They have, and it is chosen while the machine runs whether it is timed.
    Timed,
}

/// The cores as far as they run functionally: every instruction costs the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CoreConfig {
    /// Whether there are timing models of cores, caches and memory: `functional` or `timed`.
    pub model: CoreModel,
    /// Clock frequency, 1MHz to 20GHz.
    pub frequency: Hertz,
    /// Instructions a cycle, from 0.01 to 16.
    pub ipc: f64,
    /// Instructions a cycle while timing models warm up, from 0.1 to 16. It has to be high enough to carry the
    /// load: otherwise buffers would be full when the measurement begins.
    pub warming_ipc: f64,
    /// How far one hart may run ahead of the others while the machine runs functionally: 10ns to 100us. With one hart it
    /// does not matter.
    pub quantum: Ps,
    /// How far a hart may run ahead of devices and, also where harts are timed, of other harts: 0ns to 1us. 0ns is exact: a timed hart goes on
    /// block by block, when it is the earliest, and a functional one stops at each event. Otherwise what a hart sees of devices and
    /// other harts is so late at most, and many harts cost the host less. With one hart it does not matter; threads of a core need 0ns.
    #[serde(skip_serializing_if = "is_no_time")]
    pub lookahead: Ps,
}

impl Default for CoreConfig {
    fn default() -> Self {
        CoreConfig {
            model: CoreModel::Functional,
            frequency: Hertz(3_000_000_000),
            ipc: 1.0,
            warming_ipc: 3.0,
            quantum: Ps::from_ns(500),
            lookahead: Ps::ZERO,
        }
    }
}

impl CoreConfig {
    /// The clock whose edges are the beginnings of instructions.
    pub fn slot_clock(&self) -> Clock {
        Clock::new(Hertz((self.frequency.0 as f64 * self.ipc).round() as u64))
    }

    /// Checks every value; errors are about keys of the table at `path`.
    pub(crate) fn validate(&self, path: &str) -> Result<(), ConfigError> {
        let check = |ok: bool, key: &str, problem: String| {
            if ok { Ok(()) } else { Err(ConfigError::new(format!("{path}.{key}"), problem)) }
        };
        check(
            (1_000_000..=20_000_000_000).contains(&self.frequency.0),
            "frequency",
            format!("{} is not from \"1MHz\" to \"20GHz\"", self.frequency),
        )?;
        check((0.01..=16.0).contains(&self.ipc), "ipc", format!("{} is not from 0.01 to 16", self.ipc))?;
        check(
            (0.1..=16.0).contains(&self.warming_ipc),
            "warming_ipc",
            format!("{} is not from 0.1 to 16", self.warming_ipc),
        )?;
        check(
            (QUANTUM_MIN..=QUANTUM_MAX).contains(&self.quantum),
            "quantum",
            format!("{} is not from \"10ns\" to \"100us\"", self.quantum),
        )?;
        check(
            self.lookahead <= LOOKAHEAD_MAX,
            "lookahead",
            format!("{} is not from \"0ns\" to \"1us\"", self.lookahead),
        )?;
        let problem = "it must be 1.0 where the model is \"timed\"".to_owned();
        check(self.model != CoreModel::Timed || self.ipc == 1.0, "ipc", problem)
    }
}

/// What is wrong with a configuration: which key, and what it can be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct ConfigError {
    /// The key's path, as `--set` takes it.
    pub key: String,
    /// What is wrong and what would be right.
    pub problem: String,
    /// Whether there is no such key, so that another one may have been meant.
    pub is_unknown_key: bool,
    /// Whether the value is right, and the host cannot provide for it.
    pub is_host_limit: bool,
}

impl ConfigError {
    /// An error about `key`.
    pub fn new(key: impl Into<String>, problem: impl ToString) -> ConfigError {
        ConfigError { key: key.into(), problem: problem.to_string(), is_unknown_key: false, is_host_limit: false }
    }

    /// The host cannot provide for the value of `key`.
    pub fn host_limit(key: impl Into<String>, problem: impl ToString) -> ConfigError {
        ConfigError { is_host_limit: true, ..ConfigError::new(key, problem) }
    }

    /// An error that a part of the machine words as "key is value; it must be …", its key being relative to the part's.
    pub(crate) fn in_part(part: &str, problem: &str) -> ConfigError {
        let (key, rest) = problem.split_once(' ').unwrap_or(("", problem));
        ConfigError::new(format!("{part}.{key}"), rest)
    }
}

/// The largest `core.quantum`.
const QUANTUM_MAX: Ps = Ps::from_us(100);
/// A hart is never farther ahead of others and of events: by its turn, or, if it is timed, by its block, or by what a posted write of it
/// has waited for credits, which come back over a way of three latencies of at most 1 ms each.
pub(crate) const AHEAD_MAX: Ps = Ps::from_us(5000);
const QUANTUM_MIN: Ps = Ps::from_ns(10);
/// The largest `core.lookahead`.
const LOOKAHEAD_MAX: Ps = Ps::from_us(1);
/// The harts that a machine can have: as many as the firmware serves.
pub const HARTS_MAX: u32 = doorbell_platform::sbi::HARTS_MAX;
/// Who has a line, and who has changed, are bits of a word.
const _: () = assert!(HARTS_MAX <= u64::BITS);
/// The ports that a machine can have.
pub(crate) const NICS_MAX: u32 = 16;
const RAM_MIN: u64 = 64 << 20;
const RAM_MAX: u64 = 12 << 30;
/// The device tree has 32 bits for it.
const TIMEBASE_MAX: u64 = 4_000_000_000;

impl MachineConfig {
    /// Checks every value, alone and together.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = |ok: bool, key: &str, problem: String| {
            if ok { Ok(()) } else { Err(ConfigError::new(key, problem)) }
        };
        let p = &self.platform;
        check(
            (RAM_MIN..=RAM_MAX).contains(&p.ram.0) && p.ram.0.is_multiple_of(PAGE_BYTES),
            "platform.ram",
            format!("{} is not from \"64MiB\" to \"12GiB\" in whole pages of 4 KiB", p.ram),
        )?;
        check(
            (1..=HARTS_MAX).contains(&p.harts),
            "platform.harts",
            format!("{} harts; a machine has 1 to {HARTS_MAX}", p.harts),
        )?;
        check(
            p.nics <= NICS_MAX,
            "platform.nics",
            format!("{} NICs; a machine has 0 to {NICS_MAX}", p.nics),
        )?;
        check(
            matches!(p.ports_per_card, 1 | 2 | 4),
            "platform.ports_per_card",
            format!("{}; a card has 1, 2 or 4 ports", p.ports_per_card),
        )?;
        check(
            (1_000_000..=TIMEBASE_MAX).contains(&p.timebase.0),
            "platform.timebase",
            format!("{} is not from \"1MHz\" to \"4GHz\"", p.timebase),
        )?;
        check(
            matches!(p.threads, 1 | 2),
            "platform.threads",
            format!("{}; a core has 1 or 2 threads", p.threads),
        )?;
        let whole = p.harts.is_multiple_of(p.threads);
        let problem =
            format!("{}, and {} harts (platform.harts) are no whole number of cores", p.threads, p.harts);
        check(whole, "platform.threads", problem)?;
        let apart = self.core.lookahead;
        let problem = format!("{apart}; threads of a core (platform.threads=2) stay together, and need 0ns");
        check(p.threads == 1 || apart == Ps::ZERO, "core.lookahead", problem)?;
        self.check_corunners()?;
        self.harts().validate(self.cores_with_corunners())?;
        if p.threads > 1 {
            self.harts().validate_threads(p.harts as usize)?;
        }
        self.disk.validate().map_err(|(key, problem)| ConfigError::new(format!("disk.{key}"), problem))?;
        if self.core.model == CoreModel::Timed {
            let memory = core_memory_config(&self.memory, p.threads as usize);
            memory
                .validate((p.harts / p.threads + self.beside) as usize)
                .map_err(|e| ConfigError::in_part("memory", &e))?;
        }
        self.ports().validate(p.nics as usize)?;
        self.check_dca_queues()?;
        build_bridge(self, &[])?;
        self.loadgen.validate().map_err(|e| ConfigError::new("loadgen", e))?;
        Ok(())
    }

    /// Harts, and cores of programs beside them.
    pub(crate) fn cores_with_corunners(&self) -> usize {
        (self.platform.harts + self.beside) as usize
    }

    fn check_corunners(&self) -> Result<(), ConfigError> {
        let fail = |problem: String| Err(ConfigError::new("beside.traces", problem));
        match self.beside {
            0 => Ok(()),
            _ if self.core.model == CoreModel::Functional => fail(
                "traces are played beside a machine whose cores are timed; set core.model=timed".to_owned(),
            ),
            _ if self.platform.threads > 1 => {
                fail("traces are played on cores without threads; set platform.threads=1".to_owned())
            }
            beside if self.cores_with_corunners() > HARTS_MAX as usize => fail(format!(
                "{beside} of them and {} harts; a machine has {HARTS_MAX} cores at most",
                self.platform.harts
            )),
            _ => Ok(()),
        }
    }

    /// The machine in which a guest boots, whatever it goes on in: this one's guest-visible part, and defaults for all else. So
    /// what a boot leaves follows from the guest alone, and not from who booted it first. Disks take all that any machine's may.
    pub fn for_boot(&self) -> MachineConfig {
        let NicConfig { mac, model, pause_frames, .. } = self.nic;
        let nic = NicConfig { mac, model, pause_frames, ..NicConfig::default() };
        let disk = DiskConfig { written_max: DiskConfig::WRITTEN_MAX, ..DiskConfig::default() };
        let port = non_default_tables(&self.port, PortTable::visible);
        MachineConfig { platform: self.platform.clone(), nic, disk, port, ..MachineConfig::default() }
    }

    /// What harts are made of.
    pub fn harts(&self) -> HartsConfig<'_> {
        let MachineConfig { core, pipeline, memory, hart, .. } = self;
        HartsConfig { core, pipeline, memory, own: hart }
    }

    /// A hart, of a configuration that was checked.
    pub fn hart(&self, index: usize) -> HartParts {
        self.harts().hart(index).expect("the configuration was checked")
    }

    /// What ports are made of.
    pub fn ports(&self) -> PortsConfig<'_> {
        PortsConfig {
            nic: &self.nic,
            attach: &self.attach,
            pcie: &self.pcie,
            link: &self.link,
            own: &self.port,
            per_card: self.platform.ports_per_card as usize,
        }
    }

    /// A port, of a configuration that was checked.
    pub fn port(&self, index: usize) -> PortConfig {
        self.ports().port(index).expect("the configuration was checked")
    }

    /// The station address of a port's NIC.
    pub fn mac_of(&self, index: usize) -> MacAddress {
        self.port(index).nic.mac_of(index)
    }

    /// A hash of everything that the guest can tell apart from configuration: a checkpoint goes on only
    /// in a machine with the same.
    pub fn guest_hash(&self) -> u64 {
        let macs: Vec<_> = (0..self.platform.nics as usize).map(|i| self.mac_of(i).0).collect();
        let ports = (0..self.platform.nics as usize).map(|i| (i, self.ports().place(i)));
        let moved: Vec<_> = ports
            .filter(|(i, place)| *place != default_place(*i, self.platform.ports_per_card as usize))
            .collect();
        let mut visible = postcard::to_stdvec(&(&self.platform, macs)).expect("a configuration serialises");
        if !moved.is_empty() {
            visible.extend(postcard::to_stdvec(&moved).expect("a configuration serialises"));
        }
        // A machine whose NICs are all of the first model has the hash that it always had.
        let models: Vec<_> = (0..self.platform.nics as usize).map(|i| self.port(i).nic.model).collect();
        if models.iter().any(|model| *model != NicModel::default()) {
            visible.extend(postcard::to_stdvec(&models).expect("a configuration serialises"));
        }
        // What the partner advertises is what drivers turn on.
        let pauses: Vec<_> =
            (0..self.platform.nics as usize).map(|i| self.port(i).nic.pause_frames).collect();
        if pauses.contains(&true) {
            visible.extend(postcard::to_stdvec(&pauses).expect("a configuration serialises"));
        }
        xxh3_64(&visible)
    }
}
