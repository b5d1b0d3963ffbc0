//! Encoder of a hart's stream; [`hart`](super::hart) describes the stream and its columns.
//!
//! Most blocks execute repeatedly. For a block that the caller numbers, only the addresses are examined. A
//! block equal to a recently recorded one, with all pages mapped as recorded, costs an additional comparison.

use std::collections::HashMap;

use doorbell_sim::memory::Walk;
use doorbell_sim::{NumberedBlocks, Op, Ps};

use super::bytes::{put, put_difference};
use super::hart::{
    COLUMNS, FIRST_SHAPE, MARK, MARKS, Mark, NEW_SHAPE, PAGE_SHIFT, PAGES, SHAPES, STEPS, Step, StreamState,
    instructions,
};
use super::shape::{Address, OPS_MAX, Shape, ShapeOp};
use super::written_shapes::{ShapeSize, Slot, WrittenShape, put_address, slots, slots_of};

/// Entries of the table of recent shapes, indexed by a hash of a block's first and last op.
const RECENT_SHAPES: usize = 1 << 14;
const NO_SHAPE: u32 = u32::MAX;

/// Caller's promise about a block, which saves the encoder from examining all of it each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHint {
    /// A number chosen by the caller: blocks with the same number differ only in [`Step`], access addresses
    /// and computed targets.
    pub shape: u32,
    /// Instructions that end in the block.
    pub instructions: u64,
}

/// Encoder of a hart's stream.
#[derive(Default)]
pub struct HartEncoder {
    columns: [Vec<u8>; COLUMNS],
    shapes: HashMap<Vec<u8>, usize>,
    /// Address slots of all shapes, concatenated.
    slots: Vec<Slot>,
    /// Numbered blocks, indexed by twice the caller's number, plus one if a trap follows.
    numbered_blocks: Vec<Option<KnownBlock>>,
    /// Shapes of the numbered blocks that no trap follows, indexed by the caller's number.
    numbered: Vec<u32>,
    /// The shapes written so far.
    written: Vec<WrittenShape>,
    sizes: Vec<ShapeSize>,
    /// Table of recent shapes. Empty before the first.
    recent: Vec<u32>,
    known: StreamState,
    scratch: Vec<u8>,
}

/// A recorded block that has a number.
#[derive(Clone, Copy, Debug)]
struct KnownBlock {
    shape: usize,
    /// Its code pages and their frames. Blocks that span more pages are not recorded here.
    fetched: [Option<(u64, u64)>; 2],
}

impl HartEncoder {
    /// Bytes encoded so far.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(Vec::len).sum()
    }

    /// Takes the columns; the next step begins a new chunk.
    pub fn take(&mut self) -> [Vec<u8>; COLUMNS] {
        std::mem::take(self).columns
    }

    /// Encodes a block, as several if it is too long or a page changes its frame within it. Returns its
    /// instruction count.
    pub fn block(
        &mut self,
        step: &Step,
        hint: Option<BlockHint>,
        ops: &[Op],
        walk: &mut dyn FnMut(u64) -> Walk,
    ) -> u64 {
        self.marks(step);
        let Some(hint) = hint else { return self.unnumbered(step.trapped, ops, walk) };
        let table_index = 2 * hint.shape as usize + usize::from(step.trapped);
        match self.numbered_blocks.get(table_index).copied().flatten() {
            Some(known) if self.matches_recorded(&known, ops) => {
                put(&mut self.columns[STEPS], known.shape as u64 + FIRST_SHAPE);
                self.addresses(known.shape, ops);
            }
            _ => {
                if let (Some(shape), Some(fetched)) =
                    (self.block_in_full(step.trapped, ops, walk), fetched(ops))
                {
                    self.numbered_blocks.resize(self.numbered_blocks.len().max(table_index + 1), None);
                    self.numbered_blocks[table_index] = Some(KnownBlock { shape, fetched });
                    if !step.trapped {
                        let number = hint.shape as usize;
                        self.numbered.resize(self.numbered.len().max(number + 1), NO_SHAPE);
                        self.numbered[number] = shape as u32;
                    }
                }
            }
        }
        hint.instructions
    }

    /// Encodes repeated blocks, which were recorded by number in this chunk. Their pages must be mapped as
    /// recorded, and their addresses must be of the same kinds. `step` is needed only if it differs from what
    /// already holds. Returns the instruction and op counts.
    pub fn repeat(&mut self, step: Option<&Step>, blocks: &[u64]) -> (u64, usize) {
        if let Some(step) = step {
            self.marks(step);
        }
        let (mut instructions, mut ops) = (0, 0);
        for (number, addresses) in NumberedBlocks(blocks) {
            let size = self.repeat_one(number, addresses);
            instructions += u64::from(size.instructions);
            ops += size.ops as usize;
        }
        (instructions, ops)
    }

    #[inline]
    fn repeat_one(&mut self, number: u32, addresses: &[u64]) -> ShapeSize {
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

    /// Encodes a block without a number.
    fn unnumbered(&mut self, trapped: bool, ops: &[Op], walk: &mut dyn FnMut(u64) -> Walk) -> u64 {
        let table_index = table_index(ops, trapped);
        if let Some(shape) = self.recent_shape(table_index, ops, trapped) {
            put(&mut self.columns[STEPS], shape as u64 + FIRST_SHAPE);
            self.addresses(shape, ops);
            return self.sizes[shape].instructions.into();
        }
        if let Some(shape) = self.block_in_full(trapped, ops, walk) {
            self.recent.resize(RECENT_SHAPES, NO_SHAPE);
            self.recent[table_index] = shape as u32;
        }
        instructions(ops)
    }

    /// Encodes a block after examining all of it; returns its shape if it was not divided.
    fn block_in_full(
        &mut self,
        trapped: bool,
        ops: &[Op],
        walk: &mut dyn FnMut(u64) -> Walk,
    ) -> Option<usize> {
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

    /// The recent shape that equals the block, if all its pages are mapped as recorded.
    #[inline]
    fn recent_shape(&mut self, table_index: usize, ops: &[Op], trapped: bool) -> Option<usize> {
        let shape = *self.recent.get(table_index)? as usize;
        let written = self.written.get(shape)?;
        if written.ops.len() != ops.len() || written.trapped != trapped {
            return None;
        }
        let known = &mut self.known;
        let mut fetched = None;
        for (fixed, op) in written.ops.iter().zip(ops) {
            if !fixed.matches(op) {
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

    /// Returns whether all pages of a numbered block are mapped as recorded.
    fn matches_recorded(&mut self, block: &KnownBlock, ops: &[Op]) -> bool {
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

    /// Records the pages that are new to the chunk or have moved.
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
                self.sizes.push(ShapeSize {
                    first_slot: first_slot as u32,
                    slots: (self.slots.len() - first_slot) as u32,
                    instructions: instructions(ops) as u32,
                    ops: ops.len() as u32,
                });
                self.written.push(WrittenShape::new(ops, trapped));
                number
            }
        };
        self.addresses(shape, ops);
        shape
    }

    /// Writes the addresses that differ each time.
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
        known.map(page, frame);
    }
}

/// The pages of the instructions with their frames, if there are at most two.
fn fetched(ops: &[Op]) -> Option<[Option<(u64, u64)>; 2]> {
    let mut found = [None; 2];
    for op in ops {
        let Some(page) = uses(op)[0] else { continue };
        let slot = found.iter_mut().find(|slot| slot.is_none_or(|known| known == page))?;
        *slot = Some(page);
    }
    Some(found)
}

/// Position at which a block must be divided: before an op whose page has another frame than earlier in the
/// block. An op's own two pages always agree.
fn piece(ops: &[Op]) -> Option<usize> {
    // Few blocks use more than a few pages, so a linear search is enough.
    let mut used: Vec<(u64, u64)> = Vec::new();
    let mut agrees = |(page, frame): (u64, u64)| match used.iter().find(|(known, _)| *known == page) {
        Some((_, known)) => *known == frame,
        None => {
            used.push((page, frame));
            true
        }
    };
    let most = ops.len().min(OPS_MAX);
    let conflict = ops[..most].iter().position(|op| !uses(op).into_iter().flatten().all(&mut agrees));
    conflict.map(|at| at.max(1)).or((most < ops.len()).then_some(most))
}

/// The pages that an op uses, with their frames: its instruction's and its data's.
fn uses(op: &Op) -> [Option<(u64, u64)>; 2] {
    let shape = ShapeOp::of(op);
    let fetch = (!shape.fetched_physically).then_some((op.pc >> PAGE_SHIFT, op.fetch.0 >> PAGE_SHIFT));
    let data = shape.address == Address::Mapped;
    [fetch, data.then_some((op.virt >> PAGE_SHIFT, op.phys.0 >> PAGE_SHIFT))]
}

/// Index of a block in the table of recent shapes.
#[inline]
fn table_index(ops: &[Op], trapped: bool) -> usize {
    let (Some(first), Some(last)) = (ops.first(), ops.last()) else { return usize::from(trapped) };
    let ends = first.pc ^ (ops.len() as u64) << 48 ^ u64::from(last.flags) << 56 ^ u64::from(trapped) << 40;
    (ends.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT_SHAPES.ilog2())) as usize
}
