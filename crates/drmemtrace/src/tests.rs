//! Small files, composed record by record.

mod refusals;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use doorbell_sim::{Op, OpClass};
use doorbell_trace::system::{Step, TraceFile};
use tempfile::TempDir;
use zip::write::SimpleFileOptions;

use super::*;

const X86_64: u64 = 0x40;
const AARCH64: u64 = 0x8;
const REGDEPS: u64 = 0x2_0000;
const ENCODINGS: u64 = 0x200;
const CODE: u64 = 0x40_0000;
const DATA: u64 = 0x7fff_0000;

// Types of records and markers, declared independently of the implementation.
const READ: u16 = 0;
const WRITE: u16 = 1;
const PREFETCH_WRITE: u16 = 8;
const PLAIN: u16 = 10;
const CONDITIONAL: u16 = 13;
const RETURN: u16 = 16;
const THREAD: u16 = 22;
const THREAD_EXIT: u16 = 23;
const PID: u16 = 24;
const HEADER: u16 = 25;
const FOOTER: u16 = 26;
const MARKER: u16 = 28;
const NO_FETCH: u16 = 29;
const ENCODING: u16 = 47;
const TAKEN: u16 = 48;
const UNTAKEN: u16 = 49;

/// Records of a file under construction.
#[derive(Clone, Default)]
struct Records(Vec<[u8; 12]>);

impl Records {
    fn begin(version: u64, file_type: u64) -> Records {
        let mut records = Records::default();
        records.add(HEADER, 0, version);
        if version >= 4 {
            records.add(MARKER, 12, version);
            records.add(MARKER, 9, file_type);
        }
        records.add(THREAD, 4, 100);
        records.add(PID, 4, 50);
        records.add(MARKER, 10, 64);
        records
    }

    fn add(&mut self, kind: u16, size: u16, value: u64) -> &mut Records {
        let mut bytes = [0; 12];
        bytes[..2].copy_from_slice(&kind.to_le_bytes());
        bytes[2..4].copy_from_slice(&size.to_le_bytes());
        bytes[4..].copy_from_slice(&value.to_le_bytes());
        self.0.push(bytes);
        self
    }

    /// An instruction with its encoding.
    fn code(&mut self, kind: u16, at: u64, text: &[u8]) -> &mut Records {
        for part in text.chunks(8) {
            let mut value = [0; 8];
            value[..part.len()].copy_from_slice(part);
            self.add(ENCODING, part.len() as u16, u64::from_le_bytes(value));
        }
        self.add(kind, text.len() as u16, at)
    }

    fn end(&mut self) -> Vec<u8> {
        self.add(THREAD_EXIT, 4, 100).add(FOOTER, 0, 0);
        self.0.concat()
    }
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Zip archive with members of `records` records.
fn zipped(bytes: &[u8], records: usize) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (number, part) in bytes.chunks(12 * records).enumerate() {
        writer.start_file(format!("chunk.{number:04}"), SimpleFileOptions::default()).unwrap();
        writer.write_all(part).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// A file in a temporary folder.
fn written(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

/// Blocks of a hart.
fn blocks(file: &TraceFile, hart: u16) -> Vec<(Step, Vec<Op>)> {
    let (mut reader, mut all, mut ops) = (file.hart(hart, 0).unwrap(), Vec::new(), Vec::new());
    while let Some(step) = reader.next(&mut ops).unwrap() {
        all.push((step, std::mem::take(&mut ops)));
    }
    all
}

fn read(path: &Path) -> (Vec<(Step, Vec<Op>)>, Vec<String>) {
    assert!(is_of_drmemtrace(path));
    let (file, notes) = open(path).unwrap();
    file.check().unwrap();
    (blocks(&file, 0), notes)
}

fn ops_of(records: &mut Records) -> Vec<Op> {
    let (_folder, path) = written("some.trace", &records.end());
    read(&path).0.into_iter().flat_map(|(_, ops)| ops).collect()
}

/// A loop of two iterations; the second has no encodings.
fn loop_records() -> Records {
    let mut records = Records::begin(7, X86_64 | ENCODINGS);
    records.code(PLAIN, CODE, &[0x48, 0x8b, 0x07]).add(READ, 8, DATA); // mov rax, [rdi]
    records.code(PLAIN, CODE + 3, &[0x48, 0x01, 0xc8]); // add rax, rcx
    records.code(PLAIN, CODE + 6, &[0x48, 0x89, 0x06]).add(WRITE, 8, DATA + 64); // mov [rsi], rax
    records.code(TAKEN, CODE + 9, &[0x75, 0xf5]); // jne
    records.add(PLAIN, 3, CODE).add(READ, 8, DATA + 8);
    records.add(PLAIN, 3, CODE + 3);
    records.add(PLAIN, 3, CODE + 6).add(WRITE, 8, DATA + 72);
    records.add(UNTAKEN, 2, CODE + 9);
    records.code(RETURN, CODE + 11, &[0xc3]).add(READ, 8, DATA + 256);
    // A marker precedes its instruction, or the instruction's encoding.
    let access = records.0.len() - 2;
    records.0.insert(access, [28, 0, 29, 0, 0, 0x10, 0x40, 0, 0, 0, 0, 0]);
    records
}

#[test]
fn instructions_are_converted_from_every_file_packing() {
    let bytes = loop_records().end();
    let ways = [bytes.clone(), gzipped(&bytes), zipped(&bytes, 7), zipped(&bytes, 1 << 20)];
    let mut first = None;
    for (number, way) in ways.iter().enumerate() {
        let (_folder, path) = written("some.trace", way);
        let (blocks, notes) = read(&path);
        let of = (blocks.clone(), notes.clone());
        assert_eq!(&of, first.get_or_insert(of.clone()), "way {number}");
    }
    let (blocks, notes) = first.unwrap();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert_eq!(blocks.len(), 3);
    let classes: Vec<OpClass> = blocks[0].1.iter().map(|op| op.class).collect();
    assert_eq!(classes, [OpClass::Load, OpClass::Int, OpClass::Store, OpClass::Branch]);
    for ((step, ops), address) in blocks.iter().zip([DATA, DATA + 8]) {
        assert_eq!((step.space, step.thread, step.trapped), (Some(0), 100, false));
        let [load, add, store, jump] = ops[..] else { panic!("{ops:?}") };
        assert_eq!((load.virt, load.size, load.destination, load.sources[0]), (address, 8, 1, 8));
        assert_eq!((add.destination, add.length), (1, 3));
        assert_eq!((store.virt, store.sources[..2].to_vec()), (address + 64, vec![7, 1]));
        assert_eq!(jump.is_taken(), address == DATA);
        assert!(!jump.is_taken() || jump.virt == CODE);
    }
    let [.., last] = blocks[2].1[..] else { panic!("{blocks:?}") };
    assert_eq!((last.class, last.virt, last.next_pc()), (OpClass::Return, 0x40_1000, 0x40_1000));
}

#[test]
fn string_instruction_counts_once() {
    let mut records = Records::begin(7, X86_64 | ENCODINGS);
    records.code(PLAIN, CODE, &[0xf3, 0xa4]).add(READ, 1, DATA).add(WRITE, 1, DATA + 4096);
    for at in 1..300 {
        records.add(NO_FETCH, 2, CODE).add(READ, 1, DATA + at).add(WRITE, 1, DATA + 4096 + at);
    }
    records.code(PLAIN, CODE + 2, &[0x90]);
    let ops = ops_of(&mut records);
    assert_eq!(ops.iter().filter(|op| op.ends_instruction()).count(), 2);
    for class in [OpClass::Load, OpClass::Store] {
        let bytes: u64 = ops.iter().filter(|op| op.class == class).map(|op| u64::from(op.size)).sum();
        assert_eq!(bytes, 300);
    }
}

#[test]
fn large_accesses_are_divided_at_lines_and_pages() {
    let mut records = Records::begin(7, X86_64 | ENCODINGS);
    let access = |size, at| {
        let mut records = records.clone();
        records.code(PLAIN, CODE, &[0x0f, 0xae, 0x27]).add(WRITE, size, at); // xsave [rdi]
        let ops = ops_of(&mut records);
        let stores = ops.iter().filter(|op| op.class == OpClass::Store);
        stores.map(|op| (op.virt, op.size)).collect::<Vec<_>>()
    };
    assert_eq!(access(8, 0x1ffc), [(0x1ffc, 4), (0x2000, 4)]);
    assert_eq!(access(64, 0x1020), [(0x1020, 64)]);
    let all = access(576, 0x1010);
    assert_eq!((all.len(), all[0], all[9]), (10, (0x1010, 48), (0x1240, 16)));
    records.code(PLAIN, CODE, &[0x0f, 0x0d, 0x0f]).add(PREFETCH_WRITE, 1, DATA); // prefetchw
    let ops = ops_of(&mut records);
    assert_eq!((ops[0].class, ops[0].virt, ops[0].flags), (OpClass::Prefetch, DATA, Op::WRITES));
}

#[test]
fn branch_targets_without_encodings_follow_the_next_instruction() {
    let mut records = Records::begin(1, 0);
    records.add(PLAIN, 4, CODE).add(READ, 8, DATA).add(WRITE, 8, DATA + 8);
    records.add(CONDITIONAL, 2, CODE + 4);
    records.add(CONDITIONAL, 2, CODE + 32);
    records.add(RETURN, 1, CODE + 34).add(READ, 8, DATA + 64);
    records.add(PLAIN, 4, CODE + 512);
    let (_folder, path) = written("old.trace", &gzipped(&records.end()));
    let (blocks, notes) = read(&path);
    assert!(notes[1].starts_with("5 instructions have no encoding"), "{notes:?}");
    let ops: Vec<Op> = blocks.into_iter().flat_map(|(_, ops)| ops).collect();
    let branches: Vec<_> = ops.iter().filter(|op| op.class.is_branch()).collect();
    let targets: Vec<_> = branches.iter().map(|op| (op.is_taken(), op.next_pc())).collect();
    assert_eq!(targets, [(true, CODE + 32), (false, CODE + 34), (true, CODE + 512)]);
    assert_eq!(ops.iter().filter(|op| op.class.is_memory()).count(), 3);
}

#[test]
fn interleaved_threads_share_a_hart_and_each_file_is_a_hart() {
    let mut records = Records::begin(7, X86_64 | ENCODINGS);
    records.code(PLAIN, CODE, &[0x90]);
    records.add(THREAD, 4, 101).add(PID, 4, 51).code(PLAIN, CODE + 64, &[0x90]);
    records.add(THREAD, 4, 100).add(PLAIN, 1, CODE + 1);
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("trace")).unwrap();
    for (name, bytes) in
        [("b.trace.gz", gzipped(&loop_records().end())), ("a.trace.zip", zipped(&records.end(), 4))]
    {
        fs::write(folder.path().join("trace").join(name), bytes).unwrap();
    }
    fs::write(folder.path().join("trace/serial_schedule.bin.gz"), gzipped(b"something else")).unwrap();
    let (file, notes) = open(folder.path()).unwrap();
    assert_eq!(file.counts().instructions, [3, 9]);
    let found: Vec<_> =
        blocks(&file, 0).iter().map(|(step, _)| (step.thread, step.space, step.trapped)).collect();
    assert_eq!(found, [(100, Some(0), true), (101, Some(1), true), (100, Some(0), false)]);
    assert!(notes[0].starts_with("threads: 2; processes: 2; switches between threads: 2"), "{notes:?}");
}

#[test]
fn signals_and_kernel_instructions_are_distinguished() {
    let mut records = Records::begin(7, X86_64 | ENCODINGS);
    records.code(PLAIN, CODE, &[0x0f, 0x05]).add(MARKER, 25, 1); // syscall
    records.add(MARKER, 27, 1).code(PLAIN, CODE + 4096, &[0x90]).add(MARKER, 28, 1);
    records.code(CONDITIONAL, CODE + 2, &[0x75, 0x10]);
    // Interrupted after the branch, which was taken.
    records.add(MARKER, 0, CODE + 0x14).add(MARKER, 40, 11).code(PLAIN, CODE + 8192, &[0x90]);
    records.add(MARKER, 1, CODE + 8193).code(PLAIN, CODE + 0x14, &[0x90]);
    let (_folder, path) = written("signals.trace", &records.end());
    let (blocks, notes) = read(&path);
    let (steps, ops): (Vec<Step>, Vec<Vec<Op>>) = blocks.into_iter().unzip();
    let ops = ops.concat();
    let modes: Vec<_> = ops.iter().map(|op| op.flags & Op::PRIVILEGED != 0).collect();
    assert_eq!(modes, [false, true, false, false, false]);
    assert_eq!(ops[0].class, OpClass::Serialising);
    assert!(ops[2].is_taken() && ops[2].virt == CODE + 0x14);
    assert_eq!(steps.iter().filter(|step| step.trapped).count(), 2);
    assert!(notes[0].ends_with("system calls: 1; signals and interrupts: 1; kernel instructions: 1"));
}

#[test]
fn conversion_starts_after_the_filtered_part() {
    let mut records = Records::begin(7, X86_64 | ENCODINGS | 0x80 | 0x2000);
    records.add(PLAIN, 0, CODE + 7).add(READ, 8, DATA);
    records.add(MARKER, 23, 0);
    records.code(PLAIN, CODE, &[0x48, 0x8b, 0x07]).add(READ, 8, DATA + 8);
    let ops = ops_of(&mut records);
    assert_eq!((ops.len(), ops[0].virt), (1, DATA + 8));
}

#[test]
fn registers_of_other_instruction_sets() {
    let mut records = Records::begin(7, AARCH64 | ENCODINGS);
    records.code(PLAIN, CODE, &0xf940_0020_u32.to_le_bytes()).add(READ, 8, DATA); // ldr x0, [x1]
    records.code(RETURN, CODE + 4, &0xd65f_03c0_u32.to_le_bytes()); // ret
    records.code(PLAIN, CODE + 64, &0xd503_201f_u32.to_le_bytes()); // nop
    let ops = ops_of(&mut records);
    assert_eq!((ops[0].class, ops[0].destination, ops[0].sources[0]), (OpClass::Load, 1, 2));
    assert_eq!((ops[1].class, ops[1].next_pc()), (OpClass::Return, CODE + 64));

    let mut records = Records::begin(7, ENCODINGS);
    records.code(PLAIN, CODE, &0x0005_b503_u32.to_le_bytes()).add(READ, 8, DATA); // ld a0, 0(a1)
    records.code(PLAIN, CODE + 4, &0x952e_u16.to_le_bytes()); // c.add a0, a1
    let ops = ops_of(&mut records);
    assert_eq!((ops[0].class, ops[0].destination, ops[0].sources[0]), (OpClass::Load, 10, 11));
    assert_eq!((ops[1].class, ops[1].destination, ops[1].length), (OpClass::Int, 10, 2));

    // Three registers: one is written, two are read; a load with arithmetic that sets flags.
    let header: u32 = (0x2 | 0x100) << 10 | 1 << 8 | 2 << 4 | 1;
    let mut encoding = header.to_le_bytes().to_vec();
    encoding.extend([3, 5, 5, 6]);
    let mut records = Records::begin(7, REGDEPS | ENCODINGS);
    records.add(ENCODING, 8, u64::from_le_bytes(encoding.try_into().unwrap()));
    records.add(PLAIN, 4, CODE).add(READ, 8, DATA);
    let ops = ops_of(&mut records);
    let [load, add] = ops[..] else { panic!("{ops:?}") };
    assert_eq!((load.class, load.sources[0], load.length), (OpClass::Load, 7, 0));
    assert_eq!((add.class, add.destination, add.length), (OpClass::Int, 6, 4));
    assert!(add.sources.contains(&6) && add.sources.contains(&load.destination));
}
