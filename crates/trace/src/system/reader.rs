//! Trace reader. Threads read, decompress and decode chunks ahead: harts' chunks in [`ahead`](super::ahead),
//! devices' chunks here.

use std::fs::{self, File};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use serde::{Deserialize, Serialize};

use super::ahead::HartReader;
use super::bytes::Malformed;
use super::chunk::{self, EDGE_BYTES, END_MAGIC, Head, Kind, MAGIC, OLDEST, VERSION};
use super::device::{self, DeviceDecoder, DeviceEvent, EventKind};
use super::hart::instructions;
use super::{Description, TraceError};
use crate::scratch::Scratch;

/// Batches of events decoded ahead.
const AHEAD: usize = 2;

/// Totals of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Instructions per hart.
    pub instructions: Vec<u64>,
    /// Ops of all harts.
    pub ops: u64,
    /// Device events.
    pub events: u64,
    /// Frames received by devices.
    pub frames_in: u64,
    /// Frames sent by devices.
    pub frames_out: u64,
    /// Bytes that devices read by DMA.
    pub dma_read_bytes: u64,
    /// Bytes that devices wrote by DMA.
    pub dma_written_bytes: u64,
}

impl Counts {
    /// Returns whether devices move data in the trace.
    pub fn has_traffic(&self) -> bool {
        [self.frames_in, self.frames_out, self.dma_read_bytes, self.dma_written_bytes] != [0; 4]
    }

    /// Counts an event.
    pub(super) fn note(&mut self, event: &DeviceEvent) {
        self.events += 1;
        match event.what {
            EventKind::FrameIn { .. } => self.frames_in += 1,
            EventKind::FrameOut { .. } => self.frames_out += 1,
            EventKind::Dma(dma) if dma.is_write() => self.dma_written_bytes += u64::from(dma.len),
            EventKind::Dma(dma) => self.dma_read_bytes += u64::from(dma.len),
            _ => {}
        }
    }
}

/// Index entry of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkPlace {
    /// Chunk header.
    pub head: Head,
    /// File offset.
    pub at: u64,
    /// Size in the file.
    pub bytes: u64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Index {
    pub chunks: Vec<ChunkPlace>,
    pub counts: Counts,
}

impl Index {
    /// Returns whether each stream's chunks are contiguous and complete.
    fn is_consistent(&self) -> bool {
        let (mut done, mut events) = (vec![0; self.counts.instructions.len()], 0);
        for Head { kind, hart, first, end } in self.chunks.iter().map(|place| place.head) {
            let reached = match kind {
                Kind::Hart => done.get_mut(usize::from(hart)),
                Kind::Devices => Some(&mut events),
                Kind::Description | Kind::Index => continue,
            };
            match reached {
                Some(reached) if *reached == first && first <= end => *reached = end,
                _ => return false,
            }
        }
        let all = done.iter().try_fold(0u64, |all, own| all.checked_add(*own));
        all.is_some() && done == self.counts.instructions && events == self.counts.events
    }

    /// Returns whether the chunks fill the file from its header up to the index.
    fn fills(&self, up_to: u64) -> bool {
        let follows =
            |end: u64, place: &ChunkPlace| (place.at == end).then(|| end.checked_add(place.bytes))?;
        self.chunks.iter().try_fold(EDGE_BYTES, follows) == Some(up_to)
    }
}

/// An open trace file.
pub struct TraceFile {
    /// Folder of the file, if it is removed together with this.
    _folder: Option<Scratch>,
    path: PathBuf,
    description: Description,
    pub(super) index: Index,
    bytes: u64,
    version: u32,
}

impl TraceFile {
    /// Opens a file; reads its header and index.
    pub fn open(path: &Path) -> Result<TraceFile, TraceError> {
        // Opening a pipe would block.
        let meta = fs::metadata(path)?;
        if !meta.is_file() && !meta.is_dir() {
            return Err(TraceError::NoFile);
        }
        let mut file = File::open(path)?;
        // A folder can be opened; only reading it fails.
        let mut head = [0; EDGE_BYTES as usize];
        let got = read_most(&mut file, &mut head)?;
        let version = check_header(&head[..got])?;
        let bytes = file.seek(SeekFrom::End(0))?;
        if bytes < 2 * EDGE_BYTES {
            return Err(TraceError::CutOff);
        }
        let mut tail = [0; EDGE_BYTES as usize];
        file.seek(SeekFrom::End(-(EDGE_BYTES as i64)))?;
        file.read_exact(&mut tail)?;
        let at = u64::from_le_bytes(tail[..8].try_into().expect("eight bytes"));
        if &tail[8..] != END_MAGIC || at < EDGE_BYTES || at >= bytes {
            return Err(TraceError::CutOff);
        }
        let mut file = BufReader::new(file);
        file.seek(SeekFrom::Start(at))?;
        let (index_head, index) = chunk::read(&mut file, at)?;
        let damaged = |at, what: &str| TraceError::Damaged { at, what: what.to_owned() };
        let end = file.stream_position()?;
        if end != bytes - EDGE_BYTES {
            return Err(damaged(end, "extra bytes between the index and the file's end"));
        }
        let index: Index = match postcard::from_bytes(&index) {
            Ok(index) if index_head.kind == Kind::Index => index,
            _ => return Err(damaged(at, "invalid index")),
        };
        file.seek(SeekFrom::Start(EDGE_BYTES))?;
        let (head, description) = chunk::read(&mut file, EDGE_BYTES)?;
        let description: Description = match serde_json::from_slice(&description) {
            Ok(description) if head.kind == Kind::Description => description,
            _ => return Err(damaged(EDGE_BYTES, "invalid description")),
        };
        if index.counts.instructions.len() != usize::from(description.harts) {
            return Err(damaged(at, "index and description differ in the number of harts"));
        }
        if !index.fills(at) {
            return Err(damaged(at, "the chunks of the index do not fill the file up to it"));
        }
        if !index.is_consistent() {
            return Err(damaged(at, "the index is inconsistent: chunks are missing, or listed twice"));
        }
        Ok(TraceFile { _folder: None, path: path.to_owned(), description, index, bytes, version })
    }

    /// As [`open`](TraceFile::open), for a file in a scratch folder that is removed with the returned value.
    pub fn open_within(folder: Scratch, path: &Path) -> Result<TraceFile, TraceError> {
        Ok(TraceFile { _folder: Some(folder), ..TraceFile::open(path)? })
    }

    /// Description of the trace.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Totals of the trace.
    pub fn counts(&self) -> &Counts {
        &self.index.counts
    }

    /// Its chunks, in file order.
    pub fn chunks(&self) -> &[ChunkPlace] {
        &self.index.chunks
    }

    /// File size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reader of a hart's blocks, starting at the chunk that holds instruction `from`.
    pub fn hart(&self, hart: u16, from: u64) -> Result<HartReader, TraceError> {
        let harts = self.description.harts;
        if hart >= harts {
            return Err(TraceError::NoHart { hart, harts });
        }
        // A chunk may hold only blocks without instructions, such as consecutive traps.
        let places = self
            .places(|head| head.kind == Kind::Hart && head.hart == hart && (from == 0 || head.end > from));
        let position = places.first().map_or(0, |place| place.head.first);
        HartReader::new(Chunks::new(self, places)?, position)
    }

    /// Reader of all device events.
    pub fn devices(&self) -> Result<DeviceReader, TraceError> {
        let places = self.places(|head| head.kind == Kind::Devices);
        DeviceReader::new(Chunks::new(self, places)?, self.version)
    }

    fn places(&self, wanted: impl Fn(&Head) -> bool) -> Vec<ChunkPlace> {
        self.index.chunks.iter().filter(|place| wanted(&place.head)).copied().collect()
    }

    /// Reads the whole trace and compares it with the index.
    pub fn check(&self) -> Result<Counts, TraceError> {
        let mut counts = Counts::default();
        let mut ops = Vec::new();
        for hart in 0..self.description.harts {
            let mut reader = self.hart(hart, 0)?;
            let mut done = 0;
            while reader.next(&mut ops)?.is_some() {
                done += instructions(&ops);
                counts.ops += ops.len() as u64;
                ops.clear();
            }
            counts.instructions.push(done);
        }
        let mut events = self.devices()?;
        while let Some(event) = events.next()? {
            counts.note(&event);
            for (hart, after) in event.anchors() {
                if counts.instructions.get(usize::from(hart)).is_none_or(|has| *has < after) {
                    return Err(TraceError::Contradiction { hart, after });
                }
            }
        }
        self.compare(&counts)?;
        Ok(counts)
    }

    /// Compares the number of ops of a complete read with the index.
    pub fn compare_ops(&self, ops: u64) -> Result<(), TraceError> {
        self.compare(&Counts { ops, ..self.index.counts.clone() })
    }

    fn compare(&self, counts: &Counts) -> Result<(), TraceError> {
        if *counts != self.index.counts {
            let what = format!("the contents are {counts:?}, but the index says {:?}", self.index.counts);
            return Err(TraceError::Damaged { at: self.bytes - EDGE_BYTES, what });
        }
        Ok(())
    }
}

/// Reads until `into` is full or the file ends.
fn read_most(file: &mut File, into: &mut [u8]) -> Result<usize, TraceError> {
    let mut got = 0;
    while got < into.len() {
        match file.read(&mut into[got..])? {
            0 => break,
            more => got += more,
        }
    }
    Ok(got)
}

/// Checks the header; returns the format version.
fn check_header(head: &[u8]) -> Result<u32, TraceError> {
    let foreign = |what| Err(TraceError::Foreign { what });
    if head.len() >= MAGIC.len() + 4 && &head[..8] == MAGIC {
        return match u32::from_le_bytes(head[8..12].try_into().expect("four bytes")) {
            version @ OLDEST..=VERSION => Ok(version),
            found => Err(TraceError::Version { found }),
        };
    }
    match head {
        [] => foreign("the file is empty"),
        [0x7f, b'E', b'L', b'F', ..] => foreign("it is a program (ELF)"),
        [0xd4, 0xc3, 0xb2, 0xa1, ..] | [0x4d, 0x3c, 0xb2, 0xa1, ..] | [0x0a, 0x0d, 0x0d, 0x0a, ..] => {
            foreign("it is a packet capture, which `trace` of a stream's [loadgen] replays")
        }
        _ if MAGIC.starts_with(head) || head.starts_with(MAGIC) => Err(TraceError::CutOff),
        // Compressed files, too.
        _ => foreign(
            "it does not begin with \"DBtrace\"; `trace run` also plays ChampSim traces, and `trace convert` converts them",
        ),
    }
}

/// A chunk: header, file offset, and contents.
type DecompressedChunk<T> = (Head, u64, T);

/// Sequence of chunks of a file.
pub(super) struct Chunks {
    input: BufReader<File>,
    places: std::vec::IntoIter<ChunkPlace>,
}

impl Chunks {
    fn new(file: &TraceFile, places: Vec<ChunkPlace>) -> Result<Chunks, TraceError> {
        Ok(Chunks { input: BufReader::new(File::open(&file.path)?), places: places.into_iter() })
    }

    /// Reads and decompresses the next chunk.
    pub fn next<const N: usize>(&mut self) -> Result<Option<DecompressedChunk<[Vec<u8>; N]>>, TraceError> {
        let Some(place) = self.places.next() else { return Ok(None) };
        self.input.seek(SeekFrom::Start(place.at))?;
        let (head, bytes) = chunk::read(&mut self.input, place.at)?;
        if head != place.head {
            let what = "a chunk's header differs from the index".to_owned();
            return Err(TraceError::Damaged { at: place.at, what });
        }
        if self.input.stream_position()? - place.at != place.bytes {
            let what = "a chunk's length differs from the index".to_owned();
            return Err(TraceError::Damaged { at: place.at, what });
        }
        let columns = chunk::split(&bytes).ok_or_else(|| malformed(place.at))?;
        Ok(Some((head, place.at, columns)))
    }
}

pub(super) fn malformed(at: u64) -> TraceError {
    TraceError::Damaged { at, what: "inconsistent contents of a chunk".to_owned() }
}

/// Events per batch.
const BATCH: usize = 1024;

/// Reader of device events, which a thread decompresses and decodes ahead.
pub struct DeviceReader {
    batches: Receiver<Result<Vec<DeviceEvent>, TraceError>>,
    batch: std::vec::IntoIter<DeviceEvent>,
}

impl DeviceReader {
    fn new(mut chunks: Chunks, version: u32) -> Result<DeviceReader, TraceError> {
        let (to, batches) = sync_channel(AHEAD);
        let decode = move || {
            let decoded = decode_events(&mut chunks, version, &to);
            if let Err(error) = decoded {
                // The receiver is gone if the reader was dropped.
                _ = to.send(Err(error));
            }
        };
        std::thread::Builder::new().name("trace reader".into()).spawn(decode)?;
        Ok(DeviceReader { batches, batch: Vec::new().into_iter() })
    }

    /// The next event; `None` at the end.
    #[expect(clippy::should_implement_trait, reason = "it may fail")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<DeviceEvent>, TraceError> {
        match self.batch.next() {
            Some(event) => Ok(Some(event)),
            None => self.next_batch(),
        }
    }

    fn next_batch(&mut self) -> Result<Option<DeviceEvent>, TraceError> {
        let Ok(batch) = self.batches.recv() else { return Ok(None) };
        self.batch = batch?.into_iter();
        Ok(self.batch.next())
    }
}

/// Decodes all events of the chunks and sends them until the receiver is dropped.
fn decode_events(
    chunks: &mut Chunks,
    version: u32,
    to: &SyncSender<Result<Vec<DeviceEvent>, TraceError>>,
) -> Result<(), TraceError> {
    let mut position = 0;
    while let Some((head, at, columns)) = chunks.next::<{ device::COLUMNS }>()? {
        if head.first != position {
            return Err(malformed(at));
        }
        let mut decoder = DeviceDecoder::new(columns);
        loop {
            let mut batch = Vec::with_capacity(BATCH);
            let ended = fill(&mut decoder, &mut batch);
            position += batch.len() as u64;
            let too_many = position.saturating_sub(head.end);
            batch.truncate(batch.len() - too_many as usize);
            if let Some(event) = batch.iter().find(|event| !event.is_valid()) {
                let what = format!("an impossible event of device {}: {:?}", event.device, event.what);
                return Err(TraceError::Damaged { at, what });
            }
            let mut numbers = batch.iter().map(|event: &DeviceEvent| device::number(&event.what));
            if let Some(number) = numbers.find(|number| device::first_version(*number) > version) {
                let what =
                    format!("it has an event of number {number}, which its format version does not define");
                return Err(TraceError::Damaged { at, what });
            }
            if !batch.is_empty() && to.send(Ok(batch)).is_err() {
                return Ok(());
            }
            match ended {
                Ok(true) if position == head.end => break,
                Ok(false) if too_many == 0 => {}
                _ => return Err(malformed(at)),
            }
        }
    }
    Ok(())
}

/// Decodes a batch of events; returns whether the chunk has ended.
fn fill(decoder: &mut DeviceDecoder, batch: &mut Vec<DeviceEvent>) -> Result<bool, Malformed> {
    while batch.len() < BATCH {
        match decoder.next()? {
            Some(event) => batch.push(event),
            None => return Ok(true),
        }
    }
    Ok(false)
}
