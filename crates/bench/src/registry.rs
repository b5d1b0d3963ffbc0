//! The benchmarks by name.

use doorbell_loadgen::{Kind, Returned};
use doorbell_machine::ConfigError;
use doorbell_machine::overlay::nearest;

use crate::config::RunConfig;
use crate::session::{Ready, Workload};
use crate::testbed::NodeGuest;
use crate::{compute, dpdk, iperf, kernel, memcached, testpmd};

/// What a benchmark is made of.
#[derive(Clone, Copy, Debug)]
pub enum Nodes {
    /// One machine, and a load generator at each of its ports.
    One,
    /// Two machines on one cable, and what runs in them.
    Two(fn() -> [NodeGuest; 2]),
    /// Those that a network's file describes.
    Network,
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
    /// Whether it is measured without any traffic.
    pub silent: bool,
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
            silent: self.silent,
        }
    }
}

/// What a network's file describes: no benchmark that can be called by a name.
pub const NETWORK: Benchmark = Benchmark {
    name: "network",
    summary: "nodes, switches and load generators on cables",
    nodes: Nodes::Network,
    image: "net",
    ready_marker: kernel::READY_MARKER,
    guest_words: |_| String::new(),
    defaults: &[],
    returned: kernel::returned,
    preload: None,
    silent: false,
};

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
        silent: false,
    },
    Benchmark {
        name: "l3fwd",
        summary: "DPDK's l3fwd routes every frame by longest prefix match",
        nodes: Nodes::One,
        image: "dpdk",
        ready_marker: dpdk::L3FWD_READY_MARKER,
        guest_words: dpdk::l3fwd,
        defaults: dpdk::L3FWD,
        returned: dpdk::routed,
        preload: None,
        silent: false,
    },
    Benchmark {
        name: "touchfwd",
        summary: "reads every byte of each frame, then sends it back",
        nodes: Nodes::One,
        image: "dpdk",
        ready_marker: dpdk::READY_MARKER,
        guest_words: dpdk::touchfwd,
        defaults: &[],
        returned: dpdk::swapped,
        preload: None,
        silent: false,
    },
    Benchmark {
        name: "touchdrop",
        summary: "reads every byte of each frame and drops it: delivered is what is in its memory",
        nodes: Nodes::One,
        image: "dpdk",
        ready_marker: dpdk::READY_MARKER,
        guest_words: dpdk::touchdrop,
        defaults: &[],
        returned: dpdk::kept,
        preload: None,
        silent: false,
    },
    Benchmark {
        name: "rxptx",
        summary: "receives a burst, works for a set time (rxptx.work), and sends the burst back",
        nodes: Nodes::One,
        image: "dpdk",
        ready_marker: dpdk::READY_MARKER,
        guest_words: dpdk::rxptx,
        defaults: &[],
        returned: dpdk::swapped,
        preload: None,
        silent: false,
    },
    Benchmark {
        name: "iperf",
        summary: "iperf3 over TCP or UDP between two nodes on one cable: the kernel's network stack on both sides",
        nodes: Nodes::Two(iperf::guests),
        image: "net",
        ready_marker: kernel::READY_MARKER,
        guest_words: |_| String::new(),
        defaults: iperf::DEFAULTS,
        returned: kernel::returned,
        preload: None,
        silent: false,
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
        silent: false,
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
        silent: false,
    },
    Benchmark {
        name: "memcached-dpdk",
        summary: "a key-value store on DPDK answers the same GETs as memcached-kernel",
        nodes: Nodes::One,
        image: "dpdk",
        ready_marker: dpdk::READY_MARKER,
        guest_words: memcached::guest_words,
        defaults: kernel::MEMCACHED,
        returned: kernel::returned,
        preload: Some(Kind::MemcachedSet),
        silent: false,
    },
    Benchmark {
        name: "compute",
        summary: "a loop without input or output walks through a table (compute.table), for comparison",
        nodes: Nodes::One,
        image: "dpdk",
        ready_marker: dpdk::READY_MARKER,
        guest_words: compute::guest_words,
        defaults: &[],
        returned: compute::returned,
        preload: None,
        silent: true,
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
