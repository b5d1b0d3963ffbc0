//! A hart's stream within a chunk, which can be read without those before it. Here it is read; [`encoder`](super::encoder) writes it.
//!
//! A step is a block, by the number of its shape: the shapes are numbered as they first come in the chunk. Before a block
//! stand *marks*: what happened since the block before, and the pages that it is the first to use, with what a walk for them reads.

use std::collections::HashMap;

use doorbell_sim::memory::Walk;
use doorbell_sim::{Op, PhysAddr, Ps, TranslationFence};

use super::ahead::News;
use super::bytes::{Column, Malformed};
use super::merge::Extent;
use super::shape::{Address, Shape};

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

/// A block, as it stands in the stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToldBlock {
    pub step: Step,
    /// Its shape's number in the chunk.
    pub shape: u32,
    /// The instructions that end in it.
    pub instructions: u64,
}

/// What the decoder knows of a shape.
struct Seen {
    /// What differs each time, in the order of its ops: what it is, whether it is in memory, and the last one.
    differing: Vec<(Address, bool, u64)>,
    /// The pages that its instructions lie in, one after the other, and their frames as they were told last.
    pages: Vec<(u64, u64)>,
    /// How often pages or the space had changed then.
    changes: u64,
    instructions: u64,
    trapped: bool,
}

impl Seen {
    fn new(shape: &Shape) -> Seen {
        let mut pages: Vec<(u64, u64)> = shape.pages().map(|page| (page, NOWHERE)).collect();
        pages.dedup();
        Seen {
            differing: shape.differing().map(|(at, address)| (address, shape.is_memory(at), 0)).collect(),
            pages,
            changes: 0,
            instructions: shape.ops.iter().filter(|of| of.op.ends_instruction()).count() as u64,
            trapped: shape.trapped,
        }
    }
}

/// No frame.
const NOWHERE: u64 = u64::MAX;

/// Reads a hart's stream.
pub struct HartDecoder {
    columns: [Column; COLUMNS],
    shapes: Vec<Seen>,
    known: Known,
    /// How often pages or the space have changed, and once more.
    changes: u64,
}

impl HartDecoder {
    /// Of a chunk's columns.
    pub fn new(columns: [Vec<u8>; COLUMNS]) -> HartDecoder {
        let known = Known::default();
        HartDecoder { columns: columns.map(Column::new), shapes: Vec::new(), known, changes: 1 }
    }

    /// The next block. Appends the virtual and physical address of each of its ops that has others each time, notes where those are that
    /// access memory, and appends what is said before it; `None` at the chunk's end.
    pub(super) fn next(
        &mut self,
        addresses: &mut Vec<(u64, u64)>,
        memory: &mut Extent,
        news: &mut Vec<News>,
    ) -> Result<Option<ToldBlock>, Malformed> {
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
                    self.shapes.push(Seen::new(&shape));
                    news.push(News::Shape(shape));
                    break self.shapes.len() - 1;
                }
                number => break (number - FIRST_SHAPE) as usize,
            }
        };
        (step.space, step.thread) = (self.known.space, self.known.thread);
        let seen = self.shapes.get_mut(shape).ok_or(Malformed)?;
        if seen.changes != self.changes {
            seen.changes = self.changes;
            let mut moved = false;
            for (page, told) in &mut seen.pages {
                let frame = self.known.frame(*page).ok_or(Malformed)?;
                moved |= frame != *told;
                *told = frame;
            }
            if moved {
                news.push(News::Fetched { shape, pages: seen.pages.clone() });
            }
        }
        let [_, _, accesses, targets, ..] = &mut self.columns;
        for (address, is_memory, last) in &mut seen.differing {
            let column = if *address == Address::ComputedTarget { &mut *targets } else { &mut *accesses };
            let virt = column.take_difference(*last)?;
            *last = virt;
            let phys = match address {
                Address::Mapped => {
                    let frame = self.known.frame(virt >> PAGE_SHIFT).ok_or(Malformed)?;
                    (frame << PAGE_SHIFT) | (virt % PAGE_BYTES)
                }
                Address::Physical => virt,
                _ => 0,
            };
            if *is_memory {
                memory.note(phys, 1);
            }
            addresses.push((virt, phys));
        }
        step.trapped = seen.trapped;
        Ok(Some(ToldBlock { step, shape: shape as u32, instructions: seen.instructions }))
    }

    fn mark(&mut self, step: &mut Step, news: &mut Vec<News>) -> Result<(), Malformed> {
        let from = &mut self.columns[MARKS];
        let kind = *MARK_KINDS.get(from.take()? as usize).ok_or(Malformed)?;
        match kind {
            Mark::Physical => (self.known.space, self.changes) = (None, self.changes + 1),
            Mark::Space => {
                let space = from.take()?.try_into().map_err(|_| Malformed)?;
                (self.known.space, self.changes) = (Some(space), self.changes + 1);
            }
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
        self.changes += 1;
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
        let page = Page { space: self.space, number };
        self.pages.insert(page, frame);
        self.recent.0[number as usize % RECENT] = Some((page, frame));
    }
}
