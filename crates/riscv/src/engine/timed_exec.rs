//! Execution for timing models: the same handlers, and a list of the executed ops.
//!
//! A hart that *logs accesses* decodes its blocks with a template of the timing model's
//! [`Op`](doorbell_sim::Op) per engine op, and with handlers that log the virtual address of each access
//! before they make it. A hart that does not log runs as fast as without timing models. Physical addresses
//! are looked up in the TLB afterwards.

use doorbell_sim::memory::{LINE_BYTES, Walk};
use doorbell_sim::{
    BlockEnd, CoreCycle, Learner, Op as TimedOp, OpClass, OpSource, PhysAddr, Ram, TranslationFence, Until,
};

use super::block::{BlockId, Engine};
use super::{Exit, Handler, Op, amo, integer, memory};
use crate::hart::{Hart, Privilege, Stop};
use crate::inst::Kind::{self, *};
use crate::mmu::PAGE_MASK;
use crate::trap::Exception;

/// How a timed turn ended.
pub type Turn = BlockEnd<Stop>;

/// Defines handlers that log the address and then call the plain handler. Loads and stores have logging
/// variants of their own.
macro_rules! logging {
    ($($kind:ident $name:ident = $plain:path;)*) => {
        $(
        /// # Safety
        /// As for [`Handler`].
        unsafe fn $name(hart: &mut Hart, ram: &mut Ram, op: *const Op) -> Exit {
            // SAFETY: arguments are passed on; each op of a block logs one address.
            unsafe {
                let o = &*op;
                let virt = hart.x[o.rs1 as usize].wrapping_add(i64::from(o.imm) as u64);
                let era = hart.recorded_era_of(virt);
                hart.access_log.log(virt, era);
                $plain(hart, ram, op)
            }
        })*

        /// The logging handler of an instruction that accesses memory.
        pub(super) fn logging_handler(kind: Kind) -> Option<Handler> {
            match kind {
                $($kind => Some($name),)*
                Lb => Some(memory::lb::<true>),
                Lh => Some(memory::lh::<true>),
                Lw => Some(memory::lw::<true>),
                Ld => Some(memory::ld::<true>),
                Lbu => Some(memory::lbu::<true>),
                Lhu => Some(memory::lhu::<true>),
                Lwu => Some(memory::lwu::<true>),
                Sb => Some(memory::sb::<true>),
                Sh => Some(memory::sh::<true>),
                Sw => Some(memory::sw::<true>),
                Sd => Some(memory::sd::<true>),
                Flw => Some(memory::flw::<true>),
                Fld => Some(memory::fld::<true>),
                Fsw => Some(memory::fsw::<true>),
                Fsd => Some(memory::fsd::<true>),
                _ => None,
            }
        }
    };
}

logging! {
    PrefetchI prefetch_i = integer::hint;
    PrefetchR prefetch_r = integer::hint;
    PrefetchW prefetch_w = integer::hint;
    LrW lr_w = amo::lr_w;
    ScW sc_w = amo::sc_w;
    AmoswapW amoswap_w = amo::amoswap_w;
    AmoaddW amoadd_w = amo::amoadd_w;
    AmoxorW amoxor_w = amo::amoxor_w;
    AmoandW amoand_w = amo::amoand_w;
    AmoorW amoor_w = amo::amoor_w;
    AmominW amomin_w = amo::amomin_w;
    AmomaxW amomax_w = amo::amomax_w;
    AmominuW amominu_w = amo::amominu_w;
    AmomaxuW amomaxu_w = amo::amomaxu_w;
    LrD lr_d = amo::lr_d;
    ScD sc_d = amo::sc_d;
    AmoswapD amoswap_d = amo::amoswap_d;
    AmoaddD amoadd_d = amo::amoadd_d;
    AmoxorD amoxor_d = amo::amoxor_d;
    AmoandD amoand_d = amo::amoand_d;
    AmoorD amoor_d = amo::amoor_d;
    AmominD amomin_d = amo::amomin_d;
    AmomaxD amomax_d = amo::amomax_d;
    AmominuD amominu_d = amo::amominu_d;
    AmomaxuD amomaxu_d = amo::amomaxu_d;
}

impl Hart {
    /// Executes at most one block, and at most `limit` instructions of it, and appends the executed ops to
    /// `ops`. Instructions that did not retire append nothing. The caller sets the hart's time afterwards.
    pub fn run_timed(&mut self, ram: &mut Ram, limit: u64, ops: &mut Vec<TimedOp>) -> Turn {
        self.run_one_block(ram, limit, &mut |hart, engine, ram, block, what| {
            hart.append_ops(engine, ram, block, what, ops);
        })
    }

    /// Like [`run_timed`](Hart::run_timed), but calls `emit` for each executed block with its retired part.
    #[inline]
    fn run_one_block(
        &mut self,
        ram: &mut Ram,
        limit: u64,
        emit: &mut impl FnMut(&Hart, &Engine, &Ram, BlockId, Retired),
    ) -> Turn {
        self.with_logging_engine(ram, |hart, engine, ram| {
            hart.run_turn(engine, ram, limit, emit).map_or_else(|turn| turn, |exit| hart.turn_after(exit))
        })
    }

    /// Calls `run` with a logging engine, if the hart is not waiting.
    #[inline]
    pub(super) fn with_logging_engine(
        &mut self,
        ram: &mut Ram,
        run: impl FnOnce(&mut Hart, &mut Engine, &mut Ram) -> Turn,
    ) -> Turn {
        assert!(self.pending_mmio.is_none(), "a hart cannot run while a device access is pending");
        self.run_on(ram);
        if self.waiting {
            if !self.interrupt_pending() {
                return Turn::Stopped(Stop::Wfi);
            }
            self.waiting = false;
        }
        let mut engine = self.engine(ram, true);
        let turn = run(self, &mut engine, ram);
        self.put_back(engine, ram);
        turn
    }

    /// Executes at most one block. Returns how it was left, or how the turn ended without one.
    #[inline]
    pub(super) fn run_turn(
        &mut self,
        engine: &mut Engine,
        ram: &mut Ram,
        limit: u64,
        emit: &mut impl FnMut(&Hart, &Engine, &Ram, BlockId, Retired),
    ) -> Result<Exit, Turn> {
        if self.take_interrupt() {
            return Err(Turn::Trapped);
        }
        if ram.has_stale_code() {
            self.drop_stale_code(engine, ram);
        }
        let privileged = self.privilege != Privilege::User;
        let mut left = limit.max(1);
        loop {
            let block = match engine.find(self, ram) {
                Ok(block) => block,
                Err(fault) if fault.cause == Exception::Breakpoint => {
                    return Err(Turn::Stopped(Stop::Breakpoint));
                }
                Err(fault) => {
                    let pc = self.pc;
                    self.raise(fault.cause, fault.tval, pc);
                    return Err(Turn::Trapped);
                }
            };
            left = if self.partly_executable { 1 } else { left.min(u64::from(engine.code.ops(block).1)) };
            self.access_log.clear();
            let before = self.instret;
            let (exit, _) = self.run_block(engine, ram, block, self.slots.saturating_add(left));
            let count = self.instret - before;
            let fetch = engine.code.phys(block);
            emit(self, engine, ram, block, Retired { count: count as usize, exit, fetch, privileged });
            left -= count;
            // After a store to a page with code, continue to the end of the block. The grouping of ops must
            // not depend on which pages happen to hold decoded code.
            if exit != Exit::Stale || left == 0 {
                return Ok(exit);
            }
            self.drop_stale_code(engine, ram);
        }
    }

    /// The end of a turn whose block was left by `exit`.
    #[inline]
    pub(super) fn turn_after(&mut self, exit: Exit) -> Turn {
        match exit {
            Exit::Trapped => Turn::Trapped,
            Exit::Stop => Turn::Stopped(self.stop),
            Exit::Ahead => Turn::Stopped(Stop::Ahead),
            Exit::Events => Turn::Stopped(Stop::Events),
            Exit::Device if self.slots > self.synced_slot => {
                self.pending_mmio = None;
                Turn::Stopped(Stop::Ahead)
            }
            Exit::Device => {
                Turn::Stopped(Stop::Mmio(self.pending_mmio.expect("a device access was requested")))
            }
            _ => Turn::Continue,
        }
    }

    /// Appends the ops of the retired instructions of a block.
    #[inline]
    pub(super) fn append_ops(
        &self,
        engine: &Engine,
        ram: &Ram,
        block: BlockId,
        what: Retired,
        ops: &mut Vec<TimedOp>,
    ) {
        let first = ops.len();
        ops.extend_from_slice(&engine.code.templates(block)[..what.count]);
        let mut accesses = 0;
        let mut split = false;
        for op in &mut ops[first..] {
            let offset = op.pc;
            op.pc = self.block_pc.wrapping_add(offset);
            op.fetch = PhysAddr(what.fetch.0.wrapping_add(offset));
            op.flags |= if what.privileged { TimedOp::PRIVILEGED } else { 0 };
            if op.class.is_memory() {
                op.virt = self.access_log.address(accesses);
                accesses += 1;
                if op.class == OpClass::Prefetch {
                    self.resolve_prefetch(ram, op);
                    continue;
                }
                op.phys = self.physical(ram, op.virt);
                split |= op.virt % LINE_BYTES + u64::from(op.size) > LINE_BYTES;
            }
        }
        if let Some(last) = ops[first..].last_mut().filter(|op| op.class.is_branch()) {
            last.virt = self.pc;
            last.flags |= if what.exit == Exit::Next { 0 } else { TimedOp::TAKEN };
        }
        if split {
            self.split_lines(ram, first, ops);
        }
    }

    /// Resolves the line of a prefetch. A prefetch without access permission becomes an integer op, which
    /// only computes an address.
    fn resolve_prefetch(&self, ram: &Ram, op: &mut TimedOp) {
        match self.prefetch_address(ram, op.virt) {
            Some(phys) => op.phys = phys,
            None => op.class = OpClass::Int,
        }
    }

    /// Splits each access that crosses a line into one per line.
    #[cold]
    fn split_lines(&self, ram: &Ram, first: usize, ops: &mut Vec<TimedOp>) {
        let whole = ops.split_off(first);
        for op in whole {
            let in_line = LINE_BYTES - op.virt % LINE_BYTES;
            if !op.class.is_memory() || u64::from(op.size) <= in_line {
                ops.push(op);
                continue;
            }
            ops.push(TimedOp { size: in_line as u8, length: 0, ..op });
            let virt = op.virt.wrapping_add(in_line);
            ops.push(TimedOp { size: op.size - in_line as u8, virt, phys: self.physical(ram, virt), ..op });
        }
    }

    /// The physical address of a data access of the block that just ran.
    #[inline]
    pub(super) fn physical(&self, ram: &Ram, virt: u64) -> PhysAddr {
        let entry = self.tlb_entry(virt);
        if entry.load_tag == virt & PAGE_MASK {
            return ram.phys_of_host(virt.wrapping_add(entry.addend));
        }
        // Its TLB entry was evicted, or the page permits only stores.
        self.probe(ram, virt).unwrap_or(PhysAddr(virt))
    }

    /// Returns the last translation fence since the previous call, if any.
    pub fn take_translation_fence(&mut self) -> Option<TranslationFence> {
        self.translation_fence.take()
    }
}

/// A hart as a source of timed ops. Its slots are the cycles of its core.
impl OpSource for Hart {
    type World = Ram;
    type Stop = Stop;

    fn is_ready(&self) -> bool {
        self.pending_mmio.is_none() && (!self.waiting || self.interrupt_pending())
    }

    #[inline]
    fn cycle(&self) -> CoreCycle {
        CoreCycle::new(self.slots)
    }

    #[inline]
    fn set_cycle(&mut self, cycle: CoreCycle) {
        self.rebase(cycle.number());
    }

    #[inline]
    fn instructions(&self) -> u64 {
        self.instret
    }

    #[inline]
    fn address_space(&self) -> Option<u16> {
        Hart::address_space(self)
    }

    #[inline]
    fn block(&mut self, ram: &mut Ram, ops: &mut Vec<TimedOp>) -> Turn {
        self.run_timed(ram, u64::MAX, ops)
    }

    #[inline]
    fn learn(
        &mut self,
        ram: &mut Ram,
        _: &mut Vec<TimedOp>,
        until: Until,
        learner: &mut impl Learner,
    ) -> Turn {
        self.run_learning(ram, until, learner)
    }

    fn walk(&mut self, ram: &Ram, virt: u64) -> Walk {
        self.page_walk(ram, virt)
    }

    #[inline]
    fn take_translation_fence(&mut self) -> Option<TranslationFence> {
        Hart::take_translation_fence(self)
    }

    /// The ABI's thread pointer.
    fn thread(&self) -> u64 {
        self.reg(4)
    }

    fn byte(&self, ram: &Ram, addr: PhysAddr) -> Option<u8> {
        let mut byte = [0];
        ram.copy_out(addr, &mut byte).then_some(byte[0])
    }
}

/// The retired part of a block.
pub(super) struct Retired {
    pub count: usize,
    pub exit: Exit,
    /// Physical address of the block's first instruction.
    pub fetch: PhysAddr,
    pub privileged: bool,
}
