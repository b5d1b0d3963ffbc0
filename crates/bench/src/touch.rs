//! touchfwd and touchdrop, which read every byte of each frame (`guest/programs`), in the dpdk image.

use doorbell_machine::ConfigError;
use doorbell_sim::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::RunConfig;
use crate::dpdk;
use crate::options::Options;

/// What touchfwd and touchdrop have beside the other DPDK programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TouchConfig {
    /// Bytes that each load of a frame takes, 1B or 8B: 1B as in a loop over bytes.
    pub load: Bytes,
    /// Before a frame is read, the first line of the next one of its burst is asked for by a prefetch instruction, as
    /// `rte_prefetch0` does in the study's TouchFwd and TouchDrop (github.com/agsiddharth/CAL-DPDK-GEM5, app/test-pmd, touchfwd.c
    /// and rxonly.c).
    pub prefetch: bool,
}

impl Default for TouchConfig {
    fn default() -> Self {
        TouchConfig { load: Bytes(1), prefetch: true }
    }
}

impl Options for TouchConfig {
    const SECTION: &'static str = "touch";

    fn validate(&self, _: &RunConfig) -> Result<(), ConfigError> {
        match self.load.0 {
            1 | 8 => Ok(()),
            _ => Err(ConfigError::new("touch.load", format!("\"{}\" is neither 1B nor 8B", self.load))),
        }
    }
}

fn touching(app: &str, config: &RunConfig) -> String {
    let TouchConfig { load, prefetch } = config.options();
    let (load, prefetch) = (load.0, u8::from(*prefetch));
    format!(
        "{} doorbell.arg=--load-bytes={load} doorbell.arg=--prefetch={prefetch}",
        dpdk::words(app, config)
    )
}

/// What the image's /init is told.
pub(crate) fn touchfwd(config: &RunConfig) -> String {
    touching("touchfwd", config)
}

/// What the image's /init is told.
pub(crate) fn touchdrop(config: &RunConfig) -> String {
    touching("touchdrop", config)
}
