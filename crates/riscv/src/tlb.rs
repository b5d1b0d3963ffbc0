//! The software TLB: translations and permissions by virtual page, so that most loads and stores cost one
//! look-up and a host access.
//!
//! It exists for simulation speed and holds only translations that SFENCE.VMA permits a hart to hold. The
//! timed TLB is part of the core's timing model. Data entries depend only on the guest's instructions and are
//! saved, so that a restored run walks page tables exactly when the uninterrupted one does. Fetch entries and
//! links between blocks depend on which blocks are decoded and are not saved.

use doorbell_sim::ram::PAGE_BYTES;
use doorbell_sim::{PhysAddr, Ram};
use serde::{Deserialize, Serialize};

use crate::hart::{Hart, Privilege};
use crate::mmu::{Access, Leaf, PAGE_MASK};

/// The state that decides the permissions of data accesses. Each mode has its own entries, so that switching
/// between modes costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    User = 0,
    Supervisor = 1,
    /// Supervisor with SUM set: user pages may be accessed.
    SupervisorUser = 2,
    /// Machine mode: no translation.
    Bare = 3,
}

/// A cached translation. A tag is the virtual page, or a value that matches no page. Tags are compared with
/// an address whose offset bits above the access size are cleared, which also detects misaligned accesses.
#[derive(Clone, Copy)]
pub(crate) struct TlbEntry {
    pub load_tag: u64,
    pub store_tag: u64,
    /// Host address minus virtual address.
    pub addend: u64,
    /// The era in which the hart's recorder last recorded the page for loads; [`UNRECORDED`] if never.
    pub recorded_era: u64,
}

const EMPTY: u64 = u64::MAX;
/// Era of a page that was not recorded.
pub(crate) const UNRECORDED: u64 = 0;
/// Flag in the store tag of a page whose stores RAM must observe. It makes the tag match no address, aligned
/// or not, but keeps the translation.
const WATCHED: u64 = 8;
const NO_ENTRY: TlbEntry =
    TlbEntry { load_tag: EMPTY, store_tag: EMPTY, addend: 0, recorded_era: UNRECORDED };
const NO_FETCH: (u64, u32, u64) = (EMPTY, 0, 0);
const ENTRIES: usize = 512;
/// Superpage entries per mode; superpages are cached in pieces of 2 MiB.
const SUPERPAGE_ENTRIES: usize = 64;
const SUPERPAGE_BYTES: u64 = 2 << 20;
/// Maximum number of tracked superpages with code; beyond it each SFENCE.VMA with an address drops all fetch
/// translations.
const FETCH_SUPERPAGES_MAX: usize = 8;
/// Initial context IDs, and the last of them.
const FIRST_CONTEXTS: ([u32; 4], u32) = ([1, 2, 3, 4], 4);
/// Bits of a filter of the virtual pages that code was fetched from.
const FETCH_CLASSES: usize = 1 << 15;

/// A 2 MiB piece of a superpage. It saves walks for pages whose own entries were evicted, and shows
/// SFENCE.VMA with an address whether entries for other addresses may be affected.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct SuperpageEntry {
    virt: u64,
    phys: u64,
    /// Accesses permitted by the walks so far; a store's walk has set D.
    loads: bool,
    stores: bool,
}

const NO_SUPERPAGE: SuperpageEntry = SuperpageEntry { virt: EMPTY, phys: 0, loads: false, stores: false };

pub(crate) struct Tlb {
    data: [[TlbEntry; ENTRIES]; 4],
    superpages: [[SuperpageEntry; SUPERPAGE_ENTRIES]; 4],
    /// A page larger than 2 MiB was used, so that a fence for one address may affect many entries.
    gigapages: bool,
    /// Superpages that code was fetched from.
    fetch_superpages: Vec<(u64, u64)>,
    /// Instruction-fetch entries: virtual page, context and physical page.
    fetch: [(u64, u32, u64); ENTRIES],
    fetched: [u64; FETCH_CLASSES / 64],
    /// Context ID of the current translation per privilege level; links between decoded blocks carry it.
    contexts: [u32; 4],
    last_context: u32,
}

impl Default for Tlb {
    fn default() -> Self {
        Tlb {
            data: [[NO_ENTRY; ENTRIES]; 4],
            superpages: [[NO_SUPERPAGE; SUPERPAGE_ENTRIES]; 4],
            gigapages: false,
            fetch_superpages: Vec::with_capacity(FETCH_SUPERPAGES_MAX + 1),
            fetch: [NO_FETCH; ENTRIES],
            fetched: [0; FETCH_CLASSES / 64],
            contexts: FIRST_CONTEXTS.0,
            last_context: FIRST_CONTEXTS.1,
        }
    }
}

fn slot(virt: u64) -> usize {
    (virt >> 12) as usize & (ENTRIES - 1)
}

fn superpage_slot(virt: u64) -> usize {
    (virt >> 21) as usize & (SUPERPAGE_ENTRIES - 1)
}

/// Word and bit of a virtual page in the filter of fetched pages.
fn fetch_class(virt: u64) -> (usize, u64) {
    let class = (virt >> 12) as usize & (FETCH_CLASSES - 1);
    (class / 64, 1 << (class % 64))
}

/// Adds a page to a list of superpages; a list that is too long matches all superpages.
fn add_superpage(superpages: &mut Vec<(u64, u64)>, virt: u64, size: u64) {
    let page = (virt & !(size - 1), size);
    if size > PAGE_BYTES && superpages.len() <= FETCH_SUPERPAGES_MAX && !superpages.contains(&page) {
        superpages.push(page);
    }
}

impl Tlb {
    /// Drops all data translations and assigns new contexts, which invalidates fetch entries and block links.
    pub fn flush(&mut self) {
        self.data = [[NO_ENTRY; ENTRIES]; 4];
        self.superpages = [[NO_SUPERPAGE; SUPERPAGE_ENTRIES]; 4];
        self.gigapages = false;
        self.new_contexts();
    }

    /// Returns to the initial state. Field by field, because a whole new value would pass over the host's
    /// stack.
    pub fn reset(&mut self) {
        self.flush();
        self.fetch_superpages.clear();
        self.fetch = [NO_FETCH; ENTRIES];
        (self.contexts, self.last_context) = FIRST_CONTEXTS;
    }

    /// Marks all pages as not recorded.
    pub fn clear_recorded(&mut self) {
        self.data.as_flattened_mut().iter_mut().for_each(|entry| entry.recorded_era = UNRECORDED);
    }

    /// Drops the translations of one address: SFENCE.VMA with an address.
    pub fn flush_address(&mut self, virt: u64) {
        let piece = virt & !(SUPERPAGE_BYTES - 1);
        let of_superpage = self.superpages.iter().any(|entries| entries[superpage_slot(virt)].virt == piece);
        if self.gigapages || of_superpage {
            return self.flush();
        }
        for entries in &mut self.data {
            let entry = &mut entries[slot(virt)];
            let page = virt & PAGE_MASK;
            if entry.load_tag == page || entry.store_tag & !WATCHED == page {
                *entry = NO_ENTRY;
            }
        }
        let (word, bit) = fetch_class(virt);
        let fetch_superpage = self.fetch_superpages.len() > FETCH_SUPERPAGES_MAX
            || self.fetch_superpages.iter().any(|(base, size)| virt.wrapping_sub(*base) < *size);
        if self.fetched[word] & bit != 0 || fetch_superpage {
            self.new_contexts();
        }
    }

    /// Invalidates every fetch translation and every link between decoded blocks.
    pub fn new_contexts(&mut self) {
        if self.last_context > u32::MAX - 8 {
            self.fetch = [NO_FETCH; ENTRIES];
        }
        self.fetched = [0; FETCH_CLASSES / 64];
        self.fetch_superpages.clear();
        for context in &mut self.contexts {
            self.last_context = self.last_context.wrapping_add(1).max(1);
            *context = self.last_context;
        }
    }

    /// Enters the 2 MiB around a data access to a superpage. The entries of a displaced piece's pages are
    /// dropped: a later fence for one of its addresses could not find the others.
    fn note_superpage(&mut self, mode: Mode, virt: u64, leaf: &Leaf, access: Access) {
        let (piece, phys) = (virt & !(SUPERPAGE_BYTES - 1), leaf.phys & !(SUPERPAGE_BYTES - 1));
        self.gigapages |= leaf.page_bytes > SUPERPAGE_BYTES;
        let entry = &mut self.superpages[mode as usize][superpage_slot(virt)];
        if entry.virt != piece || entry.phys != phys {
            let displaced =
                std::mem::replace(entry, SuperpageEntry { virt: piece, phys, ..NO_SUPERPAGE }).virt;
            let inside = |tag: u64| tag != EMPTY && tag & !(SUPERPAGE_BYTES - 1) == displaced;
            for page in &mut self.data[mode as usize] {
                if displaced != EMPTY && (inside(page.load_tag) || inside(page.store_tag)) {
                    *page = NO_ENTRY;
                }
            }
        }
        let entry = &mut self.superpages[mode as usize][superpage_slot(virt)];
        entry.loads |= access == Access::Load;
        entry.stores |= access == Access::Store;
    }

    /// The physical address, if it is in a cached superpage whose walks permitted this access.
    fn superpage_lookup(&self, mode: Mode, virt: u64, access: Access) -> Option<u64> {
        let entry = &self.superpages[mode as usize][superpage_slot(virt)];
        let found = entry.virt == virt & !(SUPERPAGE_BYTES - 1);
        let allowed = if access == Access::Store { entry.stores } else { entry.loads };
        (found && allowed).then_some(entry.phys | virt & (SUPERPAGE_BYTES - 1))
    }

    /// Tracks the page size of a fetch.
    pub fn note_fetch_superpage(&mut self, virt: u64, size: u64) {
        add_superpage(&mut self.fetch_superpages, virt, size);
    }

    /// Removes this host page from the fast path of stores.
    fn watch_stores(&mut self, host_page: u64) {
        for entry in self.data.as_flattened_mut() {
            if entry.store_tag != EMPTY && entry.store_tag.wrapping_add(entry.addend) == host_page {
                entry.store_tag |= WATCHED;
            }
        }
    }

    /// Returns the state to save.
    pub fn save(&self, ram: &Ram) -> SavedTlb {
        let mut data = Vec::new();
        for (mode, entries) in self.data.iter().enumerate() {
            for (index, entry) in entries.iter().enumerate() {
                let (loads, stores) = (entry.load_tag != EMPTY, entry.store_tag != EMPTY);
                if loads || stores {
                    let virt = if loads { entry.load_tag } else { entry.store_tag & !WATCHED };
                    let phys = ram.phys_of_host(virt.wrapping_add(entry.addend)).0;
                    data.push((mode as u8, index as u16, virt, phys, loads, stores));
                }
            }
        }
        let mut superpages = Vec::new();
        for (mode, entries) in self.superpages.iter().enumerate() {
            superpages.extend(entries.iter().filter(|e| e.virt != EMPTY).map(|entry| (mode as u8, *entry)));
        }
        SavedTlb { data, superpages, gigapages: self.gigapages }
    }
}

/// Saved state of a TLB, with physical addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedTlb {
    /// Mode, index, virtual page, physical page, may load, may store.
    data: Vec<(u8, u16, u64, u64, bool, bool)>,
    /// Mode and entry.
    superpages: Vec<(u8, SuperpageEntry)>,
    gigapages: bool,
}

impl SavedTlb {
    /// Rebuilds the TLB; `None` if an entry does not match this RAM.
    pub fn rebuild(&self, ram: &Ram) -> Option<Tlb> {
        let mut tlb = Tlb { gigapages: self.gigapages, ..Tlb::default() };
        for (mode, entry) in &self.superpages {
            if (entry.virt | entry.phys) & (SUPERPAGE_BYTES - 1) != 0 {
                return None;
            }
            tlb.superpages.get_mut(usize::from(*mode))?[superpage_slot(entry.virt)] = *entry;
        }
        for &(mode, index, virt, phys, loads, stores) in &self.data {
            let addend = (ram.host_address(PhysAddr(phys))? as u64).wrapping_sub(virt);
            if (virt | phys) & !PAGE_MASK != 0 {
                return None;
            }
            // The first store finds out whether RAM must observe stores to the page.
            let (load_tag, store_tag) =
                (if loads { virt } else { EMPTY }, if stores { virt | WATCHED } else { EMPTY });
            let entry = TlbEntry { load_tag, store_tag, addend, recorded_era: UNRECORDED };
            *tlb.data.get_mut(usize::from(mode))?.get_mut(usize::from(index))? = entry;
        }
        Some(tlb)
    }
}

impl Hart {
    /// The context ID of the current translation for fetches.
    #[inline(always)]
    pub(crate) fn fetch_context(&self) -> u32 {
        self.tlb.contexts[self.privilege as usize]
    }

    #[inline(always)]
    pub(crate) fn tlb_entry(&self, virt: u64) -> &TlbEntry {
        &self.tlb.data[self.data_mode as usize][slot(virt)]
    }

    pub(crate) fn tlb_entry_mut(&mut self, virt: u64) -> &mut TlbEntry {
        &mut self.tlb.data[self.data_mode as usize][slot(virt)]
    }

    /// The era in which an access's page was last recorded, if the TLB has the page.
    #[inline(always)]
    pub(crate) fn recorded_era_of(&self, virt: u64) -> u64 {
        let entry = self.tlb_entry(virt);
        if entry.load_tag == virt & PAGE_MASK { entry.recorded_era } else { UNRECORDED }
    }

    /// The physical address of an aligned access of `len` bytes, if the TLB has it. It is in RAM.
    #[inline(always)]
    pub(crate) fn tlb_lookup(&self, ram: &Ram, virt: u64, len: u64, access: Access) -> Option<PhysAddr> {
        let entry = self.tlb_entry(virt);
        // RAM observes all atomics.
        let tag = if access == Access::Store { entry.store_tag & !WATCHED } else { entry.load_tag };
        (tag == virt & (PAGE_MASK | (len - 1))).then(|| ram.phys_of_host(virt.wrapping_add(entry.addend)))
    }

    /// The physical address of a store to a page that was watched when it was translated. If the page is no
    /// longer watched, later stores take the fast path.
    pub(crate) fn watched_store(&mut self, ram: &mut Ram, virt: u64) -> Option<PhysAddr> {
        let id = self.config.id;
        let entry = &mut self.tlb.data[self.data_mode as usize][slot(virt)];
        if entry.store_tag != virt & PAGE_MASK | WATCHED {
            return None;
        }
        let phys = ram.phys_of_host(virt.wrapping_add(entry.addend));
        if let Some(page) = ram.page_of(phys).filter(|page| !ram.is_watched(id, *page)) {
            entry.store_tag &= !WATCHED;
            ram.note_store(page);
        }
        Some(phys)
    }

    /// The leaf that a walk would find, if the address is in a cached superpage.
    pub(crate) fn cached_superpage(&self, virt: u64, access: Access) -> Option<Leaf> {
        let phys = self.tlb.superpage_lookup(self.data_mode, virt, access)?;
        Some(Leaf { phys, page_bytes: SUPERPAGE_BYTES })
    }

    /// Enters a data page, if it is RAM and PMP has the same permissions for the whole page.
    pub(crate) fn fill(
        &mut self,
        ram: &mut Ram,
        virt: u64,
        leaf: Leaf,
        privilege: Privilege,
        access: Access,
    ) {
        let (virt_page, phys_page) = (virt & PAGE_MASK, PhysAddr(leaf.phys & PAGE_MASK));
        let (Some(host), Some(page)) = (ram.host_address(phys_page), ram.page_of(phys_page)) else { return };
        let (read, write) = if self.pmp_active {
            self.pmp_permission(phys_page.0, PAGE_BYTES, privilege)
                .map_or((false, false), |p| (p.read, p.write))
        } else {
            (true, true)
        };
        // A page that permits stores also permits loads (W without R is reserved). The walk sets D only for a
        // store, so only a store makes the entry writable.
        let stores = write && access == Access::Store;
        let watched = if ram.is_watched(self.config.id, page) { WATCHED } else { 0 };
        if stores && watched == 0 {
            ram.note_store(page);
        }
        if leaf.page_bytes > PAGE_BYTES {
            self.tlb.note_superpage(self.data_mode, virt, &leaf, access);
        }
        let old = *self.tlb_entry(virt);
        let addend = (host as u64).wrapping_sub(virt_page);
        // Keep the other access type's permission if the entry is for the same page already.
        let keep = |tag: u64| if old.addend == addend && tag & !WATCHED == virt_page { tag } else { EMPTY };
        self.tlb.data[self.data_mode as usize][slot(virt)] = TlbEntry {
            load_tag: if read { virt_page } else { keep(old.load_tag) },
            store_tag: if stores { virt_page | watched } else { keep(old.store_tag) },
            addend,
            recorded_era: if keep(old.load_tag) == virt_page { old.recorded_era } else { UNRECORDED },
        };
    }

    /// The physical address of an instruction's halfword, if its page is in the fetch TLB.
    pub(crate) fn fetch_lookup(&self, virt: u64) -> Option<PhysAddr> {
        let (page, context, phys_page) = self.tlb.fetch[slot(virt)];
        let hit = page == virt & PAGE_MASK && context == self.fetch_context();
        hit.then_some(PhysAddr(phys_page | virt & !PAGE_MASK))
    }

    /// Enters a code page in the fetch TLB, unless PMP splits it.
    pub(crate) fn fill_fetch(&mut self, virt: u64, phys: PhysAddr) {
        let phys_page = phys.0 & PAGE_MASK;
        let (word, bit) = fetch_class(virt);
        self.tlb.fetched[word] |= bit;
        self.partly_executable = self.pmp_active
            && !self.pmp_permission(phys_page, PAGE_BYTES, self.privilege).is_some_and(|p| p.execute);
        if !self.partly_executable {
            self.tlb.fetch[slot(virt)] = (virt & PAGE_MASK, self.fetch_context(), phys_page);
        }
    }

    /// Watches stores to a page that now holds decoded code or another hart's reservation.
    pub(crate) fn watch_stores(&mut self, ram: &Ram, page: u64) {
        let phys = PhysAddr(ram.base().0 + page * PAGE_BYTES);
        let host = ram.host_address(phys).expect("a page number inside RAM");
        self.tlb.watch_stores(host as u64);
    }
}
