//! The branch target buffer: addresses of taken branches and their targets. Tags and targets are stored as
//! 32-bit hashes, because timing only needs to compare them.

use serde::{Deserialize, Serialize};

use super::digest;

/// A set-associative BTB, the most recently used way first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Btb {
    /// Tag (upper half) and target; 0 is empty.
    ways: Vec<u64>,
    associativity: usize,
    /// Low address bits that do not select the set.
    set_shift: u32,
}

impl Btb {
    pub(super) fn new(entries: u32, ways: u32, set_shift: u32) -> Btb {
        Btb { ways: vec![0; entries as usize], associativity: ways as usize, set_shift }
    }

    /// Returns whether the branch at `pc` has an entry with `target`, and enters it.
    #[inline]
    pub(super) fn look_up(&mut self, pc: u64, target: u64) -> bool {
        let (tag, range) = self.place(pc);
        let set = &mut self.ways[range];
        let entry = u64::from(tag) << 32 | u64::from(digest(target));
        if set[0] == entry {
            return true;
        }
        let found = set.iter().position(|way| (way >> 32) as u32 == tag);
        let way = found.unwrap_or(set.len() - 1);
        let hit = set[way] == entry;
        set.copy_within(0..way, 1);
        set[0] = entry;
        hit
    }

    /// Like [`look_up`](Btb::look_up), without a target. For branches whose target another predictor
    /// provides.
    #[inline]
    pub(super) fn look_up_branch(&mut self, pc: u64) -> bool {
        self.look_up(pc, 0)
    }

    #[inline]
    fn place(&self, pc: u64) -> (u32, std::ops::Range<usize>) {
        let sets = self.ways.len() / self.associativity;
        let set = (pc >> self.set_shift) as usize & (sets - 1);
        let first = set * self.associativity;
        (digest(pc) | 1, first..first + self.associativity)
    }

    pub(super) fn is_compatible(&self, fresh: &Btb) -> bool {
        self.ways.len() == fresh.ways.len()
            && self.associativity == fresh.associativity
            && self.set_shift == fresh.set_shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_branch_of_a_set_is_evicted() {
        let mut btb = Btb::new(64, 2, 1);
        // Three branches of one set: 32 sets of instructions two bytes apart.
        let [a, b, c] = [0x1000, 0x1040, 0x1080];
        assert!(!btb.look_up(a, 1) && !btb.look_up(b, 2));
        assert!(btb.look_up(a, 1) && btb.look_up(b, 2) && btb.look_up(a, 1));
        assert!(!btb.look_up(c, 3));
        assert!(btb.look_up(a, 1));
        assert!(!btb.look_up(b, 2));
        assert!(!btb.look_up(b, 7), "another target");
        assert!(btb.look_up(b, 7));
    }

    /// 64 branches four bytes apart: with a shift of one they share 16 of the 32 sets.
    #[test]
    fn code_of_four_byte_instructions_uses_every_set_with_a_shift_of_two() {
        let misfetches_of_second_pass = |set_shift| {
            let mut btb = Btb::new(64, 2, set_shift);
            let mut pass = || (0..64).filter(|branch| !btb.look_up(0x1000 + 4 * branch, 1)).count();
            assert_eq!(pass(), 64, "first pass misses");
            pass()
        };
        assert_eq!(misfetches_of_second_pass(2), 0);
        assert_eq!(misfetches_of_second_pass(1), 64, "four branches thrash each two-way set");
    }
}
