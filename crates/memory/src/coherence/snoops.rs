//! Wait times of a request that finds copies in private caches: for the newest copy, or for the invalidation
//! of all.

use super::Found;
use super::directory::Snoop;
use crate::backing::MainMemory;
use crate::fabric::Moment;
use crate::system::MemorySystem;

/// Destination of snoop responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// This hart's core.
    Core(usize),
    /// The LLC, where a device's request or the directory waits.
    Home,
}

impl<M: MainMemory> MemorySystem<M> {
    /// Whether the newest copy has to be fetched from a private cache. A directory knows a line's owner, but
    /// not whether the owner wrote it.
    #[inline]
    pub(crate) fn is_newer_above(&self, found: &Found) -> bool {
        found.dirty || found.owned && self.directory.is_some()
    }

    /// When and where a private cache's copy is available after a look-up and, if `take`, all copies are
    /// invalidated.
    pub(crate) fn line_of_copy<const TIMED: bool>(
        &mut self,
        found: &Found,
        take: bool,
        looked: Moment,
        asker: Asker,
    ) -> Moment {
        let ready = if TIMED { self.clock.edge_at_or_after(found.ready) } else { 0 };
        if self.directory.is_none() {
            let at = if TIMED { (looked.at + self.snoop_latency).max(ready) } else { 0 };
            return Moment { at, ..looked };
        }
        // If there are several sharers, the first sends the line.
        let harts = if take { found.harts } else { found.harts & found.harts.wrapping_neg() };
        self.snoop::<TIMED>(Snoop { harts, line: true, asker }, looked, ready)
    }

    /// When and where the invalidation of all private copies is complete; `looked` if there are none.
    pub(crate) fn copies_gone<const TIMED: bool>(
        &mut self,
        found: &Found,
        looked: Moment,
        asker: Asker,
    ) -> Moment {
        if !found.present {
            return looked;
        }
        if self.directory.is_none() {
            return Moment { at: if TIMED { looked.at + self.snoop_latency } else { 0 }, ..looked };
        }
        let ready = if TIMED { self.clock.edge_at_or_after(found.ready) } else { 0 };
        self.snoop::<TIMED>(Snoop { harts: found.harts, line: false, asker }, looked, ready)
    }
}
