//! Blocks of a trace's ops, decoded ahead by a thread, because decoding takes about as long as simulating
//! simple ops.
//!
//! A block ends after a branch, as in a machine, or at an op limit.

use std::io;

use doorbell_sim::Op;

use super::{CheckedRecords, Error, OpStream};
use crate::batches::Batches;

/// Op limit of a block; its last instruction may exceed it.
const BLOCK_OPS: usize = 64;
/// Ops per batch, 160 KiB.
const BATCH_OPS: usize = 4096;
/// Groups of batches decoded ahead.
const GROUPS_AHEAD: usize = 1;

/// Consecutive blocks.
#[derive(Default)]
struct Batch {
    ops: Vec<Op>,
    /// For each block, the end of its ops and its instruction count.
    blocks: Vec<(usize, u64)>,
    /// Error that ended decoding after these blocks.
    failed: Option<Error>,
}

/// Reader of a trace's blocks; see the module.
pub struct Blocks {
    batches: Batches<Batch>,
    batch: Batch,
    /// Position in the batch.
    blocks: usize,
    ops: usize,
    position: u64,
}

impl Blocks {
    pub(super) fn new(mut stream: OpStream<CheckedRecords>) -> io::Result<Blocks> {
        let batches =
            Batches::new("trace ops", GROUPS_AHEAD, move |batch: &mut Batch| batch.fill(&mut stream))?;
        Ok(Blocks { batches, batch: Batch::default(), blocks: 0, ops: 0, position: 0 })
    }

    /// Instructions before the next block.
    #[inline]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Replaces `ops` by the next block's; `false` at the end.
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
    /// Fills a batch; returns whether more may follow.
    fn fill(&mut self, stream: &mut OpStream<CheckedRecords>) -> bool {
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

/// Appends a block's ops; returns its instruction count.
fn block(stream: &mut OpStream<CheckedRecords>, ops: &mut Vec<Op>) -> Result<u64, Error> {
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
