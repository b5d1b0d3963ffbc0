//! Wait times of a request that finds copies in private caches: for the newest copy, or for the invalidation
//! of all.

use doorbell_sim::UncoreCycle;

use super::ProbeResult;
use super::directory::Snoop;
use crate::backing::MainMemory;
use crate::fabric::Moment;
use crate::system::MemorySystem;

/// Destination of snoop responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requester {
    /// This hart's core.
    Core(usize),
    /// The LLC, where a device's request or the directory waits.
    Home,
}

impl<M: MainMemory> MemorySystem<M> {
    /// Whether the newest copy has to be fetched from a private cache. A directory records a line's
    /// owner, but not whether the owner wrote it.
    #[inline]
    pub(crate) fn is_newer_in_private(&self, found: &ProbeResult) -> bool {
        found.dirty || found.owned && self.directory.is_some()
    }

    /// When and where a private cache's copy is available after a look-up and, if `take`, all copies are
    /// invalidated.
    pub(crate) fn fetch_copy<const TIMED: bool>(
        &mut self,
        found: &ProbeResult,
        take: bool,
        lookup_done: Moment,
        requester: Requester,
    ) -> Moment {
        let ready = if TIMED { self.clock.edge_at_or_after(found.ready) } else { UncoreCycle::ZERO };
        if self.directory.is_none() {
            let at = if TIMED { (lookup_done.at + self.snoop_latency).max(ready) } else { UncoreCycle::ZERO };
            return Moment { at, ..lookup_done };
        }
        // If there are several sharers, the first sends the line.
        let harts = if take { found.harts } else { found.harts & found.harts.wrapping_neg() };
        self.snoop::<TIMED>(Snoop { harts, line: true, requester }, lookup_done, ready)
    }

    /// When and where the invalidation of all private copies is complete; `lookup_done` if there are none.
    pub(crate) fn copies_invalidated<const TIMED: bool>(
        &mut self,
        found: &ProbeResult,
        lookup_done: Moment,
        requester: Requester,
    ) -> Moment {
        if !found.present {
            return lookup_done;
        }
        if self.directory.is_none() {
            return Moment { at: lookup_done.at + if TIMED { self.snoop_latency } else { 0 }, ..lookup_done };
        }
        let ready = if TIMED { self.clock.edge_at_or_after(found.ready) } else { UncoreCycle::ZERO };
        self.snoop::<TIMED>(Snoop { harts: found.harts, line: false, requester }, lookup_done, ready)
    }
}
