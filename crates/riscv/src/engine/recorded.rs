//! Recorded functional execution: the normal run loop, which emits the retired ops of each block for timing
//! models.

use doorbell_sim::{Allowance, Op as TimedOp, OpSource, Ram, TranslationFence};

use super::Exit;
use super::block::{BlockId, Engine};
use super::block_dictionary::{BlockDictionary, ExecContext, KeySlot};
use super::key::Key;
use super::timed_exec::Retired;
use crate::hart::{Hart, Privilege, Stop};

/// Receiver of the run loop's events.
pub(super) trait BlockSink {
    /// Whether accesses are logged; required to build ops.
    const LOGS_ACCESSES: bool;

    /// Called before a block runs.
    fn block_start(&mut self, hart: &mut Hart);

    /// Called after a block ran. `whole`: the turn had room for all of it.
    fn block_end(&mut self, hart: &mut Hart, engine: &Engine, ram: &Ram, block: (BlockId, Exit), whole: bool);

    /// Called after an interrupt or a fetch fault was taken.
    fn trap(&mut self, hart: &mut Hart, ram: &Ram);
}

/// A sink that ignores all events.
pub(super) struct NullSink;

impl BlockSink for NullSink {
    const LOGS_ACCESSES: bool = false;

    #[inline(always)]
    fn block_start(&mut self, _: &mut Hart) {}

    #[inline(always)]
    fn block_end(&mut self, _: &mut Hart, _: &Engine, _: &Ram, _: (BlockId, Exit), _: bool) {}

    #[inline(always)]
    fn trap(&mut self, _: &mut Hart, _: &Ram) {}
}

/// The retired part of one block, or of several deferred ones.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// The retired ops.
    pub ops: BlockOps<'a>,
    /// Number of instructions.
    pub instructions: u64,
    /// Whether an exception or interrupt was taken after them.
    pub trapped: bool,
    /// The address space that they were executed in.
    pub space: Option<u16>,
    /// The thread ID after them (the ABI's thread pointer).
    pub thread: u64,
    /// Number shared by all executions that differ only in access addresses and indirect targets, if it has
    /// one.
    pub number: Option<u32>,
    /// A translation fence executed in it.
    pub fence: Option<TranslationFence>,
}

/// The retired ops of a block.
#[derive(Clone, Copy, Debug)]
pub enum BlockOps<'a> {
    /// All ops.
    Listed(&'a [TimedOp]),
    /// Several deferred blocks in numbered form ([`numbered`](doorbell_sim::numbered)).
    Numbered(&'a [u64]),
}

/// A sink that emits blocks to `to`.
struct Recorder<'a, F> {
    to: F,
    dictionary: &'a mut BlockDictionary,
    /// Instruction count before the running block.
    retired: u64,
}

impl<F: FnMut(&Hart, &Ram, Block<'_>) -> Allowance> Recorder<'_, F> {
    /// Updates the context of the next block. It changes only after an interrupt or a block with another exit
    /// than to a next instruction.
    fn update_context(&mut self, hart: &mut Hart) {
        let privileged = hart.privilege != Privilege::User;
        let within = ExecContext { space: hart.address_space(), privileged };
        self.dictionary.set_context(within, &mut hart.access_log);
    }

    /// Emits the deferred blocks.
    fn emit_deferred(&mut self, hart: &mut Hart, ram: &Ram) {
        if let Some(deferred) = self.dictionary.deferred_in(&hart.access_log) {
            let allowance = (self.to)(hart, ram, deferred);
            self.dictionary.clear_deferred(&mut hart.access_log, allowance);
        }
    }

    /// Defers a block if the table of recent blocks permits it.
    #[inline(always)]
    fn defer(&mut self, hart: &mut Hart, ram: &Ram, at: KeySlot) -> bool {
        let deferred = self.dictionary.defer(hart, at);
        if deferred && self.dictionary.is_full(&hart.access_log) {
            self.emit_deferred(hart, ram);
        }
        deferred
    }

    /// Handles an executed block that was not deferred at once.
    #[inline(never)]
    fn emit(
        &mut self,
        hart: &mut Hart,
        engine: &Engine,
        ram: &Ram,
        (block, exit): (BlockId, Exit),
        (instructions, whole): (u64, bool),
    ) {
        let continues = matches!(exit, Exit::Next | Exit::Taken | Exit::Indirect);
        let crossed = hart.access_log.take_crossed();
        if instructions > 0 || exit == Exit::Trapped {
            let thread = hart.thread();
            if self.dictionary.is_other_thread(thread) {
                self.emit_deferred(hart, ram);
                self.dictionary.set_thread(thread);
            }
            self.dictionary.set_generation(engine.code.generation());
            let at = KeySlot::new(Key::new(hart.block_pc, block, instructions, exit), whole);
            // Blocks with other exits end in a way that their ops do not show, and get no number.
            let number = continues.then(|| self.dictionary.find(at, hart.access_log.era())).flatten();
            if let Some(number) = number
                && !crossed
                && self.dictionary.try_defer(number, hart, at)
                && self.defer(hart, ram, at)
            {
                return;
            }
            self.emit_in_full(
                hart,
                engine,
                ram,
                (block, exit),
                continues.then_some((number, at)),
                instructions,
            );
        }
        hart.access_log.clear();
        if !continues {
            self.update_context(hart);
        }
    }

    /// Emits a block's ops. `known` is its slot and its number if any; none for a block that gets no number.
    fn emit_in_full(
        &mut self,
        hart: &mut Hart,
        engine: &Engine,
        ram: &Ram,
        (block, exit): (BlockId, Exit),
        known: Option<(Option<u32>, KeySlot)>,
        instructions: u64,
    ) {
        self.emit_deferred(hart, ram);
        let (ExecContext { space, privileged }, thread) = (self.dictionary.context(), hart.thread());
        let (trapped, fence) = (exit == Exit::Trapped, hart.take_translation_fence());
        let template =
            Block { ops: BlockOps::Listed(&[]), instructions, trapped, space, thread, number: None, fence };
        if let Some((Some(number), at)) = known
            && let Some(ops) = self.dictionary.repeated_ops(number, hart, ram)
        {
            let era =
                (self.to)(hart, ram, Block { ops: BlockOps::Listed(ops), number: Some(number), ..template });
            self.dictionary.block_emitted(Some((number, at)), hart, space, era);
            return;
        }
        self.dictionary.scratch.clear();
        let what = Retired { count: instructions as usize, exit, fetch: engine.code.phys(block), privileged };
        hart.append_ops(engine, ram, block, what, &mut self.dictionary.scratch);
        let new = match known {
            Some((None, at)) => self
                .dictionary
                .assign_number(at.key, hart.access_log.addresses().len())
                .map(|number| (number, at)),
            _ => None,
        };
        let (ops, number) = (BlockOps::Listed(&self.dictionary.scratch), new.map(|(number, _)| number));
        let era = (self.to)(hart, ram, Block { ops, number, ..template });
        self.dictionary.block_emitted(new, hart, space, era);
    }
}

impl<F: FnMut(&Hart, &Ram, Block<'_>) -> Allowance> BlockSink for Recorder<'_, F> {
    const LOGS_ACCESSES: bool = true;

    #[inline(always)]
    fn block_start(&mut self, hart: &mut Hart) {
        self.retired = hart.instret;
    }

    #[inline(always)]
    fn block_end(
        &mut self,
        hart: &mut Hart,
        engine: &Engine,
        ram: &Ram,
        (block, exit): (BlockId, Exit),
        whole: bool,
    ) {
        let instructions = hart.instret - self.retired;
        let at = KeySlot::new(Key::new(hart.block_pc, block, instructions, exit), whole);
        if !self.dictionary.is_generation(engine.code.generation()) || !self.defer(hart, ram, at) {
            self.emit(hart, engine, ram, (block, exit), (instructions, whole));
        }
    }

    fn trap(&mut self, hart: &mut Hart, ram: &Ram) {
        self.emit_deferred(hart, ram);
        let (space, fence) = (hart.address_space(), hart.take_translation_fence());
        let (ops, thread) = (BlockOps::Listed(&[]), hart.thread());
        let era = (self.to)(
            hart,
            ram,
            Block { ops, instructions: 0, trapped: true, space, thread, number: None, fence },
        );
        self.dictionary.block_emitted(None, hart, space, era);
        self.update_context(hart);
    }
}

impl Hart {
    /// Runs like [`run`](Hart::run), to the same slot and with the same result, and emits each block to `to`,
    /// which returns the allowance for numbered blocks from then on. Blocks
    /// [deferred](BlockDictionary::deferred) at the end are emitted by the next run or on request. The
    /// dictionary belongs to this hart, which must not be recorded with another one meanwhile.
    pub fn run_recorded(
        &mut self,
        ram: &mut Ram,
        until: u64,
        dictionary: &mut BlockDictionary,
        to: impl FnMut(&Hart, &Ram, Block<'_>) -> Allowance,
    ) -> Stop {
        if std::mem::take(&mut dictionary.is_new) {
            self.tlb.clear_recorded();
        }
        std::mem::swap(&mut self.access_log, &mut dictionary.access_log);
        self.access_log.clear();
        let mut recorder = Recorder { to, dictionary, retired: 0 };
        recorder.update_context(self);
        let stop = self.run_with_sink(ram, until, &mut recorder);
        std::mem::swap(&mut self.access_log, &mut dictionary.access_log);
        stop
    }
}
