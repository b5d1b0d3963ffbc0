//! Neighbour benchmark: a network program next to programs that contend for cache or memory bandwidth.
//! touchfwd runs on the first harts; the last harts run compute or stream, each with its own table. Runs
//! without one of them show what the other loses; cache way masks show what partitioning recovers. Any
//! benchmark can instead have traces as neighbours ([`corunners`](crate::testbed::corunners)).

use doorbell_machine::{ConfigError, HARTS_MAX};
use doorbell_sim::{Bytes, config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::benchmark::Benchmark;
use crate::measure::kinds::DPDK;
use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::options::{self, Options, Section, Setting};
use crate::scenarios::compute::check_table;
use crate::scenarios::touchfwd::{self, TouchConfig};

/// The benchmark.
pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "neighbour",
    summary: "touchfwd next to programs that use much cache or bandwidth (neighbour.cores, .table, .pattern)",
    image: "neighbour",
    guest_words,
    options: &[DPDK, Section::of::<TouchConfig>(), Section::of::<NeighbourConfig>()],
    defaults: DEFAULTS,
    ..touchfwd::BENCHMARK
};

/// One neighbour on the second of two harts.
const DEFAULTS: &[&str] = &["neighbour.cores=1", "platform.harts=2", "platform.ram=512MiB"];

/// RAM for Linux and touchfwd, without the tables.
const RAM_BASE: u64 = 256 << 20;

/// A neighbour's access pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Pointer chasing in random order, each load's address depending on the previous load (`compute`):
    /// occupies cache.
    #[default]
    Walk,
    /// Sequential, with independent loads (`stream`): uses memory bandwidth as well.
    Stream,
}

config! {
    /// Neighbours of the network program.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct NeighbourConfig {
        /// Number of neighbours, 0 to 63 (the benchmark sets 1), each on its own hart, from the last hart
        /// downwards. The machine needs as many harts in addition to `touch.cores`. Figures per packet do not
        /// include them.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cores: Option<u32> = None,
        /// Size of each neighbour's table, accessed one cache line per step: 1 KiB to 1 GiB.
        pub table: Bytes = Bytes(8 << 20),
        /// Order of the accesses.
        #[serde(skip_serializing_if = "options::is_default")]
        pub pattern: Pattern = Pattern::Walk,
    }
}

impl Options for NeighbourConfig {
    const SECTION: &'static str = "neighbour";
    const QUIET: bool = true;

    fn corunner_harts(&self) -> u32 {
        self.cores.unwrap_or(0)
    }

    fn required_settings(&self, config: &RunConfig) -> Vec<Setting> {
        let touch = config.options::<TouchConfig>().cores;
        self.cores.map_or(Vec::new(), |cores| cores::required_harts(cores.saturating_add(touch), config))
    }

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        check_table("neighbour.table", self.table)?;
        // Other benchmarks do not set the number of cores.
        let Some(cores) = self.cores else { return Ok(()) };
        options::check_range("neighbour.cores", cores, 0..=HARTS_MAX - 1)?;
        let (harts, needed) = (config.platform.harts, cores + config.options::<TouchConfig>().cores);
        let problem = format!(
            "{cores} in addition to touch.cores, but the machine has {harts} hart(s); set platform.harts={needed} or more"
        );
        options::reject_if(needed > harts, "neighbour.cores", problem)?;
        let (needed, ram) = (RAM_BASE + u64::from(cores) * self.table.0, config.platform.ram);
        let problem = format!("{cores} table(s) of {} do not fit into {ram}", self.table);
        options::check_ram("platform.ram", needed, problem, config)
    }
}

/// Kernel command-line words for the image's /init.
fn guest_words(config: &RunConfig) -> String {
    let NeighbourConfig { cores, table: Bytes(table), pattern } = *config.options::<NeighbourConfig>();
    let (cores, kib) = (cores.unwrap_or(0), table >> 10);
    let program =
        touchfwd::guest_words(config).replacen("doorbell.app=", "doorbell.app=neighbour neighbour.app=", 1);
    let first = config.platform.harts - cores;
    let stream = if pattern == Pattern::Stream { " neighbour.program=stream" } else { "" };
    format!("{program} neighbour.cores={cores} neighbour.first={first} neighbour.kib={kib}{stream}")
}

#[cfg(test)]
mod tests {
    use crate::registry::benchmark;
    use crate::request::resolve::on_fast;

    #[test]
    fn neighbours_get_the_last_harts_and_need_enough_harts_and_ram() {
        let set = ["neighbour.cores=2", "platform.harts=4", "neighbour.table=1MiB", "platform.ram=512MiB"];
        let config = on_fast(&set).unwrap();
        let words = benchmark("neighbour").unwrap().workload(&config).words;
        assert!(words.starts_with("doorbell.app=neighbour neighbour.app=touchfwd "), "{words}");
        assert!(words.ends_with("neighbour.cores=2 neighbour.first=2 neighbour.kib=1024"), "{words}");
        assert_eq!(config.measured_harts(), 2);
        let streaming = on_fast(&[&set[..], &["neighbour.pattern=stream"]].concat()).unwrap();
        let words = benchmark("neighbour").unwrap().workload(&streaming).words;
        assert!(words.ends_with(" neighbour.kib=1024 neighbour.program=stream"), "{words}");
        assert!(config.hash() != streaming.hash());
        for (set, message) in [
            (
                &["neighbour.cores=1", "platform.harts=1"][..],
                "the machine has 1 hart(s); set platform.harts=2",
            ),
            (&["neighbour.cores=64", "platform.harts=64"], "64 is not from 0 to 63"),
            (&["neighbour.table=100B"], "100B is not from 1KiB to 1GiB"),
            (&["neighbour.cores=1", "platform.harts=2", "neighbour.table=1GiB"], "do not fit into"),
            (&["neighbour.pattern=run"], "`walk` or `stream`"),
        ] {
            let error = on_fast(set).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }
}
