//! How timed harts run: block by block, each at its core's pace.
//!
//! The hart that is earliest executes its next block, functionally and at once; its time is then the commit time of the
//! block's last op. So what a block reads of memory is what was there when the op before it committed: at most one drain
//! of the window (and one block) earlier than a real core would have read it. Reads of the time begin a block. Accesses to
//! devices leave at the head of the window and execute as events, in order with all others. Page walks find the tables as
//! they are after the block.

use doorbell_riscv::{Hart, MmioRequest, Stop, Turn};
use doorbell_sim::{Op, OpClass, Phase, Ps, Ram};

use super::{Around, Mode, Timing};
use crate::events::Event;
use crate::machine::Machine;
use crate::run::{Limits, Outcome};

impl Machine {
    /// Runs with timing models; see [`Machine::run`].
    pub(crate) fn run_noting(&mut self, limits: &Limits) -> Outcome {
        loop {
            if let Some(outcome) = self.ended(limits) {
                return outcome;
            }
            let next_event = self.queue.next_time();
            let horizon = next_event.min(limits.time);
            match self.earliest_harts() {
                (Some((time, hart)), others) if time < horizon => {
                    if self.instructions() >= limits.instructions {
                        return Outcome::Instructions;
                    }
                    self.run_hart_noting(hart, horizon.min(others), limits);
                }
                _ if next_event <= limits.time && next_event < Ps::MAX => self.handle_next_event(),
                (None, _) if next_event == Ps::MAX => return self.asleep(limits),
                _ => {
                    self.reached = self.reached.max(limits.time);
                    return Outcome::Time;
                }
            }
        }
    }

    /// The hart that is earliest (of equals, the first), and the time from which on another is.
    fn earliest_harts(&self) -> (Option<(Ps, usize)>, Ps) {
        let (mut first, mut others) = (None, Ps::MAX);
        for (index, hart) in self.harts.iter().enumerate().filter(|(_, hart)| Machine::can_run(hart)) {
            match first {
                Some((time, _)) if time <= hart.time() => others = others.min(hart.time()),
                _ => {
                    others = first.map_or(others, |(time, _)| others.min(time));
                    first = Some((hart.time(), index));
                }
            }
        }
        // At the same time both take a block in turn.
        (first, others.max(first.map_or(Ps::ZERO, |(time, _)| time + Ps(1))))
    }

    /// Executes blocks of a hart until its time has come to `until` or it stops for something.
    fn run_hart_noting(&mut self, index: usize, until: Ps, limits: &Limits) {
        let mut timing = self.timing.take().expect("the machine has timing models");
        let end = limits.instructions - self.instructions() + self.harts[index].instructions();
        // A limit does not cut a block: it would let an event in where there is none without the limit.
        let until_slot = self.harts[index].slot_at(until);
        let stop = loop {
            let hart = &mut self.harts[index];
            if hart.slots() >= until_slot || hart.instructions() >= end {
                break None;
            }
            if let Turn::Stopped(stop) = timing.block(index, hart, &mut self.ram) {
                break Some(stop);
            }
        };
        if let Some(Stop::Mmio(request)) = stop
            && timing.mode == Mode::Detailed
        {
            timing.begin_device(index, &mut self.harts[index], &self.ram, request);
            let at = self.harts[index].time();
            self.queue.schedule(at, Phase::Mmio, Event::DeviceStart { hart: index as u32 });
            self.timing = Some(timing);
            return;
        }
        self.timing = Some(timing);
        if let Some(stop) = stop {
            self.act_on(index, stop, limits);
        }
    }

    /// A hart's access to a device leaves its core.
    pub(crate) fn device_start(&mut self, hart: u32) {
        let request =
            self.harts[hart as usize].pending_mmio().expect("a hart waits for each access under way");
        self.start_device_access(hart, request);
    }

    /// A device access is over at `now`: for a store, the root complex or the device beside it has it.
    pub(crate) fn device_over(&mut self, hart: u32, now: Ps) {
        let Some(timing) = &mut self.timing else { return };
        let Some(op) = timing.harts[hart as usize].device.take() else { return };
        let (id, hart) = (hart as usize, &mut self.harts[hart as usize]);
        timing.end_device_watched(id, hart, &op, hart.slot_at(now));
        hart.rebase(timing.core(id).now());
    }
}

impl Timing {
    /// Executes one block.
    fn block(&mut self, id: usize, hart: &mut Hart, ram: &mut Ram) -> Turn {
        let timed = &mut self.harts[id];
        let begun = hart.slots();
        if begun > timed.core.now() && self.mode == Mode::Detailed {
            timed.core.skip_to(begun);
            self.polls.interrupted(id);
            if let Some(watch) = &mut self.watch {
                watch.idle(id, begun);
            }
        }
        let space = hart.address_space();
        if space != timed.space {
            timed.space = space;
            timed.core.set_address_space(space);
        }
        self.ops.clear();
        let before = hart.instructions();
        let turn = hart.run_noted(ram, u64::MAX, &mut self.ops);
        if let Some(recorded) = &mut self.recorded {
            recorded.extend_from_slice(&self.ops);
        }
        let watched = self.before_watched(id);
        let timed = &mut self.harts[id];
        let mut around = Around { id, hart, ram, memory: &mut self.memory };
        if self.mode == Mode::Detailed {
            if watched.is_some_and(|(_, logged)| logged) {
                self.execute_logged(id, hart, ram);
            } else {
                // The one place of this call, so that the compiler puts the whole core here.
                timed.core.execute(&self.ops, &mut around);
            }
            if let Some((misses, _)) = watched {
                self.look(id, hart, hart.instructions() - before, misses);
            }
            let core = &mut self.harts[id].core;
            if turn == Turn::Trapped {
                core.trap();
                if self.ops.is_empty() {
                    // A guest whose trap handler traps at once must not stand still in time.
                    core.skip_to(core.now() + u64::from(core.config().trap_cycles));
                }
            }
            self.polls.look(id, &self.ops, ram, hart.instructions(), core.now());
            hart.rebase(core.now());
        } else {
            timed.core.warm(&self.ops, &mut around);
            // A trap takes time too, lest a guest that does nothing else stand still.
            let done = (hart.instructions() - before).max(u64::from(turn == Turn::Trapped));
            hart.rebase(begun + timed.warming_cycles(done));
            self.warm_caches(id);
        }
        if let Some(fence) = hart.take_translation_fence() {
            self.harts[id].core.flush_tlb(fence.address, fence.space);
        }
        turn
    }

    /// The op of a device access reaches the head of the window; the hart's time is when it leaves the core.
    fn begin_device(&mut self, id: usize, hart: &mut Hart, ram: &Ram, request: MmioRequest) {
        let op = device_op(hart, ram, &request);
        if let Some(recorded) = &mut self.recorded {
            recorded.push(op);
        }
        let watched = self.before_watched(id);
        let mut around = Around { id, hart, ram, memory: &mut self.memory };
        let timed = &mut self.harts[id];
        let begun = timed.core.begin_device(&op, &mut around);
        timed.device = Some(op);
        self.memory.count_mmio(request.store_value().is_some());
        if let Some((misses, _)) = watched {
            self.begin_device_watched(id, misses);
        }
        hart.rebase(begun);
    }
}

/// The op of the device access that a hart waits for.
pub(super) fn device_op(hart: &Hart, ram: &Ram, request: &MmioRequest) -> Op {
    Op {
        pc: hart.pc(),
        fetch: hart.fetch_address(ram),
        virt: request.addr.0,
        phys: request.addr,
        class: OpClass::Device,
        size: request.size.bytes() as u8,
        length: 4,
        flags: if request.store_value().is_some() { Op::WRITES } else { 0 },
        ..Op::default()
    }
}
