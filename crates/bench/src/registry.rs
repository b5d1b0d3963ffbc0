//! The benchmarks by name, and the sections of the configuration that are theirs.

use doorbell_loadgen::{Kind, Returned};
use doorbell_machine::ConfigError;
use doorbell_machine::overlay::nearest;
use doorbell_sim::Ps;

use crate::compute::ComputeConfig;
use crate::config::RunConfig;
use crate::dpdk::DpdkConfig;
use crate::drive::DriveConfig;
use crate::iperf::IperfConfig;
use crate::kernel::KernelConfig;
use crate::memcached::MemcachedDpdkConfig;
use crate::netperf::NetperfConfig;
use crate::nodes::NodeGuest;
use crate::options::{OptionSections, Options, Section};
use crate::playback::TRACE;
use crate::prepared::MeasureNodes;
use crate::redis::RedisConfig;
use crate::run_up::RunUp;
use crate::rxptx::RxptxConfig;
use crate::session::{Ready, Workload};
use crate::testpmd::TestpmdConfig;
use crate::touch::TouchConfig;
use crate::transfer::TransferConfig;
use crate::web::WebConfig;
use crate::{compute, dpdk, iperf, kernel, memcached, netperf, redis, rxptx, testpmd, touch, web};

/// What a benchmark is made of.
#[derive(Clone, Copy, Debug)]
pub enum Nodes {
    /// One machine, and a load generator at each of its ports.
    One,
    /// Two machines on one cable.
    Two {
        /// What runs in them.
        guests: fn(&RunConfig) -> [NodeGuest; 2],
        /// A load that is at its pace before measurements begin.
        run_up: fn(&RunConfig) -> Option<RunUp>,
        /// How they are measured.
        measure: MeasureNodes,
    },
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
    /// Its sections of the configuration; several benchmarks may share one.
    pub options: &'static [Section],
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
    /// Whether these options are its own.
    fn has<T: Options>(&self) -> bool {
        self.options.iter().any(|section| section.name == T::SECTION)
    }

    /// How long it may keep a frame that nothing else holds up.
    fn pause(&self, config: &RunConfig) -> Ps {
        match (self.has::<RxptxConfig>(), self.has::<DpdkConfig>()) {
            (true, _) => config.options::<RxptxConfig>().work,
            (_, true) => Ps::ZERO,
            _ => kernel::PAUSE,
        }
    }

    /// What whoever runs it should know of this configuration.
    pub fn remark(&self, config: &RunConfig) -> Option<&'static str> {
        self.has::<TestpmdConfig>().then(|| testpmd::remark(config)).flatten()
    }

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
            pause: self.pause(config),
            rings: self.has::<DpdkConfig>().then(|| config.options::<DpdkConfig>().rings()),
        }
    }
}

/// What all DPDK programs have.
const DPDK: Section = Section::of::<DpdkConfig>();
const KERNEL: Section = Section::of::<KernelConfig>();
/// What all have that move something between two nodes.
const TRANSFER: Section = Section::of::<TransferConfig>();
/// What is no benchmark's own.
const OF_ALL: &[Section] = &[Section::of::<DriveConfig>()];

/// What a network's file describes: no benchmark that can be called by a name.
pub const NETWORK: Benchmark = Benchmark {
    name: "network",
    summary: "nodes, switches and load generators on cables",
    nodes: Nodes::Network,
    image: "net",
    ready_marker: kernel::READY_MARKER,
    guest_words: |_| String::new(),
    options: &[],
    defaults: &[],
    returned: kernel::returned,
    preload: None,
    silent: false,
};

/// What stands in a benchmark's place where a trace is played: no benchmark that can be called by a name.
pub const PLAYED: Benchmark = Benchmark {
    name: TRACE,
    summary: "what a machine executed and its devices did, from a file",
    nodes: Nodes::One,
    image: "",
    ready_marker: "",
    guest_words: |_| String::new(),
    options: &[],
    defaults: &[],
    returned: |_| Returned::Any,
    preload: None,
    silent: true,
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
        options: &[DPDK, Section::of::<TestpmdConfig>()],
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
        options: &[DPDK],
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
        guest_words: touch::touchfwd,
        options: &[DPDK, Section::of::<TouchConfig>()],
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
        guest_words: touch::touchdrop,
        options: &[DPDK, Section::of::<TouchConfig>()],
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
        guest_words: rxptx::guest_words,
        options: &[DPDK, Section::of::<RxptxConfig>()],
        defaults: &[],
        returned: dpdk::swapped,
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
        options: &[KERNEL],
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
        options: &[KERNEL],
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
        options: &[DPDK, Section::of::<MemcachedDpdkConfig>()],
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
        options: &[Section::of::<ComputeConfig>()],
        defaults: &[],
        returned: compute::returned,
        preload: None,
        silent: true,
    },
    Benchmark {
        name: "iperf",
        summary: "iperf3 over TCP or UDP between two nodes on one cable: the kernel's network stack on both sides",
        nodes: Nodes::Two { guests: iperf::guests, run_up: |_| None, measure: iperf::measure },
        image: "net",
        ready_marker: kernel::READY_MARKER,
        guest_words: |_| String::new(),
        options: &[KERNEL, Section::of::<IperfConfig>(), TRANSFER],
        defaults: iperf::DEFAULTS,
        returned: kernel::returned,
        preload: None,
        silent: false,
    },
    Benchmark {
        name: "netperf",
        summary: "netperf between two nodes on one cable: streams both ways, requests and responses by TCP and UDP",
        nodes: Nodes::Two { guests: netperf::guests, run_up: netperf::run_up, measure: netperf::measure },
        image: "netperf",
        ready_marker: kernel::READY_MARKER,
        guest_words: |_| String::new(),
        options: &[KERNEL, Section::of::<NetperfConfig>(), TRANSFER],
        defaults: iperf::DEFAULTS,
        returned: kernel::returned,
        preload: None,
        silent: false,
    },
    Benchmark {
        name: "redis",
        summary: "redis-server answers GETs or SETs of redis-benchmark in a second node, one by one or in a pipeline",
        nodes: Nodes::Two { guests: redis::guests, run_up: redis::run_up, measure: redis::measure },
        image: "servers",
        ready_marker: kernel::READY_MARKER,
        guest_words: |_| String::new(),
        options: &[KERNEL, Section::of::<RedisConfig>(), TRANSFER],
        defaults: iperf::DEFAULTS,
        returned: kernel::returned,
        preload: None,
        silent: false,
    },
    Benchmark {
        name: "web",
        summary: "nginx answers the requests of wrk in a second node, over connections that stay",
        nodes: Nodes::Two { guests: web::guests, run_up: web::run_up, measure: web::measure },
        image: "servers",
        ready_marker: kernel::READY_MARKER,
        guest_words: |_| String::new(),
        options: &[KERNEL, Section::of::<WebConfig>(), TRANSFER],
        defaults: iperf::DEFAULTS,
        returned: kernel::returned,
        preload: None,
        silent: false,
    },
];

/// The sections of these benchmarks, in the benchmarks' order, and those of all.
pub(crate) fn options_of(benchmarks: &[Benchmark]) -> OptionSections {
    let own = benchmarks.iter().flat_map(|known| known.options);
    OptionSections::of(own.chain(OF_ALL).copied())
}

impl Default for OptionSections {
    /// Those of all benchmarks.
    fn default() -> OptionSections {
        options_of(BENCHMARKS)
    }
}

/// The sections that no program has that runs in one machine: they say how a run goes, and are no node's of a network.
pub(crate) fn sections_of_runs() -> Vec<&'static str> {
    let one = BENCHMARKS.iter().filter(|known| matches!(known.nodes, Nodes::One));
    let of_nodes: Vec<&str> = one.flat_map(|known| known.options).map(|section| section.name).collect();
    OptionSections::default().names().into_iter().filter(|name| !of_nodes.contains(name)).collect()
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_machine::Base;

    use crate::resolve::Layers;

    fn resolve_over(options: OptionSections, set: &[String]) -> Result<RunConfig, ConfigError> {
        Layers::of(&Base::find("fast").unwrap(), set).with_options(options)
    }

    /// What the file of a benchmark has, as CONTRIBUTING.md says.
    mod echo {
        use doorbell_machine::ConfigError;
        use doorbell_sim::Ps;
        use schemars::JsonSchema;
        use serde::{Deserialize, Serialize};

        use crate::config::RunConfig;
        use crate::options::Options;

        /// echo's own options.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub struct EchoConfig {
            /// How long a frame is kept.
            pub delay: Ps,
            /// How many ports answer.
            pub ports: Option<u32>,
        }

        impl Options for EchoConfig {
            const SECTION: &'static str = "echo";

            fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
                if self.ports.is_some_and(|ports| ports > config.platform.nics) {
                    return Err(ConfigError::new("echo.ports", "there are fewer NICs"));
                }
                Ok(())
            }
        }

        pub fn guest_words(config: &RunConfig) -> String {
            format!(
                "{} doorbell.delay={}",
                crate::dpdk::words("echo", config),
                config.options::<EchoConfig>().delay
            )
        }
    }

    const ECHO: Benchmark = Benchmark {
        name: "echo",
        guest_words: echo::guest_words,
        options: &[DPDK, Section::of::<echo::EchoConfig>()],
        ..NETWORK
    };

    fn with_echo(set: &[&str]) -> Result<RunConfig, ConfigError> {
        let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
        resolve_over(options_of(&[ECHO]), &set)
    }

    #[test]
    fn a_benchmark_with_options_of_its_own_is_a_file_and_an_entry() {
        let config = with_echo(&["echo.delay=20ns", "dpdk.burst=8"]).unwrap();
        let words = ECHO.workload(&config).words;
        assert!(words.ends_with("doorbell.delay=20ns") && words.contains("doorbell.burst=8"), "{words}");
        let text = config.to_toml();
        assert!(text.contains("\n[echo]\ndelay = \"20ns\"\n\n[drive]\n"), "{text}");
        assert_eq!(config.with(&text.parse().unwrap()).unwrap(), config);
        assert_ne!(config, with_echo(&["echo.delay=21ns", "dpdk.burst=8"]).unwrap());
    }

    #[test]
    fn a_wrong_option_of_a_benchmark_is_refused_with_its_path() {
        for (wrong, key, says) in [
            ("echo.dela=20ns", "echo.dela", "did you mean \"delay\"?"),
            ("ecco.delay=20ns", "ecco", "did you mean \"echo\"?"),
            ("platfrom.nics=1", "platfrom", "did you mean \"platform\"?"),
            ("echo.delay=20", "echo.delay", "a number without a unit"),
            ("echo.ports=2", "echo.ports", "there are fewer NICs"),
            ("echo=2", "echo", "its keys are echo.delay"),
            // Another benchmark's, which this registry has not.
            ("rxptx.work=1us", "rxptx", "expected one of `run`"),
        ] {
            let error = with_echo(&[wrong]).unwrap_err();
            assert!(error.key == key && error.problem.contains(says), "{wrong}: {error}");
        }
        assert!(with_echo(&["echo.ports=2", "platform.nics=2"]).is_ok());
    }

    #[test]
    fn every_benchmark_lists_the_options_that_it_asks_for() {
        for known in BENCHMARKS {
            let config = resolve_over(options_of(&[*known]), &[]).unwrap();
            assert_eq!(known.workload(&config).name, known.name);
        }
    }

    #[test]
    fn sections_are_called_as_no_other_part_and_refuse_keys_that_they_do_not_know() {
        let all = OptionSections::default().names();
        for name in &all {
            let set = [format!("{name}.x=1")];
            let without_sections = resolve_over(OptionSections::of([]), &set).unwrap_err();
            assert_eq!(without_sections.key, *name);
        }
        for name in &all {
            let set = [format!("{name}.no_such_key=1")];
            let error = resolve_over(OptionSections::default(), &set).unwrap_err();
            assert_eq!(error.key, format!("{name}.no_such_key"), "the section needs deny_unknown_fields");
        }
        // Results have always had them in this order, and the configuration's hash follows from it.
        let order = [
            "dpdk",
            "testpmd",
            "touch",
            "rxptx",
            "kernel",
            "memcached_dpdk",
            "compute",
            "iperf",
            "transfer",
            "netperf",
            "redis",
            "web",
            "drive",
        ];
        assert_eq!(all, order);
        assert_eq!(sections_of_runs(), ["iperf", "transfer", "netperf", "redis", "web", "drive"]);
    }

    #[test]
    #[should_panic(expected = "two types of options are called [dpdk]")]
    fn two_types_of_options_cannot_share_a_name() {
        #[derive(
            Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
        )]
        struct Other {}
        impl crate::options::Options for Other {
            const SECTION: &'static str = "dpdk";

            fn validate(&self, _: &RunConfig) -> Result<(), ConfigError> {
                Ok(())
            }
        }
        OptionSections::of([DPDK, Section::of::<Other>()]);
    }
}
