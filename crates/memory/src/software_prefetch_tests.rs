//! Software prefetches in the caches: hidden latency, resources held, and when they are dropped.

use doorbell_sim::memory::{AccessKind, CoreAccess, Level, Prefetched};
use doorbell_sim::{Bytes, CoreCycle, Hertz, PhysAddr, Ps};

use crate::backing::FlatMemory;
use crate::config::MemoryConfig;
use crate::plain_cycles::{core_access, core_prefetch};
use crate::prefetch::PrefetchKind;
use crate::system::MemorySystem;

type System = MemorySystem<FlatMemory>;

const BASE: u64 = 0x8000_0000;
/// As in `timing_tests`: L1 2 cycles, L2 12, interconnect 6 each way, LLC 20, memory 100.
const L1: u64 = 2;
const MEMORY: u64 = L1 + 12 + 6 + 20 + 6 + 100;

fn system(config: &MemoryConfig, harts: usize) -> System {
    let clocks = vec![Hertz(2_000_000_000); harts];
    let memory = FlatMemory::new(Ps::from_ns(50), Ps(1));
    MemorySystem::new(config, &clocks, PhysAddr(BASE), Bytes(64 << 20), memory).unwrap()
}

fn config() -> MemoryConfig {
    let mut config = MemoryConfig::default();
    config.interconnect.clock = Hertz(2_000_000_000);
    config
}

fn of(kind: AccessKind, offset: u64) -> CoreAccess {
    CoreAccess { kind, addr: PhysAddr(BASE + offset), pc: 0x1000 }
}

fn prefetch(system: &mut System, cycle: u64, kind: AccessKind, offset: u64) -> Prefetched {
    core_prefetch(system, 0, cycle, of(kind, offset))
}

#[test]
fn a_prefetch_does_not_block_and_a_load_waits_only_for_the_remaining_latency() {
    let mut system = system(&config(), 1);
    let there = Prefetched { at: CoreCycle::new(1_000 + L1), level: Some(Level::Dram) };
    assert_eq!(prefetch(&mut system, 1_000, AccessKind::Load, 0), there);
    let load = core_access(&mut system, 0, 1_050, of(AccessKind::Load, 8));
    assert_eq!((load.at, load.level), (1_000 + MEMORY, Level::Dram));
    prefetch(&mut system, 2_000, AccessKind::Load, 64);
    let load = core_access(&mut system, 0, 2_000 + MEMORY - L1, of(AccessKind::Load, 64));
    assert_eq!((load.at, load.level), (2_000 + MEMORY, Level::L1), "arrived in time");
    let again = prefetch(&mut system, 3_000, AccessKind::Load, 64);
    assert_eq!(again, Prefetched { at: CoreCycle::new(3_000 + L1), level: Some(Level::L1) });
    let l1d = system.stats().harts[0].l1d.clone();
    assert_eq!(
        [l1d.software_prefetches, l1d.software_prefetches_there, l1d.software_prefetches_dropped],
        [3, 1, 0]
    );
    assert_eq!([l1d.prefetches_useful, l1d.prefetches_late, l1d.prefetches], [2, 1, 0]);
    assert_eq!([l1d.accesses, l1d.hits, l1d.merges, l1d.misses], [2, 1, 1, 0], "prefetches are not accesses");
    system.check_invariants().unwrap();
}

#[test]
fn a_prefetch_holds_a_miss_register_and_is_dropped_if_none_is_free() {
    let mut config = config();
    config.l1d.mshrs = 4;
    (config.l1d.ports, config.l2.ports) = (8, 8);
    let mut system = system(&config, 1);
    for line in 0..6 {
        let level = prefetch(&mut system, 1_000, AccessKind::Load, 64 * line).level;
        assert_eq!(level.is_some(), line < 4, "line {line}");
    }
    // A prefetch that hits needs none.
    assert_eq!(prefetch(&mut system, 1_001, AccessKind::Load, 0).level, Some(Level::L1));
    // The first one releases its register exactly when its line arrives.
    assert_eq!(prefetch(&mut system, 1_000 + MEMORY - L1 - 1, AccessKind::Load, 6 * 64).level, None);
    assert_eq!(prefetch(&mut system, 1_000 + MEMORY, AccessKind::Load, 6 * 64).level, Some(Level::Dram));
    assert_eq!(system.stats().harts[0].l1d.software_prefetches_dropped, 3);
    // A load waits instead of being dropped.
    let mut full = MemorySystem::clone(&system);
    (7..10).for_each(|line| {
        prefetch(&mut full, 5_000, AccessKind::Load, 64 * line);
    });
    prefetch(&mut full, 5_000, AccessKind::Load, 640);
    assert!(core_access(&mut full, 0, 5_000, of(AccessKind::Load, 11 * 64)).at > 5_000 + MEMORY);
}

#[test]
fn a_line_prefetched_for_a_store_is_writable_and_in_no_other_cache() {
    let mut system = system(&config(), 2);
    core_access(&mut system, 1, 0, of(AccessKind::Load, 0));
    prefetch(&mut system, 1_000, AccessKind::Load, 0);
    let shared = core_access(&mut system, 0, 2_000, of(AccessKind::Store, 0)).at - 2_000;
    assert!(shared > L1, "both have it: {shared}");
    core_access(&mut system, 1, 3_000, of(AccessKind::Load, 0));
    assert_eq!(prefetch(&mut system, 4_000, AccessKind::Store, 0).at, CoreCycle::new(4_000 + L1));
    let upgrades = system.stats().harts[0].l1d.upgrades;
    let owned = core_access(&mut system, 0, 5_000, of(AccessKind::Store, 0));
    assert_eq!((owned.at, owned.level), (5_000 + L1, Level::L1));
    assert_eq!(system.stats().harts[0].l1d.upgrades, upgrades, "the store needed no upgrade");
    system.check_invariants().unwrap();
    // It is clean, so it need not be written back.
    let mut system = self::system(&config(), 1);
    prefetch(&mut system, 1_000, AccessKind::Store, 0);
    (1..9).for_each(|n| {
        core_access(&mut system, 0, 10_000 * n, of(AccessKind::Load, n * (128 << 10)));
    });
    let stats = system.stats();
    assert_eq!([stats.harts[0].l1d.write_backs, stats.harts[0].l2.write_backs], [0, 0]);
    assert_eq!(stats.harts[0].l1d.prefetches_useless, 1);
}

#[test]
fn a_line_prefetched_for_a_fetch_goes_to_the_instruction_cache() {
    let mut system = system(&config(), 1);
    prefetch(&mut system, 1_000, AccessKind::Fetch, 0);
    let fetch = core_access(&mut system, 0, 2_000, of(AccessKind::Fetch, 0));
    assert_eq!(fetch.level, Level::L1);
    assert_ne!(core_access(&mut system, 0, 2_000, of(AccessKind::Load, 0)).level, Level::L1);
}

#[test]
fn a_prefetch_outside_ram_does_nothing() {
    let mut system = system(&config(), 1);
    let device = CoreAccess { kind: AccessKind::Load, addr: PhysAddr(0x1000_0000), pc: 0 };
    assert_eq!(
        core_prefetch(&mut system, 0, 1_000, device),
        Prefetched { at: CoreCycle::new(1_000), level: None }
    );
    assert_eq!(system.stats().harts[0].l1d.software_prefetches, 0);
}

#[test]
fn prefetchers_train_on_software_prefetches_and_warming_gives_the_same_state_as_timing() {
    let mut config = config();
    (config.l1d.prefetch.kind, config.l1d.prefetch.degree) = (PrefetchKind::NextLine, 1);
    let (mut timed, mut warm) = (system(&config, 1), system(&config, 1));
    for n in 0..200 {
        let kind = [AccessKind::Load, AccessKind::Store, AccessKind::Fetch][n as usize % 3];
        prefetch(&mut timed, 1_000 * n, kind, n * n % 97 * 4096);
        warm.warm_prefetch(0, of(kind, n * n % 97 * 4096));
    }
    let [timed, warm] = [timed, warm].map(|system| system.stats());
    let l1d = &timed.harts[0].l1d;
    assert!(l1d.prefetches > 20, "{l1d:?}");
    for (timed, warm) in [(l1d, &warm.harts[0].l1d), (&timed.harts[0].l1i, &warm.harts[0].l1i)] {
        let lines = |stats: &crate::stats::CacheStats| {
            [stats.fills, stats.evictions, stats.prefetches, stats.software_prefetches_there]
        };
        assert_eq!(lines(timed), lines(warm));
    }
}
