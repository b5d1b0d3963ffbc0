//! Accesses of cores in plain cycle numbers, for tests.

use doorbell_sim::CoreCycle;
use doorbell_sim::memory::{CoreAccess, Level, Prefetched};

use crate::backing::MainMemory;
use crate::system::MemorySystem;

/// When and from where an access was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub at: u64,
    pub level: Level,
}

pub(crate) fn core_access<M: MainMemory>(
    system: &mut MemorySystem<M>,
    hart: usize,
    cycle: u64,
    access: CoreAccess,
) -> Served {
    let served = system.core_access(hart, CoreCycle::new(cycle), access);
    Served { at: served.at.number(), level: served.level }
}

pub(crate) fn core_prefetch<M: MainMemory>(
    system: &mut MemorySystem<M>,
    hart: usize,
    cycle: u64,
    access: CoreAccess,
) -> Prefetched {
    system.core_prefetch(hart, CoreCycle::new(cycle), access)
}
