//! Physical memory protection (privileged manual, chapter "Physical Memory Protection"): 16 entries with
//! TOR, NA4 and NAPOT ranges, of a grain of four bytes.

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
        self.tlb.flush();
    }

    /// PMP's answer for `len` bytes at `phys`: the lowest-numbered entry that matches any of them
    /// decides, and it must match all of them. `None` if it does not.
    pub(crate) fn pmp_permission(&self, phys: u64, len: u64, privilege: Privilege) -> Option<Permission> {
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

    pub(crate) fn pmp_allows(&self, phys: u64, len: u64, access: Access, privilege: Privilege) -> bool {
        !self.pmp_active || self.pmp_permission(phys, len, privilege).is_some_and(|p| p.allows(access))
    }
}
