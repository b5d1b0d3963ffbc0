//! How copies in private caches are found and kept coherent, as a configuration file spells it.

use doorbell_sim::Bytes;
use doorbell_sim::memory::LINE_BYTES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{CacheConfig, LlcConfig, between};
use crate::replacement::Replacement;
use crate::ways::WAYS_MAX;

/// What knows of copies in private caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CoherenceKind {
    /// A directory where several cores share memory, or where it is given `entries`; else ideal.
    #[default]
    Auto,
    /// Everything is known at once and nothing is sent: a request that has to wait for the data of a copy waits
    /// `interconnect.snoop_latency`, and taking copies away takes no time.
    Ideal,
    /// A directory at the LLC, which has owner and sharers of each line, sends snoops and waits for their answers.
    Directory,
}

/// Where a snooped core sends its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Answers {
    /// To the core that asked, in one crossing: three hops from its request to the data.
    #[default]
    Direct,
    /// To the LLC, which passes them on: four hops.
    Home,
}

/// See the module. Times are cycles of the interconnect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CoherenceConfig {
    /// "ideal": copies are known at once, and what waits for one waits `interconnect.snoop_latency`. "directory": requests, snoops and
    /// their answers take the times below and `interconnect.latency` each way. "auto": a directory where several cores share memory or `entries` are given, else ideal.
    pub kind: CoherenceKind,
    /// Lines in private caches that the directory can have at a time, ways · `llc.slices` · a power of two, up to 16777216; 0: as many as there are. To track another one it takes the copies of the one used last longest ago away.
    pub entries: u32,
    /// Entries of a set of the directory, 1 to 32.
    pub ways: u32,
    /// Interconnect cycles from the LLC's look-up to the directory's snoops, 0 to 1000. They leave one a cycle.
    pub latency: u32,
    /// Interconnect cycles from a snoop's arrival at a core's caches, or the arrival of the line that it waits for there, to its answer,
    /// 0 to 1000.
    pub snoop: u32,
    /// Where the answer goes: "direct", to the core that asked, or "home", to the LLC and from there to that core. Devices get theirs
    /// from the LLC.
    pub answers: Answers,
}

impl Default for CoherenceConfig {
    fn default() -> CoherenceConfig {
        CoherenceConfig {
            kind: CoherenceKind::Auto,
            entries: 0,
            ways: 12,
            latency: 2,
            snoop: 8,
            answers: Answers::Direct,
        }
    }
}

impl CoherenceConfig {
    /// Whether it says nothing: older configurations keep their hash.
    pub(crate) fn is_default(&self) -> bool {
        *self == CoherenceConfig::default()
    }

    /// The kind for so many cores that share memory. There may be others, which have memory of their own.
    pub fn kind_for(&self, cores: usize) -> CoherenceKind {
        match self.kind {
            CoherenceKind::Auto if cores > 1 || self.entries > 0 => CoherenceKind::Directory,
            CoherenceKind::Auto => CoherenceKind::Ideal,
            told => told,
        }
    }

    /// The directory's entries as those of a cache; there are some.
    pub(crate) fn cache(&self) -> CacheConfig {
        let size = Bytes(u64::from(self.entries) * LINE_BYTES);
        CacheConfig { size, ways: self.ways, replacement: Replacement::Lru, ..CacheConfig::default() }
    }

    /// Says what is wrong with the parameters of a directory beside an LLC in so many slices.
    pub(crate) fn validate(&self, llc: &LlcConfig) -> Result<(), String> {
        between("latency", self.latency, 0, 1000)?;
        between("snoop", self.snoop, 0, 1000)?;
        between("ways", self.ways, 1, WAYS_MAX)?;
        between("entries", self.entries, 0, 1 << 24)?;
        if self.entries == 0 {
            return Ok(());
        }
        // As many sets in each of the LLC's slices, a power of two of them.
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
