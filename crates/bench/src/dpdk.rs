//! The DPDK programs of the dpdk image, and the options that decide how many cache lines a DPDK program touches. Each takes
//! every frame of every port in bursts, with one core unless it is told of more ([`crate::cores`]).

use doorbell_loadgen::Returned;
use doorbell_machine::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::RunConfig;
use crate::cores;
use crate::options::Options;

/// Our own programs print this when their ports are up.
pub(crate) const READY_MARKER: &str = "doorbell: ready";
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
    /// Packet buffers for each NIC (--total-num-mbufs is their sum), 256 to 131072. 2,048 would starve rings of 1024. l3fwd has 8,192
    /// at least, whatever this says.
    pub mbufs: u32,
    /// Packet buffers cached by a core (--mbcache), 0 to 512.
    pub mbcache: u32,
    /// Transmit descriptors between requests for a status write-back (--txrst), 1 to 4096; 32 is the driver's default, and l3fwd's
    /// whatever this says.
    pub txrst: u32,
}

impl Default for DpdkConfig {
    fn default() -> Self {
        DpdkConfig { rxd: 1024, txd: 1024, burst: 32, mbufs: 4096, mbcache: 250, txrst: 32 }
    }
}

impl Options for DpdkConfig {
    const SECTION: &'static str = "dpdk";

    fn validate(&self, _: &RunConfig) -> Result<(), ConfigError> {
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
        Ok(())
    }
}

impl DpdkConfig {
    /// Descriptors of the receive and transmit rings.
    pub(crate) fn rings(&self) -> [u32; 2] {
        [self.rxd, self.txd]
    }

    /// What the images' /init is told of them.
    pub(crate) fn guest_words(&self, nics: u32) -> String {
        let DpdkConfig { rxd, txd, burst, mbufs, mbcache, txrst } = self;
        let mbufs = mbufs * nics;
        format!(
            "doorbell.rxd={rxd} doorbell.txd={txd} doorbell.burst={burst} doorbell.mbufs={mbufs} \
             doorbell.mbcache={mbcache} doorbell.txrst={txrst}"
        )
    }
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
