//! Execution of timed harts: block by block, each hart at the time that its core model computes.
//!
//! The earliest hart executes its next block functionally and at once; its time then becomes the commit time
//! of the block's last op. A block therefore reads memory as of the commit of the previous op: earlier than a
//! real core would by at most one drain of the reorder window plus one block. An instruction that reads the
//! time starts a new block. Device accesses leave at the head of the window and execute as events, in order
//! with all others. Page walks see the page tables as of the end of the block.

use doorbell_riscv::{Hart, MmioRequest, Privilege, Stop, Turn};
use doorbell_sim::learn::learn_ops;
use doorbell_sim::{BlockEnd, CoreCycle, Learner, Op, OpClass, OpSource, Phase, Ps, Ram, Until};

use super::record::ExecutedBlock;
use super::{CoreContext, Mode, TimedHart, Timing, Warming};
use crate::events::Event;
use crate::machine::Machine;
use crate::run::Limits;

/// Returns the earliest item (the first among equals) and the time from which another one is earlier.
/// Branch-free, because the order of harts is hard to predict for the host's branch predictor.
pub(crate) fn earliest(ready: impl Iterator<Item = (usize, Ps)>) -> (Option<(Ps, usize)>, Ps) {
    let (first, who, others) = ready.fold((Ps::MAX, 0, Ps::MAX), |(first, who, others), (index, at)| {
        let who = if at < first { index } else { who };
        (first.min(at), who, others.min(first.max(at)))
    });
    match first {
        Ps::MAX => (None, Ps::MAX),
        // Harts at the same time alternate block by block.
        _ => (Some((first, who)), others.max(first + Ps(1))),
    }
}

impl Machine {
    /// Executes blocks of a hart until its time reaches `until` or it stops.
    pub(crate) fn run_hart_timed(&mut self, index: usize, until: Ps, limits: &Limits) -> Stop {
        let mut timing = self.timing.take().expect("the machine has timing models");
        timing.update_sibling_sleep(index, &self.harts);
        let end = self.instructions_left(limits).saturating_add(self.harts[index].instructions());
        // A limit does not split a block: the split would be an additional point at which events are handled.
        let cycle = CoreCycle::new(self.harts[index].slot_at(until));
        let until = Until { cycle, instructions: end };
        let stop = loop {
            let hart = &mut self.harts[index];
            if hart.cycle() >= until.cycle || hart.instructions() >= end {
                break None;
            }
            if let Turn::Stopped(stop) = timing.block(index, hart, &mut self.ram, until) {
                break Some(stop);
            }
        };
        if let Some(Stop::Mmio(request)) = stop
            && timing.mode == Mode::Detailed
        {
            let hart = &mut self.harts[index];
            let op = device_op(hart, &self.ram, &request);
            timing.begin_device(index, hart, &self.ram, op);
            let at = hart.time();
            self.queue.schedule(at, Phase::Mmio, Event::DeviceStart { hart: index as u32 });
            self.timing = Some(timing);
            return Stop::Mmio(request);
        }
        if let Some(Stop::Mmio(request)) = stop {
            let hart = &mut self.harts[index];
            let (op, leaves) = (device_op(hart, &self.ram, &request), hart.cycle());
            timing.record(index, hart, &self.ram, ExecutedKind::Access(op), leaves);
        }
        self.timing = Some(timing);
        if let Some(stop) = stop {
            self.handle_stop(index, stop, limits);
        }
        stop.unwrap_or(Stop::Slot)
    }

    /// Called when a hart's device access leaves its core.
    pub(crate) fn device_start(&mut self, hart: u32) {
        let request =
            self.harts[hart as usize].pending_mmio().expect("a hart waits for its pending device access");
        self.start_device_access(hart, request);
    }

    /// Completes a device access at `now`: a read, or any access to a platform device.
    pub(crate) fn device_access_done(&mut self, hart: u32, now: Ps) {
        self.device_access_done_at(hart, [now; 2]);
    }

    /// Completes a device access at `over[0]`; for a store, this is when the root complex accepts it.
    /// `over[1]` is when the acknowledgement reaches the core.
    pub(crate) fn device_access_done_at(&mut self, hart: u32, over: [Ps; 2]) {
        let (id, hart) = (hart as usize, &mut self.harts[hart as usize]);
        match (&mut self.timing, &mut self.recording) {
            (Some(timing), _) => timing.end_device(id, hart, over.map(|at| CoreCycle::new(hart.slot_at(at)))),
            (None, Some(recording)) => recording.reached(id, hart.time()),
            (None, None) => {}
        }
    }
}

/// A unit of execution that is passed to a recording.
enum ExecutedKind {
    Block { trapped: bool },
    Access(Op),
}

impl Timing {
    /// Takes one block of a source and computes its timing. In warming mode the source may take further
    /// blocks.
    pub(crate) fn block<S: OpSource>(
        &mut self,
        id: usize,
        source: &mut S,
        world: &mut S::World,
        until: Until,
    ) -> BlockEnd<S::Stop> {
        let start = source.cycle();
        let has_slept = self.mode == Mode::Detailed && self.harts[id].core.has_slept_until(start);
        self.take_core(id);
        let timed = &mut self.harts[id];
        if has_slept {
            timed.core.skip_to(start);
            self.polls.interrupted(id);
            if let Some(watch) = &mut self.watch {
                watch.idle(id, start);
            }
        }
        let space = source.address_space();
        if space != timed.space {
            timed.space = space;
            timed.core.set_address_space(space);
        }
        self.ops.clear();
        if self.mode != Mode::Detailed {
            return self.learn(id, source, world, until);
        }
        let before = source.instructions();
        let end = source.block(world, &mut self.ops);
        let trapped = matches!(end, BlockEnd::Trapped);
        let watched = self.watch_before_block(id);
        let timed = &mut self.harts[id];
        self.memory.advance_hart(id / self.threads, id % self.threads, timed.core.next_fetch());
        if watched.is_some_and(|(_, logged)| logged) {
            self.execute_logged(id, source, world);
        } else {
            // The only call site, so that the compiler inlines the whole core model.
            let id = id / self.threads;
            timed.core.execute(&self.ops, &mut CoreContext { id, source, world, memory: &mut self.memory });
        }
        if let Some((misses, _)) = watched {
            self.watch_block(id, source.thread(), source.instructions() - before, misses);
        }
        let core = &mut self.harts[id].core;
        if trapped {
            core.trap();
            if self.ops.is_empty() {
                // Simulated time must advance even if a guest's trap handler traps at its first instruction.
                core.skip_to(core.now() + u64::from(core.config().trap_cycles));
            }
        }
        let byte = |addr| source.byte(world, addr);
        self.polls.observe(id, &self.ops, byte, source.instructions(), core.now());
        if trapped {
            self.polls.interrupted(id);
        }
        source.set_cycle(core.clock().max(start));
        self.record(id, source, world, ExecutedKind::Block { trapped }, start);
        source.take_back(&mut self.ops);
        self.fence(id, source);
        self.sleep_if_waiting(id, source);
        end
    }

    /// Marks a source as sleeping in the memory system if it sleeps, waits or has ended after its block.
    #[inline]
    fn sleep_if_waiting<S: OpSource>(&mut self, id: usize, source: &S) {
        let TimedHart { core, .. } = &self.harts[id];
        if !source.is_ready() || core.has_slept_until(source.cycle()) {
            self.source_sleeps(id);
        }
    }

    /// Informs the memory system that a source issues no request until its next block.
    pub(crate) fn source_sleeps(&mut self, id: usize) {
        self.memory.hart_sleeps(id / self.threads, id % self.threads);
    }

    /// Passes a completed block, or a device access that leaves the core, to the recording.
    #[inline]
    fn record<S: OpSource>(
        &mut self,
        id: usize,
        source: &mut S,
        world: &S::World,
        what: ExecutedKind,
        start: CoreCycle,
    ) {
        let Some(recording) = self.recording.as_mut().filter(|recording| recording.records(id)) else {
            return;
        };
        let (ops, trapped) = match &what {
            ExecutedKind::Block { trapped } => (&self.ops[..], *trapped),
            ExecutedKind::Access(op) => (std::slice::from_ref(op), false),
        };
        // The address space in which the block began; the block may have changed it.
        let TimedHart { clock, space, .. } = &self.harts[id];
        let (start, end) = (clock.edge(start), clock.edge(source.cycle()));
        let block = ExecutedBlock { hart: id, ops, trapped, space: *space, start, end };
        recording.executed(&block, source, world);
    }

    /// Warming mode: runs blocks of a source and trains caches, TLBs and predictors with them.
    fn learn<S: OpSource>(
        &mut self,
        id: usize,
        source: &mut S,
        world: &mut S::World,
        until: Until,
    ) -> BlockEnd<S::Stop> {
        let TimedHart { core, pace, .. } = &mut self.harts[id];
        let core = core.learning();
        let mut learner =
            Warming { id: id / self.threads, core, pace, memory: &mut self.memory, page: None, line: None };
        let end = match self.recording {
            None => source.learn(world, &mut self.ops, until, &mut learner),
            Some(_) => {
                let (start, before) = (source.cycle(), source.instructions());
                let end = source.block(world, &mut self.ops);
                learn_ops(&self.ops, |virt| source.walk(world, virt), &mut learner);
                let (done, trapped) = (source.instructions() - before, matches!(end, BlockEnd::Trapped));
                source.set_cycle(start + learner.end_block(done, trapped));
                self.record(id, source, world, ExecutedKind::Block { trapped }, start);
                end
            }
        };
        source.take_back(&mut self.ops);
        self.fence(id, source);
        end
    }

    /// Drops the TLB entries that the block's translation fence invalidates.
    #[inline]
    fn fence<S: OpSource>(&mut self, id: usize, source: &mut S) {
        if let Some(fence) = source.take_translation_fence() {
            self.harts[id].core.flush_tlb(fence.address, fence.space);
            if let Some(recording) = self.recording.as_mut().filter(|recording| recording.records(id)) {
                recording.fence(id, fence);
            }
        }
    }

    /// Starts the device access at which a source has stopped. It reaches the head of the window, and the
    /// source's time becomes the time at which it leaves the core.
    pub fn begin_device<S: OpSource>(&mut self, id: usize, source: &mut S, world: &S::World, op: Op) {
        let leaves = source.cycle();
        let watched = self.watch_before_block(id);
        self.take_core(id);
        let (timed, core) = (&mut self.harts[id], id / self.threads);
        self.memory.advance_hart(core, id % self.threads, timed.core.next_fetch());
        let start = timed
            .core
            .begin_device(&op, &mut CoreContext { id: core, source, world, memory: &mut self.memory });
        timed.device = Some(op);
        self.memory.count_mmio(op.flags & Op::WRITES != 0);
        if let Some((misses, _)) = watched {
            self.begin_device_watched(id, misses);
        }
        source.set_cycle(start);
        self.record(id, source, world, ExecutedKind::Access(op), leaves);
    }

    /// Completes the pending device access, if any, because its core leaves detailed mode.
    pub(super) fn complete_device_early(&mut self, id: usize, done: CoreCycle) {
        if let Some(op) = self.harts[id].device.take() {
            self.take_core(id);
            self.harts[id].core.end_device(&op, [done; 2]);
        }
    }

    /// Completes the pending device access, if any: in cycle `done[0]`, and acknowledged in cycle `done[1]`.
    pub fn end_device<S: OpSource>(&mut self, id: usize, source: &mut S, done: [CoreCycle; 2]) {
        if let Some(op) = self.harts[id].device.take() {
            self.take_core(id);
            self.end_device_watched(id, source.thread(), &op, done);
            source.set_cycle(self.core(id).clock().max(done[0]));
        }
        if let Some(recording) = &mut self.recording {
            recording.reached(id, self.harts[id].clock.edge(source.cycle()));
        }
    }
}

/// Returns the op of a hart's pending device access.
pub(crate) fn device_op(hart: &Hart, ram: &Ram, request: &MmioRequest) -> Op {
    let writes = if request.store_value().is_some() { Op::WRITES } else { 0 };
    let privileged = if hart.privilege() == Privilege::User { 0 } else { Op::PRIVILEGED };
    Op {
        pc: hart.pc(),
        fetch: hart.fetch_address(ram),
        virt: request.addr.0,
        phys: request.addr,
        class: OpClass::Device,
        size: request.size.bytes() as u8,
        length: 4,
        flags: writes | privileged,
        ..Op::default()
    }
}
