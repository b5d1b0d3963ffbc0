//! A hart's stream within a chunk, decodable without earlier chunks: the format and the decoder;
//! [`encoder`](super::encoder) writes it.
//!
//! Each step is a block, given by its shape number; shapes are numbered in order of first use in the chunk.
//! *Marks* before a block record events since the previous block, and the pages that the block is the first
//! to use, with the entries read by their walks.

use std::collections::HashMap;

use doorbell_sim::memory::Walk;
use doorbell_sim::{Op, PhysAddr, Ps, TranslationFence};

use super::ahead::Update;
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

/// Step codes other than shape numbers.
pub(super) const NEW_SHAPE: u64 = 0;
pub(super) const MARK: u64 = 1;
pub(super) const FIRST_SHAPE: u64 = 2;

/// Bits of an address within a page.
pub const PAGE_SHIFT: u32 = 12;
const PAGE_BYTES: u64 = 1 << PAGE_SHIFT;

/// Attributes of a block apart from its ops, and events since the previous block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// An exception or interrupt was taken after its ops.
    pub trapped: bool,
    /// Address space; `None` where addresses are physical.
    pub space: Option<u16>,
    /// Identifies the program's thread.
    pub thread: u64,
    /// Translation fence that software executed before the block.
    pub fence: Option<TranslationFence>,
    /// Time that the hart slept before the block.
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
    /// Page number: the address without the offset bits.
    pub number: u64,
}

/// Delta-coding state of the stream, the same in encoder and decoder.
#[derive(Default)]
pub(super) struct StreamState {
    /// Frame of each page.
    pages: HashMap<Page, u64>,
    /// Cache of recently used pages.
    recent: Recent,
    pub space: Option<u16>,
    pub thread: u64,
    pub page: u64,
    pub frame: u64,
    pub entry: u64,
}

/// Number of instructions that end in these ops.
pub fn instructions(ops: &[Op]) -> u64 {
    ops.iter().filter(|op| op.ends_instruction()).count() as u64
}

/// A block, as decoded from the stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecodedBlock {
    pub step: Step,
    /// Shape number within the chunk.
    pub shape: u32,
    /// Instructions that end in it.
    pub instructions: u64,
}

/// Decoder state of a shape.
struct ShapeState {
    /// Addresses that differ each time, in op order: kind, whether the op accesses memory, and the last
    /// address.
    differing: Vec<(Address, bool, u64)>,
    /// Code pages, in order without consecutive repeats, and their last recorded frames.
    pages: Vec<(u64, u64)>,
    /// Value of the decoder's change count when `pages` was updated.
    changes: u64,
    instructions: u64,
    trapped: bool,
}

impl ShapeState {
    fn new(shape: &Shape) -> ShapeState {
        let mut pages: Vec<(u64, u64)> = shape.pages().map(|page| (page, NO_FRAME)).collect();
        pages.dedup();
        ShapeState {
            differing: shape.differing().map(|(at, address)| (address, shape.is_memory(at), 0)).collect(),
            pages,
            changes: 0,
            instructions: shape.ops.iter().filter(|of| of.op.ends_instruction()).count() as u64,
            trapped: shape.trapped,
        }
    }
}

/// Marks an unknown frame.
const NO_FRAME: u64 = u64::MAX;

/// Decoder of a hart's stream.
pub struct HartDecoder {
    columns: [Column; COLUMNS],
    shapes: Vec<ShapeState>,
    known: StreamState,
    /// Number of changes of pages or address space, plus one.
    changes: u64,
}

impl HartDecoder {
    /// Decodes a chunk's columns.
    pub fn new(columns: [Vec<u8>; COLUMNS]) -> HartDecoder {
        let known = StreamState::default();
        HartDecoder { columns: columns.map(Column::new), shapes: Vec::new(), known, changes: 1 }
    }

    /// Decodes the next block; `None` at the chunk's end. Appends the virtual and physical address of each op
    /// that differs each time, extends `memory` by its memory accesses, and appends the updates that precede
    /// it.
    pub(super) fn next(
        &mut self,
        addresses: &mut Vec<(u64, u64)>,
        memory: &mut Extent,
        updates: &mut Vec<Update>,
    ) -> Result<Option<DecodedBlock>, Malformed> {
        let mut step = Step::default();
        let shape = loop {
            if self.columns[STEPS].is_empty() {
                return match self.columns.iter().all(Column::is_empty) {
                    true => Ok(None),
                    false => Err(Malformed),
                };
            }
            match self.columns[STEPS].take()? {
                MARK => self.mark(&mut step, updates)?,
                NEW_SHAPE => {
                    let shape = Shape::read(&mut self.columns[SHAPES])?;
                    self.shapes.push(ShapeState::new(&shape));
                    updates.push(Update::Shape(shape));
                    break self.shapes.len() - 1;
                }
                number => break (number - FIRST_SHAPE) as usize,
            }
        };
        (step.space, step.thread) = (self.known.space, self.known.thread);
        let state = self.shapes.get_mut(shape).ok_or(Malformed)?;
        if state.changes != self.changes {
            state.changes = self.changes;
            let mut moved = false;
            for (page, decoded) in &mut state.pages {
                let frame = self.known.frame(*page).ok_or(Malformed)?;
                moved |= frame != *decoded;
                *decoded = frame;
            }
            if moved {
                updates.push(Update::CodePages { shape, pages: state.pages.clone() });
            }
        }
        let [_, _, accesses, targets, ..] = &mut self.columns;
        for (address, is_memory, last) in &mut state.differing {
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
        step.trapped = state.trapped;
        Ok(Some(DecodedBlock { step, shape: shape as u32, instructions: state.instructions }))
    }

    fn mark(&mut self, step: &mut Step, updates: &mut Vec<Update>) -> Result<(), Malformed> {
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
            Mark::Page => updates.push(self.page()?),
        }
        Ok(())
    }

    fn page(&mut self) -> Result<Update, Malformed> {
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
        known.map(known.page, known.frame);
        self.changes += 1;
        Ok(Update::Page(Page { space: known.space, number: known.page }, walk))
    }
}

/// Cache of recently used pages and their frames, indexed by the low bits of the page number; it avoids most
/// hash-table lookups.
struct Recent([Option<(Page, u64)>; RECENT]);
const RECENT: usize = 256;

impl Default for Recent {
    fn default() -> Recent {
        Recent([None; RECENT])
    }
}

impl StreamState {
    /// Frame of a page in the current address space, if known.
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

    /// Maps a page of the current address space to a frame.
    pub fn map(&mut self, number: u64, frame: u64) {
        let page = Page { space: self.space, number };
        self.pages.insert(page, frame);
        self.recent.0[number as usize % RECENT] = Some((page, frame));
    }
}
