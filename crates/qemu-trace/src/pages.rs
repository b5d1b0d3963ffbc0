//! Page-table walks of a recording.
//!
//! A page is recorded in the address space that first uses it. Kernel pages are the same in all spaces. Where
//! each space's own root table maps them (x86-64, RISC-V), only the root entry differs.

use std::collections::{BTreeMap, HashMap};

use doorbell_sim::memory::Walk;
use doorbell_sim::ports::PhysAddr;

use crate::stream::TableWalk;

/// Kernel half of the address space.
const KERNEL: u64 = 1 << 63;
const PAGE_SHIFT: u32 = 12;
const PAGE_MASK: u64 = (1 << PAGE_SHIFT) - 1;

/// Page-table walks of a recording; see the module.
#[derive(Debug)]
pub struct Pages {
    root: fn(u64) -> Option<u64>,
    /// Never iterated, so the order does not matter.
    walks: HashMap<(u64, u64), TableWalk>,
    /// By page alone, in any space.
    anywhere: HashMap<u64, TableWalk>,
    spaces: BTreeMap<u64, u16>,
}

impl Pages {
    /// Creates it for a machine's [`root`](crate::target::Target::root).
    pub fn new(root: fn(u64) -> Option<u64>) -> Pages {
        Pages { root, walks: HashMap::new(), anywhere: HashMap::new(), spaces: BTreeMap::new() }
    }

    /// Records a page's translation.
    pub fn record(&mut self, space: u64, walk: TableWalk) {
        self.walks.insert((space, walk.virt >> PAGE_SHIFT), walk);
        self.anywhere.insert(walk.virt >> PAGE_SHIFT, walk);
    }

    /// Number of an address space; `None` if they are exhausted.
    pub fn space(&mut self, space: u64) -> Option<u16> {
        let next = u16::try_from(self.spaces.len()).ok()?;
        Some(*self.spaces.entry(space).or_insert(next))
    }

    /// Page-table entries of a walk; no levels if the page is unknown.
    pub fn walk(&self, space: u64, virt: u64) -> Walk {
        let page = virt >> PAGE_SHIFT;
        if let Some(walk) = self.walks.get(&(space, page)) {
            return entries(walk);
        }
        let Some(walk) = self.anywhere.get(&page).filter(|_| virt >= KERNEL) else { return Walk::default() };
        let mut walk = *walk;
        if let Some(root) = (self.root)(space) {
            walk.entries[0] = root | walk.entries[0] & PAGE_MASK;
        }
        entries(&walk)
    }
}

fn entries(walk: &TableWalk) -> Walk {
    let levels = walk.entries.iter().take_while(|entry| **entry != 0).count() as u8;
    Walk { entries: walk.entries.map(PhysAddr), levels, page_bytes: 1 << walk.page_bits, faults: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::TARGETS;

    #[test]
    fn walks_cover_all_page_sizes_and_address_spaces() {
        let mut pages = Pages::new(TARGETS[0].root);
        let kernel = 0xffff_8000_0020_0000;
        pages.record(
            0x5000,
            TableWalk {
                virt: kernel,
                page: 0x20_0000,
                entries: [0x5800, 0x6000, 0x7008, 0, 0],
                page_bits: 21,
            },
        );
        pages.record(
            0x5000,
            TableWalk {
                virt: 0x1234,
                page: 0x9000,
                entries: [0x5000, 0x8000, 0xa000, 0xb008, 0],
                page_bits: 12,
            },
        );
        let walk = pages.walk(0x5000, kernel + 0x10);
        assert_eq!((walk.levels, walk.page_bytes, walk.entries[2]), (3, 2 << 20, PhysAddr(0x7008)));
        // Another process's page table has another root and shares the levels below it.
        let walk = pages.walk(0xc000, kernel);
        assert_eq!(walk.entries[..3], [PhysAddr(0xc800), PhysAddr(0x6000), PhysAddr(0x7008)]);
        assert_eq!((pages.walk(0x5000, 0x1000).levels, pages.walk(0x5000, 0x1000).page_bytes), (4, 4096));
        assert_eq!([pages.walk(0x5000, 0x5000).levels, pages.walk(0xc000, 0x1000).levels], [0, 0]);
        assert_eq!(
            [pages.space(0x5000), pages.space(0xc000), pages.space(0x5000)],
            [Some(0), Some(1), Some(0)]
        );
    }
}
