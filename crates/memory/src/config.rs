//! Configuration of caches and interconnect.
//!
//! Defaults are those of the machine in the gem5 paper (ISPASS 2024, table I) where it gives them, else those
//! of a server of its time.

use doorbell_sim::config::{check, is_default};
use doorbell_sim::memory::LINE_BYTES;
use doorbell_sim::{Bytes, Hertz, config};
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

config! {
    /// A private cache. Times are in core cycles.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct CacheConfig {
        /// Bytes of data, 64B to 1GiB: ways · 64 B · a power of two.
        pub size: Bytes = Bytes(64 << 10),
        /// Lines per set, 1 to 32.
        pub ways: u32 = 4,
        /// Core cycles from a request's arrival to its data on a hit, or to the request to the next level on
        /// a miss, 0 to 1000.
        pub latency: u32 [0..=1000] = 2,
        /// Core cycles on the return path of a miss: from the line's arrival from the level below to its
        /// delivery to the level above, 0 to 1000.
        pub response: u32 [0..=1000] = 0,
        /// Core cycles from a line's arrival to its write into the array, when the victim leaves, 0 to 1000.
        /// Requests that wait for the line get it on arrival, and the miss register is freed then.
        pub fill: u32 [0..=1000] = 0,
        /// Accesses per cycle, 1 to 64.
        pub ports: u32 [1..=64] = 2,
        /// Ports that a line fill takes in its cycle, 0 to 64 and at most `ports`. With 0, fills use a port
        /// of their own.
        #[serde(skip_serializing_if = "is_default")]
        pub fill_ports: u32 = 0,
        /// Bytes per cycle to the first-level caches, 0 to 1024; 0: a line per port. Second level only.
        #[serde(skip_serializing_if = "is_default")]
        pub bytes_per_cycle: u32 [0..=1024] = 0,
        /// Outstanding misses (miss registers), 1 to 256.
        pub mshrs: u32 [1..=256] = 6,
        /// Dirty lines in flight to the level below, 1 to 256.
        pub write_buffers: u32 [1..=256] = 8,
        /// Replacement policy: "lru", "nru", "srrip" or "drrip".
        pub replacement: Replacement = Replacement::Lru,
        /// Hardware prefetcher.
        pub prefetch: PrefetchConfig = PrefetchConfig::default(),
    }
}

/// Relation of the LLC's contents to those of the private caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Inclusion {
    /// Holds every line of the private caches: a line evicted from the LLC also leaves them.
    Inclusive,
    /// Holds lines that were fetched through it, until they are replaced.
    #[default]
    NonInclusive,
    /// Holds mostly victims of the private caches. A line is deallocated when one core takes it alone.
    Exclusive,
}

config! {
    /// The shared last-level cache. Times are in interconnect cycles.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct LlcConfig {
        /// Bytes of data, 64B to 1GiB: ways · 64 B · a power of two, times the odd part of `slices`: 22
        /// slices of 20 ways · 128 KiB have 55 MiB.
        pub size: Bytes = Bytes(4 << 20),
        /// Lines per set, 1 to 32.
        pub ways: u32 = 16,
        /// Interconnect cycles from a request's arrival to its data, or to the request to memory, 0 to 1000.
        pub latency: u32 = 20,
        /// Interconnect cycles on the return path of a miss, from the line's arrival from memory to its
        /// departure, 0 to 1000.
        pub response: u32 = 0,
        /// Accesses per cycle over all banks, 1 to 64; per slice, if `memory.fabric` gives slices positions.
        pub ports: u32 = 2,
        /// Outstanding misses (miss registers) of cores and devices together, 1 to 256.
        pub mshrs: u32 = 64,
        /// Dirty lines in flight to memory, 1 to 256.
        pub write_buffers: u32 = 64,
        /// Replacement policy: "lru", "nru", "srrip" or "drrip".
        pub replacement: Replacement = Replacement::Lru,
        /// Slices, with equal numbers of sets, over which Intel's address hash spreads lines: 1, 2, 4, 8, 10,
        /// 16, 18, 20 or 22. With 1 there is no hash. The hash of 10 is derived from that of 20.
        pub slices: u32 = 1,
        /// Whether 4 KiB pages are scattered over the sets, like the pages of a machine that has run for a
        /// long time. On a freshly booted machine RAM is contiguous, and the buffers of a pool are adjacent.
        pub scatter: bool = false,
        /// "inclusive", "non-inclusive" or "exclusive".
        pub inclusion: Inclusion = Inclusion::NonInclusive,
        /// Ways in which cores' lines may be allocated: "all", "4-15".
        pub core_ways: WayMask = WayMask::ALL,
    }
}

config! {
    /// The interconnect of private caches, LLC, memory controllers and root complex. Requests, snoops and
    /// acknowledgements have latency only. Lines also have bandwidth, on a link per core and one of the root
    /// complex, in each direction.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct InterconnectConfig {
        /// The clock of interconnect and LLC, 1MHz to 100GHz.
        pub clock: Hertz [Hertz(1_000_000)..=Hertz(100_000_000_000)] = Hertz(2_000_000_000),
        /// Cycles from a core to the LLC, and the same back, 0 to 10000. On a ring or mesh (`memory.fabric`)
        /// this and the times below exclude the hops between stops.
        pub latency: u32 [0..=10_000] = 6,
        /// Bytes per cycle of each core's link, each way, 1 to 1024.
        pub bytes_per_cycle: u32 [1..=1024] = 32,
        /// Cycles from the LLC to a private cache that has a copy, and back, 0 to 10000.
        pub snoop_latency: u32 [0..=10_000] = 20,
        /// Cycles from the root complex to the LLC, and the same back, 0 to 10000.
        pub io_latency: u32 [0..=10_000] = 10,
        /// Bytes per cycle of the root complex's link, each way, 1 to 1024.
        pub io_bytes_per_cycle: u32 [1..=1024] = 64,
    }
}

/// Cache level at which page walks enter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WalkEntry {
    /// At the first-level data cache.
    #[default]
    L1d,
    /// At the second level.
    L2,
}

config! {
    /// Parameters of the memory system.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct MemoryConfig {
        /// Cache levels, 2 or 3. With 2, first-level misses go to the last level and `l2` has no effect.
        pub levels: u32 [2..=3] = 3,
        /// First-level instruction cache of each hart.
        pub l1i: CacheConfig = CacheConfig { latency: 1, ports: 1, mshrs: 2, ..CacheConfig::default() },
        /// First-level data cache of each hart.
        pub l1d: CacheConfig = CacheConfig::default(),
        /// Second-level cache of each hart; it includes the first-level caches.
        pub l2: CacheConfig = CacheConfig {
            size: Bytes(1 << 20),
            ways: 8,
            latency: 12,
            ports: 1,
            mshrs: 16,
            write_buffers: 16,
            ..CacheConfig::default()
        },
        /// The shared last-level cache.
        pub llc: LlcConfig = LlcConfig::default(),
        /// The interconnect of these caches, memory and devices.
        pub interconnect: InterconnectConfig = InterconnectConfig::default(),
        /// Distances of cores, slices, memory controllers and devices.
        #[serde(skip_serializing_if = "is_default")]
        pub fabric: FabricConfig = FabricConfig::default(),
        /// Method of finding copies in private caches and keeping them coherent.
        #[serde(skip_serializing_if = "is_default")]
        pub coherence: CoherenceConfig = CoherenceConfig::default(),
        /// Cache level at which page walks enter: "l1d" or "l2".
        pub walks: WalkEntry = WalkEntry::L1d,
        /// Bytes of a frame that count as its header, 0 to 65536.
        pub header_bytes: u32 [0..=65536] = 64,
        /// Direct cache access.
        pub dca: DcaConfig = DcaConfig::default(),
        /// Memory controllers and DRAM.
        pub dram: DramConfig = DramConfig::default(),
    }
}

/// Sets of a cache of this size over all slices; the sets per slice are a power of two.
fn sets(size: Bytes, ways: u32, slices: u32) -> Result<u32, String> {
    check("ways", &ways, 1..=WAYS_MAX)?;
    let way_bytes = size.0 / u64::from(ways);
    // Odd factor of the slice count; a way's bytes divided by it must be a power of two times 64.
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
    /// Number of sets; the configuration must be valid.
    pub(crate) fn sets(&self) -> u32 {
        (self.size.0 / LINE_BYTES / u64::from(self.ways)) as u32
    }

    /// Checks the parameters.
    pub fn validate(&self) -> Result<(), String> {
        self.validate_in_slices(1)
    }

    fn validate_in_slices(&self, slices: u32) -> Result<(), String> {
        sets(self.size, self.ways, slices)?;
        self.check_ranges()?;
        check("fill_ports", &self.fill_ports, 0..=self.ports)?;
        self.prefetch.validate()
    }
}

impl LlcConfig {
    /// Checks the parameters.
    fn validate(&self) -> Result<(), String> {
        let slices = self.slices;
        if !SLICES.contains(&slices) {
            let valid = SLICES.map(|slices| slices.to_string()).join(", ");
            return Err(format!("llc.slices is {slices}; it must be one of {valid}"));
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

    /// The parameters that the LLC shares with other caches.
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

/// The part of a [`MemoryConfig`] that each hart has privately; harts may differ in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrivateConfig {
    /// First-level instruction cache.
    pub l1i: CacheConfig,
    /// First-level data cache.
    pub l1d: CacheConfig,
    /// Second-level cache, which includes the first-level ones.
    pub l2: CacheConfig,
    /// Cache level at which page walks enter.
    pub walks: WalkEntry,
    /// Ways of the last level in which this hart's lines may be allocated: "all", "4-15".
    /// `memory.llc.core_ways` is the default of all harts. Intel calls such masks Cache Allocation
    /// Technology, Arm cache portion partitioning (MPAM).
    pub llc_ways: WayMask,
}

impl PrivateConfig {
    /// Checks the parameters; the last level has `llc_ways` ways.
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
    /// Replaces the second level: a directory of the lines in the first-level caches, so that others find
    /// them. It has room for all of them, and for one line that arrives before its victim has left.
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

    /// Checks that the parameters suit the number of levels.
    pub(crate) fn validate_levels(&self, levels: u32) -> Result<(), String> {
        if levels == 3 {
            return Ok(());
        }
        if self.walks == WalkEntry::L2 {
            return Err("walks is \"l2\", but levels = 2 has no second level; it must be \"l1d\"".to_owned());
        }
        let ways = self.directory().ways;
        if ways > WAYS_MAX {
            return Err(format!(
                "levels is 2: l1i and l1d together have {} lines for each set of the one with fewer sets, and can have {}; give them \
                 fewer ways, or numbers of sets that are closer",
                ways - 1,
                WAYS_MAX - 1
            ));
        }
        Ok(())
    }
}

impl MemoryConfig {
    /// Default private caches of each hart.
    pub fn private(&self) -> PrivateConfig {
        let (l1i, l1d, l2) = (self.l1i.clone(), self.l1d.clone(), self.l2.clone());
        PrivateConfig { l1i, l1d, l2, walks: self.walks, llc_ways: self.llc.core_ways }
    }

    /// Checks the parameters for a machine with `harts` harts. The message names the parameter and its valid
    /// values.
    pub fn validate(&self, harts: usize) -> Result<(), String> {
        self.check_ranges()?;
        self.llc.validate()?;
        self.private().validate(self.llc.ways)?;
        self.private().validate_levels(self.levels)?;
        if self.levels == 2 && self.dca.places_in_l2() {
            return Err("dca has a policy with the place \"l2\", and levels = 2 has none; take \"allocate\", or levels = 3".to_owned());
        }
        self.interconnect.check_ranges().map_err(|problem| format!("interconnect.{problem}"))?;
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
