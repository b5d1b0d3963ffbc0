//! Latencies of a directory, to the cycle; coherence in every reachable state of a few lines; sharing
//! counters.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use doorbell_sim::memory::{AccessKind, CoreAccess, DmaAccess, HostMemory, Level};
use doorbell_sim::ports::{DmaPurpose, PhysAddr};
use doorbell_sim::rng::Rng;
use doorbell_sim::{Bytes, Domain, Hertz, Ps};

use crate::backing::FlatMemory;
use crate::cache::Cache;
use crate::coherence::config::{Answers, CoherenceKind};
use crate::coherence::stats::SharingStats;
use crate::config::{Inclusion, MemoryConfig, PrivateConfig};
use crate::plain_cycles::{Served, core_access};
use crate::system::{HartSide, MemorySystem};
use crate::ways::WayMask;

type System = MemorySystem<FlatMemory>;

const BASE: u64 = 0x8000_0000;

/// Cores and interconnect at 2 GHz: L1 2, L2 12, interconnect 6 each way and two cycles per line, LLC 20,
/// memory 100; the directory's look-up 3, a snoop 9.
fn config(answers: Answers) -> MemoryConfig {
    let mut config = MemoryConfig::default();
    config.interconnect.clock = Hertz(2_000_000_000);
    config.coherence.kind = CoherenceKind::Directory;
    (config.coherence.latency, config.coherence.snoop, config.coherence.answers) = (3, 9, answers);
    config
}

/// From a request to the end of the LLC's look-up, and from there back with the first half of a line.
const LOOKUP: u64 = 2 + 12 + 6 + 20;
const BACK: u64 = 6;
/// From the look-up to a snoop's response, without a line and with one, which takes two cycles of its link.
const ANSWER: u64 = 3 + 6 + 9;
const LINE: u64 = ANSWER + 1;

fn system_of(config: &MemoryConfig, harts: usize) -> System {
    system_with(config, harts, Bytes(1 << 20))
}

fn system_with(config: &MemoryConfig, harts: usize, ram: Bytes) -> System {
    let memory = FlatMemory::new(Ps::from_ns(50), Ps(1));
    let clocks = vec![Hertz(2_000_000_000); harts];
    MemorySystem::new(config, &clocks, PhysAddr(BASE), ram, memory).unwrap()
}

fn access(system: &mut System, hart: usize, cycle: u64, kind: AccessKind, offset: u64) -> Served {
    core_access(system, hart, cycle, CoreAccess { kind, addr: PhysAddr(BASE + offset), pc: 0x1000 })
}

fn load(system: &mut System, hart: usize, cycle: u64) -> Served {
    access(system, hart, cycle, AccessKind::Load, 0)
}

fn store(system: &mut System, hart: usize, cycle: u64) -> Served {
    access(system, hart, cycle, AccessKind::Store, 0)
}

#[test]
fn a_line_owned_by_another_core_takes_three_or_four_hops() {
    for (answers, hop) in [(Answers::Direct, 0), (Answers::Home, BACK)] {
        let mut system = system_of(&config(answers), 2);
        let transfer = |at| Served { at, level: Level::Peer };
        store(&mut system, 0, 1_000);
        assert_eq!(
            load(&mut system, 1, 2_000),
            transfer(2_000 + LOOKUP + LINE + hop + BACK),
            "it is modified"
        );
        assert_eq!(load(&mut system, 1, 3_000).at, 3_002);
        // Now both may read it, and the LLC has the newest copy: a store waits for one acknowledgement.
        assert_eq!(
            store(&mut system, 1, 4_000),
            transfer(4_000 + LOOKUP + ANSWER + hop + BACK),
            "an upgrade"
        );
        assert_eq!(store(&mut system, 0, 5_000), transfer(5_000 + LOOKUP + LINE + hop + BACK), "to write it");
        system.check_invariants().unwrap();
        // A line that was only read is snooped as well: its owner might have written it.
        let other = 1 << 16;
        access(&mut system, 0, 6_000, AccessKind::Load, other);
        let read = access(&mut system, 1, 7_000, AccessKind::Load, other);
        assert_eq!(read, transfer(7_000 + LOOKUP + LINE + hop + BACK), "it is exclusive");
        // A third core would hit the LLC.
        let stats = system.stats();
        assert_eq!((stats.harts[1].sharing.hit, stats.harts[1].sharing.hitm), (1, 1));
        assert_eq!((stats.directory.snoops, stats.directory.forwards), (4, 3));
    }
}

#[test]
fn a_store_waits_for_the_last_sharer_and_one_snoop_leaves_per_cycle() {
    for harts in [2, 3, 8, 16, 63] {
        let mut system = system_of(&config(Answers::Direct), harts);
        (0..harts).for_each(|hart| {
            load(&mut system, hart, 1_000 * (1 + hart as u64));
        });
        let others = harts as u64 - 1;
        let expected = 100_000 + LOOKUP + ANSWER + (others - 1) + BACK;
        assert_eq!(store(&mut system, 0, 100_000).at, expected, "{harts} harts");
        // For a hart that does not have the line, it comes from the LLC meanwhile.
        let mut system = system_of(&config(Answers::Direct), harts + 1);
        (0..harts).for_each(|hart| {
            load(&mut system, hart, 1_000 * (1 + hart as u64));
        });
        let expected = 100_000 + LOOKUP + ANSWER + others + BACK;
        assert_eq!(store(&mut system, harts, 100_000), Served { at: expected, level: Level::Llc });
        system.check_invariants().unwrap();
    }
}

#[test]
fn queued_stores_to_one_line_are_a_snoop_and_a_crossing_apart() {
    let harts = 8;
    for (answers, hop) in [(Answers::Direct, 0), (Answers::Home, BACK)] {
        let mut system = system_of(&config(answers), harts);
        store(&mut system, 0, 1_000);
        let first = store(&mut system, 1, 2_000).at;
        assert_eq!(first, 2_000 + LOOKUP + LINE + hop + BACK);
        // All requests are issued before the first gets the line: each waits for the previous one.
        for hart in 2..harts {
            let at = store(&mut system, hart, 2_000 + hart as u64).at;
            assert_eq!(at, first + (hart as u64 - 1) * (9 + 1 + hop + BACK), "hart {hart}");
        }
    }
}

#[test]
fn a_device_waits_for_the_owner_or_for_all_sharers() {
    let access = DmaAccess::plain(0, DmaPurpose::RxData, 0);
    let ps = |cycles: u64| Ps(cycles * 500);
    // From the request to the look-up, and back; a line takes one cycle of the root complex's link.
    let (lookup, back) = (10 + 20, 10);
    let mut system = system_of(&config(Answers::Direct), 4);
    store(&mut system, 0, 1_000);
    let read = system.device_read(ps(2_000), PhysAddr(BASE), 64, access);
    assert_eq!(read, ps(2_000 + lookup + LINE + 6 + back), "the owner has it");
    (1..4).for_each(|hart| {
        load(&mut system, hart, 2_000 + 1_000 * hart as u64);
    });
    let write = system.device_write(ps(9_000), PhysAddr(BASE), 64, access);
    assert_eq!(write, ps(9_000 + lookup + ANSWER + 3 + 6), "four copies are invalidated");
    let write = system.device_write(ps(9_500), PhysAddr(BASE), 64, access);
    assert_eq!(write, ps(9_500 + lookup), "no copies");
    system.check_invariants().unwrap();
}

#[test]
fn a_full_directory_invalidates_the_copies_of_the_least_recently_used_line() {
    let mut config = config(Answers::Direct);
    (config.coherence.entries, config.coherence.ways) = (8, 8);
    let mut system = system_of(&config, 2);
    let at = |line: u64| 64 * line;
    for line in 0..8 {
        access(&mut system, (line % 2) as usize, 1_000 * (line + 1), AccessKind::Store, at(line));
    }
    // The other core uses the first line, which the directory records, so the second one is the victim.
    access(&mut system, 1, 20_000, AccessKind::Load, at(0));
    access(&mut system, 0, 21_000, AccessKind::Load, at(8));
    system.check_invariants().unwrap();
    assert_eq!(access(&mut system, 0, 22_000, AccessKind::Load, at(0)).level, Level::L1);
    let stats = system.stats().directory;
    assert_eq!(
        (stats.back_invalidations, stats.back_invalidated_copies, stats.back_invalidated_dirty),
        (1, 1, 1)
    );
    // The dirty line is in the LLC now.
    let back = access(&mut system, 1, 23_000, AccessKind::Load, at(1));
    assert_eq!(back, Served { at: 23_000 + LOOKUP + BACK, level: Level::Llc });
}

#[test]
fn invalid_directory_parameters_are_rejected() {
    let mut config = config(Answers::Direct);
    (config.coherence.entries, config.coherence.ways) = (1000, 12);
    let message = "coherence.entries is 1000; with 12 ways it must be 12 · a power of two, such as 1536";
    assert_eq!(config.validate(2).unwrap_err(), message);
    (config.coherence.entries, config.llc.slices) = (12, 4);
    let message =
        "coherence.entries is 12; with 12 ways in 4 slices it must be 48 · a power of two, such as 48";
    assert_eq!(config.validate(2).unwrap_err(), message);
    (config.coherence.entries, config.coherence.snoop) = (0, 1001);
    assert_eq!(config.validate(2).unwrap_err(), "coherence.snoop is 1001; it must be from 0 to 1000");
}

/// One step of the exhaustive search.
#[derive(Clone, Copy, Debug)]
enum Step {
    Core(usize, AccessKind, u64),
    DeviceRead(u64),
    DeviceWrite(u64),
}

fn take(system: &mut System, step: Step) {
    let device = DmaAccess::plain(0, DmaPurpose::RxData, 0);
    let addr = |line: u64| PhysAddr(BASE + line * 64);
    match step {
        Step::Core(hart, kind, line) => system.warm(hart, CoreAccess { kind, addr: addr(line), pc: 0 }),
        Step::DeviceRead(line) => system.warm_device_read(addr(line), 64, device),
        Step::DeviceWrite(line) => system.warm_device_write(addr(line), 64, device),
    }
}

/// State of each line in a cache.
fn states<D: Domain>(cache: &Cache<D>, lines: u32) -> impl Iterator<Item = Option<u8>> {
    (0..lines).map(|line| cache.tags.find(line).map(|slot| cache.tags.flags(slot).0 & 0xb))
}

/// State of each line in each hart's caches and the LLC.
fn state(system: &System, lines: u32) -> Vec<Option<u8>> {
    let mut all = Vec::new();
    for cache in system.harts.iter().flat_map(|hart| [&hart.l1i, &hart.l1d, &hart.l2]) {
        all.extend(states(cache, lines));
    }
    all.extend(states(&system.llc, lines));
    all
}

/// Breadth-first search of every state that two or three harts and a device can bring one or two lines into.
/// In each state a line has at most one owner, the directory lists exactly the private caches that have a
/// line, and inclusion holds.
#[test]
fn every_reachable_state_is_coherent() {
    for inclusion in [Inclusion::Inclusive, Inclusion::NonInclusive, Inclusion::Exclusive] {
        for (harts, lines, entries) in [(3, 1, 0), (2, 2, 0), (3, 2, 1)] {
            let mut config = config(Answers::Direct);
            // Room for one line in each private cache and for two in the LLC.
            for cache in [&mut config.l1i, &mut config.l1d, &mut config.l2] {
                (cache.size, cache.ways) = (Bytes(64), 1);
            }
            (config.llc.size, config.llc.ways, config.llc.inclusion) = (Bytes(128), 2, inclusion);
            config.dca.policy.ways = WayMask::first(1);
            (config.coherence.entries, config.coherence.ways) = (entries, 1);
            let kinds = [AccessKind::Load, AccessKind::Store];
            let mut steps = Vec::new();
            for line in 0..u64::from(lines) {
                let cores = (0..harts).flat_map(|hart| kinds.map(|kind| Step::Core(hart, kind, line)));
                steps.extend(cores.chain([Step::DeviceRead(line), Step::DeviceWrite(line)]));
            }
            let empty = system_with(&config, harts, Bytes(4096));
            let mut seen = BTreeSet::from([state(&empty, lines)]);
            let mut queue = VecDeque::from([(empty, Vec::new())]);
            while let Some((system, path)) = queue.pop_front() {
                for &step in &steps {
                    let mut system = system.clone();
                    let path: Vec<Step> = [&path[..], &[step]].concat();
                    take(&mut system, step);
                    system.check_invariants().unwrap_or_else(|problem| panic!("{path:?}: {problem}"));
                    if seen.insert(state(&system, lines)) {
                        queue.push_back((system, path));
                    }
                }
            }
            println!("{inclusion:?}, {harts} harts, {lines} lines, {entries} entries: {} states", seen.len());
            assert!(seen.len() > 20 * lines as usize, "{} states", seen.len());
        }
    }
}

/// Reference of the sharing counters: for each hart, when it lost which line, and all stores since the start.
#[derive(Default)]
struct Plain {
    has: BTreeMap<(usize, u64), bool>,
    lost: BTreeMap<(usize, u64), usize>,
    stores: Vec<(usize, u64)>,
    owners: BTreeMap<u64, Vec<usize>>,
    counted: BTreeMap<usize, [u64; 3]>,
}

impl Plain {
    fn access(&mut self, hart: usize, word: u64, own: bool, harts: usize) {
        let line = word / 8;
        let there = self.has.contains_key(&(hart, line));
        let counted = self.counted.entry(hart).or_default();
        if !there && let Some(since) = self.lost.remove(&(hart, line)) {
            let written = self.stores[since..].iter().any(|&(by, at)| at == word && by != hart);
            counted[usize::from(!written)] += 1;
        }
        self.has.insert((hart, line), true);
        if !own {
            return;
        }
        let owners = self.owners.entry(line).or_default();
        if owners.last() != Some(&hart) {
            counted[2] += u64::from(owners.len() > 1 && owners[owners.len() - 2] == hart);
            owners.push(hart);
        }
        for other in (0..harts).filter(|&other| other != hart) {
            if self.has.remove(&(other, line)).is_some() {
                self.lost.insert((other, line), self.stores.len());
            }
        }
        self.stores.push((hart, word));
    }
}

#[test]
fn sharing_misses_are_true_or_false_as_in_a_list_of_all_stores() {
    for kind in [CoherenceKind::Ideal, CoherenceKind::Directory] {
        for harts in [2, 4] {
            let mut config = config(Answers::Direct);
            config.coherence.kind = kind;
            let (mut system, mut plain) = (system_of(&config, harts), Plain::default());
            let mut rng = Rng::stream(harts as u64, "sharing");
            for step in 0..4_000 {
                let (hart, word, own) = (rng.below(harts as u64) as usize, rng.below(24), rng.below(3) == 0);
                let kind = if own { AccessKind::Store } else { AccessKind::Load };
                access(&mut system, hart, 1_000 * step, kind, word * 8);
                plain.access(hart, word, own, harts);
            }
            for (hart, stats) in system.stats().harts.iter().enumerate() {
                let SharingStats { true_sharing, false_sharing, ping_pong, .. } = stats.sharing;
                assert_eq!(
                    [true_sharing, false_sharing, ping_pong],
                    plain.counted[&hart],
                    "hart {hart} of {harts}"
                );
                assert!(true_sharing > 50 && false_sharing > 50 && ping_pong > 20 && stats.sharing.hitm > 50);
            }
        }
    }
}

/// A hart that streams through more than the LLC's capacity evicts another hart's lines, unless it is limited
/// to one way.
#[test]
fn a_hart_with_an_llc_way_mask_does_not_evict_lines_in_other_ways() {
    for (masks, survive) in [([WayMask::ALL; 2], false), ([WayMask(0xfffe), WayMask(1)], true)] {
        let mut config = config(Answers::Direct);
        (config.llc.size, config.llc.ways) = (Bytes(64 << 10), 16);
        (config.l2.size, config.l2.ways) = (Bytes(4 << 10), 8);
        (config.l1d.size, config.l1d.ways) = (Bytes(1 << 10), 4);
        let side = |llc_ways| HartSide {
            clock: Hertz(2_000_000_000),
            caches: PrivateConfig { llc_ways, ..config.private() },
        };
        let sides = masks.map(side);
        let memory = FlatMemory::new(Ps::from_ns(50), Ps(1));
        let mut system =
            MemorySystem::with_harts(&config, &sides, PhysAddr(BASE), Bytes(1 << 20), memory).unwrap();
        let own = 32 << 10;
        let walk = |system: &mut System, hart, from: u64, bytes: u64, kind| {
            for offset in (from..from + bytes).step_by(64) {
                system.warm(hart, CoreAccess { kind, addr: PhysAddr(BASE + offset), pc: 0x1000 });
            }
        };
        walk(&mut system, 0, 0, own, AccessKind::Load);
        // Dirty lines enter the LLC a second time, when they leave the L2.
        walk(&mut system, 1, 512 << 10, 256 << 10, AccessKind::Store);
        let before = system.stats().traffic.memory_reads;
        walk(&mut system, 0, 0, own, AccessKind::Load);
        let read = system.stats().traffic.memory_reads - before;
        assert_eq!(read == 0, survive, "{read} lines were read again");
    }
    let mut config = config(Answers::Direct).private();
    config.llc_ways = WayMask(1 << 16);
    assert!(config.validate(16).unwrap_err().starts_with("llc_ways is \"16\""));
}

#[test]
fn several_cores_have_a_directory_by_default_and_one_has_none() {
    let has = |cores: usize, change: fn(&mut MemoryConfig)| {
        let mut config = MemoryConfig::default();
        change(&mut config);
        system_of(&config, cores).has_directory()
    };
    assert_eq!([1, 2, 8].map(|cores| has(cores, |_| ())), [false, true, true]);
    assert!(has(1, |config| config.coherence.entries = 12 * 64), "entries enable the directory");
    assert!(has(1, |config| config.coherence.kind = CoherenceKind::Directory));
    assert!(!has(2, |config| config.coherence.kind = CoherenceKind::Ideal));
}
