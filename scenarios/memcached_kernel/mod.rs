//! memcached over the kernel's network stack, in the net image, on one or several cores.

use doorbell_loadgen::Kind;
use doorbell_machine::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::benchmark::Benchmark;
use crate::measure::kinds::{KERNEL, KERNEL_PROGRAM};
use crate::measure::shards;
use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::kernel;
use crate::plan::options::{Options, Section, Setting};

/// The benchmark.
pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "memcached-kernel",
    summary: "memcached answers GETs over UDP and the kernel's stack",
    guest_words,
    options: &[KERNEL, Section::of::<MemcachedKernelConfig>()],
    defaults: TRAFFIC,
    preload: Some(Kind::MemcachedSet),
    remark,
    ..KERNEL_PROGRAM
};

/// Traffic of both servers with memcached's protocol. The window is long because the rate is low.
pub(crate) const TRAFFIC: &[&str] = &[
    "loadgen.traffic.kind=memcached-get",
    "loadgen.traffic.rate=20kpps",
    "loadgen.traffic.outstanding=64",
    "loadgen.traffic.source_ip=10.0.0.1",
    "loadgen.traffic.destination_ip=10.0.0.2",
    "loadgen.traffic.destination_port=11211",
    "run.window=50ms",
    "run.duration_limit=200ms",
];

doorbell_sim::config! {
    /// memcached-kernel's own options; options shared with other programs over the kernel's stack are in
    /// `kernel`.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct MemcachedKernelConfig {
        /// Cores, 1 to 8 (1 if unset), each with a memcached thread and one queue per port, whose interrupts
        /// it handles. More than one needs as many harts, NICs of the model 82576, and `platform.interrupts =
        /// "aia"`, without which Linux uses one queue per port. RSS spreads clients over queues
        /// (`loadgen.traffic.memcached.clients`); threads share the socket.
        #[serde(skip_serializing_if = "cores::is_one")]
        pub cores: u32 = 1,
    }
}

impl Options for MemcachedKernelConfig {
    const SECTION: &'static str = "memcached_kernel";
    const QUIET: bool = true;

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        shards::check("memcached_kernel.cores", self.cores, config)
    }

    fn required_settings(&self, config: &RunConfig) -> Vec<Setting> {
        shards::required_settings(self.cores, config)
    }
}

/// Kernel command-line words for the image's /init.
fn guest_words(config: &RunConfig) -> String {
    match config.options::<MemcachedKernelConfig>().cores {
        1 => kernel::words("memcached", &[], config),
        cores => kernel::words("memcached", &[format!("threads={cores}")], config),
    }
}

/// Warning about a single client for several cores.
fn remark(config: &RunConfig) -> Option<String> {
    let several = config.options::<MemcachedKernelConfig>().cores > 1;
    (several && config.loadgen.traffic.memcached.clients == 1).then(|| "; one client is one flow, which RSS keeps on one queue of a port: --set loadgen.traffic.memcached.clients=64".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::resolve::on_fast;

    #[test]
    fn several_cores_need_harts_queues_and_msi_and_one_core_has_the_short_command_line() {
        assert_eq!(guest_words(&on_fast(&[]).unwrap()), "doorbell.app=memcached");
        let four =
            ["memcached_kernel.cores=4", "platform.harts=4", "nic.model=82576", "platform.interrupts=aia"];
        let config = on_fast(&four).unwrap();
        assert_eq!(guest_words(&config), "-- \"threads=4; . /scripts/memcached\"");
        assert!(remark(&config).is_some());
        let clients = on_fast(&[&four[..], &["loadgen.traffic.memcached.clients=9"]].concat()).unwrap();
        assert!(remark(&clients).is_none());
        assert_eq!(on_fast(&four[..1]).unwrap(), config, "required settings follow from the number of cores");
        for (wrong, message) in [
            ("platform.harts=3", "platform.harts=4"),
            ("nic.model=82540em", "nic.model=82576"),
            ("platform.interrupts=plic", "platform.interrupts=aia"),
        ] {
            let error = on_fast(&[four[0], wrong]).unwrap_err();
            assert!(error.contains("memcached_kernel.cores") && error.contains(message), "{error}");
        }
        let error = on_fast(&["memcached_kernel.cores=9", "platform.harts=16"]).unwrap_err();
        assert!(error.contains("9 is not from 1 to 8, the queues that Linux uses"), "{error}");
    }
}
