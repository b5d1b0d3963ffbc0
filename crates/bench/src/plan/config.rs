//! Everything that decides a run, in one struct: a preset, the user's overrides, and what follows
//! from them. It is written to the result folder with its hash.

use std::collections::BTreeMap;
use std::path::PathBuf;

use doorbell_loadgen::LoadGenConfig;
use doorbell_machine::overlay;
use doorbell_machine::overlay::Overlay;
use doorbell_machine::{
    AttachConfig, ConfigError, CoreConfig, HartParts, HartTable, HartTables, HartsConfig, MachineConfig,
    Place, PlatformConfig, PortConfig, PortNumber, PortTable, PortTables, PortsConfig,
};
use doorbell_nic::NicConfig;
use doorbell_sim::{Bytes, Ps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use toml::Table;
use xxhash_rust::xxh3::xxh3_64;

use crate::plan::length::Length;
use crate::plan::members::{CableTable, GeneratorTable, NodeTable};
use crate::plan::options::{OptionSections, Options};

/// A run's whole configuration.
// Serde's derive reads no sections whose names it does not know, so that `RunConfig::with` reads them, and the rest by it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, remote = "Self")]
pub struct RunConfig {
    /// How long, from when, with which seed.
    pub run: RunParams,
    /// What benchmarks have of their own: a section each (`crate::scenarios::registry` says which).
    #[serde(flatten, skip_deserializing)]
    #[schemars(skip)]
    options: OptionSections,
    /// What the guest sees.
    pub platform: PlatformConfig,
    /// The cores.
    pub core: CoreConfig,
    /// What the cores are like inside, where they are timed.
    pub pipeline: doorbell_machine::PipelineConfig,
    /// Caches, interconnect and DRAM, where they are timed.
    pub memory: doorbell_machine::MemoryConfig,
    /// The disks.
    pub disk: doorbell_machine::DiskConfig,
    /// How NICs are attached to memory and cores.
    pub attach: AttachConfig,
    /// The PCI Express link of each NIC that is attached by one.
    pub pcie: doorbell_machine::PcieConfig,
    /// The NICs.
    pub nic: NicConfig,
    /// The links.
    pub link: doorbell_machine::LinkConfig,
    /// The load generators and their traffic.
    pub loadgen: LoadGenConfig,
    /// What ports have of their own: any keys of `nic`, `attach`, `pcie` and `link`, by the ports' numbers.
    #[serde(skip_serializing_if = "PortTables::is_empty")]
    #[schemars(with = "BTreeMap<String, PortTable>")]
    pub port: PortTables,
    /// What harts have of their own: any keys of `core`, `pipeline` and the private part of `memory`, by the harts' numbers.
    #[serde(skip_serializing_if = "HartTables::is_empty")]
    #[schemars(with = "BTreeMap<String, HartTable>")]
    pub hart: HartTables,
    /// A network's machines, by name: what each is told of its own (docs/networks.md).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node: BTreeMap<String, NodeTable>,
    /// A network's switches: any keys of theirs (`queue`, `latency`, `stations`, `ageing`).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, doorbell_machine::SwitchConfig>")]
    pub switch: BTreeMap<String, Table>,
    /// A network's load generators that are no machine's own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub generator: BTreeMap<String, GeneratorTable>,
    /// What joins a network's members.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cable: BTreeMap<String, CableTable>,
}

/// How a measurement goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RunParams {
    /// From this all random streams of a run come.
    pub seed: u64,
    /// Simulated time of traffic before the measurement: where the machine is timed, caches, predictors and TLBs learn, elsewhere queues
    /// reach their level. "auto" (the default) is until rings have gone round, misses per packet no longer change and the
    /// guest's timer has ticked twice, or where nothing is timed, until queues no longer change; docs/benchmarks.md has the criteria. A
    /// time is kept as it is given.
    pub warmup: Length,
    /// The longest that a warm-up of "auto" lasts. One that it ends is said to have been too short.
    pub warmup_limit: Ps,
    /// Simulated time of traffic with everything timed, between warm-up and measurement; nothing where the machine is not timed. "auto"
    /// (the default) is until queues no longer change, and a millisecond at least.
    pub settle: Length,
    /// The longest that settling of "auto" lasts.
    pub settle_limit: Ps,
    /// Simulated time of the measurement, unless a number of frames is given. "auto" (the default) is `window`: one in which latency,
    /// loss or queues still change is discarded, and the next one begins. A time that is given is kept, and the result says whether
    /// the measurement was steady.
    pub duration: Length,
    /// Simulated time of one measurement where `duration` is "auto"; not 0.
    pub window: Ps,
    /// The longest that all measurements of "auto" last together. The last one is kept, and marked if it was not steady.
    pub duration_limit: Ps,
    /// Frames to send in the measurement instead, at least 1.
    pub frames: Option<u64>,
    /// How long, at most, the last frames are waited for after the traffic has stopped. What may still be on its way then is not called
    /// lost by the guest.
    pub drain: Ps,
    /// Simulated time after which a guest that is not ready is given up.
    pub boot_timeout: Ps,
    /// The image in which a benchmark runs instead of its own: the path of a recipe that extends it (docs/images.md), or a
    /// built-in image that does. With two nodes it is the test node's.
    pub image: Option<String>,
    /// Files of the host's that the guest has as virtio disks, behind the image's own if it has one. They are only read.
    pub disks: Vec<PathBuf>,
    /// Simulated time after which a user's script that has not ended is given up.
    pub script_timeout: Ps,
    /// What files that guest programs ask for by m5op (checkpoints, statistics) may take of the host's disk in all.
    pub m5_limit: Bytes,
}

impl Default for RunParams {
    fn default() -> Self {
        RunParams {
            seed: 1,
            warmup: Length::Auto,
            // Two rounds of 1024 descriptors, and another one to see that misses stay the same, take 60 ms at 50 kpps.
            warmup_limit: Ps::from_ms(100),
            settle: Length::Auto,
            // An overload of 3 Mpps has filled 4 MiB with frames of 64 B by then.
            settle_limit: Ps::from_ms(20),
            duration: Length::Auto,
            window: Ps::from_ms(10),
            duration_limit: Ps::from_ms(100),
            frames: None,
            drain: Ps::from_ms(20),
            // Twenty times what the boot takes; a guest that spins that long costs minutes of host time.
            boot_timeout: Ps(5 * Ps::PER_SECOND),
            image: None,
            disks: Vec::new(),
            script_timeout: Ps(10 * Ps::PER_SECOND),
            m5_limit: Bytes(1 << 30),
        }
    }
}

impl Serialize for RunConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RunConfig::serialize(self, serializer)
    }
}

impl RunParams {
    /// Simulated time of one measurement.
    pub fn measured_time(&self) -> Ps {
        self.duration.given().unwrap_or(self.window)
    }

    /// Whether a measurement that is not steady is repeated.
    pub(crate) fn is_auto(&self) -> bool {
        self.duration == Length::Auto && self.frames.is_none()
    }

    /// How long a measurement was to be, in words.
    pub(crate) fn asked(&self) -> String {
        match self.frames {
            Some(frames) => format!("{frames} frames"),
            None => self.duration.to_string(),
        }
    }
}

/// All but the benchmarks' options.
#[derive(Deserialize)]
#[serde(transparent)]
struct WithoutOptions(#[serde(with = "RunConfig")] RunConfig);

impl RunConfig {
    /// The defaults, with these sections of options and no others.
    pub(crate) fn of_options(options: OptionSections) -> RunConfig {
        RunConfig { options, ..RunConfig::default() }
    }

    /// What a benchmark has of its own: `config.options::<DpdkConfig>()`.
    ///
    /// # Panics
    ///
    /// If no benchmark of the registry lists them.
    pub fn options<T: Options>(&self) -> &T {
        self.options.get()
    }

    /// Whether it is of a played trace, in which there are no guest, no NIC and no traffic.
    pub fn is_played(&self) -> bool {
        self.options.are_played()
    }

    /// This configuration with what a tree says laid over it, not checked.
    pub(crate) fn with(&self, tree: &Table) -> Result<RunConfig, ConfigError> {
        let mut whole = Overlay::from_table(self.to_table());
        whole.merge(tree.clone());
        let mut whole = whole.into_table();
        let options = self.options.laid_under(&mut whole)?;
        let WithoutOptions(rest) = overlay::read_beside(whole, &options.names())?;
        Ok(RunConfig { options, ..rest })
    }

    /// The same with what its options need of other settings, except of those that are `given`. Not checked.
    pub(crate) fn followed(self, given: impl Fn(&str) -> bool) -> Result<RunConfig, ConfigError> {
        let mut following = Overlay::default();
        // Of several numbers for one path the largest serves all.
        let mut settings = self.options.follow(&self);
        settings.sort_by_key(|(_, value)| value.as_integer());
        for (path, value) in settings.into_iter().filter(|(path, _)| !given(path)) {
            following.insert(path, value)?;
        }
        if following.table().is_empty() { Ok(self) } else { self.with(following.table()) }
    }

    /// As a tree.
    pub(crate) fn to_table(&self) -> Table {
        Table::try_from(self).expect("a configuration can be written as TOML")
    }

    /// Whether it describes a network, and not one machine.
    pub fn is_network(&self) -> bool {
        let members = self.node.len() + self.switch.len() + self.generator.len() + self.cable.len();
        members > 0
    }

    /// The machine's part.
    pub fn machine(&self) -> MachineConfig {
        MachineConfig {
            platform: self.platform.clone(),
            core: self.core.clone(),
            pipeline: self.pipeline.clone(),
            memory: self.memory.clone(),
            disk: self.disk.clone(),
            attach: self.attach.clone(),
            pcie: self.pcie.clone(),
            nic: self.nic.clone(),
            link: self.link.clone(),
            loadgen: self.loadgen.clone(),
            port: self.port.clone(),
            hart: self.hart.clone(),
            beside: self.trace_cores(),
        }
    }

    /// So many harts, from the first on, are measured; the others have neighbours.
    pub fn measured_harts(&self) -> usize {
        (self.platform.harts - self.options.corunner_harts()) as usize
    }

    /// Cores behind those of the harts, on which traces are played.
    pub(crate) fn trace_cores(&self) -> u32 {
        self.options.trace_cores()
    }

    /// A hart, of a configuration that was checked.
    pub fn hart(&self, index: usize) -> HartParts {
        self.harts().hart(index).expect("the configuration was checked")
    }

    fn harts(&self) -> HartsConfig<'_> {
        let RunConfig { core, pipeline, memory, hart, .. } = self;
        HartsConfig { core, pipeline, memory, own: hart }
    }

    /// A port, of a configuration that was checked.
    pub fn port(&self, index: usize) -> PortConfig {
        self.of_ports().port(index).expect("the configuration was checked")
    }

    /// Where the NIC of port `index` is.
    pub(crate) fn place(&self, index: usize) -> Place {
        self.of_ports().place(index)
    }

    fn of_ports(&self) -> PortsConfig<'_> {
        let Self { platform, nic, attach, pcie, link, port: own, .. } = self;
        PortsConfig { nic, attach, pcie, link, own, per_card: platform.ports_per_card as usize }
    }

    /// All ports.
    pub fn ports(&self) -> impl Iterator<Item = PortConfig> {
        (0..self.platform.nics as usize).map(|index| self.port(index))
    }

    /// Checks every value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        // Keys of one port or hart alone are looked at here.
        self.machine().validate()?;
        if self.platform.nics == 0 {
            return Err(ConfigError::new("platform.nics", "a run needs at least one NIC"));
        }
        self.options.validate(self)?;
        let key = match (self.run.frames, self.run.duration) {
            (Some(0), _) => "run.frames",
            (_, Length::Auto) => "run.window",
            (_, Length::For(_)) => "run.duration",
        };
        if self.run.measured_time() == Ps::ZERO || self.run.frames == Some(0) {
            return Err(ConfigError::new(key, "a measurement needs some time or some frames"));
        }
        Ok(())
    }

    /// The same with what a kind of attachment has without being given: of all ports, of those with one of their own, and of nodes.
    pub(crate) fn in_force(mut self) -> Result<RunConfig, ConfigError> {
        let (all, nodes) = (self.of_each_node(), std::mem::take(&mut self.node));
        for (name, mut node) in nodes {
            let whole = all.told(&node.keys)?.with_attachments();
            let mut of_node = whole.to_table();
            let ports = node.keys.get("port").and_then(toml::Value::as_table);
            let own_ports =
                ports.is_some_and(|ports| ports.values().any(|port| port.get("attach").is_some()));
            for (key, is_own) in [("attach", node.keys.contains_key("attach")), ("port", own_ports)] {
                if let Some(value) = of_node.remove(key).filter(|_| is_own) {
                    node.keys.insert(key.to_owned(), value);
                }
            }
            self.node.insert(name, node);
        }
        Ok(self.with_attachments())
    }

    fn with_attachments(mut self) -> RunConfig {
        let has_own = |(_, own): &(&PortNumber, &PortTable)| !own.attach.is_empty();
        let numbers: Vec<PortNumber> = self.port.iter().filter(has_own).map(|(number, _)| *number).collect();
        for number in numbers {
            let whole = self.port(number.0).attach.resolved();
            let table = Table::try_from(whole).expect("a configuration can be written as TOML");
            self.port.get_mut(&number).expect("it was just listed").attach = table;
        }
        self.attach = self.attach.resolved();
        self
    }

    /// What all nodes of a network have in common.
    pub(crate) fn of_each_node(&self) -> RunConfig {
        let mut alone = self.clone();
        alone.node.clear();
        alone.switch.clear();
        alone.generator.clear();
        alone.cable.clear();
        alone
    }

    /// What a node is that is told `keys` over this. An attachment of another kind than everybody's has only keys of its own.
    pub(crate) fn told(&self, keys: &Table) -> Result<RunConfig, ConfigError> {
        let mut base = self.clone();
        if let Some(kind) = keys.get("attach").and_then(|own| own.get("kind")) {
            let kind = Table::from_iter([("kind".to_owned(), kind.clone())]);
            let of_kind = overlay::laid_over(&AttachConfig::default(), &kind, "attach")?;
            if of_kind.kind != base.attach.kind {
                base.attach = of_kind;
            }
        }
        base.with(keys)
    }

    /// The configuration as the result folder keeps it: of a played trace, what counts.
    pub fn to_toml(&self) -> String {
        let written = match self.is_played() {
            true => toml::to_string_pretty(&self.options.kept(self.to_table())),
            false => toml::to_string_pretty(self),
        };
        written.expect("a configuration can be written as TOML")
    }

    /// A hash of the whole configuration, as 16 hexadecimal digits: equal runs have equal hashes.
    pub fn hash(&self) -> String {
        format!("{:016x}", xxh3_64(self.to_toml().as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use crate::request::resolve::resolve;
    use crate::scenarios::registry::defaults;

    #[test]
    fn what_an_attachment_has_without_being_given_stands_in_the_configuration() {
        let set = ["platform.nics=2", "attach.kind=memory-bus", "port.1.attach.kind=llc"];
        let config = resolve("server", &set.map(str::to_owned)).unwrap();
        let text = config.to_toml();
        assert_eq!(text.matches("outstanding = 64").count(), 2, "{text}");
        let back = defaults().with(&text.parse().unwrap()).unwrap();
        assert_eq!(back, config);
        assert_eq!((back.port(1), back.port(0)), (config.port(1), config.port(0)));
    }

    #[test]
    fn the_written_configuration_reads_back_the_same() {
        let config = resolve("fast", &["nic.rx_fifo=48KiB".into(), "testpmd.mode=io".into()]).unwrap();
        let back = defaults().with(&config.to_toml().parse().unwrap()).unwrap();
        assert_eq!(back, config);
        assert_eq!(back.hash(), config.hash());
        assert_ne!(resolve("fast", &[]).unwrap().hash(), config.hash());
    }

    #[test]
    fn a_presets_text_is_read_back_to_the_letter() {
        for preset in [
            "fast",
            "server",
            "altra",
            "skylake-sp",
            "xeon-e5-2699v4",
            "xeon-e5-2667v4",
            "big-server",
            "ispass24",
            "champsim",
        ] {
            let config = resolve(preset, &[]).unwrap();
            let back = defaults().with(&config.to_toml().parse().unwrap()).unwrap();
            assert_eq!((back.to_toml(), back.hash()), (config.to_toml(), config.hash()));
        }
    }

    #[test]
    fn values_out_of_range_name_their_key() {
        for (wrong, key) in [
            ("dpdk.rxd=100", "dpdk.rxd"),
            ("rxptx.work=2s", "rxptx.work"),
            ("memcached_dpdk.memory=1KiB", "memcached_dpdk.memory"),
            ("memcached_dpdk.buckets=1000", "memcached_dpdk.buckets"),
            ("compute.table=32B", "compute.table"),
            ("platform.ram=1MiB", "platform.ram"),
            ("core.ipc=0", "core.ipc"),
            ("drive.ipc=17", "drive.ipc"),
        ] {
            let error = resolve("fast", &[wrong.into()]).unwrap_err();
            assert_eq!(error.key, key);
        }
    }
}
