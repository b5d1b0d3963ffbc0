//! The ways that a hart takes between blocks: where it jumped lately, and how blocks lead to each other. They go by virtual address and
//! translation context, and so are its own.

use std::collections::BTreeSet;

use super::block::{BlockId, NO_BLOCK};
use super::table::leave;
use super::{BLOCK_OPS, Exit, Op};
use crate::hart::Hart;

const JUMP_ENTRIES: usize = 4096;

/// A block that may follow another: good while `pc` and `context` are what they were.
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

/// See the module.
pub(crate) struct Paths {
    /// Recent targets by virtual address.
    jumps: Box<[Successor; JUMP_ENTRIES]>,
    /// Where blocks lead by [`Exit::Next`] and [`Exit::Taken`].
    links: Vec<[Successor; 2]>,
    /// A block cut short, for runs that end inside it.
    prefix: [Op; BLOCK_OPS + 1],
    /// A debugger's, by virtual address.
    pub breakpoints: BTreeSet<u64>,
    /// Of the blocks that these are ways between.
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
    /// As new, but for the memory that it has.
    pub fn reset(&mut self) {
        self.forget();
        self.breakpoints.clear();
    }

    fn forget(&mut self) {
        self.jumps.fill(NO_LINK);
        self.links.clear();
    }

    /// Blocks are of this generation: of others nothing is known any more.
    #[inline(always)]
    pub fn are_of(&mut self, generation: u32) {
        if self.generation != generation {
            self.forget();
            self.generation = generation;
        }
    }

    #[inline(always)]
    fn slot(pc: u64) -> usize {
        (pc >> 1) as usize & (JUMP_ENTRIES - 1)
    }

    /// The block at `hart.pc`, if the hart was there lately.
    #[inline(always)]
    pub fn lately(&self, hart: &Hart) -> Option<BlockId> {
        self.jumps[Paths::slot(hart.pc)].for_hart(hart)
    }

    #[inline]
    pub fn remember(&mut self, hart: &Hart, block: BlockId) {
        self.jumps[Paths::slot(hart.pc)] = Successor::of(hart, block);
    }

    /// The block at `hart.pc`, if one that was left in this way has led there.
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

    /// All of these but the last, which the hart leaves instead of executing.
    pub fn cut(&mut self, ops: &[Op]) -> *const Op {
        let (last, kept) = ops.split_last().expect("a block has an op behind its last");
        self.prefix[..kept.len()].copy_from_slice(kept);
        self.prefix[kept.len()] = leave(last.at);
        self.prefix.as_ptr()
    }
}
