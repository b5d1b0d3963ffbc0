//! DPDK's example program l3fwd: routes by longest prefix match, in the dpdk image.

use doorbell_loadgen::Returned;
use doorbell_machine::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::benchmark::Benchmark;
use crate::measure::kinds::{DPDK, DPDK_PROGRAM};
use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::dpdk::{self, DpdkConfig};
use crate::plan::options::{Options, Section, Setting};

/// The benchmark.
pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "l3fwd",
    summary: "DPDK's l3fwd routes every frame by longest prefix match",
    // Printed by l3fwd when it starts forwarding.
    ready_marker: "entering main loop on lcore",
    guest_words,
    options: &[DPDK, Section::of::<L3fwdConfig>()],
    defaults: DEFAULTS,
    returned: |_| Returned::Routed,
    check,
    remark: |config| cores::remark_of_addresses("l3fwd.cores", config.options::<L3fwdConfig>().cores, config),
    ..DPDK_PROGRAM
};

/// l3fwd routes 198.18.0.0/15, which RFC 2544 reserves for benchmarks: 198.18.N.0/24 is behind port N.
/// Its tables (16 M first-level entries) take most of the memory.
const DEFAULTS: &[&str] = &["loadgen.traffic.destination_ip=198.18.0.1", "platform.ram=768MiB"];

/// Hugepages of 2 MiB: tables for IPv4 (64 MiB and second-level tables) and IPv6, 8192 packet buffers, and
/// EAL's own.
const HUGEPAGES: u32 = 200;
/// Maximum MTU: --max-pkt-len takes up to 9600 bytes, including header, FCS and a VLAN tag.
const MTU_MAX: u32 = 9578;
/// l3fwd's minimum number of packet buffers.
const MBUFS_MIN: u32 = 8192;
/// Packet buffers of 2.5 KiB per hugepage.
const MBUFS_PER_HUGEPAGE: u32 = 800;
/// Packet buffers per core in addition to its rings: bursts (MAX_PKT_BURST) on each port, and a cache.
const BURST_MBUFS: u32 = 512;
const CACHED_MBUFS: u32 = 512;

doorbell_sim::config! {
    /// l3fwd's own options; options shared with other programs are in `dpdk`.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct L3fwdConfig {
        /// Forwarding cores, 1 to 16 (1 if unset), each with its own receive and transmit queue on every
        /// port. l3fwd configures RSS to hash IP addresses only, so flows must differ in these. More than one
        /// core needs as many harts and NICs with as many queues (`nic.model = "82576"`).
        #[serde(skip_serializing_if = "cores::is_one")]
        pub cores: u32 = 1,
    }
}

impl Options for L3fwdConfig {
    const SECTION: &'static str = "l3fwd";
    const QUIET: bool = true;

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        cores::check("l3fwd.cores", self.cores, config)
    }

    fn required_settings(&self, config: &RunConfig) -> Vec<Setting> {
        cores::required_settings(self.cores, config)
    }
}

impl L3fwdConfig {
    /// Hugepages needed. Long rings, and the rings and caches of several cores, need more than 8192 packet
    /// buffers.
    fn hugepages(&self, config: &RunConfig) -> u32 {
        let [rxd, txd] = config.options::<DpdkConfig>().rings();
        let per_core = config.platform.nics * (rxd + txd + BURST_MBUFS) + CACHED_MBUFS;
        match self.cores {
            1 => HUGEPAGES + per_core.saturating_sub(MBUFS_MIN).div_ceil(MBUFS_PER_HUGEPAGE),
            cores => HUGEPAGES + (cores * per_core).div_ceil(MBUFS_PER_HUGEPAGE),
        }
    }
}

/// Checks that the machine has enough memory for the tables and packet buffers.
fn check(config: &RunConfig) -> Result<(), ConfigError> {
    let own = config.options::<L3fwdConfig>();
    dpdk::check_mtu(MTU_MAX, config)?;
    dpdk::check_ram(u64::from(own.hugepages(config)), config)
}

/// Kernel command-line words for the image's /init, including the MAC addresses of the stations behind the
/// ports.
fn guest_words(config: &RunConfig) -> String {
    let own = config.options::<L3fwdConfig>();
    let stations = (0..config.platform.nics).map(|port| {
        let station = config.loadgen.traffic.for_port(port).source;
        format!(" doorbell.arg=--eth-dest={port},{station}")
    });
    let words = dpdk::words_of_cores("l3fwd", own.cores, config);
    let (hugepages, frames) = (own.hugepages(config), dpdk::frame_words(config));
    format!("{words} doorbell.hugepages={hugepages}{}{frames}", stations.collect::<String>())
}
