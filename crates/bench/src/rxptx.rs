//! rxptx, which receives a burst, works for a set time, and sends the burst back (`guest/programs`), in the dpdk image.

use doorbell_machine::ConfigError;
use doorbell_sim::Ps;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::RunConfig;
use crate::dpdk;
use crate::options::Options;

/// The longest work between two bursts; with a longer one no frame of a usual trial comes back.
const WORK_MAX: Ps = Ps::from_ms(100);

/// rxptx's own options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RxptxConfig {
    /// How long it works on a burst, whatever its size, up to 100 ms by DPDK's clock (`platform.timebase`).
    pub work: Ps,
}

impl Default for RxptxConfig {
    fn default() -> Self {
        RxptxConfig { work: Ps::from_ns(10) }
    }
}

impl Options for RxptxConfig {
    const SECTION: &'static str = "rxptx";

    fn validate(&self, _: &RunConfig) -> Result<(), ConfigError> {
        if self.work > WORK_MAX || !self.work.0.is_multiple_of(Ps::from_ns(1).0) {
            let problem = format!("\"{}\" is not from 0ns to {WORK_MAX} in steps of 1ns", self.work);
            return Err(ConfigError::new("rxptx.work", problem));
        }
        Ok(())
    }
}

/// What the image's /init is told.
pub(crate) fn guest_words(config: &RunConfig) -> String {
    let work = config.options::<RxptxConfig>().work.0 / Ps::from_ns(1).0;
    format!("{} doorbell.arg=--work-ns={work}", dpdk::words("rxptx", config))
}
