//! Fast functional execution: guest code is decoded once into blocks of *ops*, each op holding the
//! address of the function that executes it; an op's function ends by calling the next op's. In an
//! optimised build these calls are jumps, so that a block runs without a dispatch loop; in any build a
//! block's depth of calls is bounded by [`BLOCK_OPS`].
//!
//! A block lies within one physical page, is found by physical address, and ends at the first
//! instruction that may go elsewhere or change what decoded code depends on. Blocks stay with the RAM that they are decoded from, where
//! all harts find them ([`block`]); each hart links them to their successors ([`paths`]): a link is good while virtual address and
//! translation context are the same.
//! A store to a page with decoded code ends the running block and forgets the page's blocks,
//! so decoded code is never stale, with or without FENCE.I.

mod amo;
mod block;
mod float_ops;
mod integer;
mod key;
mod known;
mod learning;
mod memory;
pub(crate) mod noted;
pub(crate) mod notes;
pub(crate) mod paths;
mod recorded;
mod system;
mod table;
pub(crate) mod template;

use doorbell_sim::Ram;
use doorbell_sim::sharing::HartUpdates;

pub(crate) use block::Engine;
use block::{BlockId, NO_BLOCK};
pub use known::KnownBlocks;
pub use recorded::{Block, BlockOps};
use recorded::{Told, Untold};

use crate::hart::{Hart, Stop};
use crate::trap::Exception;

/// Instructions a block holds at most.
pub(crate) const BLOCK_OPS: usize = 64;

/// Executes one op and, unless the block ends, those after it.
///
/// # Safety
/// `op` points into a block, at an op whose `run` this is: a block's last instruction leaves it, and one more op stands behind it,
/// which tells where it ends. The hart is [run on](Hart::run_on) this RAM, so that the tags of its TLB are only of pages of it.
pub(crate) type Handler = unsafe fn(&mut Hart, &mut Ram, *const Op) -> Exit;

/// A decoded instruction, ready to run. Sixteen bytes, so that four fill a host cache line.
#[derive(Clone, Copy)]
pub(crate) struct Op {
    pub run: Handler,
    /// The immediate; relative to the block's first instruction where the instruction is relative to `pc`.
    pub imm: i32,
    pub rd: u8,
    pub rs1: u8,
    /// Second source register, or the instruction's length where there is none.
    pub rs2: u8,
    /// Offset from the block's first instruction in halfwords.
    pub at: u8,
}

/// How a block was left. The handler has set `hart.pc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub(crate) enum Exit {
    /// To the instruction that follows in memory.
    Next,
    /// To a jump's or taken branch's fixed target.
    Taken,
    /// To a computed address.
    Indirect,
    /// The last instruction retired, and interrupts or the fetch context must be looked at again.
    Changed,
    /// The op at `hart.exit_op` raised an exception (entered already).
    Trapped,
    /// The op at `hart.exit_op` retired, and the block may be stale.
    Stale,
    /// The op at `hart.exit_op` needs a device access and has not retired.
    Device,
    /// The op at `hart.exit_op` has not retired: it must wait until other harts have come as far as this one.
    Ahead,
    /// The op at `hart.exit_op` has not retired: it must be told how often events have happened.
    Events,
    /// The last instruction retired, and the machine must act: `hart.stop` says on what.
    Stop,
}

/// Runs the op after `op`.
///
/// # Safety
/// As for [`Handler`]; `op` is not the block's last.
#[inline(always)]
pub(crate) unsafe fn next(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
    // SAFETY: the block goes on after `op`.
    unsafe {
        let following = op.add(1);
        ((*following).run)(hart, ram, following)
    }
}

impl Hart {
    /// Address of an instruction of the running block.
    #[inline(always)]
    pub(crate) fn pc_of(&self, op: &Op) -> u64 {
        self.block_pc.wrapping_add(u64::from(op.at) * 2)
    }

    /// Raises an exception at `op` and leaves the block.
    #[cold]
    pub(crate) fn trap_at(&mut self, op: &Op, exception: Exception, tval: u64) -> Exit {
        self.exit_op = op as *const Op as usize;
        let pc = self.pc_of(op);
        self.raise(exception, tval, pc);
        Exit::Trapped
    }

    /// Runs until slot `until`, or until the machine has to do something.
    pub fn run(&mut self, ram: &mut Ram, until: u64) -> Stop {
        self.run_telling(ram, until, &mut Untold)
    }

    fn run_telling<T: Told>(&mut self, ram: &mut Ram, until: u64, told: &mut T) -> Stop {
        assert!(self.pending_mmio.is_none(), "a hart with a device access under way was run");
        self.run_on(ram);
        if self.waiting {
            if !self.interrupt_pending() {
                return Stop::Wfi;
            }
            self.waiting = false;
        }
        let mut engine = self.engine(ram, T::NOTES);
        let stop = self.run_blocks(&mut engine, ram, until, told);
        self.put_away(engine, ram);
        stop
    }

    /// The engine to run with, which knows what has happened since this hart ran last.
    #[inline(always)]
    fn engine(&mut self, ram: &mut Ram, noting: bool) -> Engine {
        let paths = self.paths.take().expect("a hart's paths are absent only while it runs");
        let mut engine = Engine { code: ram.take_decoded(), paths };
        engine.begin(ram, noting);
        if let Some(news) = ram.take_updates(self.config.id) {
            self.learn(ram, &news);
        }
        engine
    }

    #[inline(always)]
    fn put_away(&mut self, engine: Engine, ram: &mut Ram) {
        let Engine { code, paths } = engine;
        ram.put_decoded(code);
        self.paths = Some(paths);
    }

    fn run_blocks<T: Told>(&mut self, engine: &mut Engine, ram: &mut Ram, until: u64, told: &mut T) -> Stop {
        self.take_interrupts(ram, told);
        let mut linked = NO_BLOCK;
        while self.slots < until {
            if ram.has_stale_code() {
                self.forget_stale_code(engine, ram);
                linked = NO_BLOCK;
            }
            let block = if linked != NO_BLOCK {
                linked
            } else {
                match engine.find(self, ram) {
                    Ok(block) => block,
                    Err(exception) if exception.cause == Exception::Breakpoint => return Stop::Breakpoint,
                    Err(exception) => {
                        self.slots += 1;
                        let pc = self.pc;
                        self.raise(exception.cause, exception.tval, pc);
                        told.trap(self, ram);
                        continue;
                    }
                }
            };
            let limit = if self.partly_executable { self.slots + 1 } else { until };
            told.before(self);
            let (exit, whole) = self.run_block(engine, ram, block, limit);
            told.after(self, engine, ram, (block, exit), whole);
            linked = match exit {
                Exit::Next | Exit::Taken if whole => engine.follow(self, ram, block, exit),
                Exit::Changed => {
                    self.take_interrupts(ram, told);
                    NO_BLOCK
                }
                Exit::Stop => return self.stop,
                Exit::Ahead => return Stop::Ahead,
                Exit::Events => return Stop::Events,
                Exit::Device if self.slots > self.synced_slot => {
                    // It is executed again when its turn comes.
                    self.pending_mmio = None;
                    return Stop::Ahead;
                }
                Exit::Device => {
                    return Stop::Mmio(self.pending_mmio.expect("a device access was requested"));
                }
                _ => NO_BLOCK,
            };
        }
        Stop::Slot
    }

    #[inline(always)]
    fn take_interrupts<T: Told>(&mut self, ram: &Ram, told: &mut T) {
        if self.take_interrupt() {
            told.trap(self, ram);
        }
    }

    /// Runs a block, or as much of it as fits before slot `until`. Tells how it was left and whether
    /// it was run as it stands in the cache.
    #[inline(always)]
    pub(crate) fn run_block(
        &mut self,
        engine: &mut Engine,
        ram: &mut Ram,
        block: BlockId,
        until: u64,
    ) -> (Exit, bool) {
        let (mut first, mut count) = engine.code.ops(block);
        let left = until - self.slots;
        let whole = u64::from(count) <= left;
        if !whole {
            count = left as u32;
            first = engine.prefix(block, count);
        }
        self.block_pc = self.pc;
        self.slots += u64::from(count);
        self.instret += u64::from(count);
        // SAFETY: `first` is the first op of a block or of a prefix, both ended by an op that leaves.
        let exit = unsafe { ((*first).run)(self, ram, first) };
        if matches!(exit, Exit::Trapped | Exit::Stale | Exit::Device | Exit::Ahead | Exit::Events) {
            self.account_early_exit(exit, first, count);
        }
        (exit, whole)
    }

    /// Takes back what was counted of a block beyond the op at which it was left. A trapping
    /// instruction takes its slot but does not retire.
    fn account_early_exit(&mut self, exit: Exit, first: *const Op, count: u32) {
        let index = ((self.exit_op - first as usize) / size_of::<Op>()) as u64;
        let count = u64::from(count);
        let (slots, retired) = match exit {
            Exit::Trapped => (index + 1, index),
            Exit::Stale => (index + 1, index + 1),
            _ => (index, index),
        };
        self.slots -= count - slots;
        self.instret -= count - retired;
    }

    #[cold]
    fn forget_stale_code(&mut self, engine: &mut Engine, ram: &mut Ram) {
        let pages = ram.take_stale_code_pages(self.config.id);
        pages.iter().for_each(|page| engine.code.forget_page(*page));
        self.leave_pages(&pages);
    }

    /// The ways to blocks of these pages lead nowhere any more.
    fn leave_pages(&mut self, pages: &[u64]) {
        self.counters.code_pages_invalidated += pages.len() as u64;
        self.tlb.new_contexts();
    }

    /// Takes note of what other harts have done since this one ran last.
    #[cold]
    fn learn(&mut self, ram: &Ram, news: &HartUpdates) {
        // Who saw them first has forgotten what was decoded of them.
        if !news.stale_code_pages.is_empty() {
            self.leave_pages(&news.stale_code_pages);
        }
        for page in &news.watch {
            self.watch_stores(ram, *page);
        }
    }
}
