//! Compute benchmark without I/O, for comparison: the performance of core and caches without a network.

use doorbell_machine::ConfigError;
use doorbell_sim::{Bytes, config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::benchmark::Benchmark;
use crate::measure::kinds::KERNEL_PROGRAM;
use crate::plan::config::RunConfig;
use crate::plan::options::{Options, Section};

/// The benchmark.
pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "compute",
    summary: "a loop without I/O walks through a table (compute.table), for comparison",
    guest_words,
    image: "dpdk",
    options: &[Section::of::<ComputeConfig>()],
    silent: true,
    ..KERNEL_PROGRAM
};

config! {
    /// compute's options.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct ComputeConfig {
        /// Size of the table that it walks through in random order, one cache line per step: 1 KiB to 1 GiB.
        pub table: Bytes = Bytes(256 << 10),
    }
}

impl Options for ComputeConfig {
    const SECTION: &'static str = "compute";

    fn validate(&self, _: &RunConfig) -> Result<(), ConfigError> {
        check_table("compute.table", self.table)
    }
}

/// Checks the size of a table for the program.
pub(crate) fn check_table(key: &str, table: Bytes) -> Result<(), ConfigError> {
    if (1 << 10..=1 << 30).contains(&table.0) && table.0.is_multiple_of(1 << 10) {
        return Ok(());
    }
    Err(ConfigError::new(key, format!("{table} is not from 1KiB to 1GiB in steps of 1KiB")))
}

/// Kernel command-line words for the image's /init.
fn guest_words(config: &RunConfig) -> String {
    format!(
        "doorbell.app=compute doorbell.hugepages=0 doorbell.arg=--table-kib={}",
        config.options::<ComputeConfig>().table.0 >> 10
    )
}
