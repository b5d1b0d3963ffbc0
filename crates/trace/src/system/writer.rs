//! Writes a trace. Chunks are packed and written by a thread of their own, in the order in which they were filled; the file appears under
//! its name when it is whole.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use doorbell_sim::Op;
use doorbell_sim::memory::Walk;

use super::chunk::{self, EDGE_BYTES, END_MAGIC, Head, Kind};
use super::device::{DeviceEncoder, DeviceEvent};
use super::encoder::{Again, HartEncoder};
use super::hart::Step;
use super::reader::{ChunkPlace, Counts, Index};
use super::{Description, TraceError};

/// Instructions of a chunk at most, give or take a block.
pub const CHUNK_INSTRUCTIONS: u64 = 1 << 22;
/// Bytes of a chunk before it is packed, at most; a block is far smaller.
const CHUNK_BYTES: usize = 8 << 20;
/// Chunks that wait for the packer.
const WAITING: usize = 2;

/// A hart's stream.
#[derive(Default)]
struct Hart {
    encoder: HartEncoder,
    first: u64,
    end: u64,
}

/// Writes a trace. Without [`finish`](TraceWriter::finish) nothing is left of it.
pub struct TraceWriter {
    harts: Vec<Hart>,
    events: DeviceEncoder,
    event_first: u64,
    event_end: u64,
    counts: Counts,
    /// `None` once the packer has failed.
    to: Option<SyncSender<(Head, Vec<u8>)>>,
    packer: Option<JoinHandle<Result<Packed, TraceError>>>,
    path: PathBuf,
    partial: Partial,
}

/// All chunks, where they are, and where the index comes.
type Packed = (BufWriter<File>, Vec<ChunkPlace>, u64);

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
        let mut file = BufWriter::new(File::create(&partial)?);
        let partial = Partial(Some(partial));
        chunk::begin(&mut file)?;
        let (to, chunks) = sync_channel::<(Head, Vec<u8>)>(WAITING);
        let pack = move || {
            let (mut places, mut at) = (Vec::new(), EDGE_BYTES);
            for (head, bytes) in chunks {
                let chunk = chunk::packed(head, &bytes)?;
                file.write_all(&chunk)?;
                places.push(ChunkPlace { head, at, bytes: chunk.len() as u64 });
                at += chunk.len() as u64;
            }
            Ok((file, places, at))
        };
        let packer = std::thread::Builder::new().name("trace packer".into()).spawn(pack)?;
        let mut writer = TraceWriter {
            harts: (0..description.harts).map(|_| Hart::default()).collect(),
            events: DeviceEncoder::default(),
            event_first: 0,
            event_end: 0,
            counts: Counts { instructions: vec![0; description.harts.into()], ..Counts::default() },
            to: Some(to),
            packer: Some(packer),
            path: path.to_owned(),
            partial,
        };
        let head = Head { kind: Kind::Description, hart: 0, first: 0, end: 0 };
        writer.send(head, serde_json::to_vec(description).map_err(io::Error::other)?)?;
        Ok(writer)
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
        let of = &mut self.harts[usize::from(hart)];
        of.end += of.encoder.block(step, again, ops, walk);
        self.counts.instructions[usize::from(hart)] = of.end;
        self.counts.ops += ops.len() as u64;
        if of.end - of.first >= CHUNK_INSTRUCTIONS || of.encoder.bytes() >= CHUNK_BYTES {
            self.end_hart(hart)?;
        }
        Ok(())
    }

    /// A device did something. Events come in the order in which they happened.
    pub fn event(&mut self, event: &DeviceEvent) -> Result<(), TraceError> {
        self.events.event(event);
        self.event_end += 1;
        self.counts.note(event);
        if self.events.bytes() >= CHUNK_BYTES {
            self.end_events()?;
        }
        Ok(())
    }

    fn end_hart(&mut self, hart: u16) -> Result<(), TraceError> {
        let of = &mut self.harts[usize::from(hart)];
        let head = Head { kind: Kind::Hart, hart, first: of.first, end: of.end };
        of.first = of.end;
        let columns = of.encoder.take();
        self.send(head, chunk::join(&columns))
    }

    fn end_events(&mut self) -> Result<(), TraceError> {
        let head = Head { kind: Kind::Devices, hart: 0, first: self.event_first, end: self.event_end };
        self.event_first = self.event_end;
        let columns = self.events.take();
        self.send(head, chunk::join(&columns))
    }

    fn send(&mut self, head: Head, bytes: Vec<u8>) -> Result<(), TraceError> {
        let gone = match &self.to {
            Some(to) => to.send((head, bytes)).is_err(),
            None => true,
        };
        if gone {
            self.packed()?;
            return Err(io::Error::other("the trace could not be written any further").into());
        }
        Ok(())
    }

    /// What the packer came to, which ends with this.
    fn packed(&mut self) -> Result<Option<Packed>, TraceError> {
        self.to = None;
        let Some(packer) = self.packer.take() else { return Ok(None) };
        packer.join().expect("the packer does not panic").map(Some)
    }

    /// Puts the file in place.
    pub fn finish(mut self) -> Result<Counts, TraceError> {
        for hart in 0..self.harts.len() as u16 {
            if self.harts[usize::from(hart)].encoder.bytes() > 0 {
                self.end_hart(hart)?;
            }
        }
        if self.event_end > self.event_first {
            self.end_events()?;
        }
        let Some((mut file, places, at)) = self.packed()? else {
            return Err(io::Error::other("the trace could not be written to its end").into());
        };
        let index = Index { chunks: places, counts: self.counts.clone() };
        let head = Head { kind: Kind::Index, hart: 0, first: 0, end: 0 };
        file.write_all(&chunk::packed(head, &postcard::to_stdvec(&index).map_err(io::Error::other)?)?)?;
        file.write_all(&at.to_le_bytes())?;
        file.write_all(END_MAGIC)?;
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        let partial = self.partial.0.as_ref().expect("the file is not in place");
        fs::rename(partial, &self.path)?;
        self.partial.0 = None;
        Ok(self.counts)
    }
}
