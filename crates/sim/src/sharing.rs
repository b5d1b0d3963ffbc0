//! What one hart's accesses to RAM mean to the others: LR/SC reservations, and decoded code that was changed.
//!
//! Harts run one after another, and most of their stores go straight to the host's memory. So a hart that begins a turn
//! first takes the *news*: pages whose stores it must no longer make on the quick (they hold code that another
//! hart has decoded, or a line that another has reserved), and pages of which it must forget what it has decoded.

use crate::ports::PhysAddr;
use crate::ram::PAGE_BYTES;

/// LR/SC reservations are held on lines of this many bytes.
pub const RESERVATION_BYTES: u64 = 64;

/// No reservation.
const NONE: u64 = u64::MAX;

/// What a hart must know before it goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Numbers of the pages whose decoded code is out of date.
    pub stale_code_pages: Vec<u64>,
    /// Numbers of pages; the hart's stores to them must be seen by RAM from now on.
    pub watch: Vec<u64>,
}

/// See the module. A snapshot keeps the reservations; a restored hart has decoded nothing and finds out again which
/// stores RAM must see.
pub(crate) struct Sharing {
    /// Where RAM begins.
    base: u64,
    /// The reserved line of each hart, or [`NONE`].
    reservations: Vec<u64>,
    /// Code pages written of which the hart that runs does not know yet.
    stale: Vec<u64>,
    /// For each hart, what others know already: code pages that were written,
    stale_for: Vec<Vec<u64>>,
    /// and pages that another has begun to hold code of.
    code_for: Vec<Vec<u64>>,
    /// For each hart, the reservations of the others that it knows of and that have stood since: its stores there are
    /// watched already.
    known: Vec<Vec<u64>>,
    /// A bit for each hart that there may be news for: the lists above need not be searched at each turn.
    news: u64,
}

impl Sharing {
    pub fn new(base: u64, harts: usize) -> Sharing {
        Sharing {
            base,
            reservations: vec![NONE; harts],
            stale: Vec::new(),
            stale_for: vec![Vec::new(); harts],
            code_for: vec![Vec::new(); harts],
            known: vec![vec![NONE; harts]; harts],
            news: 0,
        }
    }

    /// A store to `len` bytes breaks all reservations on its lines except the storing hart's own.
    #[inline]
    pub fn break_reservations(&mut self, by: Option<usize>, addr: PhysAddr, len: usize) {
        let end = addr.0.saturating_add(len as u64);
        for (hart, line) in self.reservations.iter_mut().enumerate() {
            let touched = *line != NONE && *line < end && *line + RESERVATION_BYTES > addr.0;
            if touched && by != Some(hart) {
                *line = NONE;
                // Whoever stores here may do so on the quick from now on.
                self.known.iter_mut().for_each(|known| known[hart] = NONE);
            }
        }
    }

    pub fn reserve(&mut self, hart: usize, addr: PhysAddr) {
        self.news = u64::MAX;
        self.reservations[hart] = addr.0 & !(RESERVATION_BYTES - 1);
    }

    pub fn take_reservation(&mut self, hart: usize, addr: PhysAddr) -> bool {
        let reserved = std::mem::replace(&mut self.reservations[hart], NONE);
        if reserved != NONE {
            self.news = u64::MAX;
        }
        reserved == addr.0 & !(RESERVATION_BYTES - 1)
    }

    /// Whether a hart other than this one has reserved a line of a page.
    pub fn reserved_by_other(&self, hart: usize, page: u64) -> bool {
        let mut others = self.reservations.iter().enumerate().filter(|(other, _)| *other != hart);
        others.any(|(_, line)| page_of(self.base, *line) == Some(page))
    }

    /// A hart has decoded the first code of a page.
    pub fn code_found(&mut self, by: usize, page: u64) {
        self.news = u64::MAX;
        for (hart, pages) in self.code_for.iter_mut().enumerate() {
            if hart != by {
                pages.push(page);
            }
        }
    }

    /// Someone has written to a page with decoded code.
    pub fn code_changed(&mut self, page: u64) {
        self.stale.push(page);
    }

    #[inline(always)]
    pub fn has_stale_code(&self) -> bool {
        !self.stale.is_empty()
    }

    pub fn take_stale_code(&mut self, by: usize) -> Vec<u64> {
        let pages = std::mem::take(&mut self.stale);
        self.news = u64::MAX;
        for (hart, stale) in self.stale_for.iter_mut().enumerate() {
            if hart != by {
                stale.extend(&pages);
            }
        }
        pages
    }

    #[inline]
    pub fn take_news(&mut self, hart: usize) -> Option<News> {
        let own = 1 << hart;
        if self.news & own == 0 {
            return None;
        }
        self.news &= !own;
        self.find_news(hart)
    }

    #[cold]
    fn find_news(&mut self, hart: usize) -> Option<News> {
        let mut news = News {
            stale_code_pages: std::mem::take(&mut self.stale_for[hart]),
            watch: std::mem::take(&mut self.code_for[hart]),
        };
        for (other, line) in self.reservations.iter().enumerate() {
            if other != hart && self.known[hart][other] != *line {
                self.known[hart][other] = *line;
                news.watch.extend(page_of(self.base, *line));
            }
        }
        (!news.watch.is_empty() || !news.stale_code_pages.is_empty()).then_some(news)
    }

    pub fn reservations(&self) -> &[u64] {
        &self.reservations
    }

    /// Takes saved reservations over; `false` if they are not of as many harts and in a RAM of so many pages.
    pub fn set_reservations(&mut self, reservations: &[u64], pages: u64) -> bool {
        let inside = |line: &u64| page_of(self.base, *line).is_none_or(|page| page < pages);
        let fits = reservations.len() == self.reservations.len() && reservations.iter().all(inside);
        if fits {
            self.reservations.copy_from_slice(reservations);
            self.news = u64::MAX;
        }
        fits
    }
}

/// The page of a reserved line.
fn page_of(base: u64, line: u64) -> Option<u64> {
    (line != NONE).then(|| line.wrapping_sub(base) / PAGE_BYTES)
}
