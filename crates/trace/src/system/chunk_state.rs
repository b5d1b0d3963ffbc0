//! The writer's view of a hart's current chunk, while the encoder thread lags behind. It tracks the pages
//! recorded so far, because walks must be taken while the page tables are current. It also tracks where the
//! chunk may have ended, which resets all of this.

use std::collections::HashMap;

use doorbell_sim::memory::Walk;
use doorbell_sim::{Allowance, Op};

use super::batch::Progress;
use super::hart::{PAGE_SHIFT, Step, StreamState};
use super::shape::Address;
use super::writer::{CHUNK_BYTES, CHUNK_INSTRUCTIONS};

/// Upper bounds of encoded sizes: what precedes a block, an op, a page, and a number or address.
const STEP_BYTES: usize = 64;
const OP_BYTES: usize = 64;
const PAGE_BYTES: usize = 96;
const WORD_BYTES: usize = 10;
/// Words of numbered blocks recorded at once, at most, give or take one.
const WORDS: usize = 1 << 10;

/// State of a hart.
#[derive(Default)]
pub(super) struct ChunkState {
    known: StreamState,
    /// While unchanged, blocks recorded in full need not be recorded in full again; 0 before the first block.
    era: u64,
    last_era: u64,
    /// Eras of this chunk by address space.
    eras: HashMap<Option<u16>, u64>,
    /// Chunk number.
    chunk: u64,
    instructions: u64,
    /// Upper bound of the bytes in all chunks, including those not encoded yet.
    pub bytes_max: usize,
    /// Value of the bound at the last known encoding progress, and the bytes of the chunk encoded by then.
    encoded: (usize, usize),
}

impl ChunkState {
    /// Returns whether the next numbered block needs no step.
    #[inline]
    pub fn needs_no_step(&self, step: &Step) -> bool {
        (step.thread == self.known.thread)
            & (step.space == self.known.space)
            & step.fence.is_none()
            & (step.slept.0 == 0)
    }

    /// Upper bound of the chunk's bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.encoded.1 + (self.bytes_max - self.encoded.0)
    }

    /// Records a block in full: collects the walks that must be recorded with it.
    pub fn block(
        &mut self,
        step: &Step,
        ops: &[Op],
        walks: &mut Vec<(u64, Walk)>,
        walk: &mut dyn FnMut(u64) -> Walk,
    ) {
        self.step(step);
        self.bytes_max += STEP_BYTES + OP_BYTES * ops.len();
        let mut fetched = None;
        for op in ops {
            let from = (op.pc >> PAGE_SHIFT, op.fetch.0 >> PAGE_SHIFT);
            if op.pc != op.fetch.0 && fetched != Some(from) {
                self.page(from.0, from.1, walks, walk);
                fetched = Some(from);
            }
            if op.virt != op.phys.0 && Address::of(op) == Address::Mapped {
                let data = (op.virt >> PAGE_SHIFT, op.phys.0 >> PAGE_SHIFT);
                self.page(data.0, data.1, walks, walk);
                // The instructions may be on this page, which may have moved.
                fetched = fetched.filter(|fetched| fetched.0 != data.0);
            }
        }
    }

    /// Records numbered blocks.
    pub fn repeat(&mut self, words: usize) {
        self.bytes_max += STEP_BYTES + WORD_BYTES * words;
    }

    /// Amount that may be recorded by number before the chunk can have ended.
    pub fn allowance(&self) -> Allowance {
        let room = CHUNK_BYTES.saturating_sub(self.bytes() + STEP_BYTES);
        Allowance {
            era: self.era,
            instructions: CHUNK_INSTRUCTIONS - self.instructions,
            words: WORDS.min(room / WORD_BYTES),
        }
    }

    /// Attributes that hold for the following blocks.
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
        page: u64,
        frame: u64,
        walks: &mut Vec<(u64, Walk)>,
        walk: &mut dyn FnMut(u64) -> Walk,
    ) {
        let before = self.known.frame(page);
        if before == Some(frame) {
            return;
        }
        self.bytes_max += PAGE_BYTES;
        self.known.map(page, frame);
        if !walks.iter().any(|(recorded, _)| *recorded == page) {
            walks.push((page, walk(page << PAGE_SHIFT)));
        }
        if before.is_some() {
            // The page has moved: all blocks must be checked in full again.
            self.last_era += 1;
            self.era = self.last_era;
            self.eras.clear();
            self.eras.insert(self.known.space, self.era);
        }
    }

    /// Adds a block's instructions. Returns whether the chunk ends with it.
    #[inline]
    pub fn add_instructions(&mut self, instructions: u64) -> bool {
        self.instructions += instructions;
        let ends = self.instructions >= CHUNK_INSTRUCTIONS;
        if ends {
            self.next_chunk();
        }
        ends
    }

    /// The encoder reached `progress` when the bound was `bytes_max`.
    pub fn encoded(&mut self, progress: Progress, bytes_max: usize) {
        if progress.chunk == self.chunk {
            self.encoded = (bytes_max, progress.bytes);
        }
    }

    /// Everything is encoded: the chunk may have ended by size with the last block.
    pub fn all_encoded(&mut self, chunk: u64) {
        if chunk != self.chunk {
            self.next_chunk();
        }
        assert_eq!(chunk, self.chunk, "a chunk ends where the writer expects it");
    }

    fn next_chunk(&mut self) {
        self.chunk += 1;
        self.instructions = 0;
        self.encoded = (self.bytes_max, 0);
        self.known = StreamState::default();
        self.eras.clear();
        self.era = 0;
    }
}
