//! Debian's Open vSwitch with DPDK, as a cross connect: flows join ports in pairs, and its threads poll on harts of their own.

use std::ops::RangeInclusive;

use doorbell_loadgen::Returned;
use doorbell_machine::ConfigError;
use doorbell_nic::e82576::QUEUES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::options::{self, Options, Setting};
use crate::scenarios::testpmd::Topology;

/// The machine that it needs: a card with a transmit queue for each thread, and a hart for Linux beside the thread's.
pub(crate) const DEFAULTS: &[&str] =
    &["ovs.cores=1", "nic.model=82576", "platform.nics=2", "platform.harts=2", "platform.ram=512MiB"];

/// Entries of a ring, as its driver takes them.
const DESCRIPTORS: RangeInclusive<u32> = 64..=4096;
/// Threads that poll: each receives by a queue of its own. To send each has one too, and the switch's main thread one more: where
/// the card has not so many, threads borrow them for a while (the switch's XPS).
const CORES: RangeInclusive<u32> = 1..=QUEUES as u32;
/// How seldom a flow may be brought into the exact-match cache.
const EMC_MAX: u32 = 1_000_000;
/// Packet buffers: the switch takes MBUFS_MAX for all ports or, where they do not fit, half as often as it must, to MBUFS_MIN.
const MBUFS_MIN: u32 = 1 << 14;
const MBUFS_MAX: u32 = 1 << 18;
/// Beside those in rings: what cores cache and hold.
const MBUFS_SPARE: u32 = 1 << 13;
/// What a packet buffer takes, with the switch's own part and its share of the pool's ring, rounded up.
const MBUF_BYTES: u64 = 3136;
/// Of a hugepage.
const PAGE_BYTES: u64 = 2 << 20;
/// Hugepages for rings of descriptors and EAL's own.
const PAGES_BESIDE: u64 = 12;
/// What Linux and the switch need beside hugepages.
const RAM_BESIDE: u64 = 256 << 20;

/// How Open vSwitch is set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OvsConfig {
    /// Threads that poll, 1 to 16 (the benchmark sets 1): on harts 1 and up (2 and up where cores have two threads), one on each, with a
    /// receive and a transmit queue of its own on every port; RSS spreads flows over them, and plain traffic is one flow (`--flows 1000`).
    /// Hart 0 has the switch's other threads and Linux, so the machine needs one hart more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// By which port frames leave: "paired", the other one of 0 and 1, 2 and 3 and so on; or "loop", the one that they came in by.
    pub topology: Topology,
    /// Receive descriptors of each queue, 64 to 4096, a power of two.
    pub n_rxq_desc: u32,
    /// Transmit descriptors of each queue, 64 to 4096, a power of two.
    pub n_txq_desc: u32,
    /// One packet in how many brings its flow into the exact-match cache (emc-insert-inv-prob), 0 to 1000000: 1 is each, 0 switches the
    /// cache off.
    pub emc_insert_inv_prob: u32,
    /// Whether there is a signature-match cache (smc-enable) behind it.
    pub smc: bool,
}

impl Default for OvsConfig {
    fn default() -> Self {
        // Open vSwitch's own.
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

    fn follow(&self, config: &RunConfig) -> Vec<Setting> {
        let Some(cores) = self.cores else { return Vec::new() };
        let first = first_hart(config);
        cores::follow_harts(first.saturating_add(cores).next_multiple_of(first), config)
    }

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        for (key, value) in [("ovs.n_rxq_desc", self.n_rxq_desc), ("ovs.n_txq_desc", self.n_txq_desc)] {
            if !DESCRIPTORS.contains(&value) || !value.is_power_of_two() {
                let (least, most) = (DESCRIPTORS.start(), DESCRIPTORS.end());
                let problem = format!("{value} is not a power of two from {least} to {most}");
                return Err(ConfigError::new(key, problem));
            }
        }
        if self.emc_insert_inv_prob > EMC_MAX {
            let problem = format!("{} is not from 0 to {EMC_MAX}", self.emc_insert_inv_prob);
            return Err(ConfigError::new("ovs.emc_insert_inv_prob", problem));
        }
        // Without a number of cores it is the configuration of another benchmark.
        self.cores.map_or(Ok(()), |cores| self.check_machine(cores, config))
    }
}

impl OvsConfig {
    fn check_machine(&self, cores: u32, config: &RunConfig) -> Result<(), ConfigError> {
        if !CORES.contains(&cores) {
            let problem = format!("{cores} is not from {} to {}", CORES.start(), CORES.end());
            return Err(ConfigError::new("ovs.cores", problem));
        }
        let harts = config.platform.harts;
        let first = first_hart(config);
        if first + cores > harts {
            let linux = if first == 1 { "the first is Linux'" } else { "the first core's are Linux'" };
            let problem = format!(
                "{cores}, and the machine has {harts} hart(s), of which {linux}; set platform.harts={} or more",
                (first + cores).next_multiple_of(first)
            );
            return Err(ConfigError::new("ovs.cores", problem));
        }
        let nics = config.platform.nics;
        if self.topology == Topology::Paired && !nics.is_multiple_of(2) {
            let problem = "\"paired\" needs an even number of platform.nics; \"loop\" takes any";
            return Err(ConfigError::new("ovs.topology", problem));
        }
        let needed = RAM_BESIDE + self.hugepages(cores, nics) * PAGE_BYTES;
        if let Some(set) = options::more_ram(needed, config) {
            let ram = config.platform.ram;
            let problem = format!(
                "the rings of {cores} core(s) and {nics} ports need packet buffers for which {ram} has no room; {set}"
            );
            return Err(ConfigError::new("platform.ram", problem));
        }
        match cores::port_with_one_queue(config) {
            Some(port) => {
                let problem = format!(
                    "port {port} has an 82540EM, whose one transmit queue Open vSwitch's threads cannot share; set nic.model=82576"
                );
                Err(ConfigError::new("ovs", problem))
            }
            None => Ok(()),
        }
    }

    /// Hugepages for as many packet buffers as the switch needs, so that rings never hold all of them.
    fn hugepages(&self, cores: u32, nics: u32) -> u64 {
        let in_rings = nics * cores * (self.n_rxq_desc + self.n_txq_desc);
        let mbufs = (in_rings + MBUFS_SPARE).next_power_of_two().clamp(MBUFS_MIN, MBUFS_MAX);
        (u64::from(mbufs) * MBUF_BYTES).div_ceil(PAGE_BYTES) + PAGES_BESIDE
    }

    /// Descriptors of the receive and transmit rings.
    pub(crate) fn rings(&self) -> [u32; 2] {
        [self.n_rxq_desc, self.n_txq_desc]
    }
}

/// The first hart whose thread polls: those of Linux' core do not, for they would share it with it.
fn first_hart(config: &RunConfig) -> u32 {
    config.platform.threads
}

/// What the image's /init is told.
pub(crate) fn guest_words(config: &RunConfig) -> String {
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

/// What a run should know of its traffic.
pub(crate) fn remark(config: &RunConfig) -> Option<String> {
    let cores = config.options::<OvsConfig>().cores.unwrap_or(1);
    cores::one_flow(cores, config).map(str::to_owned)
}

/// Frames leave as they came.
pub(crate) fn returned(_: &RunConfig) -> Returned {
    Returned::AsSent
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::registry::benchmark;

    #[test]
    fn it_is_refused_a_machine_on_which_it_does_not_run() {
        let resolve = |more: &[&str]| {
            let set: Vec<String> = [DEFAULTS, more].concat().iter().map(|&text| text.to_owned()).collect();
            crate::request::resolve::resolve("fast", &set).map_err(|error| error.to_string())
        };
        let words = benchmark("ovs").unwrap().workload(&resolve(&["ovs.smc=true"]).unwrap()).words;
        assert!(
            words.contains("cores=1 doorbell.topology=paired") && words.contains("smc-enable=true"),
            "{words}"
        );
        for (set, says) in [
            (
                &["ovs.cores=2"][..],
                "ovs.cores: 2, and the machine has 2 hart(s), of which the first is Linux'; set platform.harts=3",
            ),
            (
                &["ovs.cores=2", "platform.harts=2", "platform.threads=2"],
                "has 2 hart(s), of which the first core's are Linux'; set platform.harts=4",
            ),
            (&["ovs.cores=17", "platform.harts=18"], "ovs.cores: 17 is not from 1 to 16"),
            (&["ovs.cores=16", "platform.harts=17"], "has no room; set platform.ram="),
            (&["port.1.nic.model=82540em"], "port 1 has an 82540EM"),
            (&["platform.nics=1"], "ovs.topology: \"paired\" needs an even number"),
            (&["ovs.cores=8", "platform.harts=9"], "has no room; set platform.ram=704MiB"),
            (&["ovs.n_rxq_desc=1000"], "ovs.n_rxq_desc: 1000 is not a power of two from 64 to 4096"),
            (&["ovs.emc_insert_inv_prob=1000001"], "1000001 is not from 0 to 1000000"),
        ] {
            let error = resolve(set).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        assert!(resolve(&["platform.nics=1", "ovs.topology=loop"]).is_ok());
        let threads = resolve(&["ovs.cores=2", "platform.harts=4", "platform.threads=2"]).unwrap();
        assert!(guest_words(&threads).ends_with(" doorbell.lcores=2"), "on the second core");
    }
}
