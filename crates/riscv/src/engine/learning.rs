//! Execution from which caches, TLBs and predictors learn without time passing: as [noted](super::noted), but nothing is told of
//! what they do not learn from, and no op is put together but that of a branch.

use doorbell_sim::learn::{is_within_line, kind_of};
use doorbell_sim::memory::{CoreAccess, LINE_BYTES};
use doorbell_sim::{Learner, Op as TimedOp, OpClass, PhysAddr, Ram, Until};

use super::Exit;
use super::block::{BlockId, Engine};
use super::noted::{Retired, Turn};
use crate::hart::Hart;

/// What there is to learn from an op of a block: its access to memory, that a line of instructions begins with it, or where it went.
#[derive(Clone, Copy)]
pub(crate) struct Lesson {
    /// The op's number in its block.
    op: u8,
    /// Of the access or the branch; `Int` of the first instruction of a line, which may have another lesson behind it.
    class: OpClass,
    /// Bytes accessed; of a branch, bytes of the instruction.
    bytes: u8,
    /// Bytes from the block's beginning.
    offset: u16,
}

/// Appends what there is to learn from a block that begins at `phys`, but for its first line.
pub(super) fn teach(templates: &[TimedOp], phys: PhysAddr, lessons: &mut Vec<Lesson>) {
    let mut line = phys.0 / LINE_BYTES;
    for (op, template) in (0..).zip(templates) {
        let mut lesson = |class, bytes| lessons.push(Lesson { op, class, bytes, offset: template.pc as u16 });
        let here = (phys.0 + template.pc) / LINE_BYTES;
        if here != line {
            line = here;
            lesson(OpClass::Int, 0);
        }
        match template.class {
            class if class.is_memory() => lesson(class, template.size),
            class if class.is_branch() => lesson(class, template.length),
            _ => {}
        }
    }
}

impl Hart {
    /// Executes blocks, from which `learner` learns and which take as long as it says: one at least, and on until `until` has come or a
    /// block has ended otherwise than that another one follows it.
    #[inline]
    pub fn run_learning(&mut self, ram: &mut Ram, until: Until, learner: &mut impl Learner) -> Turn {
        self.with_noting_engine(ram, |hart, engine, ram| {
            loop {
                let (begun, before) = (hart.slots, hart.instret);
                let left = hart.told_turn(engine, ram, u64::MAX, &mut |hart, engine, ram, block, what| {
                    hart.learn_block(engine, ram, block, &what, learner);
                });
                let trapped = matches!(left, Ok(Exit::Trapped) | Err(Turn::Trapped));
                hart.slots = begun + learner.block_over(hart.instret - before, trapped);
                let over = hart.slots >= until.cycle || hart.instret >= until.instructions;
                match left {
                    Err(turn) => return turn,
                    Ok(Exit::Next | Exit::Taken | Exit::Indirect) if !over => {}
                    Ok(exit) => return hart.turn_after(exit),
                }
            }
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
        for lesson in engine.code.lessons(block) {
            if usize::from(lesson.op) >= what.count {
                break;
            }
            let pc = pc_at(lesson.offset);
            match lesson.class {
                OpClass::Load | OpClass::Store | OpClass::Atomic => {
                    let virt = self.notes.address(noted);
                    noted += 1;
                    self.learn_access(ram, lesson.class, pc, virt, learner);
                    if !is_within_line(virt, lesson.bytes) {
                        self.learn_second_line(ram, lesson.class, pc, virt, learner);
                    }
                }
                OpClass::Prefetch => {
                    self.learn_prefetch(engine, ram, (block, lesson, pc, self.notes.address(noted)), learner);
                    noted += 1;
                }
                OpClass::Int => learner.instruction(pc, fetch_at(lesson.offset), walk),
                class => {
                    let flags = if what.exit == Exit::Next { 0 } else { TimedOp::TAKEN };
                    let (virt, length) = (self.pc, lesson.bytes);
                    learner.branch(&TimedOp { pc, virt, class, length, flags, ..TimedOp::default() });
                }
            }
        }
    }

    #[inline(always)]
    fn learn_access(&self, ram: &Ram, class: OpClass, pc: u64, virt: u64, learner: &mut impl Learner) {
        let access = CoreAccess { kind: kind_of(class), addr: self.physical(ram, virt), pc };
        learner.data(access, virt, |virt| self.page_walk(ram, virt));
    }

    /// The rest of an access that crosses a line.
    #[cold]
    fn learn_second_line(&self, ram: &Ram, class: OpClass, pc: u64, virt: u64, learner: &mut impl Learner) {
        let next = virt.wrapping_add(LINE_BYTES - virt % LINE_BYTES);
        self.learn_access(ram, class, pc, next, learner);
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
        let op = TimedOp { pc, phys, ..engine.code.templates(block)[usize::from(lesson.op)] };
        learner.prefetch(CoreAccess::of_prefetch(&op), virt, |virt| self.page_walk(ram, virt));
    }
}
