//! ChampSim's page tables for a trace (its `vmem.cc`), for comparisons with page walks.
//!
//! A page gets a random frame at its first touch, and so does *each entry* of a page table: the entry is in
//! its frame's aligned group of eight frames, at the offset of its index in a table with as many entries as a
//! page has bytes. Entries of neighbouring pages therefore share no cache line, as they would in real tables,
//! unless their frames happen to be neighbours.
//!
//! A walk that starts above the last level reads the second-to-last entry not at its own address, but in the
//! page of the entry that was last read in the same table. This is the content of ChampSim's page-table
//! caches (its `ptw.cc`). It is rarely in a cache.

use std::collections::HashMap;
use std::ops::Range;

use doorbell_sim::PhysAddr;
use doorbell_sim::memory::Walk;
use doorbell_sim::rng::Rng;

/// No frames are allocated below this address.
const FIRST: u64 = 1 << 20;
const ENTRY_BYTES: u64 = 8;
/// Number of levels in a [`Walk`].
const LEVELS_MAX: u32 = 5;

/// ChampSim's page tables; see the module.
pub struct PageTables {
    base: u64,
    page_bits: u32,
    levels: u32,
    /// Free frame numbers, used from the end.
    free: Vec<u64>,
    is_full: bool,
    pages: HashMap<u64, u64>,
    /// Frame of each table entry, by level (1 is the last) and the address bits that select it.
    entries: HashMap<(u32, u64), u64>,
    /// Frame of the entry read last, by the address bits of its table.
    last: HashMap<u64, u64>,
}

/// Allocates a frame; 0 if none is left.
fn take(free: &mut Vec<u64>, is_full: &mut bool) -> u64 {
    free.pop().unwrap_or_else(|| {
        *is_full = true;
        0
    })
}

impl PageTables {
    /// Returns whether the trace has touched more pages than there are frames; results are then invalid.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Creates tables for this memory. The page size is a power of two; there are at most five levels.
    pub fn new(memory: Range<PhysAddr>, page_bytes: u64, levels: u32) -> PageTables {
        assert!(page_bytes.is_power_of_two() && page_bytes >= 4096 && (1..=LEVELS_MAX).contains(&levels));
        let page_bits = page_bytes.ilog2();
        let pages = FIRST.max(page_bytes) >> page_bits..(memory.end.0 - memory.start.0) >> page_bits;
        let mut free: Vec<u64> = pages.collect();
        let mut random = Rng::stream(1, "champsim.pages");
        (1..free.len()).rev().for_each(|last| free.swap(last, random.below(last as u64 + 1) as usize));
        let (pages, entries, last) = (HashMap::new(), HashMap::new(), HashMap::new());
        PageTables { base: memory.start.0, page_bits, levels, free, is_full: false, pages, entries, last }
    }

    /// Physical address of a virtual one.
    pub fn translate(&mut self, virt: u64) -> PhysAddr {
        let (page, offset) = (virt >> self.page_bits, virt & ((1 << self.page_bits) - 1));
        let (free, is_full) = (&mut self.free, &mut self.is_full);
        let frame = self.pages.entry(page).or_insert_with(|| take(free, is_full));
        PhysAddr(self.base + (*frame << self.page_bits) + offset)
    }

    /// Page-table entries that a walk for an address reads.
    pub fn walk(&mut self, virt: u64) -> Walk {
        let mut walk = Walk { levels: self.levels as u8, page_bytes: 1 << self.page_bits, ..Walk::default() };
        for (entry, level) in walk.entries.iter_mut().zip((1..=self.levels).rev()) {
            let shift = self.page_bits * level;
            let leading = virt.checked_shr(shift).unwrap_or(0);
            let index = leading & ((1 << self.page_bits) - 1);
            let (free, is_full) = (&mut self.free, &mut self.is_full);
            // A new last-level entry is a second fault: the page itself is new as well.
            let page = self.entries.entry((level, leading)).or_insert_with(|| {
                walk.faults += 1 + u8::from(level == 1);
                take(free, is_full)
            });
            let group = *page / ENTRY_BYTES * ENTRY_BYTES;
            *entry = PhysAddr(self.base + (group << self.page_bits) + index * ENTRY_BYTES);
        }
        if let [.., above, own] = &mut walk.entries[..self.levels as usize] {
            let table = virt.checked_shr(2 * self.page_bits).unwrap_or(0);
            let page_mask = (1u64 << self.page_bits) - 1;
            if let Some(page) = self.last.insert(table, own.0 & !page_mask) {
                *above = PhysAddr(page | (((virt >> self.page_bits) * ENTRY_BYTES) & page_mask));
            }
        }
        walk
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    const BASE: u64 = 0x8000_0000;

    fn tables() -> PageTables {
        PageTables::new(PhysAddr(BASE)..PhysAddr(BASE + (64 << 20)), 4096, 5)
    }

    #[test]
    fn pages_get_random_frames_and_keep_them() {
        let mut tables = tables();
        let places: Vec<u64> =
            (0..10_000).map(|page| tables.translate(page << 12 | page & 0xfff).0).collect();
        assert!(places.iter().all(|place| (BASE + FIRST..BASE + (64 << 20)).contains(place)));
        let mut pages: Vec<u64> = places.iter().map(|place| place >> 12).collect();
        assert!(
            pages.windows(2).filter(|pair| pair[1] == pair[0] + 1).count() < 10,
            "few neighbouring frames"
        );
        pages.sort_unstable();
        pages.dedup();
        assert_eq!(pages.len(), 10_000);
        let again = (0..10_000).map(|page| tables.translate(page << 12 | page & 0xfff).0);
        assert!(again.eq(places));
    }

    #[test]
    fn entries_of_neighbouring_pages_share_no_line() {
        let mut tables = tables();
        let first = tables.walk(0x1234_5000);
        assert_eq!((first.levels, first.page_bytes), (5, 4096));
        let (near, far) = (tables.walk(0x1234_6000), tables.walk(0x1234_5000 + (1 << 24)));
        assert_eq!([first.faults, near.faults, tables.walk(0x1234_6000).faults], [5 + 1, 1 + 1, 0]);
        assert_eq!(near.entries[..3], first.entries[..3]);
        assert_eq!(
            near.entries[3].0,
            first.entries[4].0 & !0xfff | (0x346 * 8),
            "in the page of the entry read last"
        );
        assert_ne!(near.entries[4].0 / 64, first.entries[4].0 / 64);
        assert_eq!(far.entries[..3], first.entries[..3]);
        assert_ne!(far.entries[3], first.entries[3]);
        for (walk, page) in [(first, 0x12345), (near, 0x12346)] {
            assert_eq!(walk.entries[4].0 % 0x8000, (page & 0xfff) * 8);
        }
        assert_eq!(tables.walk(0x1234_5000).entries[4], first.entries[4], "entries do not move");
    }
}
