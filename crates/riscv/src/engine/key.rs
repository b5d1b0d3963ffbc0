//! What makes a block's ops the same each time but for addresses and a computed target, in two words, so that it is compared at once.

use super::block::{BLOCKS_MAX, BlockId};
use super::{BLOCK_OPS, Exit};

/// Where the parts of a key's second word are; how the block was left is in its lowest bits.
const PRIVILEGED_SHIFT: u32 = 4;
const COUNT_SHIFT: u32 = 5;
const BLOCK_SHIFT: u32 = 12;
const GENERATION_SHIFT: u32 = 32;

const _: () = assert!((Exit::Stop as u64) < 1 << PRIVILEGED_SHIFT);
const _: () = assert!((BLOCK_OPS as u64) < 1 << (BLOCK_SHIFT - COUNT_SHIFT));
const _: () = assert!((BLOCKS_MAX as u64) <= 1 << (GENERATION_SHIFT - BLOCK_SHIFT));

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The block's virtual address.
    pc: u64,
    what: u64,
}

impl Key {
    /// Of `count` instructions that retired, which begin at `pc`. Which block they are of is said of those that were decoded since the cache
    /// of blocks began afresh for the last time, its `generation`.
    #[inline(always)]
    pub fn new(
        pc: u64,
        (block, generation): (BlockId, u32),
        count: u64,
        exit: Exit,
        privileged: bool,
    ) -> Key {
        let what = u64::from(generation) << GENERATION_SHIFT
            | u64::from(block) << BLOCK_SHIFT
            | count << COUNT_SHIFT
            | u64::from(privileged) << PRIVILEGED_SHIFT
            | exit as u64;
        Key { pc, what }
    }

    /// How many instructions these are.
    pub fn count(&self) -> u64 {
        self.what >> COUNT_SHIFT & ((1 << (BLOCK_SHIFT - COUNT_SHIFT)) - 1)
    }

    /// Whether the block was left by a jump to a computed address.
    pub fn computes(&self) -> bool {
        self.what & ((1 << PRIVILEGED_SHIFT) - 1) == Exit::Indirect as u64
    }

    /// A place for it in a table, by which block it is and how that was left, which is one of two ways: blocks that are executed together
    /// were decoded together, and share lines of the host's caches.
    #[inline(always)]
    pub fn place(&self) -> usize {
        let (block, exit) = (self.what >> BLOCK_SHIFT, self.what & ((1 << PRIVILEGED_SHIFT) - 1));
        block as usize * 2 + usize::from(exit != Exit::Next as u64)
    }

    /// A place for it if it is a part of the block: the first instructions alone, as far as a hart's turn went.
    #[inline(always)]
    pub fn place_of_part(&self) -> usize {
        self.place() + self.count() as usize * 0x2003
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_of_which_anything_differs_differ() {
        let mut keys = HashSet::new();
        let mut all = 0;
        for (pc, block, generation) in
            [(0, 0, 0), (2, 0, 0), (0, 1, 0), (0, BLOCKS_MAX as u32 - 1, 0), (0, 0, 1), (0, 0, u32::MAX)]
        {
            for count in [1, 2, BLOCK_OPS as u64] {
                for exit in [Exit::Next, Exit::Taken, Exit::Indirect, Exit::Stop] {
                    for privileged in [false, true] {
                        let key = Key::new(pc, (block, generation), count, exit, privileged);
                        assert_eq!((key.count(), key.computes()), (count, exit == Exit::Indirect));
                        keys.insert(key);
                        all += 1;
                    }
                }
            }
        }
        assert_eq!(keys.len(), all);
    }
}
