//! Timing of address translation: an instruction TLB and a data TLB, a shared second-level TLB, page-table
//! walkers that read through the caches, and a small page-walk cache of non-leaf entries.
//!
//! A first-level hit adds no latency. A page enters the TLBs when its walk starts; later accesses to it do
//! not wait for the end of the walk. Global pages are entered once per address space.

use doorbell_sim::CoreCycle;
use doorbell_sim::calendar::Calendar;
use doorbell_sim::memory::{AccessKind, CoreAccess, CoreMemory, Walk};
use serde::{Deserialize, Serialize};

use crate::config::TlbConfig;
use crate::saved::cycle;
use crate::stats::Counts;
use crate::tlb::{Tlb, size_of};

/// The MMU.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Mmu {
    instruction: Tlb,
    data: Tlb,
    second: Tlb,
    second_cycles: u64,
    walkers: Vec<Calendar>,
    walk_cache: WalkCache,
    fault_cycles: u64,
    /// The current address space, with which TLB entries are tagged; none if addresses are physical.
    space: Option<u16>,
    own: OwnSpaces,
}

/// The address-space tag bits that identify the SMT thread: the top bit of the tag is the thread number.
/// Without SMT the mask is empty.
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

/// Maximum wait for a walker.
const WAIT_MAX: u64 = 1 << 20;
/// Walks that ended this long before a new one starts are dropped. No op stays in the window longer, so that
/// no later request starts earlier by more.
const BEHIND: u64 = 1 << 16;

/// The TLB side: instruction or data.
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

    /// Turns it into the MMU of this SMT thread; threads share the entries.
    pub(crate) fn of_thread(self, thread: u16) -> Mmu {
        let own = OwnSpaces { mask: 1 << 15, bits: thread << 15 };
        Mmu { own, ..self }
    }

    /// Sets the address space of subsequent accesses.
    pub(crate) fn set_space(&mut self, space: Option<u16>) {
        self.space = space.map(|space| self.own.tag(space));
    }

    /// Swaps the entries and walkers, which threads share, with the other thread.
    pub(crate) fn exchange(&mut self, other: &mut Mmu) {
        std::mem::swap(self, other);
        std::mem::swap(&mut self.space, &mut other.space);
        std::mem::swap(&mut self.own, &mut other.own);
    }

    /// The cycle in which an address requested at `at` is translated.
    #[inline]
    pub(crate) fn translate<M: CoreMemory>(
        &mut self,
        side: Side,
        virt: u64,
        at: CoreCycle,
        memory: &mut M,
        counts: &mut Counts,
    ) -> CoreCycle {
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
        at: CoreCycle,
        memory: &mut M,
        counts: &mut Counts,
    ) -> CoreCycle {
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
        for entry in &entries[self.walk_cache.look_up(entries)..] {
            let access = CoreAccess { kind: AccessKind::Walk, addr: *entry, pc: virt };
            now = memory.access(now, access).at.max(now + 1);
            counts.walk_accesses += 1;
        }
        now += u64::from(walk.faults) * self.fault_cycles;
        // The duration was unknown when the gap was found: a walk that does not fit is booked after the gap.
        let walker = &mut self.walkers[walker];
        let late = walker.late();
        walker.book_raw(begin.number(), now - begin);
        counts.late_bookings += walker.late() - late;
        walker.forget_before(begin.saturating_sub(BEHIND).number());
        counts.walk_cycles += now - at;
        now
    }

    /// The walker that is free first from cycle `from` on, and when.
    fn walker(&self, from: CoreCycle) -> (usize, CoreCycle) {
        let gap = |walker: &Calendar| CoreCycle::new(walker.first_gap(from.number(), 1));
        let gaps = self.walkers.iter().map(gap).enumerate();
        gaps.min_by_key(|(walker, gap)| (*gap, *walker)).expect("there is a walker")
    }

    /// Enters a page without advancing time.
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
            self.walk_cache.look_up(&walk.entries[..usize::from(walk.levels).min(walk.entries.len())]);
        }
    }

    /// Drops translations (SFENCE.VMA).
    pub(crate) fn flush(&mut self, virt: Option<u64>, space: Option<u16>) {
        let own = self.own;
        let (mask, bits) = space.map_or((own.mask, own.bits), |space| (u16::MAX, own.tag(space)));
        for tlb in [&mut self.instruction, &mut self.data, &mut self.second] {
            tlb.flush(virt, mask, bits);
        }
        self.walk_cache.clear();
    }

    /// Whether saved state is consistent and matches this configuration.
    pub(crate) fn is_compatible(&self, fresh: &Mmu) -> bool {
        self.instruction.is_compatible(&fresh.instruction)
            && self.data.is_compatible(&fresh.data)
            && self.second.is_compatible(&fresh.second)
            && self.second_cycles == fresh.second_cycles
            && self.fault_cycles == fresh.fault_cycles
            && self.own == fresh.own
            && self.walkers.len() == fresh.walkers.len()
            && self.walkers.iter().all(|walker| walker.booked() < u64::MAX / 4)
            && self.walk_cache.is_compatible(&fresh.walk_cache)
    }
}

/// The page-walk cache: addresses of non-leaf page-table entries, replaced least recently used first.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct WalkCache {
    /// Address and last use.
    entries: Vec<(u64, u64)>,
    /// Number of last levels of a walk that are not cached.
    leaves: usize,
    #[serde(deserialize_with = "cycle")]
    clock: u64,
    /// Position of the last entry found at each level: a shortcut without effect on results.
    #[serde(skip)]
    recent: [usize; LEVELS_MAX],
}

/// The maximum number of levels of a walk.
const LEVELS_MAX: usize = 5;

impl WalkCache {
    fn new(entries: u32, from: u32) -> WalkCache {
        let entries = vec![(u64::MAX, 0); entries as usize];
        WalkCache { entries, leaves: from as usize, clock: 0, recent: [0; LEVELS_MAX] }
    }

    /// Returns how many entries of a walk need not be read, and enters its non-leaf entries.
    fn look_up(&mut self, walk: &[doorbell_sim::ports::PhysAddr]) -> usize {
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

    fn is_compatible(&self, fresh: &WalkCache) -> bool {
        self.entries.len() == fresh.entries.len()
            && self.leaves == fresh.leaves
            && self.entries.iter().all(|entry| entry.1 <= self.clock)
    }
}
