//! touchfwd: reads every byte of each frame and sends it back (`guest/programs`), in the dpdk image.

use doorbell_machine::ConfigError;
use doorbell_sim::{Bytes, config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::benchmark::Benchmark;
use crate::measure::kinds::{DPDK, DPDK_PROGRAM};
use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::dpdk;
use crate::plan::options::{Options, Section, Setting};
use crate::plan::worker::{self, Work};

/// The benchmark.
pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "touchfwd",
    summary: "reads every byte of each frame, then sends it back",
    guest_words,
    options: &[DPDK, Section::of::<TouchConfig>()],
    check: |config| dpdk::check_own_program(config.options::<TouchConfig>().cores, config),
    remark: |config| cores::remark("touch.cores", config.options::<TouchConfig>().cores, config),
    ..DPDK_PROGRAM
};

config! {
    /// Options of touchfwd and touchdrop, in addition to those in `dpdk`.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct TouchConfig {
        /// Width of each load from a frame, 1B or 8B: 1B as in a loop over bytes.
        pub load: Bytes = Bytes(1),
        /// Before a frame is read, the first line of the burst's next frame is prefetched, as `rte_prefetch0`
        /// does in the study's TouchFwd and TouchDrop (github.com/agsiddharth/CAL-DPDK-GEM5, app/test-pmd,
        /// touchfwd.c and rxonly.c).
        pub prefetch: bool = true,
        /// Cores, 1 to 16 (1 if unset), each with its own receive and transmit queue on every port. RSS
        /// spreads flows over the queues (`--flows 1000`). More than one needs as many harts and NICs with as
        /// many queues (`nic.model = "82576"`). `dpdk.mbufs` is per core.
        #[serde(skip_serializing_if = "cores::is_one")]
        pub cores: u32 = 1,
    }
}

impl Options for TouchConfig {
    const SECTION: &'static str = "touch";

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        match self.load.0 {
            1 | 8 => cores::check("touch.cores", self.cores, config),
            _ => Err(ConfigError::new("touch.load", format!("\"{}\" is neither 1B nor 8B", self.load))),
        }
    }

    fn required_settings(&self, config: &RunConfig) -> Vec<Setting> {
        cores::required_settings(self.cores, config)
    }
}

impl TouchConfig {
    /// Command-line words for load width and prefetch.
    pub(crate) fn words(&self) -> String {
        let (load, prefetch) = (self.load.0, u8::from(self.prefetch));
        format!(" doorbell.arg=--load-bytes={load} doorbell.arg=--prefetch={prefetch}")
    }
}

/// Kernel command-line words of touchfwd or touchdrop.
pub(crate) fn words(app: &str, work: Work, config: &RunConfig) -> String {
    let own = config.options::<TouchConfig>();
    worker::words(app, work, own.cores, config) + &own.words()
}

/// Kernel command-line words for the image's /init.
pub(crate) fn guest_words(config: &RunConfig) -> String {
    words("touchfwd", Work::TouchFwd, config)
}
