//! Address translation as time: an instruction and a data TLB, a second level that they share, and page-table walkers whose
//! reads go through the caches, with a small cache of page-table entries that are not leaves.
//!
//! A hit of the first level takes no time of its own. A page enters the TLBs when its walk is asked for; what asks for it
//! before the walk has ended does not wait for it. Global pages are entered once for each address space.

use doorbell_sim::Ps;
use doorbell_sim::calendar::Calendar;
use doorbell_sim::memory::{AccessKind, CoreAccess, CoreMemory, Walk};
use serde::{Deserialize, Serialize};

use crate::config::TlbConfig;
use crate::saved::cycle;
use crate::stats::Counts;
use crate::tlb::{Tlb, size_of};

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Mmu {
    instruction: Tlb,
    data: Tlb,
    second: Tlb,
    second_cycles: u64,
    walkers: Vec<Calendar>,
    walk_cache: WalkCache,
    fault_cycles: u64,
    /// The address space whose entries count, as entries are tagged with it; none if addresses are physical.
    space: Option<u16>,
    own: OwnSpaces,
}

/// Which of the tags are a thread's: numbers of address spaces are its own, and so the highest of their bits says whose one is. Of a
/// core without threads no bit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OwnSpaces {
    mask: u16,
    bits: u16,
}

impl OwnSpaces {
    fn tag(self, space: u16) -> u16 {
        space & !self.mask | self.bits
    }
}

/// No walk waits longer for a walker.
const WAIT_MAX: u64 = 1 << 20;
/// Walks that ended so long before one begins are forgotten. No op waits so long in a window that one behind it asks earlier by more.
const BEHIND: u64 = 1 << 16;

/// Whose translation it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Instruction,
    Data,
}

impl Mmu {
    pub(crate) fn new(config: &TlbConfig) -> Mmu {
        Mmu {
            instruction: Tlb::new(config.instruction_entries, config.instruction_ways),
            data: Tlb::new(config.data_entries, config.data_ways),
            second: Tlb::new(config.second_entries, config.second_ways),
            second_cycles: u64::from(config.second_cycles),
            walkers: vec![Calendar::default(); config.walkers as usize],
            walk_cache: WalkCache::new(config.walk_cache, config.walk_cache_from),
            fault_cycles: u64::from(config.fault_cycles),
            space: Some(0),
            own: OwnSpaces { mask: 0, bits: 0 },
        }
    }

    /// It is this thread's, of several that share the entries.
    pub(crate) fn of_thread(self, thread: u16) -> Mmu {
        let own = OwnSpaces { mask: 1 << 15, bits: thread << 15 };
        Mmu { own, ..self }
    }

    /// The space that addresses are of from now on.
    pub(crate) fn set_space(&mut self, space: Option<u16>) {
        self.space = space.map(|space| self.own.tag(space));
    }

    /// Entries and walkers, which threads share, go to the other one, and the other way.
    pub(crate) fn exchange(&mut self, other: &mut Mmu) {
        std::mem::swap(self, other);
        std::mem::swap(&mut self.space, &mut other.space);
        std::mem::swap(&mut self.own, &mut other.own);
    }

    /// When an address that is asked for at `at` is translated.
    #[inline]
    pub(crate) fn translate<M: CoreMemory>(
        &mut self,
        side: Side,
        virt: u64,
        at: u64,
        memory: &mut M,
        counts: &mut Counts,
    ) -> u64 {
        let Some(space) = self.space else { return at };
        let first = match side {
            Side::Instruction => &mut self.instruction,
            Side::Data => &mut self.data,
        };
        if first.look_up(virt, space).is_some() {
            return at;
        }
        self.miss(side, virt, space, at, memory, counts)
    }

    #[cold]
    fn miss<M: CoreMemory>(
        &mut self,
        side: Side,
        virt: u64,
        space: u16,
        at: u64,
        memory: &mut M,
        counts: &mut Counts,
    ) -> u64 {
        let known = self.second.look_up(virt, space);
        let walk = match known {
            Some(_) => None,
            None => {
                let walk = memory.walk(virt);
                if walk.levels == 0 {
                    return at;
                }
                Some(walk)
            }
        };
        let size = known.unwrap_or_else(|| size_of(walk.map_or(0, |walk| walk.page_bytes)));
        match side {
            Side::Instruction => {
                counts.itlb_misses += 1;
                self.instruction.insert(virt, space, size);
            }
            Side::Data => {
                counts.dtlb_misses += 1;
                self.data.insert(virt, space, size);
            }
        }
        let after_second = at + self.second_cycles;
        let Some(walk) = walk else { return after_second };
        self.second.insert(virt, space, size);
        counts.walks += 1;
        let (walker, free) = self.walker(after_second);
        let begin = free.min(after_second + WAIT_MAX);
        let entries = &walk.entries[..usize::from(walk.levels).min(walk.entries.len())];
        let mut now = begin;
        for entry in &entries[self.walk_cache.known(entries)..] {
            let access = CoreAccess { kind: AccessKind::Walk, addr: *entry, pc: virt };
            now = memory.access(now, access).at.max(now + 1);
            counts.walk_accesses += 1;
        }
        now += u64::from(walk.faults) * self.fault_cycles;
        // How long it takes was not known when the gap was found: what does not fit is booked behind.
        let walker = &mut self.walkers[walker];
        let late = walker.late();
        walker.book_raw(begin, now - begin);
        counts.late_bookings += walker.late() - late;
        walker.forget_before(begin.saturating_sub(BEHIND));
        counts.walk_cycles += now - at;
        now
    }

    /// The walker that is free first from a cycle on, and when.
    fn walker(&self, from: u64) -> (usize, u64) {
        let (mut walker, mut free) = (0, u64::MAX);
        for (number, one) in self.walkers.iter().enumerate() {
            let gap = one.first_gap(Ps(from), Ps(1)).0;
            if gap < free {
                (walker, free) = (number, gap);
            }
            if free <= from {
                break;
            }
        }
        (walker, free)
    }

    /// Enters a page without taking time.
    #[inline]
    pub(crate) fn warm(&mut self, side: Side, virt: u64, walk: impl FnOnce(u64) -> Walk) {
        let Some(space) = self.space else { return };
        let first = match side {
            Side::Instruction => &mut self.instruction,
            Side::Data => &mut self.data,
        };
        if first.look_up(virt, space).is_none() {
            self.warm_missed(side, virt, space, walk);
        }
    }

    #[cold]
    fn warm_missed(&mut self, side: Side, virt: u64, space: u16, walk: impl FnOnce(u64) -> Walk) {
        let first = match side {
            Side::Instruction => &mut self.instruction,
            Side::Data => &mut self.data,
        };
        if let Some(size) = self.second.look_up(virt, space) {
            first.insert(virt, space, size);
            return;
        }
        let walk = walk(virt);
        if walk.levels != 0 {
            let size = size_of(walk.page_bytes);
            first.insert(virt, space, size);
            self.second.insert(virt, space, size);
            self.walk_cache.known(&walk.entries[..usize::from(walk.levels).min(walk.entries.len())]);
        }
    }

    /// Drops translations, as SFENCE.VMA does.
    pub(crate) fn flush(&mut self, virt: Option<u64>, space: Option<u16>) {
        let OwnSpaces { mask, bits } = self.own;
        let spaces = space.map_or((mask, bits), |space| (u16::MAX, self.own.tag(space)));
        for tlb in [&mut self.instruction, &mut self.data, &mut self.second] {
            tlb.flush(virt, spaces);
        }
        self.walk_cache.clear();
    }

    /// Whether a saved one is one of this kind and agrees with itself.
    pub(crate) fn fits(&self, fresh: &Mmu) -> bool {
        self.instruction.fits(&fresh.instruction)
            && self.data.fits(&fresh.data)
            && self.second.fits(&fresh.second)
            && self.second_cycles == fresh.second_cycles
            && self.fault_cycles == fresh.fault_cycles
            && self.own == fresh.own
            && self.walkers.len() == fresh.walkers.len()
            && self.walkers.iter().all(|walker| walker.booked().0 < u64::MAX / 4)
            && self.walk_cache.fits(&fresh.walk_cache)
    }
}

/// Addresses of page-table entries that point to further tables, least recently used first out.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct WalkCache {
    /// Address and last use.
    entries: Vec<(u64, u64)>,
    /// How many of a walk's last entries it does not keep.
    leaves: usize,
    #[serde(deserialize_with = "cycle")]
    clock: u64,
    /// Where the last walk's table of each level was found: a shortcut, of which nothing can be told from outside.
    #[serde(skip)]
    recent: [usize; LEVELS_MAX],
}

/// No walk has more levels.
const LEVELS_MAX: usize = 5;

impl WalkCache {
    fn new(entries: u32, from: u32) -> WalkCache {
        let entries = vec![(u64::MAX, 0); entries as usize];
        WalkCache { entries, leaves: from as usize, clock: 0, recent: [0; LEVELS_MAX] }
    }

    /// How many of a walk's entries need not be read; from now on all but the leaves are known.
    fn known(&mut self, walk: &[doorbell_sim::ports::PhysAddr]) -> usize {
        let tables = &walk[..walk.len().saturating_sub(self.leaves)];
        if self.entries.is_empty() {
            return 0;
        }
        let mut known = 0;
        for (level, table) in tables.iter().enumerate() {
            self.clock += 1;
            let recent = self.recent[level];
            let there = match self.entries.get(recent) {
                Some(entry) if entry.0 == table.0 => Some(recent),
                _ => self.entries.iter().position(|entry| entry.0 == table.0),
            };
            let place = match there {
                Some(place) => {
                    known = level + 1;
                    place
                }
                None => {
                    let oldest = (0..self.entries.len()).min_by_key(|place| self.entries[*place].1);
                    oldest.expect("there are entries")
                }
            };
            self.entries[place] = (table.0, self.clock);
            self.recent[level] = place;
        }
        known
    }

    fn clear(&mut self) {
        self.entries.fill((u64::MAX, 0));
    }

    fn fits(&self, fresh: &WalkCache) -> bool {
        self.entries.len() == fresh.entries.len()
            && self.leaves == fresh.leaves
            && self.entries.iter().all(|entry| entry.1 <= self.clock)
    }
}
