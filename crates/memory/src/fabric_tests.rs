//! Routes against a search; latencies to the cycle; a fabric with one stop against none.

use std::collections::BTreeMap;

use doorbell_sim::memory::{AccessKind, CoreAccess, DmaAccess, DmaEntryPoint, HostMemory, Level};
use doorbell_sim::ports::{DmaPurpose, PhysAddr};
use doorbell_sim::rng::Rng;
use doorbell_sim::{Bytes, Hertz, Ps, UncoreCycle};

use crate::backing::FlatMemory;
use crate::coherence::config::{Answers, CoherenceKind};
use crate::config::MemoryConfig;
use crate::fabric::Fabric;
use crate::fabric::config::{FabricConfig, FabricKind};
use crate::plain_cycles::{Served, core_access};
use crate::system::MemorySystem;

type System = MemorySystem<FlatMemory>;

const BASE: u64 = 0x8000_0000;
const CLOCK: Hertz = Hertz(2_000_000_000);

fn ring(slices: u32) -> MemoryConfig {
    let mut config = MemoryConfig::default();
    config.coherence.kind = CoherenceKind::Ideal;
    config.interconnect.clock = CLOCK;
    config.llc.slices = slices;
    (config.fabric.kind, config.fabric.hop) = (FabricKind::Ring, 3);
    config
}

fn mesh(slices: u32, columns: u32) -> MemoryConfig {
    let mut config = ring(slices);
    config.fabric =
        FabricConfig { kind: FabricKind::Mesh, columns, hop: 3, hop_across: 5, ..FabricConfig::default() };
    config
}

fn system(config: &MemoryConfig, cores: usize) -> System {
    let memory = FlatMemory::new(Ps::from_ns(50), Ps(1));
    MemorySystem::new(config, &vec![CLOCK; cores], PhysAddr(BASE), Bytes(1 << 20), memory).unwrap()
}

fn access(system: &mut System, core: usize, cycle: u64, kind: AccessKind, line: u32) -> Served {
    let addr = PhysAddr(BASE + 64 * u64::from(line));
    core_access(system, core, cycle, CoreAccess { kind, addr, pc: 0x1000 })
}

fn write(system: &mut System, device: u8, cycle: u64, line: u32) -> u64 {
    let access = DmaAccess::plain(device, DmaPurpose::RxData, 0);
    let addr = PhysAddr(BASE + 64 * u64::from(line));
    system.device_write(Ps(500 * cycle), addr, 64, access).0 / 500
}

/// A line of each slice.
fn lines(system: &System, slices: usize) -> Vec<u32> {
    let of = |slice| (0..4096).find(|line| system.llc.tags.slice(*line) == slice).unwrap();
    (0..slices).map(of).collect()
}

/// Distances from a stop to all others, by relaxing all links with the configured lengths.
fn searched(config: &FabricConfig, columns: u32, rows: u32, from: u32) -> Vec<u64> {
    let stops = columns * rows;
    let next = |at: u32| {
        let (row, column) = (at / columns, at % columns);
        let (hop, across) = (u64::from(config.hop), u64::from(config.hop_across));
        if config.kind == FabricKind::Ring {
            return vec![((at + 1) % stops, hop), ((at + stops - 1) % stops, hop)];
        }
        let mut next = Vec::new();
        next.extend((row > 0).then(|| (at - columns, hop)));
        next.extend((row + 1 < rows).then(|| (at + columns, hop)));
        next.extend((column > 0).then(|| (at - 1, across)));
        next.extend((column + 1 < columns).then(|| (at + 1, across)));
        next
    };
    let mut best = BTreeMap::from([(from, 0)]);
    for _ in 0..stops {
        for (at, distance) in best.clone() {
            for (to, hop) in next(at) {
                let shortest = best.entry(to).or_insert(u64::MAX);
                *shortest = (*shortest).min(distance + hop);
            }
        }
    }
    best.into_values().collect()
}

#[test]
fn routes_are_shortest_paths_and_connect_their_stops() {
    for (kind, columns, rows) in [
        (FabricKind::Ring, 1, 1),
        (FabricKind::Ring, 2, 1),
        (FabricKind::Ring, 7, 1),
        (FabricKind::Ring, 8, 1),
    ]
    .into_iter()
    .chain([(1, 1), (1, 5), (4, 1), (3, 3), (6, 5)].map(|(columns, rows)| (FabricKind::Mesh, columns, rows)))
    {
        let mut config = mesh(1, columns);
        (config.fabric.kind, config.fabric.rows) = (kind, rows);
        let fabric = Fabric::new(&config, 1).unwrap();
        for from in 0..columns * rows {
            let shortest = searched(&config.fabric, columns, rows, from);
            for to in 0..columns * rows {
                let (mut at, mut length, mut turned) = (from, 0, false);
                for link in fabric.way(from as u8, to as u8) {
                    assert_eq!(u32::from(link.from), at);
                    at = u32::from(link.to);
                    length += link.hop;
                    let in_row = kind == FabricKind::Mesh && at / columns == u32::from(link.from) / columns;
                    assert!(in_row || !turned, "along the column first");
                    turned |= in_row;
                }
                assert_eq!((at, length), (to, shortest[to as usize]), "{kind:?} {columns} {rows}: {from}");
            }
        }
    }
}

/// Cores and interconnect at 2 GHz: L1 2, L2 12, interconnect 6 each way, LLC 20, memory 100; two cycles per
/// line.
const LOOKUP: u64 = 2 + 12 + 6 + 20;
const BACK: u64 = 6;

/// Distance from one stop to another.
fn far(system: &System, from: u8, to: u8) -> u64 {
    system.fabric().unwrap().distance(from, to)
}

#[test]
fn a_hit_adds_the_hops_to_the_slice_and_a_miss_also_those_to_the_controller() {
    for (config, cores) in [(ring(8), 8), (mesh(8, 3), 9), (mesh(16, 4), 2)] {
        let mut system = system(&config, cores);
        let mut now = 1_000;
        for (core, line) in (0..cores).flat_map(|core| (0..8).map(move |n| (core, 64 * core as u32 + n))) {
            now += 1_000;
            let (home, controller) = (system.home(line), system.memory_stop(line));
            let here = system.core_stop(core);
            let there = far(&system, here, home) + far(&system, home, here);
            let served = access(&mut system, core, now, AccessKind::Load, line);
            let memory = 100 + far(&system, home, controller) + far(&system, controller, home);
            assert_eq!(served, Served { at: now + LOOKUP + there + memory + BACK, level: Level::Dram });
            // After a device's write the line is only in the LLC. Its bytes occupy several cycles of a link;
            // the last one counts.
            now += 1_000;
            let visible = write(&mut system, 0, now, line);
            let link = u64::from(home != 0);
            assert_eq!(visible, now + 10 + far(&system, 0, home) + link + 20 + 20, "with a snoop");
            let served = access(&mut system, core, now + 500, AccessKind::Load, line);
            assert_eq!(served, Served { at: now + 500 + LOOKUP + there + BACK, level: Level::Llc });
        }
        assert_eq!(system.fabric().unwrap().stats_until(UncoreCycle::MAX).wait_cycles, 0, "no contention");
    }
}

#[test]
fn a_line_of_another_core_takes_the_hops_between_requester_slice_and_owner() {
    for answers in [Answers::Direct, Answers::Home] {
        let mut config = ring(8);
        config.coherence.kind = CoherenceKind::Directory;
        (config.coherence.latency, config.coherence.snoop, config.coherence.answers) = (3, 9, answers);
        let mut system = system(&config, 8);
        for (n, (requester, owner)) in
            (0u8..8).flat_map(|requester| (0u8..8).map(move |owner| (requester, owner))).enumerate()
        {
            let (line, now) = (n as u32, 10_000 * (1 + n as u64));
            if requester == owner {
                continue;
            }
            let home = system.home(line);
            access(&mut system, owner.into(), now, AccessKind::Store, line);
            let served = access(&mut system, requester.into(), now + 1_000, AccessKind::Load, line);
            let back = match answers {
                Answers::Direct => far(&system, owner, requester),
                // The line goes to the slice first.
                Answers::Home => {
                    far(&system, owner, home)
                        + u64::from(owner != home)
                        + BACK
                        + far(&system, home, requester)
                }
            };
            let ways = far(&system, requester, home) + far(&system, home, owner) + back;
            let expected = now + 1_000 + LOOKUP + 3 + 6 + 9 + 1 + BACK + ways;
            assert_eq!(
                served,
                Served { at: expected, level: Level::Peer },
                "{owner} to {requester}, {answers:?}"
            );
        }
    }
}

#[test]
fn a_store_waits_for_the_sharer_whose_response_arrives_last() {
    let mut config = ring(8);
    config.coherence.kind = CoherenceKind::Directory;
    (config.coherence.latency, config.coherence.snoop) = (3, 9);
    let mut system = system(&config, 8);
    let line = lines(&system, 8)[2];
    (0..8).for_each(|core| {
        access(&mut system, core, 1_000 * (1 + core as u64), AccessKind::Load, line);
    });
    let ways = |turn: u64, sharer| turn + far(&system, 2, sharer) + far(&system, sharer, 0);
    let last = (0..7).map(|turn| ways(turn, turn as u8 + 1)).max().unwrap();
    let expected = 50_000 + LOOKUP + far(&system, 0, 2) + 3 + 6 + 9 + last + BACK;
    // One snoop per cycle leaves in the same direction, so snoops do not contend for the ring's links.
    assert_eq!(access(&mut system, 0, 50_000, AccessKind::Store, line).at, expected);
}

#[test]
fn a_link_carries_at_most_its_bytes_per_cycle() {
    let mut config = ring(2);
    // Both cores at one stop, the slices at the next one.
    (config.fabric.columns, config.fabric.cores, config.fabric.slices) = (4, vec![1, 1], vec![2, 2]);
    (config.fabric.bytes_per_cycle, config.llc.ports) = (16, 8);
    (config.l1d.mshrs, config.l2.mshrs) = (64, 64);
    let mut system = system(&config, 2);
    (0..64).for_each(|line| {
        write(&mut system, 0, 10_000 + 100 * u64::from(line), line);
    });
    let times = (0..64).map(|line| access(&mut system, line as usize % 2, 50_000, AccessKind::Load, line).at);
    let times: Vec<u64> = times.collect();
    let (first, last) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    assert_eq!(last - first, 63 * 4, "a line takes four cycles of the link, and both cores share it");
    let links: BTreeMap<String, u64> = system
        .fabric()
        .unwrap()
        .links_until(UncoreCycle::MAX)
        .map(|(name, link)| (name, link.bytes))
        .collect();
    assert_eq!(links["2to1"], 64 * 64);
    assert_eq!(links["1to0"], 0);
    let carried = |cycle: u64| {
        let mut links = system.fabric().unwrap().links_until(UncoreCycle::new(cycle));
        links.find(|(name, _)| name == "2to1").expect("the link exists").1.bytes
    };
    assert_eq!(carried(first + 100) - carried(*first), 16 * 100, "a window counts the bytes carried in it");
    assert_eq!((carried(50_000), carried(*last)), (0, 64 * 64));
}

#[test]
fn devices_enter_at_their_own_stops_on_or_off_die() {
    let mut config = ring(8);
    config.fabric.devices = vec![1, 6];
    let mut system = system(&config, 1);
    system.set_entry(3, DmaEntryPoint::Llc);
    for (n, device) in [0, 1, 2, 3].into_iter().enumerate() {
        let line = lines(&system, 8)[5];
        let now = 1_000 * (1 + n as u64);
        let stop = config.fabric.devices[n % 2] as u8;
        let entry = if device == 3 { 0 } else { 10 };
        let link = u64::from(stop != 5);
        assert_eq!(write(&mut system, device, now, line), now + entry + far(&system, stop, 5) + link + 20);
        let access = DmaAccess::plain(device, DmaPurpose::TxData, 0);
        let addr = PhysAddr(BASE + 64 * u64::from(line));
        let read = system.device_read(Ps(500 * (now + 500)), addr, 64, access).0 / 500;
        assert_eq!(read, now + 500 + 2 * (entry + far(&system, stop, 5)) + link + 20, "device {device}");
    }
}

#[test]
fn a_fabric_with_one_stop_equals_no_fabric() {
    let none = MemoryConfig { fabric: FabricConfig::default(), ..ring(1) };
    for kind in [CoherenceKind::Ideal, CoherenceKind::Directory] {
        let of = |config: &MemoryConfig| {
            let mut config = config.clone();
            config.coherence.kind = kind;
            (config.llc.size.0, config.fabric.columns) = (64 << 10, 1);
            system(&config, 4)
        };
        let (mut plain, mut one) = (of(&none), of(&ring(1)));
        let mut rng = Rng::stream(5, "one stop");
        for step in 0..20_000 {
            let (core, line, now) =
                (rng.below(4) as usize, rng.below(4096) as u32, 20 * step + rng.below(100));
            match rng.below(4) {
                0 => assert_eq!(write(&mut plain, 0, now, line), write(&mut one, 0, now, line)),
                1 => {
                    let kind = AccessKind::Store;
                    assert_eq!(
                        access(&mut plain, core, now, kind, line),
                        access(&mut one, core, now, kind, line)
                    );
                }
                _ => {
                    let kind = AccessKind::Load;
                    assert_eq!(
                        access(&mut plain, core, now, kind, line),
                        access(&mut one, core, now, kind, line)
                    );
                }
            }
        }
        assert_eq!(plain.stats(), one.stats());
    }
}

#[test]
fn invalid_stops_are_rejected_and_missing_ones_get_defaults() {
    type Breaks = fn(&mut MemoryConfig);
    let broken: [(Breaks, &str); 8] = [
        (
            |c| c.fabric.cores = vec![0, 8],
            "cores has stop 8, but the stops are 0 to 7; their number is columns · rows",
        ),
        (|c| c.fabric.cores = vec![0], "cores has 1 stops; there must be 2, or none"),
        (|c| c.fabric.slices = vec![0, 1], "slices has 2 stops; there must be 8, or none"),
        (
            |c| c.fabric.memory = vec![1, 2, 3],
            "memory has 3 stops for the 2 channels of dram; each must have the same number",
        ),
        (|c| c.fabric.rows = 2, "rows is 2, but a ring has one row; omit it"),
        (|c| c.fabric.hop = 0, "hop is 0; it must be from 1 to 100"),
        (|c| c.fabric.columns = 300, "columns is 300; it must be from 0 to 256"),
        (
            |c| (c.fabric.kind, c.fabric.columns, c.fabric.rows) = (FabricKind::Mesh, 100, 100),
            "columns · rows is 10000; it must be at most 256",
        ),
    ];
    for (breaks, problem) in broken {
        let mut config = ring(8);
        config.dram.channels = 2;
        breaks(&mut config);
        assert_eq!(config.validate(2).unwrap_err(), format!("fabric.{problem}"));
    }
    let message =
        "fabric.kind is a ring or mesh, but one core with one slice has one stop; set llc.slices, or columns";
    assert_eq!(ring(1).validate(1).unwrap_err(), message);
    let mut config = mesh(16, 0);
    config.dram.channels = 4;
    let places = config.fabric.places(18, 16, 4).unwrap().unwrap();
    assert_eq!((places.columns, places.rows), (5, 4));
    assert_eq!((places.memory, places.devices), (vec![10, 10, 14, 14], vec![0]));
    config.fabric.rows = 3;
    let places = config.fabric.places(18, 16, 4).unwrap().unwrap();
    assert_eq!((places.columns, places.rows), (6, 3));
}
