//! Hardware prefetchers of the private caches: training, and their requests.

use doorbell_sim::CoreCycle;
use doorbell_sim::memory::{AccessKind, CoreAccess};

use super::{LineRequest, LineResponse, Origin};
use crate::backing::MainMemory;
use crate::prefetch::Targets;
use crate::system::MemorySystem;

impl<M: MainMemory> MemorySystem<M> {
    /// Trains the L1's prefetcher with an access whose L1 look-up was done at `t`, and issues its prefetches.
    #[inline(never)]
    pub(super) fn prefetch_l1<const TIMED: bool>(
        &mut self,
        h: usize,
        access: CoreAccess,
        t: CoreCycle,
        trigger: bool,
    ) {
        let code = access.kind == AccessKind::Fetch;
        let offset = self.ram.offset(access.addr);
        let targets: Targets = self.harts[h].l1(code).prefetcher.train(access.pc, offset, trigger);
        let lines = self.ram.lines;
        for line in targets.as_slice().iter().copied().filter(|line| *line < lines) {
            let l1 = self.harts[h].l1(code);
            if l1.tags.find(line).is_some() {
                continue;
            }
            if TIMED && l1.mshrs.admit(t) > t {
                l1.stats.prefetches_dropped += 1;
                continue;
            }
            l1.stats.prefetches += 1;
            let request = LineRequest { hart: h, line, own: false, code, origin: Origin::Prefetch, words: 0 };
            let answer = self.request_for_l1::<TIMED>(request, t, false);
            self.fill_l1::<TIMED>(request, &answer, t, false);
        }
    }

    /// The same for the L2's prefetcher, with an access that missed the L1.
    #[inline]
    pub(super) fn prefetch_l2<const TIMED: bool>(
        &mut self,
        h: usize,
        access: CoreAccess,
        answer: &LineResponse,
    ) {
        if self.harts[h].l2.prefetcher.is_on() {
            self.prefetch_l2_on::<TIMED>(h, access, answer);
        }
    }

    #[inline(never)]
    fn prefetch_l2_on<const TIMED: bool>(&mut self, h: usize, access: CoreAccess, answer: &LineResponse) {
        let (offset, t) = (self.ram.offset(access.addr), answer.lookup_done);
        let targets = self.harts[h].l2.prefetcher.train(access.pc, offset, answer.trigger);
        let lines = self.ram.lines;
        for line in targets.as_slice().iter().copied().filter(|line| *line < lines) {
            let l2 = &mut self.harts[h].l2;
            if l2.tags.find(line).is_some() {
                continue;
            }
            if TIMED && l2.mshrs.admit(t) > t {
                l2.stats.prefetches_dropped += 1;
                continue;
            }
            l2.stats.prefetches += 1;
            let code = access.kind == AccessKind::Fetch;
            self.miss_l2::<TIMED>(
                LineRequest { hart: h, line, own: false, code, origin: Origin::Prefetch, words: 0 },
                t,
                false,
            );
            let l2 = &mut self.harts[h].l2;
            if let Some(slot) = l2.tags.find(line) {
                l2.tags.set_flags(slot, l2.tags.flags(slot).with_prefetched(true));
            }
        }
    }
}
