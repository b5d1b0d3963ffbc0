//! DPDK's l3fwd, its own example program: routes by longest prefix match, in the dpdk image.

use doorbell_machine::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::dpdk::{self, DpdkConfig};
use crate::plan::options::{Options, Setting};

/// It prints this when it begins to forward.
pub(crate) const READY_MARKER: &str = "entering main loop on lcore";

/// Its routes are for 198.18.0.0/15, which RFC 2544 sets apart for benchmarks: 198.18.N.0/24 is behind port N.
/// Its tables (16 M entries of the first lookup) take most of the memory.
pub(crate) const DEFAULTS: &[&str] = &["loadgen.traffic.destination_ip=198.18.0.1", "platform.ram=768MiB"];

/// Hugepages of 2 MiB: its tables for IPv4 (64 MiB and second lookups) and IPv6, 8192 packet buffers, and EAL's own.
const HUGEPAGES: u32 = 200;
/// The most that its --max-pkt-len takes, 9600 bytes with a VLAN tag.
const MTU_MAX: u32 = 9578;
/// Packet buffers that it has at least.
const MBUFS_MIN: u32 = 8192;
/// Packet buffers of 2.5 KiB in a hugepage.
const MBUFS_A_HUGEPAGE: u32 = 800;
/// Packet buffers that it has for a core besides those in its rings: bursts (MAX_PKT_BURST) on each port, and a cache.
const BURST_MBUFS: u32 = 512;
const CACHED_MBUFS: u32 = 512;

/// l3fwd's own options; those that it shares with other programs are in `dpdk`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct L3fwdConfig {
    /// Cores that forward, 1 to 16 (without this, one), each with a queue of its own each way on every port. l3fwd has RSS take addresses
    /// alone, so that flows must differ in these. More than one needs as many harts and NICs with as many queues
    /// (`nic.model = "82576"`).
    #[serde(skip_serializing_if = "cores::is_one")]
    pub cores: u32,
}

impl Default for L3fwdConfig {
    fn default() -> Self {
        L3fwdConfig { cores: 1 }
    }
}

impl Options for L3fwdConfig {
    const SECTION: &'static str = "l3fwd";
    const QUIET: bool = true;

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        cores::check("l3fwd.cores", self.cores, config)
    }

    fn follow(&self, config: &RunConfig) -> Vec<Setting> {
        cores::follow(self.cores, config)
    }
}

impl L3fwdConfig {
    /// Long rings and several cores' rings and caches have packet buffers beyond the 8192.
    fn hugepages(&self, config: &RunConfig) -> u32 {
        let [rxd, txd] = config.options::<DpdkConfig>().rings();
        let a_core = config.platform.nics * (rxd + txd + BURST_MBUFS) + CACHED_MBUFS;
        match self.cores {
            1 => HUGEPAGES + a_core.saturating_sub(MBUFS_MIN).div_ceil(MBUFS_A_HUGEPAGE),
            cores => HUGEPAGES + (cores * a_core).div_ceil(MBUFS_A_HUGEPAGE),
        }
    }
}

/// Whether the machine has room for its tables and packet buffers.
pub(crate) fn check(config: &RunConfig) -> Result<(), ConfigError> {
    let own = config.options::<L3fwdConfig>();
    dpdk::check_mtu(MTU_MAX, config)?;
    dpdk::check_ram(u64::from(own.hugepages(config)), config)
}

/// What the image's /init is told: among it, the stations behind the ports.
pub(crate) fn guest_words(config: &RunConfig) -> String {
    let own = config.options::<L3fwdConfig>();
    let stations = (0..config.platform.nics).map(|port| {
        let station = config.loadgen.traffic.for_port(port).source;
        format!(" doorbell.arg=--eth-dest={port},{station}")
    });
    let words = dpdk::words_of_cores("l3fwd", own.cores, config);
    let (hugepages, frames) = (own.hugepages(config), dpdk::frame_words(config));
    format!("{words} doorbell.hugepages={hugepages}{}{frames}", stations.collect::<String>())
}
