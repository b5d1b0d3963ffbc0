//! The cache hierarchy against a simple model: lists in most-recently-used order, searched linearly.

use std::collections::BTreeMap;

use doorbell_sim::memory::{AccessKind, CoreAccess, DmaAccess, HostMemory};
use doorbell_sim::ports::{DmaPurpose, PhysAddr};
use doorbell_sim::rng::Rng;
use doorbell_sim::{Bytes, Domain, Hertz, Ps};

use crate::backing::FlatMemory;
use crate::cache::Cache;
use crate::coherence::config::CoherenceKind;
use crate::config::{Inclusion, MemoryConfig};
use crate::dca::{DcaPolicy, Place};
use crate::plain_cycles::core_access;
use crate::system::MemorySystem;
use crate::ways::WayMask;

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Shared,
    Exclusive,
    Modified,
}
use State::*;

#[derive(Clone, Debug, PartialEq)]
struct Line {
    line: u32,
    way: u32,
    state: State,
    fresh: bool,
}

/// A cache: for each set a list of lines, most recently used first.
#[derive(Clone)]
struct List {
    sets: u32,
    ways: u32,
    lists: BTreeMap<u32, Vec<Line>>,
}

impl List {
    fn new(sets: u32, ways: u32) -> List {
        List { sets, ways, lists: BTreeMap::new() }
    }
    fn set(&mut self, line: u32) -> &mut Vec<Line> {
        self.lists.entry(line % self.sets).or_default()
    }
    fn get(&mut self, line: u32) -> Option<&mut Line> {
        self.set(line).iter_mut().find(|entry| entry.line == line)
    }
    fn has(&mut self, line: u32) -> bool {
        self.get(line).is_some()
    }
    fn used(&mut self, line: u32) {
        let set = self.set(line);
        let at = set.iter().position(|entry| entry.line == line).unwrap();
        let entry = set.remove(at);
        set.insert(0, entry);
    }
    fn take(&mut self, line: u32) -> Option<Line> {
        let set = self.set(line);
        let at = set.iter().position(|entry| entry.line == line)?;
        Some(set.remove(at))
    }
    /// Fills a line; returns the victim.
    fn put(&mut self, line: u32, state: State, fresh: bool, mask: u32) -> Option<Line> {
        let ways = self.ways;
        let set = self.set(line);
        let allowed = |way: u32| mask >> way & 1 == 1;
        let free = (0..ways).find(|way| allowed(*way) && set.iter().all(|entry| entry.way != *way));
        let (way, gone) = match free {
            Some(way) => (way, None),
            None => {
                let at = set.iter().rposition(|entry| allowed(entry.way)).unwrap();
                let gone = set.remove(at);
                (gone.way, Some(gone))
            }
        };
        set.insert(0, Line { line, way, state, fresh });
        gone
    }
}

struct Hart {
    l1i: List,
    l1d: List,
    l2: List,
}

/// Copies in private caches.
#[derive(Default)]
struct Copies {
    any: bool,
    dirty: bool,
    fresh: bool,
}

struct Model {
    inclusion: Inclusion,
    core_ways: u32,
    harts: Vec<Hart>,
    llc: List,
    /// Lines tracked by a directory with limited entries.
    directory: Option<List>,
    back_invalidations: u64,
    memory_reads: u64,
    memory_writes: u64,
    leaks: u64,
    l1_write_backs: u64,
    l2_write_backs: u64,
}

impl Model {
    fn new(config: &MemoryConfig, harts: usize) -> Model {
        let list = |cache: &crate::config::CacheConfig| List::new(cache.sets(), cache.ways);
        let hart = || Hart { l1i: list(&config.l1i), l1d: list(&config.l1d), l2: list(&config.l2) };
        Model {
            inclusion: config.llc.inclusion,
            core_ways: config.llc.core_ways.0,
            harts: (0..harts).map(|_| hart()).collect(),
            llc: list(&config.llc.cache()),
            directory: (config.coherence.entries > 0).then(|| list(&config.coherence.cache())),
            back_invalidations: 0,
            memory_reads: 0,
            memory_writes: 0,
            leaks: 0,
            l1_write_backs: 0,
            l2_write_backs: 0,
        }
    }

    fn copies(&mut self, except: Option<usize>, line: u32) -> Copies {
        let mut copies = Copies::default();
        for hart in
            self.harts.iter_mut().enumerate().filter(|(n, _)| Some(*n) != except).map(|(_, hart)| hart)
        {
            copies.any |= hart.l2.has(line);
            copies.fresh |= hart.l2.get(line).is_some_and(|entry| entry.fresh);
            for list in [&mut hart.l1d, &mut hart.l2] {
                copies.dirty |= list.get(line).is_some_and(|entry| entry.state == Modified);
            }
        }
        copies
    }

    fn each_copy(&mut self, except: Option<usize>, line: u32, mut change: impl FnMut(&mut Line)) {
        for (_, hart) in self.harts.iter_mut().enumerate().filter(|(n, _)| Some(*n) != except) {
            for list in [&mut hart.l1i, &mut hart.l1d, &mut hart.l2] {
                list.get(line).map(&mut change);
            }
        }
    }

    fn take_copies(&mut self, except: Option<usize>, line: u32) {
        for (_, hart) in self.harts.iter_mut().enumerate().filter(|(n, _)| Some(*n) != except) {
            for list in [&mut hart.l1i, &mut hart.l1d, &mut hart.l2] {
                list.take(line);
            }
        }
    }

    /// Removes lines from the directory that no private cache has.
    fn untrack(&mut self) {
        let Some(directory) = &mut self.directory else { return };
        let lines: Vec<u32> = directory.lists.values().flatten().map(|entry| entry.line).collect();
        for line in lines {
            if !self.harts.iter_mut().any(|hart| hart.l2.has(line)) {
                directory.take(line);
            }
        }
    }

    /// A hart will get the line: the directory invalidates the copies of the line that it evicts.
    fn track(&mut self, line: u32) {
        self.untrack();
        let Some(directory) = &mut self.directory else { return };
        if directory.has(line) {
            return directory.used(line);
        }
        let Some(gone) = directory.put(line, Shared, false, u32::MAX) else { return };
        self.back_invalidations += 1;
        let copies = self.copies(None, gone.line);
        self.take_copies(None, gone.line);
        if copies.dirty || self.inclusion == Inclusion::Exclusive {
            let state = if copies.dirty { Modified } else { Exclusive };
            self.down_to_llc(Line { line: gone.line, way: 0, state, fresh: copies.fresh });
        }
    }

    fn core(&mut self, h: usize, line: u32, kind: AccessKind) {
        let (store, code) = (kind == AccessKind::Store, kind == AccessKind::Fetch);
        let hart = &mut self.harts[h];
        let l1 = if code { &mut hart.l1i } else { &mut hart.l1d };
        if let Some(entry) = l1.get(line)
            && !(store && entry.state == Shared)
        {
            entry.state = if store { Modified } else { entry.state };
            l1.used(line);
            return;
        }
        let state = self.at_l2(h, line, store);
        let hart = &mut self.harts[h];
        let l1 = if code { &mut hart.l1i } else { &mut hart.l1d };
        let state = match state {
            _ if store => Modified,
            Modified => Exclusive,
            state => state,
        };
        if let Some(entry) = l1.get(line) {
            entry.state = state;
            return l1.used(line);
        }
        if let Some(gone) = l1.put(line, state, false, u32::MAX)
            && gone.state == Modified
        {
            self.l1_write_backs += 1;
            hart.l2.get(gone.line).unwrap().state = Modified;
        }
    }

    /// Returns the resulting state in the L2.
    fn at_l2(&mut self, h: usize, line: u32, store: bool) -> State {
        let l2 = &mut self.harts[h].l2;
        if let Some(entry) = l2.get(line)
            && !(store && entry.state == Shared)
        {
            entry.fresh = false;
            let state = entry.state;
            l2.used(line);
            return state;
        }
        let upgrade = l2.has(line);
        let state = self.at_llc(h, line, store, upgrade);
        if upgrade {
            let l2 = &mut self.harts[h].l2;
            l2.get(line).unwrap().state = state;
            l2.used(line);
        } else {
            self.track(line);
            self.fill_l2(h, line, state, false);
        }
        state
    }

    fn fill_l2(&mut self, h: usize, line: u32, state: State, fresh: bool) {
        let hart = &mut self.harts[h];
        let Some(mut gone) = hart.l2.put(line, state, fresh, u32::MAX) else { return };
        hart.l1i.take(gone.line);
        if hart.l1d.take(gone.line).is_some_and(|entry| entry.state == Modified) {
            gone.state = Modified;
        }
        self.l2_write_backs += u64::from(gone.state == Modified);
        if gone.state == Modified || self.inclusion == Inclusion::Exclusive {
            self.down_to_llc(gone);
        }
    }

    fn down_to_llc(&mut self, gone: Line) {
        match self.llc.get(gone.line) {
            Some(entry) => {
                entry.state = if gone.state == Modified { Modified } else { entry.state };
                entry.fresh |= gone.fresh;
            }
            None => self.fill_llc(gone.line, gone.state, gone.fresh, self.core_ways),
        }
    }

    fn fill_llc(&mut self, line: u32, state: State, fresh: bool, mask: u32) {
        let Some(gone) = self.llc.put(line, state, fresh, mask) else { return };
        let (mut dirty, mut fresh) = (gone.state == Modified, gone.fresh);
        if self.inclusion == Inclusion::Inclusive {
            let copies = self.copies(None, gone.line);
            dirty |= copies.dirty;
            fresh |= copies.fresh;
            self.take_copies(None, gone.line);
        }
        self.memory_writes += u64::from(dirty);
        self.leaks += u64::from(fresh);
    }

    /// Returns the state that the hart gets.
    fn at_llc(&mut self, h: usize, line: u32, store: bool, upgrade: bool) -> State {
        let others = self.copies(Some(h), line);
        if store {
            self.take_copies(Some(h), line);
        } else {
            self.each_copy(Some(h), line, |entry| (entry.state, entry.fresh) = (Shared, false));
        }
        let alone = store || !others.any;
        let mut state = if alone { Exclusive } else { Shared };
        let read_below = !upgrade && !others.dirty;
        if read_below && self.llc.has(line) {
            self.llc.get(line).unwrap().fresh = false;
            self.llc.used(line);
        } else if read_below && !others.any {
            self.memory_reads += 1;
            if self.inclusion != Inclusion::Exclusive {
                self.fill_llc(line, Exclusive, false, self.core_ways);
            }
        }
        if others.dirty && store {
            state = Modified;
        } else if others.dirty {
            self.down_to_llc(Line { line, way: 0, state: Modified, fresh: false });
        }
        if alone
            && self.inclusion == Inclusion::Exclusive
            && let Some(entry) = self.llc.take(line)
            && entry.state == Modified
        {
            state = Modified;
        }
        state
    }

    fn device_write(&mut self, line: u32, full: bool, place: Place, mask: u32) {
        let others = self.copies(None, line);
        self.take_copies(None, line);
        if !full && !others.any && !self.llc.has(line) {
            self.memory_reads += 1;
        }
        let to_l2 = place == Place::L2;
        if place == Place::Memory || (to_l2 && self.inclusion != Inclusion::Inclusive) {
            self.llc.take(line);
        }
        match self.llc.get(line) {
            Some(entry) if to_l2 => entry.fresh = false,
            Some(entry) => {
                (entry.state, entry.fresh) = (Modified, true);
                self.llc.used(line);
            }
            None if place == Place::Allocate => self.fill_llc(line, Modified, true, mask),
            None if to_l2 && self.inclusion == Inclusion::Inclusive => {
                self.fill_llc(line, Exclusive, false, mask)
            }
            None if to_l2 => {}
            None => self.memory_writes += 1,
        }
        if to_l2 {
            self.track(line);
            self.fill_l2(0, line, Modified, true);
        }
    }

    fn device_read(&mut self, line: u32, allocate: Option<u32>) {
        let others = self.copies(None, line);
        self.each_copy(None, line, |entry| entry.fresh = false);
        if self.llc.has(line) {
            self.llc.get(line).unwrap().fresh = false;
            self.llc.used(line);
        } else if !others.any {
            self.memory_reads += 1;
            if let Some(mask) = allocate {
                self.fill_llc(line, Exclusive, false, mask);
            }
        }
    }
}

fn compare<D: Domain>(name: &str, real: &Cache<D>, model: &mut List) {
    for set in 0..model.sets {
        let real = real.tags.in_order(set).into_iter().map(|(line, flags)| {
            let state = match (flags.is_dirty(), flags.is_writable()) {
                (true, _) => Modified,
                (_, true) => Exclusive,
                _ => Shared,
            };
            (line, state, flags.is_fresh())
        });
        let model = model.set(set).iter().map(|entry| (entry.line, entry.state, entry.fresh));
        assert_eq!(real.collect::<Vec<_>>(), model.collect::<Vec<_>>(), "{name}, set {set}");
    }
}

fn compare_all(real: &MemorySystem<FlatMemory>, model: &mut Model) {
    real.check_invariants().unwrap();
    for (hart, plain) in real.harts.iter().zip(&mut model.harts) {
        compare("L1I", &hart.l1i, &mut plain.l1i);
        compare("L1D", &hart.l1d, &mut plain.l1d);
        compare("L2", &hart.l2, &mut plain.l2);
    }
    compare("LLC", &real.llc, &mut model.llc);
    let stats = real.stats();
    assert_eq!(stats.directory.back_invalidations, model.back_invalidations, "back-invalidations");
    let sum = |count: fn(&crate::stats::HartStats) -> u64| stats.harts.iter().map(count).sum::<u64>();
    assert_eq!(stats.traffic.memory_writes, model.memory_writes, "writes of memory");
    assert_eq!(stats.devices.leaks, model.leaks, "DMA leaks");
    let devices = &stats.devices;
    let written = devices.itom_hits + devices.itom_misses + devices.rfo_hits + devices.rfo_misses;
    let put = devices.updates + devices.allocations + devices.private_placements + devices.to_memory;
    assert_eq!(put, written, "each line that a device writes has one destination");
    assert_eq!(sum(|hart| hart.l1d.write_backs), model.l1_write_backs, "write-backs of L1Ds");
    assert_eq!(sum(|hart| hart.l2.write_backs), model.l2_write_backs, "write-backs of L2s");
}

/// Small caches, so that all cases occur often.
fn small(inclusion: Inclusion) -> MemoryConfig {
    let mut config = MemoryConfig::default();
    (config.l1i.size, config.l1i.ways) = (Bytes(512), 2);
    (config.l1d.size, config.l1d.ways) = (Bytes(512), 2);
    (config.l2.size, config.l2.ways) = (Bytes(2048), 4);
    (config.llc.size, config.llc.ways) = (Bytes(4096), 8);
    config.llc.inclusion = inclusion;
    config.llc.core_ways = WayMask(0b1111_1100);
    config.dca.policy.ways = WayMask(0b0000_0111);
    config
}

/// The same with a directory of `entries` entries.
fn small_with_directory(inclusion: Inclusion, entries: u32) -> MemoryConfig {
    let mut config = small(inclusion);
    config.coherence.kind = CoherenceKind::Directory;
    (config.coherence.entries, config.coherence.ways) = (entries, 4);
    config
}

/// Random accesses of two harts and a device with changing policies.
fn run(config: &MemoryConfig, timed: bool, seed: u64) {
    let clocks = [Hertz(3_000_000_000), Hertz(2_000_000_000)];
    let memory = FlatMemory::new(Ps::from_ns(50), Ps::from_ns(4));
    let base = PhysAddr(0x8000_0000);
    let mut real = MemorySystem::new(config, &clocks, base, Bytes(1 << 20), memory).unwrap();
    let mut model = Model::new(config, 2);
    let mut rng = Rng::stream(seed, "accesses");
    let mut policy = config.dca.policy.clone();
    for step in 0..6_000u64 {
        let line = (rng.below(2) * 512 + rng.below(160)) as u32;
        let addr = PhysAddr(base.0 + 64 * u64::from(line));
        let access = DmaAccess::plain(0, DmaPurpose::RxData, 0);
        let now = Ps(1_000 * step + rng.below(300_000));
        match rng.below(16) {
            0..10 => {
                let (hart, kind) = (rng.below(2) as usize, rng.below(8));
                let kind = match kind {
                    0..4 => AccessKind::Load,
                    4..6 => AccessKind::Store,
                    6 => AccessKind::Fetch,
                    _ => AccessKind::Walk,
                };
                let access = CoreAccess { kind, addr, pc: 0x1000 };
                match timed {
                    true => {
                        core_access(&mut real, hart, now.0 / 400, access);
                    }
                    false => real.warm(hart, access),
                }
                model.core(hart, line, kind);
            }
            10..13 => {
                let full = rng.below(3) > 0;
                let bytes = if full { 64 } else { 16 };
                match timed {
                    true => {
                        real.device_write(now, addr, bytes, access);
                    }
                    false => real.warm_device_write(addr, bytes, access),
                }
                let place = if policy.enabled { policy.headers } else { Place::Memory };
                model.device_write(line, full, place, policy.ways.0);
            }
            13..15 => {
                match timed {
                    true => {
                        real.device_read(now, addr, 64, access);
                    }
                    false => real.warm_device_read(addr, 64, access),
                }
                let allocate = policy.enabled && policy.read_allocate;
                model.device_read(line, allocate.then_some(policy.ways.0));
            }
            _ if step % 8 == 0 => {
                let places = [Place::Allocate, Place::Allocate, Place::Update, Place::Memory, Place::L2];
                policy = DcaPolicy {
                    enabled: rng.below(8) > 0,
                    headers: places[rng.below(5) as usize],
                    read_allocate: rng.below(2) > 0,
                    ways: WayMask(1 + rng.below(255) as u32),
                    ..policy
                };
                real.set_policy(None, policy.clone()).unwrap();
            }
            _ => {}
        }
        if step % 16 == 0 || step < 200 {
            compare_all(&real, &mut model);
        }
    }
    compare_all(&real, &mut model);
    if !timed {
        assert_eq!(real.stats().traffic.memory_reads, model.memory_reads, "reads of memory");
    }
    assert!(
        model.leaks > 20
            && model.memory_writes > 200
            && model.l2_write_backs + model.back_invalidations > 200,
        "all cases occur"
    );
}

#[test]
fn tags_states_order_and_write_backs_match_plain_lists() {
    for inclusion in [Inclusion::Inclusive, Inclusion::NonInclusive, Inclusion::Exclusive] {
        for seed in 0..4 {
            run(&small(inclusion), false, seed);
        }
    }
}

#[test]
fn timing_does_not_change_tags_states_order_and_write_backs() {
    for inclusion in [Inclusion::Inclusive, Inclusion::NonInclusive, Inclusion::Exclusive] {
        run(&small(inclusion), true, 7);
    }
}

#[test]
fn a_directory_changes_only_the_copies_it_has_no_room_to_track() {
    for inclusion in [Inclusion::Inclusive, Inclusion::NonInclusive, Inclusion::Exclusive] {
        for (entries, timed, seed) in
            [(0, false, 0), (32, false, 1), (16, false, 2), (16, true, 3), (0, true, 7)]
        {
            run(&small_with_directory(inclusion, entries), timed, seed);
        }
    }
}
