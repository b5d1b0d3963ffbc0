//! What makes a block's ops the same each time but for addresses and a computed target, in two words, so that it is compared at once. How
//! privileged it was is said beside it, with its [era](super::known).

use super::block::BlockId;
use super::{BLOCK_OPS, Exit};

/// Where the parts of a key's second word are; how the block was left is in its lowest bits.
const COUNT_SHIFT: u32 = 4;
const BLOCK_SHIFT: u32 = 32;

const _: () = assert!((Exit::Stop as u64) < 1 << COUNT_SHIFT);
const _: () = assert!((BLOCK_OPS as u64) < 1 << (BLOCK_SHIFT - COUNT_SHIFT));

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The block's virtual address.
    pc: u64,
    what: u64,
}

impl Key {
    /// Of `count` instructions of a block that retired, which begin at `pc`.
    #[inline(always)]
    pub fn new(pc: u64, block: BlockId, count: u64, exit: Exit) -> Key {
        Key { pc, what: u64::from(block) << BLOCK_SHIFT | count << COUNT_SHIFT | exit as u64 }
    }

    /// How many instructions these are.
    #[inline(always)]
    pub fn count(&self) -> u64 {
        u64::from(self.what as u32) >> COUNT_SHIFT
    }

    /// Whether the block was left by a jump to a computed address.
    #[inline(always)]
    pub fn computes(&self) -> bool {
        self.what & ((1 << COUNT_SHIFT) - 1) == Exit::Indirect as u64
    }

    /// A place for it in a table, by which block it is and how that was left, if it went on: that is one of two ways, of which one is odd.
    /// Blocks that are executed together were decoded together, and share lines of the host's caches.
    #[inline(always)]
    pub fn place(&self) -> usize {
        (self.what >> BLOCK_SHIFT) as usize * 2 + (self.what & 1) as usize
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
        for (pc, block) in [(0, 0), (2, 0), (0, 1), (0, BlockId::MAX)] {
            for count in [1, 2, BLOCK_OPS as u64] {
                for exit in [Exit::Next, Exit::Taken, Exit::Indirect, Exit::Stop] {
                    let key = Key::new(pc, block, count, exit);
                    assert_eq!((key.count(), key.computes()), (count, exit == Exit::Indirect));
                    keys.insert(key);
                    all += 1;
                }
            }
        }
        assert_eq!(keys.len(), all);
    }

    #[test]
    fn the_two_ways_of_a_branch_have_places_of_their_own() {
        let place = |block, exit| Key::new(0x1000, block, 3, exit).place();
        let places =
            [place(7, Exit::Next), place(7, Exit::Taken), place(8, Exit::Indirect), place(9, Exit::Next)];
        assert_eq!(HashSet::from(places).len(), 4);
    }
}
