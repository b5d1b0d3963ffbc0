//! Compute benchmark without I/O, for comparison: the performance of core and caches without a network.

use doorbell_loadgen::Returned;
use doorbell_machine::ConfigError;
use doorbell_sim::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::config::RunConfig;
use crate::plan::options::Options;

/// compute's options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ComputeConfig {
    /// Size of the table that it walks through in random order, one cache line per step: 1 KiB to 1 GiB.
    pub table: Bytes,
}

impl Default for ComputeConfig {
    fn default() -> Self {
        ComputeConfig { table: Bytes(256 << 10) }
    }
}

impl Options for ComputeConfig {
    const SECTION: &'static str = "compute";

    fn validate(&self, _: &RunConfig) -> Result<(), ConfigError> {
        let Bytes(bytes) = self.table;
        if !(1 << 10..=1 << 30).contains(&bytes) || !bytes.is_multiple_of(1 << 10) {
            let problem = format!("\"{}\" is not from 1KiB to 1GiB in steps of 1KiB", self.table);
            return Err(ConfigError::new("compute.table", problem));
        }
        Ok(())
    }
}

/// Kernel command-line words for the image's /init.
pub(crate) fn guest_words(config: &RunConfig) -> String {
    format!(
        "doorbell.app=compute doorbell.hugepages=0 doorbell.arg=--table-kib={}",
        config.options::<ComputeConfig>().table.0 >> 10
    )
}

/// No frames are sent, so no modification is expected.
pub(crate) fn returned(_: &RunConfig) -> Returned {
    Returned::Any
}
