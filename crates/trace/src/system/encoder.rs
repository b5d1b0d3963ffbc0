//! Writes a hart's stream: what it is, and what its columns hold, is in [`hart`](super::hart).
//!
//! Most blocks are executed again and again. Of one that its caller knows by a number, only addresses are looked at; one that is as one of
//! those before it, and whose pages lie where they were told to, costs a comparison besides.

use std::collections::HashMap;

use doorbell_sim::memory::Walk;
use doorbell_sim::{NumberedBlocks, Op, Ps};

use super::bytes::{put, put_difference};
use super::hart::{
    COLUMNS, FIRST_SHAPE, Known, MARK, MARKS, Mark, NEW_SHAPE, PAGE_SHIFT, PAGES, SHAPES, STEPS, Step,
    instructions,
};
use super::shape::{Address, OPS_MAX, Shape, ShapeOp};
use super::written::{Size, Slot, Written, put_address, slots, slots_of};

/// Shapes that are found at once, by a hash of a block's ends.
const LATELY: usize = 1 << 14;
const NO_SHAPE: u32 = u32::MAX;

/// What the writer may know of a block beforehand, so that it need not look at all of it each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// A number of the caller's: blocks that have the same one differ in nothing but [`Step`], addresses of accesses and computed targets.
    pub shape: u32,
    /// The instructions that end in it.
    pub instructions: u64,
}

/// Writes a hart's stream.
#[derive(Default)]
pub struct HartEncoder {
    columns: [Vec<u8>; COLUMNS],
    shapes: HashMap<Vec<u8>, usize>,
    /// What differs each time that a shape is executed: all shapes', one behind the other.
    slots: Vec<Slot>,
    /// By twice the caller's number, plus one if it is trapped behind.
    again: Vec<Option<KnownBlock>>,
    /// The shapes of these by the caller's number, if they are not trapped behind.
    numbered: Vec<u32>,
    /// The shapes that were written.
    written: Vec<Written>,
    sizes: Vec<Size>,
    /// Numbers of shapes used lately. Empty before the first.
    lately: Vec<u32>,
    known: Known,
    scratch: Vec<u8>,
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

    /// Writes a block, as several if it is long or has a page at two places. Says how many instructions it has.
    pub fn block(
        &mut self,
        step: &Step,
        again: Option<Again>,
        ops: &[Op],
        walk: &mut dyn FnMut(u64) -> Walk,
    ) -> u64 {
        self.marks(step);
        let Some(again) = again else { return self.unnumbered(step.trapped, ops, walk) };
        let place = 2 * again.shape as usize + usize::from(step.trapped);
        match self.again.get(place).copied().flatten() {
            Some(known) if self.is_as_known(&known, ops) => {
                put(&mut self.columns[STEPS], known.shape as u64 + FIRST_SHAPE);
                self.addresses(known.shape, ops);
            }
            _ => {
                if let (Some(shape), Some(fetched)) = (self.anew(step.trapped, ops, walk), fetched(ops)) {
                    self.again.resize(self.again.len().max(place + 1), None);
                    self.again[place] = Some(KnownBlock { shape, fetched });
                    if !step.trapped {
                        let number = again.shape as usize;
                        self.numbered.resize(self.numbered.len().max(number + 1), NO_SHAPE);
                        self.numbered[number] = shape as u32;
                    }
                }
            }
        }
        again.instructions
    }

    /// Writes blocks that were written by their numbers in this chunk before, whose pages lie where they were told to, and whose addresses
    /// are of the same kinds as then. The step is told if it says anything that does not hold already. Says how many instructions and ops
    /// they have.
    pub fn again(&mut self, step: Option<&Step>, blocks: &[u64]) -> (u64, usize) {
        if let Some(step) = step {
            self.marks(step);
        }
        let (mut instructions, mut ops) = (0, 0);
        for (number, addresses) in NumberedBlocks(blocks) {
            let size = self.once_more(number, addresses);
            instructions += u64::from(size.instructions);
            ops += size.ops as usize;
        }
        (instructions, ops)
    }

    #[inline]
    fn once_more(&mut self, number: u32, addresses: &[u64]) -> Size {
        let shape = self.numbered.get(number as usize).copied().filter(|shape| *shape != NO_SHAPE);
        let shape = shape.expect("the block was written in full in this chunk") as usize;
        put(&mut self.columns[STEPS], shape as u64 + FIRST_SHAPE);
        let size = self.sizes[shape];
        assert_eq!(size.slots as usize, addresses.len(), "a shape has as many addresses each time");
        for (slot, virt) in self.slots[size.first_slot as usize..].iter_mut().zip(addresses) {
            put_address(&mut self.columns, slot, *virt);
        }
        size
    }

    /// A block of which nothing is known beforehand.
    fn unnumbered(&mut self, trapped: bool, ops: &[Op], walk: &mut dyn FnMut(u64) -> Walk) -> u64 {
        let place = place(ops, trapped);
        if let Some(shape) = self.as_lately(place, ops, trapped) {
            put(&mut self.columns[STEPS], shape as u64 + FIRST_SHAPE);
            self.addresses(shape, ops);
            return self.sizes[shape].instructions.into();
        }
        if let Some(shape) = self.anew(trapped, ops, walk) {
            self.lately.resize(LATELY, NO_SHAPE);
            self.lately[place] = shape as u32;
        }
        instructions(ops)
    }

    /// Looks at all of a block; its shape, if it is written as one.
    fn anew(&mut self, trapped: bool, ops: &[Op], walk: &mut dyn FnMut(u64) -> Walk) -> Option<usize> {
        let mut left = ops;
        while let Some(end) = piece(left) {
            self.pages(&left[..end], walk);
            self.shape(&left[..end], false);
            left = &left[end..];
        }
        self.pages(left, walk);
        let shape = self.shape(left, trapped);
        (left.len() == ops.len()).then_some(shape)
    }

    /// The shape of a block that is as one used lately, if all pages lie where they were told to.
    #[inline]
    fn as_lately(&mut self, place: usize, ops: &[Op], trapped: bool) -> Option<usize> {
        let shape = *self.lately.get(place)? as usize;
        let written = self.written.get(shape)?;
        if written.ops.len() != ops.len() || written.trapped != trapped {
            return None;
        }
        let known = &mut self.known;
        let mut fetched = None;
        for (fixed, op) in written.ops.iter().zip(ops) {
            if !fixed.is(op) {
                return None;
            }
            let from = (op.pc >> PAGE_SHIFT, op.fetch.0 >> PAGE_SHIFT);
            if !fixed.fetched_physically && fetched != Some(from) {
                if known.frame(from.0) != Some(from.1) {
                    return None;
                }
                fetched = Some(from);
            }
            if fixed.address == Address::Mapped
                && known.frame(op.virt >> PAGE_SHIFT) != Some(op.phys.0 >> PAGE_SHIFT)
            {
                return None;
            }
        }
        Some(shape)
    }

    /// Whether all pages of a known block lie where they were told to.
    fn is_as_known(&mut self, block: &KnownBlock, ops: &[Op]) -> bool {
        let mut knows = |page: u64, frame: u64| self.known.frame(page) == Some(frame);
        block.fetched.into_iter().flatten().all(|(page, frame)| knows(page, frame))
            && slots_of(&self.sizes, &mut self.slots, block.shape).iter().all(|slot| {
                let op = &ops[usize::from(slot.op)];
                match slot.address {
                    Address::Mapped => {
                        op.virt != op.phys.0 && knows(op.virt >> PAGE_SHIFT, op.phys.0 >> PAGE_SHIFT)
                    }
                    Address::Physical => op.virt == op.phys.0,
                    _ => true,
                }
            })
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
                let first_slot = self.slots.len();
                self.slots.extend(slots(ops));
                self.sizes.push(Size {
                    first_slot: first_slot as u32,
                    slots: (self.slots.len() - first_slot) as u32,
                    instructions: instructions(ops) as u32,
                    ops: ops.len() as u32,
                });
                self.written.push(Written::new(ops, trapped));
                number
            }
        };
        self.addresses(shape, ops);
        shape
    }

    /// What differs from one time to the next.
    fn addresses(&mut self, shape: usize, ops: &[Op]) {
        for slot in slots_of(&self.sizes, &mut self.slots, shape) {
            put_address(&mut self.columns, slot, ops[usize::from(slot.op)].virt);
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

/// Where a block's shape is looked for.
#[inline]
fn place(ops: &[Op], trapped: bool) -> usize {
    let (Some(first), Some(last)) = (ops.first(), ops.last()) else { return usize::from(trapped) };
    let ends = first.pc ^ (ops.len() as u64) << 48 ^ u64::from(last.flags) << 56 ^ u64::from(trapped) << 40;
    (ends.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - LATELY.ilog2())) as usize
}
