//! touchfwd and touchdrop benchmarks: they read every byte of each frame (`guest/programs`), in the dpdk
//! image.

use doorbell_machine::ConfigError;
use doorbell_sim::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::dpdk;
use crate::plan::options::{Options, Setting};
use crate::scenarios::worker::{Work, run_to_completion};

/// Options of touchfwd and touchdrop, in addition to those in `dpdk`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TouchConfig {
    /// Width of each load from a frame, 1B or 8B: 1B as in a loop over bytes.
    pub load: Bytes,
    /// Before a frame is read, the first line of the burst's next frame is prefetched, as `rte_prefetch0`
    /// does in the study's TouchFwd and TouchDrop (github.com/agsiddharth/CAL-DPDK-GEM5, app/test-pmd,
    /// touchfwd.c and rxonly.c).
    pub prefetch: bool,
    /// Cores, 1 to 16 (1 if unset), each with its own receive and transmit queue on every port. RSS spreads
    /// flows over the queues (`--flows 1000`). More than one needs as many harts and NICs with as many queues
    /// (`nic.model = "82576"`). `dpdk.mbufs` is per core.
    #[serde(skip_serializing_if = "cores::is_one")]
    pub cores: u32,
}

impl Default for TouchConfig {
    fn default() -> Self {
        TouchConfig { load: Bytes(1), prefetch: true, cores: 1 }
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

/// With one core the program `app`; with several, the multi-core program with this work.
fn touch_words(app: &str, work: Work, config: &RunConfig) -> String {
    let own = config.options::<TouchConfig>();
    let words = match own.cores {
        1 => dpdk::words(app, config),
        cores => run_to_completion(cores, work, config),
    };
    words + &own.words()
}

/// Kernel command-line words for the image's /init.
pub(crate) fn touchfwd(config: &RunConfig) -> String {
    touch_words("touchfwd", Work::TouchFwd, config)
}

/// Kernel command-line words for the image's /init.
pub(crate) fn touchdrop(config: &RunConfig) -> String {
    touch_words("touchdrop", Work::TouchDrop, config)
}
