//! Empty polls in a rate-controlled replay. While received frames wait in memory, recorded empty polls are
//! skipped, except one per stretch.
//!
//! A poll is a load from a receive ring. A repeated poll of one address by one instruction shows that the
//! poll before it was empty; the blocks from one to the other are a round. After a round was played without a
//! new write-back being seen, identical rounds are skipped while an unseen frame is in memory.

/// Maximum number of blocks in a round.
const ROUND: usize = 256;

/// Identity of a block: address of its first instruction, and number of ops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockId {
    pub pc: u64,
    pub ops: usize,
}

/// The next block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub id: BlockId,
    /// Whether it has no device access, exception or sleep.
    pub is_plain: bool,
    /// Its load of a receive descriptor: instruction and address.
    pub poll: Option<(u64, u64)>,
}

/// Poll state of one hart.
#[derive(Default)]
pub(super) struct Polls {
    /// The last poll, write-backs seen by then, the blocks since, and whether all of these are plain.
    poll: Option<(u64, u64)>,
    seen: u64,
    round: Vec<BlockId>,
    is_round: bool,
    /// Position in the round that is being skipped.
    left_out: Option<usize>,
}

impl Polls {
    /// Whether to skip the next block. `seen` counts the write-backs that the program has seen; `waiting` is
    /// set if others are in memory.
    pub fn skips(&mut self, block: &Block, seen: u64, waiting: bool) -> bool {
        if let Some(place) = self.left_out {
            if place < self.round.len() {
                if block.is_plain && self.round[place] == block.id {
                    self.left_out = Some(place + 1);
                    return true;
                }
                // Another path through the loop: it is played, and the round is discarded.
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

    /// Plays a round: a poll of `place` and another block. Returns which of them are skipped.
    fn round(polls: &mut Polls, place: u64, seen: u64, waiting: bool) -> [bool; 2] {
        [block(0x100, Some((0x104, place))), block(0x200, None)]
            .map(|block| polls.skips(&block, seen, waiting))
    }

    #[test]
    fn repeated_empty_polls_are_skipped_while_frames_wait() {
        let mut polls = Polls::default();
        assert_eq!(round(&mut polls, 0x10, 7, true), [false; 2], "first poll");
        assert_eq!(round(&mut polls, 0x10, 7, true), [true; 2]);
        assert_eq!(round(&mut polls, 0x10, 7, true), [true; 2]);
        assert_eq!(round(&mut polls, 0x10, 7, false), [false; 2], "no frame waits");
        assert_eq!(round(&mut polls, 0x10, 7, true), [true; 2]);
        assert_eq!(round(&mut polls, 0x10, 8, true), [false; 2], "this poll finds a frame");
        assert_eq!(
            round(&mut polls, 0x20, 8, true),
            [false; 2],
            "another descriptor: the previous poll found a frame"
        );
        assert_eq!(round(&mut polls, 0x20, 8, true), [true; 2]);
    }

    #[test]
    fn rounds_that_differ_are_played() {
        let mut polls = Polls::default();
        round(&mut polls, 0x10, 7, true);
        assert!(polls.skips(&block(0x100, Some((0x104, 0x10))), 7, true));
        assert!(!polls.skips(&block(0x300, None), 7, true), "not the block of the last round");
        assert_eq!(round(&mut polls, 0x10, 7, true), [false; 2], "the round was discarded");
        let store = Block { is_plain: false, ..block(0x400, None) };
        assert!(!polls.skips(&store, 7, true));
        assert_eq!(round(&mut polls, 0x10, 7, true), [false; 2], "a round with an access to a device");
        let mut long = Polls::default();
        long.skips(&block(0x100, Some((0x104, 0x10))), 7, true);
        (0..ROUND).for_each(|_| assert!(!long.skips(&block(0x200, None), 7, true)));
        assert!(!long.skips(&block(0x100, Some((0x104, 0x10))), 7, true), "round too long");
    }
}
