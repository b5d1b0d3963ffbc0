//! Polls that found nothing, of a trace that is paced: where frames are waiting already, those that were recorded are left out, but for
//! one of each stretch.
//!
//! A poll is a load from a receive ring. One by the same instruction of the same place as the poll before it says that that one found
//! nothing; what was executed in between is a round. If it was played, and nothing has been reported meanwhile that the program saw, the next
//! rounds are left out as long as they are the same block by block, and a frame that the program has not come to is in memory.

/// Blocks of a round at most.
const ROUND: usize = 256;

/// What a block is known by: the address of its first instruction, and its ops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockId {
    pub pc: u64,
    pub ops: usize,
}

/// A block that comes next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub id: BlockId,
    /// It accesses no device, follows no sleep, and ends in no exception.
    pub is_plain: bool,
    /// The load of a receive descriptor in it: its instruction and place.
    pub poll: Option<(u64, u64)>,
}

/// One hart's polls.
#[derive(Default)]
pub(super) struct Polls {
    /// Since the last poll: it, what has been reported by then, the blocks, whether they are all plain.
    poll: Option<(u64, u64)>,
    seen: u64,
    round: Vec<BlockId>,
    is_round: bool,
    /// So many blocks of a round are left out.
    left_out: Option<usize>,
}

impl Polls {
    /// Whether the next block is left out. `seen` counts the reports of received frames that the program has come to; others may be
    /// `waiting` in memory.
    pub fn skips(&mut self, block: &Block, seen: u64, waiting: bool) -> bool {
        if let Some(place) = self.left_out {
            if place < self.round.len() {
                if block.is_plain && self.round[place] == block.id {
                    self.left_out = Some(place + 1);
                    return true;
                }
                // Another way through the loop: it is played from here on, and no round is known.
                self.is_round = false;
            }
            self.left_out = None;
        }
        let Some(poll) = block.poll else {
            self.is_round &= block.is_plain && self.round.len() < ROUND;
            if self.is_round {
                self.round.push(block.id);
            }
            return false;
        };
        let found_nothing = self.is_round && self.poll == Some(poll) && self.seen == seen;
        if found_nothing && waiting && block.is_plain && self.round.first() == Some(&block.id) {
            self.left_out = Some(1);
            return true;
        }
        (self.poll, self.seen, self.is_round) = (Some(poll), seen, block.is_plain);
        self.round.clear();
        self.round.push(block.id);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(pc: u64, poll: Option<(u64, u64)>) -> Block {
        Block { id: BlockId { pc, ops: 5 }, is_plain: true, poll }
    }

    /// A round of a poll of `place` and another block: which of both are left out.
    fn round(polls: &mut Polls, place: u64, seen: u64, waiting: bool) -> [bool; 2] {
        [block(0x100, Some((0x104, place))), block(0x200, None)]
            .map(|block| polls.skips(&block, seen, waiting))
    }

    #[test]
    fn repeated_polls_that_found_nothing_are_left_out_while_frames_wait_and_one_of_them_stays() {
        let mut polls = Polls::default();
        assert_eq!(round(&mut polls, 0x10, 7, true), [false; 2], "the first");
        assert_eq!(round(&mut polls, 0x10, 7, true), [true; 2]);
        assert_eq!(round(&mut polls, 0x10, 7, true), [true; 2]);
        assert_eq!(round(&mut polls, 0x10, 7, false), [false; 2], "no frame waits");
        assert_eq!(round(&mut polls, 0x10, 7, true), [true; 2]);
        assert_eq!(round(&mut polls, 0x10, 8, true), [false; 2], "this one finds a frame");
        assert_eq!(
            round(&mut polls, 0x20, 8, true),
            [false; 2],
            "another descriptor: the one before found its own"
        );
        assert_eq!(round(&mut polls, 0x20, 8, true), [true; 2]);
    }

    #[test]
    fn what_is_no_repetition_is_played() {
        let mut polls = Polls::default();
        round(&mut polls, 0x10, 7, true);
        assert!(polls.skips(&block(0x100, Some((0x104, 0x10))), 7, true));
        assert!(!polls.skips(&block(0x300, None), 7, true), "another block than last time");
        assert_eq!(round(&mut polls, 0x10, 7, true), [false; 2], "whose round is not known any more");
        let store = Block { is_plain: false, ..block(0x400, None) };
        assert!(!polls.skips(&store, 7, true));
        assert_eq!(round(&mut polls, 0x10, 7, true), [false; 2], "a round with an access to a device");
        let mut long = Polls::default();
        long.skips(&block(0x100, Some((0x104, 0x10))), 7, true);
        (0..ROUND).for_each(|_| assert!(!long.skips(&block(0x200, None), 7, true)));
        assert!(!long.skips(&block(0x100, Some((0x104, 0x10))), 7, true), "too long for a poll");
    }
}
