//! Functional execution that is listened to: the same run loop, and after each block what of it retired, as timing models' ops.

use doorbell_sim::{Allowance, Op as TimedOp, OpSource, Ram, TranslationFence};

use super::Exit;
use super::block::{BlockId, Engine};
use super::known::{Key, KnownBlocks};
use super::noted::Retired;
use crate::hart::{Hart, Privilege, Stop};

/// What the run loop tells.
pub(super) trait Told {
    /// Whether addresses are noted, without which there are no ops.
    const NOTES: bool;

    /// A block is about to run.
    fn before(&mut self, hart: &mut Hart);

    /// It has run, and was left so.
    fn after(&mut self, hart: &mut Hart, engine: &Engine, ram: &Ram, block: (BlockId, Exit));

    /// An interrupt was taken, or there was nothing to execute.
    fn trap(&mut self, hart: &mut Hart, ram: &Ram);
}

/// Nobody listens.
pub(super) struct Untold;

impl Told for Untold {
    const NOTES: bool = false;

    #[inline(always)]
    fn before(&mut self, _: &mut Hart) {}

    #[inline(always)]
    fn after(&mut self, _: &mut Hart, _: &Engine, _: &Ram, _: (BlockId, Exit)) {}

    #[inline(always)]
    fn trap(&mut self, _: &mut Hart, _: &Ram) {}
}

/// What was executed of a block, or of several.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// What retired.
    pub ops: BlockOps<'a>,
    /// How many instructions these are.
    pub instructions: u64,
    /// Whether an exception or interrupt was taken behind them.
    pub trapped: bool,
    /// The address space that they were executed in.
    pub space: Option<u16>,
    /// What tells the program's threads apart, behind it.
    pub thread: u64,
    /// A number that only blocks have of which nothing differs but addresses of accesses and computed targets, if there is one.
    pub number: Option<u32>,
    /// Translations that it declared void.
    pub fence: Option<TranslationFence>,
}

/// What retired of a block.
#[derive(Clone, Copy, Debug)]
pub enum BlockOps<'a> {
    /// One by one.
    Listed(&'a [TimedOp]),
    /// Of several blocks those that their numbers stand for ([`numbered`](doorbell_sim::numbered)).
    Known(&'a [u64]),
}

/// Tells `to` of blocks.
struct Telling<'a, F> {
    to: F,
    known: &'a mut KnownBlocks,
    /// Of the running block.
    space: Option<u16>,
    privileged: bool,
    retired: u64,
}

impl<F: FnMut(&Hart, &Ram, Block<'_>) -> Allowance> Telling<'_, F> {
    /// Tells what was held back.
    fn tell_held(&mut self, hart: &Hart, ram: &Ram) {
        if let Some(held) = self.known.held() {
            let allowance = (self.to)(hart, ram, held);
            self.known.told_held(allowance);
        }
    }
}

impl<F: FnMut(&Hart, &Ram, Block<'_>) -> Allowance> Told for Telling<'_, F> {
    const NOTES: bool = true;

    #[inline(always)]
    fn before(&mut self, hart: &mut Hart) {
        hart.forget_notes();
        self.space = hart.address_space();
        self.privileged = hart.privilege != Privilege::User;
        self.retired = hart.instret;
    }

    #[inline(always)]
    fn after(&mut self, hart: &mut Hart, engine: &Engine, ram: &Ram, (block, exit): (BlockId, Exit)) {
        let instructions = hart.instret - self.retired;
        let trapped = exit == Exit::Trapped;
        if instructions == 0 && !trapped {
            return;
        }
        let (space, privileged) = (self.space, self.privileged);
        // Others end where the ops alone do not say.
        let key = matches!(exit, Exit::Next | Exit::Taken | Exit::Indirect).then(|| {
            let (generation, count) = (engine.code.generation(), instructions as u32);
            Key { pc: hart.block_pc, block, generation, count, exit, privileged }
        });
        let number = key.and_then(|key| self.known.find(&key));
        let thread = hart.thread();
        if self.known.holds_of_another(thread) {
            self.tell_held(hart, ram);
            self.known.holds_for(thread);
        }
        if let Some(number) = number
            && self.known.hold(number, hart, space, instructions)
        {
            if self.known.holds_all() {
                self.tell_held(hart, ram);
            }
            return;
        }
        self.tell_held(hart, ram);
        let told =
            Block { ops: BlockOps::Listed(&[]), instructions, trapped, space, thread, number, fence: None };
        let fence = hart.take_translation_fence();
        if let Some(ops) = number.and_then(|number| self.known.again(number, hart, ram)) {
            let era = (self.to)(hart, ram, Block { ops: BlockOps::Listed(ops), fence, ..told });
            self.known.told(number, hart, space, era);
            return;
        }
        self.known.scratch.clear();
        let what = Retired { count: instructions as usize, exit, fetch: engine.code.phys(block), privileged };
        hart.note_ops(engine, ram, block, what, &mut self.known.scratch);
        let number = key.filter(|_| number.is_none()).and_then(|key| self.known.learn(key));
        let ops = BlockOps::Listed(&self.known.scratch);
        let era = (self.to)(hart, ram, Block { ops, number, fence, ..told });
        self.known.told(number, hart, space, era);
    }

    fn trap(&mut self, hart: &mut Hart, ram: &Ram) {
        self.tell_held(hart, ram);
        let (space, fence) = (hart.address_space(), hart.take_translation_fence());
        let (ops, thread) = (BlockOps::Listed(&[]), hart.thread());
        let era = (self.to)(
            hart,
            ram,
            Block { ops, instructions: 0, trapped: true, space, thread, number: None, fence },
        );
        self.known.told(None, hart, space, era);
    }
}

impl Hart {
    /// Runs as [`run`](Hart::run) does, to the same slot and the same end, and tells `to` of each block, which says what may be told by numbers
    /// from then on. `known` is this hart's.
    pub fn run_recorded(
        &mut self,
        ram: &mut Ram,
        until: u64,
        known: &mut KnownBlocks,
        to: impl FnMut(&Hart, &Ram, Block<'_>) -> Allowance,
    ) -> Stop {
        let mut telling = Telling { to, known, space: None, privileged: false, retired: 0 };
        let stop = self.run_telling(ram, until, &mut telling);
        telling.tell_held(self, ram);
        stop
    }
}
