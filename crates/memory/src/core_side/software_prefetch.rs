//! Software prefetches (prefetch instructions).

use doorbell_sim::CoreCycle;
use doorbell_sim::memory::{AccessKind, CoreAccess, Level, Prefetched};

use super::{LineRequest, Origin};
use crate::backing::MainMemory;
use crate::system::MemorySystem;

impl<M: MainMemory> MemorySystem<M> {
    /// A software prefetch for a load (of data), a store or a fetch. It takes a port and, if the line is
    /// missing, an L1 miss register. If none is free it is dropped (as for lack of request buffers behind the
    /// L1: IA-32 Intel Architecture Optimization Reference Manual 248966-013US, "The Prefetch Instructions").
    /// Hardware prefetchers train on it as on a load (the same manual of Intel 64, "Hardware Instruction
    /// Fetching and Software Prefetching").
    #[inline(never)]
    pub(crate) fn prefetch<const TIMED: bool>(
        &mut self,
        h: usize,
        cycle: CoreCycle,
        access: CoreAccess,
    ) -> Prefetched {
        let Some(line) = self.ram.line(access.addr) else {
            self.harts[h].stats.outside_ram += 1;
            return Prefetched { at: cycle, level: None };
        };
        let (own, code) = (access.kind == AccessKind::Store, access.kind == AccessKind::Fetch);
        let l1 = self.harts[h].l1(code);
        l1.stats.software_prefetches += 1;
        let at = if TIMED { l1.port(cycle) + l1.latency } else { CoreCycle::ZERO };
        let found = l1.tags.find(line);
        if let Some(slot) = found.filter(|slot| !own || l1.tags.flags(*slot).is_writable()) {
            l1.stats.software_prefetches_there += 1;
            l1.tags.touch(slot);
            if l1.prefetcher.is_on() {
                self.prefetch_l1::<TIMED>(h, access, at, false);
            }
            return Prefetched { at, level: Some(Level::L1) };
        }
        if TIMED && l1.mshrs.admit(at) > at {
            l1.stats.software_prefetches_dropped += 1;
            return Prefetched { at, level: None };
        }
        let request = LineRequest { hart: h, line, own, code, origin: Origin::Prefetch, words: 0 };
        let answer = self.request_for_l1::<TIMED>(request, at, found.is_some());
        self.fill_l1::<TIMED>(request, &answer, at, found.is_some());
        if self.harts[h].l1(code).prefetcher.is_on() {
            self.prefetch_l1::<TIMED>(h, access, at, true);
        }
        self.prefetch_l2::<TIMED>(h, access, &answer);
        Prefetched { at, level: Some(answer.level) }
    }
}
