//! Fast functional execution: guest code is decoded once into blocks of *ops*. Each op holds the address of
//! its handler, and a handler ends by calling the next op's handler. In an optimised build these calls are
//! tail jumps, so that a block runs without a dispatch loop. In any build the call depth is bounded by
//! [`BLOCK_OPS`].
//!
//! A block is within one physical page, is found by physical address, and ends at the first instruction that
//! may jump or change state that decoded code depends on. Blocks belong to the RAM that they are decoded from
//! and are shared by all harts ([`block`]). Each hart links them to their successors ([`paths`]); a link is
//! valid while virtual address and translation context are the same. A store to a page with decoded code ends
//! the running block and drops the page's blocks, so that decoded code is never stale, with or without
//! FENCE.I.

pub(crate) mod access_log;
mod amo;
mod block;
mod block_dictionary;
mod float_ops;
mod integer;
mod key;
mod learning;
mod memory;
pub(crate) mod paths;
mod recorded;
mod system;
mod table;
pub(crate) mod template;
pub(crate) mod timed_exec;

use doorbell_sim::Ram;
use doorbell_sim::sharing::HartUpdates;

pub(crate) use block::Engine;
use block::{BlockId, NO_BLOCK};
pub use block_dictionary::BlockDictionary;
pub use recorded::{Block, BlockOps};
use recorded::{BlockSink, NullSink};

use crate::hart::{Hart, Stop};
use crate::trap::Exception;

/// Maximum instructions per block.
pub(crate) const BLOCK_OPS: usize = 64;

/// Executes one op and, unless the block ends, the following ones.
///
/// # Safety
/// `op` points to an op of a block, and this function is its `run`. A block's last instruction leaves the
/// block, and one more op follows it, which holds the block's end. The hart [runs on](Hart::run_on) this RAM,
/// so that its TLB tags refer only to pages of it.
pub(crate) type Handler = unsafe fn(&mut Hart, &mut Ram, *const Op) -> Exit;

/// A decoded instruction, ready to run. Sixteen bytes, so that four share a host cache line.
#[derive(Clone, Copy)]
pub(crate) struct Op {
    pub run: Handler,
    /// The immediate; relative to the block's first instruction if the instruction is relative to `pc`.
    pub imm: i32,
    pub rd: u8,
    pub rs1: u8,
    /// Second source register, or the instruction's length if it has none.
    pub rs2: u8,
    /// Offset from the block's first instruction in halfwords.
    pub at: u8,
}

/// How the hart left a block. The handler has set `hart.pc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub(crate) enum Exit {
    /// To the instruction that follows in memory.
    Next,
    /// To a jump's or taken branch's fixed target.
    Taken,
    /// To a computed address.
    Indirect,
    /// The last instruction retired; interrupts and the fetch context must be checked again.
    Changed,
    /// The op at `hart.exit_op` raised an exception, and the trap was entered.
    Trapped,
    /// The op at `hart.exit_op` retired, and the block may be stale.
    Stale,
    /// The op at `hart.exit_op` needs a device access and has not retired.
    Device,
    /// The op at `hart.exit_op` has not retired: other harts must first catch up with this one.
    Ahead,
    /// The op at `hart.exit_op` has not retired: it needs current event counts.
    Events,
    /// The last instruction retired, and the machine must act; the reason is in `hart.stop`.
    Stop,
}

/// Runs the op after `op`.
///
/// # Safety
/// As for [`Handler`]; `op` is not the block's last.
#[inline(always)]
pub(crate) unsafe fn next(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
    // SAFETY: `op` is not the last op of the block.
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

    /// Runs until slot `until`, or until the machine must act.
    pub fn run(&mut self, ram: &mut Ram, until: u64) -> Stop {
        self.run_with_sink(ram, until, &mut NullSink)
    }

    fn run_with_sink<T: BlockSink>(&mut self, ram: &mut Ram, until: u64, sink: &mut T) -> Stop {
        assert!(self.pending_mmio.is_none(), "a hart cannot run while a device access is pending");
        self.run_on(ram);
        if self.waiting {
            if !self.interrupt_pending() {
                return Stop::Wfi;
            }
            self.waiting = false;
        }
        let mut engine = self.engine(ram, T::LOGS_ACCESSES);
        let stop = self.run_blocks(&mut engine, ram, until, sink);
        self.put_back(engine, ram);
        stop
    }

    /// Takes the engine for a run, with all updates since this hart's last run applied.
    #[inline(always)]
    fn engine(&mut self, ram: &mut Ram, log_accesses: bool) -> Engine {
        let paths = self.paths.take().expect("a hart's paths are absent only while it runs");
        let mut engine = Engine { code: ram.take_decoded(), paths };
        engine.begin(ram, log_accesses);
        if let Some(updates) = ram.take_updates(self.config.id) {
            self.apply_updates(ram, &updates);
        }
        engine
    }

    #[inline(always)]
    fn put_back(&mut self, engine: Engine, ram: &mut Ram) {
        let Engine { code, paths } = engine;
        ram.put_decoded(code);
        self.paths = Some(paths);
    }

    fn run_blocks<T: BlockSink>(
        &mut self,
        engine: &mut Engine,
        ram: &mut Ram,
        until: u64,
        sink: &mut T,
    ) -> Stop {
        self.take_interrupts(ram, sink);
        let mut linked = NO_BLOCK;
        while self.slots < until {
            if ram.has_stale_code() {
                self.drop_stale_code(engine, ram);
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
                        sink.trap(self, ram);
                        continue;
                    }
                }
            };
            let limit = if self.partly_executable { self.slots + 1 } else { until };
            sink.block_start(self);
            let (exit, whole) = self.run_block(engine, ram, block, limit);
            sink.block_end(self, engine, ram, (block, exit), whole);
            linked = match exit {
                Exit::Next | Exit::Taken if whole => engine.follow(self, ram, block, exit),
                Exit::Changed => {
                    self.take_interrupts(ram, sink);
                    NO_BLOCK
                }
                Exit::Stop => return self.stop,
                Exit::Ahead => return Stop::Ahead,
                Exit::Events => return Stop::Events,
                Exit::Device if self.slots > self.synced_slot => {
                    // It is executed again after the other harts have caught up.
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
    fn take_interrupts<T: BlockSink>(&mut self, ram: &Ram, sink: &mut T) {
        if self.take_interrupt() {
            sink.trap(self, ram);
        }
    }

    /// Runs a block, or the part of it that fits before slot `until`. Returns how it was left and whether it
    /// ran to its end.
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
        // SAFETY: `first` is the first op of a block or of a prefix, and both end with an op that leaves.
        let exit = unsafe { ((*first).run)(self, ram, first) };
        if matches!(exit, Exit::Trapped | Exit::Stale | Exit::Device | Exit::Ahead | Exit::Events) {
            self.account_early_exit(exit, first, count);
        }
        (exit, whole)
    }

    /// Corrects the counts for the part of a block after the op at which it was left. A trapping instruction
    /// takes its slot but does not retire.
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
    fn drop_stale_code(&mut self, engine: &mut Engine, ram: &mut Ram) {
        let pages = ram.take_stale_code_pages(self.config.id);
        pages.iter().for_each(|page| engine.code.drop_page(*page));
        self.invalidate_links(&pages);
    }

    /// Invalidates all links, after blocks of these pages were dropped.
    fn invalidate_links(&mut self, pages: &[u64]) {
        self.counters.code_pages_invalidated += pages.len() as u64;
        self.tlb.new_contexts();
    }

    /// Applies updates by other harts since this hart's last run.
    #[cold]
    fn apply_updates(&mut self, ram: &Ram, updates: &HartUpdates) {
        // The hart that saw the stale pages first has dropped their decoded code.
        if !updates.stale_code_pages.is_empty() {
            self.invalidate_links(&updates.stale_code_pages);
        }
        for page in &updates.watch {
            self.watch_stores(ram, *page);
        }
    }
}
