//! A trace's ops in blocks, made ahead by a thread of its own: to make them of records takes about as long as to price the simple ones.
//!
//! A block ends where a branch is, as a machine's do, or behind so many ops.

use std::io;

use doorbell_sim::Op;

use super::{Again, Error, OpStream};
use crate::batches::Batches;

/// So many ops of one block, and more if an instruction has them.
const BLOCK_OPS: usize = 64;
/// Blocks are handed over when they have so many ops, 160 KiB.
const BATCH_OPS: usize = 4096;
/// Groups of batches that wait at most.
const GROUPS_AHEAD: usize = 1;

/// Blocks that follow each other.
#[derive(Default)]
struct Batch {
    ops: Vec<Op>,
    /// Where each block's ops end, and how many instructions they are.
    blocks: Vec<(usize, u64)>,
    /// Why there is nothing behind them.
    failed: Option<Error>,
}

/// See the module.
pub struct Blocks {
    batches: Batches<Batch>,
    batch: Batch,
    /// How many blocks and ops of the batch have been taken.
    blocks: usize,
    ops: usize,
    position: u64,
}

impl Blocks {
    pub(super) fn new(mut stream: OpStream<Again>) -> io::Result<Blocks> {
        let batches =
            Batches::new("trace ops", GROUPS_AHEAD, move |batch: &mut Batch| batch.fill(&mut stream))?;
        Ok(Blocks { batches, batch: Batch::default(), blocks: 0, ops: 0, position: 0 })
    }

    /// Instructions before the next block.
    #[inline]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Puts the next block's ops in the place of the last one's. Whether there is one.
    #[inline]
    pub fn next(&mut self, ops: &mut Vec<Op>) -> Result<bool, Error> {
        ops.clear();
        while self.blocks == self.batch.blocks.len() {
            if !self.next_batch()? {
                return Ok(false);
            }
        }
        let (end, instructions) = self.batch.blocks[self.blocks];
        ops.extend_from_slice(&self.batch.ops[self.ops..end]);
        (self.blocks, self.ops) = (self.blocks + 1, end);
        self.position += instructions;
        Ok(true)
    }

    fn next_batch(&mut self) -> Result<bool, Error> {
        (self.blocks, self.ops) = (0, 0);
        match self.batch.failed.take() {
            Some(error) => Err(error),
            None => Ok(self.batches.next(&mut self.batch)),
        }
    }
}

impl Batch {
    /// What the thread does. Whether there may be more.
    fn fill(&mut self, stream: &mut OpStream<Again>) -> bool {
        self.ops.clear();
        self.blocks.clear();
        while self.ops.len() < BATCH_OPS {
            match block(stream, &mut self.ops) {
                Ok(0) => return false,
                Ok(instructions) => self.blocks.push((self.ops.len(), instructions)),
                Err(error) => {
                    self.failed = Some(error);
                    return false;
                }
            }
        }
        true
    }
}

/// Appends a block's ops, and says how many instructions they are.
fn block(stream: &mut OpStream<Again>, ops: &mut Vec<Op>) -> Result<u64, Error> {
    let (begin, mut instructions) = (ops.len(), 0);
    while ops.len() - begin < BLOCK_OPS {
        let first = ops.len();
        if !stream.instruction(ops)? {
            break;
        }
        instructions += 1;
        if ops[first..].iter().any(|op| op.class.is_branch()) {
            break;
        }
    }
    Ok(instructions)
}
