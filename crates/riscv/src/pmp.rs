//! Physical memory protection (privileged manual, chapter "Physical Memory Protection"): 16 entries with TOR,
//! NA4 and NAPOT ranges, with a granularity of four bytes.

use serde::{Deserialize, Serialize};

use crate::hart::{Hart, Privilege};
use crate::mmu::Access;

/// One PMP entry: its configuration byte and its address register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

    /// The address range matched, end exclusive; `previous` is the entry below. No range reaches beyond 2^57.
    fn range(self, previous: Option<PmpEntry>) -> Option<(u64, u64)> {
        let base = self.addr << 2;
        match self.config >> 3 & 3 {
            0 => None,
            1 => Some((previous.map_or(0, |p| p.addr << 2), base)),
            2 => Some((base, base + 4)),
            _ => {
                let size = 8u64 << (!self.addr).trailing_zeros();
                let start = base & !(size - 1);
                Some((start, start + size))
            }
        }
    }

    fn permission(self) -> Permission {
        Permission { read: self.config & 1 != 0, write: self.config & 2 != 0, execute: self.config & 4 != 0 }
    }
}

/// The address range of an enabled entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PmpRange {
    low: u64,
    high: u64,
    entry: PmpEntry,
}

/// Access permissions of an address range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permission {
    pub read: bool,
    pub write: bool,
    pub execute: bool,
}

impl Permission {
    pub fn allows(self, access: Access) -> bool {
        match access {
            Access::Fetch => self.execute,
            Access::Load => self.read,
            Access::Store => self.write,
        }
    }
}

impl Hart {
    pub(crate) fn pmp_changed(&mut self) {
        self.pmp_active = self.pmp.iter().any(|entry| entry.config >> 3 & 3 != 0);
        self.pmp_ranges.clear();
        let mut previous = None;
        for entry in self.pmp {
            let range = entry.range(previous).filter(|(low, high)| low < high);
            self.pmp_ranges.extend(range.map(|(low, high)| PmpRange { low, high, entry }));
            previous = Some(entry);
        }
        self.tlb.flush();
    }

    /// The permissions of `len` bytes at `phys`, from the lowest-numbered entry that matches any of them.
    /// `None` if that entry does not match all of them.
    pub(crate) fn pmp_permission(&self, phys: u64, len: u64, privilege: Privilege) -> Option<Permission> {
        let free = privilege == Privilege::Machine;
        let all = Permission { read: true, write: true, execute: true };
        let end = phys.saturating_add(len);
        for range in &self.pmp_ranges {
            if phys < range.high && range.low < end {
                let covers = range.low <= phys && end <= range.high;
                let unchecked = free && !range.entry.locked();
                return covers.then(|| if unchecked { all } else { range.entry.permission() });
            }
        }
        let granted = free || !self.pmp_active;
        Some(Permission { read: granted, write: granted, execute: granted })
    }

    pub(crate) fn pmp_allows(&self, phys: u64, len: u64, access: Access, privilege: Privilege) -> bool {
        !self.pmp_active || self.pmp_permission(phys, len, privilege).is_some_and(|p| p.allows(access))
    }
}
