//! Address translation (privileged manual: Sv39 and Sv48 with hardware-updated A and D bits) and
//! physical memory protection (chapter "Physical Memory Protection"), behind a software TLB.
//!
//! The TLB is the functional one: it exists for the simulator's speed and is never visible to the guest,
//! which still has to say SFENCE.VMA. The timed TLB is a matter of the core's timing model.

use doorbell_sim::ram::PAGE_BYTES;
use doorbell_sim::{PhysAddr, Ram};
use serde::{Deserialize, Serialize};

use crate::csr::{MSTATUS_MPP_SHIFT, mstatus};
use crate::hart::{Hart, Privilege};
use crate::trap::Exception;

pub(crate) const PAGE_MASK: u64 = !(PAGE_BYTES - 1);

const PTE_V: u64 = 1;
const PTE_R: u64 = 2;
const PTE_W: u64 = 4;
const PTE_X: u64 = 8;
const PTE_U: u64 = 16;
const PTE_A: u64 = 64;
const PTE_D: u64 = 128;
/// Reserved bits, and those of Svnapot and Svpbmt, which this hart does not have.
const PTE_RESERVED: u64 = 0xffc0_0000_0000_0000;
const PTE_PPN_SHIFT: u32 = 10;
const PTE_PPN_MASK: u64 = (1 << 44) - 1;

/// What an access is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Fetch,
    Load,
    Store,
}

impl Access {
    fn page_fault(self) -> Exception {
        match self {
            Access::Fetch => Exception::InstructionPageFault,
            Access::Load => Exception::LoadPageFault,
            Access::Store => Exception::StorePageFault,
        }
    }

    pub(crate) fn access_fault(self) -> Exception {
        match self {
            Access::Fetch => Exception::InstructionAccessFault,
            Access::Load => Exception::LoadAccessFault,
            Access::Store => Exception::StoreAccessFault,
        }
    }
}

/// The circumstances that decide what a data access may do; each has its own TLB entries, so that going
/// back and forth between them costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    User = 0,
    Supervisor = 1,
    /// Supervisor with SUM: user pages may be accessed.
    SupervisorUser = 2,
    /// Machine mode: no translation.
    Bare = 3,
}

/// A cached translation. A tag is the virtual page, or a value that no page has. Comparing with an
/// address whose offset bits above the access's size are cleared also finds misaligned accesses.
#[derive(Clone, Copy)]
pub(crate) struct TlbEntry {
    pub load_tag: u64,
    pub store_tag: u64,
    /// Host address minus virtual address.
    pub addend: u64,
}

const EMPTY: u64 = u64::MAX;
const NO_ENTRY: TlbEntry = TlbEntry { load_tag: EMPTY, store_tag: EMPTY, addend: 0 };
const ENTRIES: usize = 256;

pub(crate) struct Tlb {
    data: [[TlbEntry; ENTRIES]; 4],
    /// Virtual page, context and physical page of instruction fetches.
    fetch: [(u64, u32, u64); ENTRIES],
    /// Names the translation in force for each privilege level; decoded-block links carry it.
    contexts: [u32; 4],
    last_context: u32,
}

impl Default for Tlb {
    fn default() -> Self {
        Tlb {
            data: [[NO_ENTRY; ENTRIES]; 4],
            fetch: [(EMPTY, 0, 0); ENTRIES],
            contexts: [1, 2, 3, 4],
            last_context: 4,
        }
    }
}

impl Tlb {
    /// Forgets all data translations and renames the contexts, which forgets fetches and block links.
    pub fn flush(&mut self) {
        self.data = [[NO_ENTRY; ENTRIES]; 4];
        self.new_contexts();
    }

    /// Makes every fetch translation and every link between decoded blocks void.
    pub fn new_contexts(&mut self) {
        if self.last_context > u32::MAX - 8 {
            self.fetch = [(EMPTY, 0, 0); ENTRIES];
        }
        for context in &mut self.contexts {
            self.last_context = self.last_context.wrapping_add(1).max(1);
            *context = self.last_context;
        }
    }

    /// Stores to this host page must no longer take the fast way.
    fn drop_store_entries(&mut self, host_page: u64) {
        for entry in self.data.as_flattened_mut() {
            if entry.store_tag != EMPTY && entry.store_tag.wrapping_add(entry.addend) == host_page {
                entry.store_tag = EMPTY;
            }
        }
    }
}

/// What a snapshot keeps of a TLB, by physical address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedTlb {
    /// Mode, index, virtual page, physical page, may load, may store.
    data: Vec<(u8, u16, u64, u64, bool, bool)>,
    /// Index, privilege level, virtual page, physical page.
    fetch: Vec<(u16, u8, u64, u64)>,
}

impl Tlb {
    pub fn save(&self, ram: &Ram) -> SavedTlb {
        let host_base = ram.host_address(ram.base()).expect("RAM is not empty") as u64;
        let mut data = Vec::new();
        for (mode, entries) in self.data.iter().enumerate() {
            for (index, entry) in entries.iter().enumerate() {
                let (loads, stores) = (entry.load_tag != EMPTY, entry.store_tag != EMPTY);
                if loads || stores {
                    let virt = if loads { entry.load_tag } else { entry.store_tag };
                    let phys = virt.wrapping_add(entry.addend) - host_base + ram.base().0;
                    data.push((mode as u8, index as u16, virt, phys, loads, stores));
                }
            }
        }
        let level_of = |context: u32| self.contexts.iter().position(|known| *known == context);
        let live = self.fetch.iter().enumerate().filter(|(_, entry)| entry.0 != EMPTY);
        let fetch = live
            .filter_map(|(index, (virt, context, phys))| {
                Some((index as u16, level_of(*context)? as u8, *virt, *phys))
            })
            .collect();
        SavedTlb { data, fetch }
    }
}

impl SavedTlb {
    /// A TLB with these entries; `None` if one does not fit this RAM.
    pub fn revive(&self, ram: &Ram) -> Option<Tlb> {
        let mut tlb = Tlb::default();
        for &(mode, index, virt, phys, loads, stores) in &self.data {
            let addend = (ram.host_address(PhysAddr(phys))? as u64).wrapping_sub(virt);
            if (virt | phys) & !PAGE_MASK != 0 {
                return None;
            }
            let tag = |set: bool| if set { virt } else { EMPTY };
            let entry = TlbEntry { load_tag: tag(loads), store_tag: tag(stores), addend };
            *tlb.data.get_mut(usize::from(mode))?.get_mut(usize::from(index))? = entry;
        }
        for &(index, level, virt, phys) in &self.fetch {
            let context = *tlb.contexts.get(usize::from(level))?;
            *tlb.fetch.get_mut(usize::from(index))? = (virt & PAGE_MASK, context, phys & PAGE_MASK);
        }
        Some(tlb)
    }
}

/// One PMP entry: its configuration byte and its address register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct PmpEntry {
    pub config: u8,
    pub addr: u64,
}

impl PmpEntry {
    pub const CONFIG_WRITABLE: u8 = 0x9f;
    pub const ADDR_WRITABLE: u64 = (1 << 54) - 1;

    pub fn locked(self) -> bool {
        self.config & 0x80 != 0
    }

    pub fn is_top_of_range(self) -> bool {
        self.config >> 3 & 3 == 1
    }

    /// The address range matched, end exclusive; `previous` is the entry below.
    fn range(self, previous: Option<PmpEntry>) -> Option<(u128, u128)> {
        let base = u128::from(self.addr) << 2;
        match self.config >> 3 & 3 {
            0 => None,
            1 => Some((previous.map_or(0, |p| u128::from(p.addr) << 2), base)),
            2 => Some((base, base + 4)),
            _ => {
                let ones = (!self.addr).trailing_zeros();
                let size = 8u128 << ones;
                let start = (u128::from(self.addr) << 2) & !(size - 1);
                Some((start, start + size))
            }
        }
    }
}

/// What PMP says of a range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Permission {
    read: bool,
    write: bool,
    execute: bool,
}

impl Permission {
    fn allows(self, access: Access) -> bool {
        match access {
            Access::Fetch => self.execute,
            Access::Load => self.read,
            Access::Store => self.write,
        }
    }
}

impl Hart {
    /// The privilege level that loads and stores have (MPRV).
    fn data_privilege(&self) -> Privilege {
        let status = self.csr.mstatus;
        if self.privilege == Privilege::Machine && status & mstatus::MPRV != 0 {
            Privilege::from_bits(status >> MSTATUS_MPP_SHIFT).unwrap_or(Privilege::User)
        } else {
            self.privilege
        }
    }

    /// Brings what is derived from privilege and `mstatus` up to date.
    pub(crate) fn context_changed(&mut self) {
        self.fp_enabled = self.csr.mstatus & mstatus::FS != 0;
        self.data_mode = match self.data_privilege() {
            Privilege::User => Mode::User,
            Privilege::Supervisor if self.csr.mstatus & mstatus::SUM != 0 => Mode::SupervisorUser,
            Privilege::Supervisor => Mode::Supervisor,
            Privilege::Machine => Mode::Bare,
        };
    }

    /// SFENCE.VMA and all that acts like it.
    pub(crate) fn flush_translations(&mut self) {
        self.tlb.flush();
    }

    pub(crate) fn pmp_changed(&mut self) {
        self.pmp_active = self.pmp.iter().any(|entry| entry.config >> 3 & 3 != 0);
        self.tlb.flush();
    }

    /// The name of the translation in force for fetches.
    #[inline(always)]
    pub(crate) fn fetch_context(&self) -> u32 {
        self.tlb.contexts[self.privilege as usize]
    }

    #[inline(always)]
    pub(crate) fn tlb_entry(&self, virt: u64) -> &TlbEntry {
        &self.tlb.data[self.data_mode as usize][(virt >> 12) as usize & (ENTRIES - 1)]
    }

    /// PMP's answer for `len` bytes at `phys`: the lowest-numbered entry that matches any of them
    /// decides, and it must match all of them. `None` if it does not.
    fn pmp_permission(&self, phys: u64, len: u64, privilege: Privilege) -> Option<Permission> {
        let free = privilege == Privilege::Machine;
        let all = Permission { read: true, write: true, execute: true };
        let (start, end) = (u128::from(phys), u128::from(phys) + u128::from(len));
        let mut previous = None;
        for entry in self.pmp {
            if let Some((low, high)) = entry.range(previous)
                && low < high
                && start < high
                && low < end
            {
                let config = entry.config;
                let granted =
                    Permission { read: config & 1 != 0, write: config & 2 != 0, execute: config & 4 != 0 };
                let covers = low <= start && end <= high;
                return covers.then_some(if free && !entry.locked() { all } else { granted });
            }
            previous = Some(entry);
        }
        let granted = free || !self.pmp_active;
        Some(Permission { read: granted, write: granted, execute: granted })
    }

    fn pmp_allows(&self, phys: u64, len: u64, access: Access, privilege: Privilege) -> bool {
        !self.pmp_active || self.pmp_permission(phys, len, privilege).is_some_and(|p| p.allows(access))
    }

    /// Translates one address for an access of `len` bytes that does not cross a page.
    pub(crate) fn translate(
        &mut self,
        ram: &mut Ram,
        virt: u64,
        len: u64,
        access: Access,
    ) -> Result<PhysAddr, Exception> {
        let privilege = if access == Access::Fetch { self.privilege } else { self.data_privilege() };
        let phys = if privilege == Privilege::Machine || self.csr.satp >> 60 == 0 {
            virt
        } else {
            self.counters.page_walks += 1;
            self.walk(ram, virt, access, privilege)?.0
        };
        if !self.pmp_allows(phys, len, access, privilege) {
            return Err(access.access_fault());
        }
        Ok(PhysAddr(phys))
    }

    /// Walks the page table. Gives the physical address and the leaf PTE, with A (and D for stores) set.
    fn walk(
        &self,
        ram: &mut Ram,
        virt: u64,
        access: Access,
        privilege: Privilege,
    ) -> Result<(u64, u64), Exception> {
        let levels: u32 = if self.csr.satp >> 60 == 8 { 3 } else { 4 };
        let unused = 64 - (12 + 9 * levels);
        if ((virt << unused) as i64 >> unused) as u64 != virt {
            return Err(access.page_fault());
        }
        let mut table = (self.csr.satp & PTE_PPN_MASK) << 12;
        for level in (0..levels).rev() {
            let slot = table + (virt >> (12 + 9 * level) & 0x1ff) * 8;
            if !self.pmp_allows(slot, 8, Access::Load, Privilege::Supervisor) {
                return Err(access.access_fault());
            }
            let pte = ram.load_u64(PhysAddr(slot)).ok_or(access.access_fault())?;
            let ppn = pte >> PTE_PPN_SHIFT & PTE_PPN_MASK;
            if pte & PTE_V == 0 || pte & (PTE_R | PTE_W) == PTE_W || pte & PTE_RESERVED != 0 {
                return Err(access.page_fault());
            }
            if pte & (PTE_R | PTE_X) == 0 {
                // A pointer to the next level; A, D and U are reserved in it.
                if pte & (PTE_A | PTE_D | PTE_U) != 0 {
                    return Err(access.page_fault());
                }
                table = ppn << 12;
                continue;
            }
            let offset_mask = (1u64 << (12 + 9 * level)) - 1;
            if !self.leaf_allows(pte, access, privilege) || (ppn << 12) & offset_mask != 0 {
                return Err(access.page_fault());
            }
            let wanted = pte | PTE_A | if access == Access::Store { PTE_D } else { 0 };
            if wanted != pte {
                if !self.pmp_allows(slot, 8, Access::Store, Privilege::Supervisor) {
                    return Err(access.access_fault());
                }
                ram.store(PhysAddr(slot), &wanted.to_le_bytes());
            }
            return Ok((ppn << 12 | virt & offset_mask, wanted));
        }
        Err(access.page_fault())
    }

    fn leaf_allows(&self, pte: u64, access: Access, privilege: Privilege) -> bool {
        let status = self.csr.mstatus;
        let user_page = pte & PTE_U != 0;
        let privilege_fits = match privilege {
            Privilege::User => user_page,
            _ => !user_page || (access != Access::Fetch && status & mstatus::SUM != 0),
        };
        let readable = pte & PTE_R != 0 || (status & mstatus::MXR != 0 && pte & PTE_X != 0);
        privilege_fits
            && match access {
                Access::Fetch => pte & PTE_X != 0,
                Access::Load => readable,
                Access::Store => pte & PTE_W != 0,
            }
    }

    /// Translates a data access and, if its page is RAM and wholly open, remembers it in the TLB.
    pub(crate) fn translate_data(
        &mut self,
        ram: &mut Ram,
        virt: u64,
        len: u64,
        access: Access,
    ) -> Result<PhysAddr, Exception> {
        let privilege = self.data_privilege();
        let (phys, pte) = if privilege == Privilege::Machine || self.csr.satp >> 60 == 0 {
            (virt, PTE_R | PTE_W | PTE_D)
        } else {
            self.counters.page_walks += 1;
            self.walk(ram, virt, access, privilege)?
        };
        if !self.pmp_allows(phys, len, access, privilege) {
            return Err(access.access_fault());
        }
        self.fill(ram, virt, phys, pte, privilege, access);
        Ok(PhysAddr(phys))
    }

    fn fill(&mut self, ram: &mut Ram, virt: u64, phys: u64, pte: u64, privilege: Privilege, access: Access) {
        let (virt_page, phys_page) = (virt & PAGE_MASK, phys & PAGE_MASK);
        let (Some(host), Some(page)) =
            (ram.host_address(PhysAddr(phys_page)), ram.page_of(PhysAddr(phys_page)))
        else {
            return;
        };
        let open = if self.pmp_active { self.pmp_permission(phys_page, PAGE_BYTES, privilege) } else { None };
        let (read, write) = match open {
            Some(permission) => (permission.read, permission.write),
            None => (!self.pmp_active, !self.pmp_active),
        };
        let loads = read && self.leaf_readable(pte);
        let stores =
            write && access == Access::Store && pte & PTE_W != 0 && pte & PTE_D != 0 && !ram.is_code(page);
        if stores {
            ram.note_store(page);
        }
        let old = *self.tlb_entry(virt);
        let addend = (host as u64).wrapping_sub(virt_page);
        // Keep the other kind's permission if the entry is for the same page already.
        let same = old.addend == addend;
        let keep = |tag: u64| if same && tag == virt_page { tag } else { EMPTY };
        let entry = &mut self.tlb.data[self.data_mode as usize][(virt >> 12) as usize & (ENTRIES - 1)];
        *entry = TlbEntry {
            load_tag: if loads { virt_page } else { keep(old.load_tag) },
            store_tag: if stores { virt_page } else { keep(old.store_tag) },
            addend,
        };
    }

    fn leaf_readable(&self, pte: u64) -> bool {
        pte & PTE_R != 0 || (self.csr.mstatus & mstatus::MXR != 0 && pte & PTE_X != 0)
    }

    /// Translates the address of an instruction's halfword, through the fetch TLB.
    pub(crate) fn translate_fetch(&mut self, ram: &mut Ram, virt: u64) -> Result<PhysAddr, Exception> {
        let (page, context) = (virt & PAGE_MASK, self.fetch_context());
        let index = (virt >> 12) as usize & (ENTRIES - 1);
        let (tag, tag_context, phys_page) = self.tlb.fetch[index];
        if tag == page && tag_context == context {
            return Ok(PhysAddr(phys_page | virt & !PAGE_MASK));
        }
        let phys = self.translate(ram, virt, 2, Access::Fetch)?;
        let whole_page = !self.pmp_active
            || self.pmp_permission(phys.0 & PAGE_MASK, PAGE_BYTES, self.privilege).is_some_and(|p| p.execute);
        if whole_page {
            self.tlb.fetch[index] = (page, context, phys.0 & PAGE_MASK);
        }
        Ok(phys)
    }

    /// A page now holds decoded code: stores to it must be seen.
    pub(crate) fn watch_stores(&mut self, ram: &Ram, page: u64) {
        let phys = PhysAddr(ram.base().0 + page * PAGE_BYTES);
        let host = ram.host_address(phys).expect("a page number inside RAM");
        self.tlb.drop_store_entries(host as u64);
    }

    /// Translation without side effects, for debuggers.
    pub(crate) fn probe(&self, ram: &Ram, virt: u64) -> Option<PhysAddr> {
        if self.privilege == Privilege::Machine || self.csr.satp >> 60 == 0 {
            return Some(PhysAddr(virt));
        }
        let levels: u32 = if self.csr.satp >> 60 == 8 { 3 } else { 4 };
        let mut table = (self.csr.satp & PTE_PPN_MASK) << 12;
        for level in (0..levels).rev() {
            let pte = ram.load_u64(PhysAddr(table + (virt >> (12 + 9 * level) & 0x1ff) * 8))?;
            if pte & PTE_V == 0 {
                return None;
            }
            let next = (pte >> PTE_PPN_SHIFT & PTE_PPN_MASK) << 12;
            if pte & (PTE_R | PTE_X) != 0 {
                let mask = (1u64 << (12 + 9 * level)) - 1;
                return Some(PhysAddr(next & !mask | virt & mask));
            }
            table = next;
        }
        None
    }
}
