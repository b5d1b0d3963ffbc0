//! A working set that fits into the last level, before and after a scan that does not: under each policy, for each kind of inclusion.

use doorbell_sim::memory::{AccessKind, CoreAccess, DmaAccess, HostMemory};
use doorbell_sim::ports::{DmaKind, PhysAddr};
use doorbell_sim::{Bytes, Hertz, Ps};

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

/// An eighth of the preset `big-server`: an L2 of 128 KiB, a last level of 4 MiB in 16 ways.
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

/// Reads `kib` KiB from an offset on, line after line. Returns the share that the last level missed.
fn read(system: &mut System, from_kib: u64, kib: u64) -> f64 {
    let before = system.stats().llc.misses;
    for line in 0..kib * 16 {
        let addr = PhysAddr(BASE + from_kib * KIB + line * 64);
        system.warm(0, CoreAccess { kind: AccessKind::Load, addr, pc: 0 });
    }
    (system.stats().llc.misses - before) as f64 / (kib * 16) as f64
}

const WORKING_SET: u64 = 512;
/// As far apart as they are long.
const SCAN: u64 = 16 << 10;

#[test]
fn a_working_set_is_back_within_two_passes_after_a_scan() {
    for (replacement, inclusion) in
        POLICIES.into_iter().flat_map(|policy| INCLUSIONS.map(|kind| (policy, kind)))
    {
        let mut system = system(&config(replacement, inclusion));
        for scan in 1..3 {
            (0..3).for_each(|_| _ = read(&mut system, 0, WORKING_SET));
            read(&mut system, scan * SCAN, SCAN);
            let passes: Vec<f64> = (0..4).map(|_| read(&mut system, 0, WORKING_SET)).collect();
            // BRRIP's leaders, one set of 64, keep what they have.
            let leaders = if replacement == Replacement::Drrip { 1.0 / 64.0 } else { 0.0 };
            let back = passes[2..].iter().all(|missed| *missed <= leaders);
            assert!(back, "{replacement:?}, {inclusion:?}, scan {scan}: {passes:?}");
        }
    }
}

#[test]
fn drrip_leaves_brrip_as_soon_as_its_leaders_have_missed_half_the_selector_more() {
    for inclusion in INCLUSIONS {
        let mut system = system(&config(Replacement::Drrip, inclusion));
        // A loop over more than there is room for, of which BRRIP keeps some.
        let laps: Vec<f64> = (0..8).map(|_| read(&mut system, SCAN, 6 << 10)).collect();
        assert!(laps[7] < 0.7, "{inclusion:?}: {laps:?}");
        // 64 leaders have two lines each of the working set, so that 512 misses more take four passes; before that SRRIP's leaders
        // have to forget the loop.
        let passes: Vec<f64> = (0..10).map(|_| read(&mut system, 0, WORKING_SET)).collect();
        assert!(passes[9] <= 1.0 / 64.0, "{inclusion:?}: {passes:?}");
    }
}

/// The sizes of the preset `big-server`. Each line that begins a page is in a leader set of SRRIP, so that a walk from page to page
/// has the duel choose BRRIP.
#[test]
fn a_working_set_of_4_mib_is_back_in_32_mib_within_three_passes_whatever_the_duel_had_chosen() {
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
fn what_an_exclusive_last_level_serves_is_no_miss_of_the_duel() {
    let mut system = system(&config(Replacement::Drrip, Inclusion::Exclusive));
    read(&mut system, 0, WORKING_SET);
    let before = system.stats().llc;
    let selector = system.llc.tags.selector();
    (0..8).for_each(|_| assert_eq!(read(&mut system, 0, WORKING_SET), 0.0));
    assert!(system.stats().llc.fills > before.fills + 8 * 4096, "each pass puts the L2's victims in");
    assert_eq!(system.llc.tags.selector(), selector);
}

/// Line `n` of those that are in a leader set of SRRIP.
fn led(n: u64) -> PhysAddr {
    PhysAddr(BASE + n * 64 * 64)
}

#[test]
fn one_miss_of_a_core_in_a_leader_set_moves_the_selector_by_one_whatever_the_inclusion() {
    for inclusion in INCLUSIONS {
        let mut system = system(&config(Replacement::Drrip, inclusion));
        let selector = |system: &System| i32::from(system.llc.tags.selector());
        let at_first = selector(&system);
        for (n, kind) in [(0, AccessKind::Load), (1, AccessKind::Store), (2, AccessKind::Fetch)] {
            (0..2).for_each(|_| system.warm(0, CoreAccess { kind, addr: led(n), pc: 0 }));
        }
        assert_eq!(selector(&system), at_first + 3, "{inclusion:?}: leader of SRRIP, misses and hits");
        let other = PhysAddr(BASE + 32 * 64);
        system.warm(0, CoreAccess { kind: AccessKind::Load, addr: other, pc: 0 });
        assert_eq!(selector(&system), at_first + 2, "{inclusion:?}: leader of BRRIP");
        system.warm_prefetch(0, CoreAccess { kind: AccessKind::Load, addr: led(3), pc: 0 });
        assert_eq!(selector(&system), at_first + 2, "{inclusion:?}: no request waits for a prefetch");
    }
}

#[test]
fn what_is_fetched_ahead_does_not_count_and_what_it_came_too_late_for_does() {
    let mut config = config(Replacement::Drrip, Inclusion::NonInclusive);
    config.l2.prefetch.kind = PrefetchKind::Stream;
    let mut system = system(&config);
    let at_first = system.llc.tags.selector();
    read(&mut system, 0, 4 << 10);
    let stats = system.stats().llc;
    assert!(stats.prefetch_requests > 10 * stats.misses, "{stats:?}");
    // As many leaders of both, so that few misses hardly move it.
    assert!(system.llc.tags.selector().abs_diff(at_first) <= stats.misses as u16, "{stats:?}");
}

#[test]
fn devices_count_where_their_lines_are_put_in_and_were_not_there() {
    let mut config = config(Replacement::Drrip, Inclusion::NonInclusive);
    config.dca.policy.read_allocate = true;
    let mut system = system(&config);
    let selector = |system: &System| i32::from(system.llc.tags.selector());
    let at_first = selector(&system);
    let write = DmaAccess::plain(0, DmaKind::RxData, 64);
    let read = DmaAccess::plain(0, DmaKind::TxData, 64);
    (0..2).for_each(|_| system.warm_device_write(led(0), 64, write));
    assert_eq!(selector(&system), at_first + 1, "a write that misses, and one that hits");
    (0..2).for_each(|_| system.warm_device_read(led(1), 64, read));
    assert_eq!(selector(&system), at_first + 2, "a read that misses and allocates, and one that hits");
    let off = crate::dca::DcaPolicy { enabled: false, ..crate::dca::DcaPolicy::default() };
    system.set_policy(None, off).unwrap();
    system.warm_device_write(led(2), 64, write);
    system.warm_device_read(led(3), 64, read);
    assert_eq!(selector(&system), at_first + 2, "what goes past the cache");
}

#[test]
fn a_device_line_in_an_l2_is_a_new_one_when_it_leaves_warm_or_timed() {
    for timed in [false, true] {
        let mut config = config(Replacement::Srrip, Inclusion::Exclusive);
        (config.dca.policy.headers, config.dca.policy.payload) = (Place::L2, Place::L2);
        let mut system = system(&config);
        let access = DmaAccess::plain(0, DmaKind::RxData, 64);
        match timed {
            true => _ = system.device_write(Ps::from_us(1), led(0), 64, access),
            false => system.warm_device_write(led(0), 64, access),
        }
        let slot = system.harts[0].l2.tags.find(0).expect("it was put there");
        assert_eq!(system.harts[0].l2.tags.ready(slot), (0, 0));
    }
}
