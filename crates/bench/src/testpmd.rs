//! DPDK's testpmd, unmodified: every frame goes back out of the port it came in by, or out of the other of a pair.

use doorbell_loadgen::Returned;
use doorbell_machine::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::RunConfig;
use crate::dpdk::DpdkConfig;
use crate::options::Options;

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
}

impl Default for TestpmdConfig {
    fn default() -> Self {
        TestpmdConfig { mode: ForwardMode::MacSwap, topology: Topology::Loop }
    }
}

impl Options for TestpmdConfig {
    const SECTION: &'static str = "testpmd";

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        if self.topology == Topology::Paired && !config.platform.nics.is_multiple_of(2) {
            let problem = "\"paired\" needs an even number of platform.nics";
            return Err(ConfigError::new("testpmd.topology", problem));
        }
        Ok(())
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
    let footprint = config.options::<DpdkConfig>().guest_words(config.platform.nics);
    format!("doorbell.app=testpmd doorbell.mode={mode} {footprint}{topology}")
}

/// What the load generator expects back.
pub(crate) fn returned(config: &RunConfig) -> Returned {
    match config.options::<TestpmdConfig>().mode {
        ForwardMode::Io => Returned::AsSent,
        ForwardMode::MacSwap => Returned::MacSwap,
    }
}
