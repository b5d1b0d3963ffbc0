//! A working set that fits into the last level, before and after a scan that does not: under each replacement
//! policy and inclusion kind.

use doorbell_sim::memory::{AccessKind, CoreAccess, DmaAccess, HostMemory};
use doorbell_sim::ports::{DmaPurpose, PhysAddr};
use doorbell_sim::{Bytes, CoreCycle, Hertz, Ps};

use crate::backing::FlatMemory;
use crate::config::{Inclusion, MemoryConfig};
use crate::dca::Place;
use crate::prefetch::PrefetchKind;
use crate::replacement::Replacement;
use crate::system::MemorySystem;

const BASE: u64 = 0x8000_0000;
const KIB: u64 = 1 << 10;
const POLICIES: [Replacement; 4] =
    [Replacement::Lru, Replacement::Nru, Replacement::Srrip, Replacement::Drrip];
const INCLUSIONS: [Inclusion; 3] = [Inclusion::Inclusive, Inclusion::NonInclusive, Inclusion::Exclusive];

type System = MemorySystem<FlatMemory>;

/// An eighth of the preset `big-server`: an L2 of 128 KiB, a 16-way last level of 4 MiB.
fn config(replacement: Replacement, inclusion: Inclusion) -> MemoryConfig {
    let mut config = MemoryConfig::default();
    (config.l1d.size, config.l2.size, config.llc.size) = (Bytes(4 << 10), Bytes(128 << 10), Bytes(4 << 20));
    (config.llc.replacement, config.llc.inclusion) = (replacement, inclusion);
    config
}

fn system(config: &MemoryConfig) -> System {
    let memory = FlatMemory::new(Ps::from_ns(60), Ps::from_ns(4));
    let clocks = [Hertz(3_000_000_000)];
    MemorySystem::new(config, &clocks, PhysAddr(BASE), Bytes(64 << 20), memory).unwrap()
}

/// Reads `kib` KiB sequentially from an offset. Returns the miss rate of the last level.
fn read(system: &mut System, from_kib: u64, kib: u64) -> f64 {
    let before = system.stats().llc.misses;
    for line in 0..kib * 16 {
        let addr = PhysAddr(BASE + from_kib * KIB + line * 64);
        system.warm(0, CoreAccess { kind: AccessKind::Load, addr, pc: 0 });
    }
    (system.stats().llc.misses - before) as f64 / (kib * 16) as f64
}

const WORKING_SET: u64 = 512;
/// Distance between scans, and length of each.
const SCAN: u64 = 16 << 10;

#[test]
fn a_working_set_is_cached_again_two_passes_after_a_scan() {
    for (replacement, inclusion) in
        POLICIES.into_iter().flat_map(|policy| INCLUSIONS.map(|kind| (policy, kind)))
    {
        let mut system = system(&config(replacement, inclusion));
        for scan in 1..3 {
            (0..3).for_each(|_| _ = read(&mut system, 0, WORKING_SET));
            read(&mut system, scan * SCAN, SCAN);
            let passes: Vec<f64> = (0..4).map(|_| read(&mut system, 0, WORKING_SET)).collect();
            // BRRIP's leader sets, one in 64, keep their lines.
            let leaders = if replacement == Replacement::Drrip { 1.0 / 64.0 } else { 0.0 };
            let back = passes[2..].iter().all(|missed| *missed <= leaders);
            assert!(back, "{replacement:?}, {inclusion:?}, scan {scan}: {passes:?}");
        }
    }
}

#[test]
fn drrip_leaves_brrip_after_its_leaders_miss_half_the_selector_range_more() {
    for inclusion in INCLUSIONS {
        let mut system = system(&config(Replacement::Drrip, inclusion));
        // A loop larger than the cache, of which BRRIP keeps some.
        let laps: Vec<f64> = (0..8).map(|_| read(&mut system, SCAN, 6 << 10)).collect();
        assert!(laps[7] < 0.7, "{inclusion:?}: {laps:?}");
        // 64 leader sets have two lines each of the working set, so 512 additional misses take four passes.
        // Before that, SRRIP's leaders have to evict the loop.
        let passes: Vec<f64> = (0..10).map(|_| read(&mut system, 0, WORKING_SET)).collect();
        assert!(passes[9] <= 1.0 / 64.0, "{inclusion:?}: {passes:?}");
    }
}

/// Sizes of the preset `big-server`. The first line of each page is in a leader set of SRRIP, so a walk from
/// page to page makes the duel choose BRRIP.
#[test]
fn a_4_mib_working_set_is_cached_again_in_32_mib_within_three_passes_from_either_duel_state() {
    for inclusion in INCLUSIONS {
        let mut config = config(Replacement::Drrip, inclusion);
        (config.l2.size, config.llc.size) = (Bytes(1 << 20), Bytes(32 << 20));
        let memory = FlatMemory::new(Ps::from_ns(60), Ps::from_ns(4));
        let clocks = [Hertz(3_000_000_000)];
        let mut system =
            MemorySystem::new(&config, &clocks, PhysAddr(BASE), Bytes(256 << 20), memory).unwrap();
        (0..3).for_each(|_| _ = read(&mut system, 0, 4 << 10));
        read(&mut system, 128 << 10, 128 << 10);
        for page in 0..16_384 {
            let addr = PhysAddr(BASE + (64 << 20) + page * 4096);
            system.warm(0, CoreAccess { kind: AccessKind::Load, addr, pc: 0 });
        }
        let passes: Vec<f64> = (0..5).map(|_| read(&mut system, 0, 4 << 10)).collect();
        let back = passes[3..].iter().all(|missed| *missed <= 1.0 / 64.0);
        assert!(back, "{inclusion:?}: {passes:?}");
    }
}

#[test]
fn hits_in_an_exclusive_llc_do_not_count_as_misses_of_the_duel() {
    let mut system = system(&config(Replacement::Drrip, Inclusion::Exclusive));
    read(&mut system, 0, WORKING_SET);
    let before = system.stats().llc;
    let selector = system.llc.tags.selector();
    (0..8).for_each(|_| assert_eq!(read(&mut system, 0, WORKING_SET), 0.0));
    assert!(system.stats().llc.fills > before.fills + 8 * 4096, "each pass fills the L2's victims");
    assert_eq!(system.llc.tags.selector(), selector);
}

/// Line `n` of the lines in leader sets of SRRIP.
fn leader_line(n: u64) -> PhysAddr {
    PhysAddr(BASE + n * 64 * 64)
}

#[test]
fn a_core_miss_in_a_leader_set_moves_the_selector_by_one_for_any_inclusion() {
    for inclusion in INCLUSIONS {
        let mut system = system(&config(Replacement::Drrip, inclusion));
        let selector = |system: &System| i32::from(system.llc.tags.selector());
        let at_first = selector(&system);
        for (n, kind) in [(0, AccessKind::Load), (1, AccessKind::Store), (2, AccessKind::Fetch)] {
            (0..2).for_each(|_| system.warm(0, CoreAccess { kind, addr: leader_line(n), pc: 0 }));
        }
        assert_eq!(
            selector(&system),
            at_first + 3,
            "{inclusion:?}: three misses and three hits in leader sets of SRRIP"
        );
        let other = PhysAddr(BASE + 32 * 64);
        system.warm(0, CoreAccess { kind: AccessKind::Load, addr: other, pc: 0 });
        assert_eq!(selector(&system), at_first + 2, "{inclusion:?}: a miss in a leader set of BRRIP");
        system.warm_prefetch(0, CoreAccess { kind: AccessKind::Load, addr: leader_line(3), pc: 0 });
        assert_eq!(selector(&system), at_first + 2, "{inclusion:?}: no request waits for a prefetch");
    }
}

#[test]
fn prefetches_do_not_count_in_the_duel_but_demand_misses_do() {
    let mut config = config(Replacement::Drrip, Inclusion::NonInclusive);
    config.l2.prefetch.kind = PrefetchKind::Stream;
    let mut system = system(&config);
    let at_first = system.llc.tags.selector();
    read(&mut system, 0, 4 << 10);
    let stats = system.stats().llc;
    assert!(stats.prefetch_requests > 10 * stats.misses, "{stats:?}");
    // Equally many leader sets of both policies, so that few misses hardly move the selector.
    assert!(system.llc.tags.selector().abs_diff(at_first) <= stats.misses as u16, "{stats:?}");
}

#[test]
fn device_misses_count_in_the_duel_only_if_they_allocate() {
    let mut config = config(Replacement::Drrip, Inclusion::NonInclusive);
    config.dca.policy.read_allocate = true;
    let mut system = system(&config);
    let selector = |system: &System| i32::from(system.llc.tags.selector());
    let at_first = selector(&system);
    let write = DmaAccess::plain(0, DmaPurpose::RxData, 64);
    let read = DmaAccess::plain(0, DmaPurpose::TxData, 64);
    (0..2).for_each(|_| system.warm_device_write(leader_line(0), 64, write));
    assert_eq!(selector(&system), at_first + 1, "a write that misses, and one that hits");
    (0..2).for_each(|_| system.warm_device_read(leader_line(1), 64, read));
    assert_eq!(selector(&system), at_first + 2, "a read that misses and allocates, and one that hits");
    let off = crate::dca::DcaPolicy { enabled: false, ..crate::dca::DcaPolicy::default() };
    system.set_policy(None, off).unwrap();
    system.warm_device_write(leader_line(2), 64, write);
    system.warm_device_read(leader_line(3), 64, read);
    assert_eq!(selector(&system), at_first + 2, "accesses that bypass the cache");
}

#[test]
fn a_device_line_placed_in_an_l2_does_not_count_as_reused_when_evicted() {
    for timed in [false, true] {
        let mut config = config(Replacement::Srrip, Inclusion::Exclusive);
        (config.dca.policy.headers, config.dca.policy.payload) = (Place::L2, Place::L2);
        let mut system = system(&config);
        let access = DmaAccess::plain(0, DmaPurpose::RxData, 64);
        match timed {
            true => _ = system.device_write(Ps::from_us(1), leader_line(0), 64, access),
            false => system.warm_device_write(leader_line(0), 64, access),
        }
        let slot = system.harts[0].l2.tags.find(0).expect("the device wrote it into the L2");
        assert_eq!(system.harts[0].l2.tags.ready(slot), (CoreCycle::ZERO, 0));
    }
}
