//! Our key-value store on DPDK, which speaks memcached's protocol over UDP (`guest/programs/memcached-dpdk`), in the dpdk
//! image: the same load as memcached has on the kernel's stack ([`crate::plan::kernel::MEMCACHED`]).

use doorbell_machine::ConfigError;
use doorbell_sim::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::dpdk::{self, DpdkConfig, EAL_HUGEPAGES, HUGEPAGE};
use crate::plan::options::{Options, Setting};

/// Bytes of a packet buffer, rounded up from 2,304.
const MBUF: u64 = 2560;
/// Bytes of a cache line.
const LINE: u64 = 64;
/// Cores at most: filters by which an 82576 tells their ports apart.
const CORES_MAX: u32 = 8;
const LAST_PORT: u32 = 65_535;

/// memcached-dpdk's own options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MemcachedDpdkConfig {
    /// Cores, 1 to 8 (without this, one), each with a store and a queue of its own, at UDP port `loadgen.traffic.destination_port` and those
    /// after it, which the card's filters put into its queue. More than one needs as many harts, NICs of the model 82576, and
    /// `loadgen.traffic.memcached.shards` of the same number, by which clients know them; each core has `dpdk.mbufs` of its own.
    #[serde(skip_serializing_if = "cores::is_one")]
    pub cores: u32,
    /// The store, its hash table included (--memory): 64 KiB to 64 GiB. Of several cores each has an equal part.
    pub memory: Bytes,
    /// Buckets of the hash table of each core, 4 bytes each (--buckets): a power of two up to 2^30, in at most half of the memory; or 0,
    /// for one to two items of the least size each.
    pub buckets: u32,
}

impl Default for MemcachedDpdkConfig {
    /// As much as memcached has in the net image.
    fn default() -> Self {
        MemcachedDpdkConfig { cores: 1, memory: Bytes(64 << 20), buckets: 0 }
    }
}

impl Options for MemcachedDpdkConfig {
    const SECTION: &'static str = "memcached_dpdk";

    fn follow(&self, config: &RunConfig) -> Vec<Setting> {
        let mut settings = cores::follow(self.cores, config);
        let shards = "loadgen.traffic.memcached.shards";
        settings.extend((self.cores > 1).then(|| (shards, i64::from(self.cores.min(CORES_MAX)).into())));
        settings
    }

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        self.check_cores(config)?;
        let Bytes(memory) = self.memory;
        if !(64 << 10..=64 << 30).contains(&memory) {
            let problem = format!("\"{}\" is not from 64KiB to 64GiB", self.memory);
            return Err(ConfigError::new("memcached_dpdk.memory", problem));
        }
        let memory = self.memory_of_each();
        if memory < 64 << 10 {
            let problem = format!("\"{}\" is less than 64KiB for each of {} cores", self.memory, self.cores);
            return Err(ConfigError::new("memcached_dpdk.memory", problem));
        }
        let buckets = u64::from(self.buckets);
        if buckets != 0 && (!buckets.is_power_of_two() || buckets > 1 << 30 || 4 * buckets > memory / 2) {
            let problem = format!(
                "{buckets} is neither 0 nor a power of two up to 2^30 whose table (4 bytes each) takes at most half of \
                 memcached_dpdk.memory (of a core's part of it)"
            );
            return Err(ConfigError::new("memcached_dpdk.buckets", problem));
        }
        Ok(())
    }
}

impl MemcachedDpdkConfig {
    /// Bytes of each core's store; of several in whole lines.
    fn memory_of_each(&self) -> u64 {
        if self.cores == 1 {
            return self.memory.0;
        }
        self.memory.0 / u64::from(self.cores) / LINE * LINE
    }

    fn check_cores(&self, config: &RunConfig) -> Result<(), ConfigError> {
        let (key, cores) = ("memcached_dpdk.cores", self.cores);
        let fail = |problem: String| Err(ConfigError::new(key, problem));
        if !(1..=CORES_MAX).contains(&cores) {
            return fail(format!("{cores} is not from 1 to {CORES_MAX}, the card's filters"));
        }
        cores::check(key, cores, config)?;
        let traffic = &config.loadgen.traffic;
        let (known, first) = (u32::from(traffic.memcached.shards), u32::from(traffic.destination_port));
        if cores > 1 && known != cores {
            return fail(format!(
                "{cores}, and clients ask {known} server(s); set loadgen.traffic.memcached.shards={cores}"
            ));
        }
        if first + cores > LAST_PORT {
            return fail(format!(
                "{cores}, and there are fewer UDP ports from {first} on (loadgen.traffic.destination_port)"
            ));
        }
        Ok(())
    }
}

/// What a run should know of its clients: of several cores their number is checked.
pub(crate) fn remark(config: &RunConfig) -> Option<String> {
    let several = config.options::<MemcachedDpdkConfig>().cores > 1;
    (!several && config.loadgen.traffic.memcached.shards > 1)
        .then(|| "; clients know several servers (loadgen.traffic.memcached.shards), and there is one: memcached_dpdk.cores".to_owned())
}

/// Hugepages for packet buffers and stores.
fn hugepages(config: &RunConfig) -> u64 {
    let own: &MemcachedDpdkConfig = config.options();
    let cores = u64::from(own.cores);
    let mbufs = u64::from(config.options::<DpdkConfig>().mbufs) * u64::from(config.platform.nics) * cores;
    EAL_HUGEPAGES + (mbufs * MBUF).div_ceil(HUGEPAGE) + cores * own.memory_of_each().div_ceil(HUGEPAGE)
}

/// Whether the machine has room for them.
pub(crate) fn check(config: &RunConfig) -> Result<(), ConfigError> {
    dpdk::check_ram(hugepages(config), config)
}

/// What the image's /init is told.
pub(crate) fn guest_words(config: &RunConfig) -> String {
    let own: &MemcachedDpdkConfig = config.options();
    let traffic = &config.loadgen.traffic;
    let (memory, hugepages) = (own.memory_of_each(), hugepages(config));
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
    fn cores_have_a_program_of_their_own_and_equal_parts_of_the_memory() {
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
        assert_eq!(on_fast(&four[..1]), on_fast(&four), "what it needs follows");
        for (wrong, says) in [
            ("platform.harts=3", "platform.harts=4"),
            ("nic.model=82540em", "nic.model=82576"),
            ("loadgen.traffic.memcached.shards=1", "loadgen.traffic.memcached.shards=4"),
        ] {
            let error = on_fast(&[four[0], wrong]).unwrap_err();
            assert!(error.contains("memcached_dpdk.cores") && error.contains(says), "{error}");
        }
        for (set, says) in [
            (&["memcached_dpdk.cores=9"][..], "9 is not from 1 to 8, the card's filters"),
            (&[&four[..], &["loadgen.traffic.destination_port=65533"]].concat(), "fewer UDP ports"),
            (&[&four[..], &["memcached_dpdk.memory=128KiB"]].concat(), "less than 64KiB for each of 4 cores"),
        ] {
            let error = on_fast(set).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        assert!(remark(&on_fast(&four[3..]).unwrap()).is_some() && remark(&one).is_none());
    }
}
