//! The reorder buffer: commit cycles of the last ops, and what each waited for, so that a stalled dispatch can be explained.

use serde::{Deserialize, Serialize};

use crate::modulo::{Modulo, cycles};
use crate::ring::Ring;
use crate::saved::cycle;
use crate::stats::Cause;

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Window {
    #[serde(deserialize_with = "cycles")]
    commits: Modulo<u64>,
    causes: Modulo<Cause>,
    /// The number of the next op; numbers begin at `size`.
    #[serde(deserialize_with = "cycle")]
    next: u64,
    size: u64,
    /// The oldest op that may still be of interest.
    #[serde(deserialize_with = "cycle")]
    oldest: u64,
}

impl Window {
    pub(super) fn new(size: u32) -> Window {
        let size = u64::from(size);
        Window {
            commits: Modulo::new(size, 0),
            causes: Modulo::new(size, Cause::Base),
            next: size,
            size,
            oldest: size,
        }
    }

    /// From when on there is an entry for the next op.
    #[inline(always)]
    pub(super) fn free_from(&self) -> u64 {
        let before = *self.commits.get(self.next - self.size);
        // Entries never used are free from the beginning.
        before + u64::from(before != 0)
    }

    /// Whether entries can be left when these, given back at commit as well, are not: if they are as many, an op that has an entry has
    /// one of these too.
    #[inline(always)]
    pub(super) fn may_outlast(&self, others: &Ring) -> bool {
        others.size() < self.size
    }

    /// The next op takes an entry until it commits.
    #[inline(always)]
    pub(super) fn push(&mut self, commit: u64, cause: Cause) {
        self.commits.set(self.next, commit);
        self.causes.set(self.next, cause);
        self.next += 1;
    }

    /// What the oldest op in flight in a cycle waits for, and until when. Cycles never decrease.
    #[inline]
    pub(super) fn waiting(&mut self, cycle: u64) -> (Cause, u64) {
        self.oldest = self.oldest.max(self.next - self.size);
        while self.oldest < self.next {
            let commit = *self.commits.get(self.oldest);
            if commit >= cycle {
                return (*self.causes.get(self.oldest), commit + 1);
            }
            self.oldest += 1;
        }
        (Cause::Execute, u64::MAX)
    }

    /// Has so many entries from now on, at most as many as at first.
    pub(super) fn resize(&mut self, size: u32) {
        self.size = u64::from(size);
    }

    /// Whether a saved one is one of this kind and agrees with itself.
    pub(super) fn fits(&self, fresh: &Window) -> bool {
        self.commits.all().len() == fresh.commits.all().len()
            && self.causes.all().len() == fresh.causes.all().len()
            && self.size == fresh.size
            && self.next >= self.size
            && self.oldest <= self.next
    }
}
