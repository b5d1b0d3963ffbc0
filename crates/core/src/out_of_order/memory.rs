//! Loads, stores, prefetches, atomics, fences and device accesses of the out-of-order core.
//!
//! A load is served by the cache, or by the youngest older overlapping store if that covers all its bytes. If
//! the store covers only some, the load waits until the store is written to the cache. A load that passed a
//! store which turns out to overlap (memory-order violation) is dispatched again, with all younger ops. An
//! atomic executes at the head of the window after all older stores are written; with acquire semantics it
//! delays younger loads and stores, as a fence does. Fences do not stall the window: accesses in their
//! successor set wait until those in their predecessor set are done. Loads may pass loads (RVWMO; the
//! same-address rule costs nothing here, because values come from program order).

use doorbell_sim::memory::{AccessKind, CoreAccess, CoreMemory, Level};
use doorbell_sim::{CoreCycle, Op, OpClass};

use super::{DeviceAccess, Executed, OutOfOrder, stages};
use crate::common::Common;
use crate::config::MemoryDependence;
use crate::front::Fetched;
use crate::mmu::Side;
use crate::observe::{Observer, Stages};
use crate::stats::Cause;
use crate::stores::Span;

impl OutOfOrder {
    /// Times a load.
    #[inline(always)]
    pub(super) fn load<const THREADS: bool, M: CoreMemory, O: Observer>(
        &mut self,
        op: &Op,
        mut fetched: Fetched,
        memory: &mut M,
        observer: &mut O,
    ) {
        let mut replayed = false;
        let (dispatched, executed) = loop {
            let dispatched =
                self.dispatch::<THREADS>(op, &fetched, self.state.common.loads.free_from(), None);
            match self.execute_load::<THREADS, M>(op, dispatched.at, memory) {
                Ok(executed) => break (dispatched, executed),
                Err(found) => {
                    replayed = true;
                    let state = &mut self.state;
                    state.common.accounts.clear();
                    state.common.front.refetch(found);
                    fetched = state.common.fetch::<THREADS, M>(op, memory);
                }
            }
        };
        let commit = self.retire::<THREADS>(op, &fetched, &dispatched, &executed);
        self.state.common.loads.push(commit + 1);
        self.state.common.counts.lq_cycles += commit - dispatched.at;
        observer.op(op, &Stages { replayed, ..stages(&fetched, dispatched.at, &executed, commit) });
    }

    /// Executes a load, or returns the cycle in which a violation with an older store is detected.
    #[inline(always)]
    fn execute_load<const THREADS: bool, M: CoreMemory>(
        &mut self,
        op: &Op,
        dispatched: CoreCycle,
        memory: &mut M,
    ) -> Result<Executed, CoreCycle> {
        let span = Span::of(op);
        let operands = (dispatched + 1).max(self.operands(op));
        let state = &mut self.state;
        let waits = match state.dependence {
            MemoryDependence::StoreSets => match state.sets.load(op.pc) {
                0 => CoreCycle::ZERO,
                number => state.common.stores.address_known(number),
            },
            MemoryDependence::Wait => state.common.stores.all_known(),
            MemoryDependence::Perfect => {
                state.common.stores.youngest(span, operands).map_or(CoreCycle::ZERO, |store| store.known)
            }
        };
        let ready = operands.max(waits).max(state.common.order.load);
        let fenced = state.common.order.load == ready && ready > operands;
        let issue = self.issue::<THREADS>(OpClass::Load, ready, dispatched);
        let state = &mut self.state;
        let address = issue + state.common.address_cycles;
        let translated =
            state.common.mmu.translate(Side::Data, op.virt, address, memory, &mut state.common.counts);
        let access = CoreAccess { kind: AccessKind::Load, addr: op.phys, pc: op.pc };
        let (data, level) = match state.common.stores.youngest(span, translated) {
            None => {
                let served = memory.access(translated, access);
                (served.at, served.level)
            }
            Some(store) if store.known > translated => {
                let (found, store_pc) = (store.known, store.pc);
                state.sets.clash(op.pc, store_pc);
                state.common.counts.replays += 1;
                return Err(found);
            }
            Some(store) if store.covers(span) => {
                state.common.counts.forwards += 1;
                (translated.max(store.data) + state.common.forward_cycles, Level::L1)
            }
            Some(store) => {
                let written = store.drained;
                state.common.counts.forwards_blocked += 1;
                let served = memory.access(written, access);
                (served.at, served.level)
            }
        };
        let data = data.max(translated + 1);
        state.common.counts.load(level, data - translated);
        let cause = if fenced {
            Cause::Store
        } else if translated - address > data - translated {
            Cause::Dtlb
        } else {
            Cause::of(level)
        };
        let complete = self.result(op, data);
        self.state.common.load_done(complete);
        Ok(Executed { issue, complete, leaves: issue + 1, cause, level: Some(level) })
    }

    /// Times a store. Address and data issue independently; the issue-queue entry is held until both are
    /// available.
    #[inline(always)]
    pub(super) fn store<const THREADS: bool, M: CoreMemory, O: Observer>(
        &mut self,
        op: &Op,
        fetched: &Fetched,
        memory: &mut M,
        observer: &mut O,
    ) {
        let dispatched =
            self.dispatch::<THREADS>(op, fetched, self.state.common.stores.free_from(), Some(Cause::Store));
        let [address, data, other] =
            op.sources.map(|source| CoreCycle::new(self.state.common.registers.0[usize::from(source)]));
        let earliest = dispatched.at + 1;
        let state = &mut self.state;
        let number = state.common.stores.next();
        let waits = match state.dependence {
            MemoryDependence::StoreSets => match state.sets.store(op.pc, number) {
                0 => CoreCycle::ZERO,
                before => state.common.stores.address_known(before),
            },
            _ => CoreCycle::ZERO,
        };
        let issue = self.issue::<THREADS>(OpClass::Store, earliest.max(address).max(waits), dispatched.at);
        let at = issue + self.state.common.address_cycles;
        let known = self.translate(op, at, memory);
        let data = earliest.max(data).max(other);
        let cause = if known > at && known > data { Cause::Dtlb } else { Cause::Execute };
        let executed =
            Executed { issue, complete: known.max(data), leaves: issue.max(data) + 1, cause, level: None };
        let commit = self.retire::<THREADS>(op, fetched, &dispatched, &executed);
        let state = &mut self.state;
        let Common { stores, counts, shared, .. } = &mut state.common;
        let written =
            stores.push::<THREADS, M>(op, [known, data, commit], memory, counts, shared.as_deref_mut());
        state.common.counts.stores += 1;
        state.common.counts.sq_cycles += state.common.stores.all_written() - dispatched.at;
        observer.op(op, &Stages { written, ..stages(fetched, dispatched.at, &executed, commit) });
    }

    /// Times a software prefetch. It uses a load-queue entry and a load port like a load, walks page tables
    /// on a TLB miss, and commits after the first-level look-up, hit or miss (Intel 64 and IA-32
    /// Architectures Optimization Reference Manual, "Hardware Instruction Fetching and Software Prefetching";
    /// gem5's cache also answers a software prefetch after its look-up). Older stores and fences do not delay
    /// it: nothing depends on its data.
    #[inline(never)]
    pub(super) fn prefetch<const THREADS: bool, M: CoreMemory, O: Observer>(
        &mut self,
        op: &Op,
        fetched: Fetched,
        memory: &mut M,
        observer: &mut O,
    ) {
        let dispatched = self.dispatch::<THREADS>(op, &fetched, self.state.common.loads.free_from(), None);
        let earliest = dispatched.at + 1;
        let issue = self.issue::<THREADS>(OpClass::Prefetch, earliest.max(self.operands(op)), dispatched.at);
        let address = issue + self.state.common.address_cycles;
        let translated = self.translate(op, address, memory);
        let prefetched = self.state.common.prefetch(op, translated, memory);
        let cause = if translated - address > prefetched.at - translated { Cause::Dtlb } else { Cause::L1 };
        let complete = prefetched.at;
        let executed = Executed { issue, complete, leaves: issue + 1, cause, level: prefetched.level };
        let commit = self.retire::<THREADS>(op, &fetched, &dispatched, &executed);
        self.state.common.loads.push(commit + 1);
        self.state.common.counts.lq_cycles += commit - dispatched.at;
        observer.op(op, &stages(&fetched, dispatched.at, &executed, commit));
    }

    /// Executes an atomic.
    pub(super) fn atomic<const THREADS: bool, M: CoreMemory>(
        &mut self,
        op: &Op,
        dispatched: CoreCycle,
        memory: &mut M,
    ) -> Executed {
        let state = &self.state;
        let head = (dispatched + 1).max(self.operands(op)).max(state.common.commit.last() + 1);
        let written = state.common.atomic_floor();
        let issue = self.issue::<THREADS>(OpClass::Atomic, head.max(written), dispatched);
        let address = issue + self.state.common.address_cycles;
        let translated = self.translate(op, address, memory);
        let kind = if op.flags & Op::WRITES != 0 { AccessKind::Store } else { AccessKind::Load };
        let served = memory.access(translated, CoreAccess { kind, addr: op.phys, pc: op.pc });
        let data = served.at.max(translated + 1);
        let cause = if written > head && written - head > data - translated {
            Cause::Store
        } else if translated - address > data - translated {
            Cause::Dtlb
        } else {
            Cause::of(served.level)
        };
        let complete = self.result(op, data);
        self.state.common.atomic_done(op, dispatched, translated, complete);
        Executed { issue, complete, leaves: issue + 1, cause, level: Some(served.level) }
    }

    /// Executes a fence. It needs no unit; it only sets the order of memory accesses.
    pub(super) fn fence(&mut self, op: &Op, dispatched: CoreCycle) -> Executed {
        self.state.common.fence(op);
        let complete = dispatched + 1;
        Executed { issue: complete, complete, leaves: CoreCycle::ZERO, cause: Cause::Execute, level: None }
    }

    /// The cycle in which an address that is known at `at` is translated.
    #[inline(always)]
    pub(super) fn translate<M: CoreMemory>(&mut self, op: &Op, at: CoreCycle, memory: &mut M) -> CoreCycle {
        let state = &mut self.state;
        state.common.mmu.translate(Side::Data, op.virt, at, memory, &mut state.common.counts)
    }

    /// Starts a device access: it reaches the head of the window and leaves the core.
    pub(crate) fn begin_device<M: CoreMemory>(&mut self, op: &Op, memory: &mut M) -> DeviceAccess {
        match self.has_turn() {
            true => self.begin_device_of::<true, M>(op, memory),
            false => self.begin_device_of::<false, M>(op, memory),
        }
    }

    fn begin_device_of<const THREADS: bool, M: CoreMemory>(
        &mut self,
        op: &Op,
        memory: &mut M,
    ) -> DeviceAccess {
        let state = &mut self.state;
        let fetched = state.common.fetch::<THREADS, M>(op, memory);
        let (entry, cause) = match state.common.is_ordered(op) {
            true => (state.common.stores.free_from(), Some(Cause::Store)),
            false => (CoreCycle::ZERO, None),
        };
        let dispatched = self.dispatch::<THREADS>(op, &fetched, entry, cause);
        let state = &mut self.state;
        let fence = state.common.device_floor(op);
        let head = (state.common.commit.last() + 1).max(fence).max(state.floors.device);
        let ready = (dispatched.at + 1).max(head).max(self.operands(op));
        let issue = self.issue::<THREADS>(op.class, ready, dispatched.at);
        let sent = self.translate(op, issue + self.state.common.address_cycles, memory);
        DeviceAccess { fetched, dispatched, begun: sent }
    }

    /// Completes the device access; see `Core::end_device`.
    pub(crate) fn end_device<O: Observer>(
        &mut self,
        op: &Op,
        access: DeviceAccess,
        [done, acknowledged]: [CoreCycle; 2],
        observer: &mut O,
    ) {
        let done = done.max(access.begun);
        let complete = self.result(op, done);
        self.state.floors.device = complete;
        self.state.common.device_done(op, access.dispatched.at, [access.begun, complete, acknowledged]);
        let issue = access.begun;
        let executed = Executed { issue, complete, leaves: issue + 1, cause: Cause::Device, level: None };
        let commit = match self.has_turn() {
            true => self.retire::<true>(op, &access.fetched, &access.dispatched, &executed),
            false => self.retire::<false>(op, &access.fetched, &access.dispatched, &executed),
        };
        observer.op(op, &stages(&access.fetched, access.dispatched.at, &executed, commit));
    }
}
