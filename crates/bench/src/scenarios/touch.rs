//! touchfwd and touchdrop, which read every byte of each frame (`guest/programs`), in the dpdk image.

use doorbell_machine::ConfigError;
use doorbell_sim::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::dpdk;
use crate::plan::options::{Options, Setting};
use crate::scenarios::worker::{Work, run_to_completion};

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
    /// Cores, 1 to 16 (without this, one), each with a queue of its own each way on every port, over which RSS spreads flows
    /// (`--flows 1000`). More than one needs as many harts and NICs with as many queues (`nic.model = "82576"`); each core has
    /// `dpdk.mbufs` of its own.
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

    fn follow(&self, config: &RunConfig) -> Vec<Setting> {
        cores::follow(self.cores, config)
    }
}

impl TouchConfig {
    /// What a program is told of how bytes are read.
    pub(crate) fn words(&self) -> String {
        let (load, prefetch) = (self.load.0, u8::from(self.prefetch));
        format!(" doorbell.arg=--load-bytes={load} doorbell.arg=--prefetch={prefetch}")
    }
}

/// With one core it is a program, with several a kind of work of the program for several.
fn touching(app: &str, work: Work, config: &RunConfig) -> String {
    let own = config.options::<TouchConfig>();
    let words = match own.cores {
        1 => dpdk::words(app, config),
        cores => run_to_completion(cores, work, config),
    };
    words + &own.words()
}

/// What the image's /init is told.
pub(crate) fn touchfwd(config: &RunConfig) -> String {
    touching("touchfwd", Work::TouchFwd, config)
}

/// What the image's /init is told.
pub(crate) fn touchdrop(config: &RunConfig) -> String {
    touching("touchdrop", Work::TouchDrop, config)
}
