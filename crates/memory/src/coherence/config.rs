//! Configuration of coherence: how copies in private caches are found and invalidated.

use doorbell_sim::memory::LINE_BYTES;
use doorbell_sim::{Bytes, config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{CacheConfig, LlcConfig};
use crate::replacement::Replacement;
use crate::ways::WAYS_MAX;

/// Method of finding copies in private caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CoherenceKind {
    /// A directory if several cores share memory or `entries` is set; else ideal.
    #[default]
    Auto,
    /// Copies are found at once and no messages are sent: a request that waits for the data of a copy takes
    /// `interconnect.snoop_latency`, and invalidating copies takes no time.
    Ideal,
    /// A directory at the LLC that keeps the owner and sharers of each line, sends snoops and waits for
    /// responses.
    Directory,
}

/// Destination of a snooped core's response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Answers {
    /// The requesting core, directly: three hops from its request to the data.
    #[default]
    Direct,
    /// The LLC, which forwards it: four hops.
    Home,
}

config! {
    /// Coherence parameters. Times are in interconnect cycles.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct CoherenceConfig {
        /// "ideal": copies are found at once, and a request that waits for one takes
        /// `interconnect.snoop_latency`. "directory": requests, snoops and responses take the times below and
        /// `interconnect.latency` each way. "auto": a directory if several cores share memory or `entries` is
        /// set, else ideal.
        pub kind: CoherenceKind = CoherenceKind::Auto,
        /// Lines of private caches that the directory can track, ways · `llc.slices` · a power of two, up to
        /// 16777216; 0: unlimited. To track another line it invalidates the copies of the least recently used
        /// one.
        pub entries: u32 [0..=1 << 24] = 0,
        /// Entries per set of the directory, 1 to 32.
        pub ways: u32 [1..=WAYS_MAX] = 12,
        /// Interconnect cycles from the LLC's look-up to the directory's snoops, 0 to 1000. One snoop leaves
        /// per cycle.
        pub latency: u32 [0..=1000] = 2,
        /// Interconnect cycles from a snoop's arrival at a core's caches to its response, 0 to 1000. If the
        /// line is still in flight to that core, they count from the line's arrival.
        pub snoop: u32 [0..=1000] = 8,
        /// Destination of the responses: "direct", the requesting core, or "home", the LLC, which forwards
        /// them to that core. Devices get theirs from the LLC.
        pub answers: Answers = Answers::Direct,
    }
}

impl CoherenceConfig {
    /// Resolves "auto" for `cores` cores that share memory. Other cores may have their own memory.
    pub fn kind_for(&self, cores: usize) -> CoherenceKind {
        match self.kind {
            CoherenceKind::Auto if cores > 1 || self.entries > 0 => CoherenceKind::Directory,
            CoherenceKind::Auto => CoherenceKind::Ideal,
            kind => kind,
        }
    }

    /// The directory's entries in the form of a cache; `entries` must not be 0.
    pub(crate) fn cache(&self) -> CacheConfig {
        let size = Bytes(u64::from(self.entries) * LINE_BYTES);
        CacheConfig { size, ways: self.ways, replacement: Replacement::Lru, ..CacheConfig::default() }
    }

    /// Checks the parameters of a directory for this LLC.
    pub(crate) fn validate(&self, llc: &LlcConfig) -> Result<(), String> {
        self.check_ranges()?;
        if self.entries == 0 {
            return Ok(());
        }
        // Each of the LLC's slices has the same number of sets, a power of two.
        let unit = self.ways * llc.slices;
        let (sets, entries) = (self.entries / unit, self.entries);
        if entries.is_multiple_of(unit) && sets.is_power_of_two() {
            return Ok(());
        }
        let in_slices = if llc.slices > 1 { format!(" in {} slices", llc.slices) } else { String::new() };
        let example = unit * sets.clamp(1, 1 << 15).next_power_of_two();
        Err(format!(
            "entries is {entries}; with {} ways{in_slices} it must be {unit} · a power of two, such as {example}",
            self.ways
        ))
    }
}
