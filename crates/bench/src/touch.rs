//! touchfwd and touchdrop, which read every byte of each frame (`guest/programs`), in the dpdk image.

use doorbell_machine::ConfigError;
use doorbell_sim::Bytes;
use serde::{Deserialize, Serialize};

use crate::config::RunConfig;
use crate::dpdk;
use crate::options::Options;

/// What touchfwd and touchdrop have beside the other DPDK programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TouchConfig {
    /// Bytes that each load of a frame takes: 1, as in a loop over bytes, or 8.
    pub load: Bytes,
}

impl Default for TouchConfig {
    fn default() -> Self {
        TouchConfig { load: Bytes(1) }
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
    let load = config.options::<TouchConfig>().load.0;
    format!("{} doorbell.arg=--load-bytes={load}", dpdk::words(app, config))
}

/// What the image's /init is told.
pub(crate) fn touchfwd(config: &RunConfig) -> String {
    touching("touchfwd", config)
}

/// What the image's /init is told.
pub(crate) fn touchdrop(config: &RunConfig) -> String {
    touching("touchdrop", config)
}
