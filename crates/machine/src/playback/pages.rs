//! Page tables for traces with virtual addresses only, such as ChampSim's: where pages are, and the entries
//! that a walk reads.
//!
//! There are three kinds. *Identity*: physical and virtual addresses are equal, without translation.
//! *ChampSim*: as in that simulator ([`PageTables`]), five levels and 4 KiB pages. *Kernel*: as in Linux,
//! four levels of 512 eight-byte entries (Sv48, same as x86-64: RISC-V privileged manual, 12.5), so that the
//! entries of eight neighbouring pages share a line. Pages and tables are allocated in order of first touch
//! from blocks of 2 MiB, as by a buddy allocator without fragmentation below that size. A seed scatters the
//! blocks, as after some uptime. Pages may be 2 MiB; a walk then has one level less.
//!
//! Not modelled: page faults (a page exists when it is touched), accessed and dirty bits, pages that move or
//! are freed.

mod kernel;

use std::sync::{Arc, Mutex, PoisonError};

use doorbell_platform::map;
use doorbell_sim::memory::Walk;
use doorbell_sim::{Bytes, PhysAddr, config};
use doorbell_trace::champsim::PageTables;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::kernel::Kernel;
use crate::config::ConfigError;

/// Kind of page tables for a trace that has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pages {
    /// None: addresses are taken as physical.
    #[default]
    Identity,
    /// As in ChampSim.
    #[serde(rename = "champsim")]
    ChampSim,
    /// As in a Linux kernel.
    Kernel,
}

config! {
    /// Page tables for traces with virtual addresses only.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct PagesConfig {
        /// `identity`, or page tables as of `champsim` or a `kernel`, with pages in `platform.ram`.
        pub pages: Pages = Pages::Identity,
        /// Page size of the `kernel` kind: 4KiB or 2MiB.
        pub page_size: Bytes = Bytes(SMALL),
    }
}

impl PagesConfig {
    /// Checks every value, alone and in combination.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let size = self.page_size;
        if ![SMALL, LARGE].contains(&size.0) {
            let problem = format!("{size} is not a page size; it must be \"4KiB\" or \"2MiB\"");
            return Err(ConfigError::new("playback.page_size", problem));
        }
        if size.0 == LARGE && self.pages != Pages::Kernel {
            let problem = "2MiB pages need playback.pages=kernel";
            return Err(ConfigError::new("playback.page_size", problem));
        }
        Ok(())
    }
}

const SMALL: u64 = 4 << 10;
const LARGE: u64 = 2 << 20;
const CHAMPSIM_LEVELS: u32 = 5;

enum Kind {
    ChampSim(Box<PageTables>),
    Kernel(Kernel),
}

const RECENT: usize = 64;

/// Page tables of one trace. Clones share them.
#[derive(Clone)]
pub(super) struct Tables {
    kind: Arc<Mutex<Kind>>,
    /// Recently used pages, indexed by the low bits of their numbers: page, space, physical address.
    recent: [Option<(u64, u16, u64)>; RECENT],
}

impl Tables {
    /// Creates empty page tables in `ram` bytes of memory. Returns `None` for identity.
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

    /// Translates an address.
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
            Kind::Kernel(tables) => tables.frame(space, virt) + page * SMALL % tables.page_size(),
        };
        self.recent[place] = Some((page, space, frame));
        PhysAddr(frame + virt % SMALL)
    }

    /// Returns the page-table entries that a walk reads.
    pub fn walk(&self, space: u16, virt: u64) -> Walk {
        match &mut *self.kind.lock().unwrap_or_else(PoisonError::into_inner) {
            Kind::ChampSim(tables) => tables.walk(virt),
            Kind::Kernel(tables) => tables.walk(space, virt),
        }
    }

    /// Whether the trace has touched more pages than fit in memory.
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
    fn kernel_pages_are_allocated_in_order_of_first_touch() {
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
        // Entry indices: bits 47 to 39 in the root table, and so on.
        let indices = walks[0].entries[..4].iter().map(|entry| entry.0 % SMALL / 8);
        assert!(indices.eq([39, 30, 21, 12].map(|bit| virt >> bit & 511)));
        let mut all: Vec<u64> = walks[0].entries[..4].iter().map(|entry| entry.0 / SMALL).collect();
        all.extend(places.map(|place| place / SMALL));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 8, "tables and pages do not overlap");
    }

    #[test]
    fn large_pages_have_one_level_less_and_spaces_have_separate_tables() {
        let mut of = tables(LARGE, 1);
        let (first, second) = (of.translate(0, 0x1234_5678), of.translate(1, 0x1234_5678));
        assert_eq!((first.0 % LARGE, second.0 % LARGE), (0x1234_5678 % LARGE, 0x1234_5678 % LARGE));
        assert_ne!(first, second);
        assert_eq!(of.translate(0, 0x1234_5678 + 0x1000).0, first.0 + 0x1000, "same page");
        let (own, other) = (of.walk(0, 0x1234_5678), of.walk(1, 0x1234_5678));
        assert_eq!((own.levels, own.page_bytes), (3, LARGE));
        assert!(own.entries[..3].iter().zip(&other.entries[..3]).all(|(own, other)| own != other));
    }

    /// Regions of 2 MiB that share an entry of the leaf-table cache, and spaces with equal addresses. Pages
    /// and leaf entries keep their place, and no two share one.
    #[test]
    fn translations_do_not_change_after_cache_evictions() {
        let mut of = tables(SMALL, 1);
        let pages = (0..3u16).flat_map(|space| {
            (0..3u64).flat_map(move |far| (0..4).map(move |page| (space, (far << 29) + page * 200 * SMALL)))
        });
        let pages: Vec<(u16, u64)> = pages.collect();
        let told: Vec<(PhysAddr, PhysAddr)> = pages
            .iter()
            .map(|(space, virt)| (of.translate(*space, *virt), of.walk(*space, *virt).entries[3]))
            .collect();
        let mut random = doorbell_sim::rng::Rng::stream(1, "pages");
        for _ in 0..1_000 {
            let one = random.below(pages.len() as u64) as usize;
            let (space, virt) = pages[one];
            // A clone with an empty cache.
            let frame = Tables { recent: [None; RECENT], ..of.clone() }.translate(space, virt);
            assert_eq!((frame, of.walk(space, virt).entries[3]), told[one], "{space} {virt:x}");
        }
        for places in
            [told.iter().map(|one| one.0).collect::<Vec<_>>(), told.iter().map(|one| one.1).collect()]
        {
            let all: std::collections::BTreeSet<PhysAddr> = places.iter().copied().collect();
            assert_eq!(all.len(), pages.len());
        }
    }

    #[test]
    fn seed_scatters_blocks_and_full_memory_is_detected() {
        let blocks = |seed| {
            let mut of = tables(LARGE, seed);
            (0..20).map(|page| of.translate(0, page * LARGE).0).collect::<Vec<_>>()
        };
        assert_eq!(blocks(1), blocks(1));
        assert_ne!(blocks(1), blocks(2));
        // 32 blocks: one reserved, one with the tables.
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
    fn invalid_page_sizes_are_rejected() {
        let of = |pages, size| PagesConfig { pages, page_size: Bytes(size) }.validate();
        assert_eq!(of(Pages::Kernel, LARGE), Ok(()));
        assert!(of(Pages::Kernel, 8192).unwrap_err().to_string().contains("4KiB"));
        assert!(of(Pages::ChampSim, LARGE).unwrap_err().to_string().contains("playback.pages=kernel"));
    }
}
