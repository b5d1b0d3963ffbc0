//! A translation look-aside buffer: set-associative, least recently used, all page sizes in one array,
//! entries tagged with an address space. It models only hit or miss; the functional side holds the
//! translations.

use serde::{Deserialize, Serialize};

use crate::saved::{cycle, cycles};

/// The distinguished page sizes: 4 KiB, 2 MiB, 1 GiB, 512 GiB.
const SHIFTS: [u32; 4] = [12, 21, 30, 39];
/// Mask of the significant page-number bits: virtual addresses have at most 57.
const VPN_MASK: u64 = (1 << 45) - 1;
const VALID: u64 = 1 << 63;
const SPACE_SHIFT: u32 = 47;
const SIZE_SHIFT: u32 = 45;
/// Pages with a cached position in the array, for fast look-up.
const RECENT: usize = 256;

/// A TLB.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Tlb {
    /// Per entry: valid bit, address space, size and page number.
    keys: Vec<u64>,
    /// The last use of each entry.
    #[serde(deserialize_with = "cycles")]
    used: Vec<u64>,
    #[serde(deserialize_with = "cycle")]
    clock: u64,
    ways: usize,
    /// Number of entries per page size.
    sizes: [u32; 4],
    /// 4 KiB page, position and size of recently found entries: a shortcut without effect on results.
    #[serde(skip, default = "nothing_recent")]
    recent: Box<[Recent; RECENT]>,
}

type Recent = (u64, u32, u32);

fn nothing_recent() -> Box<[Recent; RECENT]> {
    Box::new([(0, 0, 0); RECENT])
}

/// The key of the page of `size` that contains `virt`.
#[inline(always)]
fn key(virt: u64, space: u16, size: usize) -> u64 {
    VALID | u64::from(space) << SPACE_SHIFT | (size as u64) << SIZE_SHIFT | (virt >> SHIFTS[size] & VPN_MASK)
}

impl Tlb {
    pub(crate) fn new(entries: u32, ways: u32) -> Tlb {
        let entries = entries as usize;
        Tlb {
            keys: vec![0; entries],
            used: vec![0; entries],
            clock: 0,
            ways: (ways as usize).max(1),
            sizes: [0; 4],
            recent: nothing_recent(),
        }
    }

    /// Looks up `virt`; returns the size of its page as an index.
    #[inline]
    pub(crate) fn look_up(&mut self, virt: u64, space: u16) -> Option<usize> {
        let small = key(virt, space, 0);
        let (page, place, size) = self.recent[small as usize % RECENT];
        if page == small {
            self.clock += 1;
            self.used[place as usize] = self.clock;
            return Some(size as usize);
        }
        self.search(virt, space, small)
    }

    fn search(&mut self, virt: u64, space: u16, small: u64) -> Option<usize> {
        for size in 0..SHIFTS.len() {
            if self.sizes[size] == 0 {
                continue;
            }
            let key = key(virt, space, size);
            let first = self.set(key);
            if let Some(way) = self.keys[first..first + self.ways].iter().position(|tag| *tag == key) {
                self.clock += 1;
                self.used[first + way] = self.clock;
                self.recent[small as usize % RECENT] = (small, (first + way) as u32, size as u32);
                return Some(size);
            }
        }
        None
    }

    /// Position of the first way of a key's set.
    #[inline]
    fn set(&self, key: u64) -> usize {
        // 32-bit division is much faster on the host.
        let sets = self.keys.len() as u32 / self.ways as u32;
        (key as usize & (sets as usize - 1)) * self.ways
    }

    /// Enters the page of `size` around `virt`, replacing the least recently used way of its set.
    pub(crate) fn insert(&mut self, virt: u64, space: u16, size: usize) {
        if self.keys.is_empty() {
            return;
        }
        let key = key(virt, space, size);
        let first = self.set(key);
        let set = first..first + self.ways;
        // Empty ways first. One packed number, because comparing pairs is much slower.
        let age = |place: usize| u64::from(self.keys[place] != 0) << 63 | self.used[place];
        let oldest = set.min_by_key(|place| age(*place)).expect("a set has ways");
        self.drop_recent(oldest);
        self.invalidate(oldest);
        self.clock += 1;
        self.keys[oldest] = key;
        self.used[oldest] = self.clock;
        self.sizes[size] += 1;
    }

    /// Drops the shortcuts to the entry in this position. The page that replaces it has none: its look-up
    /// missed.
    fn drop_recent(&mut self, place: usize) {
        let known = self.keys[place];
        let is_it = |recent: &Recent| recent.1 == place as u32;
        if known >> SIZE_SHIFT & 3 == 0 {
            // A 4 KiB page has one shortcut slot, an empty entry none.
            let recent = &mut self.recent[known as usize % RECENT];
            if is_it(recent) {
                *recent = (0, 0, 0);
            }
        } else {
            self.recent.iter_mut().filter(|recent| is_it(recent)).for_each(|recent| *recent = (0, 0, 0));
        }
    }

    fn invalidate(&mut self, place: usize) {
        if self.keys[place] != 0 {
            self.sizes[(self.keys[place] >> SIZE_SHIFT & 3) as usize] -= 1;
            self.keys[place] = 0;
        }
    }

    /// Drops translations of `virt` (of all addresses if none) in the spaces that match `bits` under `mask`.
    pub(crate) fn flush(&mut self, virt: Option<u64>, mask: u16, bits: u16) {
        for place in 0..self.keys.len() {
            let known = self.keys[place];
            let size = (known >> SIZE_SHIFT & 3) as usize;
            let of_space = (known >> SPACE_SHIFT) as u16 & mask == bits;
            let covers = virt.is_none_or(|virt| known & VPN_MASK == virt >> SHIFTS[size] & VPN_MASK);
            if known != 0 && of_space && covers {
                self.invalidate(place);
            }
        }
        self.recent = nothing_recent();
    }

    /// Whether saved state is consistent and matches this configuration.
    pub(crate) fn is_compatible(&self, fresh: &Tlb) -> bool {
        let mut sizes = [0; 4];
        for key in self.keys.iter().filter(|key| **key != 0) {
            sizes[(key >> SIZE_SHIFT & 3) as usize] += 1;
        }
        self.keys.len() == fresh.keys.len()
            && self.used.len() == fresh.used.len()
            && self.ways == fresh.ways
            && self.sizes == sizes
            && self.keys.iter().all(|key| *key == 0 || key & VALID != 0)
    }
}

/// The size index of a page of `page_bytes` bytes, rounded down to a distinguished size.
pub(crate) fn size_of(page_bytes: u64) -> usize {
    SHIFTS.iter().rposition(|shift| page_bytes >> shift != 0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_large_page_is_one_entry() {
        let mut tlb = Tlb::new(8, 2);
        tlb.insert(0x4000_0000, 1, size_of(2 << 20));
        assert_eq!(tlb.look_up(0x401f_ffff, 1), Some(1));
        assert_eq!(tlb.look_up(0x401f_f000, 1), Some(1));
        assert_eq!(tlb.look_up(0x4020_0000, 1), None);
        assert_eq!(tlb.look_up(0x4000_0000, 2), None, "another space");
        tlb.flush(Some(0x4010_0000), u16::MAX, 1);
        assert_eq!(tlb.look_up(0x4000_0000, 1), None);
    }

    #[test]
    fn an_evicted_page_misses_at_all_its_addresses() {
        for size in [4096, 2 << 20] {
            let mut tlb = Tlb::new(2, 1);
            // Fill the shortcut table at several addresses, then insert another page of the same set.
            let places: Vec<u64> = (0..4).map(|line| 0x4000_0000 + line * size / 4).collect();
            tlb.insert(places[0], 1, size_of(size));
            assert!(places.iter().all(|virt| tlb.look_up(*virt, 1).is_some()), "{size}");
            tlb.insert(places[0] + 2 * size, 1, size_of(size));
            assert!(places.iter().all(|virt| tlb.look_up(*virt, 1).is_none()), "{size}");
            assert!(tlb.look_up(places[0] + 2 * size, 1).is_some(), "{size}");
        }
    }

    #[test]
    fn size_index_rounds_down_to_page_table_sizes() {
        assert_eq!([4096, 65536, 2 << 20, 1 << 30, 1 << 39].map(size_of), [0, 0, 1, 2, 3]);
    }

    proptest! {
        #[test]
        fn tlb_matches_lru_lists(pages in proptest::collection::vec((0u64..24, 0u16..2, 0u32..12), 1..400)) {
            let mut tlb = Tlb::new(16, 4);
            let mut sets: [Vec<(u64, u16)>; 4] = Default::default();
            for (page, space, action) in pages {
                let set = &mut sets[page as usize % 4];
                match action {
                    0 => {
                        tlb.flush(Some(page << 12), 0, 0);
                        set.retain(|known| known.0 != page);
                    }
                    1 => {
                        tlb.flush(None, u16::MAX, space);
                        sets.iter_mut().for_each(|set| set.retain(|known| known.1 != space));
                    }
                    _ => {
                        let known = set.iter().position(|known| *known == (page, space));
                        prop_assert_eq!(tlb.look_up(page << 12 | 0xabc, space).is_some(), known.is_some());
                        if let Some(place) = known {
                            set.remove(place);
                        } else {
                            tlb.insert(page << 12, space, 0);
                        }
                        set.insert(0, (page, space));
                        set.truncate(4);
                    }
                }
            }
        }
    }
}
