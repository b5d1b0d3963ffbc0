//! Execution from which caches, TLBs and predictors learn without time passing: as [noted](super::noted), but nothing is told of
//! what they do not learn from, and no op is put together but that of a branch.

use doorbell_sim::learn::{is_in_a_line, kind_of};
use doorbell_sim::memory::{CoreAccess, LINE_BYTES};
use doorbell_sim::{Learner, Op as TimedOp, OpClass, PhysAddr, Ram};

use super::Exit;
use super::block::{BlockId, Engine};
use super::noted::{Retired, Turn};
use crate::hart::Hart;

/// What there is to learn from an op of a block: its access to memory, or that a line of instructions begins with it.
#[derive(Clone, Copy)]
pub(crate) struct Lesson {
    /// The op's number in its block.
    op: u8,
    /// Of the access; the first instruction of a line has another class.
    class: OpClass,
    /// Bytes accessed.
    size: u8,
    /// Bytes from the block's beginning.
    offset: u16,
}

/// Appends what there is to learn from a block that begins at `phys`, but for its first line and its branch.
pub(super) fn teach(templates: &[TimedOp], phys: PhysAddr, lessons: &mut Vec<Lesson>) {
    let mut line = phys.0 / LINE_BYTES;
    for (op, template) in (0..).zip(templates) {
        let lesson = |class| Lesson { op, class, size: template.size, offset: template.pc as u16 };
        let here = (phys.0 + template.pc) / LINE_BYTES;
        if here != line {
            line = here;
            lessons.push(lesson(OpClass::Int));
        }
        if template.class.is_memory() {
            lessons.push(lesson(template.class));
        }
    }
}

impl Hart {
    /// Executes at most one block, from which `learner` learns. The caller sets the hart's time afterwards.
    #[inline]
    pub fn run_learning(&mut self, ram: &mut Ram, learner: &mut impl Learner) -> Turn {
        self.run_told(ram, u64::MAX, &mut |hart, engine, ram, block, what| {
            hart.learn_block(engine, ram, block, &what, learner);
        })
    }

    /// Lets `learner` learn from the instructions of a block that retired.
    #[inline]
    fn learn_block(
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
        let mut noted = 0;
        for lesson in engine.lessons(block) {
            if usize::from(lesson.op) >= what.count {
                break;
            }
            let pc = pc_at(lesson.offset);
            if !lesson.class.is_memory() {
                learner.instruction(pc, fetch_at(lesson.offset), walk);
                continue;
            }
            let virt = self.noted_address(noted);
            noted += 1;
            if lesson.class == OpClass::Prefetch {
                self.learn_prefetch(engine, ram, (block, lesson, pc, virt), learner);
                continue;
            }
            let mut data = |virt| {
                let access = CoreAccess { kind: kind_of(lesson.class), addr: self.physical(ram, virt), pc };
                learner.data(access, virt, walk);
            };
            data(virt);
            if !is_in_a_line(virt, lesson.size) {
                data(virt.wrapping_add(LINE_BYTES - virt % LINE_BYTES));
            }
        }
        let last = &engine.templates(block)[what.count - 1];
        if last.class.is_branch() {
            let taken = if what.exit == Exit::Next { 0 } else { TimedOp::TAKEN };
            learner.branch(&TimedOp {
                pc: self.block_pc.wrapping_add(last.pc),
                virt: self.pc,
                flags: last.flags | taken,
                ..*last
            });
        }
    }

    /// A prefetch that may access no line asks for none.
    #[cold]
    fn learn_prefetch(
        &self,
        engine: &Engine,
        ram: &Ram,
        (block, lesson, pc, virt): (BlockId, &Lesson, u64, u64),
        learner: &mut impl Learner,
    ) {
        let Some(phys) = self.prefetch_address(ram, virt) else { return };
        let op = TimedOp { pc, phys, ..engine.templates(block)[usize::from(lesson.op)] };
        learner.prefetch(CoreAccess::of_prefetch(&op), virt, |virt| self.page_walk(ram, virt));
    }
}
