//! Tests of the benchmarks' sections of the configuration.

use super::*;
use doorbell_machine::Base;

use crate::measure::kinds::{DPDK, NETWORK};
use crate::plan::resolved::Resolved;
use crate::request::resolve::Layers;

fn resolve_over(options: OptionSections, set: &[String]) -> Result<Resolved, ConfigError> {
    Layers::of(&Base::find("fast").unwrap(), set).with_options(options)
}

/// Contents of a benchmark's file, as described in CONTRIBUTING.md.
mod echo {
    use doorbell_machine::ConfigError;
    use doorbell_sim::Ps;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use crate::plan::config::RunConfig;
    use crate::plan::options::Options;

    /// echo's own options.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct EchoConfig {
        /// Delay per frame.
        pub delay: Ps,
        /// Number of responding ports.
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
            crate::plan::dpdk::words("echo", config),
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

fn with_echo(set: &[&str]) -> Result<Resolved, ConfigError> {
    let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
    resolve_over(options_of(&[ECHO]), &set)
}

#[test]
fn a_benchmark_with_its_own_options_needs_only_a_file_and_a_table_entry() {
    let config = with_echo(&["echo.delay=20ns", "dpdk.burst=8"]).unwrap();
    let words = ECHO.workload(&config).words;
    assert!(words.ends_with("doorbell.delay=20ns") && words.contains("doorbell.burst=8"), "{words}");
    let text = config.to_toml();
    assert!(text.contains("\n[echo]\ndelay = \"20ns\"\n\n[drive]\n"), "{text}");
    assert_eq!((*config).clone().with(&text.parse().unwrap()).unwrap(), *config);
    assert_ne!(config, with_echo(&["echo.delay=21ns", "dpdk.burst=8"]).unwrap());
}

#[test]
fn an_invalid_option_is_rejected_with_its_path() {
    for (wrong, key, message) in [
        ("echo.dela=20ns", "echo.dela", "did you mean \"delay\"?"),
        ("ecco.delay=20ns", "ecco", "did you mean \"echo\"?"),
        ("platfrom.nics=1", "platfrom", "did you mean \"platform\"?"),
        ("echo.delay=20", "echo.delay", "a number without a unit"),
        ("echo.ports=2", "echo.ports", "there are fewer NICs"),
        ("echo=2", "echo", "its keys are echo.delay"),
        // The section of a benchmark that is not in this registry.
        ("rxptx.work=1us", "rxptx", "expected one of `run`"),
    ] {
        let error = with_echo(&[wrong]).unwrap_err();
        assert!(error.key == key && error.problem.contains(message), "{wrong}: {error}");
    }
    assert!(with_echo(&["echo.ports=2", "platform.nics=2"]).is_ok());
}

#[test]
fn every_benchmark_lists_the_option_sections_that_it_reads() {
    for benchmark in BENCHMARKS {
        let config = resolve_over(options_of(&[*benchmark]), &[]).unwrap();
        assert_eq!(benchmark.workload(&config).name, benchmark.name);
    }
}

#[test]
fn section_names_are_unique_and_unknown_keys_are_rejected() {
    let all = sections().names();
    for name in &all {
        let set = [format!("{name}.x=1")];
        let without_sections = resolve_over(OptionSections::of([]), &set).unwrap_err();
        assert_eq!(without_sections.key, *name);
    }
    for name in &all {
        let set = [format!("{name}.no_such_key=1")];
        let error = resolve_over(sections(), &set).unwrap_err();
        assert_eq!(error.key, format!("{name}.no_such_key"), "the section needs deny_unknown_fields");
    }
    // Keep the order: the configuration's hash depends on it. Quiet sections may be inserted, such as those of
    // new benchmarks.
    let order = [
        "dpdk",
        "testpmd",
        "l3fwd",
        "touch",
        "rxptx",
        "stages",
        "ovs",
        "neighbour",
        "kernel",
        "memcached_kernel",
        "suricata",
        "memcached_dpdk",
        "compute",
        "iperf",
        "transfer",
        "netperf",
        "redis",
        "web",
        "nfs",
        "nat",
        "drive",
        "beside",
    ];
    let listed: Vec<&str> = all.iter().copied().filter(|name| order.contains(name)).collect();
    assert_eq!(listed, order);
    assert!(run_sections().iter().all(|name| all.contains(name)) && !run_sections().contains(&"dpdk"));
}

#[test]
fn settings_of_other_benchmarks_are_rejected() {
    let redis = benchmark("redis").unwrap();
    let set = |text: &str| redis.reject_foreign_settings([&text.to_owned()]);
    for own in
        ["redis.value=9", "kernel.mtu=9000", "drive.kind=node", "core.ipc=2", "beside.traces=[]", "x=1"]
    {
        assert!(set(own).is_ok(), "{own}");
    }
    assert_eq!(set("dpdk.rxd = 512").unwrap_err().key, "dpdk.rxd");
    assert!(
        set("web.file=100").unwrap_err().to_string().contains("it is for web, nat, but redis has no [web]")
    );
    for benchmark in BENCHMARKS {
        let set: Vec<String> = benchmark.defaults.iter().map(|text| (*text).to_owned()).collect();
        benchmark.reject_foreign_settings(&set).unwrap();
    }
}

#[test]
#[should_panic(expected = "two types of options are called [dpdk]")]
fn two_types_of_options_cannot_share_a_name() {
    #[derive(
        Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
    )]
    struct Other {}
    impl crate::plan::options::Options for Other {
        const SECTION: &'static str = "dpdk";

        fn validate(&self, _: &RunConfig) -> Result<(), ConfigError> {
            Ok(())
        }
    }
    OptionSections::of([DPDK, Section::of::<Other>()]);
}
