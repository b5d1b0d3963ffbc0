//! Functional execution that is listened to: the same run loop, and after each block what of it retired, as timing models' ops.

use doorbell_sim::{Allowance, Op as TimedOp, OpSource, Ram, TranslationFence};

use super::Exit;
use super::block::{BlockId, Engine};
use super::key::Key;
use super::known::{At, KnownBlocks, Within};
use super::noted::Retired;
use crate::hart::{Hart, Privilege, Stop};

/// What the run loop tells.
pub(super) trait Told {
    /// Whether addresses are noted, without which there are no ops.
    const NOTES: bool;

    /// A block is about to run.
    fn before(&mut self, hart: &mut Hart);

    /// It has run, and was left so; whole if it is said, or else as much of it as the turn had room for.
    fn after(&mut self, hart: &mut Hart, engine: &Engine, ram: &Ram, block: (BlockId, Exit), whole: bool);

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
    fn after(&mut self, _: &mut Hart, _: &Engine, _: &Ram, _: (BlockId, Exit), _: bool) {}

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
    /// Instructions before the running block.
    retired: u64,
}

impl<F: FnMut(&Hart, &Ram, Block<'_>) -> Allowance> Telling<'_, F> {
    /// Looks at what the next block is executed in: until one is left otherwise than by going on, or an interrupt is taken, all are.
    fn look(&mut self, hart: &mut Hart) {
        let privileged = hart.privilege != Privilege::User;
        let within = Within { space: hart.address_space(), privileged };
        self.known.executes_in(within, &mut hart.notes);
    }

    /// Tells what was held back.
    fn tell_held(&mut self, hart: &mut Hart, ram: &Ram) {
        if let Some(held) = self.known.held_in(&hart.notes) {
            let allowance = (self.to)(hart, ram, held);
            self.known.let_go(&mut hart.notes, allowance);
        }
    }

    /// Holds a block back, if that is possible at once.
    #[inline(always)]
    fn hold(&mut self, hart: &mut Hart, ram: &Ram, at: At) -> bool {
        let holds = self.known.hold(hart, at);
        if holds && self.known.holds_all(&hart.notes) {
            self.tell_held(hart, ram);
        }
        holds
    }

    /// A block was executed that was not held back at once.
    #[inline(never)]
    fn tell(
        &mut self,
        hart: &mut Hart,
        engine: &Engine,
        ram: &Ram,
        (block, exit): (BlockId, Exit),
        (instructions, whole): (u64, bool),
    ) {
        let goes_on = matches!(exit, Exit::Next | Exit::Taken | Exit::Indirect);
        let crossed = hart.notes.take_crossed();
        if instructions > 0 || exit == Exit::Trapped {
            let thread = hart.thread();
            if self.known.holds_of_another(thread) {
                self.tell_held(hart, ram);
                self.known.holds_for(thread);
            }
            self.known.are_of(engine.code.generation());
            let at = At::new(Key::new(hart.block_pc, block, instructions, exit), whole);
            // Others end where the ops alone do not say.
            let number = goes_on.then(|| self.known.find(at, hart.notes.now())).flatten();
            if let Some(number) = number
                && !crossed
                && self.known.recall(number, hart, at)
                && self.hold(hart, ram, at)
            {
                return;
            }
            self.tell_in_full(
                hart,
                engine,
                ram,
                (block, exit),
                goes_on.then_some((number, at)),
                instructions,
            );
        }
        hart.notes.forget();
        if !goes_on {
            self.look(hart);
        }
    }

    /// Tells a block's ops. Of one that goes on it is known where it is looked for, and perhaps its number.
    fn tell_in_full(
        &mut self,
        hart: &mut Hart,
        engine: &Engine,
        ram: &Ram,
        (block, exit): (BlockId, Exit),
        known: Option<(Option<u32>, At)>,
        instructions: u64,
    ) {
        self.tell_held(hart, ram);
        let (Within { space, privileged }, thread) = (self.known.executes(), hart.thread());
        let (trapped, fence) = (exit == Exit::Trapped, hart.take_translation_fence());
        let told =
            Block { ops: BlockOps::Listed(&[]), instructions, trapped, space, thread, number: None, fence };
        if let Some((Some(number), at)) = known
            && let Some(ops) = self.known.again(number, hart, ram)
        {
            let era =
                (self.to)(hart, ram, Block { ops: BlockOps::Listed(ops), number: Some(number), ..told });
            self.known.told(Some((number, at)), hart, space, era);
            return;
        }
        self.known.scratch.clear();
        let what = Retired { count: instructions as usize, exit, fetch: engine.code.phys(block), privileged };
        hart.note_ops(engine, ram, block, what, &mut self.known.scratch);
        let new = match known {
            Some((None, at)) => {
                self.known.learn(at.key, hart.notes.addresses().len()).map(|number| (number, at))
            }
            _ => None,
        };
        let (ops, number) = (BlockOps::Listed(&self.known.scratch), new.map(|(number, _)| number));
        let era = (self.to)(hart, ram, Block { ops, number, ..told });
        self.known.told(new, hart, space, era);
    }
}

impl<F: FnMut(&Hart, &Ram, Block<'_>) -> Allowance> Told for Telling<'_, F> {
    const NOTES: bool = true;

    #[inline(always)]
    fn before(&mut self, hart: &mut Hart) {
        self.retired = hart.instret;
    }

    #[inline(always)]
    fn after(
        &mut self,
        hart: &mut Hart,
        engine: &Engine,
        ram: &Ram,
        (block, exit): (BlockId, Exit),
        whole: bool,
    ) {
        let instructions = hart.instret - self.retired;
        let at = At::new(Key::new(hart.block_pc, block, instructions, exit), whole);
        if !self.known.is_of(engine.code.generation()) || !self.hold(hart, ram, at) {
            self.tell(hart, engine, ram, (block, exit), (instructions, whole));
        }
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
        self.look(hart);
    }
}

impl Hart {
    /// Runs as [`run`](Hart::run) does, to the same slot and the same end, and tells `to` of each block, which says what may be told by numbers
    /// from then on. What of it is [held back](KnownBlocks::held) in the end is told by the next run, or by whoever asks. `known` is this
    /// hart's, which is recorded nowhere else until it is done with.
    pub fn run_recorded(
        &mut self,
        ram: &mut Ram,
        until: u64,
        known: &mut KnownBlocks,
        to: impl FnMut(&Hart, &Ram, Block<'_>) -> Allowance,
    ) -> Stop {
        if std::mem::take(&mut known.is_new) {
            self.tlb.forget_told();
        }
        std::mem::swap(&mut self.notes, &mut known.notes);
        self.notes.forget();
        let mut telling = Telling { to, known, retired: 0 };
        telling.look(self);
        let stop = self.run_telling(ram, until, &mut telling);
        std::mem::swap(&mut self.notes, &mut known.notes);
        stop
    }
}
