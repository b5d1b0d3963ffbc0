//! Functional warming: execution that trains caches, TLBs and predictors without advancing time. It is like
//! [timed execution](super::timed_exec), but only events that train something are reported, and only branches
//! are assembled as ops.

use doorbell_sim::learn::{is_within_line, kind_of};
use doorbell_sim::memory::{CoreAccess, LINE_BYTES};
use doorbell_sim::{Learner, Op as TimedOp, OpClass, PhysAddr, Ram, Until};

use super::Exit;
use super::block::{BlockId, Engine};
use super::timed_exec::{Retired, Turn};
use crate::hart::Hart;

/// A warming event of a block: a memory access, the first instruction in a line, or a branch.
#[derive(Clone, Copy)]
pub(crate) struct WarmEvent {
    /// The op's index in its block.
    op: u8,
    /// Class of the access or branch; `Int` for the first instruction in a line, which may have another event
    /// after it.
    class: OpClass,
    /// Bytes accessed; for a branch, the instruction's length.
    bytes: u8,
    /// Byte offset from the block's start.
    offset: u16,
}

/// Appends the warming events of a block at `phys`, without its first line.
pub(super) fn append_warm_events(templates: &[TimedOp], phys: PhysAddr, events: &mut Vec<WarmEvent>) {
    let mut line = phys.0 / LINE_BYTES;
    for (op, template) in (0..).zip(templates) {
        let mut event =
            |class, bytes| events.push(WarmEvent { op, class, bytes, offset: template.pc as u16 });
        let here = (phys.0 + template.pc) / LINE_BYTES;
        if here != line {
            line = here;
            event(OpClass::Int, 0);
        }
        match template.class {
            class if class.is_memory() => event(class, template.size),
            class if class.is_branch() => event(class, template.length),
            _ => {}
        }
    }
}

impl Hart {
    /// Executes blocks that train `learner`, which also sets their duration. Runs at least one block, and
    /// continues until `until` or until a block ends other than by continuing to the next one.
    #[inline]
    pub fn run_learning(&mut self, ram: &mut Ram, until: Until, learner: &mut impl Learner) -> Turn {
        self.with_logging_engine(ram, |hart, engine, ram| {
            loop {
                let (start, before) = (hart.slots, hart.instret);
                let left = hart.run_turn(engine, ram, u64::MAX, &mut |hart, engine, ram, block, what| {
                    hart.warm_block(engine, ram, block, &what, learner);
                });
                let trapped = matches!(left, Ok(Exit::Trapped) | Err(Turn::Trapped));
                hart.slots = start + learner.end_block(hart.instret - before, trapped);
                let over = hart.slots >= until.cycle.number() || hart.instret >= until.instructions;
                match left {
                    Err(turn) => return turn,
                    Ok(Exit::Next | Exit::Taken | Exit::Indirect) if !over => {}
                    Ok(exit) => return hart.turn_after(exit),
                }
            }
        })
    }

    /// Trains `learner` with the retired instructions of a block.
    #[inline]
    fn warm_block(
        &self,
        engine: &Engine,
        ram: &Ram,
        block: BlockId,
        what: &Retired,
        learner: &mut impl Learner,
    ) {
        if what.count == 0 {
            return;
        }
        let pc_at = |offset: u16| self.block_pc.wrapping_add(u64::from(offset));
        let fetch_at = |offset: u16| PhysAddr(what.fetch.0.wrapping_add(u64::from(offset)));
        let walk = |virt| self.page_walk(ram, virt);
        learner.instruction(pc_at(0), fetch_at(0), walk);
        let mut accesses = 0;
        for event in engine.code.warm_events(block) {
            if usize::from(event.op) >= what.count {
                break;
            }
            let pc = pc_at(event.offset);
            match event.class {
                OpClass::Load | OpClass::Store | OpClass::Atomic => {
                    let virt = self.access_log.address(accesses);
                    accesses += 1;
                    self.warm_access(ram, event.class, pc, virt, learner);
                    if !is_within_line(virt, event.bytes) {
                        self.warm_second_line(ram, event.class, pc, virt, learner);
                    }
                }
                OpClass::Prefetch => {
                    let template = &engine.code.templates(block)[usize::from(event.op)];
                    self.warm_prefetch(ram, template, pc, self.access_log.address(accesses), learner);
                    accesses += 1;
                }
                OpClass::Int => learner.instruction(pc, fetch_at(event.offset), walk),
                class => {
                    let flags = if what.exit == Exit::Next { 0 } else { TimedOp::TAKEN };
                    let (virt, length) = (self.pc, event.bytes);
                    learner.branch(&TimedOp { pc, virt, class, length, flags, ..TimedOp::default() });
                }
            }
        }
    }

    #[inline(always)]
    fn warm_access(&self, ram: &Ram, class: OpClass, pc: u64, virt: u64, learner: &mut impl Learner) {
        let access = CoreAccess { kind: kind_of(class), addr: self.physical(ram, virt), pc };
        learner.data(access, virt, |virt| self.page_walk(ram, virt));
    }

    /// Trains with the second line of an access that crosses lines.
    #[cold]
    fn warm_second_line(&self, ram: &Ram, class: OpClass, pc: u64, virt: u64, learner: &mut impl Learner) {
        let next = virt.wrapping_add(LINE_BYTES - virt % LINE_BYTES);
        self.warm_access(ram, class, pc, next, learner);
    }

    /// Trains with a prefetch, unless it has no access permission.
    #[cold]
    fn warm_prefetch(&self, ram: &Ram, template: &TimedOp, pc: u64, virt: u64, learner: &mut impl Learner) {
        let Some(phys) = self.prefetch_address(ram, virt) else { return };
        let op = TimedOp { pc, phys, ..*template };
        learner.prefetch(CoreAccess::of_prefetch(&op), virt, |virt| self.page_walk(ram, virt));
    }
}
