//! Latencies to the cycle, bandwidth by ports and links, misses by Little's law.

use doorbell_sim::memory::{AccessKind, CoreAccess, Level};
use doorbell_sim::{Bytes, Hertz, PhysAddr, Ps};

use crate::backing::FlatMemory;
use crate::coherence::config::CoherenceKind;
use crate::config::{MemoryConfig, WalkEntry};
use crate::dca::{DcaPolicy, Place};
use crate::plain_cycles::{Served, core_access};
use crate::prefetch::PrefetchKind;
use crate::system::MemorySystem;

type System = MemorySystem<FlatMemory>;

const BASE: u64 = 0x8000_0000;

/// Cores and interconnect both at 2 GHz, so that their cycles are equal: L1 2, L2 12, interconnect 6 each
/// way, LLC 20, memory 100.
fn config() -> MemoryConfig {
    let mut config = MemoryConfig::default();
    config.coherence.kind = CoherenceKind::Ideal;
    config.interconnect.clock = Hertz(2_000_000_000);
    config
}

const L1: u64 = 2;
const L2: u64 = L1 + 12;
const LLC: u64 = L2 + 6 + 20 + 6;
const MEMORY: u64 = LLC + 100;

fn system_at(config: &MemoryConfig, clocks: &[u64]) -> System {
    let clocks: Vec<Hertz> = clocks.iter().map(|mhz| Hertz(mhz * 1_000_000)).collect();
    let memory = FlatMemory::new(Ps::from_ns(50), Ps(1));
    MemorySystem::new(config, &clocks, PhysAddr(BASE), Bytes(64 << 20), memory).unwrap()
}

fn system(config: &MemoryConfig) -> System {
    system_at(config, &[2_000])
}

fn access(system: &mut System, hart: usize, cycle: u64, kind: AccessKind, offset: u64) -> Served {
    core_access(system, hart, cycle, CoreAccess { kind, addr: PhysAddr(BASE + offset), pc: 0x1000 })
}

fn load(system: &mut System, cycle: u64, offset: u64) -> Served {
    access(system, 0, cycle, AccessKind::Load, offset)
}

fn served(at: u64, level: Level) -> Served {
    Served { at, level }
}

#[test]
fn each_level_that_missed_adds_its_response_latency() {
    let mut config = config();
    (config.l1d.response, config.l2.response, config.llc.response) = (2, 12, 4);
    let mut system = system(&config);
    assert_eq!(load(&mut system, 1_000, 0), served(1_000 + MEMORY + 2 + 12 + 4, Level::Dram));
    assert_eq!(load(&mut system, 2_000, 0), served(2_000 + L1, Level::L1));
    // A request for a line in flight waits for the whole return path.
    assert_eq!(load(&mut system, 3_000, 64), served(3_000 + MEMORY + 18, Level::Dram));
    assert_eq!(load(&mut system, 3_001, 64).at, 3_000 + MEMORY + 18);
    (1..5).for_each(|n| {
        load(&mut system, 4_000 + 1_000 * n, n * (16 << 10));
    });
    assert_eq!(load(&mut system, 10_000, 0), served(10_000 + L2 + 2, Level::L2));
    (1..9).for_each(|n| {
        load(&mut system, 10_000 + 1_000 * n, n * (128 << 10));
    });
    assert_eq!(load(&mut system, 20_000, 0), served(20_000 + LLC + 2 + 12, Level::Llc));
}

#[test]
fn with_two_levels_an_l1_miss_goes_to_the_last_level() {
    const LLC: u64 = L1 + 6 + 20 + 6;
    let config = MemoryConfig { levels: 2, ..config() };
    let mut system = system(&config);
    assert_eq!(load(&mut system, 1_000, 0), served(1_000 + LLC + 100, Level::Dram));
    assert_eq!(load(&mut system, 2_000, 0), served(2_000 + L1, Level::L1));
    // A dirty L1 victim goes to the last level.
    access(&mut system, 0, 2_500, AccessKind::Store, 0);
    (1..5).for_each(|n| {
        load(&mut system, 2_000 + 1_000 * n, n * (16 << 10));
    });
    assert_eq!(load(&mut system, 9_000, 0), served(9_000 + LLC, Level::Llc));
    let stats = system.stats();
    let hart = &stats.harts[0];
    assert_eq!((hart.l1d.write_backs, hart.l2.write_backs, hart.l2.hits, hart.l2.misses), (1, 1, 0, 6));
    system.check_invariants().unwrap();
    let into_l2 = DcaPolicy { payload: Place::L2, ..DcaPolicy::default() };
    assert!(system.set_policy(None, into_l2).unwrap_err().contains("memory.levels"));
    let wrong = |change: fn(&mut MemoryConfig)| {
        let mut config = MemoryConfig { levels: 2, ..self::config() };
        change(&mut config);
        config.validate(1).unwrap_err()
    };
    assert!(wrong(|config| config.dca.policy.headers = Place::L2).contains("levels = 2"));
    assert!(wrong(|config| config.walks = WalkEntry::L2).starts_with("walks is"));
    assert!(wrong(|config| config.l1i.size = Bytes(1 << 20)).starts_with("levels is 2"));
    assert!(wrong(|config| config.levels = 4).starts_with("levels is 4"));
}

#[test]
fn an_unloaded_access_takes_the_sum_of_the_latencies_of_its_path() {
    let mut system = system(&config());
    assert_eq!(load(&mut system, 1_000, 0), served(1_000 + MEMORY, Level::Dram));
    assert_eq!(load(&mut system, 2_000, 0), served(2_000 + L1, Level::L1));
    // 5 lines of one set of 4 ways: the first is only in the L2 now.
    (1..5).for_each(|n| {
        load(&mut system, 2_000 + 1_000 * n, n * (16 << 10));
    });
    assert_eq!(load(&mut system, 9_000, 0), served(9_000 + L2, Level::L2));
    // 9 lines of one set of 8 ways of the L2.
    (1..9).for_each(|n| {
        load(&mut system, 10_000 * n, n * (128 << 10));
    });
    assert_eq!(load(&mut system, 100_000, 0), served(100_000 + LLC, Level::Llc));
}

#[test]
fn a_faster_core_waits_more_cycles_for_the_same_memory() {
    for (mhz, edges) in [(1_000u64, 1u64), (2_000, 2), (3_000, 3), (4_000, 4)] {
        let mut system = system_at(&config(), &[mhz]);
        let took = load(&mut system, 12_000, 0).at - 12_000;
        // Beyond the L2 it is 132 cycles of 500 ps = 66 ns, rounded to the next edge of each clock.
        let exact = L2 + 66 * edges;
        assert!((exact..=exact + edges.max(2)).contains(&took), "{mhz} MHz: {took} for {exact}");
    }
}

#[test]
fn an_access_to_a_line_in_flight_waits_and_counts_as_a_merge() {
    let mut system = system(&config());
    assert_eq!(load(&mut system, 100, 0).at, 100 + MEMORY);
    assert_eq!(
        load(&mut system, 101, 8),
        served(100 + MEMORY, Level::Dram),
        "the level is that of the line in flight"
    );
    assert_eq!(load(&mut system, 100 + MEMORY - 3, 8), served(100 + MEMORY, Level::Dram));
    assert_eq!(
        load(&mut system, 100 + MEMORY - 2, 8),
        served(100 + MEMORY, Level::L1),
        "the line has arrived in time"
    );
    let stats = system.stats();
    let l1d = &stats.harts[0].l1d;
    assert_eq!((l1d.accesses, l1d.hits, l1d.misses, l1d.merges), (4, 1, 1, 2));
    assert_eq!(stats.traffic.memory_reads, 1);
}

#[test]
fn a_call_for_an_earlier_time_moves_the_arrival_earlier() {
    let mut system = system(&config());
    load(&mut system, 5_000, 0);
    assert_eq!(load(&mut system, 1_000, 0).at, 1_000 + MEMORY);
    assert_eq!(
        load(&mut system, 3_000, 0),
        served(3_000 + L1, Level::L1),
        "the line is present from then on"
    );
}

#[test]
fn an_l1_serves_one_load_per_port_and_cycle() {
    for ports in [1u32, 2, 3] {
        let mut config = config();
        config.l1d.ports = ports;
        let mut system = system(&config);
        load(&mut system, 0, 0);
        for n in 0..1_000u64 {
            assert_eq!(load(&mut system, 1_000, 0).at, 1_000 + n / u64::from(ports) + L1);
        }
    }
}

/// A dirty victim takes the L2's one port exactly in the cycle in which the new line is written.
#[test]
fn a_victim_leaves_when_the_new_line_is_written() {
    for fill in [0u64, 1, 3] {
        let mut config = config();
        (config.l1d.size, config.l1d.ways, config.l1d.ports) = (Bytes(16 << 10), 1, 8);
        (config.l1d.fill, config.l2.ports) = (fill as u32, 1);
        for probe in 0..6 {
            let mut system = system(&config);
            let in_l2_only = [0, 64, 128];
            in_l2_only.iter().for_each(|offset| {
                load(&mut system, 0, *offset);
                access(&mut system, 0, 1_000, AccessKind::Store, offset + (16 << 10));
            });
            assert_eq!(load(&mut system, 2_000, 0).at, 2_000 + L2);
            // Its victim is dirty and reaches the L2 `fill` cycles after the line's arrival. The probe
            // arrives in cycle L2 + `probe`.
            let begin = 2_000 + L2 - L1 + probe;
            let waits = u64::from(probe == fill);
            assert_eq!(load(&mut system, begin, 64).at, begin + L2 + waits, "{fill} {probe}");
        }
    }
}

/// Loads that hit only the L2, all issued at once: limited per cycle by ports or by miss registers.
#[test]
fn l2_bandwidth_is_its_ports_or_the_l1s_miss_registers_by_littles_law() {
    for (mshrs, ports) in [(2u32, 1u32), (6, 1), (24, 1), (64, 2)] {
        let mut config = config();
        (config.l1d.mshrs, config.l1d.ports, config.l2.ports) = (mshrs, 64, ports);
        let mut system = system(&config);
        let lines = 8_192u64;
        (0..lines).for_each(|n| {
            load(&mut system, 400 * n, 64 * n);
        });
        let begin = 400 * lines;
        let last = (0..2_048).map(|n| load(&mut system, begin, 64 * n).at).max().unwrap();
        // A miss register is held for the L2's 12 cycles.
        let rounds = (2_048u64.div_ceil(u64::from(mshrs)) - 1) * 12;
        let bound = rounds.max((2_048 - 1) / u64::from(ports));
        let took = last - begin - L2;
        assert!(
            (bound..=bound + bound / 50).contains(&took),
            "{mshrs} registers, {ports} ports: {took} for {bound}"
        );
    }
}

/// Reads lines that the L2 has, one after another, with enough miss registers. Returns the cycles from the
/// first to the last.
fn stream_from_l2(config: &MemoryConfig, lines: u64) -> u64 {
    let mut system = system(config);
    (0..8_192).for_each(|n| _ = load(&mut system, 400 * n, 64 * n));
    let begin = 400 * 8_192;
    assert_eq!(load(&mut system, begin - 200, 0).at, begin - 200 + L2, "the unloaded latency is unchanged");
    (1..=lines).map(|n| load(&mut system, begin, 64 * n).at).max().unwrap() - begin - L2
}

#[test]
fn lines_leave_the_l2_at_its_bytes_per_cycle() {
    for bytes in [16u32, 19, 25, 32, 48, 64] {
        let mut config = config();
        (config.l1d.mshrs, config.l1d.ports) = (256, 64);
        config.l2.bytes_per_cycle = bytes;
        let took = stream_from_l2(&config, 1_024);
        assert_eq!(took, 1_023 * 64 / u64::from(bytes), "{bytes} bytes per cycle");
    }
}

#[test]
fn a_fill_takes_ports_from_loads() {
    // A load takes one of two ports, and its fill takes `fill_ports`.
    for (fill_ports, ports_per_line) in [(0, 1), (1, 2), (2, 3)] {
        let mut config = config();
        (config.l1d.mshrs, config.l2.ports, config.l1d.fill_ports) = (256, 64, fill_ports);
        let took = stream_from_l2(&config, 1_024);
        let bound = 1_024 * ports_per_line / 2;
        assert!((bound - 40..=bound + 8).contains(&took), "{fill_ports} ports per fill: {took} for {bound}");
    }
    // The L2's one port is then also taken by fills.
    let mut config = config();
    config.l2.fill_ports = 1;
    let mut system = system(&config);
    load(&mut system, 1_000, 0);
    assert_eq!(system.stats().harts[0].l2.port_wait_cycles, 0);
    let there = 1_000 + MEMORY;
    load(&mut system, there - L1, 64);
    assert_eq!(system.stats().harts[0].l2.port_wait_cycles, 1, "its look-up waits for the first line's fill");
}

#[test]
fn memory_bandwidth_follows_littles_law_from_the_fewest_miss_registers() {
    for (l1, l2, llc, narrowest) in [(4u32, 64u32, 64u32, 4), (64, 8, 64, 8), (64, 64, 16, 16)] {
        let mut config = config();
        (config.l1d.mshrs, config.l2.mshrs, config.llc.mshrs) = (l1, l2, llc);
        config.interconnect.bytes_per_cycle = 1024;
        (config.llc.ports, config.l2.ports) = (64, 64);
        let mut system = system(&config);
        let count = 1_600u64;
        let last = (0..count).map(|n| load(&mut system, 0, 64 * n).at).max().unwrap();
        // A register is held from the level's look-up until the data have returned to it.
        let held = match narrowest {
            4 => MEMORY - L1,
            8 => MEMORY - L2,
            _ => 100,
        };
        let bound = (count / narrowest - 1) * held + MEMORY;
        assert!((bound..=bound + bound / 50).contains(&last), "{narrowest} registers: {last} for {bound}");
    }
}

#[test]
fn a_full_miss_file_delays_exactly_until_an_entry_is_free() {
    let mut config = config();
    (config.l1d.mshrs, config.l1d.ports) = (1, 8);
    let mut system = system(&config);
    assert_eq!(load(&mut system, 0, 0).at, MEMORY);
    assert_eq!(load(&mut system, 0, 4096).at, MEMORY + (MEMORY - L1), "it waits for the first");
    let mut system = self::system(&config);
    load(&mut system, 0, 0);
    assert_eq!(
        load(&mut system, MEMORY - L1, 4096).at,
        MEMORY - L1 + MEMORY,
        "no wait once the first is done"
    );
}

#[test]
fn the_link_to_a_core_moves_its_bytes_per_cycle() {
    for (bytes, cycles) in [(8u32, 8u64), (16, 4), (64, 1)] {
        let mut config = config();
        config.interconnect.bytes_per_cycle = bytes;
        (config.l1d.mshrs, config.l2.mshrs, config.llc.mshrs) = (256, 256, 256);
        (config.l1d.ports, config.l2.ports, config.llc.ports) = (8, 8, 8);
        let mut system = system(&config);
        let last = (0..200).map(|n| load(&mut system, 0, 64 * n).at).max().unwrap();
        let bound = MEMORY + 199 * cycles;
        assert!((bound..=bound + 30).contains(&last), "{bytes} bytes per cycle: {last} for {bound}");
    }
}

#[test]
fn harts_share_the_llc_ports_and_have_separate_links() {
    let mut config = config();
    config.llc.ports = 1;
    let mut system = system_at(&config, &[2_000, 2_000]);
    access(&mut system, 0, 0, AccessKind::Load, 0);
    access(&mut system, 0, 0, AccessKind::Load, 4096);
    // Both lines are in the LLC; hart 1 requests both in the same cycle.
    let first = access(&mut system, 1, 1_000, AccessKind::Fetch, 0);
    let second = access(&mut system, 1, 1_000, AccessKind::Load, 4096);
    assert_eq!(first.at, 1_000 + LLC - 1, "an L1I takes one cycle less");
    // The L2's port was taken in the cycle before; its own look-up is one cycle later, and the link is busy
    // for two.
    assert_eq!(second.at, 1_000 + LLC + 1);
}

#[test]
fn a_line_dirty_in_another_core_is_transferred_after_a_snoop() {
    let mut system = system_at(&config(), &[2_000, 2_000]);
    access(&mut system, 0, 0, AccessKind::Store, 0);
    let shared = access(&mut system, 1, 1_000, AccessKind::Load, 0);
    assert_eq!(shared, served(1_000 + LLC + 20, Level::Peer));
    // Now both may read it, and a store has to invalidate the other copy.
    assert_eq!(access(&mut system, 0, 2_000, AccessKind::Load, 0), served(2_000 + L1, Level::L1));
    assert_eq!(access(&mut system, 0, 3_000, AccessKind::Store, 0), served(3_000 + LLC + 20, Level::Peer));
    assert_eq!(access(&mut system, 0, 4_000, AccessKind::Store, 0), served(4_000 + L1, Level::L1));
    assert_eq!(access(&mut system, 1, 5_000, AccessKind::Load, 0), served(5_000 + LLC + 20, Level::Peer));
    let stats = system.stats();
    assert_eq!((stats.harts[0].l1d.upgrades, stats.traffic.peer_transfers), (1, 2));
}

#[test]
fn a_store_to_an_exclusive_line_needs_no_upgrade() {
    let mut system = system_at(&config(), &[2_000, 2_000]);
    access(&mut system, 0, 0, AccessKind::Load, 0);
    assert_eq!(access(&mut system, 0, 1_000, AccessKind::Store, 0), served(1_000 + L1, Level::L1));
}

#[test]
fn page_walks_enter_at_the_configured_level() {
    let mut config = config();
    config.walks = WalkEntry::L2;
    let mut system = system(&config);
    access(&mut system, 0, 0, AccessKind::Walk, 0);
    assert_eq!(access(&mut system, 0, 1_000, AccessKind::Walk, 0), served(1_000 + 12, Level::L2));
    assert_eq!(load(&mut system, 2_000, 0), served(2_000 + L2, Level::L2), "the walk did not fill the L1");
}

/// Dirty L2 victims on a narrow link occupy its one buffer, and therefore the miss registers.
#[test]
fn evictions_wait_for_a_write_back_buffer() {
    let mut config = config();
    config.l2.write_buffers = 1;
    config.l2.ways = 1;
    config.l2.size = Bytes(4096);
    config.interconnect.bytes_per_cycle = 1;
    let mut system = system(&config);
    for n in 0..64 {
        access(&mut system, 0, 1_000 * n, AccessKind::Store, 64 * n);
    }
    for n in 0..8 {
        access(&mut system, 0, 100_000, AccessKind::Store, 4096 + 64 * n);
    }
    assert!(system.stats().harts[0].l2.buffer_wait_cycles > 0);
    system.check_invariants().unwrap();
}

#[test]
fn next_line_prefetches_arrive_in_time_and_count_as_useful() {
    let mut config = config();
    (config.l1d.prefetch.kind, config.l1d.prefetch.degree) = (PrefetchKind::NextLine, 2);
    let mut system = system(&config);
    assert_eq!(load(&mut system, 0, 0).level, Level::Dram);
    assert_eq!(load(&mut system, 1_000, 64), served(1_000 + L1, Level::L1));
    let l1d = system.stats().harts[0].l1d.clone();
    assert_eq!(
        (l1d.prefetches, l1d.prefetches_useful, l1d.prefetches_late),
        (3, 1, 0),
        "and prefetched another"
    );
    let late = load(&mut system, 1_010, 192);
    assert_eq!(late.level, Level::Dram, "the prefetched line is still in flight");
    assert_eq!(system.stats().harts[0].l1d.prefetches_late, 1);
}

#[test]
fn prefetches_are_dropped_when_all_miss_registers_are_in_use() {
    let mut config = config();
    (config.l1d.prefetch.kind, config.l1d.prefetch.degree) = (PrefetchKind::NextLine, 8);
    config.l1d.mshrs = 4;
    let mut system = system(&config);
    load(&mut system, 0, 0);
    let l1d = system.stats().harts[0].l1d.clone();
    assert_eq!((l1d.prefetches, l1d.prefetches_dropped), (3, 5));
}

#[test]
fn an_l2_prefetcher_fills_the_l2_and_unused_prefetches_are_counted() {
    let mut config = config();
    (config.l2.prefetch.kind, config.l2.prefetch.degree) = (PrefetchKind::NextLine, 1);
    let mut system = system(&config);
    load(&mut system, 0, 0);
    assert_eq!(load(&mut system, 1_000, 64), served(1_000 + L2, Level::L2));
    // Line 2 has been prefetched by then; other lines of its set evict it unused.
    (1..9).for_each(|n| {
        load(&mut system, 10_000 * n, 128 + n * (128 << 10));
    });
    let l2 = system.stats().harts[0].l2.clone();
    assert_eq!((l2.prefetches_useful, l2.prefetches_useless), (1, 1));
}

#[test]
fn a_stream_prefetcher_follows_steps_that_a_stride_prefetcher_cannot() {
    let useful = |kind: PrefetchKind| {
        let mut config = config();
        (config.l2.prefetch.kind, config.l2.prefetch.degree) = (kind, 2);
        let mut system = system(&config);
        // Cyclic steps of one, two and three lines.
        let lines = (0..30u64).scan(0, |line, n| {
            *line += 1 + n % 3;
            Some(*line)
        });
        lines.enumerate().for_each(|(n, line)| _ = load(&mut system, 1_000 * n as u64, 64 * line));
        let l2 = system.stats().harts[0].l2.clone();
        (l2.prefetches_useful, l2.prefetches_late)
    };
    // The first three accesses are misses.
    assert_eq!(useful(PrefetchKind::Stream), (27, 0));
    assert_eq!(useful(PrefetchKind::Stride), (0, 0));
}

#[test]
fn llc_requests_are_counted_by_kind_and_misses_read_memory() {
    let mut config = config();
    (config.l1d.prefetch.kind, config.l1d.prefetch.degree) = (PrefetchKind::NextLine, 1);
    config.walks = WalkEntry::L2;
    let mut system = system(&config);
    let at = |n: u64| 10_000 * n;
    access(&mut system, 0, at(1), AccessKind::Fetch, 0);
    // The line after it is prefetched.
    load(&mut system, at(2), 1 << 20);
    load(&mut system, at(3), (1 << 20) + 64);
    access(&mut system, 0, at(4), AccessKind::Store, 2 << 20);
    access(&mut system, 0, at(5), AccessKind::Walk, 3 << 20);
    let hart = system.stats().harts[0].core.clone();
    assert_eq!((hart.crd_misses, hart.drd_misses, hart.rfo_misses), (1, 2, 1));
    assert_eq!((hart.crd_hits, hart.drd_hits, hart.rfo_hits, hart.prefetch_hits), (0, 0, 0, 0));
    // After both loads and the store.
    assert_eq!(hart.prefetch_misses, 3);
    assert_eq!(system.stats().traffic.memory_reads, 1 + 2 + 1 + 3);
    // Lines of the same set evict the first ones from the private caches; they are still in the LLC.
    let lines_of_the_set = (1..=12u64).map(|n| (4 << 20) + n * (128 << 10));
    lines_of_the_set.enumerate().for_each(|(n, offset)| _ = load(&mut system, at(10 + n as u64), offset));
    let before = system.stats();
    load(&mut system, at(101), (4 << 20) + (128 << 10));
    access(&mut system, 0, at(102), AccessKind::Store, (4 << 20) + ((2 * 128) << 10));
    let hart = system.stats().since(&before).harts[0].core.clone();
    assert_eq!((hart.drd_misses, hart.rfo_misses), (0, 0), "{hart:?}");
    assert_eq!((hart.drd_hits, hart.rfo_hits), (1, 1), "{hart:?}");
}

#[test]
fn data_access_cycles_are_the_sum_of_the_access_latencies() {
    let mut system = system(&config());
    let mut sum = 0;
    for n in 0..500u64 {
        sum += load(&mut system, 50 * n, n * 7 % 50 * 64).at - 50 * n;
    }
    let core = system.stats().harts[0].core.clone();
    assert_eq!((core.data_accesses, core.data_access_cycles), (500, sum));
    assert_eq!(core.from_l1 + core.from_l2 + core.from_llc + core.from_dram, 500);
}
