//! Reads a trace. Chunks are read, unpacked and decoded by threads of their own, a few ahead of the reader: harts' in [`ahead`](super::ahead), devices'
//! here.

use std::fs::{self, File};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use serde::{Deserialize, Serialize};

use super::ahead::HartReader;
use super::bytes::Malformed;
use super::chunk::{self, EDGE_BYTES, END_MAGIC, Head, Kind, MAGIC, OLDEST, VERSION};
use super::device::{self, DeviceDecoder, DeviceEvent, Happening, STORES_SINCE};
use super::hart::instructions;
use super::{Description, TraceError};
use crate::scratch::Scratch;

/// Batches of events that are decoded ahead.
const AHEAD: usize = 2;

/// What a trace holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Instructions of each hart.
    pub instructions: Vec<u64>,
    /// Ops of all harts.
    pub ops: u64,
    /// Events of devices.
    pub events: u64,
    /// Frames that reached a device, and that one sent.
    pub frames_in: u64,
    /// See `frames_in`.
    pub frames_out: u64,
    /// Bytes that devices read and wrote.
    pub dma_read_bytes: u64,
    /// See `dma_read_bytes`.
    pub dma_written_bytes: u64,
}

impl Counts {
    /// Whether devices move data in it.
    pub fn has_traffic(&self) -> bool {
        [self.frames_in, self.frames_out, self.dma_read_bytes, self.dma_written_bytes] != [0; 4]
    }

    /// Counts an event.
    pub(super) fn note(&mut self, event: &DeviceEvent) {
        self.events += 1;
        match event.what {
            Happening::FrameIn { .. } => self.frames_in += 1,
            Happening::FrameOut { .. } => self.frames_out += 1,
            Happening::Dma(dma) if dma.write => self.dma_written_bytes += u64::from(dma.len),
            Happening::Dma(dma) => self.dma_read_bytes += u64::from(dma.len),
            _ => {}
        }
    }
}

/// Where a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkPlace {
    /// What it holds.
    pub head: Head,
    /// Where in the file it begins.
    pub at: u64,
    /// Its bytes there.
    pub bytes: u64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Index {
    pub chunks: Vec<ChunkPlace>,
    pub counts: Counts,
}

impl Index {
    /// Whether the chunks of each stream follow each other from its beginning to its end.
    fn is_sound(&self) -> bool {
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

    /// Whether the chunks, one behind the other, fill the file from its head up to the index.
    fn fills(&self, up_to: u64) -> bool {
        let behind =
            |end: u64, place: &ChunkPlace| (place.at == end).then(|| end.checked_add(place.bytes))?;
        self.chunks.iter().try_fold(EDGE_BYTES, behind) == Some(up_to)
    }
}

/// A trace that can be read.
pub struct TraceFile {
    /// The folder that has it, if it goes with it.
    _folder: Option<Scratch>,
    path: PathBuf,
    description: Description,
    pub(super) index: Index,
    bytes: u64,
    version: u32,
}

impl TraceFile {
    /// Looks at a file's head and index.
    pub fn open(path: &Path) -> Result<TraceFile, TraceError> {
        // A pipe would be waited for.
        let meta = fs::metadata(path)?;
        if !meta.is_file() && !meta.is_dir() {
            return Err(TraceError::NoFile);
        }
        let mut file = File::open(path)?;
        // A folder can be opened, and says so only when it is read.
        let mut head = [0; EDGE_BYTES as usize];
        let got = read_most(&mut file, &mut head)?;
        let version = recognise(&head[..got])?;
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
            return Err(damaged(end, "something stands between the index and the file's end"));
        }
        let index: Index = match postcard::from_bytes(&index) {
            Ok(index) if index_head.kind == Kind::Index => index,
            _ => return Err(damaged(at, "the index makes no sense")),
        };
        file.seek(SeekFrom::Start(EDGE_BYTES))?;
        let (head, description) = chunk::read(&mut file, EDGE_BYTES)?;
        let description: Description = match serde_json::from_slice(&description) {
            Ok(description) if head.kind == Kind::Description => description,
            _ => return Err(damaged(EDGE_BYTES, "the description makes no sense")),
        };
        if index.counts.instructions.len() != usize::from(description.harts) {
            return Err(damaged(at, "index and description are of different traces"));
        }
        if !index.fills(at) {
            return Err(damaged(at, "the chunks that the index names are not all that is in front of it"));
        }
        if !index.is_sound() {
            return Err(damaged(at, "the index contradicts itself: chunks are missing, or told twice"));
        }
        Ok(TraceFile { _folder: None, path: path.to_owned(), description, index, bytes, version })
    }

    /// As [`open`](TraceFile::open), of one in a folder that is removed when it is not used any longer.
    pub fn open_within(folder: Scratch, path: &Path) -> Result<TraceFile, TraceError> {
        Ok(TraceFile { _folder: Some(folder), ..TraceFile::open(path)? })
    }

    /// What it is of.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// What it holds.
    pub fn counts(&self) -> &Counts {
        &self.index.counts
    }

    /// Its chunks, in the order of the file.
    pub fn chunks(&self) -> &[ChunkPlace] {
        &self.index.chunks
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A hart's blocks from the chunk on that holds instruction number `from`.
    pub fn hart(&self, hart: u16, from: u64) -> Result<HartReader, TraceError> {
        let harts = self.description.harts;
        if hart >= harts {
            return Err(TraceError::NoHart { hart, harts });
        }
        // A chunk may be of blocks without instructions, such as traps that follow each other.
        let places = self
            .places(|head| head.kind == Kind::Hart && head.hart == hart && (from == 0 || head.end > from));
        let position = places.first().map_or(0, |place| place.head.first);
        HartReader::new(Chunks::of(self, places)?, position)
    }

    /// Devices' events, from the first.
    pub fn devices(&self) -> Result<DeviceReader, TraceError> {
        let places = self.places(|head| head.kind == Kind::Devices);
        DeviceReader::new(Chunks::of(self, places)?, self.version)
    }

    fn places(&self, wanted: impl Fn(&Head) -> bool) -> Vec<ChunkPlace> {
        self.index.chunks.iter().filter(|place| wanted(&place.head)).copied().collect()
    }

    /// Reads everything, and compares it with the index.
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
            for (hart, after) in event.moments() {
                if counts.instructions.get(usize::from(hart)).is_none_or(|has| *has < after) {
                    return Err(TraceError::Contradiction { hart, after });
                }
            }
        }
        self.compare(&counts)?;
        Ok(counts)
    }

    /// Compares the ops that were read from the first to the last with the index.
    pub fn compare_ops(&self, ops: u64) -> Result<(), TraceError> {
        self.compare(&Counts { ops, ..self.index.counts.clone() })
    }

    fn compare(&self, counts: &Counts) -> Result<(), TraceError> {
        if *counts != self.index.counts {
            let what = format!("it holds {counts:?}, and its index says {:?}", self.index.counts);
            return Err(TraceError::Damaged { at: self.bytes - EDGE_BYTES, what });
        }
        Ok(())
    }
}

/// As many bytes as there are.
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

/// The version of the format.
fn recognise(head: &[u8]) -> Result<u32, TraceError> {
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
            foreign("it is a capture of packets; --trace of a stream's [loadgen] replays those")
        }
        _ if MAGIC.starts_with(head) || head.starts_with(MAGIC) => Err(TraceError::CutOff),
        // Compressed, too.
        _ => foreign(
            "it does not begin with \"DBtrace\"; `trace run` plays one of ChampSim's as it is, `trace convert` makes one of ours of it",
        ),
    }
}

/// A chunk: its head, where in the file it is, and what it holds.
type Unpacked<T> = (Head, u64, T);

/// Some chunks of a file.
pub(super) struct Chunks {
    input: BufReader<File>,
    places: std::vec::IntoIter<ChunkPlace>,
}

impl Chunks {
    fn of(file: &TraceFile, places: Vec<ChunkPlace>) -> Result<Chunks, TraceError> {
        Ok(Chunks { input: BufReader::new(File::open(&file.path)?), places: places.into_iter() })
    }

    /// Reads and unpacks the next one.
    pub fn next<const N: usize>(&mut self) -> Result<Option<Unpacked<[Vec<u8>; N]>>, TraceError> {
        let Some(place) = self.places.next() else { return Ok(None) };
        self.input.seek(SeekFrom::Start(place.at))?;
        let (head, bytes) = chunk::read(&mut self.input, place.at)?;
        if head != place.head {
            let what = "a chunk is not what the index says".to_owned();
            return Err(TraceError::Damaged { at: place.at, what });
        }
        if self.input.stream_position()? - place.at != place.bytes {
            let what = "a chunk is not as long as the index says".to_owned();
            return Err(TraceError::Damaged { at: place.at, what });
        }
        let columns = chunk::split(&bytes).ok_or_else(|| malformed(place.at))?;
        Ok(Some((head, place.at, columns)))
    }
}

pub(super) fn malformed(at: u64) -> TraceError {
    TraceError::Damaged { at, what: "a chunk's columns contradict each other".to_owned() }
}

/// Events that are handed over at once.
const BATCH: usize = 1024;

/// Reads devices' events, which a thread of its own unpacks and decodes ahead.
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
                // Whoever reads no further hears no more.
                _ = to.send(Err(error));
            }
        };
        std::thread::Builder::new().name("trace reader".into()).spawn(decode)?;
        Ok(DeviceReader { batches, batch: Vec::new().into_iter() })
    }

    /// The next event; `None` at the end.
    #[expect(clippy::should_implement_trait, reason = "it may fail, and then does not go on")]
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

/// Decodes all events of chunks and hands them over, until nobody takes them any more.
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
            if let Some(event) = batch.iter().find(|event| !event.is_possible()) {
                let what = format!("an event of device {} cannot be: {:?}", event.device, event.what);
                return Err(TraceError::Damaged { at, what });
            }
            if version < STORES_SINCE && batch.iter().any(|event: &DeviceEvent| event.what.stored().is_some())
            {
                let what = "it has an event of number 17, and its version of the format has none".to_owned();
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

/// Decodes the events of a batch. Whether they were the chunk's last.
fn fill(decoder: &mut DeviceDecoder, batch: &mut Vec<DeviceEvent>) -> Result<bool, Malformed> {
    while batch.len() < BATCH {
        match decoder.next()? {
            Some(event) => batch.push(event),
            None => return Ok(true),
        }
    }
    Ok(false)
}
