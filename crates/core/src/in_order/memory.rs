//! Loads, stores, prefetches, atomics, fences and device accesses of the in-order core. Where program order
//! does not already guarantee the memory order, the rules are those of the out-of-order core.

use doorbell_sim::memory::{AccessKind, CoreAccess, CoreMemory, Level};
use doorbell_sim::{CoreCycle, Op};

use super::{DeviceAccess, Executed, InOrder, Wait, stages};
use crate::front::Fetched;
use crate::mmu::Side;
use crate::observe::{Observer, Stages};
use crate::stats::Cause;
use crate::stores::Span;

impl InOrder {
    /// Times a store.
    #[inline(always)]
    pub(super) fn store<M: CoreMemory, O: Observer>(
        &mut self,
        op: &Op,
        fetched: &Fetched,
        memory: &mut M,
        observer: &mut O,
    ) {
        let wait = Wait::new(self.state.common.stores.free_from(), Cause::Store);
        let issued = self.issue(op, fetched, wait);
        let known = self.translate(op, issued.at + self.state.common.address_cycles, memory);
        let executed = Executed { complete: known, commit: known + 1, cause: Cause::Dtlb, level: None };
        let commit = self.retire(op, fetched, &issued, &executed);
        let state = &mut self.state;
        let written = state.common.stores.push::<false, M>(
            op,
            [known, known, commit],
            memory,
            &mut state.common.counts,
            None,
        );
        state.common.counts.stores += 1;
        state.common.counts.sq_cycles += state.common.stores.all_written() - issued.at;
        observer.op(op, &Stages { written, ..stages(fetched, &issued, &executed, commit) });
    }

    pub(super) fn translate<M: CoreMemory>(&mut self, op: &Op, at: CoreCycle, memory: &mut M) -> CoreCycle {
        let state = &mut self.state;
        let translated =
            state.common.mmu.translate(Side::Data, op.virt, at, memory, &mut state.common.counts);
        if translated > at {
            self.hold(translated, Cause::Dtlb);
        }
        translated
    }

    #[inline(always)]
    pub(super) fn load<M: CoreMemory>(&mut self, op: &Op, issued: CoreCycle, memory: &mut M) -> Executed {
        let span = Span::of(op);
        let translated = self.translate(op, issued + self.state.common.address_cycles, memory);
        let state = &mut self.state;
        let access = CoreAccess { kind: AccessKind::Load, addr: op.phys, pc: op.pc };
        let (data, level) = match state.common.stores.youngest(span, translated) {
            Some(store) if store.covers(span) => {
                state.common.counts.forwards += 1;
                (translated.max(store.data) + state.common.forward_cycles, Level::L1)
            }
            blocked => {
                let written = blocked.map(|store| store.drained);
                state.common.counts.forwards_blocked += u64::from(written.is_some());
                let served = memory.access(written.unwrap_or(translated), access);
                (served.at, served.level)
            }
        };
        let data = data.max(translated + 1);
        state.common.counts.load(level, data - translated);
        let complete = self.result(op, data, Cause::of(level));
        let state = &mut self.state;
        state.common.loads.push(complete);
        state.common.counts.lq_cycles += complete - issued;
        state.common.load_done(complete);
        Executed { complete, commit: translated + 1, cause: Cause::Dtlb, level: Some(level) }
    }

    /// Times a software prefetch like the out-of-order core. It cannot fault, so that younger ops do not wait
    /// for its translation.
    #[inline(never)]
    pub(super) fn prefetch<M: CoreMemory, O: Observer>(
        &mut self,
        op: &Op,
        fetched: &Fetched,
        memory: &mut M,
        observer: &mut O,
    ) {
        let issued = self.issue(op, fetched, Wait::new(self.state.common.loads.free_from(), Cause::L2));
        let address = issued.at + self.state.common.address_cycles;
        let common = &mut self.state.common;
        let translated = common.mmu.translate(Side::Data, op.virt, address, memory, &mut common.counts);
        let prefetched = common.prefetch(op, translated, memory);
        let complete = self.result(op, prefetched.at, Cause::L1);
        let executed =
            Executed { complete, commit: CoreCycle::ZERO, cause: Cause::L1, level: prefetched.level };
        let common = &mut self.state.common;
        common.loads.push(complete);
        common.counts.lq_cycles += complete - issued.at;
        let commit = self.retire(op, fetched, &issued, &executed);
        observer.op(op, &stages(fetched, &issued, &executed, commit));
    }

    pub(super) fn atomic<M: CoreMemory>(&mut self, op: &Op, issued: CoreCycle, memory: &mut M) -> Executed {
        let translated = self.translate(op, issued + self.state.common.address_cycles, memory);
        let kind = if op.flags & Op::WRITES != 0 { AccessKind::Store } else { AccessKind::Load };
        let served = memory.access(translated, CoreAccess { kind, addr: op.phys, pc: op.pc });
        let cause = Cause::of(served.level);
        let complete = self.result(op, served.at.max(translated + 1), cause);
        self.hold(complete, cause);
        self.state.common.atomic_done(op, issued, translated, complete);
        Executed { complete, commit: complete + 1, cause, level: Some(served.level) }
    }

    pub(super) fn fence(&mut self, op: &Op, issued: CoreCycle) -> Executed {
        self.state.common.fence(op);
        Executed { complete: issued + 1, commit: CoreCycle::ZERO, cause: Cause::Execute, level: None }
    }

    pub(crate) fn begin_device<M: CoreMemory>(&mut self, op: &Op, memory: &mut M) -> DeviceAccess {
        let state = &mut self.state;
        let fetched = state.common.fetch::<false, M>(op, memory);
        let mut wait = Wait::new(state.common.device_floor(op), Cause::Store);
        if state.common.is_ordered(op) {
            wait.extend(state.common.stores.free_from(), Cause::Store);
        }
        let issued = self.issue(op, &fetched, wait);
        // Older ops must have committed first: the access cannot be undone.
        let at = (issued.at + self.state.common.address_cycles).max(self.state.common.commit.last() + 1);
        let sent = self.translate(op, at, memory);
        DeviceAccess { fetched, issued, begun: sent }
    }

    pub(crate) fn end_device<O: Observer>(
        &mut self,
        op: &Op,
        access: DeviceAccess,
        [done, acknowledged]: [CoreCycle; 2],
        observer: &mut O,
    ) {
        let complete = self.result(op, done.max(access.begun), Cause::Device);
        self.hold(complete, Cause::Device);
        self.state.common.device_done(op, access.issued.at, [access.begun, complete, acknowledged]);
        let executed = Executed { complete, commit: complete + 1, cause: Cause::Device, level: None };
        let commit = self.retire(op, &access.fetched, &access.issued, &executed);
        observer.op(op, &stages(&access.fetched, &access.issued, &executed, commit));
    }
}
