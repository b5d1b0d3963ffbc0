//! Address translation (privileged manual: Sv39 and Sv48), with A and D bits updated by hardware.

use doorbell_sim::memory::Walk;
use doorbell_sim::ram::PAGE_BYTES;
use doorbell_sim::{PhysAddr, Ram};

use crate::csr::{MSTATUS_MPP_SHIFT, mstatus};
use crate::hart::{Hart, Privilege};
use crate::tlb::Mode;
use crate::trap::Exception;

pub(crate) const PAGE_MASK: u64 = !(PAGE_BYTES - 1);

const PTE_V: u64 = 1;
const PTE_R: u64 = 2;
const PTE_W: u64 = 4;
const PTE_X: u64 = 8;
const PTE_U: u64 = 16;
const PTE_A: u64 = 64;
const PTE_D: u64 = 128;
/// Reserved bits, including those of Svnapot and Svpbmt, which are not implemented.
const PTE_RESERVED: u64 = 0xffc0_0000_0000_0000;
const PTE_PPN_SHIFT: u32 = 10;
const PTE_PPN_MASK: u64 = (1 << 44) - 1;
const SATP_ASID_SHIFT: u32 = 44;

/// The type of an access.
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

/// The result of a page-table walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf {
    /// The physical address.
    pub phys: u64,
    /// The size of the mapped page.
    pub page_bytes: u64,
}

impl Hart {
    /// The effective privilege level of loads and stores (MPRV).
    fn data_privilege(&self) -> Privilege {
        let status = self.csr.mstatus;
        if self.privilege == Privilege::Machine && status & mstatus::MPRV != 0 {
            Privilege::from_bits(status >> MSTATUS_MPP_SHIFT).unwrap_or(Privilege::User)
        } else {
            self.privilege
        }
    }

    /// Updates the state derived from privilege and `mstatus`.
    pub(crate) fn context_changed(&mut self) {
        self.fp_enabled = self.csr.mstatus & mstatus::FS != 0;
        self.data_mode = match self.data_privilege() {
            Privilege::User => Mode::User,
            Privilege::Supervisor if self.csr.mstatus & mstatus::SUM != 0 => Mode::SupervisorUser,
            Privilege::Supervisor => Mode::Supervisor,
            Privilege::Machine => Mode::Bare,
        };
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
            let leaf = self.walk(ram, virt, access, privilege)?;
            if access == Access::Fetch {
                self.tlb.note_fetch_superpage(virt, leaf.page_bytes);
            }
            leaf.phys
        };
        if !self.pmp_allows(phys, len, access, privilege) {
            return Err(access.access_fault());
        }
        Ok(PhysAddr(phys))
    }

    /// Walks the page table.
    fn walk(
        &self,
        ram: &mut Ram,
        virt: u64,
        access: Access,
        privilege: Privilege,
    ) -> Result<Leaf, Exception> {
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
                ram.store_from_hart(self.config.id, PhysAddr(slot), &wanted.to_le_bytes());
            }
            let phys = ppn << 12 | virt & offset_mask;
            return Ok(Leaf { phys, page_bytes: offset_mask + 1 });
        }
        Err(access.page_fault())
    }

    fn leaf_allows(&self, pte: u64, access: Access, privilege: Privilege) -> bool {
        let status = self.csr.mstatus;
        let user_page = pte & PTE_U != 0;
        let privilege_allows = match privilege {
            Privilege::User => user_page,
            _ => !user_page || (access != Access::Fetch && status & mstatus::SUM != 0),
        };
        privilege_allows
            && match access {
                Access::Fetch => pte & PTE_X != 0,
                Access::Load => self.readable(pte),
                Access::Store => pte & PTE_W != 0,
            }
    }

    fn readable(&self, pte: u64) -> bool {
        pte & PTE_R != 0 || (self.csr.mstatus & mstatus::MXR != 0 && pte & PTE_X != 0)
    }

    /// Translates a data access. Enters the page in the TLB if it is RAM and PMP does not split it.
    pub(crate) fn translate_data(
        &mut self,
        ram: &mut Ram,
        virt: u64,
        len: u64,
        access: Access,
    ) -> Result<PhysAddr, Exception> {
        if access == Access::Store
            && let Some(phys) = self.watched_store(ram, virt)
        {
            return Ok(phys);
        }
        let privilege = self.data_privilege();
        let leaf = if privilege == Privilege::Machine || self.csr.satp >> 60 == 0 {
            Leaf { phys: virt, page_bytes: PAGE_BYTES }
        } else if let Some(leaf) = self.cached_superpage(virt, access) {
            leaf
        } else {
            self.counters.page_walks += 1;
            self.walk(ram, virt, access, privilege)?
        };
        if !self.pmp_allows(leaf.phys, len, access, privilege) {
            return Err(access.access_fault());
        }
        self.fill(ram, virt, leaf, privilege, access);
        Ok(PhysAddr(leaf.phys))
    }

    /// Translates the address of an instruction's halfword, through the fetch TLB.
    pub(crate) fn translate_fetch(&mut self, ram: &mut Ram, virt: u64) -> Result<PhysAddr, Exception> {
        if let Some(phys) = self.fetch_lookup(virt) {
            return Ok(phys);
        }
        let phys = self.translate(ram, virt, 2, Access::Fetch)?;
        self.fill_fetch(virt, phys);
        Ok(phys)
    }

    /// The address space of instructions and data: `satp`'s ASID; none if addresses are physical.
    #[inline]
    pub fn address_space(&self) -> Option<u16> {
        let bare = self.privilege == Privilege::Machine || self.csr.satp >> 60 == 0;
        (!bare).then_some((self.csr.satp >> SATP_ASID_SHIFT) as u16)
    }

    /// The physical address of the next instruction; its virtual address if unmapped.
    pub fn fetch_address(&self, ram: &Ram) -> PhysAddr {
        self.fetch_lookup(self.pc).or_else(|| self.probe(ram, self.pc)).unwrap_or(PhysAddr(self.pc))
    }

    /// The page-table entries that a walk for `virt` reads with the present tables; the timing model charges
    /// their cost.
    pub fn page_walk(&self, ram: &Ram, virt: u64) -> Walk {
        let mut walk = Walk { page_bytes: PAGE_BYTES, ..Walk::default() };
        if self.privilege == Privilege::Machine || self.csr.satp >> 60 == 0 {
            return walk;
        }
        let levels: u32 = if self.csr.satp >> 60 == 8 { 3 } else { 4 };
        let mut table = (self.csr.satp & PTE_PPN_MASK) << 12;
        for level in (0..levels).rev() {
            let slot = PhysAddr(table + (virt >> (12 + 9 * level) & 0x1ff) * 8);
            walk.entries[usize::from(walk.levels)] = slot;
            walk.levels += 1;
            walk.page_bytes = 1 << (12 + 9 * level);
            let pte = ram.load_u64(slot).unwrap_or(0);
            if pte & PTE_V == 0 || pte & (PTE_R | PTE_X) != 0 {
                break;
            }
            table = (pte >> PTE_PPN_SHIFT & PTE_PPN_MASK) << 12;
        }
        walk
    }

    /// Translation without side effects, for debuggers.
    pub(crate) fn probe(&self, ram: &Ram, virt: u64) -> Option<PhysAddr> {
        if self.privilege == Privilege::Machine || self.csr.satp >> 60 == 0 {
            return Some(PhysAddr(virt));
        }
        self.leaf(ram, virt).map(|(_, phys)| phys)
    }

    /// The physical address of a prefetch, if a load, a store or a fetch could access it. No exception is
    /// raised, and A and D bits are neither checked nor set (Base Cache Management Operation ISA Extensions
    /// 1.0, "Cache-block prefetch instructions").
    pub(crate) fn prefetch_address(&self, ram: &Ram, virt: u64) -> Option<PhysAddr> {
        const ANY: [Access; 3] = [Access::Load, Access::Store, Access::Fetch];
        if let Some(phys) = self.tlb_lookup(ram, virt, 1, Access::Load) {
            return Some(phys);
        }
        let privilege = self.data_privilege();
        let bare = privilege == Privilege::Machine || self.csr.satp >> 60 == 0;
        let (pte, phys) = if bare { (0, PhysAddr(virt)) } else { self.leaf(ram, virt)? };
        let open = |access| {
            (bare || self.leaf_allows(pte, access, privilege))
                && self.pmp_allows(phys.0, 1, access, privilege)
        };
        ANY.into_iter().any(open).then_some(phys)
    }

    /// The leaf entry of a virtual address, regardless of permissions, and the physical address.
    fn leaf(&self, ram: &Ram, virt: u64) -> Option<(u64, PhysAddr)> {
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
                return Some((pte, PhysAddr(next & !mask | virt & mask)));
            }
            table = next;
        }
        None
    }
}
