//! Loads, stores, prefetches, atomics, fences and accesses to devices of the out-of-order core.
//!
//! A load goes to the cache or is answered by the youngest older store that overlaps it, if that has all its bytes; if it
//! has only some, the load waits until the cache has them. A load that went ahead of a store which turns out to overlap it
//! is dispatched again, with all behind it. An atomic executes at the head of the window when all older stores have been
//! written; as a fence's, its flags may say that loads and stores behind it wait for it (acquire). Fences do not stop the window: what
//! their successor set names waits until what their predecessor set names is done. Loads may overtake loads (RVWMO; the
//! same-address rule costs nothing here, since values are those of program order).

use doorbell_sim::memory::{AccessKind, CoreAccess, CoreMemory, Level};
use doorbell_sim::op::{Op, OpClass};

use super::{DeviceAccess, Executed, OutOfOrder, stages};
use crate::common::Common;
use crate::config::MemoryDependence;
use crate::front::Fetched;
use crate::mmu::Side;
use crate::observe::{Observer, Stages};
use crate::stats::Cause;
use crate::stores::Span;

impl OutOfOrder {
    /// Prices a load.
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

    /// Executes a load, or says when the clash with an older store is found.
    #[inline(always)]
    fn execute_load<const THREADS: bool, M: CoreMemory>(
        &mut self,
        op: &Op,
        dispatched: u64,
        memory: &mut M,
    ) -> Result<Executed, u64> {
        let span = Span::of(op);
        let operands = (dispatched + 1).max(self.operands(op));
        let state = &mut self.state;
        let waits = match state.dependence {
            MemoryDependence::StoreSets => match state.sets.load(op.pc) {
                0 => 0,
                number => state.common.stores.known(number),
            },
            MemoryDependence::Wait => state.common.stores.all_known(),
            MemoryDependence::Perfect => {
                state.common.stores.youngest(span, operands).map_or(0, |store| store.known)
            }
        };
        let ready = operands.max(waits).max(state.common.order.load);
        let fenced = state.common.order.load == ready && ready > operands;
        let issue = self.issue::<THREADS>(OpClass::Load, ready, dispatched);
        let state = &mut self.state;
        let address = issue + state.common.address_cycles;
        let asked =
            state.common.mmu.translate(Side::Data, op.virt, address, memory, &mut state.common.counts);
        let access = CoreAccess { kind: AccessKind::Load, addr: op.phys, pc: op.pc };
        let (data, level) = match state.common.stores.youngest(span, asked) {
            None => {
                let served = memory.access(asked, access);
                (served.at, served.level)
            }
            Some(store) if store.known > asked => {
                let (found, store_pc) = (store.known, store.pc);
                state.sets.clash(op.pc, store_pc);
                state.common.counts.replays += 1;
                return Err(found);
            }
            Some(store) if store.covers(span) => {
                state.common.counts.forwards += 1;
                (asked.max(store.data) + state.common.forward_cycles, Level::L1)
            }
            Some(store) => {
                let written = store.drained;
                state.common.counts.forwards_blocked += 1;
                let served = memory.access(written, access);
                (served.at, served.level)
            }
        };
        let data = data.max(asked + 1);
        state.common.counts.load(level, data - asked);
        let cause = if fenced {
            Cause::Store
        } else if asked - address > data - asked {
            Cause::Dtlb
        } else {
            Cause::of(level)
        };
        let complete = self.result(op, data);
        self.state.common.load_done(complete);
        Ok(Executed { issue, complete, leaves: issue + 1, cause, level: Some(level) })
    }

    /// Prices a store. Address and data go their own ways; the issue queue keeps it until both are there.
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
            op.sources.map(|source| self.state.common.registers.0[usize::from(source)]);
        let earliest = dispatched.at + 1;
        let state = &mut self.state;
        let number = state.common.stores.next();
        let waits = match state.dependence {
            MemoryDependence::StoreSets => match state.sets.store(op.pc, number) {
                0 => 0,
                before => state.common.stores.known(before),
            },
            _ => 0,
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

    /// Prices a software prefetch. It goes a load's way, through load queue and port, walks page tables where the TLBs miss, and
    /// commits when the first-level cache has looked, whether the line is there or not (Intel 64 and IA-32 Architectures
    /// Optimization Reference Manual, "Hardware Instruction Fetching and Software Prefetching"; gem5's cache answers a software
    /// prefetch after its look-up, too). Older stores and fences do not hold it up: nothing depends on what it brings.
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
        let asked = self.translate(op, address, memory);
        let prefetched = self.state.common.prefetch(op, asked, memory);
        let cause = if asked - address > prefetched.at - asked { Cause::Dtlb } else { Cause::L1 };
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
        dispatched: u64,
        memory: &mut M,
    ) -> Executed {
        let state = &self.state;
        let head = (dispatched + 1).max(self.operands(op)).max(state.common.commit.last() + 1);
        let written = state.common.atomic_floor();
        let issue = self.issue::<THREADS>(OpClass::Atomic, head.max(written), dispatched);
        let address = issue + self.state.common.address_cycles;
        let asked = self.translate(op, address, memory);
        let kind = if op.flags & Op::WRITES != 0 { AccessKind::Store } else { AccessKind::Load };
        let served = memory.access(asked, CoreAccess { kind, addr: op.phys, pc: op.pc });
        let data = served.at.max(asked + 1);
        let cause = if written > head && written - head > data - asked {
            Cause::Store
        } else if asked - address > data - asked {
            Cause::Dtlb
        } else {
            Cause::of(served.level)
        };
        let complete = self.result(op, data);
        self.state.common.atomic_done(op, dispatched, asked, complete);
        Executed { issue, complete, leaves: issue + 1, cause, level: Some(served.level) }
    }

    /// A fence needs no unit: it says what waits for what.
    pub(super) fn fence(&mut self, op: &Op, dispatched: u64) -> Executed {
        self.state.common.fence(op);
        let complete = dispatched + 1;
        Executed { issue: complete, complete, leaves: 0, cause: Cause::Execute, level: None }
    }

    /// When the address of an access, known at `at`, is translated.
    #[inline(always)]
    pub(super) fn translate<M: CoreMemory>(&mut self, op: &Op, at: u64, memory: &mut M) -> u64 {
        let state = &mut self.state;
        state.common.mmu.translate(Side::Data, op.virt, at, memory, &mut state.common.counts)
    }

    /// An access to a device comes to the head of the window and leaves the core.
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
            false => (0, None),
        };
        let dispatched = self.dispatch::<THREADS>(op, &fetched, entry, cause);
        let state = &mut self.state;
        let fence = state.common.device_floor(op);
        let head = (state.common.commit.last() + 1).max(fence).max(state.floors.device);
        let ready = (dispatched.at + 1).max(head).max(self.operands(op));
        let issue = self.issue::<THREADS>(op.class, ready, dispatched.at);
        let begun = self.translate(op, issue + self.state.common.address_cycles, memory);
        DeviceAccess { fetched, dispatched, begun }
    }

    /// When the access leaves the core.
    pub(crate) fn begun(access: &DeviceAccess) -> u64 {
        access.begun
    }

    /// See `Core::end_device`.
    pub(crate) fn end_device<O: Observer>(
        &mut self,
        op: &Op,
        access: DeviceAccess,
        [done, told]: [u64; 2],
        observer: &mut O,
    ) {
        let done = done.max(access.begun);
        let complete = self.result(op, done);
        self.state.floors.device = complete;
        self.state.common.device_done(op, access.dispatched.at, [access.begun, complete, told]);
        let issue = access.begun;
        let executed = Executed { issue, complete, leaves: issue + 1, cause: Cause::Device, level: None };
        let commit = match self.has_turn() {
            true => self.retire::<true>(op, &access.fetched, &access.dispatched, &executed),
            false => self.retire::<false>(op, &access.fetched, &access.dispatched, &executed),
        };
        observer.op(op, &stages(&access.fetched, access.dispatched.at, &executed, commit));
    }
}
