//! rxptx, which receives a burst, works for a set time, and sends the burst back (`guest/programs`), in the dpdk image.

use doorbell_machine::ConfigError;
use doorbell_sim::Ps;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::dpdk;
use crate::plan::options::{Options, Setting};
use crate::scenarios::worker::{Work, run_to_completion};

/// The longest work between two bursts; with a longer one no frame of a usual trial comes back.
const WORK_MAX: Ps = Ps::from_ms(100);

/// rxptx's own options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RxptxConfig {
    /// How long it works on a burst, whatever its size, up to 100 ms by DPDK's clock (`platform.timebase`).
    pub work: Ps,
    /// Cores, 1 to 16 (without this, one), each with a queue of its own each way on every port, over which RSS spreads flows
    /// (`--flows 1000`). More than one needs as many harts and NICs with as many queues (`nic.model = "82576"`); each core has
    /// `dpdk.mbufs` of its own.
    #[serde(skip_serializing_if = "cores::is_one")]
    pub cores: u32,
}

impl Default for RxptxConfig {
    fn default() -> Self {
        RxptxConfig { work: Ps::from_ns(10), cores: 1 }
    }
}

impl Options for RxptxConfig {
    const SECTION: &'static str = "rxptx";

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        if self.work > WORK_MAX || !self.work.0.is_multiple_of(Ps::from_ns(1).0) {
            let problem = format!("\"{}\" is not from 0ns to {WORK_MAX} in steps of 1ns", self.work);
            return Err(ConfigError::new("rxptx.work", problem));
        }
        cores::check("rxptx.cores", self.cores, config)
    }

    fn follow(&self, config: &RunConfig) -> Vec<Setting> {
        cores::follow(self.cores, config)
    }
}

/// What the image's /init is told.
pub(crate) fn guest_words(config: &RunConfig) -> String {
    let own = config.options::<RxptxConfig>();
    let words = match own.cores {
        1 => dpdk::words("rxptx", config),
        cores => run_to_completion(cores, Work::Wait, config),
    };
    format!("{words} doorbell.arg=--work-ns={}", own.work.0 / Ps::from_ns(1).0)
}
