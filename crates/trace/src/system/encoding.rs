//! Encoder thread: turns blocks and device events into chunks, which a second thread compresses and writes.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::mpsc::{Receiver, Sender};

use doorbell_sim::memory::Walk;

use super::TraceError;
use super::batch::{Batch, Progress, Record};
use super::chunk::{self, EDGE_BYTES, Head, Kind};
use super::device::{DeviceEncoder, DeviceEvent};
use super::encoder::HartEncoder;
use super::hart::{PAGE_SHIFT, Step};
use super::reader::{ChunkPlace, Counts};
use super::writer::{CHUNK_BYTES, CHUNK_INSTRUCTIONS};
use crate::Worker;

/// Capacity of the packer's queue, in chunks.
const WAITING: usize = 2;

/// Chunks written so far, and the file offset of the next one.
pub(super) struct Packed {
    pub file: BufWriter<File>,
    pub places: Vec<ChunkPlace>,
    pub at: u64,
}

/// Result of encoding; `None` if the trace was abandoned.
pub(super) type Encoded = Option<(Packed, Counts)>;

/// Thread that compresses chunks and writes them in order.
type Packer = Worker<(Head, Vec<u8>), Packed>;

fn pack(chunks: Receiver<(Head, Vec<u8>)>, mut file: BufWriter<File>) -> Result<Packed, TraceError> {
    let (mut places, mut at) = (Vec::new(), EDGE_BYTES);
    for (head, bytes) in chunks {
        let chunk = chunk::packed(head, &bytes)?;
        file.write_all(&chunk)?;
        places.push(ChunkPlace { head, at, bytes: chunk.len() as u64 });
        at += chunk.len() as u64;
    }
    Ok(Packed { file, places, at })
}

/// State of a hart's stream.
#[derive(Default)]
struct Hart {
    encoder: HartEncoder,
    first: u64,
    end: u64,
    chunk: u64,
    /// Pending step of the next numbered block, if it changes anything.
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
    /// Starts with the description chunk.
    pub fn begin(file: BufWriter<File>, harts: u16, description: Vec<u8>) -> Result<Encoding, TraceError> {
        let mut packer = Packer::start("trace packer", WAITING, |chunks| pack(chunks, file))?;
        packer.send((Head { kind: Kind::Description, hart: 0, first: 0, end: 0 }, description))?;
        Ok(Encoding {
            harts: (0..harts).map(|_| Hart::default()).collect(),
            events: DeviceEncoder::default(),
            event_first: 0,
            event_end: 0,
            counts: Counts { instructions: vec![0; harts.into()], ..Counts::default() },
            packer,
        })
    }

    /// Encodes batches and returns them until the last one.
    pub fn run(mut self, batches: Receiver<Batch>, back: Sender<Batch>) -> Result<Encoded, TraceError> {
        for mut batch in batches {
            batch.records().try_for_each(|record| self.record(record))?;
            if batch.is_last {
                return self.finish();
            }
            batch.clear();
            let progress = |hart: &Hart| Progress { chunk: hart.chunk, bytes: hart.encoder.bytes() };
            batch.progress.extend(self.harts.iter().map(progress));
            // The receiver is gone if the trace is abandoned.
            let _ = back.send(batch);
        }
        Ok(None)
    }

    #[inline]
    fn record(&mut self, record: Record<'_>) -> Result<(), TraceError> {
        match record {
            Record::Repeat { hart, blocks } => {
                let of = &mut self.harts[usize::from(hart)];
                let (instructions, ops) = of.encoder.repeat(of.step.take().as_ref(), blocks);
                self.add_instructions(hart, instructions, ops)
            }
            Record::Step { hart, step } => {
                self.harts[usize::from(hart)].step = Some(*step);
                Ok(())
            }
            Record::Block { hart, step, hint, ops, walks } => {
                let of = &mut self.harts[usize::from(hart)];
                let instructions = of.encoder.block(step, hint, ops, &mut |virt| walk_of(walks, virt));
                self.add_instructions(hart, instructions, ops.len())
            }
            Record::Event(event) => self.event(event),
        }
    }

    /// Accounts for encoded instructions and ops; ends the chunk if it is full.
    #[inline]
    fn add_instructions(&mut self, hart: u16, instructions: u64, ops: usize) -> Result<(), TraceError> {
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
        self.packer.send((head, chunk::join(&columns)))
    }

    fn end_events(&mut self) -> Result<(), TraceError> {
        let head = Head { kind: Kind::Devices, hart: 0, first: self.event_first, end: self.event_end };
        self.event_first = self.event_end;
        let columns = self.events.take();
        self.packer.send((head, chunk::join(&columns)))
    }

    fn finish(mut self) -> Result<Encoded, TraceError> {
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

/// The walk recorded for the page of an address.
fn walk_of(walks: &[(u64, Walk)], virt: u64) -> Walk {
    let found = walks.iter().find(|(page, _)| *page == virt >> PAGE_SHIFT);
    found.expect("a page that is new in a chunk comes with its walk").1
}
