//! A hart's links between blocks: recent jump targets, and the successors of blocks. They depend on virtual
//! address and translation context, and are therefore private to the hart.

use std::collections::BTreeSet;

use super::block::{BlockId, NO_BLOCK};
use super::table::leave;
use super::{BLOCK_OPS, Exit, Op};
use crate::hart::Hart;

const JUMP_ENTRIES: usize = 4096;

/// A block that may follow another; valid while `pc` and `context` match.
#[derive(Clone, Copy)]
struct Successor {
    pc: u64,
    context: u32,
    block: BlockId,
}

const NO_LINK: Successor = Successor { pc: 1, context: 0, block: NO_BLOCK };

impl Successor {
    #[inline(always)]
    fn of(hart: &Hart, block: BlockId) -> Successor {
        Successor { pc: hart.pc, context: hart.fetch_context(), block }
    }

    #[inline(always)]
    fn for_hart(&self, hart: &Hart) -> Option<BlockId> {
        (self.pc == hart.pc && self.context == hart.fetch_context()).then_some(self.block)
    }
}

/// The links of one hart.
pub(crate) struct Paths {
    /// Recent jump targets, by virtual address.
    jumps: Box<[Successor; JUMP_ENTRIES]>,
    /// Successors of each block for [`Exit::Next`] and [`Exit::Taken`].
    links: Vec<[Successor; 2]>,
    /// A shortened block, for runs that end inside a block.
    prefix: [Op; BLOCK_OPS + 1],
    /// A debugger's breakpoints, by virtual address.
    pub breakpoints: BTreeSet<u64>,
    /// Generation of the blocks that the links refer to.
    generation: u32,
}

impl Default for Paths {
    fn default() -> Self {
        Paths {
            jumps: Box::new([NO_LINK; JUMP_ENTRIES]),
            links: Vec::new(),
            prefix: [leave(0); BLOCK_OPS + 1],
            breakpoints: BTreeSet::new(),
            generation: 0,
        }
    }
}

impl Paths {
    /// Returns to the initial state, but keeps the allocated memory.
    pub fn reset(&mut self) {
        self.clear();
        self.breakpoints.clear();
    }

    fn clear(&mut self) {
        self.jumps.fill(NO_LINK);
        self.links.clear();
    }

    /// Sets the generation of the blocks; links of another one are dropped.
    #[inline(always)]
    pub fn set_generation(&mut self, generation: u32) {
        if self.generation != generation {
            self.clear();
            self.generation = generation;
        }
    }

    #[inline(always)]
    fn slot(pc: u64) -> usize {
        (pc >> 1) as usize & (JUMP_ENTRIES - 1)
    }

    /// The block at `hart.pc`, if it is a recent target.
    #[inline(always)]
    pub fn recent_target(&self, hart: &Hart) -> Option<BlockId> {
        self.jumps[Paths::slot(hart.pc)].for_hart(hart)
    }

    #[inline]
    pub fn add_target(&mut self, hart: &Hart, block: BlockId) {
        self.jumps[Paths::slot(hart.pc)] = Successor::of(hart, block);
    }

    /// The block at `hart.pc`, if it is linked as successor of `from` for this exit.
    #[inline(always)]
    pub fn linked(&self, hart: &Hart, from: BlockId, exit: Exit) -> Option<BlockId> {
        self.links.get(from as usize)?[usize::from(exit == Exit::Taken)].for_hart(hart)
    }

    pub fn link(&mut self, hart: &Hart, from: BlockId, exit: Exit, to: BlockId) {
        let from = from as usize;
        if self.links.len() <= from {
            self.links.resize(from + 1, [NO_LINK; 2]);
        }
        self.links[from][usize::from(exit == Exit::Taken)] = Successor::of(hart, to);
    }

    /// A copy of these ops with the last one replaced by an op that leaves.
    pub fn prefix(&mut self, ops: &[Op]) -> *const Op {
        let (last, kept) = ops.split_last().expect("a block ends with an op that leaves");
        self.prefix[..kept.len()].copy_from_slice(kept);
        self.prefix[kept.len()] = leave(last.at);
        self.prefix.as_ptr()
    }
}
