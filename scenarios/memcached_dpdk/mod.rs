//! Doorbell's key-value store on DPDK, with memcached's UDP protocol (`guest/programs/memcached-dpdk`), in
//! the dpdk image. It has the same load as memcached on the kernel's stack ([`TRAFFIC`]).

use doorbell_loadgen::{Kind, Returned};
use doorbell_machine::ConfigError;
use doorbell_sim::{Bytes, config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::benchmark::Benchmark;
use crate::measure::kinds::{DPDK, DPDK_PROGRAM};
use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::dpdk::{self, DpdkConfig, EAL_HUGEPAGES, HUGEPAGE};
use crate::plan::options::{self, Options, Section, Setting};
use crate::scenarios::memcached_kernel::TRAFFIC;

/// The benchmark.
pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "memcached-dpdk",
    summary: "a key-value store on DPDK answers the same GETs as memcached-kernel",
    guest_words,
    options: &[DPDK, Section::of::<MemcachedDpdkConfig>()],
    defaults: TRAFFIC,
    returned: |_| Returned::Any,
    preload: Some(Kind::MemcachedSet),
    check: |config| dpdk::check_ram(hugepages(config), config),
    remark,
    ..DPDK_PROGRAM
};

/// Bytes per packet buffer, rounded up from 2,304.
const MBUF: u64 = 2560;
/// Bytes per cache line.
const LINE: u64 = 64;
/// Maximum number of cores: the 82576 filters that direct UDP ports to queues.
const CORES_MAX: u32 = 8;
const LAST_PORT: u32 = 65_535;

config! {
    /// memcached-dpdk's own options.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct MemcachedDpdkConfig {
        /// Cores, 1 to 8 (1 if unset), each with its own store, queue and UDP port (from
        /// `loadgen.traffic.destination_port` on), which the NIC's filters direct to its queue. More than one
        /// needs as many harts, NICs of the model 82576, and the same number in
        /// `loadgen.traffic.memcached.shards`, so that clients use all ports. `dpdk.mbufs` is per core.
        #[serde(skip_serializing_if = "cores::is_one")]
        pub cores: u32 = 1,
        /// Size of the store including its hash table (--memory), 64 KiB to 64 GiB, divided equally among
        /// cores.
        pub memory: Bytes = Bytes(64 << 20),
        /// Buckets of each core's hash table, 4 bytes each (--buckets): a power of two up to 2^30 that takes
        /// at most half of the memory; or 0, which chooses one bucket per one to two items of the minimum
        /// size.
        pub buckets: u32 = 0,
    }
}

impl Options for MemcachedDpdkConfig {
    const SECTION: &'static str = "memcached_dpdk";

    fn required_settings(&self, config: &RunConfig) -> Vec<Setting> {
        let mut settings = cores::required_settings(self.cores, config);
        let shards = "loadgen.traffic.memcached.shards";
        settings.extend((self.cores > 1).then(|| (shards, i64::from(self.cores.min(CORES_MAX)).into())));
        settings
    }

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        self.check_cores(config)?;
        options::check_range("memcached_dpdk.memory", self.memory, Bytes(64 << 10)..=Bytes(64 << 30))?;
        let memory = self.memory_per_core();
        let problem = format!("\"{}\" is less than 64KiB for each of {} cores", self.memory, self.cores);
        options::reject_if(memory < 64 << 10, "memcached_dpdk.memory", problem)?;
        let buckets = u64::from(self.buckets);
        let problem = format!(
            "{buckets} is neither 0 nor a power of two up to 2^30 whose table (4 bytes per bucket) takes at most half of a \
                 core's part of memcached_dpdk.memory"
        );
        options::reject_if(
            buckets != 0 && (!buckets.is_power_of_two() || buckets > 1 << 30 || 4 * buckets > memory / 2),
            "memcached_dpdk.buckets",
            problem,
        )?;
        Ok(())
    }
}

impl MemcachedDpdkConfig {
    /// Bytes per core's store, in whole cache lines if there are several.
    fn memory_per_core(&self) -> u64 {
        if self.cores == 1 {
            return self.memory.0;
        }
        self.memory.0 / u64::from(self.cores) / LINE * LINE
    }

    fn check_cores(&self, config: &RunConfig) -> Result<(), ConfigError> {
        let (key, cores) = ("memcached_dpdk.cores", self.cores);
        let fail = |problem: String| Err(ConfigError::new(key, problem));
        if !(1..=CORES_MAX).contains(&cores) {
            return fail(format!("{cores} is not from 1 to {CORES_MAX}, the number of the NIC's filters"));
        }
        cores::check(key, cores, config)?;
        let traffic = &config.loadgen.traffic;
        let (shards, first) = (u32::from(traffic.memcached.shards), u32::from(traffic.destination_port));
        if cores > 1 && shards != cores {
            return fail(format!(
                "{cores}, but clients use {shards} server(s); set loadgen.traffic.memcached.shards={cores}"
            ));
        }
        if first + cores > LAST_PORT {
            return fail(format!(
                "{cores}, but there are fewer UDP ports from {first} on; set a smaller loadgen.traffic.destination_port"
            ));
        }
        Ok(())
    }
}

/// Warning that clients use several servers but one runs. With several cores, the numbers are checked to be
/// equal.
fn remark(config: &RunConfig) -> Option<String> {
    let several = config.options::<MemcachedDpdkConfig>().cores > 1;
    (!several && config.loadgen.traffic.memcached.shards > 1)
        .then(|| "; clients use several servers (loadgen.traffic.memcached.shards), but only one runs: set memcached_dpdk.cores".to_owned())
}

/// Hugepages needed for packet buffers and stores.
fn hugepages(config: &RunConfig) -> u64 {
    let own: &MemcachedDpdkConfig = config.options();
    let cores = u64::from(own.cores);
    let mbufs = u64::from(config.options::<DpdkConfig>().mbufs) * u64::from(config.platform.nics) * cores;
    EAL_HUGEPAGES + (mbufs * MBUF).div_ceil(HUGEPAGE) + cores * own.memory_per_core().div_ceil(HUGEPAGE)
}

/// Kernel command-line words for the image's /init.
fn guest_words(config: &RunConfig) -> String {
    let own: &MemcachedDpdkConfig = config.options();
    let traffic = &config.loadgen.traffic;
    let (memory, hugepages) = (own.memory_per_core(), hugepages(config));
    let app = if own.cores == 1 { "memcached-dpdk" } else { "memcached-shards" };
    format!(
        "{} doorbell.hugepages={hugepages} doorbell.arg=--memory={memory} doorbell.arg=--buckets={} \
         doorbell.arg=--address={} doorbell.arg=--udp-port={}",
        dpdk::words_of_cores(app, own.cores, config),
        own.buckets,
        traffic.destination_ip.to_bits(),
        traffic.destination_port,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::resolve::on_fast;

    #[test]
    fn several_cores_run_the_sharded_program_with_equal_parts_of_the_memory() {
        let one = on_fast(&[]).unwrap();
        let words = guest_words(&one);
        assert!(
            words.contains("doorbell.app=memcached-dpdk ") && words.contains("--memory=67108864 "),
            "{words}"
        );
        assert!(!one.to_toml().contains("cores =") && !one.to_toml().contains("shards ="));
        let four = [
            "memcached_dpdk.cores=4",
            "platform.harts=4",
            "nic.model=82576",
            "loadgen.traffic.memcached.shards=4",
        ];
        let words = guest_words(&on_fast(&four).unwrap());
        assert!(
            words.contains("doorbell.app=memcached-shards ") && words.contains("--memory=16777216 "),
            "{words}"
        );
        assert_eq!(on_fast(&four[..1]), on_fast(&four), "required settings follow from the number of cores");
        for (wrong, message) in [
            ("platform.harts=3", "platform.harts=4"),
            ("nic.model=82540em", "nic.model=82576"),
            ("loadgen.traffic.memcached.shards=1", "loadgen.traffic.memcached.shards=4"),
        ] {
            let error = on_fast(&[four[0], wrong]).unwrap_err();
            assert!(error.contains("memcached_dpdk.cores") && error.contains(message), "{error}");
        }
        for (set, message) in [
            (&["memcached_dpdk.cores=9"][..], "9 is not from 1 to 8, the number of the NIC's filters"),
            (&[&four[..], &["loadgen.traffic.destination_port=65533"]].concat(), "fewer UDP ports"),
            (&[&four[..], &["memcached_dpdk.memory=128KiB"]].concat(), "less than 64KiB for each of 4 cores"),
        ] {
            let error = on_fast(set).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
        assert!(remark(&on_fast(&four[3..]).unwrap()).is_some() && remark(&one).is_none());
    }
}
