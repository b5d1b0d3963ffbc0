//! What a request waits for that finds copies in private caches: for the newest one, or for all of them to go.

use super::Found;
use super::directory::Snoop;
use crate::backing::MainMemory;
use crate::fabric::Moment;
use crate::system::MemorySystem;

/// Where answers go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// To this hart's core.
    Core(usize),
    /// To the LLC: a device's request waits there, and so does the directory.
    Home,
}

impl<M: MainMemory> MemorySystem<M> {
    /// Whether a private cache has to be asked for the newest copy. A directory knows who owns a line, and not whether it was written.
    #[inline]
    pub(crate) fn is_newer_above(&self, found: &Found) -> bool {
        found.dirty || found.owned && self.directory.is_some()
    }

    /// When and where a private cache's copy of a line that was looked up is at hand, and if they are to be taken, all copies have gone.
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
        // Of several sharers the first sends it.
        let harts = if take { found.harts } else { found.harts & found.harts.wrapping_neg() };
        self.snoop::<TIMED>(Snoop { harts, line: true, asker }, looked, ready)
    }

    /// When and where it is known that all copies in private caches have gone; `looked` where there are none.
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
