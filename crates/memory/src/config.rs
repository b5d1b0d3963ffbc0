//! The parameters of caches and interconnect, as a configuration file spells them.
//!
//! Defaults are those of the gem5 paper's machine where it gives them (ISPASS 2024, table I), else of a server part of
//! its time.

use doorbell_sim::memory::LINE_BYTES;
use doorbell_sim::{Bytes, Hertz};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::coherence::config::CoherenceConfig;
use crate::dca::DcaConfig;
use crate::dram::DramConfig;
use crate::fabric::config::FabricConfig;
use crate::prefetch::PrefetchConfig;
use crate::replacement::Replacement;
use crate::slices::SLICES;
use crate::ways::{WAYS_MAX, WayMask};

/// A private cache. Its times are core cycles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CacheConfig {
    /// Bytes of data, 64B to 1GiB: ways · 64 B · a power of two.
    pub size: Bytes,
    /// Lines of a set, 1 to 32.
    pub ways: u32,
    /// Core cycles from a request's arrival to its data, or to the request for it one level further, 0 to 1000.
    pub latency: u32,
    /// Core cycles on the way back of a miss: from the line's arrival from the level below to its data at the level above, 0 to 1000.
    pub response: u32,
    /// Core cycles from a line's arrival to its writing into the array, when the line whose place it takes leaves, 0 to 1000. Whoever
    /// waits for the line has it at once, and the miss register is free.
    pub fill: u32,
    /// Accesses a cycle, 1 to 64.
    pub ports: u32,
    /// Ports that a line's writing into the array takes in its cycle, 0 to 64 and at most `ports`. With 0 lines are written through a port of
    /// their own.
    #[serde(skip_serializing_if = "is_zero")]
    pub fill_ports: u32,
    /// Bytes per cycle to the first-level caches, 0 to 1024; 0: a line per port. Only of the second level.
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes_per_cycle: u32,
    /// Misses on their way at a time, 1 to 256.
    pub mshrs: u32,
    /// Dirty lines on their way to the level below at a time, 1 to 256.
    pub write_buffers: u32,
    /// Which line goes next: "lru", "nru", "srrip" or "drrip".
    pub replacement: Replacement,
    /// What is fetched ahead.
    pub prefetch: PrefetchConfig,
}

impl Default for CacheConfig {
    /// A first-level data cache.
    fn default() -> CacheConfig {
        CacheConfig {
            size: Bytes(64 << 10),
            ways: 4,
            latency: 2,
            response: 0,
            fill: 0,
            ports: 2,
            fill_ports: 0,
            bytes_per_cycle: 0,
            mshrs: 6,
            write_buffers: 8,
            replacement: Replacement::Lru,
            prefetch: PrefetchConfig::default(),
        }
    }
}

/// What the LLC holds of what is in private caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Inclusion {
    /// All of it: what leaves the LLC leaves the private caches.
    Inclusive,
    /// What was fetched through it and has not been replaced.
    #[default]
    NonInclusive,
    /// What has left the private caches, mostly: it is filled by their victims, and gives a line away when one core has it.
    Exclusive,
}

/// The shared last-level cache. Its times are cycles of the interconnect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LlcConfig {
    /// Bytes of data, 64B to 1GiB: ways · 64 B · a power of two, times the odd part of `slices`: 22 slices of 20 ways · 128 KiB
    /// have 55 MiB.
    pub size: Bytes,
    /// Lines of a set, 1 to 32.
    pub ways: u32,
    /// Interconnect cycles from a request's arrival to its data, or to the request to memory, 0 to 1000.
    pub latency: u32,
    /// Interconnect cycles on the way back of a miss, from the line's arrival from memory to its data's leaving, 0 to 1000.
    pub response: u32,
    /// Accesses a cycle over all banks, 1 to 64; of each slice, where `memory.fabric` gives slices places.
    pub ports: u32,
    /// Misses on their way at a time, of cores and devices together, 1 to 256.
    pub mshrs: u32,
    /// Dirty lines on their way to memory at a time, 1 to 256.
    pub write_buffers: u32,
    /// Which line goes next: "lru", "nru", "srrip" or "drrip".
    pub replacement: Replacement,
    /// Slices over which Intel's hash of the address spreads lines, each with as many sets: 1, 2, 4, 8, 10, 16, 18, 20 or 22; with
    /// 1 there is no hash. That of 10 is made of that of 20.
    pub slices: u32,
    /// Whether, for the choice of sets, pages of 4 KiB lie in no order, as those do that a machine hands out which has run for long: the
    /// RAM of one that has just booted is in one piece, and buffers of a pool lie in it one behind the other.
    pub scatter: bool,
    /// "inclusive", "non-inclusive" or "exclusive".
    pub inclusion: Inclusion,
    /// The ways that cores' lines may take: "all", "4-15".
    pub core_ways: WayMask,
}

impl Default for LlcConfig {
    fn default() -> LlcConfig {
        LlcConfig {
            size: Bytes(4 << 20),
            ways: 16,
            latency: 20,
            response: 0,
            ports: 2,
            mshrs: 64,
            write_buffers: 64,
            replacement: Replacement::Lru,
            slices: 1,
            scatter: false,
            inclusion: Inclusion::NonInclusive,
            core_ways: WayMask::ALL,
        }
    }
}

/// What joins private caches, the LLC, memory controllers and the root complex. Requests, snoops and acknowledgements have
/// latency; lines have bandwidth too, on a link of each core and of the root complex, in each direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct InterconnectConfig {
    /// The clock of interconnect and LLC, 1MHz to 100GHz.
    pub clock: Hertz,
    /// Cycles from a core to the LLC, and as many back, 0 to 10000. On a ring or mesh (`memory.fabric`) this and the times below are
    /// without the way from stop to stop.
    pub latency: u32,
    /// Bytes a cycle of each core's link, each way, 1 to 1024.
    pub bytes_per_cycle: u32,
    /// Cycles from the LLC to a private cache that has a copy, and back, 0 to 10000.
    pub snoop_latency: u32,
    /// Cycles from the root complex to the LLC, and as many back, 0 to 10000.
    pub io_latency: u32,
    /// Bytes a cycle of the root complex's link, each way, 1 to 1024.
    pub io_bytes_per_cycle: u32,
}

impl Default for InterconnectConfig {
    fn default() -> InterconnectConfig {
        InterconnectConfig {
            clock: Hertz(2_000_000_000),
            latency: 6,
            bytes_per_cycle: 32,
            snoop_latency: 20,
            io_latency: 10,
            io_bytes_per_cycle: 64,
        }
    }
}

/// Where a page walk enters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WalkEntry {
    /// At the first-level data cache.
    #[default]
    L1d,
    /// At the second level.
    L2,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryConfig {
    /// Levels of cache, 2 or 3. With 2 what the first level misses goes to the last one, and `l2` counts for nothing.
    pub levels: u32,
    /// First-level instruction cache of each hart.
    pub l1i: CacheConfig,
    /// First-level data cache of each hart.
    pub l1d: CacheConfig,
    /// Second-level cache of each hart, which includes its first-level ones.
    pub l2: CacheConfig,
    /// The shared last-level cache.
    pub llc: LlcConfig,
    /// What joins them.
    pub interconnect: InterconnectConfig,
    /// How far cores, slices, memory controllers and devices are from each other.
    #[serde(skip_serializing_if = "FabricConfig::is_default")]
    pub fabric: FabricConfig,
    /// How copies in private caches are found and kept coherent.
    #[serde(skip_serializing_if = "CoherenceConfig::is_default")]
    pub coherence: CoherenceConfig,
    /// Where page walks enter: "l1d" or "l2".
    pub walks: WalkEntry,
    /// Bytes of a frame that are counted as its header, 0 to 65536.
    pub header_bytes: u32,
    /// Direct cache access.
    pub dca: DcaConfig,
    /// Memory controllers and DRAM.
    pub dram: DramConfig,
}

impl Default for MemoryConfig {
    fn default() -> MemoryConfig {
        let l1d = CacheConfig::default();
        MemoryConfig {
            levels: 3,
            l1i: CacheConfig { latency: 1, ports: 1, mshrs: 2, ..l1d.clone() },
            l2: CacheConfig {
                size: Bytes(1 << 20),
                ways: 8,
                latency: 12,
                ports: 1,
                mshrs: 16,
                write_buffers: 16,
                ..l1d.clone()
            },
            l1d,
            llc: LlcConfig::default(),
            interconnect: InterconnectConfig::default(),
            fabric: FabricConfig::default(),
            coherence: CoherenceConfig::default(),
            walks: WalkEntry::L1d,
            header_bytes: 64,
            dca: DcaConfig::default(),
            dram: DramConfig::default(),
        }
    }
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

pub(crate) fn between(name: &str, value: u32, least: u32, most: u32) -> Result<(), String> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(format!("{name} is {value}; it must be from {least} to {most}"))
}

/// How many sets a cache of this size has, in so many slices, of which each has a power of two of them.
fn sets(size: Bytes, ways: u32, slices: u32) -> Result<u32, String> {
    between("ways", ways, 1, WAYS_MAX)?;
    let way_bytes = size.0 / u64::from(ways);
    // What must be a power of two times 64 bytes.
    let odd = u64::from(slices >> slices.trailing_zeros());
    if size.0 > 1 << 30
        || way_bytes < 64 * odd
        || !way_bytes.is_multiple_of(odd)
        || !(way_bytes / odd).is_power_of_two()
        || way_bytes * u64::from(ways) != size.0
    {
        let unit = u64::from(ways) * odd;
        let example = Bytes(unit * (size.0 / unit).clamp(64, 1 << 25).next_power_of_two());
        let in_slices = if odd > 1 { format!(" in {slices} slices") } else { String::new() };
        let odd = if odd > 1 { format!("{odd} · ") } else { String::new() };
        return Err(format!(
            "size is {size}; with {ways} ways{in_slices} it must be {ways} · {odd}64B · a power of two, up to 1GiB, such as {example}"
        ));
    }
    Ok((way_bytes / 64) as u32)
}

impl CacheConfig {
    /// How many sets there are; the configuration has to be valid.
    pub(crate) fn sets(&self) -> u32 {
        (self.size.0 / LINE_BYTES / u64::from(self.ways)) as u32
    }

    /// Says what is wrong with the parameters.
    pub fn validate(&self) -> Result<(), String> {
        self.validate_in_slices(1)
    }

    fn validate_in_slices(&self, slices: u32) -> Result<(), String> {
        sets(self.size, self.ways, slices)?;
        between("latency", self.latency, 0, 1000)?;
        between("response", self.response, 0, 1000)?;
        between("fill", self.fill, 0, 1000)?;
        between("ports", self.ports, 1, 64)?;
        between("fill_ports", self.fill_ports, 0, self.ports)?;
        between("bytes_per_cycle", self.bytes_per_cycle, 0, 1024)?;
        between("mshrs", self.mshrs, 1, 256)?;
        between("write_buffers", self.write_buffers, 1, 256)?;
        self.prefetch.validate()
    }
}

impl LlcConfig {
    /// Says what is wrong with the parameters.
    fn validate(&self) -> Result<(), String> {
        let slices = self.slices;
        if !SLICES.contains(&slices) {
            let known = SLICES.map(|slices| slices.to_string()).join(", ");
            return Err(format!("llc.slices is {slices}; known are the hashes of {known} slices"));
        }
        let cache = self.cache();
        cache.validate_in_slices(slices).map_err(|problem| format!("llc.{problem}"))?;
        if cache.sets() < slices {
            let sets = cache.sets();
            return Err(format!(
                "llc.slices is {slices}; it must be at most {sets}, as many as there are sets"
            ));
        }
        self.core_ways.validate("llc.core_ways", self.ways)
    }

    /// As a cache, without what only the LLC has.
    pub(crate) fn cache(&self) -> CacheConfig {
        CacheConfig {
            size: self.size,
            ways: self.ways,
            latency: self.latency,
            response: self.response,
            fill: 0,
            ports: self.ports,
            fill_ports: 0,
            bytes_per_cycle: 0,
            mshrs: self.mshrs,
            write_buffers: self.write_buffers,
            replacement: self.replacement,
            prefetch: PrefetchConfig::default(),
        }
    }
}

/// The part of a [`MemoryConfig`] that each hart has for itself, and in which harts may differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrivateConfig {
    /// First-level instruction cache.
    pub l1i: CacheConfig,
    /// First-level data cache.
    pub l1d: CacheConfig,
    /// Second-level cache, which includes the first-level ones.
    pub l2: CacheConfig,
    /// Where page walks enter.
    pub walks: WalkEntry,
    /// The ways of the last level that this hart's lines may take, of which `memory.llc.core_ways` says what all have: "all", "4-15". Intel
    /// has such masks as Cache Allocation Technology, Arm as cache portion partitioning (MPAM).
    pub llc_ways: WayMask,
}

impl PrivateConfig {
    /// Says what is wrong with the parameters, beside a last level of so many ways.
    pub fn validate(&self, llc_ways: u32) -> Result<(), String> {
        self.llc_ways.validate("llc_ways", llc_ways)?;
        for (name, cache) in [("l1i", &self.l1i), ("l1d", &self.l1d), ("l2", &self.l2)] {
            cache.validate().map_err(|problem| format!("{name}.{problem}"))?;
        }
        for (name, cache) in [("l1i", &self.l1i), ("l1d", &self.l1d)] {
            if cache.bytes_per_cycle > 0 {
                return Err(format!(
                    "{name}.bytes_per_cycle has no effect: a first-level cache serves an access per port; set {name}.ports, or \
                     l2.bytes_per_cycle"
                ));
            }
        }
        Ok(())
    }
}

impl PrivateConfig {
    /// In place of a second level: what is in the first-level caches and nothing else, so that others find it. It has room for all of
    /// that, and for a line that comes before the one whose place it takes has gone.
    pub(crate) fn directory(&self) -> CacheConfig {
        let sets = self.l1i.sets().min(self.l1d.sets());
        let lines = (self.l1i.size.0 + self.l1d.size.0) / LINE_BYTES;
        let ways = (lines / u64::from(sets)) as u32 + 1;
        CacheConfig {
            size: Bytes(u64::from(sets * ways) * LINE_BYTES),
            ways,
            latency: 0,
            response: 0,
            ports: 64,
            fill_ports: 0,
            bytes_per_cycle: 0,
            mshrs: 256,
            replacement: Replacement::Lru,
            prefetch: PrefetchConfig::default(),
            ..self.l1d.clone()
        }
    }

    /// Says what does not go with so many levels.
    pub(crate) fn validate_levels(&self, levels: u32) -> Result<(), String> {
        between("levels", levels, 2, 3)?;
        if levels == 3 {
            return Ok(());
        }
        if self.walks == WalkEntry::L2 {
            return Err("walks is \"l2\", which levels = 2 leaves out; it must be \"l1d\"".to_owned());
        }
        let ways = self.directory().ways;
        if ways > WAYS_MAX {
            return Err(format!(
                "levels is 2: l1i and l1d together have {} lines for each set of the one with fewer sets, and can have {}; give them \
                 fewer ways, or sets that are more alike in number",
                ways - 1,
                WAYS_MAX - 1
            ));
        }
        Ok(())
    }
}

impl MemoryConfig {
    /// What each hart has for itself, unless it is told otherwise.
    pub fn private(&self) -> PrivateConfig {
        let (l1i, l1d, l2) = (self.l1i.clone(), self.l1d.clone(), self.l2.clone());
        PrivateConfig { l1i, l1d, l2, walks: self.walks, llc_ways: self.llc.core_ways }
    }

    /// Says what is wrong with the parameters for a machine of so many harts, naming the one and what it can be.
    pub fn validate(&self, harts: usize) -> Result<(), String> {
        self.llc.validate()?;
        self.private().validate(self.llc.ways)?;
        self.private().validate_levels(self.levels)?;
        if self.levels == 2 && self.dca.places_in_l2() {
            return Err("dca has a policy with the place \"l2\", and levels = 2 has none; take \"allocate\", or levels = 3".to_owned());
        }
        let ic = &self.interconnect;
        if !(1_000_000..=100_000_000_000).contains(&ic.clock.0) {
            return Err(format!("interconnect.clock is {}; it must be from 1MHz to 100GHz", ic.clock));
        }
        between("interconnect.latency", ic.latency, 0, 10_000)?;
        between("interconnect.snoop_latency", ic.snoop_latency, 0, 10_000)?;
        between("interconnect.io_latency", ic.io_latency, 0, 10_000)?;
        between("interconnect.bytes_per_cycle", ic.bytes_per_cycle, 1, 1024)?;
        between("interconnect.io_bytes_per_cycle", ic.io_bytes_per_cycle, 1, 1024)?;
        between("header_bytes", self.header_bytes, 0, 65536)?;
        self.coherence.validate(&self.llc).map_err(|problem| format!("coherence.{problem}"))?;
        self.dram.validate().map_err(|problem| format!("dram.{problem}"))?;
        let places = self.fabric.places(harts, self.llc.slices, self.dram.channels);
        places.map_err(|problem| format!("fabric.{problem}"))?;
        self.dca.validate(self.llc.ways, harts).map_err(|problem| format!("dca.{problem}"))
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
