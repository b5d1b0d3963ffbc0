//! Trace writer. The simulating thread only records blocks in batches; a second thread encodes them
//! ([`encoding`](super::encoding)), and a third compresses and writes chunks in order. The file appears under
//! its name when it is complete.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use doorbell_sim::memory::Walk;
use doorbell_sim::{Allowance, Op};
use tempfile::NamedTempFile;

use super::batch::Batch;
use super::chunk::{self, END_MAGIC, Head, Kind};
use super::chunk_state::ChunkState;
use super::device::DeviceEvent;
use super::encoder::BlockHint;
use super::encoding::{Encoded, Encoding, Packed};
use super::hart::{Step, instructions};
use super::reader::{Counts, Index};
use super::{Description, TraceError};
use crate::Worker;
use crate::scratch::{persist, temporary};

/// Instructions per chunk at most, give or take a block.
pub const CHUNK_INSTRUCTIONS: u64 = 1 << 22;
/// Bytes per uncompressed chunk, at most; a block is far smaller.
pub(super) const CHUNK_BYTES: usize = 8 << 20;
/// Limit of batches. One more is allocated only while none of them is encoded yet.
const BATCHES: usize = 16;

/// Trace writer. Dropped without [`finish`](TraceWriter::finish), it removes the file.
pub struct TraceWriter {
    harts: Vec<ChunkState>,
    batch: Batch,
    encoder: Worker<Batch, Encoded>,
    back: Receiver<Batch>,
    /// Batches at the encoder.
    away: usize,
    /// Free batches.
    empty: Vec<Batch>,
    /// Walks of the pages that the current block uses first.
    walks: Vec<(u64, Walk)>,
    path: PathBuf,
    file: NamedTempFile,
}

impl TraceWriter {
    /// Creates a file; it replaces an existing trace of that name when it is complete.
    pub fn create(path: &Path, description: &Description) -> Result<TraceWriter, TraceError> {
        TraceWriter::write_to(temporary(path)?, path, description)
    }

    pub(super) fn write_to(
        file: NamedTempFile,
        path: &Path,
        description: &Description,
    ) -> Result<TraceWriter, TraceError> {
        let mut to_file = BufWriter::new(file.as_file().try_clone()?);
        chunk::begin(&mut to_file)?;
        let described = serde_json::to_vec(description).map_err(io::Error::other)?;
        let encoding = Encoding::begin(to_file, description.harts, described)?;
        let (give_back, back) = channel();
        // One more batch than the limit is sent, so sending never waits.
        let encode = move |batches| encoding.run(batches, give_back);
        let encoder = Worker::start("trace encoder", BATCHES + 1, encode)?;
        Ok(TraceWriter {
            harts: (0..description.harts).map(|_| ChunkState::default()).collect(),
            batch: Batch::default(),
            encoder,
            back,
            away: 0,
            empty: Vec::new(),
            walks: Vec::new(),
            path: path.to_owned(),
            file,
        })
    }

    /// Records a block executed by a hart. `walk` returns the walk for an address; it is called for pages
    /// that are new to the chunk.
    pub fn block(
        &mut self,
        hart: u16,
        step: &Step,
        ops: &[Op],
        walk: &mut dyn FnMut(u64) -> Walk,
    ) -> Result<(), TraceError> {
        self.block_with_hint(hart, step, None, ops, walk)
    }

    /// As [`block`](TraceWriter::block), with an optional hint about the block.
    pub fn block_with_hint(
        &mut self,
        hart: u16,
        step: &Step,
        hint: Option<BlockHint>,
        ops: &[Op],
        walk: &mut dyn FnMut(u64) -> Walk,
    ) -> Result<(), TraceError> {
        self.harts[usize::from(hart)].block(step, ops, &mut self.walks, walk);
        self.batch.block(hart, step, hint, ops, self.walks.drain(..));
        let count = hint.map_or_else(|| instructions(ops), |hint| hint.instructions);
        self.add_instructions(hart, count)
    }

    /// Amount that may be recorded for a hart by [`repeat`](TraceWriter::repeat) from now on.
    pub fn allowance(&self, hart: u16) -> Allowance {
        self.harts[usize::from(hart)].allowance()
    }

    /// Records repeated [blocks](doorbell_sim::numbered), each of which differs from the last recorded block
    /// of its number only in virtual addresses. The kind of each address (physical or mapped) must be
    /// unchanged. `step` belongs to the first block; the others have the same space and thread.
    pub fn repeat(
        &mut self,
        hart: u16,
        step: &Step,
        instructions: u64,
        blocks: &[u64],
    ) -> Result<(), TraceError> {
        let state = &mut self.harts[usize::from(hart)];
        if !state.needs_no_step(step) {
            state.step(step);
            self.batch.step(hart, step);
        }
        state.repeat(blocks.len());
        self.batch.repeat(hart, blocks);
        self.add_instructions(hart, instructions)
    }

    /// Records a device event. Events must be in time order.
    pub fn event(&mut self, event: &DeviceEvent) -> Result<(), TraceError> {
        self.batch.event(event);
        if self.batch.is_full() { self.send() } else { Ok(()) }
    }

    /// Accounts for executed instructions.
    #[inline]
    fn add_instructions(&mut self, hart: u16, instructions: u64) -> Result<(), TraceError> {
        let state = &mut self.harts[usize::from(hart)];
        if !state.add_instructions(instructions) && state.bytes() >= CHUNK_BYTES {
            self.catch_up()?;
        }
        if self.batch.is_full() { self.send() } else { Ok(()) }
    }

    /// The chunk may have ended by size, which only the encoder can tell: waits for it.
    #[cold]
    fn catch_up(&mut self) -> Result<(), TraceError> {
        self.send()?;
        let mut chunks = Vec::new();
        while self.away > 0 {
            let batch = self.take_back()?;
            chunks.clear();
            chunks.extend(batch.progress.iter().map(|progress| progress.chunk));
            self.empty.push(batch);
        }
        self.harts.iter_mut().zip(chunks).for_each(|(state, chunk)| state.all_encoded(chunk));
        Ok(())
    }

    /// Sends the batch, and starts another one.
    #[cold]
    fn send(&mut self) -> Result<(), TraceError> {
        while let Ok(batch) = self.back.try_recv() {
            self.is_back(&batch);
            self.empty.push(batch);
        }
        let next = match self.empty.pop() {
            Some(batch) => batch,
            None if self.away + 1 < BATCHES => Batch::default(),
            None => self.take_back()?,
        };
        let mut batch = std::mem::replace(&mut self.batch, next);
        batch.bytes_max.clear();
        batch.bytes_max.extend(self.harts.iter().map(|state| state.bytes_max));
        self.pass(batch)
    }

    fn pass(&mut self, batch: Batch) -> Result<(), TraceError> {
        self.away += 1;
        self.encoder.send(batch)
    }

    /// Waits for an encoded batch.
    fn take_back(&mut self) -> Result<Batch, TraceError> {
        let Ok(batch) = self.back.recv() else { return Err(self.encoder.failure()) };
        self.is_back(&batch);
        Ok(batch)
    }

    fn is_back(&mut self, batch: &Batch) {
        self.away -= 1;
        let all = batch.progress.iter().zip(&batch.bytes_max);
        self.harts
            .iter_mut()
            .zip(all)
            .for_each(|(state, (progress, bytes_max))| state.encoded(*progress, *bytes_max));
    }

    /// Completes the file and moves it into place.
    pub fn finish(mut self) -> Result<Counts, TraceError> {
        let mut batch = std::mem::take(&mut self.batch);
        batch.is_last = true;
        self.pass(batch)?;
        let Some((Packed { mut file, places, at }, counts)) = self.encoder.end()?.flatten() else {
            return Err(io::Error::other("the trace could not be completed").into());
        };
        let index = Index { chunks: places, counts: counts.clone() };
        let head = Head { kind: Kind::Index, hart: 0, first: 0, end: 0 };
        file.write_all(&chunk::packed(head, &postcard::to_stdvec(&index).map_err(io::Error::other)?)?)?;
        file.write_all(&at.to_le_bytes())?;
        file.write_all(END_MAGIC)?;
        file.flush()?;
        persist(self.file, &self.path)?;
        Ok(counts)
    }
}
