//! The cache of decoded blocks, found by physical address. It belongs to the RAM that it was decoded from, so
//! that harts share it.

use std::collections::BTreeSet;

use doorbell_sim::ram::{PAGE_BYTES, RamId};
use doorbell_sim::{Op as TimedOp, PhysAddr, Ram};

use super::learning::{WarmEvent, append_warm_events};
use super::paths::Paths;
use super::table::{handler, leave};
use super::template::{reads_counter, template};
use super::timed_exec::logging_handler;
use super::{BLOCK_OPS, Exit, Op};
use crate::decode::decode;
use crate::hart::{Hart, SINK};
use crate::inst::{Inst, Kind};
use crate::trap::Exception;

/// Index of a block.
pub(crate) type BlockId = u32;
/// No block.
pub(crate) const NO_BLOCK: BlockId = u32::MAX;

/// Capacity for ops of all blocks. When it is used up, the cache is cleared.
const OPS_CAPACITY: usize = 1 << 20;
const HALFWORDS: usize = (PAGE_BYTES / 2) as usize;

#[derive(Clone, Copy)]
struct Block {
    first_op: u32,
    count: u32,
    first_warm_event: u32,
    warm_events: u32,
    /// Physical address of its first instruction.
    phys: PhysAddr,
    /// The second half of an instruction that starts in the page's last halfword. It is in another virtual
    /// page, so such a block is checked on each execution and never linked to.
    straddles: Option<u16>,
}

/// A fetch fault and its `xtval` address. `Breakpoint`, which a fetch cannot raise, means a debugger's
/// breakpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FetchFault {
    pub cause: Exception,
    pub tval: u64,
}

/// The blocks of one physical page, indexed by the halfword at which they start.
type PageTable = Box<[BlockId; HALFWORDS]>;

/// The decoded blocks of one RAM.
#[derive(Default)]
pub(crate) struct Code {
    /// The RAM that the blocks were decoded from.
    memory: Option<RamId>,
    ops: Vec<Op>,
    /// Timing-model templates, one per op; only if harts log accesses.
    templates: Vec<TimedOp>,
    /// Warming events of all blocks; only if harts log accesses.
    warm_events: Vec<WarmEvent>,
    logging: bool,
    blocks: Vec<Block>,
    /// For each page of RAM, one more than its index in `tables`; 0 if it has no blocks.
    page_index: Vec<u32>,
    tables: Vec<PageTable>,
    free_tables: Vec<u32>,
    /// A debugger's breakpoints, by virtual address.
    breakpoints: BTreeSet<u64>,
    /// Incremented when all blocks are dropped, because block indices are then reused.
    generation: u32,
}

/// A hart's engine while it runs: the shared blocks, and this hart's links between them.
pub(crate) struct Engine {
    pub code: Box<Code>,
    pub paths: Box<Paths>,
}

impl Engine {
    /// Prepares the shared blocks for this hart: keeps compatible ones, drops others.
    #[inline]
    pub fn begin(&mut self, ram: &Ram, logging: bool) {
        let Engine { code, paths } = self;
        if code.memory != Some(ram.id())
            || code.logging != logging
            || !code.has_breakpoints(&paths.breakpoints)
        {
            code.reset_for(ram.id(), logging, &paths.breakpoints);
        }
        paths.set_generation(code.generation);
    }

    /// The block at `hart.pc`, decoded if necessary.
    #[inline(always)]
    pub fn find(&mut self, hart: &mut Hart, ram: &mut Ram) -> Result<BlockId, FetchFault> {
        hart.partly_executable = false;
        match self.paths.recent_target(hart) {
            Some(block) => Ok(block),
            None => self.find_by_page(hart, ram),
        }
    }

    fn find_by_page(&mut self, hart: &mut Hart, ram: &mut Ram) -> Result<BlockId, FetchFault> {
        let block = self.code.find_by_page(hart, ram)?;
        self.paths.set_generation(self.code.generation);
        if hart.partly_executable {
            self.code.check_second_half(hart, ram, block)?;
        } else if !self.code.straddles(block) {
            self.paths.add_target(hart, block);
        }
        Ok(block)
    }

    /// The successor of a finished block for this `exit`, through its link if valid.
    #[inline(always)]
    pub fn follow(&mut self, hart: &mut Hart, ram: &mut Ram, from: BlockId, exit: Exit) -> BlockId {
        self.paths.linked(hart, from, exit).unwrap_or_else(|| self.relink(hart, ram, from, exit))
    }

    #[cold]
    fn relink(&mut self, hart: &mut Hart, ram: &mut Ram, from: BlockId, exit: Exit) -> BlockId {
        let generation = self.code.generation;
        // The run loop repeats and raises a fetch fault.
        let Ok(block) = self.find(hart, ram) else { return NO_BLOCK };
        if self.code.generation != generation {
            return block; // the cache was cleared, and `from` with it
        }
        if self.code.straddles(block) || hart.partly_executable {
            return NO_BLOCK;
        }
        self.paths.link(hart, from, exit, block);
        block
    }

    /// The first `count` ops of a block, followed by an op that leaves.
    pub fn prefix(&mut self, block: BlockId, count: u32) -> *const Op {
        let (first, count) = (self.code.blocks[block as usize].first_op as usize, count as usize);
        self.paths.prefix(&self.code.ops[first..=first + count])
    }
}

impl Code {
    /// The first op of a block and the number of its instructions.
    #[inline(always)]
    pub fn ops(&self, block: BlockId) -> (*const Op, u32) {
        let block = &self.blocks[block as usize];
        // Covers all following ops, not only the first: handlers continue to the next op.
        (self.ops[block.first_op as usize..].as_ptr(), block.count)
    }

    /// Physical address of a block's first instruction.
    #[inline(always)]
    pub fn phys(&self, block: BlockId) -> PhysAddr {
        self.blocks[block as usize].phys
    }

    /// The timing-model templates of a block's ops.
    #[inline(always)]
    pub fn templates(&self, block: BlockId) -> &[TimedOp] {
        let block = &self.blocks[block as usize];
        &self.templates[block.first_op as usize..][..block.count as usize]
    }

    /// The warming events of a block.
    #[inline(always)]
    pub fn warm_events(&self, block: BlockId) -> &[WarmEvent] {
        let block = &self.blocks[block as usize];
        &self.warm_events[block.first_warm_event as usize..][..block.warm_events as usize]
    }

    /// Checks that a block's first instruction is executable to its end, where PMP splits a page.
    #[cold]
    fn check_second_half(&self, hart: &mut Hart, ram: &mut Ram, block: BlockId) -> Result<(), FetchFault> {
        let block = &self.blocks[block as usize];
        let halfwords = self.ops[block.first_op as usize + 1].at;
        if halfwords == 2 && block.straddles.is_none() { second_half(hart, ram).map(drop) } else { Ok(()) }
    }

    /// Whether its last instruction ends in another virtual page.
    #[inline]
    fn straddles(&self, block: BlockId) -> bool {
        self.blocks[block as usize].straddles.is_some()
    }

    fn find_by_page(&mut self, hart: &mut Hart, ram: &mut Ram) -> Result<BlockId, FetchFault> {
        let pc = hart.pc;
        let fault = |cause| FetchFault { cause, tval: pc };
        let phys = hart.translate_fetch(ram, pc).map_err(fault)?;
        let page = ram.page_of(phys).ok_or(fault(Exception::InstructionAccessFault))?;
        // Checked only here: blocks at a breakpoint are never linked or entered as recent targets.
        if self.breakpoints.contains(&pc) {
            return Err(fault(Exception::Breakpoint));
        }
        let halfword = (phys.0 % PAGE_BYTES / 2) as usize;
        if let Some(table) = self.page_index.get(page as usize).and_then(|index| index.checked_sub(1)) {
            let block = self.tables[table as usize][halfword];
            if block != NO_BLOCK && self.is_valid(block, hart, ram)? {
                return Ok(block);
            }
        }
        self.decode_block(hart, ram, phys, page, halfword)
    }

    /// Whether the block's second page, if it has one, still holds the decoded halfword.
    fn is_valid(&self, block: BlockId, hart: &mut Hart, ram: &mut Ram) -> Result<bool, FetchFault> {
        match self.blocks[block as usize].straddles {
            None => Ok(true),
            Some(half) => Ok(second_half(hart, ram)? == half),
        }
    }

    fn decode_block(
        &mut self,
        hart: &mut Hart,
        ram: &mut Ram,
        phys: PhysAddr,
        page: u64,
        halfword: usize,
    ) -> Result<BlockId, FetchFault> {
        if self.ops.len() + BLOCK_OPS + 1 > OPS_CAPACITY {
            self.clear(hart);
        }
        let (first_op, first_warm_event) = (self.ops.len(), self.warm_events.len());
        let mut offset = 0;
        let mut straddles = None;
        let page_end = PAGE_BYTES - phys.0 % PAGE_BYTES;
        while offset < page_end && self.ops.len() - first_op < BLOCK_OPS {
            if offset > 0 && self.may_break_at(phys.0 + offset) {
                break;
            }
            let low = load_half(ram, phys.0 + offset);
            let long = low & 3 == 3;
            let mut high = 0;
            if long && offset + 4 > page_end {
                if offset > 0 {
                    break; // a block of its own
                }
                high = second_half(hart, ram)?;
                straddles = Some(high);
            } else if long {
                high = load_half(ram, phys.0 + offset + 2);
            }
            let inst = decode(u32::from(low) | u32::from(high) << 16);
            if self.logging && offset > 0 && reads_counter(&inst) {
                break;
            }
            self.push(&inst, offset);
            offset += u64::from(inst.len);
            if inst.kind.ends_block() || straddles.is_some() {
                break;
            }
        }
        let count = (self.ops.len() - first_op) as u32;
        // Every block ends with an op that leaves. After a jump it is never executed, but it holds the
        // block's end.
        self.ops.push(leave((offset / 2) as u8));
        if self.logging {
            append_warm_events(&self.templates[first_op..], phys, &mut self.warm_events);
            self.templates.push(TimedOp::default());
        }
        hart.counters.blocks_decoded += 1;
        let id = self.blocks.len() as BlockId;
        self.blocks.push(Block {
            first_op: first_op as u32,
            count,
            first_warm_event: first_warm_event as u32,
            warm_events: (self.warm_events.len() - first_warm_event) as u32,
            phys,
            straddles,
        });
        self.table_of(page, ram)[halfword] = id;
        if ram.note_code(hart.config.id, page) {
            hart.watch_stores(ram, page);
        }
        Ok(id)
    }

    fn push(&mut self, inst: &Inst, offset: u64) {
        let mut op = op_of(inst, offset);
        if self.logging {
            self.templates.push(template(inst, offset));
            op.run = logging_handler(inst.kind).unwrap_or(op.run);
        }
        self.ops.push(op);
    }

    fn table_of(&mut self, page: u64, ram: &Ram) -> &mut PageTable {
        if self.page_index.is_empty() {
            self.page_index = vec![0; (ram.size().0 / PAGE_BYTES) as usize];
        }
        let index = &mut self.page_index[page as usize];
        if *index == 0 {
            *index = match self.free_tables.pop() {
                Some(free) => free + 1,
                None => {
                    self.tables.push(Box::new([NO_BLOCK; HALFWORDS]));
                    self.tables.len() as u32
                }
            };
        }
        &mut self.tables[*index as usize - 1]
    }

    /// Drops the blocks of a page. The caller invalidates links to them by new contexts.
    pub fn drop_page(&mut self, page: u64) {
        let Some(index) = self.page_index.get_mut(page as usize) else { return };
        if let Some(table) = std::mem::take(index).checked_sub(1) {
            self.tables[table as usize].fill(NO_BLOCK);
            self.free_tables.push(table);
        }
    }

    /// Whether a breakpoint may be at a physical address: only its offset in the page is known.
    fn may_break_at(&self, phys: u64) -> bool {
        self.breakpoints.iter().any(|virt| virt % PAGE_BYTES == phys % PAGE_BYTES)
    }

    fn clear(&mut self, hart: &mut Hart) {
        self.drop_all();
        hart.tlb.new_contexts();
    }

    /// Whether the blocks were decoded with these breakpoints. Called for each turn; usually both sets are
    /// empty.
    #[inline]
    fn has_breakpoints(&self, breakpoints: &BTreeSet<u64>) -> bool {
        self.breakpoints.is_empty() && breakpoints.is_empty() || self.breakpoints == *breakpoints
    }

    /// Clears the blocks for another RAM, decoding mode or set of breakpoints.
    #[cold]
    fn reset_for(&mut self, memory: RamId, logging: bool, breakpoints: &BTreeSet<u64>) {
        self.drop_all();
        self.ops.reserve(OPS_CAPACITY);
        (self.memory, self.logging) = (Some(memory), logging);
        self.breakpoints.clone_from(breakpoints);
    }

    /// Distinguishes reused block indices.
    #[inline(always)]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    fn drop_all(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.ops.clear();
        self.templates.clear();
        self.warm_events.clear();
        self.blocks.clear();
        self.page_index.clear();
        self.tables.clear();
        self.free_tables.clear();
    }
}

fn load_half(ram: &Ram, addr: u64) -> u16 {
    u16::from_le_bytes(ram.load(PhysAddr(addr)).expect("a block is within a page of RAM"))
}

/// The halfword at `hart.pc + 2`, which may be in the next virtual page.
fn second_half(hart: &mut Hart, ram: &mut Ram) -> Result<u16, FetchFault> {
    let virt = hart.pc.wrapping_add(2);
    let fault = |cause| FetchFault { cause, tval: virt };
    let phys = hart.translate_fetch(ram, virt).map_err(fault)?;
    ram.load(phys).map(u16::from_le_bytes).ok_or(fault(Exception::InstructionAccessFault))
}

/// Converts an instruction at `offset` in its block to an op.
fn op_of(inst: &Inst, offset: u64) -> Op {
    use Kind::*;
    let writes_integer = |rd: u8| if rd == 0 { SINK } else { rd };
    let mut op = Op {
        run: handler(inst.kind),
        imm: inst.imm,
        rd: if inst.kind.writes_float() { inst.rd } else { writes_integer(inst.rd) },
        rs1: inst.rs1,
        rs2: inst.rs2,
        at: (offset / 2) as u8,
    };
    match inst.kind {
        Auipc => op.imm = op.imm.wrapping_add(offset as i32),
        Jal => {
            op.imm += offset as i32;
            op.rs2 = inst.len;
        }
        Beq | Bne | Blt | Bge | Bltu | Bgeu => op.imm += offset as i32,
        Jalr => op.rs2 = inst.len,
        FmaddS | FmsubS | FnmsubS | FnmaddS | FmaddD | FmsubD | FnmsubD | FnmaddD => {
            op.imm = i32::from(inst.rs3) << 8 | i32::from(inst.rm);
        }
        kind if kind.rounds() => op.imm = i32::from(inst.rm),
        _ => {}
    }
    op
}
