//! Block key: identifies executions of a block whose ops are the same except for addresses and an indirect
//! target. Two words, for a fast comparison. The privilege is not in the key but in the
//! [era](super::block_dictionary).

use super::block::BlockId;
use super::{BLOCK_OPS, Exit};

/// Bit positions in a key's second word; the exit is in its lowest bits.
const COUNT_SHIFT: u32 = 4;
const BLOCK_SHIFT: u32 = 32;
/// Number of bits below the block that are in use.
const HOW_BITS: u32 = 11;

/// Number of slots.
pub(super) const SLOTS: usize = 1 << 16;

const _: () = assert!((Exit::Stop as u64) < 1 << COUNT_SHIFT);
const _: () = assert!((BLOCK_OPS as u64) < 1 << (HOW_BITS - COUNT_SHIFT));

/// A block key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The block's virtual address.
    pc: u64,
    what: u64,
}

impl Key {
    /// The key of `count` retired instructions of a block that start at `pc`.
    #[inline(always)]
    pub fn new(pc: u64, block: BlockId, count: u64, exit: Exit) -> Key {
        Key { pc, what: u64::from(block) << BLOCK_SHIFT | count << COUNT_SHIFT | exit as u64 }
    }

    /// Number of instructions.
    #[inline(always)]
    pub fn count(&self) -> u64 {
        u64::from(self.what as u32) >> COUNT_SHIFT
    }

    /// Whether the block was left by an indirect jump.
    #[inline(always)]
    pub fn is_indirect(&self) -> bool {
        self.what & ((1 << COUNT_SHIFT) - 1) == Exit::Indirect as u64
    }

    /// The slot of the key, below [`SLOTS`]. A completely executed block uses its number and the lowest bit
    /// of its exit, which distinguishes the two successors. Blocks that were decoded together are often
    /// executed together, and so share lines of the host's caches. A partial execution (end of a hart's turn)
    /// uses a hashed slot in the other half.
    #[inline(always)]
    pub fn slot(&self, whole: bool) -> usize {
        let part = ((self.what >> (BLOCK_SHIFT - HOW_BITS) | self.what) as u32).wrapping_mul(0x9e37_79b1);
        match whole {
            true => (self.what >> BLOCK_SHIFT << 1 | self.what & 1) as usize % (SLOTS / 2),
            false => SLOTS / 2 + (part >> (33 - SLOTS.ilog2())) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_differ_in_every_component() {
        let mut keys = HashSet::new();
        let mut all = 0;
        for (pc, block) in [(0, 0), (2, 0), (0, 1), (0, BlockId::MAX)] {
            for count in [1, 2, BLOCK_OPS as u64] {
                for exit in [Exit::Next, Exit::Taken, Exit::Indirect, Exit::Stop] {
                    let key = Key::new(pc, block, count, exit);
                    assert_eq!((key.count(), key.is_indirect()), (count, exit == Exit::Indirect));
                    keys.insert(key);
                    all += 1;
                }
            }
        }
        assert_eq!(keys.len(), all);
    }

    #[test]
    fn branch_successors_and_partial_blocks_have_distinct_slots() {
        let key = |block, exit, count| Key::new(0x1000, block, count, exit);
        let whole = [(7, Exit::Next), (7, Exit::Taken), (8, Exit::Indirect), (9, Exit::Next)];
        let parts = (1..60).map(|count| key(7, Exit::Next, count).slot(false));
        let places: HashSet<usize> =
            whole.map(|(block, exit)| key(block, exit, 60).slot(true)).into_iter().chain(parts).collect();
        assert_eq!(places.len(), 4 + 59);
        assert!(places.iter().all(|place| *place < SLOTS));
        assert!(key(BlockId::MAX, Exit::Stop, 64).slot(true) < SLOTS / 2);
    }
}
