//! What makes a block's ops the same each time but for addresses and a computed target, in two words, so that it is compared at once. How
//! privileged it was is said beside it, with its [era](super::known).

use super::block::BlockId;
use super::{BLOCK_OPS, Exit};

/// Where the parts of a key's second word are; how the block was left is in its lowest bits.
const COUNT_SHIFT: u32 = 4;
const BLOCK_SHIFT: u32 = 32;
/// Bits of what is below the block.
const HOW_BITS: u32 = 11;

/// Places of keys.
pub(super) const PLACES: usize = 1 << 16;

const _: () = assert!((Exit::Stop as u64) < 1 << COUNT_SHIFT);
const _: () = assert!((BLOCK_OPS as u64) < 1 << (HOW_BITS - COUNT_SHIFT));

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

    /// Its place among [`PLACES`]. What was executed whole has it by which block it is, and how that was left: as it goes on that is one of two
    /// ways, of which one is odd. So blocks that are executed together, which were decoded together, share lines of the host's caches.
    /// What was executed in part, as far as a hart's turn went, has it among others anywhere.
    #[inline(always)]
    pub fn place(&self, whole: bool) -> usize {
        let part = ((self.what >> (BLOCK_SHIFT - HOW_BITS) | self.what) as u32).wrapping_mul(0x9e37_79b1);
        match whole {
            true => (self.what >> BLOCK_SHIFT << 1 | self.what & 1) as usize % (PLACES / 2),
            false => PLACES / 2 + (part >> (33 - PLACES.ilog2())) as usize,
        }
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
    fn the_two_ways_of_a_branch_have_places_of_their_own_and_parts_have_others() {
        let key = |block, exit, count| Key::new(0x1000, block, count, exit);
        let whole = [(7, Exit::Next), (7, Exit::Taken), (8, Exit::Indirect), (9, Exit::Next)];
        let parts = (1..60).map(|count| key(7, Exit::Next, count).place(false));
        let places: HashSet<usize> =
            whole.map(|(block, exit)| key(block, exit, 60).place(true)).into_iter().chain(parts).collect();
        assert_eq!(places.len(), 4 + 59);
        assert!(places.iter().all(|place| *place < PLACES));
        assert!(key(BlockId::MAX, Exit::Stop, 64).place(true) < PLACES / 2);
    }
}
