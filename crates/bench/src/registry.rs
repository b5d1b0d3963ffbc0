//! The benchmarks by name.

use doorbell_machine::ConfigError;
use doorbell_machine::overlay::nearest;

use crate::config::RunConfig;
use crate::session::{Ready, Workload};
use crate::testpmd;

/// A benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Benchmark {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it measures, in one line.
    pub summary: &'static str,
    /// The image that it runs in.
    pub image: &'static str,
    /// What the console shows when the application is ready.
    pub ready_marker: &'static str,
    /// The words that it adds to the kernel's command line.
    pub guest_words: fn(&RunConfig) -> String,
}

impl Benchmark {
    /// What it boots with this configuration.
    pub fn workload(&self, config: &RunConfig) -> Workload {
        Workload {
            name: self.name.to_owned(),
            image: self.image.to_owned(),
            words: (self.guest_words)(config),
            ready: Ready::Marker(self.ready_marker),
        }
    }
}

/// All benchmarks.
pub const BENCHMARKS: &[Benchmark] = &[Benchmark {
    name: "testpmd",
    summary: "DPDK's testpmd forwards every frame back: the path through NIC, PCIe, memory and a polling core",
    image: "testpmd",
    ready_marker: testpmd::READY_MARKER,
    guest_words: testpmd::guest_words,
}];

/// The benchmark called `name`.
pub fn benchmark(name: &str) -> Result<&'static Benchmark, ConfigError> {
    BENCHMARKS.iter().find(|known| known.name == name).ok_or_else(|| {
        let names: Vec<&str> = BENCHMARKS.iter().map(|known| known.name).collect();
        let hint =
            nearest(name, names.iter()).map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
        ConfigError::new(
            "benchmark",
            format!("there is no benchmark \"{name}\"{hint} (benchmarks: {})", names.join(", ")),
        )
    })
}
