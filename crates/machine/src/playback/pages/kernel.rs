//! Page tables as Linux makes them; see the parent module.

use std::collections::BTreeMap;

use doorbell_platform::map;
use doorbell_sim::memory::Walk;
use doorbell_sim::rng::Rng;
use doorbell_sim::{Bytes, PhysAddr};

use super::{LARGE, SMALL};

const ENTRY_BYTES: u64 = 8;
const INDEX_BITS: u32 = 9;
const ENTRIES: usize = 1 << INDEX_BITS;
const TOP_LEVEL: u32 = 3;
const LEVELS: usize = TOP_LEVEL as usize + 1;
/// Holds the kernel's image and first tables; no blocks are allocated here.
const RESERVED: u64 = LARGE;

/// A page table: its address, the entries on the path from the root to it, and the target of each of its
/// entries. A target is a table's number or a page's address, plus one; 0 if the entry is unused.
struct Table {
    addr: u64,
    path: [u64; LEVELS],
    targets: Box<[u64; ENTRIES]>,
}

/// Size of the cache of recently used leaf tables, indexed by the low bits of their regions.
const RECENT: usize = 256;

/// Page tables of all address spaces.
pub(super) struct Kernel {
    page_size: u64,
    /// Free blocks, the next one last; next page in the block in use, and pages left in it.
    blocks: Vec<u64>,
    next: u64,
    left: u64,
    tables: Vec<Table>,
    /// Number of the root table, by space and by the address bits above the root's index. Addresses beyond 48
    /// bits thus have tables of their own.
    roots: BTreeMap<(u16, u64), usize>,
    /// Leaf-table cache: region, space and table number. It does not change results.
    recent: Box<[Option<(u64, u16, u32)>; RECENT]>,
    pub is_full: bool,
}

/// Index of an address in its table at this level.
fn index(level: u32, virt: u64) -> usize {
    (virt >> 12 >> (INDEX_BITS * level)) as usize % ENTRIES
}

impl Kernel {
    pub fn new(ram: Bytes, page_size: u64, seed: u64) -> Kernel {
        let mut blocks: Vec<u64> =
            (RESERVED / LARGE..ram.0 / LARGE).map(|block| map::RAM_BASE + block * LARGE).collect();
        let mut random = Rng::stream(seed, "playback.pages");
        (1..blocks.len()).rev().for_each(|last| blocks.swap(last, random.below(last as u64 + 1) as usize));
        let (tables, roots) = (Vec::new(), BTreeMap::new());
        let recent = Box::new([None; RECENT]);
        Kernel { page_size, blocks, next: 0, left: 0, tables, roots, recent, is_full: false }
    }

    pub fn page_size(&self) -> u64 {
        self.page_size
    }

    fn block(&mut self) -> u64 {
        self.is_full |= self.blocks.is_empty();
        // Callers stop when `is_full` is set.
        self.blocks.pop().unwrap_or(map::RAM_BASE)
    }

    fn small_page(&mut self) -> u64 {
        if self.left == 0 {
            (self.next, self.left) = (self.block(), LARGE / SMALL);
        }
        let page = self.next;
        (self.next, self.left) = (page + SMALL, self.left - 1);
        page
    }

    fn leaf(&self) -> u32 {
        u32::from(self.page_size == LARGE)
    }

    fn new_table(&mut self, path: [u64; LEVELS]) -> usize {
        let addr = self.small_page();
        self.tables.push(Table { addr, path, targets: Box::new([0; ENTRIES]) });
        self.tables.len() - 1
    }

    fn root(&mut self, space: u16, virt: u64) -> usize {
        let key = (space, virt >> 12 >> (INDEX_BITS * (TOP_LEVEL + 1)));
        match self.roots.get(&key) {
            Some(root) => *root,
            None => {
                let root = self.new_table([0; LEVELS]);
                self.roots.insert(key, root);
                root
            }
        }
    }

    /// Returns the leaf table of an address. Creates it and the tables on its path if necessary.
    #[inline]
    fn last_table(&mut self, space: u16, virt: u64) -> usize {
        let region = virt >> 12 >> (INDEX_BITS * (self.leaf() + 1));
        let place = region as usize % RECENT;
        match self.recent[place] {
            Some((known, of, table)) if (known, of) == (region, space) => table as usize,
            _ => {
                let table = self.descend(space, virt);
                self.recent[place] = Some((region, space, table as u32));
                table
            }
        }
    }

    fn descend(&mut self, space: u16, virt: u64) -> usize {
        let mut table = self.root(space, virt);
        for level in (self.leaf() + 1..=TOP_LEVEL).rev() {
            let index = index(level, virt);
            table = match self.tables[table].targets[index] {
                0 => {
                    let Table { addr, mut path, .. } = self.tables[table];
                    path[(TOP_LEVEL - level) as usize] = addr + index as u64 * ENTRY_BYTES;
                    let below = self.new_table(path);
                    self.tables[table].targets[index] = below as u64 + 1;
                    below
                }
                below => below as usize - 1,
            };
        }
        table
    }

    /// Returns the address of a page. Allocates the page and its tables if necessary.
    pub fn frame(&mut self, space: u16, virt: u64) -> u64 {
        let table = self.last_table(space, virt);
        let index = index(self.leaf(), virt);
        let known = self.tables[table].targets[index];
        if known != 0 {
            return known - 1;
        }
        let frame = if self.page_size == LARGE { self.block() } else { self.small_page() };
        self.tables[table].targets[index] = frame + 1;
        frame
    }

    /// Returns the page-table entries that a walk reads.
    pub fn walk(&mut self, space: u16, virt: u64) -> Walk {
        let last = self.last_table(space, virt);
        let leaf = self.leaf();
        let Table { addr, path, .. } = &self.tables[last];
        let levels = (TOP_LEVEL - leaf + 1) as u8;
        let mut walk = Walk { levels, page_bytes: self.page_size, ..Walk::default() };
        walk.entries.iter_mut().zip(path).for_each(|(entry, addr)| *entry = PhysAddr(*addr));
        walk.entries[usize::from(levels) - 1] = PhysAddr(addr + index(leaf, virt) as u64 * ENTRY_BYTES);
        walk
    }
}
