//! The benchmarks by name.

use doorbell_loadgen::{Kind, Returned};
use doorbell_machine::ConfigError;
use doorbell_machine::overlay::nearest;

use crate::config::RunConfig;
use crate::session::{Ready, Workload};
use crate::two_nodes::Role;
use crate::{iperf, kernel, testpmd};

/// What a benchmark is made of.
#[derive(Clone, Copy, Debug)]
pub enum Nodes {
    /// One machine, and a load generator at each of its ports.
    One,
    /// Two machines on one cable, and what runs in them.
    Two(&'static [Role; 2]),
}

/// A benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Benchmark {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it measures, in one line.
    pub summary: &'static str,
    /// One machine with load generators, or two machines.
    pub nodes: Nodes,
    /// The image that it runs in.
    pub image: &'static str,
    /// What the console shows when the application is ready.
    pub ready_marker: &'static str,
    /// The words that it adds to the kernel's command line.
    pub guest_words: fn(&RunConfig) -> String,
    /// What it sets in the configuration; the user's own settings are laid over it.
    pub defaults: &'static [&'static str],
    /// What it does to test frames.
    pub returned: fn(&RunConfig) -> Returned,
    /// Requests that are sent, each once, before the first measurement.
    pub preload: Option<Kind>,
}

impl Benchmark {
    /// What it boots with this configuration.
    pub fn workload(&self, config: &RunConfig) -> Workload {
        Workload {
            name: self.name.to_owned(),
            image: self.image.to_owned(),
            words: (self.guest_words)(config),
            ready: Ready::Marker(self.ready_marker),
            returned: (self.returned)(config),
            preload: self.preload,
        }
    }
}

/// All benchmarks.
pub const BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        name: "testpmd",
        summary: "DPDK's testpmd forwards every frame back: the path through NIC, PCIe, memory and a polling core",
        nodes: Nodes::One,
        image: "testpmd",
        ready_marker: testpmd::READY_MARKER,
        guest_words: testpmd::guest_words,
        defaults: &[],
        returned: testpmd::returned,
        preload: None,
    },
    Benchmark {
        name: "iperf",
        summary: "iperf3 over TCP or UDP between two nodes on one cable: the kernel's network stack on both sides",
        nodes: Nodes::Two(&iperf::ROLES),
        image: "net",
        ready_marker: iperf::ROLES[1].ready_marker,
        guest_words: |_| format!("doorbell.app={}", iperf::ROLES[1].name),
        defaults: &[],
        returned: kernel::returned,
        preload: None,
    },
    Benchmark {
        name: "ping",
        summary: "the kernel answers ICMP echo requests: interrupts, NAPI and the stack up to ICMP",
        nodes: Nodes::One,
        image: "net",
        ready_marker: kernel::READY_MARKER,
        guest_words: kernel::respond,
        defaults: kernel::PING,
        returned: kernel::returned,
        preload: None,
    },
    Benchmark {
        name: "memcached-kernel",
        summary: "memcached answers GETs by UDP over the kernel's stack",
        nodes: Nodes::One,
        image: "net",
        ready_marker: kernel::READY_MARKER,
        guest_words: kernel::memcached,
        defaults: kernel::MEMCACHED,
        returned: kernel::returned,
        preload: Some(Kind::MemcachedSet),
    },
];

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
