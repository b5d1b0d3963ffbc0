//! The DPDK programs of the dpdk image, and the options that decide how many cache lines a DPDK program touches. Each takes
//! every frame of every port in bursts, with one core unless `touch.cores` and its like name more ([`crate::plan::cores`]).

use doorbell_loadgen::Returned;
use doorbell_machine::ConfigError;
use doorbell_nic::NicModel;
use doorbell_sim::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::options::{self, Options, Setting};

/// Our own programs print this when their ports are up.
pub(crate) const READY_MARKER: &str = "doorbell: ready";
/// Bytes of a hugepage.
pub(crate) const HUGEPAGE: u64 = 2 << 20;
/// Hugepages for EAL itself, as the image's /init reckons.
pub(crate) const EAL_HUGEPAGES: u64 = 11;
/// Ethernet's usual MTU.
pub(crate) const MTU: u32 = 1500;
/// The most that the 82540EM's driver takes (`eth_em_infos_get`).
pub(crate) const MTU_MAX: u32 = 0x3f00 - FRAME_BESIDE;
/// What a frame has beside what the MTU counts: header and FCS, and behind it a VLAN tag, as DPDK's e1000 drivers reckon.
const HEADER_AND_FCS: u32 = 18;
const FRAME_BESIDE: u32 = HEADER_AND_FCS + 4;
/// Ports that DPDK's e1000 drivers set up within the default `run.boot_timeout`: each takes up to half a simulated second.
const PORTS_IN_TIME: u32 = 8;
/// As much as more ports need.
const BOOT_TIMEOUT_OF_MANY: &str = "20s";
/// What Linux and a program need beside hugepages.
const RAM_BESIDE: u64 = 128 << 20;

/// The options that all DPDK programs have, under testpmd's names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DpdkConfig {
    /// Receive descriptors (--rxd), 32 to 4096 in steps of 8.
    pub rxd: u32,
    /// Transmit descriptors (--txd), 32 to 4096 in steps of 8.
    pub txd: u32,
    /// Frames taken at once (--burst), 1 to 512.
    pub burst: u32,
    /// Packet buffers for each NIC (--total-num-mbufs is their sum), 256 to 131072. Without this as many as fill both rings, a burst and
    /// caches of two cores, to the next power of two, and 4,096 at least; fewer than these need are refused. l3fwd reckons for itself,
    /// with 8,192 at least, whatever this says.
    pub mbufs: u32,
    /// Packet buffers cached by a core (--mbcache), 0 to 512.
    pub mbcache: u32,
    /// Transmit descriptors between requests for a status write-back (--txrst), 1 to 4096. The 82540EM's driver takes at most 32 and a
    /// quarter of `txd`, which are its default and l3fwd's whatever this says; the 82576's asks for one with each packet.
    pub txrst: u32,
    /// The ports' MTU, 1500 to 16106 bytes: a frame has 18 more, and 4 for each VLAN tag. Unset, as much as the traffic's longest frame needs,
    /// and 1500 at least. A frame that is longer than a packet buffer (2,048 bytes) is scattered over several. testpmd and l3fwd have it
    /// (l3fwd up to 9578); the other programs take frames of up to 1,518 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
}

impl Default for DpdkConfig {
    fn default() -> Self {
        DpdkConfig { rxd: 1024, txd: 1024, burst: 32, mbufs: 4096, mbcache: 250, txrst: 32, mtu: None }
    }
}

impl Options for DpdkConfig {
    const SECTION: &'static str = "dpdk";

    fn follow(&self, config: &RunConfig) -> Vec<Setting> {
        let mut settings = Vec::new();
        if config.platform.nics > PORTS_IN_TIME {
            settings.push(("run.boot_timeout", BOOT_TIMEOUT_OF_MANY.into()));
        }
        let mbufs = self.mbufs_needed().next_power_of_two();
        if mbufs > self.mbufs {
            settings.push(("dpdk.mbufs", i64::from(mbufs).into()));
        }
        if self.txrst > self.txrst_max() {
            settings.push(("dpdk.txrst", i64::from(self.txrst_max()).into()));
        }
        settings
    }

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        let ranges = [
            ("dpdk.rxd", self.rxd, 32, 4096),
            ("dpdk.txd", self.txd, 32, 4096),
            ("dpdk.burst", self.burst, 1, 512),
            ("dpdk.mbufs", self.mbufs, 256, 1 << 17),
            ("dpdk.mbcache", self.mbcache, 0, 512),
            ("dpdk.txrst", self.txrst, 1, 4096),
        ];
        for (key, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(ConfigError::new(key, format!("{value} is not from {least} to {most}")));
            }
        }
        for (key, value) in [("dpdk.rxd", self.rxd), ("dpdk.txd", self.txd)] {
            if value % 8 != 0 {
                let problem = format!("{value} is not a multiple of 8, as the NIC demands");
                return Err(ConfigError::new(key, problem));
            }
        }
        if let Some(mtu) = self.mtu.filter(|mtu| !(MTU..=MTU_MAX).contains(mtu)) {
            return Err(ConfigError::new("dpdk.mtu", format!("{mtu} is not from {MTU} to {MTU_MAX}")));
        }
        self.check_mbufs()?;
        self.check_txrst(config)
    }
}

/// How many times its size a mempool's cache may hold before it is flushed, in halves.
const CACHE_HALVES: u32 = 3;
/// A core that forwards has a cache, and so has the main one, which fills the rings.
const CACHES: u32 = 2;
/// Most transmit descriptors that the 82540EM's driver lets pass before it frees some.
const TX_FREE_MAX: u32 = 32;

impl DpdkConfig {
    /// Packet buffers that both rings, a burst and caches of two cores can hold at once. With fewer, the driver may find none for the receive
    /// ring, which then stands still.
    fn mbufs_needed(&self) -> u32 {
        let caches = [self.mbcache; CACHES as usize].into_iter().fold(0u32, u32::saturating_add);
        let caches = caches.saturating_mul(CACHE_HALVES).div_ceil(2);
        [self.rxd, self.txd, self.burst, caches].into_iter().fold(0, u32::saturating_add)
    }

    fn check_mbufs(&self) -> Result<(), ConfigError> {
        let needed = self.mbufs_needed();
        if self.mbufs >= needed {
            return Ok(());
        }
        let DpdkConfig { rxd, txd, burst, mbufs, mbcache, .. } = self;
        let problem = format!(
            "{mbufs} are fewer than rings of {rxd} and {txd} descriptors, a burst of {burst} and caches of {mbcache} hold, and without \
             buffers a receive ring stands still; set {needed} or more, or leave it out"
        );
        Err(ConfigError::new("dpdk.mbufs", problem))
    }

    /// As `eth_em_tx_queue_setup` of DPDK's e1000 driver has it.
    fn txrst_max(&self) -> u32 {
        (self.txd / 4).clamp(1, TX_FREE_MAX)
    }

    fn check_txrst(&self, config: &RunConfig) -> Result<(), ConfigError> {
        let most = self.txrst_max();
        if self.txrst <= most || config.ports().all(|port| port.nic.model != NicModel::E82540em) {
            return Ok(());
        }
        let problem = format!(
            "{} is more than the 82540EM's driver takes with {} transmit descriptors; set {most} or less, or leave it out",
            self.txrst, self.txd
        );
        Err(ConfigError::new("dpdk.txrst", problem))
    }

    /// Descriptors of the receive and transmit rings.
    pub(crate) fn rings(&self) -> [u32; 2] {
        [self.rxd, self.txd]
    }

    /// What the images' /init is told of them.
    pub(crate) fn guest_words(&self, nics: u32) -> String {
        let DpdkConfig { rxd, txd, burst, mbufs, mbcache, txrst, .. } = self;
        let mbufs = mbufs * nics;
        format!(
            "doorbell.rxd={rxd} doorbell.txd={txd} doorbell.burst={burst} doorbell.mbufs={mbufs} \
             doorbell.mbcache={mbcache} doorbell.txrst={txrst}"
        )
    }
}

/// The ports' MTU: what is set, or what the longest frame needs.
fn mtu(config: &RunConfig) -> u32 {
    let longest = config.loadgen.traffic.frame_size_max().0 as u32;
    let own = config.options::<DpdkConfig>().mtu;
    own.unwrap_or_else(|| longest.saturating_sub(HEADER_AND_FCS).max(MTU))
}

/// The argument of DPDK's own programs for an MTU above the usual one, with a space before it.
pub(crate) fn frame_words(config: &RunConfig) -> String {
    match mtu(config) {
        MTU => String::new(),
        mtu => format!(" doorbell.arg=--max-pkt-len={}", mtu + FRAME_BESIDE),
    }
}

/// Whether a program takes frames of the ports' MTU.
pub(crate) fn check_mtu(most: u32, config: &RunConfig) -> Result<(), ConfigError> {
    let key = match config.options::<DpdkConfig>().mtu {
        Some(_) => "dpdk.mtu",
        None => "loadgen.traffic.frame_size",
    };
    if mtu(config) <= most {
        return Ok(());
    }
    let others = if most == MTU { "; testpmd and l3fwd take longer ones" } else { "" };
    let problem = format!("this program takes frames of up to {}B{others}", most + HEADER_AND_FCS);
    Err(ConfigError::new(key, problem))
}

/// Whether testpmd can run with packet buffers for this number of cores. It takes frames as long as the driver does.
pub(crate) fn check_longer(cores: u32, config: &RunConfig) -> Result<(), ConfigError> {
    check_mtu(MTU_MAX, config)?;
    check_buffers(cores, config)
}

/// Whether one of our own programs can run with packet buffers for this number of cores.
pub(crate) fn check_own(cores: u32, config: &RunConfig) -> Result<(), ConfigError> {
    check_mtu(MTU, config)?;
    check_buffers(cores, config)
}

/// Hugepages for the packet buffers of all cores, as the images' /init computes them: five for 4,096, and EAL's own.
pub(crate) fn hugepages(cores: u32, config: &RunConfig) -> u64 {
    let mbufs = u64::from(config.options::<DpdkConfig>().mbufs);
    let all = mbufs * u64::from(config.platform.nics) * u64::from(cores);
    EAL_HUGEPAGES + (all * 5).div_ceil(4096)
}

/// Whether the guest has room for this number of hugepages.
pub(crate) fn check_ram(hugepages: u64, config: &RunConfig) -> Result<(), ConfigError> {
    let Some(set) = options::more_ram(RAM_BESIDE + hugepages * HUGEPAGE, config) else { return Ok(()) };
    let problem = format!(
        "{} has no room for the {} of hugepages that the program needs; {set}",
        config.platform.ram,
        Bytes(hugepages * HUGEPAGE)
    );
    Err(ConfigError::new("platform.ram", problem))
}

/// Whether the guest has room for the packet buffers of this number of cores.
pub(crate) fn check_buffers(cores: u32, config: &RunConfig) -> Result<(), ConfigError> {
    check_ram(hugepages(cores, config), config)
}

/// What every DPDK program of the image is told.
pub(crate) fn words(app: &str, config: &RunConfig) -> String {
    words_of_cores(app, 1, config)
}

/// What one is told on so many cores, each with packet buffers of its own.
pub(crate) fn words_of_cores(app: &str, count: u32, config: &RunConfig) -> String {
    let footprint = config.options::<DpdkConfig>().guest_words(config.platform.nics * count);
    format!("doorbell.app={app} {footprint}{}", cores::words(count))
}

/// Addresses exchanged, as by testpmd.
pub(crate) fn swapped(_: &RunConfig) -> Returned {
    Returned::MacSwap
}

/// Routed.
pub(crate) fn routed(_: &RunConfig) -> Returned {
    Returned::Routed
}

/// Nothing: frames are delivered when they are in memory.
pub(crate) fn kept(_: &RunConfig) -> Returned {
    Returned::Sink
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::resolve::on_fast;
    use crate::scenarios::registry::benchmark;

    fn of(set: &[&str]) -> DpdkConfig {
        on_fast(set).unwrap().options::<DpdkConfig>().clone()
    }

    #[test]
    fn packet_buffers_follow_from_the_rings() {
        for (set, mbufs) in [
            (&[][..], 4096),
            (&["dpdk.rxd=2048"], 4096),
            (&["dpdk.rxd=3072"], 8192),
            (&["dpdk.rxd=4096"], 8192),
            (&["dpdk.rxd=4096", "dpdk.txd=4096"], 16_384),
            (&["dpdk.rxd=4096", "dpdk.mbufs=6000"], 6000),
            (&["dpdk.rxd=64", "dpdk.txd=128", "dpdk.mbcache=0", "dpdk.mbufs=256"], 256),
        ] {
            assert_eq!(of(set).mbufs, mbufs, "{set:?}");
        }
    }

    #[test]
    fn a_pool_that_is_smaller_than_what_rings_hold_is_refused_with_the_number() {
        for (set, says) in [
            (&["dpdk.mbufs=2048"][..], "set 2830 or more"),
            (&["dpdk.mbufs=2829"], "set 2830 or more"),
            (&["dpdk.rxd=4096", "dpdk.mbufs=4096"], "4096 are fewer than rings of 4096 and 1024 descriptors"),
            (&["dpdk.mbufs=1024", "dpdk.rxd=512", "dpdk.txd=512", "dpdk.mbcache=0"], "set 1056 or more"),
        ] {
            let error = on_fast(set).unwrap_err();
            assert!(error.contains("dpdk.mbufs") && error.contains(says), "{error}");
        }
        assert_eq!(of(&["dpdk.mbufs=2830"]).mbufs, 2830);
    }

    #[test]
    fn the_write_back_threshold_follows_from_the_transmit_ring() {
        for (txd, txrst) in [(32, 8), (64, 16), (96, 24), (128, 32), (4096, 32)] {
            assert_eq!(of(&[&format!("dpdk.txd={txd}")]).txrst, txrst);
            let more = [&*format!("dpdk.txd={txd}"), &format!("dpdk.txrst={}", txrst + 1)];
            let error = on_fast(&more).unwrap_err();
            assert!(
                error.contains("dpdk.txrst") && error.contains(&format!("set {txrst} or less")),
                "{error}"
            );
            // The 82576's driver does not use it.
            on_fast(&[more[0], more[1], "nic.model=82576"]).unwrap();
        }
    }

    #[test]
    fn the_mtu_follows_from_the_longest_frame() {
        let words = |of: &str, set: &[&str]| benchmark(of).unwrap().workload(&on_fast(set).unwrap()).words;
        let jumbo = "loadgen.traffic.frame_size=9018B";
        for of in ["testpmd", "l3fwd"] {
            assert!(!words(of, &[]).contains("max-pkt-len"));
            assert!(!words(of, &["loadgen.traffic.frame_size=1518B"]).contains("max-pkt-len"));
            assert!(words(of, &[jumbo]).contains(" doorbell.arg=--max-pkt-len=9022"));
            assert!(words(of, &[jumbo, "dpdk.mtu=2000"]).contains("--max-pkt-len=2022"));
        }
        let streams = "loadgen.traffic.streams=[{size=\"4000B\"}]";
        assert!(words("testpmd", &[streams]).contains("--max-pkt-len=4004"));
        assert!(
            on_fast(&["dpdk.mtu=1499"]).unwrap_err().contains("dpdk.mtu: 1499 is not from 1500 to 16106")
        );
        for (of, set, refused) in [
            ("touchfwd", jumbo, true),
            ("rxptx", "dpdk.mtu=9000", true),
            ("pipeline", jumbo, true),
            ("touchdrop", "loadgen.traffic.frame_size=1518B", false),
            ("l3fwd", "loadgen.traffic.frame_size=9596B", false),
            ("l3fwd", "loadgen.traffic.frame_size=9597B", true),
            ("testpmd", "loadgen.traffic.frame_size=16124B", false),
            ("testpmd", "loadgen.traffic.frame_size=16125B", true),
        ] {
            let config = on_fast(&[set, "platform.ram=768MiB"]).unwrap();
            assert_eq!((benchmark(of).unwrap().check)(&config).is_err(), refused, "{of} {set}");
        }
    }

    #[test]
    fn a_machine_without_room_for_hugepages_is_refused() {
        for (of, set, says) in [
            ("testpmd", &["dpdk.mbufs=100000"][..], "set platform.ram=448MiB"),
            ("l3fwd", &["platform.ram=512MiB"], "set platform.ram=576MiB"),
            ("memcached-dpdk", &["memcached_dpdk.memory=1GiB"], "set platform.ram=1216MiB"),
        ] {
            let config = on_fast(set).unwrap();
            let check = benchmark(of).unwrap().check;
            let error = check(&config).map_err(|error| error.to_string());
            assert!(error.as_ref().is_err_and(|error| error.contains(says)), "{of}: {error:?}");
        }
        let fits = on_fast(&["platform.ram=544MiB"]).unwrap();
        assert!((benchmark("l3fwd").unwrap().check)(&fits).is_ok());
    }
}
