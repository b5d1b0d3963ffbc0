//! Page tables for traces that tell virtual addresses alone, as ChampSim's do: where their pages lie, and what a walk reads.
//!
//! Three kinds. *Identity*: a page lies where its address says, and nothing is translated. *ChampSim*: as that simulator makes them
//! ([`PageTables`]), five levels of 4 KiB. *Kernel*: as Linux would: tables in four levels of 512 entries of eight bytes (Sv48, and
//! x86-64's alike: RISC-V privileged manual, 12.5), so that eight neighbours' entries share a line; pages and tables are given in order of
//! first touch out of blocks of 2 MiB, as an allocator of buddies that is not fragmented below hands them out, and the blocks lie
//! scattered by a seed, as after a while of running. Pages may be of 2 MiB each: then a walk has a level less.
//!
//! Not modelled: faults (a page is there when it is touched), entries' accessed and dirty bits, pages that move or are given back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use doorbell_platform::map;
use doorbell_sim::memory::Walk;
use doorbell_sim::rng::Rng;
use doorbell_sim::{Bytes, PhysAddr};
use doorbell_trace::champsim::PageTables;
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;

/// Which page tables a trace gets that has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pages {
    /// None: addresses are taken as physical.
    #[default]
    Identity,
    /// ChampSim's.
    #[serde(rename = "champsim")]
    ChampSim,
    /// As a kernel makes them.
    Kernel,
}

/// The page tables that traces get which tell virtual addresses alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PagesConfig {
    /// `identity`, or in `platform.ram` those of `champsim` or of a `kernel`.
    pub pages: Pages,
    /// Pages of the kernel's kind: 4KiB or 2MiB.
    pub page_size: Bytes,
}

impl Default for PagesConfig {
    fn default() -> Self {
        PagesConfig { pages: Pages::Identity, page_size: Bytes(SMALL) }
    }
}

impl PagesConfig {
    /// Checks every value, alone and together.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let size = self.page_size;
        if ![SMALL, LARGE].contains(&size.0) {
            let problem = format!("{size} is no size of pages; it must be \"4KiB\" or \"2MiB\"");
            return Err(ConfigError::new("playback.page_size", problem));
        }
        if size.0 == LARGE && self.pages != Pages::Kernel {
            let problem = "only pages of the kernel's kind can be of 2MiB; add playback.pages=kernel";
            return Err(ConfigError::new("playback.page_size", problem));
        }
        Ok(())
    }
}

const SMALL: u64 = 4 << 10;
const LARGE: u64 = 2 << 20;
const CHAMPSIM_LEVELS: u32 = 5;
const ENTRY_BYTES: u64 = 8;
const INDEX_BITS: u32 = 9;
const TOP_LEVEL: u32 = 3;
/// In which a kernel's image and its first tables lie, and no blocks.
const TAKEN: u64 = LARGE;

enum Kind {
    ChampSim(Box<PageTables>),
    Kernel(Kernel),
}

/// A kernel's page tables.
struct Kernel {
    page_size: u64,
    /// Blocks that are not taken, the next one last; and what is left of the one in use.
    blocks: Vec<u64>,
    next: u64,
    left: u64,
    pages: BTreeMap<(u16, u64), u64>,
    /// By space, level and the part of an address that leads there.
    tables: BTreeMap<(u16, u32, u64), u64>,
    is_full: bool,
}

impl Kernel {
    fn new(ram: Bytes, page_size: u64, seed: u64) -> Kernel {
        let mut blocks: Vec<u64> =
            (TAKEN / LARGE..ram.0 / LARGE).map(|block| map::RAM_BASE + block * LARGE).collect();
        let mut random = Rng::stream(seed, "playback.pages");
        (1..blocks.len()).rev().for_each(|last| blocks.swap(last, random.below(last as u64 + 1) as usize));
        let (pages, tables) = (BTreeMap::new(), BTreeMap::new());
        Kernel { page_size, blocks, next: 0, left: 0, pages, tables, is_full: false }
    }

    fn block(&mut self) -> u64 {
        self.is_full |= self.blocks.is_empty();
        // Whoever asks whether it is full goes no further.
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

    /// Where a page lies, with the tables that lead to it.
    fn frame(&mut self, space: u16, virt: u64) -> u64 {
        let page = virt / self.page_size;
        if let Some(frame) = self.pages.get(&(space, page)) {
            return *frame;
        }
        for level in (self.leaf()..=TOP_LEVEL).rev() {
            self.table(space, level, virt);
        }
        let frame = if self.page_size == LARGE { self.block() } else { self.small_page() };
        self.pages.insert((space, page), frame);
        frame
    }

    fn table(&mut self, space: u16, level: u32, virt: u64) -> u64 {
        // Of addresses that do not fit, what is above the top level's index tells tables apart too.
        let part = virt >> 12 >> (INDEX_BITS * (level + 1));
        if let Some(table) = self.tables.get(&(space, level, part)) {
            return *table;
        }
        let table = self.small_page();
        self.tables.insert((space, level, part), table);
        table
    }

    fn walk(&mut self, space: u16, virt: u64) -> Walk {
        let leaf = self.leaf();
        let mut walk =
            Walk { levels: (TOP_LEVEL - leaf + 1) as u8, page_bytes: self.page_size, ..Walk::default() };
        for (entry, level) in walk.entries.iter_mut().zip((leaf..=TOP_LEVEL).rev()) {
            let index = virt >> 12 >> (INDEX_BITS * level) & ((1 << INDEX_BITS) - 1);
            *entry = PhysAddr(self.table(space, level, virt) + index * ENTRY_BYTES);
        }
        walk
    }
}

const RECENT: usize = 64;

/// The page tables of one trace. Clones are the same.
#[derive(Clone)]
pub(super) struct Tables {
    kind: Arc<Mutex<Kind>>,
    /// Pages used lately, by the low bits of their numbers: page, space, where it lies.
    recent: [Option<(u64, u16, u64)>; RECENT],
}

impl Tables {
    /// Empty, in a memory so large; none if nothing is translated.
    pub fn new(config: &PagesConfig, ram: Bytes, seed: u64) -> Option<Tables> {
        let kind = match config.pages {
            Pages::Identity => return None,
            Pages::ChampSim => {
                let memory = PhysAddr(map::RAM_BASE)..PhysAddr(map::RAM_BASE + ram.0);
                Kind::ChampSim(Box::new(PageTables::new(memory, SMALL, CHAMPSIM_LEVELS)))
            }
            Pages::Kernel => Kind::Kernel(Kernel::new(ram, config.page_size.0, seed)),
        };
        Some(Tables { kind: Arc::new(Mutex::new(kind)), recent: [None; RECENT] })
    }

    /// Where an address lies.
    #[inline]
    pub fn translate(&mut self, space: u16, virt: u64) -> PhysAddr {
        let page = virt / SMALL;
        let place = page as usize % RECENT;
        if let Some((known, of, frame)) = self.recent[place]
            && (known, of) == (page, space)
        {
            return PhysAddr(frame + virt % SMALL);
        }
        let frame = match &mut *self.kind.lock().unwrap_or_else(PoisonError::into_inner) {
            Kind::ChampSim(tables) => tables.translate(page * SMALL).0,
            Kind::Kernel(tables) => tables.frame(space, virt) + page * SMALL % tables.page_size,
        };
        self.recent[place] = Some((page, space, frame));
        PhysAddr(frame + virt % SMALL)
    }

    /// The entries that lead there.
    pub fn walk(&self, space: u16, virt: u64) -> Walk {
        match &mut *self.kind.lock().unwrap_or_else(PoisonError::into_inner) {
            Kind::ChampSim(tables) => tables.walk(virt),
            Kind::Kernel(tables) => tables.walk(space, virt),
        }
    }

    /// Whether the trace has touched more than there is.
    pub fn is_full(&self) -> bool {
        match &*self.kind.lock().unwrap_or_else(PoisonError::into_inner) {
            Kind::ChampSim(tables) => tables.is_full(),
            Kind::Kernel(tables) => tables.is_full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(page_size: u64, seed: u64) -> Tables {
        let config = PagesConfig { pages: Pages::Kernel, page_size: Bytes(page_size) };
        Tables::new(&config, Bytes(64 << 20), seed).unwrap()
    }

    #[test]
    fn a_kernels_pages_lie_in_order_of_first_touch_and_its_entries_side_by_side() {
        let mut of = tables(SMALL, 1);
        let virt = 0x7fff_1234_5000;
        let places = [0, 5, 1, 2].map(|page: u64| of.translate(0, virt + page * SMALL + 0x123).0);
        assert!(places.windows(2).all(|pair| pair[1] == pair[0] + SMALL), "{places:x?}");
        assert_eq!(places[0] % SMALL, 0x123);
        let walks = [0, 1, 8].map(|page: u64| of.walk(0, virt + page * SMALL));
        assert_eq!((walks[0].levels, walks[0].page_bytes), (4, SMALL));
        assert_eq!(walks[0].entries[..3], walks[1].entries[..3]);
        assert_eq!(walks[1].entries[3].0, walks[0].entries[3].0 + 8);
        assert_eq!(walks[2].entries[3].0, walks[0].entries[3].0 + 64);
        // Entries: the root's by bits 47 to 39, and so on.
        let indices = walks[0].entries[..4].iter().map(|entry| entry.0 % SMALL / 8);
        assert!(indices.eq([39, 30, 21, 12].map(|bit| virt >> bit & 511)));
        let mut all: Vec<u64> = walks[0].entries[..4].iter().map(|entry| entry.0 / SMALL).collect();
        all.extend(places.map(|place| place / SMALL));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 8, "no table and no page lie on another");
    }

    #[test]
    fn large_pages_have_a_level_less_and_spaces_their_own_tables() {
        let mut of = tables(LARGE, 1);
        let (first, second) = (of.translate(0, 0x1234_5678), of.translate(1, 0x1234_5678));
        assert_eq!((first.0 % LARGE, second.0 % LARGE), (0x1234_5678 % LARGE, 0x1234_5678 % LARGE));
        assert_ne!(first, second);
        assert_eq!(of.translate(0, 0x1234_5678 + 0x1000).0, first.0 + 0x1000, "of the same page");
        let (own, other) = (of.walk(0, 0x1234_5678), of.walk(1, 0x1234_5678));
        assert_eq!((own.levels, own.page_bytes), (3, LARGE));
        assert!(own.entries[..3].iter().zip(&other.entries[..3]).all(|(own, other)| own != other));
    }

    #[test]
    fn a_seed_scatters_blocks_and_memory_that_is_used_up_is_noticed() {
        let blocks = |seed| {
            let mut of = tables(LARGE, seed);
            (0..20).map(|page| of.translate(0, page * LARGE).0).collect::<Vec<_>>()
        };
        assert_eq!(blocks(1), blocks(1));
        assert_ne!(blocks(1), blocks(2));
        // 32 blocks, of which one is taken and one has the tables.
        let mut of = tables(LARGE, 1);
        (0..30).for_each(|page| _ = of.translate(0, page * LARGE));
        assert!(!of.is_full());
        of.translate(0, 30 * LARGE);
        assert!(of.is_full());
        let config = PagesConfig { pages: Pages::ChampSim, ..PagesConfig::default() };
        let mut of = Tables::new(&config, Bytes(64 << 20), 1).unwrap();
        (0..(64 << 8) - 256).for_each(|page| _ = of.translate(0, page * SMALL));
        assert!(!of.is_full());
        of.translate(0, 1 << 40);
        assert!(of.is_full());
    }

    #[test]
    fn sizes_that_no_kind_has_are_refused() {
        let of = |pages, size| PagesConfig { pages, page_size: Bytes(size) }.validate();
        assert_eq!(of(Pages::Kernel, LARGE), Ok(()));
        assert!(of(Pages::Kernel, 8192).unwrap_err().to_string().contains("4KiB"));
        assert!(of(Pages::ChampSim, LARGE).unwrap_err().to_string().contains("playback.pages=kernel"));
    }
}
