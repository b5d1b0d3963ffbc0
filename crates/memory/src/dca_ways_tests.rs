//! A descriptor ring's buffers that about fill the last level, with more or fewer ways for devices, under
//! several replacement policies.

use doorbell_sim::memory::{AccessKind, CoreAccess, DmaAccess};
use doorbell_sim::ports::{DmaPurpose, PhysAddr};
use doorbell_sim::{Bytes, Hertz, Ps};

use crate::backing::FlatMemory;
use crate::config::MemoryConfig;
use crate::replacement::Replacement;
use crate::system::MemorySystem;
use crate::ways::WayMask;

const BASE: u64 = 0x8000_0000;
/// Lines of the LLC: 256 sets of 16 ways.
const LINES: u64 = 4096;

/// Share of the lines written by a device into its ways that leave before the core, half a ring behind, reads
/// them, in steady state.
fn leaks(replacement: Replacement, dca_ways: u32, ring: u64) -> f64 {
    let mut config = MemoryConfig::default();
    config.llc.size = Bytes(LINES * 64);
    config.l2.size = Bytes(16 << 10);
    config.llc.replacement = replacement;
    config.dca.policy.ways = WayMask::first(dca_ways);
    let memory = FlatMemory::new(Ps::from_ns(60), Ps::from_ns(4));
    let clocks = [Hertz(3_000_000_000)];
    let mut system = MemorySystem::new(&config, &clocks, PhysAddr(BASE), Bytes(64 << 20), memory).unwrap();
    // Only the first 24 lines of each 36-line buffer are used.
    let line = |place: u64| PhysAddr(BASE + (place / 24 * 36 + place % 24) * 64);
    let mut at = |from: u64, to: u64| {
        for place in from..to {
            let access = DmaAccess::plain(0, DmaPurpose::RxData, 64);
            system.warm_device_write(line(place % ring), 64, access);
            system
                .warm(0, CoreAccess { kind: AccessKind::Load, addr: line((place + ring / 2) % ring), pc: 0 });
        }
        system.stats().devices.leaks
    };
    let before = at(0, 20 * ring);
    (at(20 * ring, 30 * ring) - before) as f64 / (10 * ring) as f64
}

#[test]
fn more_dca_ways_do_not_raise_leaks_under_drrip_but_do_under_lru() {
    // An eighth more than the LLC's capacity.
    let ring = LINES * 9 / 8 / 24 * 24;
    let [lru, drrip] =
        [Replacement::Lru, Replacement::Drrip].map(|policy| [1, 4, 16].map(|ways| leaks(policy, ways, ring)));
    // The excess leaks anyway, once per lap of the ring; each lap it is read back into a core's way.
    assert!(drrip.iter().all(|leaks| (0.1..0.25).contains(leaks)), "DRRIP: {drrip:?}");
    assert!(drrip[2] < 1.2 * drrip[0], "DRRIP: {drrip:?}");
    // With all ways, the least recently used line is the one that is written next, so each write evicts the
    // next line. With one way, the other ways keep their lines.
    assert!(lru[0] < 0.7 && lru[2] > 0.95, "LRU: {lru:?}");
}

/// Share of a ring's lines for which a device's writes hit, with two of eight ways for devices and no core
/// accesses.
fn write_hits(scatter: bool, promotes: bool, ring: u64) -> f64 {
    let mut config = MemoryConfig::default();
    (config.llc.size, config.llc.ways) = (Bytes(4 << 20), 8);
    (config.llc.replacement, config.llc.scatter) = (Replacement::Drrip, scatter);
    (config.dca.policy.ways, config.dca.policy.read_promotes) = (WayMask::first(2), promotes);
    let memory = FlatMemory::new(Ps::from_ns(60), Ps::from_ns(4));
    let clocks = [Hertz(3_000_000_000)];
    let mut system = MemorySystem::new(&config, &clocks, PhysAddr(BASE), Bytes(64 << 20), memory).unwrap();
    let mut laps = |laps: u64| {
        for place in 0..laps * ring {
            let line = PhysAddr(BASE + place % ring * 64);
            let access = |kind| DmaAccess::plain(0, kind, 64);
            system.warm_device_write(line, 64, access(DmaPurpose::RxData));
            system.warm_device_read(line, 64, access(DmaPurpose::TxData));
        }
        system.stats().devices.itom_hits
    };
    let before = laps(6);
    (laps(4) - before) as f64 / (4 * ring) as f64
}

#[test]
fn write_hits_drop_at_capacity_with_contiguous_pages_and_decline_with_scattered_pages() {
    // From a quarter of the capacity of the two ways to twice that.
    let rings = [1, 2, 3, 4, 6, 8].map(|quarters| quarters * 4096);
    let in_order = rings.map(|ring| write_hits(false, true, ring));
    assert_eq!(in_order, [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
    let scattered = rings.map(|ring| write_hits(true, true, ring));
    assert!(
        scattered.is_sorted_by(|a, b| a > b) && scattered[3] < 0.6 && scattered[4] > 0.1,
        "{scattered:?}"
    );
    // If reads do not promote lines, more of an oversized ring stays.
    let kept = rings.map(|ring| write_hits(true, false, ring));
    assert!(kept.iter().zip(&scattered).all(|(kept, all)| kept >= all), "{kept:?}, {scattered:?}");
    assert!(kept[5] > scattered[5] + 0.1, "{kept:?}, {scattered:?}");
}
