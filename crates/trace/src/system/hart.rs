//! A hart's stream within a chunk, which can be read without those before it. Here it is read; [`encoder`](super::encoder) writes it.
//!
//! A step is a block, by the number of its shape: the shapes are numbered as they first come in the chunk. Before a block
//! stand *marks*: what happened since the block before, and the pages that it is the first to use, with what a walk for them reads.

use std::collections::HashMap;

use doorbell_sim::memory::Walk;
use doorbell_sim::{Op, PhysAddr, Ps, TranslationFence};

use super::ahead::News;
use super::bytes::{Column, Malformed};
use super::shape::{Address, Shape, ShapeOp};

/// Columns of a hart's chunk.
pub const COLUMNS: usize = 6;
pub(super) const STEPS: usize = 0;
pub(super) const SHAPES: usize = 1;
pub(super) const ADDRESSES: usize = 2;
pub(super) const TARGETS: usize = 3;
pub(super) const MARKS: usize = 4;
pub(super) const PAGES: usize = 5;

/// Steps that are no known shape.
pub(super) const NEW_SHAPE: u64 = 0;
pub(super) const MARK: u64 = 1;
pub(super) const FIRST_SHAPE: u64 = 2;

/// Bits of an address within a page.
pub const PAGE_SHIFT: u32 = 12;
const PAGE_BYTES: u64 = 1 << PAGE_SHIFT;

/// What is told of a block besides its ops, and what happened since the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// An exception or interrupt was taken behind its ops.
    pub trapped: bool,
    /// The address space that it was executed in; none where addresses were physical.
    pub space: Option<u16>,
    /// What tells the program's threads apart.
    pub thread: u64,
    /// Translations that software declared void before it.
    pub fence: Option<TranslationFence>,
    /// How long the hart slept before it.
    pub slept: Ps,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Mark {
    Physical,
    Space,
    Thread,
    Fence,
    Slept,
    Page,
}

const MARK_KINDS: [Mark; 6] =
    [Mark::Physical, Mark::Space, Mark::Thread, Mark::Fence, Mark::Slept, Mark::Page];

/// A page of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Page {
    /// The address space.
    pub space: Option<u16>,
    /// Its number: the address without the bits within the page.
    pub number: u64,
}

/// What both sides know of the stream so far.
#[derive(Default)]
pub(super) struct Known {
    /// Where pages lie.
    pages: HashMap<Page, u64>,
    /// Of these, those that were used lately.
    recent: Recent,
    /// The last address of each op of each shape.
    last: Vec<Vec<u64>>,
    pub space: Option<u16>,
    pub thread: u64,
    pub page: u64,
    pub frame: u64,
    pub entry: u64,
}

/// Instructions that end in these ops.
pub fn instructions(ops: &[Op]) -> u64 {
    ops.iter().filter(|op| op.ends_instruction()).count() as u64
}

/// Reads a hart's stream.
pub struct HartDecoder {
    columns: [Column; COLUMNS],
    shapes: Vec<Shape>,
    known: Known,
}

impl HartDecoder {
    /// Of a chunk's columns.
    pub fn new(columns: [Vec<u8>; COLUMNS]) -> HartDecoder {
        HartDecoder { columns: columns.map(Column::new), shapes: Vec::new(), known: Known::default() }
    }

    /// Appends the next block's ops, and what is said of pages before it; `None` at the chunk's end.
    pub fn next(&mut self, ops: &mut Vec<Op>, news: &mut Vec<News>) -> Result<Option<Step>, Malformed> {
        let mut step = Step::default();
        let shape = loop {
            if self.columns[STEPS].is_empty() {
                return match self.columns.iter().all(Column::is_empty) {
                    true => Ok(None),
                    false => Err(Malformed),
                };
            }
            match self.columns[STEPS].take()? {
                MARK => self.mark(&mut step, news)?,
                NEW_SHAPE => {
                    let shape = Shape::read(&mut self.columns[SHAPES])?;
                    self.known.last.push(vec![0; shape.ops.len()]);
                    self.shapes.push(shape);
                    break self.shapes.len() - 1;
                }
                number => break (number - FIRST_SHAPE) as usize,
            }
        };
        (step.space, step.thread) = (self.known.space, self.known.thread);
        step.trapped = self.shapes.get(shape).ok_or(Malformed)?.trapped;
        self.ops(shape, ops)?;
        Ok(Some(step))
    }

    /// Appends the ops of a shape.
    fn ops(&mut self, shape: usize, ops: &mut Vec<Op>) -> Result<(), Malformed> {
        let known = &mut self.known;
        let mut last = std::mem::take(&mut known.last[shape]);
        // Few instructions are on another page than the one before.
        let (mut page, mut frame) = (u64::MAX, 0);
        ops.reserve(last.len());
        for (ShapeOp { op, address, fetched_physically }, last) in
            self.shapes[shape].ops.iter().zip(&mut last)
        {
            let mut op = *op;
            if *fetched_physically {
                op.fetch = PhysAddr(op.pc);
            } else {
                if op.pc >> PAGE_SHIFT != page {
                    page = op.pc >> PAGE_SHIFT;
                    frame = known.frame(page).ok_or(Malformed)? << PAGE_SHIFT;
                }
                op.fetch = PhysAddr(frame | (op.pc % PAGE_BYTES));
            }
            match address {
                Address::None | Address::Target => {}
                Address::ComputedTarget => {
                    op.virt = self.columns[TARGETS].take_difference(*last)?;
                    *last = op.virt;
                }
                Address::Mapped | Address::Physical => {
                    op.virt = self.columns[ADDRESSES].take_difference(*last)?;
                    *last = op.virt;
                    op.phys = PhysAddr(op.virt);
                    if *address == Address::Mapped {
                        let frame = known.frame(op.virt >> PAGE_SHIFT).ok_or(Malformed)?;
                        op.phys = PhysAddr((frame << PAGE_SHIFT) | (op.virt % PAGE_BYTES));
                    }
                }
            }
            ops.push(op);
        }
        known.last[shape] = last;
        Ok(())
    }

    fn mark(&mut self, step: &mut Step, news: &mut Vec<News>) -> Result<(), Malformed> {
        let from = &mut self.columns[MARKS];
        let kind = *MARK_KINDS.get(from.take()? as usize).ok_or(Malformed)?;
        match kind {
            Mark::Physical => self.known.space = None,
            Mark::Space => self.known.space = Some(from.take()?.try_into().map_err(|_| Malformed)?),
            Mark::Thread => self.known.thread = from.take()?,
            Mark::Slept => step.slept = Ps(from.take()?),
            Mark::Fence => {
                let has = from.take()?;
                let (address, space) = (from.take()?, from.take()?.try_into().map_err(|_| Malformed)?);
                let (address, space) = ((has & 1 != 0).then_some(address), (has & 2 != 0).then_some(space));
                step.fence = Some(TranslationFence { address, space });
            }
            Mark::Page => news.push(self.page()?),
        }
        Ok(())
    }

    fn page(&mut self) -> Result<News, Malformed> {
        let (from, known) = (&mut self.columns[PAGES], &mut self.known);
        known.page = from.take_difference(known.page)?;
        known.frame = from.take_difference(known.frame)?;
        let mut walk = Walk { levels: from.take()?.try_into().map_err(|_| Malformed)?, ..Walk::default() };
        walk.page_bytes = from.take()?;
        if walk.levels > 0 && (walk.page_bytes < PAGE_BYTES || !walk.page_bytes.is_power_of_two()) {
            return Err(Malformed);
        }
        for entry in walk.entries.get_mut(..usize::from(walk.levels)).ok_or(Malformed)? {
            known.entry = from.take_difference(known.entry)?;
            *entry = PhysAddr(known.entry);
        }
        known.lies(known.page, known.frame);
        Ok(News::Page(Page { space: known.space, number: known.page }, walk))
    }
}

/// Pages used lately with where they lie, by the low bits of their numbers: most accesses find theirs here, without a look into the table.
struct Recent([Option<(Page, u64)>; RECENT]);
const RECENT: usize = 256;

impl Default for Recent {
    fn default() -> Recent {
        Recent([None; RECENT])
    }
}

impl Known {
    /// Where a page of the space lies, if that is known.
    #[inline]
    pub fn frame(&mut self, number: u64) -> Option<u64> {
        let page = Page { space: self.space, number };
        let place = &mut self.recent.0[number as usize % RECENT];
        if let Some((known, frame)) = *place
            && known == page
        {
            return Some(frame);
        }
        let frame = *self.pages.get(&page)?;
        *place = Some((page, frame));
        Some(frame)
    }

    /// From now on a page of the space lies there.
    pub fn lies(&mut self, number: u64, frame: u64) {
        self.pages.insert(Page { space: self.space, number }, frame);
        self.recent.0[number as usize % RECENT] = None;
    }
}
