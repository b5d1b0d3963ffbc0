//! Damaged Doorbell traces: a valid trace is split into chunks and reassembled with changed bytes, with
//! chunks removed, repeated or reordered, and with changed headers, but correct checksums. Or the file is
//! damaged or truncated as a whole. The file must be refused with a message, or support every operation on
//! traces. The layout is deliberately defined here a second time, as for checkpoints. A case may also contain
//! a trace in DynamoRIO's format ([`drmemtrace`]).

pub mod drmemtrace;

use std::fs;
use std::path::Path;

use doorbell_machine::playback::{Plan, Player, TraceInput};
use doorbell_machine::{CoreModel, MachineConfig};
use doorbell_sim::memory::Walk;
use doorbell_sim::ports::{DmaDirection, DmaPurpose};
use doorbell_sim::{Bytes, Op, OpClass, PhysAddr, Ps, TranslationFence};
use doorbell_trace::system::{
    Counts, Description, DeviceEvent, Dma, EventKind, Step, StoreOrigin, TraceError, TraceFile, TraceWriter,
    Window, cut, merge,
};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::input::Input;
use crate::watchdog::Watchdog;

const BLOCKS_MAX: u64 = 12;
const OPS_MAX: u64 = 6;
const EVENTS_MAX: u64 = 8;
const CHANGES_MAX: u64 = 5;
const PLAYED: u64 = 2000;
const EDGE: usize = 16;
const HEAD: usize = 40;
const RAM: u64 = 0x8000_0000;

fn op(input: &mut Input<'_>, pc: &mut u64) -> Op {
    let class = input.pick(&OpClass::ALL);
    let virt = 0x10_0000 + u64::from(input.u16() & !7);
    let mut op = Op { pc: *pc, fetch: PhysAddr(RAM + (*pc & 0xf_ffff)), class, length: 4, ..Op::default() };
    op.flags = input.u8();
    (op.destination, op.sources) = (input.u8() % 70, [input.u8() % 70, input.u8() % 70, 0]);
    if class.is_branch() {
        op.virt = if op.is_taken() { 0x1000 + u64::from(input.u8()) * 4 } else { *pc + 4 };
    } else if class.is_memory() {
        (op.virt, op.phys, op.size) = (virt, PhysAddr(RAM + 0x20_0000 + (virt & 0xf_ffff)), 8);
    } else if class == OpClass::Device {
        (op.virt, op.phys, op.size) = (0x4000_0000, PhysAddr(0x4000_0000), 4);
    }
    *pc = op.next_pc();
    op
}

fn step(input: &mut Input<'_>) -> Step {
    let what = input.u8();
    let fence = TranslationFence { address: (what & 4 != 0).then_some(0x1000), space: Some(1) };
    Step {
        trapped: what & 1 != 0,
        space: (what & 8 == 0).then_some(u16::from(what >> 6)),
        thread: u64::from(what >> 5 & 1),
        fence: (what & 2 != 0).then_some(fence),
        slept: Ps(u64::from(what & 16) * 1000),
    }
}

fn event(input: &mut Input<'_>, of_hart: &[u64]) -> DeviceEvent {
    let hart = input.below(of_hart.len() as u64);
    let after = input.below(of_hart[hart as usize] + 1);
    let what = match input.u8() % 6 {
        0 => EventKind::Interrupt { raised: input.flag() },
        1 => EventKind::FrameIn { bytes: 64 },
        2 => EventKind::FrameOut { bytes: 64 },
        3 => {
            let by = input.below(of_hart.len() as u64) as u16;
            let executed = input.below(of_hart[usize::from(by)] + 1);
            let stored = input.flag().then_some(StoreOrigin { hart: by, after: executed });
            EventKind::Register { addr: PhysAddr(0x4000_2818), size: 4, value: input.value(), stored }
        }
        other => {
            let purpose = input.pick(&DmaPurpose::ALL);
            let write = other == 4;
            let direction = if write { DmaDirection::Write } else { DmaDirection::Read };
            let (addr, len) = (PhysAddr(RAM + u64::from(input.u16())), u32::from(input.u8()));
            let visible = if write { after + u64::from(input.u8()) } else { 0 };
            EventKind::Dma(Dma { purpose, direction, addr, len, frame: 0, offset: 0, took: Ps(500), visible })
        }
    };
    DeviceEvent { device: input.u8() % 3, hart: hart as u16, after, since: Ps(input.u16().into()), what }
}

fn walk(virt: u64) -> Walk {
    let mut walk = Walk { levels: 3, page_bytes: 4096, ..Walk::default() };
    let at = |level: u64| PhysAddr(RAM + 0x30_0000 + (level << 12) + (virt >> (30 - 9 * level) & 0x1ff) * 8);
    (0..3).for_each(|level| walk.entries[level as usize] = at(level));
    walk
}

/// Writes a trace as a recorder does.
fn write(input: &mut Input<'_>, path: &Path) {
    const WRITES: &str = "the host writes a small file";
    let harts = 1 + u16::from(input.flag());
    let description = Description { isa: "riscv64".into(), harts, physical: true, ..Description::default() };
    let mut writer = TraceWriter::create(path, &description).expect(WRITES);
    let mut of_hart = vec![0; usize::from(harts)];
    for _ in 0..input.below(BLOCKS_MAX) {
        let hart = input.below(harts.into()) as u16;
        let (step, mut pc, mut ops) = (step(input), 0x1000 + u64::from(input.u8()) * 4, Vec::new());
        for _ in 0..input.below(OPS_MAX) {
            let next = op(input, &mut pc);
            let alone = next.class == OpClass::Device;
            if alone && !ops.is_empty() {
                break;
            }
            ops.push(next);
            if alone || next.class.is_branch() {
                break;
            }
        }
        of_hart[usize::from(hart)] += ops.len() as u64;
        writer.block(hart, &step, &ops, &mut |virt| walk(virt)).expect(WRITES);
    }
    for _ in 0..input.below(EVENTS_MAX) {
        writer.event(&event(input, &of_hart)).expect(WRITES);
    }
    writer.finish().expect(WRITES);
}

/// A decompressed chunk.
#[derive(Clone)]
struct Chunk {
    head: [u8; 32],
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum Kind {
    Description,
    Hart,
    Devices,
    Index,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Head {
    kind: Kind,
    hart: u16,
    first: u64,
    end: u64,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct ChunkPosition {
    head: Head,
    at: u64,
    bytes: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Index {
    chunks: Vec<ChunkPosition>,
    counts: Counts,
}

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Splits a valid trace into its chunks, except the index, and the counts.
fn open(file: &[u8]) -> (Vec<Chunk>, Counts) {
    const SOUND: &str = "a trace just written has the layout of this module";
    let (mut at, mut chunks) = (EDGE, Vec::new());
    while at < file.len() - EDGE {
        let packed = word(file, at + 8);
        let body = &file[at + HEAD..at + HEAD + packed];
        let head = file[at..at + 32].try_into().expect(SOUND);
        chunks.push(Chunk { head, bytes: zstd::decode_all(body).expect(SOUND) });
        at += HEAD + packed;
    }
    let index: Index = postcard::from_bytes(&chunks.pop().expect(SOUND).bytes).expect(SOUND);
    (chunks, index.counts)
}

impl Chunk {
    /// Encodes the chunk; `claims` overrides the lengths in its header.
    fn close(&self, claims: Option<[u32; 2]>) -> Vec<u8> {
        let body = zstd::encode_all(&self.bytes[..], 1).expect("writing to memory does not fail");
        let lengths = claims.unwrap_or([body.len() as u32, self.bytes.len() as u32]);
        let mut file = self.head.to_vec();
        file[8..12].copy_from_slice(&lengths[0].to_le_bytes());
        file[12..16].copy_from_slice(&lengths[1].to_le_bytes());
        let check = xxh3_64(&[&file[..], &body].concat());
        file.extend(check.to_le_bytes());
        file.extend(body);
        file
    }

    fn header_values(&self) -> Head {
        let kind = match self.head[4] {
            1 => Kind::Description,
            2 => Kind::Hart,
            3 => Kind::Devices,
            _ => Kind::Index,
        };
        let hart = u16::from_le_bytes([self.head[6], self.head[7]]);
        Head { kind, hart, first: long(&self.head, 16), end: long(&self.head, 24) }
    }
}

/// Reassembles a file from chunks.
fn close(chunks: &[Chunk], counts: Counts, input: &mut Input<'_>) -> Vec<u8> {
    let mut file = b"DBtrace\n\x02\0\0\0\0\0\0\0".to_vec();
    let mut positions = Vec::new();
    for chunk in chunks {
        let claims = (input.u8() == 0xff).then(|| [input.u32(), input.u32()]);
        let bytes = chunk.close(claims);
        positions.push(ChunkPosition {
            head: chunk.header_values(),
            at: file.len() as u64,
            bytes: bytes.len() as u64,
        });
        file.extend(bytes);
    }
    let at = file.len() as u64;
    let bytes = postcard::to_stdvec(&Index { chunks: positions, counts }).expect("an index serialises");
    let mut head = [0; 32];
    head[..5].copy_from_slice(b"DBck\x04");
    file.extend(Chunk { head, bytes }.close(None));
    file.extend(at.to_le_bytes());
    file.extend(b"DBindex\n");
    file
}

/// Changes the contents and the set of chunks.
fn change(input: &mut Input<'_>, chunks: &mut Vec<Chunk>, counts: &mut Counts) {
    for _ in 0..1 + input.below(CHANGES_MAX) {
        let at = input.below(chunks.len() as u64) as usize;
        let length = chunks[at].bytes.len() as u64;
        match input.u8() % 12 {
            0 => drop(chunks.remove(at)),
            1 => chunks.push(chunks[at].clone()),
            2 => chunks.swap(at, 0),
            3 => chunks[at].head[4..8].copy_from_slice(&[1 + input.u8() % 4, 0, input.u8() % 3, 0]),
            4 => chunks[at].head[16..24].copy_from_slice(&input.value().to_le_bytes()),
            5 => chunks[at].head[24..32].copy_from_slice(&input.value().to_le_bytes()),
            6 => chunks[at].bytes.truncate(input.below(length + 1) as usize),
            7 => counts.events = input.value(),
            8 => counts.instructions = (0..input.u8() % 4).map(|_| input.value()).collect(),
            _ if length > 0 => {
                let place = input.below(length) as usize;
                chunks[at].bytes[place] = input.u8();
            }
            _ => {}
        }
        if chunks.is_empty() {
            return;
        }
    }
}

/// Performs all operations on a trace. Playback comes first, because it does not check the trace beforehand.
fn use_all(path: &Path, sound: &Path, folder: &Path) -> Result<(), TraceError> {
    play(path)?;
    play_with_corunner(sound, path)?;
    let file = TraceFile::open(path)?;
    let counts = file.check()?;
    const CHECKED: &str = "a checked trace can be read";
    let out = folder.join("out.dbt");
    for hart in 0..file.description().harts {
        let has = counts.instructions[usize::from(hart)];
        let window = |from, count| Window { hart, from, count, single_hart: hart == 1 };
        match cut(&file, &out, window(has / 2, has)) {
            Err(TraceError::NoInstruction { .. }) if has == 0 => {}
            cut => assert!(cut.expect(CHECKED).counts.ops <= counts.ops),
        }
    }
    match merge(&[TraceFile::open(path)?, file], &out) {
        // Addresses are arbitrary.
        Err(TraceError::NoRoom { .. } | TraceError::TooMany { .. }) => {}
        merged => {
            let (merged, _) = merged.expect(CHECKED);
            assert_eq!((merged.ops, merged.events), (2 * counts.ops, 2 * counts.events));
            TraceFile::open(&out)?.check().expect("a merged trace is valid");
        }
    }
    Ok(())
}

/// Reads at most `most` blocks of each hart.
fn read(path: &Path, most: usize) -> Result<(), TraceError> {
    let (file, mut ops) = (TraceFile::open(path)?, Vec::new());
    for hart in 0..file.description().harts {
        let mut reader = file.hart(hart, 0)?;
        for _ in 0..most {
            if reader.next(&mut ops)?.is_none() {
                break;
            }
        }
    }
    Ok(())
}

/// Plays a trace. If playback reaches the end, the whole trace was played, even if the file is damaged.
fn play(path: &Path) -> Result<(), TraceError> {
    let file = TraceFile::open(path)?;
    let all: u64 = file.counts().instructions.iter().sum();
    if let Some(mut player) = player(&Plan::of(TraceInput::own(file)))
        && let Ok(false) = player.run(PLAYED)
    {
        assert_eq!(player.played().instructions, all, "playback ended early without an error");
        read(path, usize::MAX).expect("a completely played trace can be read");
    }
    Ok(())
}

/// Plays `sound` with `path` as a co-runner, whose first block per hart must be readable.
fn play_with_corunner(sound: &Path, path: &Path) -> Result<(), TraceError> {
    let [first, second] = [TraceFile::open(sound)?, TraceFile::open(path)?].map(TraceInput::own);
    if let Some(mut player) = player(&Plan::of(first).with_neighbour(second)) {
        read(path, 1).expect("each hart's first block can be read");
        let _ = player.run(PLAYED);
    }
    Ok(())
}

fn player(plan: &Plan) -> Option<Player> {
    let mut config = MachineConfig::default();
    config.core.model = CoreModel::Timed;
    config.platform.harts = plan.harts();
    config.platform.ram = Bytes(64 << 20);
    config.memory.llc.size = Bytes(64 << 10);
    config.memory.l2.size = Bytes(32 << 10);
    Player::new(&config, plan).ok()
}

/// Runs the case for the input bytes.
pub fn run(bytes: &[u8]) {
    let _watchdog = Watchdog::start();
    let mut input = Input::new(bytes);
    let folder = tempfile::tempdir().expect("the host can create a folder");
    let [path, sound] = ["some.dbt", "sound.dbt"].map(|name| folder.path().join(name));
    write(&mut input, &path);
    fs::copy(&path, &sound).expect("the host copies a small file");
    let mut file = fs::read(&path).expect("the file was just written");
    let how = input.u8() % 8;
    if how >= 3 {
        let (mut chunks, mut counts) = open(&file);
        change(&mut input, &mut chunks, &mut counts);
        file = close(&chunks, counts, &mut input);
    }
    match how {
        1 | 3 => file.truncate(input.below(file.len() as u64 + 1) as usize),
        2 | 4 => {
            for _ in 0..=input.below(CHANGES_MAX) {
                let at = input.below(file.len() as u64) as usize;
                file[at] = input.u8();
            }
        }
        _ => {}
    }
    fs::write(&path, &file).expect("the host writes a small file");
    let used = use_all(&path, &sound, folder.path());
    if let Err(error) = &used {
        assert!(how != 0, "a valid trace was refused: {error}");
        assert!(!error.to_string().is_empty());
    }
    let names = fs::read_dir(folder.path()).expect("the folder is there").count();
    assert!(names <= 3, "a partial file was left");
    if input.flag() {
        drmemtrace::convert(&mut input, folder.path());
    }
}
