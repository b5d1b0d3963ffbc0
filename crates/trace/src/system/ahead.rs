//! Decode-ahead: a thread unpacks and decodes a hart's blocks and passes them on in batches of some thousand.
//!
//! Most blocks execute repeatedly, and only a few of their ops' addresses differ each time. A shape is
//! therefore passed once; a block is only its shape number and those addresses. The timing thread keeps each
//! shape's ops in its own core's caches and fills in the addresses.

use std::collections::HashMap;

use doorbell_sim::memory::Walk;
use doorbell_sim::{Op, PhysAddr};

use super::TraceError;
use super::hart::{DecodedBlock, HartDecoder, PAGE_SHIFT, Page, Step, instructions};
use super::merge::Extent;
use super::reader::{Chunks, malformed};
use super::shape::Shape;
use crate::batches::Batches;

/// A batch is full at this number of blocks or addresses.
const BATCH: usize = 4096;
/// No block taken yet.
const NO_SHAPE: usize = usize::MAX;
/// Before the first step of a batch.
const NO_STEP: usize = usize::MAX;
/// Groups of batches decoded ahead.
const AHEAD: usize = 1;

/// A block of a batch: shape, step, and the ends of its addresses and of the updates that precede it.
#[derive(Clone, Copy)]
struct Block {
    shape: u32,
    step: u32,
    addresses: u32,
    updates: u32,
}

/// Changes of decoder state that hold for many blocks.
pub(super) enum Update {
    /// A chunk begins: all shapes and walks are dropped.
    Chunk,
    /// A page, and the entries that a walk for it reads.
    Page(Page, Walk),
    /// The next shape.
    Shape(Shape),
    /// Code pages of a shape from now on, with their frames, in the order of its ops.
    CodePages {
        /// The shape's number.
        shape: usize,
        /// The pages.
        pages: Vec<(u64, u64)>,
    },
}

/// Consecutive blocks.
#[derive(Default)]
struct Batch {
    addresses: Vec<(u64, u64)>,
    /// Range of the memory addresses.
    memory: Extent,
    blocks: Vec<Block>,
    /// Consecutive blocks with equal steps share one entry.
    steps: Vec<Step>,
    updates: Vec<Update>,
    /// Error that ended decoding after these blocks.
    failed: Option<TraceError>,
}

/// A shape, and the ops of its blocks.
struct ShapeOps {
    shape: Shape,
    /// The ops of its last block.
    ops: Vec<Op>,
    /// Indices of the ops whose addresses differ each time.
    differing: Vec<u16>,
    instructions: u64,
    /// Other ops may have changed too, since the last block or since the ops were lent.
    is_new: bool,
}

/// Reader of a hart's blocks.
pub struct HartReader {
    batches: Batches<Batch>,
    batch: Batch,
    /// Position in the batch.
    blocks: usize,
    addresses: usize,
    updates: usize,
    /// Shapes of the chunk so far, and the index of the last block's shape.
    shapes: Vec<ShapeOps>,
    shape: usize,
    /// Index in the batch of the last block's step.
    step: usize,
    walks: HashMap<Page, Walk>,
    page_tables: Extent,
    position: u64,
}

impl HartReader {
    /// Reads `chunks`, the first of which begins at instruction `position` of the hart.
    pub(super) fn new(chunks: Chunks, position: u64) -> Result<HartReader, TraceError> {
        let mut decoding = Decoding { chunks, decoder: None, position };
        let batches = Batches::new("trace decoder", AHEAD, move |batch| decoding.run(batch))?;
        Ok(HartReader {
            batches,
            batch: Batch::default(),
            blocks: 0,
            addresses: 0,
            updates: 0,
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

    /// Advances to the next block; `None` at the end. `true` if its [`step`](HartReader::step) may differ
    /// from the last one's.
    #[inline]
    pub fn advance(&mut self) -> Result<Option<bool>, TraceError> {
        if let Some(shape_ops) = self.shapes.get_mut(self.shape) {
            shape_ops.is_new = false;
        }
        while self.blocks == self.batch.blocks.len() {
            if !self.next_batch()? {
                return Ok(None);
            }
        }
        let Block { shape, step, addresses, updates } = self.batch.blocks[self.blocks];
        self.blocks += 1;
        if self.updates < updates as usize {
            self.apply_updates(updates as usize);
        }
        self.shape = shape as usize;
        let ShapeOps { ops, differing, instructions, .. } = &mut self.shapes[self.shape];
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

    /// Step of the last block.
    #[inline]
    pub fn step(&self) -> Step {
        self.batch.steps.get(self.step).copied().unwrap_or_default()
    }

    /// Address range of the last block's [`differing`](HartReader::differing) memory accesses; may be wider.
    #[inline]
    pub fn accessed(&self) -> Extent {
        self.batch.memory
    }

    /// Ops of the last block.
    #[inline]
    pub fn ops(&self) -> &[Op] {
        self.shapes.get(self.shape).map_or(&[], |shape_ops| &shape_ops.ops)
    }

    /// Lends the ops of the last block; they must be returned before the next
    /// [`advance`](HartReader::advance). Changes persist when the block repeats, except in the addresses of
    /// [`differing`](HartReader::differing) ops.
    #[inline]
    pub fn lend(&mut self) -> Vec<Op> {
        self.shapes.get_mut(self.shape).map_or(Vec::new(), |shape_ops| std::mem::take(&mut shape_ops.ops))
    }

    /// Returns the ops that [`lend`](HartReader::lend) lent.
    #[inline]
    pub fn take_back(&mut self, ops: Vec<Op>) {
        if let Some(shape_ops) = self.shapes.get_mut(self.shape) {
            shape_ops.ops = ops;
        }
    }

    /// Indices of the ops whose addresses differ from the block's last execution; `None` if any op may
    /// differ.
    #[inline]
    pub fn differing(&self) -> Option<&[u16]> {
        self.shapes
            .get(self.shape)
            .filter(|shape_ops| !shape_ops.is_new)
            .map(|shape_ops| &shape_ops.differing[..])
    }

    /// Appends the next block's ops; `None` at the end.
    pub fn next(&mut self, ops: &mut Vec<Op>) -> Result<Option<Step>, TraceError> {
        if self.advance()?.is_none() {
            return Ok(None);
        }
        ops.extend_from_slice(self.ops());
        Ok(Some(self.step()))
    }

    /// Page-table entries that a walk for `virt` reads, as of the last block; no levels where addresses are
    /// not translated.
    pub fn walk(&self, virt: u64) -> Walk {
        self.walks
            .get(&Page { space: self.step().space, number: virt >> PAGE_SHIFT })
            .copied()
            .unwrap_or_default()
    }

    /// Address range of all page-table entries in walks so far.
    pub fn page_tables(&self) -> Extent {
        self.page_tables
    }

    /// Takes the next batch, if there is one.
    fn next_batch(&mut self) -> Result<bool, TraceError> {
        (self.blocks, self.addresses, self.updates) = (0, 0, 0);
        (self.shape, self.step) = (NO_SHAPE, NO_STEP);
        match self.batch.failed.take() {
            Some(error) => Err(error),
            None => Ok(self.batches.next(&mut self.batch)),
        }
    }

    #[cold]
    fn apply_updates(&mut self, until: usize) {
        for updates in &mut self.batch.updates[self.updates..until] {
            match updates {
                Update::Chunk => {
                    self.walks.clear();
                    self.shapes.clear();
                }
                Update::Page(page, walk) => {
                    let entries = &walk.entries[..usize::from(walk.levels)];
                    entries.iter().for_each(|entry| self.page_tables.note(entry.0, 8));
                    self.walks.insert(*page, *walk);
                }
                Update::Shape(shape) => self.shapes.push(ShapeOps::new(std::mem::take(shape))),
                Update::CodePages { shape, pages } => self.shapes[*shape].set_code_pages(pages),
            }
        }
        self.updates = until;
    }
}

impl ShapeOps {
    fn new(shape: Shape) -> ShapeOps {
        let differing = shape.differing().map(|(at, _)| at).collect();
        let mut shape_ops = ShapeOps { shape, ops: Vec::new(), differing, instructions: 0, is_new: true };
        shape_ops.set_code_pages(&[]);
        shape_ops.instructions = instructions(&shape_ops.ops);
        shape_ops
    }

    fn set_code_pages(&mut self, pages: &[(u64, u64)]) {
        self.shape.fetched_from(pages, &mut self.ops);
        self.is_new = true;
    }
}

/// Decoder thread.
struct Decoding {
    chunks: Chunks,
    /// Decoder of the current chunk, instruction count at the chunk's end, and the chunk's file offset.
    decoder: Option<(HartDecoder, u64, u64)>,
    position: u64,
}

impl Decoding {
    /// Fills a batch; returns whether more may follow.
    fn run(&mut self, batch: &mut Batch) -> bool {
        batch.addresses.clear();
        batch.memory = Extent::default();
        batch.steps.clear();
        batch.blocks.clear();
        batch.updates.clear();
        match self.fill(batch) {
            Ok(more) => more,
            Err(error) => {
                batch.failed = Some(error);
                false
            }
        }
    }

    /// Returns whether more may follow.
    fn fill(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        while batch.addresses.len().max(batch.blocks.len()) < BATCH {
            if !self.block(batch)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Decodes a block; `false` at the end.
    fn block(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        loop {
            if let Some((decoder, end, at)) = &mut self.decoder {
                let Batch { addresses, memory, blocks, steps, updates, .. } = batch;
                let decoded = decoder.next(addresses, memory, updates).map_err(|_| malformed(*at))?;
                if let Some(DecodedBlock { step, shape, instructions }) = decoded {
                    self.position += instructions;
                    if self.position > *end {
                        return Err(malformed(*at));
                    }
                    if steps.last() != Some(&step) {
                        steps.push(step);
                    }
                    let (step, addresses, updates) =
                        (steps.len() as u32 - 1, addresses.len() as u32, updates.len() as u32);
                    blocks.push(Block { shape, step, addresses, updates });
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
            batch.updates.push(Update::Chunk);
            self.decoder = Some((HartDecoder::new(columns), head.end, at));
        }
    }
}
