//! Options of DPDK programs, such as ring sizes and packet buffers, which decide the number of cache lines
//! that they touch. Each program receives the frames of all ports in bursts, on one core unless a key such as
//! `touch.cores` sets more ([`crate::plan::cores`]).

use doorbell_machine::ConfigError;
use doorbell_sim::{Bytes, config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::options::{self, Options, Setting};

/// Bytes of a hugepage.
pub(crate) const HUGEPAGE: u64 = 2 << 20;
/// Hugepages for EAL itself, as computed by the image's /init.
pub(crate) const EAL_HUGEPAGES: u64 = 11;
/// Ethernet's usual MTU.
pub(crate) const MTU: u32 = 1500;
/// Maximum MTU of the 82540EM's driver (`eth_em_infos_get`).
pub(crate) const MTU_MAX: u32 = 0x3f00 - FRAME_OVERHEAD;
/// Bytes of the Ethernet header and FCS, which the MTU does not include.
const HEADER_AND_FCS: u32 = 18;
/// Header, FCS and a VLAN tag, as DPDK's e1000 drivers add them to the MTU.
const FRAME_OVERHEAD: u32 = HEADER_AND_FCS + 4;
/// Number of ports that DPDK's e1000 drivers set up within the default `run.boot_timeout`: each takes up to
/// 0.5 s simulated.
const PORTS_WITHIN_TIMEOUT: u32 = 8;
/// Boot timeout for more ports than that.
const BOOT_TIMEOUT_MANY_PORTS: &str = "20s";
/// RAM for Linux and the program, in addition to hugepages.
const RAM_BASE: u64 = 128 << 20;

config! {
    /// Options of all DPDK programs, with testpmd's names.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct DpdkConfig {
        /// Receive descriptors (--rxd), 32 to 4096 in steps of 8.
        pub rxd: u32 = 1024,
        /// Transmit descriptors (--txd), 32 to 4096 in steps of 8.
        pub txd: u32 = 1024,
        /// Maximum frames per burst (--burst), 1 to 512.
        pub burst: u32 = 32,
        /// Packet buffers per NIC (--total-num-mbufs is their sum), 256 to 131072. Unset, enough to fill both
        /// rings, a burst and the caches of two cores, rounded up to a power of two and not below 4,096.
        /// Fewer buffers than these need are rejected. l3fwd ignores this key and computes its own number,
        /// 8,192 or more.
        pub mbufs: u32 = 4096,
        /// Packet buffers cached per core (--mbcache), 0 to 512.
        pub mbcache: u32 = 250,
        /// Transmit descriptors per request for a status write-back (--txrst), 1 to 4096. The 82540EM's
        /// driver accepts up to 32 and up to a quarter of `txd`; the smaller of the two is the default, and
        /// always l3fwd's value. The 82576's driver requests a write-back with each packet.
        pub txrst: u32 = 32,
        /// The ports' MTU, 1500 to 16106 bytes: a frame has 18 bytes more, and 4 more per VLAN tag. Unset,
        /// the MTU for the traffic's longest frame, and 1500 or more. A frame longer than a packet buffer
        /// (2,048 bytes) is scattered over several buffers. Only testpmd and l3fwd (up to 9578) support it;
        /// the other programs accept frames of up to 1,518 bytes.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub mtu: Option<u32> = None,
    }
}

impl Options for DpdkConfig {
    const SECTION: &'static str = "dpdk";

    fn required_settings(&self, config: &RunConfig) -> Vec<Setting> {
        let mut settings = Vec::new();
        if config.platform.nics > PORTS_WITHIN_TIMEOUT {
            settings.push(("run.boot_timeout", BOOT_TIMEOUT_MANY_PORTS.into()));
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
            options::check_range(key, value, least..=most)?;
        }
        for (key, value) in [("dpdk.rxd", self.rxd), ("dpdk.txd", self.txd)] {
            let problem = format!("{value} is not a multiple of 8, which the NIC requires");
            options::reject_if(value % 8 != 0, key, problem)?;
        }
        options::check_range("dpdk.mtu", self.mtu.unwrap_or(MTU), MTU..=MTU_MAX)?;
        self.check_mbufs()?;
        self.check_txrst(config)
    }
}

/// Flush threshold of a mempool cache, in halves of its size.
const CACHE_HALVES: u32 = 3;
/// Number of mempool caches: of the forwarding core, and of the main core, which fills the rings.
const CACHES: u32 = 2;
/// Maximum transmit descriptors after which the 82540EM's driver frees used ones.
const TX_FREE_MAX: u32 = 32;

impl DpdkConfig {
    /// Packet buffers that both rings, a burst and the caches of two cores can hold at once. With fewer, the
    /// driver may be unable to refill the receive ring, which then stalls.
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
            "{mbufs} are fewer than rings of {rxd} and {txd} descriptors, a burst of {burst} and caches of {mbcache} can hold, and without \
             free buffers a receive ring stalls; set {needed} or more, or leave it out"
        );
        Err(ConfigError::new("dpdk.mbufs", problem))
    }

    /// Maximum of `txrst`, as in `eth_em_tx_queue_setup` of DPDK's e1000 driver.
    fn txrst_max(&self) -> u32 {
        (self.txd / 4).clamp(1, TX_FREE_MAX)
    }

    fn check_txrst(&self, config: &RunConfig) -> Result<(), ConfigError> {
        let most = self.txrst_max();
        if self.txrst <= most || config.all_ports().all(|port| port.nic.model.driver() != "e1000") {
            return Ok(());
        }
        let problem = format!(
            "{} is more than the 82540EM's driver accepts with {} transmit descriptors; set {most} or less, or leave it out",
            self.txrst, self.txd
        );
        Err(ConfigError::new("dpdk.txrst", problem))
    }

    /// Descriptors of the receive and transmit rings.
    pub(crate) fn rings(&self) -> [u32; 2] {
        [self.rxd, self.txd]
    }

    /// Kernel command line words that pass these options to the images' /init.
    pub(crate) fn guest_words(&self, nics: u32) -> String {
        let DpdkConfig { rxd, txd, burst, mbufs, mbcache, txrst, .. } = self;
        let mbufs = mbufs * nics;
        format!(
            "doorbell.rxd={rxd} doorbell.txd={txd} doorbell.burst={burst} doorbell.mbufs={mbufs} \
             doorbell.mbcache={mbcache} doorbell.txrst={txrst}"
        )
    }
}

/// The ports' MTU: the configured one, or the MTU for the longest frame.
fn mtu(config: &RunConfig) -> u32 {
    let longest = config.loadgen.traffic.frame_size_max().0 as u32;
    let own = config.options::<DpdkConfig>().mtu;
    own.unwrap_or_else(|| longest.saturating_sub(HEADER_AND_FCS).max(MTU))
}

/// Argument of DPDK's example programs for an MTU above 1500, with a leading space; empty otherwise.
pub(crate) fn frame_words(config: &RunConfig) -> String {
    match mtu(config) {
        MTU => String::new(),
        mtu => format!(" doorbell.arg=--max-pkt-len={}", mtu + FRAME_OVERHEAD),
    }
}

/// Checks that the ports' MTU is within a program's maximum.
pub(crate) fn check_mtu(most: u32, config: &RunConfig) -> Result<(), ConfigError> {
    let key = match config.options::<DpdkConfig>().mtu {
        Some(_) => "dpdk.mtu",
        None => "loadgen.traffic.frame_size",
    };
    if mtu(config) <= most {
        return Ok(());
    }
    let others = if most == MTU { "; testpmd and l3fwd accept longer ones" } else { "" };
    let problem = format!("this program accepts frames of up to {}B{others}", most + HEADER_AND_FCS);
    Err(ConfigError::new(key, problem))
}

/// For programs that accept frames up to the driver's maximum length, as testpmd does: checks that length,
/// and the RAM for packet buffers of this number of cores.
pub(crate) fn check_jumbo_program(cores: u32, config: &RunConfig) -> Result<(), ConfigError> {
    check_mtu(MTU_MAX, config)?;
    check_buffers(cores, config)
}

/// For our own programs, which accept frames of standard length only: checks that length, and the RAM for
/// packet buffers of this number of cores.
pub(crate) fn check_own_program(cores: u32, config: &RunConfig) -> Result<(), ConfigError> {
    check_mtu(MTU, config)?;
    check_buffers(cores, config)
}

/// Hugepages for EAL and for the packet buffers of all cores, as the images' /init computes them: five per
/// 4,096 buffers.
pub(crate) fn hugepages(cores: u32, config: &RunConfig) -> u64 {
    let mbufs = u64::from(config.options::<DpdkConfig>().mbufs);
    let all = mbufs * u64::from(config.platform.nics) * u64::from(cores);
    EAL_HUGEPAGES + (all * 5).div_ceil(4096)
}

/// Checks that the guest has RAM for this number of hugepages.
pub(crate) fn check_ram(hugepages: u64, config: &RunConfig) -> Result<(), ConfigError> {
    let (ram, all) = (config.platform.ram, Bytes(hugepages * HUGEPAGE));
    let problem = format!("{ram} is too little for the {all} of hugepages that the program needs");
    options::check_ram("platform.ram", RAM_BASE + all.0, problem, config)
}

/// Checks that the guest has RAM for the packet buffers of this number of cores.
pub(crate) fn check_buffers(cores: u32, config: &RunConfig) -> Result<(), ConfigError> {
    check_ram(hugepages(cores, config), config)
}

/// Kernel command line words of a DPDK program on one core.
pub(crate) fn words(app: &str, config: &RunConfig) -> String {
    words_of_cores(app, 1, config)
}

/// Kernel command line words of a DPDK program on `count` cores, each with its own packet buffers.
pub(crate) fn words_of_cores(app: &str, count: u32, config: &RunConfig) -> String {
    let footprint = config.options::<DpdkConfig>().guest_words(config.platform.nics * count);
    format!("doorbell.app={app} {footprint}{}", cores::words(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::benchmark;
    use crate::request::resolve::on_fast;

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
    fn too_few_packet_buffers_are_rejected_with_the_required_number() {
        for (set, message) in [
            (&["dpdk.mbufs=2048"][..], "set 2830 or more"),
            (&["dpdk.mbufs=2829"], "set 2830 or more"),
            (&["dpdk.rxd=4096", "dpdk.mbufs=4096"], "4096 are fewer than rings of 4096 and 1024 descriptors"),
            (&["dpdk.mbufs=1024", "dpdk.rxd=512", "dpdk.txd=512", "dpdk.mbcache=0"], "set 1056 or more"),
        ] {
            let error = on_fast(set).unwrap_err();
            assert!(error.contains("dpdk.mbufs") && error.contains(message), "{error}");
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
    fn machine_without_ram_for_hugepages_is_rejected() {
        for (of, set, message) in [
            ("testpmd", &["dpdk.mbufs=100000"][..], "set platform.ram=448MiB"),
            ("l3fwd", &["platform.ram=512MiB"], "set platform.ram=576MiB"),
            ("memcached-dpdk", &["memcached_dpdk.memory=1GiB"], "set platform.ram=1216MiB"),
        ] {
            let config = on_fast(set).unwrap();
            let check = benchmark(of).unwrap().check;
            let error = check(&config).map_err(|error| error.to_string());
            assert!(error.as_ref().is_err_and(|error| error.contains(message)), "{of}: {error:?}");
        }
        let enough = on_fast(&["platform.ram=544MiB"]).unwrap();
        assert!((benchmark("l3fwd").unwrap().check)(&enough).is_ok());
    }
}
