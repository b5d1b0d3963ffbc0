//! A hart's blocks, decoded ahead by a thread of their own and handed over some thousand ops at a time. Whoever prices them only takes them.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use doorbell_sim::Op;
use doorbell_sim::memory::Walk;

use super::TraceError;
use super::hart::{HartDecoder, PAGE_SHIFT, Page, Step, instructions};
use super::merge::Extent;
use super::reader::{Chunks, malformed};

/// A batch is handed over when it has so many ops or blocks.
const BATCH: usize = 4096;
/// Batches that are decoded ahead.
const AHEAD: usize = 4;

/// A block of a batch.
#[derive(Clone, Copy)]
struct Block {
    step: Step,
    /// Where its ops and the news before it end.
    ops: usize,
    news: usize,
    instructions: u64,
}

/// What the decoder has learnt of pages.
pub(super) enum News {
    /// Nothing is known: a chunk begins.
    Chunk,
    /// A page, and what a walk for it reads.
    Page(Page, Walk),
}

/// Blocks that follow each other.
#[derive(Default)]
struct Batch {
    ops: Vec<Op>,
    blocks: Vec<Block>,
    news: Vec<News>,
    /// Why there is nothing behind them.
    failed: Option<TraceError>,
}

/// Reads a hart's blocks.
pub struct HartReader {
    batches: Receiver<Batch>,
    /// Where used batches go to be filled again.
    used: Sender<Batch>,
    batch: Batch,
    /// How much of the batch has been taken.
    blocks: usize,
    news: usize,
    /// The ops of the last block.
    ops: (usize, usize),
    space: Option<u16>,
    walks: HashMap<Page, Walk>,
    page_tables: Extent,
    position: u64,
}

impl HartReader {
    /// Of chunks, before which the hart has come to instruction `position`.
    pub(super) fn new(chunks: Chunks, position: u64) -> Result<HartReader, TraceError> {
        let (to, batches) = sync_channel(AHEAD);
        let (used, back) = channel();
        let decoding = Decoding { chunks, decoder: None, position };
        std::thread::Builder::new().name("trace decoder".into()).spawn(move || decoding.run(&to, &back))?;
        Ok(HartReader {
            batches,
            used,
            batch: Batch::default(),
            blocks: 0,
            news: 0,
            ops: (0, 0),
            space: None,
            walks: HashMap::new(),
            page_tables: Extent::default(),
            position,
        })
    }

    /// Instructions of the hart before the next block, since recording began.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Goes on to the next block; `None` at the end.
    #[inline]
    pub fn advance(&mut self) -> Result<Option<Step>, TraceError> {
        while self.blocks == self.batch.blocks.len() {
            if !self.next_batch()? {
                return Ok(None);
            }
        }
        let block = self.batch.blocks[self.blocks];
        self.blocks += 1;
        self.ops = (self.ops.1, block.ops);
        self.space = block.step.space;
        self.position += block.instructions;
        if self.news < block.news {
            self.learn(block.news);
        }
        Ok(Some(block.step))
    }

    /// The ops of the block that was come to last.
    #[inline]
    pub fn ops(&self) -> &[Op] {
        &self.batch.ops[self.ops.0..self.ops.1]
    }

    /// Appends the next block's ops; `None` at the end.
    pub fn next(&mut self, ops: &mut Vec<Op>) -> Result<Option<Step>, TraceError> {
        let step = self.advance()?;
        ops.extend_from_slice(self.ops());
        Ok(step)
    }

    /// Which page-table entries a walk for `virt` reads, as of the last block; no levels where addresses are not translated.
    pub fn walk(&self, virt: u64) -> Walk {
        self.walks.get(&Page { space: self.space, number: virt >> PAGE_SHIFT }).copied().unwrap_or_default()
    }

    /// Where the page-table entries lie of which walks have been told so far.
    pub fn page_tables(&self) -> Extent {
        self.page_tables
    }

    /// Takes another batch, if there is one.
    fn next_batch(&mut self) -> Result<bool, TraceError> {
        (self.blocks, self.news, self.ops) = (0, 0, (0, 0));
        let mut used = std::mem::take(&mut self.batch);
        if let Some(error) = used.failed.take() {
            return Err(error);
        }
        // At the end nobody takes it any more.
        _ = self.used.send(used);
        let Ok(batch) = self.batches.recv() else { return Ok(false) };
        self.batch = batch;
        Ok(true)
    }

    #[cold]
    fn learn(&mut self, until: usize) {
        for news in &self.batch.news[self.news..until] {
            match news {
                News::Chunk => self.walks.clear(),
                News::Page(page, walk) => {
                    let entries = &walk.entries[..usize::from(walk.levels)];
                    entries.iter().for_each(|entry| self.page_tables.note(entry.0, 8));
                    self.walks.insert(*page, *walk);
                }
            }
        }
        self.news = until;
    }
}

/// The decoder's side.
struct Decoding {
    chunks: Chunks,
    /// The decoder of a chunk, the instructions up to the chunk's end, and where it is.
    decoder: Option<(HartDecoder, u64, u64)>,
    position: u64,
}

impl Decoding {
    fn run(mut self, to: &SyncSender<Batch>, back: &Receiver<Batch>) {
        loop {
            let mut batch = back.try_recv().unwrap_or_default();
            batch.ops.clear();
            batch.blocks.clear();
            batch.news.clear();
            let more = match self.fill(&mut batch) {
                Ok(more) => more,
                Err(error) => {
                    batch.failed = Some(error);
                    false
                }
            };
            // Whoever reads no further hears no more.
            if to.send(batch).is_err() || !more {
                return;
            }
        }
    }

    /// Whether there may be more.
    fn fill(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        while batch.ops.len().max(batch.blocks.len()) < BATCH {
            if !self.block(batch)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Decodes a block, if there is one.
    fn block(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        loop {
            if let Some((decoder, end, at)) = &mut self.decoder {
                let before = batch.ops.len();
                let step = decoder.next(&mut batch.ops, &mut batch.news).map_err(|_| malformed(*at))?;
                if let Some(step) = step {
                    let instructions = instructions(&batch.ops[before..]);
                    self.position += instructions;
                    if self.position > *end {
                        return Err(malformed(*at));
                    }
                    let (ops, news) = (batch.ops.len(), batch.news.len());
                    batch.blocks.push(Block { step, ops, news, instructions });
                    return Ok(true);
                }
                if self.position != *end {
                    return Err(malformed(*at));
                }
            }
            let Some((head, at, columns)) = self.chunks.next()? else { return Ok(false) };
            if head.first != self.position {
                return Err(malformed(at));
            }
            batch.news.push(News::Chunk);
            self.decoder = Some((HartDecoder::new(columns), head.end, at));
        }
    }
}
