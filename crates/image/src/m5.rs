//! `/usr/bin/m5` of every image: gem5's m5ops for shell scripts, with the command names of gem5's own `m5`
//! program. It is assembled here into a static ELF file of under a kilobyte, so images need no cross compiler
//! and are the same everywhere. On a machine without m5ops (QEMU, silicon) an operation ends in an illegal
//! instruction.
//!
//! Instruction formats: RISC-V unprivileged specification, chapter 2; file layout: System V ABI, chapter 4;
//! system calls: Linux's generic table. Before every operation the program waits until its output is drained
//! (`TCSBRK`), so that marks and output are in order.

use std::collections::BTreeMap;

/// Path of the program in an image.
pub(crate) const PATH: &str = "usr/bin/m5";

const USAGE: &str = "usage: m5 exit | fail CODE | resetstats | dumpstats | dumpresetstats | checkpoint | readfile | \
                     workbegin ID | workend ID\n";

/// How an operation uses the numbers on its command line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The numbers are the operation's arguments.
    Plain = 0,
    /// The first number is the second argument.
    Fail = 1,
    /// The operation's result, the host's file, goes to standard output.
    ReadFile = 2,
}

/// Name, function number, kind.
const OPERATIONS: &[(&str, u32, Kind)] = &[
    ("exit", 0x21, Kind::Plain),
    ("fail", 0x22, Kind::Fail),
    ("resetstats", 0x40, Kind::Plain),
    ("dumpstats", 0x41, Kind::Plain),
    ("dumpresetstats", 0x42, Kind::Plain),
    ("checkpoint", 0x43, Kind::Plain),
    ("readfile", 0x50, Kind::ReadFile),
    ("workbegin", 0x5a, Kind::Plain),
    ("workend", 0x5b, Kind::Plain),
];

/// Size of a table entry: the name, padded with zeros, with the kind as its last byte; then the operation and
/// a return.
const ENTRY: u32 = 24;
const ENTRY_KIND: u32 = 15;
const ENTRY_CODE: u32 = 16;

const TEXT_AT: u64 = 0x1_0000;
const BUFFER_AT: u64 = 0x2_0000;
const BUFFER_BYTES: u64 = 0x1_0000;
const HEADER_BYTES: u64 = 64 + 2 * 56;

/// Registers by their numbers in the calling convention.
const ZERO: u32 = 0;
const RA: u32 = 1;
const SP: u32 = 2;
const T0: u32 = 5;
const T1: u32 = 6;
const T2: u32 = 7;
const A0: u32 = 10;
const A1: u32 = 11;
const A2: u32 = 12;
const A7: u32 = 17;
/// argc, argv, the requested name, the current table entry.
const ARGC: u32 = 18;
const ARGV: u32 = 19;
const NAME: u32 = 20;
const FOUND: u32 = 21;
/// The first number, or the offset in the host's file.
const FIRST: u32 = 22;
const OFFSET: u32 = 22;
const BUFFER: u32 = 23;
/// The unwritten part of the buffer: its address and length.
const AT: u32 = 24;
const LEFT: u32 = 25;

/// Branch conditions (funct3).
const EQ: u32 = 0;
const NE: u32 = 1;
const LESS: u32 = 4;
const NOT_LESS: u32 = 5;
const BELOW: u32 = 6;

const SYS_IOCTL: u32 = 29;
const SYS_WRITE: u32 = 64;
const SYS_EXIT: u32 = 93;
const TCSBRK: u32 = 0x5409;

type Labels = BTreeMap<&'static str, u32>;

/// An instruction buffer. Assembled twice: the first pass finds the addresses of the labels.
struct Code {
    bytes: Vec<u8>,
    known: Labels,
    labels: Labels,
}

impl Code {
    fn word(&mut self, word: u32) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    fn label(&mut self, name: &'static str) {
        self.labels.insert(name, self.bytes.len() as u32);
    }

    /// Offset from here to a label; 0 in the first pass.
    fn distance(&self, label: &str) -> u32 {
        self.known.get(label).map_or(0, |at| at.wrapping_sub(self.bytes.len() as u32))
    }

    fn addi(&mut self, rd: u32, rs1: u32, value: i32) {
        self.word((value as u32) << 20 | rs1 << 15 | rd << 7 | 0x13);
    }

    fn add(&mut self, rd: u32, rs1: u32, rs2: u32) {
        self.word(rs2 << 20 | rs1 << 15 | rd << 7 | 0x33);
    }

    /// Loads a value below 2^31 whose bit 11 is clear, so that LUI and ADDI need no correction.
    fn li(&mut self, rd: u32, value: u32) {
        match value >> 12 {
            0 => self.addi(rd, ZERO, value as i32),
            upper => {
                self.word(upper << 12 | rd << 7 | 0x37);
                self.addi(rd, rd, (value & 0xfff) as i32);
            }
        }
    }

    /// Loads the address of a label: AUIPC and ADDI.
    fn la(&mut self, rd: u32, label: &str) {
        let distance = self.distance(label);
        self.word((distance.wrapping_add(0x800) & 0xffff_f000) | rd << 7 | 0x17);
        self.addi(rd, rd, (distance & 0xfff) as i32);
    }

    fn load(&mut self, funct3: u32, rd: u32, rs1: u32, offset: u32) {
        self.word(offset << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | 0x03);
    }

    /// Loads a byte, zero-extended.
    fn lbu(&mut self, rd: u32, rs1: u32, offset: u32) {
        self.load(4, rd, rs1, offset);
    }

    fn ld(&mut self, rd: u32, rs1: u32, offset: u32) {
        self.load(3, rd, rs1, offset);
    }

    fn branch(&mut self, condition: u32, rs1: u32, rs2: u32, label: &str) {
        let d = self.distance(label);
        let low = (d >> 1 & 0xf) << 8 | (d >> 11 & 1) << 7;
        let high = (d >> 12 & 1) << 31 | (d >> 5 & 0x3f) << 25;
        self.word(high | rs2 << 20 | rs1 << 15 | condition << 12 | low | 0x63);
    }

    /// Calls (RA) or jumps to (ZERO) a label.
    fn jal(&mut self, rd: u32, label: &str) {
        let d = self.distance(label);
        let high = (d >> 20 & 1) << 31 | (d >> 1 & 0x3ff) << 21;
        self.word(high | (d >> 11 & 1) << 20 | (d >> 12 & 0xff) << 12 | rd << 7 | 0x6f);
    }

    fn jalr(&mut self, rd: u32, rs1: u32, offset: u32) {
        self.word(offset << 20 | rs1 << 15 | rd << 7 | 0x67);
    }

    fn system_call(&mut self, number: u32) {
        self.li(A7, number);
        self.word(0x73);
    }

    fn exit(&mut self, status: u32) {
        self.li(A0, status);
        self.system_call(SYS_EXIT);
    }
}

/// Finds the operation that the first word names, and jumps to `found`.
fn choose(c: &mut Code) {
    c.ld(ARGC, SP, 0);
    c.addi(ARGV, SP, 8);
    c.li(T0, 2);
    c.branch(LESS, ARGC, T0, "usage");
    c.ld(NAME, ARGV, 8);
    c.la(FOUND, "table");
    c.label("candidate");
    c.lbu(T0, FOUND, 0);
    c.branch(EQ, T0, ZERO, "usage");
    c.addi(T1, NAME, 0);
    c.addi(T2, FOUND, 0);
    c.label("compare");
    c.lbu(A0, T1, 0);
    c.lbu(A1, T2, 0);
    c.branch(NE, A0, A1, "another");
    c.branch(EQ, A0, ZERO, "found");
    c.addi(T1, T1, 1);
    c.addi(T2, T2, 1);
    c.jal(ZERO, "compare");
    c.label("another");
    c.addi(FOUND, FOUND, ENTRY as i32);
    c.jal(ZERO, "candidate");
}

/// Parses up to two numbers and performs the operation.
fn perform(c: &mut Code) {
    c.label("found");
    c.li(A0, 1);
    c.li(A1, TCSBRK);
    c.li(A2, 1);
    c.system_call(SYS_IOCTL);
    c.li(T2, 3);
    c.li(A0, 0);
    c.branch(LESS, ARGC, T2, "no first");
    c.ld(A1, ARGV, 16);
    c.jal(RA, "number");
    c.label("no first");
    c.addi(FIRST, A0, 0);
    c.li(T2, 4);
    c.li(A0, 0);
    c.branch(LESS, ARGC, T2, "no second");
    c.ld(A1, ARGV, 24);
    c.jal(RA, "number");
    c.label("no second");
    c.lbu(T0, FOUND, ENTRY_KIND);
    c.li(T1, Kind::ReadFile as u32);
    c.branch(EQ, T0, T1, "read file");
    c.addi(A1, A0, 0);
    c.addi(A0, FIRST, 0);
    c.branch(EQ, T0, ZERO, "go");
    c.addi(A1, FIRST, 0);
    c.li(A0, 0);
    c.label("go");
    c.jalr(RA, FOUND, ENTRY_CODE);
    c.label("done");
    c.exit(0);
}

/// Parses the decimal number at A1 into A0.
fn number(c: &mut Code) {
    c.label("number");
    c.li(A0, 0);
    c.label("digit");
    c.lbu(T0, A1, 0);
    c.branch(EQ, T0, ZERO, "number ends");
    c.addi(T0, T0, -i32::from(b'0'));
    c.li(T1, 10);
    c.branch(NOT_LESS, T0, T1, "usage");
    c.branch(LESS, T0, ZERO, "usage");
    // 10 x = 2 x + 8 x.
    c.add(T1, A0, A0);
    c.add(A0, T1, T1);
    c.add(A0, A0, A0);
    c.add(A0, A0, T1);
    c.add(A0, A0, T0);
    c.addi(A1, A1, 1);
    c.jal(ZERO, "digit");
    c.label("number ends");
    c.jalr(ZERO, RA, 0);
}

/// Copies the host's file to standard output in buffer-sized pieces. The simulator does not wait for the
/// guest to allocate a page, so the program writes to each page first.
fn read_file(c: &mut Code) {
    c.label("read file");
    c.li(BUFFER, BUFFER_AT as u32);
    c.li(OFFSET, 0);
    c.label("more");
    c.addi(T0, BUFFER, 0);
    c.li(T1, (BUFFER_AT + BUFFER_BYTES) as u32);
    c.li(T2, 0x1000);
    c.label("touch");
    c.word(T0 << 15 | 0x23); // SB x0, 0(t0)
    c.add(T0, T0, T2);
    c.branch(BELOW, T0, T1, "touch");
    c.addi(A0, BUFFER, 0);
    c.li(A1, BUFFER_BYTES as u32);
    c.addi(A2, OFFSET, 0);
    c.jalr(RA, FOUND, ENTRY_CODE);
    c.branch(LESS, A0, ZERO, "failed");
    c.branch(EQ, A0, ZERO, "done");
    c.add(OFFSET, OFFSET, A0);
    c.addi(AT, BUFFER, 0);
    c.addi(LEFT, A0, 0);
    c.label("write");
    c.li(A0, 1);
    c.addi(A1, AT, 0);
    c.addi(A2, LEFT, 0);
    c.system_call(SYS_WRITE);
    c.branch(NOT_LESS, ZERO, A0, "failed");
    c.add(AT, AT, A0);
    c.word(0x4000_0000 | A0 << 20 | LEFT << 15 | LEFT << 7 | 0x33); // SUB left, left, a0
    c.branch(LESS, ZERO, LEFT, "write");
    c.jal(ZERO, "more");
    c.label("failed");
    c.exit(1);
}

fn usage_and_table(c: &mut Code) {
    c.label("usage");
    c.li(A0, 2);
    c.la(A1, "usage text");
    c.li(A2, USAGE.len() as u32);
    c.system_call(SYS_WRITE);
    c.exit(2);
    c.label("table");
    for &(name, function, kind) in OPERATIONS {
        let mut entry = [0; ENTRY_CODE as usize];
        entry[..name.len()].copy_from_slice(name.as_bytes());
        entry[ENTRY_KIND as usize] = kind as u8;
        c.bytes.extend_from_slice(&entry);
        c.word(0x7b | function << 25);
        c.jalr(ZERO, RA, 0);
    }
    c.word(0);
    c.label("usage text");
    c.bytes.extend_from_slice(USAGE.as_bytes());
}

fn assemble(known: Labels) -> Code {
    let mut code = Code { bytes: Vec::new(), known, labels: Labels::new() };
    choose(&mut code);
    perform(&mut code);
    number(&mut code);
    read_file(&mut code);
    usage_and_table(&mut code);
    code
}

/// The program: an ELF header, a segment for code and table, and one for the buffer.
pub(crate) fn program() -> Vec<u8> {
    let code = assemble(assemble(Labels::new()).labels).bytes;
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
    file.resize(16, 0);
    let halves = |file: &mut Vec<u8>, values: &[u16]| {
        values.iter().for_each(|value| file.extend_from_slice(&value.to_le_bytes()));
    };
    let words = |file: &mut Vec<u8>, values: &[u32]| {
        values.iter().for_each(|value| file.extend_from_slice(&value.to_le_bytes()));
    };
    let longs = |file: &mut Vec<u8>, values: &[u64]| {
        values.iter().for_each(|value| file.extend_from_slice(&value.to_le_bytes()));
    };
    halves(&mut file, &[2, 243]); // an executable, for RISC-V
    words(&mut file, &[1]);
    longs(&mut file, &[TEXT_AT + HEADER_BYTES, 64, 0]); // where it begins; program headers; no sections
    words(&mut file, &[4]); // double-precision calling convention, as Debian's programs
    halves(&mut file, &[64, 56, 2, 64, 0, 0]);
    let end = HEADER_BYTES + code.len() as u64;
    // Type (load), flags (R 4, W 2, X 1), offset, addresses, sizes in file and memory, alignment.
    for (flags, at, in_file, in_memory) in [(5, TEXT_AT, end, end), (6, BUFFER_AT, 0, BUFFER_BYTES)] {
        words(&mut file, &[1, flags]);
        longs(&mut file, &[0, at, at, in_file, in_memory, 0x1000]);
    }
    file.extend_from_slice(&code);
    file
}

#[cfg(test)]
#[path = "m5_tests.rs"]
mod tests;
