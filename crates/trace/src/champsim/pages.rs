//! Page tables as ChampSim makes them for a trace (its `vmem.cc`), for comparisons in which walks cost something.
//!
//! A page gets any page of memory when it is first touched, and so does *each entry* of a table: an entry lies in that page's aligned group of eight,
//! where a table of as many entries as a page has bytes would have it. So entries of neighbouring pages share no lines, as they do in real
//! tables, unless the pages that they were given happen to be neighbours too.
//!
//! A walk that begins above the last level reads the entry above the last one not where it lies but in the page of the last entry that was read in the same
//! table: that is what ChampSim's caches of entries keep (its `ptw.cc`). It is hardly ever in a cache.

use std::collections::HashMap;
use std::ops::Range;

use doorbell_sim::memory::Walk;
use doorbell_sim::rng::Rng;
use doorbell_sim::{Op, PhysAddr};

/// Below this no pages are handed out.
const FIRST: u64 = 1 << 20;
const ENTRY_BYTES: u64 = 8;
/// What a [`Walk`] has room for.
const LEVELS_MAX: u32 = 5;

/// See the module.
pub struct PageTables {
    base: u64,
    page_bits: u32,
    levels: u32,
    /// Numbers of pages that are not taken yet, from the end on.
    free: Vec<u64>,
    is_full: bool,
    pages: HashMap<u64, u64>,
    /// Pages of entries, by level (1 is the last) and the part of an address that leads to them.
    entries: HashMap<(u32, u64), u64>,
    /// The page of the entry that was read last, by its table's part of an address.
    last: HashMap<u64, u64>,
}

/// The next page; where there is none, one that is not handed out otherwise.
fn take(free: &mut Vec<u64>, is_full: &mut bool) -> u64 {
    free.pop().unwrap_or_else(|| {
        *is_full = true;
        0
    })
}

impl PageTables {
    /// Whether a trace has touched more pages than there are: what it was told since means nothing.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// For this memory, pages of a power of two of bytes, and at most five levels.
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

    /// Where an address lies.
    pub fn translate(&mut self, virt: u64) -> PhysAddr {
        let (page, offset) = (virt >> self.page_bits, virt & ((1 << self.page_bits) - 1));
        let (free, is_full) = (&mut self.free, &mut self.is_full);
        let frame = self.pages.entry(page).or_insert_with(|| take(free, is_full));
        PhysAddr(self.base + (*frame << self.page_bits) + offset)
    }

    /// The entries that lead there.
    pub fn walk(&mut self, virt: u64) -> Walk {
        let mut walk = Walk { levels: self.levels as u8, page_bytes: 1 << self.page_bits, ..Walk::default() };
        for (entry, level) in walk.entries.iter_mut().zip((1..=self.levels).rev()) {
            let shift = self.page_bits * level;
            let leading = virt.checked_shr(shift).unwrap_or(0);
            let index = leading & ((1 << self.page_bits) - 1);
            let (free, is_full) = (&mut self.free, &mut self.is_full);
            // A page's own entry is as new as the page, for which another one is found.
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

    /// Moves a trace's instructions and data to where they lie; their own addresses become virtual.
    pub fn apply(&mut self, ops: &mut [Op]) {
        for op in ops {
            op.fetch = self.translate(op.pc);
            if op.class.is_memory() {
                op.phys = self.translate(op.virt);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use doorbell_sim::OpClass;

    use super::*;

    const BASE: u64 = 0x8000_0000;

    fn tables() -> PageTables {
        PageTables::new(PhysAddr(BASE)..PhysAddr(BASE + (64 << 20)), 4096, 5)
    }

    #[test]
    fn each_page_lies_somewhere_and_stays_there() {
        let mut tables = tables();
        let places: Vec<u64> =
            (0..10_000).map(|page| tables.translate(page << 12 | page & 0xfff).0).collect();
        assert!(places.iter().all(|place| (BASE + FIRST..BASE + (64 << 20)).contains(place)));
        let mut pages: Vec<u64> = places.iter().map(|place| place >> 12).collect();
        assert!(pages.windows(2).filter(|pair| pair[1] == pair[0] + 1).count() < 10, "no neighbours");
        pages.sort_unstable();
        pages.dedup();
        assert_eq!(pages.len(), 10_000);
        let again = (0..10_000).map(|page| tables.translate(page << 12 | page & 0xfff).0);
        assert!(again.eq(places));
    }

    #[test]
    fn each_entry_has_a_line_of_its_own_where_an_index_by_page_puts_it() {
        let mut tables = tables();
        let first = tables.walk(0x1234_5000);
        assert_eq!((first.levels, first.page_bytes), (5, 4096));
        let (near, far) = (tables.walk(0x1234_6000), tables.walk(0x1234_5000 + (1 << 24)));
        assert_eq!([first.faults, near.faults, tables.walk(0x1234_6000).faults], [5 + 1, 1 + 1, 0]);
        assert_eq!(near.entries[..3], first.entries[..3]);
        assert_eq!(
            near.entries[3].0,
            first.entries[4].0 & !0xfff | (0x346 * 8),
            "in the page that was read last"
        );
        assert_ne!(near.entries[4].0 / 64, first.entries[4].0 / 64);
        assert_eq!(far.entries[..3], first.entries[..3]);
        assert_ne!(far.entries[3], first.entries[3]);
        for (walk, page) in [(first, 0x12345), (near, 0x12346)] {
            assert_eq!(walk.entries[4].0 % 0x8000, (page & 0xfff) * 8);
        }
        assert_eq!(tables.walk(0x1234_5000).entries[4], first.entries[4], "nothing moves");
    }

    #[test]
    fn a_trace_is_moved_and_keeps_its_addresses() {
        let op = Op { pc: 0x40_0000, virt: 0x7000_0008, class: OpClass::Load, ..Op::default() };
        let mut ops = [op, Op { pc: 0x40_0004, class: OpClass::Int, virt: 5, ..Op::default() }];
        let mut tables = tables();
        tables.apply(&mut ops);
        assert_eq!((ops[0].pc, ops[0].virt), (0x40_0000, 0x7000_0008));
        assert_eq!(ops[0].fetch, tables.translate(0x40_0000));
        assert_eq!(ops[0].phys, tables.translate(0x7000_0008));
        assert_eq!((ops[1].fetch.0, ops[1].phys), (ops[0].fetch.0 + 4, PhysAddr(0)));
    }
}
