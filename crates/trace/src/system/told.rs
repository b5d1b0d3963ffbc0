//! What the writer knows of a hart's stream while a thread encodes it: which pages the chunk under way has had, as walks for others must be
//! asked for while page tables stand as they do; and where a chunk may have ended, which is when all of this begins anew.

use std::collections::HashMap;

use doorbell_sim::memory::Walk;
use doorbell_sim::{Allowance, Op};

use super::batch::Place;
use super::hart::{Known, PAGE_SHIFT, Step};
use super::shape::Address;
use super::writer::{CHUNK_BYTES, CHUNK_INSTRUCTIONS};

/// Bytes that a block takes at most: for what stands before it, for an op, for a page; and for a number or an address.
const STEP_BYTES: usize = 64;
const OP_BYTES: usize = 64;
const PAGE_BYTES: usize = 96;
const WORD_BYTES: usize = 10;
/// Blocks that are told by their numbers come in so many words at most, give or take one.
const WORDS: usize = 1 << 10;

/// What was told of a hart.
#[derive(Default)]
pub(super) struct Told {
    known: Known,
    /// As long as it is the same, what was told in full need not be told so again; 0 before the first block.
    era: u64,
    last_era: u64,
    /// This chunk's, by address space.
    eras: HashMap<Option<u16>, u64>,
    /// Which chunk, and its instructions so far.
    chunk: u64,
    instructions: u64,
    /// Bytes at most, of all chunks: a tally that runs ahead of what is encoded.
    pub most: usize,
    /// Where the tally was when so many bytes of the chunk were encoded.
    encoded: (usize, usize),
}

impl Told {
    /// Whether the next block can be told by its number without a step.
    #[inline]
    pub fn goes_on(&self, step: &Step) -> bool {
        (step.thread == self.known.thread)
            & (step.space == self.known.space)
            & step.fence.is_none()
            & (step.slept.0 == 0)
    }

    /// The chunk's bytes at most.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.encoded.1 + (self.most - self.encoded.0)
    }

    /// A hart's block is told in full: finds the walks that have to be told with it.
    pub fn block(
        &mut self,
        step: &Step,
        ops: &[Op],
        walks: &mut Vec<(u64, Walk)>,
        walk: &mut dyn FnMut(u64) -> Walk,
    ) {
        self.step(step);
        self.most += STEP_BYTES + OP_BYTES * ops.len();
        let mut fetched = None;
        for op in ops {
            let from = (op.pc >> PAGE_SHIFT, op.fetch.0 >> PAGE_SHIFT);
            if op.pc != op.fetch.0 && fetched != Some(from) {
                self.page(from, walks, walk);
                fetched = Some(from);
            }
            if op.virt != op.phys.0 && Address::of(op) == Address::Mapped {
                let data = (op.virt >> PAGE_SHIFT, op.phys.0 >> PAGE_SHIFT);
                self.page(data, walks, walk);
                // The instructions' page may lie elsewhere now.
                fetched = fetched.filter(|fetched| fetched.0 != data.0);
            }
        }
    }

    /// Blocks are told by their numbers.
    pub fn again(&mut self, words: usize) {
        self.most += STEP_BYTES + WORD_BYTES * words;
    }

    /// What may be told so before the chunk can have ended.
    pub fn allowance(&self) -> Allowance {
        let room = CHUNK_BYTES.saturating_sub(self.bytes() + STEP_BYTES);
        Allowance {
            era: self.era,
            instructions: CHUNK_INSTRUCTIONS - self.instructions,
            words: WORDS.min(room / WORD_BYTES),
        }
    }

    /// What holds for the blocks from now on.
    pub fn step(&mut self, step: &Step) {
        self.known.thread = step.thread;
        if step.space != self.known.space || self.era == 0 {
            self.known.space = step.space;
            self.era = *self.eras.entry(step.space).or_insert_with(|| {
                self.last_era += 1;
                self.last_era
            });
        }
    }

    fn page(
        &mut self,
        (page, frame): (u64, u64),
        walks: &mut Vec<(u64, Walk)>,
        walk: &mut dyn FnMut(u64) -> Walk,
    ) {
        let before = self.known.frame(page);
        if before == Some(frame) {
            return;
        }
        self.most += PAGE_BYTES;
        self.known.lies(page, frame);
        if !walks.iter().any(|(told, _)| *told == page) {
            walks.push((page, walk(page << PAGE_SHIFT)));
        }
        if before.is_some() {
            // It lies elsewhere now: whatever was told has to be looked at again.
            self.last_era += 1;
            self.era = self.last_era;
            self.eras.clear();
            self.eras.insert(self.known.space, self.era);
        }
    }

    /// The block has so many instructions. Says whether the chunk ends with it.
    #[inline]
    pub fn took(&mut self, instructions: u64) -> bool {
        self.instructions += instructions;
        let ends = self.instructions >= CHUNK_INSTRUCTIONS;
        if ends {
            self.next_chunk();
        }
        ends
    }

    /// The stream was encoded up to where the tally stood so.
    pub fn encoded(&mut self, place: Place, most: usize) {
        if place.chunk == self.chunk {
            self.encoded = (most, place.bytes);
        }
    }

    /// All that was told is encoded: the chunk may have ended with the last block, by its bytes.
    pub fn all_encoded(&mut self, chunk: u64) {
        if chunk != self.chunk {
            self.next_chunk();
        }
        assert_eq!(chunk, self.chunk, "a chunk ends where the writer expects it");
    }

    fn next_chunk(&mut self) {
        self.chunk += 1;
        self.instructions = 0;
        self.encoded = (self.most, 0);
        self.known = Known::default();
        self.eras.clear();
        self.era = 0;
    }
}
