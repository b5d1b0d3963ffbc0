//! The reorder buffer: commit cycles and stall causes of the last ops, to attribute dispatch stalls.

use doorbell_sim::CoreCycle;
use serde::{Deserialize, Serialize};

use crate::modulo::{Modulo, cycles};
use crate::ring::Ring;
use crate::saved::cycle;
use crate::stats::Cause;

/// The reorder buffer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Window {
    #[serde(deserialize_with = "cycles")]
    commits: Modulo<CoreCycle>,
    causes: Modulo<Cause>,
    /// Number of the next op; numbers start at `size`.
    #[serde(deserialize_with = "cycle")]
    next: u64,
    size: u64,
    /// The oldest op that may still be in flight.
    #[serde(deserialize_with = "cycle")]
    oldest: u64,
}

impl Window {
    pub(super) fn new(size: u32) -> Window {
        let size = u64::from(size);
        Window {
            commits: Modulo::new(size, CoreCycle::ZERO),
            causes: Modulo::new(size, Cause::Base),
            next: size,
            size,
            oldest: size,
        }
    }

    /// The cycle from which the next op has an entry.
    #[inline(always)]
    pub(super) fn free_from(&self) -> CoreCycle {
        let before = *self.commits.get(self.next - self.size);
        // Entries never used are free from cycle 0.
        before + u64::from(before != CoreCycle::ZERO)
    }

    /// Whether this buffer is larger than a resource that is also released at commit. If not, an op that has
    /// an entry here also has one there.
    #[inline(always)]
    pub(super) fn is_larger_than(&self, others: &Ring) -> bool {
        others.size() < self.size
    }

    /// Allocates the next op's entry until its commit.
    #[inline(always)]
    pub(super) fn push(&mut self, commit: CoreCycle, cause: Cause) {
        self.commits.set(self.next, commit);
        self.causes.set(self.next, cause);
        self.next += 1;
    }

    /// The stall cause of the oldest op in flight in `cycle`, and until when it applies. Cycles never
    /// decrease.
    #[inline]
    pub(super) fn oldest_cause(&mut self, cycle: CoreCycle) -> (Cause, CoreCycle) {
        self.oldest = self.oldest.max(self.next - self.size);
        while self.oldest < self.next {
            let commit = *self.commits.get(self.oldest);
            if commit >= cycle {
                return (*self.causes.get(self.oldest), commit + 1);
            }
            self.oldest += 1;
        }
        (Cause::Execute, CoreCycle::MAX)
    }

    /// Changes the number of entries, up to the initial number.
    pub(super) fn resize(&mut self, size: u32) {
        self.size = u64::from(size);
    }

    /// Whether saved state is consistent and matches this configuration.
    pub(super) fn is_compatible(&self, fresh: &Window) -> bool {
        self.commits.all().len() == fresh.commits.all().len()
            && self.causes.all().len() == fresh.causes.all().len()
            && self.size == fresh.size
            && self.next >= self.size
            && self.oldest <= self.next
    }
}
