//! The complete configuration of a run in one struct: a preset, the user's overrides, and derived settings.
//! It is written to the result folder with its hash.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use doorbell_machine::overlay;
use doorbell_machine::overlay::Overlay;
use doorbell_machine::{AttachConfig, ConfigError, MachineConfig, PortNumber, PortTable};
use doorbell_sim::{Bytes, Ps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use toml::Table;
use xxhash_rust::xxh3::xxh3_64;

use crate::plan::length::Length;
use crate::plan::members::{CableTable, GeneratorTable, MEMBERS, NodeTable};
use crate::plan::options::{self, OptionSections, Options};

/// A run's whole configuration.
// Serde's derive cannot read sections with names unknown at compile time: `RunConfig::with` reads the option
// sections, and the machine, for errors that name its keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, remote = "Self")]
pub struct RunConfig {
    /// Warm-up, measurement and seed.
    pub run: RunParams,
    /// The options of benchmarks, one section each (listed in `crate::registry`).
    #[serde(flatten, skip_deserializing)]
    #[schemars(skip)]
    options: OptionSections,
    /// The machine, to which a `RunConfig` dereferences.
    #[serde(flatten)]
    machine: MachineConfig,
    /// The nodes of a network and their own settings, by name (docs/networks.md).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node: BTreeMap<String, NodeTable>,
    /// The switches of a network, by name, with any of the keys `queue`, `latency`, `stations` and `ageing`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, doorbell_machine::SwitchConfig>")]
    pub switch: BTreeMap<String, Table>,
    /// The load generators of a network, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub generator: BTreeMap<String, GeneratorTable>,
    /// The cables that connect a network's members, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cable: BTreeMap<String, CableTable>,
}

/// Phases of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RunParams {
    /// Seed of all random streams of a run.
    pub seed: u64,
    /// Simulated time of traffic before the measurement: it warms caches, predictors and TLBs of a timed
    /// machine, and fills the queues of a functional one. "auto" (the default) ends when rings have wrapped,
    /// misses per packet are steady and the guest's timer has ticked twice, or, on a functional machine, when
    /// queues are steady; docs/benchmarks.md has the criteria. A time is used as given.
    pub warmup: Length,
    /// Maximum length of a warm-up of "auto". The result marks a warm-up that reached it as too short.
    pub warmup_limit: Ps,
    /// Simulated time of traffic in timed mode between warm-up and measurement; unused on a functional
    /// machine. "auto" (the default) ends when queues are steady, and takes a millisecond or more.
    pub settle: Length,
    /// Maximum length of settling of "auto".
    pub settle_limit: Ps,
    /// Simulated time of the measurement, unless `frames` is set. "auto" (the default) measures for `window`,
    /// and repeats the measurement while latency, loss or queues still change. A time is used as given, and
    /// the result reports whether the measurement was steady.
    pub duration: Length,
    /// Simulated time of one measurement if `duration` is "auto"; not 0.
    pub window: Ps,
    /// Maximum total length of the measurements of "auto". The last one is kept, and marked if it was not
    /// steady.
    pub duration_limit: Ps,
    /// Length of the measurement in frames to send, at least 1; replaces `duration`.
    pub frames: Option<u64>,
    /// Maximum time to wait for the last frames after the traffic has stopped. Frames still in flight then
    /// are not counted as lost by the guest.
    pub drain: Ps,
    /// Simulated time after which a boot is aborted if the guest is not ready.
    pub boot_timeout: Ps,
    /// Image that replaces the benchmark's own: the path of a recipe that extends it (docs/images.md), or a
    /// built-in image that extends it. With two nodes it is the test node's.
    pub image: Option<String>,
    /// Host files that the guest sees as virtio disks, after the image's own disk if it has one. They are
    /// never written.
    pub disks: Vec<PathBuf>,
    /// Simulated time after which a user's script that has not ended is aborted.
    pub script_timeout: Ps,
    /// Maximum total size on the host's disk of files that guest programs request by m5op (checkpoints,
    /// statistics).
    pub m5_limit: Bytes,
}

impl Default for RunParams {
    fn default() -> Self {
        RunParams {
            seed: 1,
            warmup: Length::Auto,
            // At 50 kpps, 60 ms: two rounds of 1024 descriptors, and a third to see that misses are steady.
            warmup_limit: Ps::from_ms(100),
            settle: Length::Auto,
            // An overload of 3 Mpps fills 4 MiB with 64 B frames within this time.
            settle_limit: Ps::from_ms(20),
            duration: Length::Auto,
            window: Ps::from_ms(10),
            duration_limit: Ps::from_ms(100),
            frames: None,
            drain: Ps::from_ms(20),
            // Twenty times a normal boot; a guest that spins for this long costs minutes of host time.
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

    /// The configured length of the measurement as text.
    pub(crate) fn length_text(&self) -> String {
        match self.frames {
            Some(frames) => format!("{frames} frames"),
            None => self.duration.to_string(),
        }
    }
}

/// The configuration without the benchmarks' options and the machine.
#[derive(Deserialize)]
#[serde(transparent)]
struct RunPart(#[serde(with = "RunConfig")] RunConfig);

impl Deref for RunConfig {
    type Target = MachineConfig;

    fn deref(&self) -> &MachineConfig {
        &self.machine
    }
}

impl DerefMut for RunConfig {
    fn deref_mut(&mut self) -> &mut MachineConfig {
        &mut self.machine
    }
}

impl RunConfig {
    /// The defaults, with these sections of options and no others.
    pub(crate) fn of_options(options: OptionSections) -> RunConfig {
        RunConfig { options, ..RunConfig::default() }
    }

    /// Options of one type, such as `config.options::<DpdkConfig>()`.
    ///
    /// # Panics
    ///
    /// If no benchmark of the registry has these options.
    pub fn options<T: Options>(&self) -> &T {
        self.options.get()
    }

    /// Whether the run plays a trace, without a guest, a NIC and traffic.
    pub fn is_played(&self) -> bool {
        self.options.are_played()
    }

    /// Returns this configuration with the settings of a tree applied, without validation.
    pub(crate) fn with(&self, tree: &Table) -> Result<RunConfig, ConfigError> {
        let mut whole = Overlay::from_table(self.to_table());
        whole.merge(tree.clone());
        let mut whole = whole.into_table();
        let options = self.options.with_overrides(&mut whole)?;
        let mut siblings: Vec<&str> = ["run"].into_iter().chain(MEMBERS).collect();
        let own = siblings.iter().filter_map(|key| whole.remove_entry(*key)).collect();
        let RunPart(rest) = overlay::read(own)?;
        siblings.extend(options.names());
        let machine = overlay::read_with_siblings(whole, &siblings)?;
        Ok(RunConfig { options, machine, ..rest })
    }

    /// Applies the settings that the options require ([`Options::required_settings`]), except for paths that
    /// are `given`. Does not validate.
    pub(crate) fn with_required_settings(
        self,
        given: impl Fn(&str) -> bool,
    ) -> Result<RunConfig, ConfigError> {
        let mut required = Overlay::default();
        // If several options set one path, the largest number wins: later entries override earlier ones.
        let mut settings = self.options.required_settings(&self);
        settings.sort_by_key(|(_, value)| value.as_integer());
        for (path, value) in settings.into_iter().filter(|(path, _)| !given(path)) {
            required.insert(path, value)?;
        }
        if required.table().is_empty() { Ok(self) } else { self.with(required.table()) }
    }

    /// Converts to a TOML table.
    pub(crate) fn to_table(&self) -> Table {
        Table::try_from(self).expect("a configuration can be written as TOML")
    }

    /// Whether the configuration describes a network instead of a single machine.
    pub fn is_network(&self) -> bool {
        let members = self.node.len() + self.switch.len() + self.generator.len() + self.cable.len();
        members > 0
    }

    /// The configuration of the machine, with the cores that co-running traces need.
    pub fn machine(&self) -> MachineConfig {
        MachineConfig { trace_cores: self.trace_cores(), ..self.machine.clone() }
    }

    /// Number of measured harts, which come first. The remaining harts run co-runners.
    pub fn measured_harts(&self) -> usize {
        (self.platform.harts - self.options.corunner_harts()) as usize
    }

    /// Number of additional cores, after those of the harts, that play traces.
    pub(crate) fn trace_cores(&self) -> u32 {
        self.options.trace_cores()
    }

    /// Checks every value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        // This also checks the keys of single ports and harts.
        self.machine().validate()?;
        let problem = "a run needs at least one NIC";
        options::reject_if(self.platform.nics == 0, "platform.nics", problem)?;
        self.options.validate(self)?;
        let key = match (self.run.frames, self.run.duration) {
            (Some(0), _) => "run.frames",
            (_, Length::Auto) => "run.window",
            (_, Length::For(_)) => "run.duration",
        };
        let problem = "a measurement of length 0 is not possible; set a longer time, or more frames";
        options::reject_if(self.run.measured_time() == Ps::ZERO || self.run.frames == Some(0), key, problem)?;
        Ok(())
    }

    /// Fills in the defaults of each kind of attachment: for all ports, for ports with their own attachment,
    /// and for nodes.
    pub(crate) fn with_attachment_defaults(mut self) -> Result<RunConfig, ConfigError> {
        let (all, nodes) = (self.common_to_nodes(), std::mem::take(&mut self.node));
        for (name, mut node) in nodes {
            let whole = all.with_node_keys(&node.keys)?.with_attachments();
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

    /// The common settings of all nodes of a network.
    pub(crate) fn common_to_nodes(&self) -> RunConfig {
        let mut common = self.clone();
        common.node.clear();
        common.switch.clear();
        common.generator.clear();
        common.cable.clear();
        common
    }

    /// The configuration of a node with its own `keys`. If the node has another kind of attachment, it does
    /// not inherit the common attachment's other keys.
    pub(crate) fn with_node_keys(&self, keys: &Table) -> Result<RunConfig, ConfigError> {
        let mut base = self.clone();
        if let Some(kind) = keys.get("attach").and_then(|own| own.get("kind")) {
            let kind = Table::from_iter([("kind".to_owned(), kind.clone())]);
            let of_kind = overlay::with_overrides(&AttachConfig::default(), &kind, "attach")?;
            if of_kind.kind != base.attach.kind {
                base.attach = of_kind;
            }
        }
        base.with(keys)
    }

    /// The configuration as written to the result folder. For trace playback it has only the keys with an
    /// effect.
    pub fn to_toml(&self) -> String {
        let written = match self.is_played() {
            true => toml::to_string_pretty(&self.options.without_unused(self.to_table())),
            false => toml::to_string_pretty(self),
        };
        written.expect("a configuration can be written as TOML")
    }

    /// Hash of the written configuration, as 16 hexadecimal digits.
    pub fn hash(&self) -> String {
        format!("{:016x}", xxh3_64(self.to_toml().as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use crate::registry::defaults;
    use crate::request::resolve::resolve;

    #[test]
    fn configuration_lists_the_defaults_of_the_attachment_kind() {
        let set = ["platform.nics=2", "attach.kind=memory-bus", "port.1.attach.kind=llc"];
        let config = resolve("server", &set.map(str::to_owned)).unwrap();
        let text = config.to_toml();
        assert_eq!(text.matches("outstanding = 64").count(), 2, "{text}");
        let back = defaults().with(&text.parse().unwrap()).unwrap();
        assert_eq!(back, *config);
        assert_eq!((back.port(1), back.port(0)), (config.port(1), config.port(0)));
    }

    #[test]
    fn the_written_configuration_reads_back_the_same() {
        let config = resolve("fast", &["nic.rx_fifo=48KiB".into(), "testpmd.mode=io".into()]).unwrap();
        let back = defaults().with(&config.to_toml().parse().unwrap()).unwrap();
        assert_eq!(back, *config);
        assert_eq!(back.hash(), config.hash());
        assert_ne!(resolve("fast", &[]).unwrap().hash(), config.hash());
    }

    #[test]
    fn preset_configurations_read_back_unchanged() {
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
