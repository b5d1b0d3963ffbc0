//! Our key-value store on DPDK, which speaks memcached's protocol over UDP (`guest/programs/memcached-dpdk`), in the dpdk
//! image: the same load as memcached has on the kernel's stack ([`crate::kernel::MEMCACHED`]).

use doorbell_machine::ConfigError;
use doorbell_sim::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::RunConfig;
use crate::dpdk::DpdkConfig;
use crate::options::Options;

/// Bytes of a hugepage.
const HUGEPAGE: u64 = 2 << 20;
/// Hugepages for EAL itself, as the image's /init reckons.
const EAL_HUGEPAGES: u64 = 11;
/// Bytes of a packet buffer, rounded up from 2,304.
const MBUF: u64 = 2560;

/// memcached-dpdk's own options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MemcachedDpdkConfig {
    /// The store, its hash table included (--memory): 64 KiB to 64 GiB.
    pub memory: Bytes,
    /// Buckets of the hash table, 4 bytes each (--buckets): a power of two up to 2^30, in at most half of the memory; or 0,
    /// for one to two items of the least size each.
    pub buckets: u32,
}

impl Default for MemcachedDpdkConfig {
    /// As much as memcached has in the net image.
    fn default() -> Self {
        MemcachedDpdkConfig { memory: Bytes(64 << 20), buckets: 0 }
    }
}

impl Options for MemcachedDpdkConfig {
    const SECTION: &'static str = "memcached_dpdk";

    fn validate(&self, _: &RunConfig) -> Result<(), ConfigError> {
        let Bytes(memory) = self.memory;
        if !(64 << 10..=64 << 30).contains(&memory) {
            let problem = format!("\"{}\" is not from 64KiB to 64GiB", self.memory);
            return Err(ConfigError::new("memcached_dpdk.memory", problem));
        }
        let buckets = u64::from(self.buckets);
        if buckets != 0 && (!buckets.is_power_of_two() || buckets > 1 << 30 || 4 * buckets > memory / 2) {
            let problem = format!(
                "{buckets} is neither 0 nor a power of two up to 2^30 whose table (4 bytes each) takes at most half of \
                 memcached_dpdk.memory"
            );
            return Err(ConfigError::new("memcached_dpdk.buckets", problem));
        }
        Ok(())
    }
}

/// What the image's /init is told.
pub(crate) fn guest_words(config: &RunConfig) -> String {
    let MemcachedDpdkConfig { memory, buckets } = config.options();
    let traffic = &config.loadgen.traffic;
    let mbufs = u64::from(config.options::<DpdkConfig>().mbufs) * u64::from(config.platform.nics);
    let hugepages = EAL_HUGEPAGES + (mbufs * MBUF).div_ceil(HUGEPAGE) + memory.0.div_ceil(HUGEPAGE);
    format!(
        "{} doorbell.hugepages={hugepages} doorbell.arg=--memory={} doorbell.arg=--buckets={buckets} \
         doorbell.arg=--address={} doorbell.arg=--udp-port={}",
        crate::dpdk::words("memcached-dpdk", config),
        memory.0,
        traffic.destination_ip.to_bits(),
        traffic.destination_port,
    )
}
