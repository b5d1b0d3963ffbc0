//! What the thread does that encodes: harts' blocks and devices' events become chunks, which a thread behind it packs and writes.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::thread::JoinHandle;

use doorbell_sim::memory::Walk;

use super::TraceError;
use super::batch::{Batch, Place, Record};
use super::chunk::{self, EDGE_BYTES, Head, Kind};
use super::device::{DeviceEncoder, DeviceEvent};
use super::encoder::HartEncoder;
use super::hart::{PAGE_SHIFT, Step};
use super::reader::{ChunkPlace, Counts};
use super::writer::{CHUNK_BYTES, CHUNK_INSTRUCTIONS};

/// Chunks that wait for the packer.
const WAITING: usize = 2;

/// All chunks, where they are, and where the index comes.
pub(super) struct Packed {
    pub file: BufWriter<File>,
    pub places: Vec<ChunkPlace>,
    pub at: u64,
}

/// What encoding came to; nothing, if the trace was given up.
pub(super) type Encoded = Result<Option<(Packed, Counts)>, TraceError>;

/// The thread that packs chunks and writes them, in the order in which they come.
struct Packer {
    /// `None` once it has failed.
    to: Option<SyncSender<(Head, Vec<u8>)>>,
    thread: Option<JoinHandle<Result<Packed, TraceError>>>,
}

impl Packer {
    fn start(mut file: BufWriter<File>) -> io::Result<Packer> {
        let (to, chunks) = sync_channel::<(Head, Vec<u8>)>(WAITING);
        let pack = move || {
            let (mut places, mut at) = (Vec::new(), EDGE_BYTES);
            for (head, bytes) in chunks {
                let chunk = chunk::packed(head, &bytes)?;
                file.write_all(&chunk)?;
                places.push(ChunkPlace { head, at, bytes: chunk.len() as u64 });
                at += chunk.len() as u64;
            }
            Ok(Packed { file, places, at })
        };
        let thread = std::thread::Builder::new().name("trace packer".into()).spawn(pack)?;
        Ok(Packer { to: Some(to), thread: Some(thread) })
    }

    fn send(&mut self, head: Head, bytes: Vec<u8>) -> Result<(), TraceError> {
        let gone = match &self.to {
            Some(to) => to.send((head, bytes)).is_err(),
            None => true,
        };
        if gone {
            self.end()?;
            return Err(io::Error::other("the trace could not be written any further").into());
        }
        Ok(())
    }

    /// What it came to, which ends with this.
    fn end(&mut self) -> Result<Option<Packed>, TraceError> {
        self.to = None;
        let Some(thread) = self.thread.take() else { return Ok(None) };
        thread.join().expect("the packer does not panic").map(Some)
    }
}

/// A hart's stream.
#[derive(Default)]
struct Hart {
    encoder: HartEncoder,
    first: u64,
    end: u64,
    chunk: u64,
    /// Of the next block, if it is told by its number and not as the one before it.
    step: Option<Step>,
}

/// See the module.
pub(super) struct Encoding {
    harts: Vec<Hart>,
    events: DeviceEncoder,
    event_first: u64,
    event_end: u64,
    counts: Counts,
    packer: Packer,
}

impl Encoding {
    /// Begins with the chunk that describes the trace.
    pub fn begin(file: BufWriter<File>, harts: u16, description: Vec<u8>) -> Result<Encoding, TraceError> {
        let mut packer = Packer::start(file)?;
        packer.send(Head { kind: Kind::Description, hart: 0, first: 0, end: 0 }, description)?;
        Ok(Encoding {
            harts: (0..harts).map(|_| Hart::default()).collect(),
            events: DeviceEncoder::default(),
            event_first: 0,
            event_end: 0,
            counts: Counts { instructions: vec![0; harts.into()], ..Counts::default() },
            packer,
        })
    }

    /// Encodes batches and gives them back until the last one has come.
    pub fn run(mut self, batches: Receiver<Batch>, back: Sender<Batch>) -> Encoded {
        for mut batch in batches {
            batch.records().try_for_each(|record| self.record(record))?;
            if batch.is_last {
                return self.finish();
            }
            batch.clear();
            let place = |hart: &Hart| Place { chunk: hart.chunk, bytes: hart.encoder.bytes() };
            batch.places.extend(self.harts.iter().map(place));
            // Whoever gives the trace up takes none back.
            let _ = back.send(batch);
        }
        Ok(None)
    }

    #[inline]
    fn record(&mut self, record: Record<'_>) -> Result<(), TraceError> {
        match record {
            Record::Again { hart, blocks } => {
                let of = &mut self.harts[usize::from(hart)];
                let (instructions, ops) = of.encoder.again(of.step.take().as_ref(), blocks);
                self.took(hart, instructions, ops)
            }
            Record::Step { hart, step } => {
                self.harts[usize::from(hart)].step = Some(*step);
                Ok(())
            }
            Record::Block { hart, step, again, ops, walks } => {
                let of = &mut self.harts[usize::from(hart)];
                let instructions = of.encoder.block(step, again, ops, &mut |virt| told(walks, virt));
                self.took(hart, instructions, ops.len())
            }
            Record::Event(event) => self.event(event),
        }
    }

    /// A hart has so many instructions and ops more.
    #[inline]
    fn took(&mut self, hart: u16, instructions: u64, ops: usize) -> Result<(), TraceError> {
        let of = &mut self.harts[usize::from(hart)];
        of.end += instructions;
        self.counts.ops += ops as u64;
        if of.end - of.first >= CHUNK_INSTRUCTIONS || of.encoder.bytes() >= CHUNK_BYTES {
            self.end_hart(hart)?;
        }
        Ok(())
    }

    fn event(&mut self, event: &DeviceEvent) -> Result<(), TraceError> {
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
        of.chunk += 1;
        let columns = of.encoder.take();
        self.packer.send(head, chunk::join(&columns))
    }

    fn end_events(&mut self) -> Result<(), TraceError> {
        let head = Head { kind: Kind::Devices, hart: 0, first: self.event_first, end: self.event_end };
        self.event_first = self.event_end;
        let columns = self.events.take();
        self.packer.send(head, chunk::join(&columns))
    }

    fn finish(mut self) -> Encoded {
        for hart in 0..self.harts.len() as u16 {
            let of = &self.harts[usize::from(hart)];
            self.counts.instructions[usize::from(hart)] = of.end;
            if of.encoder.bytes() > 0 {
                self.end_hart(hart)?;
            }
        }
        if self.event_end > self.event_first {
            self.end_events()?;
        }
        Ok(self.packer.end()?.map(|packed| (packed, self.counts)))
    }
}

/// The walk for an address of a page that the block's record tells.
fn told(walks: &[(u64, Walk)], virt: u64) -> Walk {
    let found = walks.iter().find(|(page, _)| *page == virt >> PAGE_SHIFT);
    found.expect("a page that is new in a chunk comes with its walk").1
}
