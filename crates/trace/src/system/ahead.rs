//! A hart's blocks, unpacked and taken apart ahead by a thread of their own, and handed over some thousand at a time.
//!
//! Most blocks are executed again and again, and only few of their ops' addresses differ each time. So a shape is handed over once, and of
//! a block no more than its number and those addresses: whoever prices the blocks has each shape's ops in the caches of its own
//! processor and puts the addresses in.

use std::collections::HashMap;

use doorbell_sim::memory::Walk;
use doorbell_sim::{Op, PhysAddr};

use super::TraceError;
use super::hart::{HartDecoder, PAGE_SHIFT, Page, Step, ToldBlock, instructions};
use super::merge::Extent;
use super::reader::{Chunks, malformed};
use super::shape::Shape;
use crate::batches::Batches;

/// A batch is handed over when it has so many blocks or addresses.
const BATCH: usize = 4096;
/// Of no block.
const NO_SHAPE: usize = usize::MAX;
/// Before a batch's first.
const NO_STEP: usize = usize::MAX;
/// Groups of batches that are decoded ahead.
const AHEAD: usize = 1;

/// A block of a batch: its shape, its step, and where its addresses and the news before it end.
#[derive(Clone, Copy)]
struct Block {
    shape: u32,
    step: u32,
    addresses: u32,
    news: u32,
}

/// What the decoder has come to that is the same for many blocks.
pub(super) enum News {
    /// Nothing is known: a chunk begins.
    Chunk,
    /// A page, and what a walk for it reads.
    Page(Page, Walk),
    /// The next shape.
    Shape(Shape),
    /// From now on a shape's instructions lie there: pages with their frames, as they follow each other.
    Fetched {
        /// The shape's number.
        shape: usize,
        /// The pages.
        pages: Vec<(u64, u64)>,
    },
}

/// Blocks that follow each other.
#[derive(Default)]
struct Batch {
    addresses: Vec<(u64, u64)>,
    /// Where the addresses of memory are.
    memory: Extent,
    blocks: Vec<Block>,
    /// Of blocks that follow each other and have the same, once.
    steps: Vec<Step>,
    news: Vec<News>,
    /// Why there is nothing behind them.
    failed: Option<TraceError>,
}

/// A shape, as blocks are made from it.
struct Known {
    shape: Shape,
    /// The ops of its last block.
    ops: Vec<Op>,
    /// Which of them differ each time.
    differing: Vec<u16>,
    instructions: u64,
    /// Whether more of them than those differ from that block's, now or when they were lent last.
    is_new: bool,
}

/// Reads a hart's blocks.
pub struct HartReader {
    batches: Batches<Batch>,
    batch: Batch,
    /// How much of the batch has been taken.
    blocks: usize,
    addresses: usize,
    news: usize,
    /// The chunk's shapes so far, and the last block's.
    shapes: Vec<Known>,
    shape: usize,
    /// The last block's step in the batch.
    step: usize,
    walks: HashMap<Page, Walk>,
    page_tables: Extent,
    position: u64,
}

impl HartReader {
    /// Of chunks, before which the hart has come to instruction `position`.
    pub(super) fn new(chunks: Chunks, position: u64) -> Result<HartReader, TraceError> {
        let mut decoding = Decoding { chunks, decoder: None, position };
        let batches = Batches::new("trace decoder", AHEAD, move |batch| decoding.run(batch))?;
        Ok(HartReader {
            batches,
            batch: Batch::default(),
            blocks: 0,
            addresses: 0,
            news: 0,
            shapes: Vec::new(),
            shape: NO_SHAPE,
            step: NO_STEP,
            walks: HashMap::new(),
            page_tables: Extent::default(),
            position,
        })
    }

    /// Instructions of the hart before the next block, since recording began.
    #[inline]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Goes on to the next block; `None` at the end. Tells whether its [`step`](HartReader::step) may be another than the last one's.
    #[inline]
    pub fn advance(&mut self) -> Result<Option<bool>, TraceError> {
        if let Some(known) = self.shapes.get_mut(self.shape) {
            known.is_new = false;
        }
        while self.blocks == self.batch.blocks.len() {
            if !self.next_batch()? {
                return Ok(None);
            }
        }
        let Block { shape, step, addresses, news } = self.batch.blocks[self.blocks];
        self.blocks += 1;
        if self.news < news as usize {
            self.learn(news as usize);
        }
        self.shape = shape as usize;
        let Known { ops, differing, instructions, .. } = &mut self.shapes[self.shape];
        let addresses = addresses as usize;
        for (at, (virt, phys)) in differing.iter().zip(&self.batch.addresses[self.addresses..addresses]) {
            let op = &mut ops[usize::from(*at)];
            (op.virt, op.phys) = (*virt, PhysAddr(*phys));
        }
        self.addresses = addresses;
        self.position += *instructions;
        let is_new = self.step != step as usize;
        self.step = step as usize;
        Ok(Some(is_new))
    }

    /// What is told of the block that was come to last.
    #[inline]
    pub fn step(&self) -> Step {
        self.batch.steps.get(self.step).copied().unwrap_or_default()
    }

    /// Where the memory lies that the last block's [`differing`](HartReader::differing) ops access, and its neighbours' too.
    #[inline]
    pub fn accessed(&self) -> Extent {
        self.batch.memory
    }

    /// The ops of the block that was come to last.
    #[inline]
    pub fn ops(&self) -> &[Op] {
        self.shapes.get(self.shape).map_or(&[], |known| &known.ops)
    }

    /// The same, to be given back before the next block is come to. Whoever changes one finds it changed when its block comes again, but
    /// where [`differing`](HartReader::differing) tells of it.
    #[inline]
    pub fn lend(&mut self) -> Vec<Op> {
        self.shapes.get_mut(self.shape).map_or(Vec::new(), |known| std::mem::take(&mut known.ops))
    }

    /// What was lent comes back.
    #[inline]
    pub fn take_back(&mut self, ops: Vec<Op>) {
        if let Some(known) = self.shapes.get_mut(self.shape) {
            known.ops = ops;
        }
    }

    /// Which of the last block's ops have other addresses than when it came before; `None` if all may be others.
    #[inline]
    pub fn differing(&self) -> Option<&[u16]> {
        self.shapes.get(self.shape).filter(|known| !known.is_new).map(|known| &known.differing[..])
    }

    /// Appends the next block's ops; `None` at the end.
    pub fn next(&mut self, ops: &mut Vec<Op>) -> Result<Option<Step>, TraceError> {
        if self.advance()?.is_none() {
            return Ok(None);
        }
        ops.extend_from_slice(self.ops());
        Ok(Some(self.step()))
    }

    /// Which page-table entries a walk for `virt` reads, as of the last block; no levels where addresses are not translated.
    pub fn walk(&self, virt: u64) -> Walk {
        self.walks
            .get(&Page { space: self.step().space, number: virt >> PAGE_SHIFT })
            .copied()
            .unwrap_or_default()
    }

    /// Where the page-table entries lie of which walks have been told so far.
    pub fn page_tables(&self) -> Extent {
        self.page_tables
    }

    /// Takes another batch, if there is one.
    fn next_batch(&mut self) -> Result<bool, TraceError> {
        (self.blocks, self.addresses, self.news) = (0, 0, 0);
        (self.shape, self.step) = (NO_SHAPE, NO_STEP);
        match self.batch.failed.take() {
            Some(error) => Err(error),
            None => Ok(self.batches.next(&mut self.batch)),
        }
    }

    #[cold]
    fn learn(&mut self, until: usize) {
        for news in &mut self.batch.news[self.news..until] {
            match news {
                News::Chunk => {
                    self.walks.clear();
                    self.shapes.clear();
                }
                News::Page(page, walk) => {
                    let entries = &walk.entries[..usize::from(walk.levels)];
                    entries.iter().for_each(|entry| self.page_tables.note(entry.0, 8));
                    self.walks.insert(*page, *walk);
                }
                News::Shape(shape) => self.shapes.push(Known::new(std::mem::take(shape))),
                News::Fetched { shape, pages } => self.shapes[*shape].is_fetched_from(pages),
            }
        }
        self.news = until;
    }
}

impl Known {
    fn new(shape: Shape) -> Known {
        let differing = shape.differing().map(|(at, _)| at).collect();
        let mut known = Known { shape, ops: Vec::new(), differing, instructions: 0, is_new: true };
        known.is_fetched_from(&[]);
        known.instructions = instructions(&known.ops);
        known
    }

    fn is_fetched_from(&mut self, pages: &[(u64, u64)]) {
        self.shape.fetched_from(pages, &mut self.ops);
        self.is_new = true;
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
    /// What the thread does. Whether there may be more.
    fn run(&mut self, batch: &mut Batch) -> bool {
        batch.addresses.clear();
        batch.memory = Extent::default();
        batch.steps.clear();
        batch.blocks.clear();
        batch.news.clear();
        match self.fill(batch) {
            Ok(more) => more,
            Err(error) => {
                batch.failed = Some(error);
                false
            }
        }
    }

    /// Whether there may be more.
    fn fill(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        while batch.addresses.len().max(batch.blocks.len()) < BATCH {
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
                let Batch { addresses, memory, blocks, steps, news, .. } = batch;
                let told = decoder.next(addresses, memory, news).map_err(|_| malformed(*at))?;
                if let Some(ToldBlock { step, shape, instructions }) = told {
                    self.position += instructions;
                    if self.position > *end {
                        return Err(malformed(*at));
                    }
                    if steps.last() != Some(&step) {
                        steps.push(step);
                    }
                    let (step, addresses, news) =
                        (steps.len() as u32 - 1, addresses.len() as u32, news.len() as u32);
                    blocks.push(Block { shape, step, addresses, news });
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
