//! Numbered blocks, and chunks that end by size: the file is the same however far the encoder thread lags
//! behind.

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

/// Physical address of `virt`; every 64th page moves to another frame each 100,000 blocks.
fn translate(virt: u64, block: u64) -> PhysAddr {
    let page = virt / PAGE;
    let moved = if page % 64 == 5 { block / 100_000 } else { 0 };
    PhysAddr((page % 1024 + moved + (1 << 20)) * PAGE + virt % PAGE)
}

/// Ops of a numbered block: accesses, and a jump to a computed address.
fn ops(number: u32, block: u64, space: u16, random: &mut Rng) -> Vec<Op> {
    let pc = |op: u64| 0x40_0000 + u64::from(number) * 0x800 + 4 * op;
    let at = |op: u64| Op { pc: pc(op), fetch: translate(pc(op), 0), length: 4, ..Op::default() };
    let access = |op: u64| {
        // Far apart, so that each address takes several bytes, but within few pages.
        let virt =
            (1 << 45 | u64::from(space) << 30) + random.below(2) * (1 << 40) + random.below(1 << 19) * 8;
        Op { class: OpClass::Load, size: 8, virt, phys: translate(virt, block), ..at(op) }
    };
    let mut ops: Vec<Op> = (0..ACCESSES).map(access).collect();
    let virt = pc(random.below(4) * 0x200);
    ops.push(Op { class: OpClass::Return, virt, ..at(ACCESSES) });
    ops
}

/// The first `count` blocks of a hart, each with its step.
fn blocks(count: u64) -> impl Iterator<Item = (Step, BlockHint, Vec<Op>)> {
    let mut random = Rng::stream(1, "blocks");
    (0..count).map(move |block| {
        let (space, thread) = (1 + (block / 3000 % 2) as u16, block / 700);
        let slept = doorbell_sim::Ps(if block % 5000 == 0 { 7 } else { 0 });
        let shape = random.below(u64::from(NUMBERS)) as u32;
        let step = Step { space: Some(space), thread, slept, ..Step::default() };
        (step, BlockHint { shape, instructions: ACCESSES + 1 }, ops(shape, block, space, &mut random))
    })
}

/// A machine's view of what it has already recorded in full.
#[derive(Default)]
struct Machine {
    allowance: Allowance,
    space: Option<u16>,
    numbers: [u64; NUMBERS as usize],
    pages: std::collections::HashMap<u64, (u64, PhysAddr)>,
    /// Deferred blocks (by number), and the step of the first one.
    deferred: Vec<u64>,
    step: Step,
    instructions: u64,
}

impl Machine {
    fn record(&mut self, writer: &mut TraceWriter, (step, hint, ops): &(Step, BlockHint, Vec<Op>)) -> bool {
        let accesses = &ops[..ACCESSES as usize];
        let frame = |op: &Op| PhysAddr(op.phys.0 / PAGE);
        let (number, era) = (hint.shape as usize, self.allowance.era);
        let is_recorded = |op: &Op| self.pages.get(&(op.virt / PAGE)) == Some(&(era, frame(op)));
        let known = era != 0 && self.numbers[number] == era && step.space == self.space;
        if known && accesses.iter().all(is_recorded) {
            let is_another = self.step.thread != step.thread || step.slept.0 > 0;
            if is_another {
                self.flush(writer);
            }
            if self.deferred.is_empty() {
                self.step = *step;
            }
            // Flushing the deferred blocks may have ended the chunk.
            if self.allowance.era == era {
                self.deferred.push(head(hint.shape, ops.len() as u32));
                self.deferred.extend(ops.iter().map(|op| op.virt));
                self.instructions += hint.instructions;
                let Allowance { instructions, words, .. } = self.allowance;
                if self.instructions >= instructions || self.deferred.len() >= words {
                    self.flush(writer);
                }
                return true;
            }
        }
        self.flush(writer);
        let before = self.allowance.era;
        writer.block_with_hint(0, step, Some(*hint), ops, &mut walk_of).unwrap();
        (self.allowance, self.space) = (writer.allowance(0), step.space);
        let era = self.allowance.era;
        if era == before && era != 0 {
            self.numbers[number] = era;
            self.pages.extend(accesses.iter().map(|op| (op.virt / PAGE, (era, frame(op)))));
        }
        false
    }

    fn flush(&mut self, writer: &mut TraceWriter) {
        if !self.deferred.is_empty() {
            writer.repeat(0, &self.step, self.instructions, &self.deferred).unwrap();
            (self.allowance, self.instructions) = (writer.allowance(0), 0);
            self.deferred.clear();
        }
    }
}

/// The hart chunks of a file.
fn chunks(path: &Path) -> Vec<(Head, Vec<u8>)> {
    let (bytes, file) = (fs::read(path).unwrap(), TraceFile::open(path).unwrap());
    let places = file.chunks().iter().filter(|translate| translate.head.kind == Kind::Hart);
    places
        .map(|translate| chunk::read(&mut Cursor::new(&bytes[translate.at as usize..]), 0).unwrap())
        .collect()
}

#[test]
fn numbered_blocks_encode_to_the_same_bytes_as_full_blocks() {
    const BLOCKS: u64 = 500_000;
    let (_folder, path) = scratch();
    let mut writer = TraceWriter::create(&path, &description()).unwrap();
    let mut machine = Machine::default();
    let by_number = blocks(BLOCKS).filter(|block| machine.record(&mut writer, block)).count() as u64;
    machine.flush(&mut writer);
    let counts = writer.finish().unwrap();
    assert_eq!((counts.instructions[0], counts.ops), (7 * BLOCKS, 7 * BLOCKS));
    assert!(by_number > BLOCKS / 2 && by_number < BLOCKS, "{by_number} blocks were recorded by number");

    let (mut encoder, mut first, mut end, mut expected) = (HartEncoder::default(), 0, 0, Vec::new());
    let mut end_chunk = |encoder: &mut HartEncoder, end: u64| {
        let head = Head { kind: Kind::Hart, hart: 0, first, end };
        first = end;
        expected.push((head, chunk::join(&encoder.take())));
    };
    for (step, _, ops) in blocks(BLOCKS) {
        end += encoder.block(&step, None, &ops, &mut walk_of);
        // Chunks end by size here, never by instruction count.
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
fn full_disk_is_reported_during_writing_and_leaves_no_file() {
    let (folder, path) = scratch();
    let full = tempfile::Builder::new().make_in(&folder, |path| {
        std::os::unix::fs::symlink("/dev/full", path)?;
        fs::File::options().write(true).open(path)
    });
    let mut writer = TraceWriter::write_to(full.unwrap(), &path, &description()).unwrap();
    let error = blocks(u64::MAX).find_map(|(step, hint, ops)| {
        writer.block_with_hint(0, &step, Some(hint), &ops, &mut walk_of).err().map(|error| error.to_string())
    });
    assert!(error.as_ref().is_some_and(|error| error.contains("No space left on device")), "{error:?}");
    assert!(writer.finish().is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
