//! Receiving, work and sending on cores of their own, over DPDK's rings, beside all three on each core (`guest/programs/cores.c`, in
//! the dpdk image). It also is what touchfwd, touchdrop and rxptx are on several cores.

use doorbell_machine::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::options::{Options, Setting};
use crate::scenarios::touch::TouchConfig;
use crate::scenarios::worker::{Work, run_to_completion};

/// One core receives, two work, one transmits.
pub(crate) const DEFAULTS: &[&str] =
    &["nic.model=82576", "platform.harts=4", "platform.ram=512MiB", "stages.cores=4"];

/// Cores of a pipeline at least: one receives, one works, one transmits.
const CORES_MIN: u32 = 3;

/// How cores share the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Division {
    /// The first core receives, the last transmits, those between work.
    #[default]
    Pipeline,
    /// Each core receives, works and transmits, with a queue of its own each way on every port.
    RunToCompletion,
}

/// What is done between receiving and sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PipelineWork {
    /// The addresses are exchanged.
    #[default]
    MacSwap,
    /// Every byte is read as well, as `touch` says.
    TouchFwd,
}

/// The options of the benchmark pipeline (cores have a section `pipeline` already); those that it shares with other programs are in `dpdk` and `touch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StagesConfig {
    /// Cores in all, 3 to 16, or from 1 on where each does everything; the benchmark has four unless this is set. It needs as many harts, and
    /// NICs of the model 82576. RSS spreads flows over queues or, in a pipeline, its hash over the cores that work
    /// (`--flows 1000`); each core has `dpdk.mbufs` of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Whether cores are a pipeline, or each runs packets to completion.
    pub division: Division,
    /// What is done with each packet.
    pub work: PipelineWork,
    /// Entries of each of the pipeline's rings, of which each core that works has two: 64 to 65536, a power of two.
    pub ring: u32,
}

impl Default for StagesConfig {
    fn default() -> Self {
        StagesConfig { cores: None, division: Division::default(), work: PipelineWork::default(), ring: 1024 }
    }
}

impl Options for StagesConfig {
    const SECTION: &'static str = "stages";
    const QUIET: bool = true;

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        if !(64..=65_536).contains(&self.ring) || !self.ring.is_power_of_two() {
            let problem = format!("{} is not a power of two from 64 to 65536", self.ring);
            return Err(ConfigError::new("stages.ring", problem));
        }
        let Some(cores) = self.cores else { return Ok(()) };
        if self.division == Division::Pipeline && cores < CORES_MIN {
            let problem = format!(
                "{cores}, and a pipeline has {CORES_MIN} at least: one receives, one works, one transmits; with \
                 stages.division=run-to-completion each does everything"
            );
            return Err(ConfigError::new("stages.cores", problem));
        }
        cores::check("stages.cores", cores, config)
    }

    fn follow(&self, config: &RunConfig) -> Vec<Setting> {
        cores::follow(self.cores.unwrap_or(1), config)
    }
}

/// What the image's /init is told.
pub(crate) fn guest_words(config: &RunConfig) -> String {
    let own = config.options::<StagesConfig>();
    let work = match own.work {
        PipelineWork::MacSwap => Work::MacSwap,
        PipelineWork::TouchFwd => Work::TouchFwd,
    };
    let cores = own.cores.unwrap_or(1);
    let words = run_to_completion(cores, work, config) + &config.options::<TouchConfig>().words();
    match own.division {
        Division::RunToCompletion => words,
        Division::Pipeline => format!("{words} doorbell.arg=--pipeline=1 doorbell.arg=--ring={}", own.ring),
    }
}
