//! Debian's Open vSwitch with DPDK as a cross-connect: flows connect ports in pairs, and PMD threads poll on
//! dedicated harts.

use std::ops::RangeInclusive;

use doorbell_loadgen::Returned;
use doorbell_machine::ConfigError;
use doorbell_nic::NicModel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::benchmark::Benchmark;
use crate::measure::kinds::DPDK_PROGRAM;
use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::options::{self, Options, Section, Setting};
use crate::scenarios::testpmd::Topology;

/// The benchmark.
pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "ovs",
    summary: "Open vSwitch with DPDK connects ports in pairs: PMD threads, flows and flow caches",
    image: "ovs",
    guest_words,
    options: &[Section::of::<OvsConfig>()],
    defaults: DEFAULTS,
    returned: |_| Returned::AsSent,
    rings: |config| Some(config.options::<OvsConfig>().rings()),
    remark,
    ..DPDK_PROGRAM
};

/// The machine that it needs: a NIC with one transmit queue per thread, and a hart for Linux in addition to
/// the thread's.
const DEFAULTS: &[&str] =
    &["ovs.cores=1", "nic.model=82576", "platform.nics=2", "platform.harts=2", "platform.ram=512MiB"];

/// Descriptors per ring that the driver accepts.
const DESCRIPTORS: RangeInclusive<u64> = 64..=4096;
/// Maximum inverse probability of an insertion into the exact-match cache.
const EMC_MAX: u32 = 1_000_000;
/// Packet buffers for all ports: the switch tries MBUFS_MAX, and halves the number until they fit, down to
/// MBUFS_MIN.
const MBUFS_MIN: u32 = 1 << 14;
const MBUFS_MAX: u32 = 1 << 18;
/// Packet buffers outside the rings: in the cores' caches and in flight.
const MBUFS_SPARE: u32 = 1 << 13;
/// Bytes per packet buffer, including the switch's metadata and its share of the pool's ring, rounded up.
const MBUF_BYTES: u64 = 3136;
/// Bytes per hugepage.
const PAGE_BYTES: u64 = 2 << 20;
/// Hugepages for descriptor rings and EAL.
const PAGES_BASE: u64 = 12;
/// RAM for Linux and the switch, without hugepages.
const RAM_BASE: u64 = 256 << 20;

/// Open vSwitch's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OvsConfig {
    /// PMD threads, 1 to 16 (the benchmark sets 1), one per hart from hart 1 on (hart 2 if cores have two
    /// threads), each with its own receive and transmit queue on every port. RSS spreads flows over them;
    /// default traffic is one flow (`--flows 1000`). Linux and the switch's other threads run on the first
    /// core, so the machine needs more harts than PMD threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// The port that transmits frames: "paired", the other port of 0 and 1, 2 and 3 and so on; or "loop", the
    /// receiving port.
    pub topology: Topology,
    /// Receive descriptors of each queue, 64 to 4096, a power of two.
    pub n_rxq_desc: u32,
    /// Transmit descriptors of each queue, 64 to 4096, a power of two.
    pub n_txq_desc: u32,
    /// Inverse probability that a packet inserts its flow into the exact-match cache (emc-insert-inv-prob), 0
    /// to 1000000: 1 inserts always, 0 switches the cache off.
    pub emc_insert_inv_prob: u32,
    /// Whether the signature-match cache is used after the exact-match cache (smc-enable).
    pub smc: bool,
}

impl Default for OvsConfig {
    fn default() -> Self {
        // Open vSwitch's own defaults.
        OvsConfig {
            cores: None,
            topology: Topology::Paired,
            n_rxq_desc: 2048,
            n_txq_desc: 2048,
            emc_insert_inv_prob: 100,
            smc: false,
        }
    }
}

impl Options for OvsConfig {
    const SECTION: &'static str = "ovs";
    const QUIET: bool = true;

    fn required_settings(&self, config: &RunConfig) -> Vec<Setting> {
        let Some(cores) = self.cores else { return Vec::new() };
        let first = first_hart(config);
        cores::required_harts(first.saturating_add(cores).next_multiple_of(first), config)
    }

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        for (key, value) in [("ovs.n_rxq_desc", self.n_rxq_desc), ("ovs.n_txq_desc", self.n_txq_desc)] {
            options::check_power_of_two(key, value.into(), DESCRIPTORS, |value| value.to_string())?;
        }
        options::check_range("ovs.emc_insert_inv_prob", self.emc_insert_inv_prob, 0..=EMC_MAX)?;
        // Other benchmarks do not set the number of cores.
        self.cores.map_or(Ok(()), |cores| self.check_machine(cores, config))
    }
}

impl OvsConfig {
    fn check_machine(&self, cores: u32, config: &RunConfig) -> Result<(), ConfigError> {
        // Each PMD thread has its own receive queue. Each needs a transmit queue as well, and the main thread
        // one more; if the NIC has fewer, threads share them dynamically (Open vSwitch's XPS).
        let best = NicModel::with_most_queues();
        options::check_range("ovs.cores", cores, 1..=best.queues())?;
        let harts = config.platform.harts;
        let first = first_hart(config);
        if first + cores > harts {
            let linux = if first == 1 { "the first one" } else { "those of the first core" };
            let problem = format!(
                "{cores}, but the machine has {harts} hart(s), and Linux uses {linux}; set platform.harts={} or more",
                (first + cores).next_multiple_of(first)
            );
            return Err(ConfigError::new("ovs.cores", problem));
        }
        let nics = config.platform.nics;
        let problem = "\"paired\" needs an even number of platform.nics; \"loop\" takes any";
        options::reject_if(
            self.topology == Topology::Paired && !nics.is_multiple_of(2),
            "ovs.topology",
            problem,
        )?;
        let needed = RAM_BASE + self.hugepages(cores, nics) * PAGE_BYTES;
        let ram = config.platform.ram;
        let problem = format!(
            "packet buffers for the rings of {cores} core(s) and {nics} port(s) do not fit into {ram}"
        );
        options::check_ram("platform.ram", needed, problem, config)?;
        match cores::port_with_fewer_queues(2, config) {
            Some((port, model)) => {
                let problem = format!(
                    "port {port} has an {model}, whose one transmit queue Open vSwitch's threads cannot share; set nic.model={best}"
                );
                Err(ConfigError::new("ovs", problem))
            }
            None => Ok(()),
        }
    }

    /// Hugepages needed, with enough packet buffers that the rings never hold all of them.
    fn hugepages(&self, cores: u32, nics: u32) -> u64 {
        let in_rings = nics * cores * (self.n_rxq_desc + self.n_txq_desc);
        let mbufs = (in_rings + MBUFS_SPARE).next_power_of_two().clamp(MBUFS_MIN, MBUFS_MAX);
        (u64::from(mbufs) * MBUF_BYTES).div_ceil(PAGE_BYTES) + PAGES_BASE
    }

    /// Descriptors of the receive and transmit rings.
    pub(crate) fn rings(&self) -> [u32; 2] {
        [self.n_rxq_desc, self.n_txq_desc]
    }
}

/// The first hart with a PMD thread. Harts of the first core have none, because they would share that core
/// with Linux.
fn first_hart(config: &RunConfig) -> u32 {
    config.platform.threads
}

/// Kernel command-line words for the image's /init.
fn guest_words(config: &RunConfig) -> String {
    let own = config.options::<OvsConfig>();
    let OvsConfig { topology, n_rxq_desc, n_txq_desc, emc_insert_inv_prob, smc, .. } = own;
    let cores = own.cores.unwrap_or(1);
    let hugepages = own.hugepages(cores, config.platform.nics);
    let topology = match topology {
        Topology::Loop => "loop",
        Topology::Paired => "paired",
    };
    let first = match first_hart(config) {
        1 => String::new(),
        first => format!(" doorbell.lcores={first}"),
    };
    format!(
        "doorbell.app=ovs doorbell.cores={cores} doorbell.topology={topology} doorbell.rxd={n_rxq_desc} doorbell.txd={n_txq_desc} \
         doorbell.hugepages={hugepages} doorbell.arg=other_config:emc-insert-inv-prob={emc_insert_inv_prob} \
         doorbell.arg=other_config:smc-enable={smc}{first}"
    )
}

/// Warning about a single flow for several threads.
fn remark(config: &RunConfig) -> Option<String> {
    let cores = config.options::<OvsConfig>().cores.unwrap_or(1);
    cores::one_flow(cores, config).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::benchmark;

    #[test]
    fn unsuitable_machines_and_options_are_rejected() {
        let resolve = |more: &[&str]| {
            let set: Vec<String> = [DEFAULTS, more].concat().iter().map(|&text| text.to_owned()).collect();
            crate::request::resolve::resolve("fast", &set).map_err(|error| error.to_string())
        };
        let words = benchmark("ovs").unwrap().workload(&resolve(&["ovs.smc=true"]).unwrap()).words;
        assert!(
            words.contains("cores=1 doorbell.topology=paired") && words.contains("smc-enable=true"),
            "{words}"
        );
        for (set, message) in [
            (
                &["ovs.cores=2"][..],
                "ovs.cores: 2, but the machine has 2 hart(s), and Linux uses the first one; set platform.harts=3",
            ),
            (
                &["ovs.cores=2", "platform.harts=2", "platform.threads=2"],
                "has 2 hart(s), and Linux uses those of the first core; set platform.harts=4",
            ),
            (&["ovs.cores=17", "platform.harts=18"], "ovs.cores: 17 is not from 1 to 16"),
            (&["ovs.cores=16", "platform.harts=17"], "do not fit into 512MiB; set platform.ram="),
            (&["port.1.nic.model=82540em"], "port 1 has an 82540EM"),
            (&["platform.nics=1"], "ovs.topology: \"paired\" needs an even number"),
            (&["ovs.cores=8", "platform.harts=9"], "do not fit into 512MiB; set platform.ram=704MiB"),
            (&["ovs.n_rxq_desc=1000"], "ovs.n_rxq_desc: 1000 is not a power of two from 64 to 4096"),
            (&["ovs.emc_insert_inv_prob=1000001"], "1000001 is not from 0 to 1000000"),
        ] {
            let error = resolve(set).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
        assert!(resolve(&["platform.nics=1", "ovs.topology=loop"]).is_ok());
        let threads = resolve(&["ovs.cores=2", "platform.harts=4", "platform.threads=2"]).unwrap();
        assert!(
            guest_words(&threads).ends_with(" doorbell.lcores=2"),
            "PMD threads start on the second core"
        );
    }
}
