//! Coherence: probing private caches and invalidating copies.
//!
//! MESI between private hierarchies. A hart's L2 includes its L1s and holds the hart's state of a line; its
//! L1D may be dirty where the L2 is not. Private caches are probed exactly when they have a copy. The cost
//! depends on the `kind`. An *ideal* one finds copies at once, and a request that waits for a copy takes the
//! snoop latency. A [`directory`] sends snoops and waits for responses.

pub mod config;
pub(crate) mod directory;
pub(crate) mod sharers;
pub(crate) mod sharing;
pub(crate) mod snoops;
pub mod stats;

use doorbell_sim::{CoreCycle, Ps};

use crate::class::DataClass;
use crate::coherence::sharers::bits;
use crate::system::{MemorySystem, Private};
use crate::tags::Flags;

/// Action on the copies that a probe finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// Invalidate them.
    Invalidate,
    /// Keep them, read-only.
    Share,
    /// A device reads: keep them as they are and set their class.
    Read(DataClass),
}

/// Result of a probe, with the state before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProbeResult {
    /// A private cache had a copy.
    pub present: bool,
    /// A copy is newer than the LLC and memory.
    pub dirty: bool,
    /// A cache had it exclusive or modified, so it may have been written.
    pub owned: bool,
    /// Bit mask of the harts that had it.
    pub harts: u64,
    /// A device wrote it, and it had not been used since.
    pub fresh: bool,
    /// Arrival time of the copy.
    pub ready: Ps,
}

impl Private {
    /// Probes one hart's caches for a line.
    pub fn probe(&mut self, line: u32, probe: Probe) -> ProbeResult {
        let Some(slot) = self.l2.tags.find(line) else { return ProbeResult::default() };
        let flags = self.l2.tags.flags(slot);
        let mut dirty = flags.is_dirty();
        let mut ready = self.l2.tags.ready(slot).0;
        let in_l1d = self.l1d.tags.find(line);
        if let Some(slot) = in_l1d {
            dirty |= self.l1d.tags.flags(slot).is_dirty();
            ready = ready.max(self.l1d.tags.ready(slot).0);
        }
        let found = ProbeResult {
            present: true,
            dirty,
            owned: flags.is_writable(),
            harts: 0,
            fresh: flags.is_fresh(),
            ready: if ready == CoreCycle::ZERO { Ps::ZERO } else { self.clock.edge(ready) },
        };
        if probe == Probe::Invalidate {
            self.l2.take_away(slot);
            in_l1d.map(|slot| self.l1d.take_away(slot));
            self.l1i.take_away_line(line);
            return found;
        }
        let change = |flags: Flags| match probe {
            Probe::Read(class) => flags.with_class(class).with_fresh(false),
            _ => flags.with_state(Flags::SHARED).with_fresh(false),
        };
        let in_l1i = self.l1i.tags.find(line);
        let copies = [(&mut self.l1i, in_l1i), (&mut self.l1d, in_l1d), (&mut self.l2, Some(slot))];
        for (cache, slot) in copies {
            if let Some(slot) = slot {
                cache.tags.set_flags(slot, change(cache.tags.flags(slot)));
            }
        }
        found
    }
}

impl<M> MemorySystem<M> {
    /// Probes the private caches of all harts except `except` for a line.
    #[inline]
    pub(crate) fn probe(&mut self, except: Option<usize>, line: u32, probe: Probe) -> ProbeResult {
        let mut all = ProbeResult::default();
        // A single hart without sharer tracking is always probed.
        let harts = self.sharers.as_ref().map_or(1, |sharers| sharers.of(line));
        for hart in bits(harts & !except.map_or(0, |hart| 1 << hart)) {
            let found = self.harts[hart].probe(line, probe);
            if !found.present {
                continue;
            }
            all.present = true;
            all.dirty |= found.dirty;
            all.owned |= found.owned;
            all.fresh |= found.fresh;
            all.harts |= 1 << hart;
            all.ready = all.ready.max(found.ready);
            if probe == Probe::Invalidate {
                self.remove_sharer(hart, line);
            }
        }
        all
    }

    /// Records that a hart's caches have a line.
    #[inline]
    pub(crate) fn add_sharer(&mut self, hart: usize, line: u32) {
        if let Some(sharers) = &mut self.sharers {
            sharers.add(line, hart);
        }
    }

    /// Records that a hart's caches no longer have a line.
    #[inline]
    pub(crate) fn remove_sharer(&mut self, hart: usize, line: u32) {
        if let Some(sharers) = &mut self.sharers
            && sharers.remove(line, hart)
            && let Some(directory) = &mut self.directory
        {
            directory.untrack(line);
        }
    }
}
