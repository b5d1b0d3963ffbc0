//! A hart's stream within a chunk, which can be read without those before it.
//!
//! A step is a block, by the number of its shape: the shapes are numbered as they first come in the chunk. Before a block
//! stand *marks*: what happened since the block before, and the pages that it is the first to use, with what a walk for them reads.

use std::collections::HashMap;

use doorbell_sim::memory::Walk;
use doorbell_sim::{Op, PhysAddr, Ps, TranslationFence};

use super::ahead::News;
use super::bytes::{Column, Malformed, put, put_difference};
use super::shape::{Address, OPS_MAX, Shape, ShapeOp};

/// Columns of a hart's chunk.
pub const COLUMNS: usize = 6;
const STEPS: usize = 0;
const SHAPES: usize = 1;
const ADDRESSES: usize = 2;
const TARGETS: usize = 3;
const MARKS: usize = 4;
const PAGES: usize = 5;

/// Steps that are no known shape.
const NEW_SHAPE: u64 = 0;
const MARK: u64 = 1;
const FIRST_SHAPE: u64 = 2;

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

/// What the writer may know of a block beforehand, so that it need not look at all of it each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// A number of the caller's: blocks that have the same one differ in nothing but [`Step`], addresses of accesses and computed targets.
    pub shape: u32,
    /// The instructions that end in it.
    pub instructions: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Mark {
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
struct Known {
    /// Where pages lie.
    pages: HashMap<Page, u64>,
    /// Of these, those that were used lately.
    recent: Recent,
    /// The last address of each op of each shape.
    last: Vec<Vec<u64>>,
    space: Option<u16>,
    thread: u64,
    page: u64,
    frame: u64,
    entry: u64,
}

/// Instructions that end in these ops.
pub fn instructions(ops: &[Op]) -> u64 {
    ops.iter().filter(|op| op.ends_instruction()).count() as u64
}

/// Writes a hart's stream.
#[derive(Default)]
pub struct HartEncoder {
    columns: [Vec<u8>; COLUMNS],
    shapes: HashMap<Vec<u8>, usize>,
    /// What differs each time that a shape is executed.
    slots: Vec<Vec<Slot>>,
    /// By twice the caller's number, plus one if it is trapped behind.
    again: Vec<Option<KnownBlock>>,
    known: Known,
    scratch: Vec<u8>,
}

/// An op of a shape that has an address of its own each time.
#[derive(Clone, Copy, Debug)]
struct Slot {
    op: u16,
    address: Address,
    last: u64,
}

/// A block that the caller knows by a number.
#[derive(Clone, Copy, Debug)]
struct KnownBlock {
    shape: usize,
    /// Where its instructions lie: pages, and their frames. One that lies in more is not dealt with so.
    fetched: [Option<(u64, u64)>; 2],
}

impl HartEncoder {
    /// Bytes so far.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(Vec::len).sum()
    }

    /// The columns; the next step begins a new chunk.
    pub fn take(&mut self) -> [Vec<u8>; COLUMNS] {
        std::mem::take(self).columns
    }

    /// Writes a block, as several if it is long or has a page at two places.
    pub fn block(
        &mut self,
        step: &Step,
        again: Option<Again>,
        ops: &[Op],
        walk: &mut dyn FnMut(u64) -> Walk,
    ) {
        self.marks(step);
        let place = again.map(|again| 2 * again.shape as usize + usize::from(step.trapped));
        if let Some(known) = place.and_then(|place| self.again.get(place).copied().flatten())
            && self.is_as_known(&known, ops)
        {
            put(&mut self.columns[STEPS], known.shape as u64 + FIRST_SHAPE);
            return self.addresses(known.shape, ops);
        }
        let mut ops = ops;
        if ops.len() > OPS_MAX || !self.knows(ops) {
            while let Some(end) = piece(ops) {
                self.pages(&ops[..end], walk);
                self.shape(&ops[..end], false);
                ops = &ops[end..];
            }
            self.pages(ops, walk);
        } else if let (Some(place), Some(fetched)) = (place, fetched(ops)) {
            let shape = self.shape(ops, step.trapped);
            self.again.resize(self.again.len().max(place + 1), None);
            self.again[place] = Some(KnownBlock { shape, fetched });
            return;
        }
        self.shape(ops, step.trapped);
    }

    /// Whether all pages of a known block lie where they were told to.
    fn is_as_known(&mut self, block: &KnownBlock, ops: &[Op]) -> bool {
        let mut knows = |page: u64, frame: u64| self.known.frame(page) == Some(frame);
        block.fetched.into_iter().flatten().all(|(page, frame)| knows(page, frame))
            && self.slots[block.shape].iter().filter(|slot| slot.address == Address::Mapped).all(|slot| {
                let op = &ops[usize::from(slot.op)];
                knows(op.virt >> PAGE_SHIFT, op.phys.0 >> PAGE_SHIFT)
            })
    }

    /// Whether all pages lie where they were told to.
    fn knows(&mut self, ops: &[Op]) -> bool {
        ops.iter().flat_map(uses).flatten().all(|(page, frame)| self.known.frame(page) == Some(frame))
    }

    /// Tells the pages that are not known, or lie elsewhere now.
    fn pages(&mut self, ops: &[Op], walk: &mut dyn FnMut(u64) -> Walk) {
        for (page, frame) in ops.iter().flat_map(uses).flatten() {
            if self.known.frame(page) != Some(frame) {
                self.page(page, frame, &walk(page << PAGE_SHIFT));
            }
        }
    }

    fn shape(&mut self, ops: &[Op], trapped: bool) -> usize {
        self.scratch.clear();
        Shape::write(ops, trapped, &mut self.scratch);
        let shape = match self.shapes.get(&self.scratch) {
            Some(shape) => {
                put(&mut self.columns[STEPS], *shape as u64 + FIRST_SHAPE);
                *shape
            }
            None => {
                put(&mut self.columns[STEPS], NEW_SHAPE);
                self.columns[SHAPES].extend_from_slice(&self.scratch);
                let number = self.shapes.len();
                self.shapes.insert(self.scratch.clone(), number);
                self.slots.push(slots(ops));
                number
            }
        };
        self.addresses(shape, ops);
        shape
    }

    /// What differs from one time to the next.
    fn addresses(&mut self, shape: usize, ops: &[Op]) {
        for slot in &mut self.slots[shape] {
            let op = &ops[usize::from(slot.op)];
            assert!(Address::of(op) == slot.address, "the caller knows the block by a wrong number");
            let column = if slot.address == Address::ComputedTarget { TARGETS } else { ADDRESSES };
            put_difference(&mut self.columns[column], op.virt, slot.last);
            slot.last = op.virt;
        }
    }

    fn mark(&mut self, mark: Mark) -> &mut Vec<u8> {
        put(&mut self.columns[STEPS], MARK);
        put(&mut self.columns[MARKS], mark as u64);
        &mut self.columns[MARKS]
    }

    fn marks(&mut self, step: &Step) {
        if let Some(fence) = step.fence {
            let to = self.mark(Mark::Fence);
            let (address, space) = (fence.address.is_some(), fence.space.is_some());
            put(to, u64::from(address) | u64::from(space) << 1);
            put(to, fence.address.unwrap_or(0));
            put(to, fence.space.unwrap_or(0).into());
        }
        if step.slept != Ps::ZERO {
            put(self.mark(Mark::Slept), step.slept.0);
        }
        if step.space != self.known.space {
            match step.space {
                Some(space) => put(self.mark(Mark::Space), space.into()),
                None => _ = self.mark(Mark::Physical),
            }
            self.known.space = step.space;
        }
        if step.thread != self.known.thread {
            put(self.mark(Mark::Thread), step.thread);
            self.known.thread = step.thread;
        }
    }

    fn page(&mut self, page: u64, frame: u64, walk: &Walk) {
        self.mark(Mark::Page);
        let (to, known) = (&mut self.columns[PAGES], &mut self.known);
        put_difference(to, page, known.page);
        put_difference(to, frame, known.frame);
        put(to, walk.levels.into());
        put(to, walk.page_bytes);
        for entry in &walk.entries[..usize::from(walk.levels)] {
            put_difference(to, entry.0, known.entry);
            known.entry = entry.0;
        }
        (known.page, known.frame) = (page, frame);
        known.lies(page, frame);
    }
}

/// What differs each time of ops: of 4096 at most.
fn slots(ops: &[Op]) -> Vec<Slot> {
    let of = |(at, op): (usize, &Op)| match Address::of(op) {
        Address::None | Address::Target => None,
        address => Some(Slot { op: at as u16, address, last: 0 }),
    };
    ops.iter().enumerate().filter_map(of).collect()
}

/// The pages that instructions lie in, and their frames, if they are few.
fn fetched(ops: &[Op]) -> Option<[Option<(u64, u64)>; 2]> {
    let mut found = [None; 2];
    for op in ops {
        let Some(page) = uses(op)[0] else { continue };
        let place = found.iter_mut().find(|place| place.is_none_or(|known| known == page))?;
        *place = Some(page);
    }
    Some(found)
}

/// Where a block has to be divided: before an op that has a page elsewhere than one before it, as an op's two pages agree.
fn piece(ops: &[Op]) -> Option<usize> {
    // Few blocks use more than some pages.
    let mut used: Vec<(u64, u64)> = Vec::new();
    let mut agrees = |(page, frame): (u64, u64)| match used.iter().find(|(known, _)| *known == page) {
        Some((_, known)) => *known == frame,
        None => {
            used.push((page, frame));
            true
        }
    };
    let most = ops.len().min(OPS_MAX);
    let odd = ops[..most].iter().position(|op| !uses(op).into_iter().flatten().all(&mut agrees));
    odd.map(|at| at.max(1)).or((most < ops.len()).then_some(most))
}

/// The pages that an op uses, and where they lie: its instruction's and its data's.
fn uses(op: &Op) -> [Option<(u64, u64)>; 2] {
    let shape = ShapeOp::of(op);
    let fetch = (!shape.fetched_physically).then_some((op.pc >> PAGE_SHIFT, op.fetch.0 >> PAGE_SHIFT));
    let data = shape.address == Address::Mapped;
    [fetch, data.then_some((op.virt >> PAGE_SHIFT, op.phys.0 >> PAGE_SHIFT))]
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
    fn frame(&mut self, number: u64) -> Option<u64> {
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
    fn lies(&mut self, number: u64, frame: u64) {
        self.pages.insert(Page { space: self.space, number }, frame);
        self.recent.0[number as usize % RECENT] = None;
    }
}
