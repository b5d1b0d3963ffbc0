//! Pipeline benchmark: separate cores receive, work and transmit over DPDK's rings, or each core does all
//! three (`guest/programs/cores.c`, in the dpdk image). touchfwd, touchdrop and rxptx use the same program on
//! several cores.

use doorbell_machine::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::benchmark::Benchmark;
use crate::measure::kinds::{DPDK, DPDK_PROGRAM};
use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::dpdk;
use crate::plan::options::{self, Options, Section, Setting};
use crate::plan::worker::{self, Work};
use crate::scenarios::touchfwd::TouchConfig;

/// The benchmark.
pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "pipeline",
    summary: "separate cores receive, work and transmit, connected by rings (stages.cores)",
    guest_words,
    options: &[DPDK, Section::of::<TouchConfig>(), Section::of::<StagesConfig>()],
    defaults: DEFAULTS,
    check: |config| dpdk::check_own_program(config.options::<StagesConfig>().cores(), config),
    remark: |config| cores::remark("stages.cores", config.options::<StagesConfig>().cores(), config),
    ..DPDK_PROGRAM
};

/// One core receives, two work, one transmits.
const DEFAULTS: &[&str] = &["nic.model=82576", "platform.harts=4", "platform.ram=512MiB", "stages.cores=4"];

/// Minimum cores of a pipeline: one receives, one works, one transmits.
const CORES_MIN: u32 = 3;

/// How cores share the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Division {
    /// The first core receives, the last transmits, the others work.
    #[default]
    Pipeline,
    /// Each core receives, works and transmits, with its own receive and transmit queue on every port.
    RunToCompletion,
}

/// Work between receiving and sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PipelineWork {
    /// The MAC addresses are swapped.
    #[default]
    MacSwap,
    /// Every byte is read as well, as configured in `touch`.
    TouchFwd,
}

doorbell_sim::config! {
    /// Options of the benchmark pipeline (the section `pipeline` is the core's). Options shared with other
    /// programs are in `dpdk` and `touch`.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct StagesConfig {
        /// Total number of cores, 3 to 16 for a pipeline, or 1 to 16 with run-to-completion (the benchmark
        /// sets 4). It needs as many harts, and NICs of the model 82576. RSS spreads flows over queues or, in
        /// a pipeline, over the working cores (`--flows 1000`). `dpdk.mbufs` is per core.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cores: Option<u32> = None,
        /// Whether the cores form a pipeline, or each processes packets to completion.
        pub division: Division = Division::default(),
        /// Work per packet.
        pub work: PipelineWork = PipelineWork::default(),
        /// Entries per ring of the pipeline, 64 to 65536, a power of two. Each working core has two rings, in
        /// and out.
        pub ring: u32 = 1024,
    }
}

impl Options for StagesConfig {
    const SECTION: &'static str = "stages";
    const QUIET: bool = true;

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        options::check_power_of_two("stages.ring", self.ring.into(), 64..=65_536, |ring| ring.to_string())?;
        let Some(cores) = self.cores else { return Ok(()) };
        let problem = format!(
            "{cores}, but a pipeline needs at least {CORES_MIN} cores (receive, work, transmit); set more, or \
                 stages.division=run-to-completion"
        );
        options::reject_if(
            self.division == Division::Pipeline && cores < CORES_MIN,
            "stages.cores",
            problem,
        )?;
        cores::check("stages.cores", cores, config)
    }

    fn required_settings(&self, config: &RunConfig) -> Vec<Setting> {
        cores::required_settings(self.cores(), config)
    }
}

impl StagesConfig {
    fn cores(&self) -> u32 {
        self.cores.unwrap_or(1)
    }
}

/// Kernel command-line words for the image's /init.
fn guest_words(config: &RunConfig) -> String {
    let own = config.options::<StagesConfig>();
    let work = match own.work {
        PipelineWork::MacSwap => Work::MacSwap,
        PipelineWork::TouchFwd => Work::TouchFwd,
    };
    let touch = config.options::<TouchConfig>();
    let words = worker::run_to_completion(own.cores(), work, config) + &touch.words();
    match own.division {
        Division::RunToCompletion => words,
        Division::Pipeline => format!("{words} doorbell.arg=--pipeline=1 doorbell.arg=--ring={}", own.ring),
    }
}
