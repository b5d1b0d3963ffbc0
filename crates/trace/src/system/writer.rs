//! Writes a trace. Whoever executes only notes what was executed, in batches; a thread encodes them ([`encoding`](super::encoding)) and
//! another one packs and writes chunks, in the order in which they were filled. The file appears under its name when it is whole.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use doorbell_sim::memory::Walk;
use doorbell_sim::{Allowance, Op};

use super::batch::Batch;
use super::chunk::{self, END_MAGIC, Head, Kind};
use super::device::DeviceEvent;
use super::encoder::Again;
use super::encoding::{Encoded, Encoding, Packed};
use super::hart::{Step, instructions};
use super::reader::{Counts, Index};
use super::told::Told;
use super::{Description, TraceError};
use crate::scratch::{lock, remove_left_behind};

/// Instructions of a chunk at most, give or take a block.
pub const CHUNK_INSTRUCTIONS: u64 = 1 << 22;
/// Bytes of a chunk before it is packed, at most; a block is far smaller.
pub(super) const CHUNK_BYTES: usize = 8 << 20;
/// Batches that there are at most. There is one more only when none of the others is encoded yet.
const BATCHES: usize = 16;

/// Writes a trace. Without [`finish`](TraceWriter::finish) nothing is left of it.
pub struct TraceWriter {
    harts: Vec<Told>,
    batch: Batch,
    /// `None` once the encoder has failed.
    to: Option<Sender<Batch>>,
    back: Receiver<Batch>,
    /// Batches that were sent and are not back.
    away: usize,
    /// Others than these and the one that is filled.
    empty: Vec<Batch>,
    encoder: Option<JoinHandle<Encoded>>,
    /// The walks that a block's pages ask for.
    walks: Vec<(u64, Walk)>,
    path: PathBuf,
    partial: Partial,
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file that is not whole yet.
struct Partial(Option<PathBuf>);

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            let _ = fs::remove_file(path);
        }
    }
}

impl TraceWriter {
    /// Begins a file; a trace of that name is replaced when this one is whole.
    pub fn create(path: &Path, description: &Description) -> Result<TraceWriter, TraceError> {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.partial", std::process::id()));
        let partial = path.with_file_name(name);
        remove_left_behind(folder_of(path));
        let file = File::create(&partial)?;
        lock(&file);
        let (partial, mut file) = (Partial(Some(partial)), BufWriter::new(file));
        chunk::begin(&mut file)?;
        let described = serde_json::to_vec(description).map_err(io::Error::other)?;
        let encoding = Encoding::begin(file, description.harts, described)?;
        let ((to, batches), (give_back, back)) = (channel(), channel());
        let encode = move || encoding.run(batches, give_back);
        let encoder = std::thread::Builder::new().name("trace encoder".into()).spawn(encode)?;
        Ok(TraceWriter {
            harts: (0..description.harts).map(|_| Told::default()).collect(),
            batch: Batch::default(),
            to: Some(to),
            back,
            away: 0,
            empty: Vec::new(),
            encoder: Some(encoder),
            walks: Vec::new(),
            path: path.to_owned(),
            partial,
        })
    }

    /// A hart executed a block. `walk` says what a walk for an address reads; it is asked for pages that the chunk has not had.
    pub fn block(
        &mut self,
        hart: u16,
        step: &Step,
        ops: &[Op],
        walk: &mut dyn FnMut(u64) -> Walk,
    ) -> Result<(), TraceError> {
        self.block_of(hart, step, None, ops, walk)
    }

    /// As [`block`](TraceWriter::block), of one of which the caller may know more.
    pub fn block_of(
        &mut self,
        hart: u16,
        step: &Step,
        again: Option<Again>,
        ops: &[Op],
        walk: &mut dyn FnMut(u64) -> Walk,
    ) -> Result<(), TraceError> {
        self.harts[usize::from(hart)].block(step, ops, &mut self.walks, walk);
        self.batch.block(hart, step, again, ops, self.walks.drain(..));
        let count = again.map_or_else(|| instructions(ops), |again| again.instructions);
        self.took(hart, count)
    }

    /// What may be told of a hart by [`again`](TraceWriter::again) from now on.
    pub fn allowance(&self, hart: u16) -> Allowance {
        self.harts[usize::from(hart)].allowance()
    }

    /// A hart executed [blocks](doorbell_sim::numbered) once more, each of which differs from what was told of its number last in nothing but
    /// addresses, which are virtual. None of them is physical that was not, or the other way round. The step is the first block's; of the others space and
    /// thread are the same.
    pub fn again(
        &mut self,
        hart: u16,
        step: &Step,
        instructions: u64,
        blocks: &[u64],
    ) -> Result<(), TraceError> {
        let told = &mut self.harts[usize::from(hart)];
        if !told.goes_on(step) {
            told.step(step);
            self.batch.step(hart, step);
        }
        told.again(blocks.len());
        self.batch.again(hart, blocks);
        self.took(hart, instructions)
    }

    /// A device did something. Events come in the order in which they happened.
    pub fn event(&mut self, event: &DeviceEvent) -> Result<(), TraceError> {
        self.batch.event(event);
        if self.batch.is_full() { self.send() } else { Ok(()) }
    }

    /// A hart has executed so many instructions more.
    #[inline]
    fn took(&mut self, hart: u16, instructions: u64) -> Result<(), TraceError> {
        let told = &mut self.harts[usize::from(hart)];
        if !told.took(instructions) && told.bytes() >= CHUNK_BYTES {
            self.catch_up()?;
        }
        if self.batch.is_full() { self.send() } else { Ok(()) }
    }

    /// The chunk may have ended by its bytes: only the encoder knows.
    #[cold]
    fn catch_up(&mut self) -> Result<(), TraceError> {
        self.send()?;
        let mut chunks = Vec::new();
        while self.away > 0 {
            let batch = self.take_back()?;
            chunks.clear();
            chunks.extend(batch.places.iter().map(|place| place.chunk));
            self.empty.push(batch);
        }
        self.harts.iter_mut().zip(chunks).for_each(|(told, chunk)| told.all_encoded(chunk));
        Ok(())
    }

    /// Sends the batch, and begins another one.
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
        batch.most.clear();
        batch.most.extend(self.harts.iter().map(|told| told.most));
        self.pass(batch)
    }

    fn pass(&mut self, batch: Batch) -> Result<(), TraceError> {
        self.away += 1;
        match &self.to {
            Some(to) if to.send(batch).is_ok() => Ok(()),
            _ => Err(self.failed()),
        }
    }

    /// Waits for a batch to be encoded.
    fn take_back(&mut self) -> Result<Batch, TraceError> {
        let Ok(batch) = self.back.recv() else { return Err(self.failed()) };
        self.is_back(&batch);
        Ok(batch)
    }

    fn is_back(&mut self, batch: &Batch) {
        self.away -= 1;
        let all = batch.places.iter().zip(&batch.most);
        self.harts.iter_mut().zip(all).for_each(|(told, (place, most))| told.encoded(*place, *most));
    }

    /// Why there is no encoder any more.
    fn failed(&mut self) -> TraceError {
        let further = || io::Error::other("the trace could not be written any further").into();
        self.encoded().err().unwrap_or_else(further)
    }

    /// What the encoder came to, which ends with this.
    fn encoded(&mut self) -> Encoded {
        self.to = None;
        let Some(encoder) = self.encoder.take() else { return Ok(None) };
        encoder.join().expect("the encoder does not panic")
    }

    /// Puts the file in place.
    pub fn finish(mut self) -> Result<Counts, TraceError> {
        let mut batch = std::mem::take(&mut self.batch);
        batch.is_last = true;
        self.pass(batch)?;
        let Some((Packed { mut file, places, at }, counts)) = self.encoded()? else {
            return Err(io::Error::other("the trace could not be written to its end").into());
        };
        let index = Index { chunks: places, counts: counts.clone() };
        let head = Head { kind: Kind::Index, hart: 0, first: 0, end: 0 };
        file.write_all(&chunk::packed(head, &postcard::to_stdvec(&index).map_err(io::Error::other)?)?)?;
        file.write_all(&at.to_le_bytes())?;
        file.write_all(END_MAGIC)?;
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        let partial = self.partial.0.as_ref().expect("the file is not in place");
        fs::rename(partial, &self.path)?;
        self.partial.0 = None;
        File::open(folder_of(&self.path))?.sync_all()?;
        Ok(counts)
    }
}
