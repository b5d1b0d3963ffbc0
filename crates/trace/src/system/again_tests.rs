//! Blocks told by their numbers, and chunks that end by their bytes: whatever the thread that encodes is behind, a file is what it would be
//! without one.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use doorbell_sim::numbered::head;
use doorbell_sim::rng::Rng;
use doorbell_sim::{Allowance, Op, OpClass, PhysAddr};

use super::chunk::{self, Head};
use super::encoder::HartEncoder;
use super::tests::{PAGE, description, scratch, walk_of};
use super::writer::CHUNK_BYTES;
use super::*;

const NUMBERS: u32 = 8;
const ACCESSES: u64 = 6;

/// Where a page lies; one of them elsewhere each time that so many blocks were executed.
fn place(virt: u64, block: u64) -> PhysAddr {
    let page = virt / PAGE;
    let moved = if page % 64 == 5 { block / 100_000 } else { 0 };
    PhysAddr((page % 1024 + moved + (1 << 20)) * PAGE + virt % PAGE)
}

/// A block of this number: accesses, and a jump to a computed address.
fn ops(number: u32, block: u64, space: u16, random: &mut Rng) -> Vec<Op> {
    let pc = |op: u64| 0x40_0000 + u64::from(number) * 0x800 + 4 * op;
    let at = |op: u64| Op { pc: pc(op), fetch: place(pc(op), 0), length: 4, ..Op::default() };
    let access = |op: u64| {
        // Far apart, so that each takes some bytes; and of few pages.
        let virt =
            (1 << 45 | u64::from(space) << 30) + random.below(2) * (1 << 40) + random.below(1 << 19) * 8;
        Op { class: OpClass::Load, size: 8, virt, phys: place(virt, block), ..at(op) }
    };
    let mut ops: Vec<Op> = (0..ACCESSES).map(access).collect();
    let virt = pc(random.below(4) * 0x200);
    ops.push(Op { class: OpClass::Return, virt, ..at(ACCESSES) });
    ops
}

/// So many blocks of a hart, with what is told of each.
fn blocks(count: u64) -> impl Iterator<Item = (Step, Again, Vec<Op>)> {
    let mut random = Rng::stream(1, "blocks");
    (0..count).map(move |block| {
        let (space, thread) = (1 + (block / 3000 % 2) as u16, block / 700);
        let slept = doorbell_sim::Ps(if block % 5000 == 0 { 7 } else { 0 });
        let shape = random.below(u64::from(NUMBERS)) as u32;
        let step = Step { space: Some(space), thread, slept, ..Step::default() };
        (step, Again { shape, instructions: ACCESSES + 1 }, ops(shape, block, space, &mut random))
    })
}

/// What a machine keeps of what it told.
#[derive(Default)]
struct Kept {
    allowance: Allowance,
    space: Option<u16>,
    numbers: [u64; NUMBERS as usize],
    pages: std::collections::HashMap<u64, (u64, PhysAddr)>,
    /// Blocks that are held back, and the first one's step.
    held: Vec<u64>,
    step: Step,
    instructions: u64,
}

impl Kept {
    fn tell(&mut self, writer: &mut TraceWriter, (step, again, ops): &(Step, Again, Vec<Op>)) -> bool {
        let accesses = &ops[..ACCESSES as usize];
        let frame = |op: &Op| PhysAddr(op.phys.0 / PAGE);
        let (number, era) = (again.shape as usize, self.allowance.era);
        let is_told = |op: &Op| self.pages.get(&(op.virt / PAGE)) == Some(&(era, frame(op)));
        let known = era != 0 && self.numbers[number] == era && step.space == self.space;
        if known && accesses.iter().all(is_told) {
            let is_another = self.step.thread != step.thread || step.slept.0 > 0;
            if is_another {
                self.tell_held(writer);
            }
            if self.held.is_empty() {
                self.step = *step;
            }
            // What is told of the blocks held back may have ended the chunk.
            if self.allowance.era == era {
                self.held.push(head(again.shape, ops.len() as u32));
                self.held.extend(ops.iter().map(|op| op.virt));
                self.instructions += again.instructions;
                let Allowance { instructions, words, .. } = self.allowance;
                if self.instructions >= instructions || self.held.len() >= words {
                    self.tell_held(writer);
                }
                return true;
            }
        }
        self.tell_held(writer);
        let before = self.allowance.era;
        writer.block_of(0, step, Some(*again), ops, &mut walk_of).unwrap();
        (self.allowance, self.space) = (writer.allowance(0), step.space);
        let era = self.allowance.era;
        if era == before && era != 0 {
            self.numbers[number] = era;
            self.pages.extend(accesses.iter().map(|op| (op.virt / PAGE, (era, frame(op)))));
        }
        false
    }

    fn tell_held(&mut self, writer: &mut TraceWriter) {
        if !self.held.is_empty() {
            writer.again(0, &self.step, self.instructions, &self.held).unwrap();
            (self.allowance, self.instructions) = (writer.allowance(0), 0);
            self.held.clear();
        }
    }
}

/// A file's chunks of harts.
fn chunks(path: &Path) -> Vec<(Head, Vec<u8>)> {
    let (bytes, file) = (fs::read(path).unwrap(), TraceFile::open(path).unwrap());
    let places = file.chunks().iter().filter(|place| place.head.kind == Kind::Hart);
    places.map(|place| chunk::read(&mut Cursor::new(&bytes[place.at as usize..]), 0).unwrap()).collect()
}

#[test]
fn a_thread_that_is_told_numbers_encodes_what_one_that_is_told_all_would() {
    const BLOCKS: u64 = 500_000;
    let (_folder, path) = scratch();
    let mut writer = TraceWriter::create(&path, &description()).unwrap();
    let mut kept = Kept::default();
    let short = blocks(BLOCKS).filter(|block| kept.tell(&mut writer, block)).count() as u64;
    kept.tell_held(&mut writer);
    let counts = writer.finish().unwrap();
    assert_eq!((counts.instructions[0], counts.ops), (7 * BLOCKS, 7 * BLOCKS));
    assert!(short > BLOCKS / 2 && short < BLOCKS, "{short} were told by their numbers");

    let (mut encoder, mut first, mut end, mut expected) = (HartEncoder::default(), 0, 0, Vec::new());
    let mut end_chunk = |encoder: &mut HartEncoder, end: u64| {
        let head = Head { kind: Kind::Hart, hart: 0, first, end };
        first = end;
        expected.push((head, chunk::join(&encoder.take())));
    };
    for (step, _, ops) in blocks(BLOCKS) {
        end += encoder.block(&step, None, &ops, &mut walk_of);
        // No chunk has as many instructions as one may have.
        if encoder.bytes() >= CHUNK_BYTES {
            end_chunk(&mut encoder, end);
        }
    }
    end_chunk(&mut encoder, end);
    let found = chunks(&path);
    let heads = |chunks: &[(Head, Vec<u8>)]| chunks.iter().map(|(head, _)| *head).collect::<Vec<_>>();
    assert_eq!(heads(&found), heads(&expected));
    assert!(found.len() > 1 && found == expected, "{} chunks", found.len());
}

#[test]
fn a_disk_that_is_full_is_told_while_the_trace_is_written_and_leaves_nothing() {
    let (folder, path) = scratch();
    // What the writer writes to until the trace is whole.
    let partial = path.with_file_name(format!("a.dbt.{}.partial", std::process::id()));
    std::os::unix::fs::symlink("/dev/full", &partial).unwrap();
    let mut writer = TraceWriter::create(&path, &description()).unwrap();
    let told = blocks(u64::MAX).find_map(|(step, again, ops)| {
        writer.block_of(0, &step, Some(again), &ops, &mut walk_of).err().map(|error| error.to_string())
    });
    assert!(told.as_ref().is_some_and(|told| told.contains("No space left on device")), "{told:?}");
    assert!(writer.finish().is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
