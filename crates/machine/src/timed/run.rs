//! How timed harts run: block by block, each at its core's pace.
//!
//! The hart that is earliest executes its next block, functionally and at once; its time is then the commit time of the
//! block's last op. So what a block reads of memory is what was there when the op before it committed: at most one drain
//! of the window (and one block) earlier than a real core would have read it. Reads of the time begin a block. Accesses to
//! devices leave at the head of the window and execute as events, in order with all others. Page walks find the tables as
//! they are after the block.

use doorbell_riscv::{Hart, MmioRequest, Privilege, Stop, Turn};
use doorbell_sim::learn::learn_ops;
use doorbell_sim::{BlockEnd, Learner, Op, OpClass, OpSource, Phase, Ps, Ram, Until};

use super::record::Executed;
use super::{Around, Mode, TimedHart, Timing, Warming};
use crate::events::Event;
use crate::machine::Machine;
use crate::run::{Limits, Outcome};

/// Who is earliest (of equals, the first), and the time from which on another is. Nothing is decided on the way: who goes next among many is
/// what the host can foresee least.
pub(super) fn earliest(ready: impl Iterator<Item = (usize, Ps)>) -> (Option<(Ps, usize)>, Ps) {
    let (first, who, others) = ready.fold((Ps::MAX, 0, Ps::MAX), |(first, who, others), (index, at)| {
        let who = if at < first { index } else { who };
        (first.min(at), who, others.min(first.max(at)))
    });
    match first {
        Ps::MAX => (None, Ps::MAX),
        // At the same time both take a block in turn.
        _ => (Some((first, who)), others.max(first + Ps(1))),
    }
}

impl Machine {
    /// Runs with timing models; see [`Machine::run`].
    pub(crate) fn run_noting(&mut self, limits: &Limits) -> Outcome {
        if self.harts.len() > 1 && self.config.core.lookahead > Ps::ZERO {
            return self.run_in_turns(limits);
        }
        loop {
            if let Some(outcome) = self.ended(limits) {
                return outcome;
            }
            let next_event = self.queue.next_time();
            let horizon = next_event.min(limits.time);
            let ready = self.harts.ready().iter().copied().enumerate();
            let (first, mut others) = earliest(ready);
            let turn = first.map_or(horizon, |(time, _)| horizon.min(time));
            if self.beside.is_some() && turn < Ps::MAX {
                let next = self.run_beside(turn);
                others = others.min(next.max(turn + Ps(1)));
                if self.outcome.is_some() {
                    continue;
                }
            }
            match (first, others) {
                (Some((time, hart)), others) if time < horizon => {
                    if self.instructions_left(limits) == 0 {
                        return Outcome::Instructions;
                    }
                    self.run_hart_noting(hart, horizon.min(others), limits);
                }
                _ if next_event <= limits.time && next_event < Ps::MAX => {
                    self.handle_next_event();
                }
                (None, _) if next_event == Ps::MAX => return self.asleep(limits),
                _ => {
                    self.reached = self.reached.max(limits.time);
                    return Outcome::Time;
                }
            }
        }
    }

    /// Executes blocks of a hart until its time has come to `until` or it stops for something.
    pub(crate) fn run_hart_noting(&mut self, index: usize, until: Ps, limits: &Limits) -> Stop {
        let mut timing = self.timing.take().expect("the machine has timing models");
        timing.look_at_sibling(index, &self.harts);
        let end = self.instructions_left(limits).saturating_add(self.harts[index].instructions());
        // A limit does not cut a block: it would let an event in where there is none without the limit.
        let until = Until { cycle: self.harts[index].slot_at(until), instructions: end };
        let stop = loop {
            let hart = &mut self.harts[index];
            if hart.slots() >= until.cycle || hart.instructions() >= end {
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
            let (op, leaves) = (device_op(hart, &self.ram, &request), hart.slots());
            timing.record(index, (hart, &self.ram), Ended::Access(op), leaves);
        }
        self.timing = Some(timing);
        if let Some(stop) = stop {
            self.act_on(index, stop, limits);
        }
        stop.unwrap_or(Stop::Slot)
    }

    /// A hart's access to a device leaves its core.
    pub(crate) fn device_start(&mut self, hart: u32) {
        let request =
            self.harts[hart as usize].pending_mmio().expect("a hart waits for each access under way");
        self.start_device_access(hart, request);
    }

    /// A device access is over at `now`: for a store, the device beside the root complex has it.
    pub(crate) fn device_over(&mut self, hart: u32, now: Ps) {
        self.device_over_at(hart, [now; 2]);
    }

    /// A device access is over: for a store, when the root complex has it, and when the core is told.
    pub(crate) fn device_over_at(&mut self, hart: u32, over: [Ps; 2]) {
        let (id, hart) = (hart as usize, &mut self.harts[hart as usize]);
        match (&mut self.timing, &mut self.recording) {
            (Some(timing), _) => timing.end_device(id, hart, over.map(|at| hart.slot_at(at))),
            (None, Some(recording)) => recording.reached(id, hart.time()),
            (None, None) => {}
        }
    }
}

/// What a recording is told of.
enum Ended {
    Block { trapped: bool },
    Access(Op),
}

impl Timing {
    /// Takes one block of a source and prices it; or, warming, as many as the source may go on with.
    pub(crate) fn block<S: OpSource>(
        &mut self,
        id: usize,
        source: &mut S,
        world: &mut S::World,
        until: Until,
    ) -> BlockEnd<S::Stop> {
        let begun = source.cycle();
        let has_slept = self.mode == Mode::Detailed && self.harts[id].core.has_slept_until(begun);
        self.turn(id);
        let timed = &mut self.harts[id];
        if has_slept {
            timed.core.skip_to(begun);
            self.polls.interrupted(id);
            if let Some(watch) = &mut self.watch {
                watch.idle(id, begun);
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
        let watched = self.before_watched(id);
        let timed = &mut self.harts[id];
        self.memory.advance_hart(id / self.threads, id % self.threads, timed.core.next_fetch());
        if watched.is_some_and(|(_, logged)| logged) {
            self.execute_logged(id, source, world);
        } else {
            // The one place of this call, so that the compiler puts the whole core here.
            let id = id / self.threads;
            timed.core.execute(&self.ops, &mut Around { id, source, world, memory: &mut self.memory });
        }
        if let Some((misses, _)) = watched {
            self.look(id, source.thread(), source.instructions() - before, misses);
        }
        let core = &mut self.harts[id].core;
        if trapped {
            core.trap();
            if self.ops.is_empty() {
                // A guest whose trap handler traps at once must not stand still in time.
                core.skip_to(core.now() + u64::from(core.config().trap_cycles));
            }
        }
        let byte = |addr| source.byte(world, addr);
        self.polls.look(id, &self.ops, byte, source.instructions(), core.now());
        if trapped {
            self.polls.interrupted(id);
        }
        source.set_cycle(core.clock().max(begun));
        self.record(id, (source, world), Ended::Block { trapped }, begun);
        source.take_back(&mut self.ops);
        self.fence(id, source);
        self.rest(id, source);
        end
    }

    /// A source that sleeps, waits or has ended asks memory for nothing until its next block.
    #[inline]
    fn rest<S: OpSource>(&mut self, id: usize, source: &S) {
        let TimedHart { core, .. } = &self.harts[id];
        if !source.is_ready() || core.has_slept_until(source.cycle()) {
            self.rests(id);
        }
    }

    /// A source waits for something before its next block.
    pub(crate) fn rests(&mut self, id: usize) {
        self.memory.hart_sleeps(id / self.threads, id % self.threads);
    }

    /// The block that was taken last is over; or an access to a device, at which the source has stopped, leaves its core.
    #[inline]
    fn record<S: OpSource>(
        &mut self,
        id: usize,
        (source, world): (&mut S, &S::World),
        what: Ended,
        begun: u64,
    ) {
        let Some(recording) = self.recording.as_mut().filter(|recording| recording.records(id)) else {
            return;
        };
        let (ops, trapped) = match &what {
            Ended::Block { trapped } => (&self.ops[..], *trapped),
            Ended::Access(op) => (std::slice::from_ref(op), false),
        };
        // The space of the block, which may have ended in another.
        let TimedHart { clock, space, .. } = &self.harts[id];
        let (begun, over) = (clock.edge(begun), clock.edge(source.cycle()));
        let block = Executed { hart: id, ops, trapped, space: *space, begun, over };
        recording.executed(&block, source, world);
    }

    /// Warming: goes through blocks of a source, from which caches, TLBs and predictors learn.
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
                let (begun, before) = (source.cycle(), source.instructions());
                let end = source.block(world, &mut self.ops);
                learn_ops(&self.ops, |virt| source.walk(world, virt), &mut learner);
                let (done, trapped) = (source.instructions() - before, matches!(end, BlockEnd::Trapped));
                source.set_cycle(begun + learner.end_block(done, trapped));
                self.record(id, (source, world), Ended::Block { trapped }, begun);
                end
            }
        };
        source.take_back(&mut self.ops);
        self.fence(id, source);
        end
    }

    /// Translations that software has declared void are dropped.
    #[inline]
    fn fence<S: OpSource>(&mut self, id: usize, source: &mut S) {
        if let Some(fence) = source.take_translation_fence() {
            self.harts[id].core.flush_tlb(fence.address, fence.space);
            if let Some(recording) = self.recording.as_mut().filter(|recording| recording.records(id)) {
                recording.fence(id, fence);
            }
        }
    }

    /// A device access, at which a source has stopped, reaches the head of the window. The source's time is when it leaves the core.
    pub fn begin_device<S: OpSource>(&mut self, id: usize, source: &mut S, world: &S::World, op: Op) {
        let leaves = source.cycle();
        let watched = self.before_watched(id);
        self.turn(id);
        let (timed, core) = (&mut self.harts[id], id / self.threads);
        self.memory.advance_hart(core, id % self.threads, timed.core.next_fetch());
        let begun =
            timed.core.begin_device(&op, &mut Around { id: core, source, world, memory: &mut self.memory });
        timed.device = Some(op);
        self.memory.count_mmio(op.flags & Op::WRITES != 0);
        if let Some((misses, _)) = watched {
            self.begin_device_watched(id, misses);
        }
        source.set_cycle(begun);
        self.record(id, (source, world), Ended::Access(op), leaves);
    }

    /// The device access that has begun, if any has, is over, for its core is not detailed any more.
    pub(super) fn cut_device(&mut self, id: usize, done: u64) {
        if let Some(op) = self.harts[id].device.take() {
            self.turn(id);
            self.harts[id].core.end_device(&op, [done; 2]);
        }
    }

    /// The device access that has begun, if any has, is over in the first of two cycles, and its core is told in the second.
    pub fn end_device<S: OpSource>(&mut self, id: usize, source: &mut S, done: [u64; 2]) {
        if let Some(op) = self.harts[id].device.take() {
            self.turn(id);
            self.end_device_watched(id, source.thread(), &op, done);
            source.set_cycle(self.core(id).clock().max(done[0]));
        }
        if let Some(recording) = &mut self.recording {
            recording.reached(id, self.harts[id].clock.edge(source.cycle()));
        }
    }
}

/// The op of the device access that a hart waits for.
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
