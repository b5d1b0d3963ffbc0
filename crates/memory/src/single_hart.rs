//! Memory system of a single core without page tables: for programs and traces with physical addresses.

use doorbell_sim::CoreCycle;
use doorbell_sim::memory::{AccessKind, CoreAccess, CoreMemory, Prefetched, Served, Walk};

use crate::backing::MainMemory;
use crate::system::MemorySystem;

/// A memory system used through its first hart. Page walks take no time.
pub struct SingleHart<M>(pub MemorySystem<M>);

impl<M: MainMemory> CoreMemory for SingleHart<M> {
    fn access(&mut self, cycle: CoreCycle, access: CoreAccess) -> Served {
        if access.kind == AccessKind::Fetch {
            self.0.advance_hart(0, 0, cycle);
        }
        self.0.core_access(0, cycle, access)
    }

    fn prefetch(&mut self, cycle: CoreCycle, access: CoreAccess) -> Prefetched {
        self.0.core_prefetch(0, cycle, access)
    }

    fn walk(&mut self, _: u64) -> Walk {
        Walk::default()
    }
}
