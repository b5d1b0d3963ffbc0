//! Who else has a line: looking into private caches and taking copies away.
//!
//! MESI over whole private hierarchies: a hart's L2 includes its L1s and says what the hart may do with a line; its L1D may
//! be dirty where the L2 is not. Private caches are asked exactly when they have a copy. What that costs is the `kind`'s affair: an
//! *ideal* one knows everything at once, and a request that has to wait for a copy waits the snoop latency; a [`directory`] sends snoops
//! and awaits answers.

pub mod config;
pub(crate) mod directory;
pub(crate) mod sharers;
pub(crate) mod sharing;
pub(crate) mod snoops;
pub mod stats;

use doorbell_sim::Ps;

use crate::class::DataClass;
use crate::coherence::sharers::bits;
use crate::system::{MemorySystem, Private};
use crate::tags::Flags;

/// What happens to the copies that are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// They go.
    Take,
    /// They stay, readable only.
    Share,
    /// They stay as they are, and are henceforth of this class: a device reads.
    Look(DataClass),
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Somebody has, or had, a copy.
    pub present: bool,
    /// Somebody's copy is newer than what lies below.
    pub dirty: bool,
    /// Somebody has, or had, it alone, and might have written it.
    pub owned: bool,
    /// Who has, or had, it: a bit a hart.
    pub harts: u64,
    /// A device had put it there and nobody had used it.
    pub fresh: bool,
    /// When the copy is there.
    pub ready: Ps,
}

impl Private {
    /// Looks for a line in one hart's caches.
    pub fn probe(&mut self, line: u32, probe: Probe) -> Found {
        let Some(slot) = self.l2.tags.find(line) else { return Found::default() };
        let flags = self.l2.tags.flags(slot);
        let mut dirty = flags.is_dirty();
        let mut ready = self.l2.tags.ready(slot).0;
        let in_l1d = self.l1d.tags.find(line);
        if let Some(slot) = in_l1d {
            dirty |= self.l1d.tags.flags(slot).is_dirty();
            ready = ready.max(self.l1d.tags.ready(slot).0);
        }
        let found = Found {
            present: true,
            dirty,
            owned: flags.is_writable(),
            harts: 0,
            fresh: flags.is_fresh(),
            ready: if ready == 0 { Ps::ZERO } else { self.clock.edge(ready) },
        };
        if probe == Probe::Take {
            self.l2.take_away(slot);
            in_l1d.map(|slot| self.l1d.take_away(slot));
            self.l1i.take_away_line(line);
            return found;
        }
        let change = |flags: Flags| match probe {
            Probe::Look(class) => flags.with_class(class).with_fresh(false),
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
    /// Looks for a line in the private caches of all harts but `except`.
    #[inline]
    pub(crate) fn probe(&mut self, except: Option<usize>, line: u32, probe: Probe) -> Found {
        let mut all = Found::default();
        // A hart that shares with nobody is looked into.
        let who = self.sharers.as_ref().map_or(1, |sharers| sharers.of(line));
        for hart in bits(who & !except.map_or(0, |hart| 1 << hart)) {
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
            if probe == Probe::Take {
                self.left(hart, line);
            }
        }
        all
    }

    /// A hart's caches have a line now.
    #[inline]
    pub(crate) fn came(&mut self, hart: usize, line: u32) {
        if let Some(sharers) = &mut self.sharers {
            sharers.add(line, hart);
        }
    }

    /// A hart's caches have a line no more.
    #[inline]
    pub(crate) fn left(&mut self, hart: usize, line: u32) {
        if let Some(sharers) = &mut self.sharers
            && sharers.remove(line, hart)
            && let Some(directory) = &mut self.directory
        {
            directory.forget(line);
        }
    }
}
