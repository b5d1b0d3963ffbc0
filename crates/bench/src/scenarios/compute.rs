//! A program without input or output, for comparison: what the core and its caches do when no network is in the way.

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
    /// The table through which it walks, a line a step in random order: 1 KiB to 1 GiB.
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

/// What the image's /init is told.
pub(crate) fn guest_words(config: &RunConfig) -> String {
    format!(
        "doorbell.app=compute doorbell.hugepages=0 doorbell.arg=--table-kib={}",
        config.options::<ComputeConfig>().table.0 >> 10
    )
}

/// Nobody listens.
pub(crate) fn returned(_: &RunConfig) -> Returned {
    Returned::Any
}
