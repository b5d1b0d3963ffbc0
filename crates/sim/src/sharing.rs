//! Effects of one hart's RAM accesses on the others: LR/SC reservations, and modified decoded code.
//!
//! Harts run in turns, and most of their stores go directly to host memory. At the start of a turn, a hart
//! first takes its *updates*. These list pages whose stores must now go through RAM, because they hold
//! decoded code or another hart's reservation, and pages whose decoded code is stale.

use crate::ports::PhysAddr;
use crate::ram::PAGE_BYTES;

/// Bytes of the line that an LR/SC reservation covers.
pub const RESERVATION_BYTES: u64 = 64;

/// No reservation.
const NONE: u64 = u64::MAX;

/// Updates that a hart must apply before it continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HartUpdates {
    /// Numbers of the pages whose decoded code is stale.
    pub stale_code_pages: Vec<u64>,
    /// Numbers of pages; the hart's stores to them must go through RAM from now on.
    pub watch: Vec<u64>,
}

/// See the module. A snapshot keeps only the reservations: a restored hart has no decoded code and learns its
/// watched pages again.
pub(crate) struct Sharing {
    /// First address of RAM.
    base: u64,
    /// The reserved line of each hart, or [`NONE`].
    reservations: Vec<u64>,
    /// Code pages written, not yet taken by the running hart.
    stale: Vec<u64>,
    /// Per hart: code pages written, not yet taken by this hart.
    stale_for: Vec<Vec<u64>>,
    /// Per hart: pages that another hart marked as code, not yet taken.
    code_for: Vec<Vec<u64>>,
    /// Per hart: the other harts' reservations already reported to it and unchanged since, so their pages are
    /// already watched.
    reported: Vec<Vec<u64>>,
    /// One bit per hart that may have updates; saves searching the lists at every turn.
    updates: u64,
}

impl Sharing {
    pub fn new(base: u64, harts: usize) -> Sharing {
        Sharing {
            base,
            reservations: vec![NONE; harts],
            stale: Vec::new(),
            stale_for: vec![Vec::new(); harts],
            code_for: vec![Vec::new(); harts],
            reported: vec![vec![NONE; harts]; harts],
            updates: 0,
        }
    }

    /// Breaks all reservations on the lines of `len` bytes at `addr`, except the storing hart's own.
    #[inline]
    pub fn break_reservations(&mut self, by: Option<usize>, addr: PhysAddr, len: usize) {
        let end = addr.0.saturating_add(len as u64);
        for (hart, line) in self.reservations.iter_mut().enumerate() {
            let touched = *line != NONE && *line < end && *line + RESERVATION_BYTES > addr.0;
            if touched && by != Some(hart) {
                *line = NONE;
                // Other harts may store to this page directly again.
                self.reported.iter_mut().for_each(|reported| reported[hart] = NONE);
            }
        }
    }

    pub fn reserve(&mut self, hart: usize, addr: PhysAddr) {
        self.updates = u64::MAX;
        self.reservations[hart] = addr.0 & !(RESERVATION_BYTES - 1);
    }

    pub fn take_reservation(&mut self, hart: usize, addr: PhysAddr) -> bool {
        let reserved = std::mem::replace(&mut self.reservations[hart], NONE);
        if reserved != NONE {
            self.updates = u64::MAX;
        }
        reserved == addr.0 & !(RESERVATION_BYTES - 1)
    }

    /// Whether a hart other than this one has reserved a line of a page.
    pub fn reserved_by_other(&self, hart: usize, page: u64) -> bool {
        let mut others = self.reservations.iter().enumerate().filter(|(other, _)| *other != hart);
        others.any(|(_, line)| page_of(self.base, *line) == Some(page))
    }

    /// Records that a hart decoded the first code of a page.
    pub fn code_found(&mut self, by: usize, page: u64) {
        self.updates = u64::MAX;
        for (hart, pages) in self.code_for.iter_mut().enumerate() {
            if hart != by {
                pages.push(page);
            }
        }
    }

    /// Records a store to a page with decoded code.
    pub fn code_changed(&mut self, page: u64) {
        self.stale.push(page);
    }

    #[inline(always)]
    pub fn has_stale_code(&self) -> bool {
        !self.stale.is_empty()
    }

    pub fn take_stale_code(&mut self, by: usize) -> Vec<u64> {
        let pages = std::mem::take(&mut self.stale);
        self.updates = u64::MAX;
        for (hart, stale) in self.stale_for.iter_mut().enumerate() {
            if hart != by {
                stale.extend(&pages);
            }
        }
        pages
    }

    #[inline]
    pub fn take_updates(&mut self, hart: usize) -> Option<HartUpdates> {
        let own = 1 << hart;
        if self.updates & own == 0 {
            return None;
        }
        self.updates &= !own;
        self.collect_updates(hart)
    }

    #[cold]
    fn collect_updates(&mut self, hart: usize) -> Option<HartUpdates> {
        let mut updates = HartUpdates {
            stale_code_pages: std::mem::take(&mut self.stale_for[hart]),
            watch: std::mem::take(&mut self.code_for[hart]),
        };
        for (other, line) in self.reservations.iter().enumerate() {
            if other != hart && self.reported[hart][other] != *line {
                self.reported[hart][other] = *line;
                updates.watch.extend(page_of(self.base, *line));
            }
        }
        (!updates.watch.is_empty() || !updates.stale_code_pages.is_empty()).then_some(updates)
    }

    pub fn reservations(&self) -> &[u64] {
        &self.reservations
    }

    /// Restores saved reservations; `false` if the number of harts differs or a line is outside the `pages`
    /// pages of RAM.
    pub fn set_reservations(&mut self, reservations: &[u64], pages: u64) -> bool {
        let inside = |line: &u64| page_of(self.base, *line).is_none_or(|page| page < pages);
        let fits = reservations.len() == self.reservations.len() && reservations.iter().all(inside);
        if fits {
            self.reservations.copy_from_slice(reservations);
            self.updates = u64::MAX;
        }
        fits
    }
}

/// Page number of a reserved line.
fn page_of(base: u64, line: u64) -> Option<u64> {
    (line != NONE).then(|| line.wrapping_sub(base) / PAGE_BYTES)
}
