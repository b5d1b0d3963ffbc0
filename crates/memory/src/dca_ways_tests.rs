//! A ring that about fills the last level, with more or fewer ways for devices, under each policy of replacement.

use doorbell_sim::memory::{AccessKind, CoreAccess, DmaAccess};
use doorbell_sim::ports::{DmaKind, PhysAddr};
use doorbell_sim::{Bytes, Hertz, Ps};

use crate::backing::FlatMemory;
use crate::config::MemoryConfig;
use crate::replacement::Replacement;
use crate::system::MemorySystem;
use crate::ways::WayMask;

const BASE: u64 = 0x8000_0000;
/// Lines of the LLC: 256 sets of 16 ways.
const LINES: u64 = 4096;

/// The share of the lines that a device writes into its ways and that leave before the core, which is half a ring behind, has read
/// them; once the caches have settled.
fn leaks(replacement: Replacement, dca_ways: u32, ring: u64) -> f64 {
    let mut config = MemoryConfig::default();
    config.llc.size = Bytes(LINES * 64);
    config.l2.size = Bytes(16 << 10);
    config.llc.replacement = replacement;
    config.dca.policy.ways = WayMask::first(dca_ways);
    let memory = FlatMemory::new(Ps::from_ns(60), Ps::from_ns(4));
    let clocks = [Hertz(3_000_000_000)];
    let mut system = MemorySystem::new(&config, &clocks, PhysAddr(BASE), Bytes(64 << 20), memory).unwrap();
    // Of a buffer of 36 lines the first 24 are used.
    let line = |place: u64| PhysAddr(BASE + (place / 24 * 36 + place % 24) * 64);
    let mut at = |from: u64, to: u64| {
        for place in from..to {
            let access = DmaAccess { device: 0, kind: DmaKind::RxData, offset: 64 };
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
fn more_ways_for_devices_cost_nothing_under_drrip_and_everything_under_lru() {
    // An eighth more than there is room for.
    let ring = LINES * 9 / 8 / 24 * 24;
    let [lru, drrip] =
        [Replacement::Lru, Replacement::Drrip].map(|policy| [1, 4, 16].map(|ways| leaks(policy, ways, ring)));
    // What does not fit leaks anyway, once in the lap of the ring; each lap reads it back into a core's way, whichever goes.
    assert!(drrip.iter().all(|leaks| (0.1..0.25).contains(leaks)), "DRRIP: {drrip:?}");
    assert!(drrip[2] < 1.2 * drrip[0], "DRRIP: {drrip:?}");
    // The line that was used longest ago is the one that is written next: with all ways each write evicts the next.
    // With one way, the others keep what they have.
    assert!(lru[0] < 0.7 && lru[2] > 0.95, "LRU: {lru:?}");
}
