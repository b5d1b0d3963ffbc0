//! DPDK's testpmd, unmodified: every frame goes back out of the port it came in by, or out of the other of a pair.

use doorbell_loadgen::Returned;
use doorbell_machine::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::RunConfig;
use crate::cores;
use crate::dpdk::{self, DpdkConfig};
use crate::options::{Options, Setting};

/// testpmd prints this when it forwards and waits for a key.
pub(crate) const READY_MARKER: &str = "Press enter to exit";

/// What testpmd does with frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ForwardMode {
    /// Sends frames back as they came.
    Io,
    /// Sends frames back with the addresses exchanged.
    MacSwap,
}

/// By which port a frame leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// By the one that it came in by.
    Loop,
    /// By the other one of a pair: ports 0 and 1, 2 and 3 and so on.
    Paired,
}

/// testpmd's own options; those that it shares with other programs are in `dpdk`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TestpmdConfig {
    /// What it does with frames.
    pub mode: ForwardMode,
    /// By which port frames leave (--port-topology).
    pub topology: Topology,
    /// Cores that forward, 1 to 16 (without this, one), each with a queue of its own each way on every port: RSS spreads flows over them, and plain traffic is
    /// one flow (`--flows 1000`). More than one needs as many harts and NICs with as many queues (`nic.model = "82576"`); each
    /// core has `dpdk.mbufs` of its own.
    #[serde(skip_serializing_if = "cores::is_one")]
    pub cores: u32,
}

impl Default for TestpmdConfig {
    fn default() -> Self {
        TestpmdConfig { mode: ForwardMode::MacSwap, topology: Topology::Loop, cores: 1 }
    }
}

impl Options for TestpmdConfig {
    const SECTION: &'static str = "testpmd";

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        if self.topology == Topology::Paired && !config.platform.nics.is_multiple_of(2) {
            let problem = "\"paired\" needs an even number of platform.nics";
            return Err(ConfigError::new("testpmd.topology", problem));
        }
        cores::check("testpmd.cores", self.cores, config)
    }

    fn follow(&self, config: &RunConfig) -> Vec<Setting> {
        cores::follow(self.cores, config)
    }
}

impl TestpmdConfig {
    /// What more than one core is told: lcore 0 is the main one, on the first hart beside the first that forwards.
    fn core_words(&self) -> String {
        let cores = self.cores;
        if cores == 1 {
            return String::new();
        }
        let lcores: String = (0..cores).map(|core| format!(",{}@{core}", core + 1)).collect();
        format!(
            " doorbell.cores={cores} doorbell.lcores=0@0{lcores} doorbell.arg=--rxq={cores} doorbell.arg=--txq={cores} \
             doorbell.arg=--rss-udp"
        )
    }
}

/// What the image's /init is told.
pub(crate) fn guest_words(config: &RunConfig) -> String {
    let own = config.options::<TestpmdConfig>();
    let mode = match own.mode {
        ForwardMode::Io => "io",
        ForwardMode::MacSwap => "macswap",
    };
    let topology = match own.topology {
        Topology::Loop => "",
        Topology::Paired => " doorbell.topology=paired",
    };
    let footprint = config.options::<DpdkConfig>().guest_words(config.platform.nics * own.cores);
    let (cores, frames) = (own.core_words(), dpdk::frame_words(config));
    format!("doorbell.app=testpmd doorbell.mode={mode} {footprint}{topology}{cores}{frames}")
}

/// What the load generator expects back.
pub(crate) fn returned(config: &RunConfig) -> Returned {
    match config.options::<TestpmdConfig>().mode {
        ForwardMode::Io => Returned::AsSent,
        ForwardMode::MacSwap => Returned::MacSwap,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::on_fast;

    #[test]
    fn the_main_core_is_on_the_hart_of_the_first_that_forwards() {
        assert!(!guest_words(&on_fast(&[]).unwrap()).contains("lcores"));
        let four = ["testpmd.cores=4", "platform.harts=4", "nic.model=82576"];
        let words = guest_words(&on_fast(&four).unwrap());
        assert!(words.contains("doorbell.lcores=0@0,1@0,2@1,3@2,4@3 doorbell.arg=--rxq=4"), "{words}");
    }
}
