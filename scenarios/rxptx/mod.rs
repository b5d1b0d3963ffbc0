//! rxptx benchmark: receives a burst, works for a set time, and sends the burst back (`guest/programs`), in
//! the dpdk image.

use doorbell_machine::ConfigError;
use doorbell_sim::{Ps, config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::benchmark::Benchmark;
use crate::measure::kinds::{DPDK, DPDK_PROGRAM};
use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::dpdk;
use crate::plan::options::{self, Options, Section, Setting};
use crate::plan::worker::{self, Work};

/// The benchmark.
pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "rxptx",
    summary: "receives a burst, works for a set time (rxptx.work), and sends the burst back",
    guest_words,
    options: &[DPDK, Section::of::<RxptxConfig>()],
    pause: |config| config.options::<RxptxConfig>().work,
    check: |config| dpdk::check_own_program(config.options::<RxptxConfig>().cores, config),
    remark: |config| cores::remark("rxptx.cores", config.options::<RxptxConfig>().cores, config),
    ..DPDK_PROGRAM
};

/// Maximum work per burst. With more, no frame returns within a trial of usual length.
const WORK_MAX: Ps = Ps::from_ms(100);

config! {
    /// rxptx's own options.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct RxptxConfig {
        /// Time of work per burst, regardless of its size, up to 100 ms by DPDK's clock
        /// (`platform.timebase`).
        pub work: Ps = Ps::from_ns(10),
        /// Cores, 1 to 16 (1 if unset), each with its own receive and transmit queue on every port. RSS
        /// spreads flows over the queues (`--flows 1000`). More than one needs as many harts and NICs with as
        /// many queues (`nic.model = "82576"`). `dpdk.mbufs` is per core.
        #[serde(skip_serializing_if = "cores::is_one")]
        pub cores: u32 = 1,
    }
}

impl Options for RxptxConfig {
    const SECTION: &'static str = "rxptx";

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        let problem = format!("\"{}\" is not from 0ns to {WORK_MAX} in steps of 1ns", self.work);
        options::reject_if(
            self.work > WORK_MAX || !self.work.0.is_multiple_of(Ps::from_ns(1).0),
            "rxptx.work",
            problem,
        )?;
        cores::check("rxptx.cores", self.cores, config)
    }

    fn required_settings(&self, config: &RunConfig) -> Vec<Setting> {
        cores::required_settings(self.cores, config)
    }
}

/// Kernel command-line words for the image's /init.
fn guest_words(config: &RunConfig) -> String {
    let own = config.options::<RxptxConfig>();
    let words = worker::words("rxptx", Work::Wait, own.cores, config);
    format!("{words} doorbell.arg=--work-ns={}", own.work.0 / Ps::from_ns(1).0)
}
