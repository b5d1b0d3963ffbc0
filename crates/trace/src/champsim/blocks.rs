//! A trace's ops in blocks, made ahead by a thread of its own: to make them of records takes about as long as to price the simple ones.
//!
//! A block ends where a branch is, as a machine's do, or behind so many ops.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::{io, thread};

use doorbell_sim::Op;

use super::{Again, Error, OpStream};

/// So many ops of one block, and more if an instruction has them.
const BLOCK_OPS: usize = 64;
/// Blocks are handed over when they have so many ops, 160 KiB.
const BATCH_OPS: usize = 4096;
/// Batches that wait at most.
const BATCHES_AHEAD: usize = 3;

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
    batches: Receiver<Batch>,
    /// Batches that were used, for the thread to fill again.
    used: Sender<Batch>,
    batch: Batch,
    /// How many blocks and ops of the batch have been taken.
    blocks: usize,
    ops: usize,
    position: u64,
}

impl Blocks {
    pub(super) fn new(stream: OpStream<Again>) -> io::Result<Blocks> {
        let (filled, batches) = sync_channel(BATCHES_AHEAD);
        let (used, empty) = channel();
        thread::Builder::new().name("trace ops".to_owned()).spawn(move || make(stream, &filled, &empty))?;
        Ok(Blocks { batches, used, batch: Batch::default(), blocks: 0, ops: 0, position: 0 })
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
        let mut used = std::mem::take(&mut self.batch);
        (self.blocks, self.ops) = (0, 0);
        if let Some(error) = used.failed.take() {
            return Err(error);
        }
        // At the end nobody takes it any more.
        _ = self.used.send(used);
        let Ok(batch) = self.batches.recv() else { return Ok(false) };
        self.batch = batch;
        Ok(true)
    }
}

/// What the thread does: makes batches until the end, or until nobody takes them.
fn make(mut stream: OpStream<Again>, filled: &SyncSender<Batch>, empty: &Receiver<Batch>) {
    loop {
        let mut batch = empty.try_recv().unwrap_or_default();
        batch.ops.clear();
        batch.blocks.clear();
        let mut more = true;
        while more && batch.ops.len() < BATCH_OPS {
            match block(&mut stream, &mut batch.ops) {
                Ok(0) => more = false,
                Ok(instructions) => batch.blocks.push((batch.ops.len(), instructions)),
                Err(error) => (batch.failed, more) = (Some(error), false),
            }
        }
        if filled.send(batch).is_err() || !more {
            return;
        }
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
