//! Single instructions in a full register context: all compressed encodings, and random 32-bit ones. An
//! encoding that traps on one side and executes on the other shows up as a difference.
//!
//! A case loads all registers and jumps to the instruction. It returns through the epilogue (directly, by the
//! instruction's own jump, or after an exception). It stores a hash of all registers except f31, which the
//! epilogue needs, whether the instruction trapped, and a hash of the memory that stores can reach.

use crate::asm::{Asm, FCSR, addi, csr, fld, fsd, i_type, j_type, ld, r_type, reg, sd};
use crate::program::{Program, Record, SCRATCH, SET_HANDLER};
use crate::random::Random;

/// Registers at the end of a case: x1–x31, then `fcsr`, then f0–f30.
const DUMP: u64 = SCRATCH;
/// x8, x9 and x18 of the driving loop, and its return address.
const SAVED: u64 = SCRATCH + 0x400;
const FLAG: u64 = SCRATCH + 0x440;
/// The memory that a context's registers point to.
const MIDDLE: u64 = SCRATCH + 0xa000;
/// Memory reachable by stores: 2048 bytes below the lowest pointer to 2048 above the highest.
const WINDOW: u64 = MIDDLE - 2048;
const WINDOW_BYTES: u64 = 4096 + 32 * 16 + 8;

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Addresses used by contexts and snippets.
struct Routines {
    /// Ends a case.
    epilogue: u64,
    /// Ends a case after adding one to x29: a branch that was not taken.
    fallen_through: u64,
}

fn dump_slot(number: i32) -> i32 {
    number * 8
}

/// Hashes the doublewords from `x5` to `x6` into `x7`.
fn hash(asm: &mut Asm) {
    asm.li(11, MULTIPLIER).li(7, 1);
    let again = asm.here();
    asm.word(ld(10, 5, 0)).word(r_type(0x33, 0, 1, 7, 7, 11)).word(r_type(0x33, 0, 0, 7, 7, 10));
    asm.word(addi(5, 5, 8)).branch(6, 5, 6, again);
}

fn epilogue(asm: &mut Asm) -> Routines {
    let fallen_through = asm.here();
    asm.word(addi(29, 29, 1));
    let epilogue = asm.here();
    asm.word(r_type(0x53, 0, 0x79, 31, 31, 0)); // fmv.d.x f31, x31
    asm.li(31, DUMP);
    for number in 1..31 {
        asm.word(sd(number, 31, dump_slot(number as i32)));
    }
    asm.word(r_type(0x53, 0, 0x71, 30, 31, 0)).word(sd(30, 31, dump_slot(31))); // fmv.x.d x30, f31
    asm.word(csr(2, 30, FCSR, 0)).word(sd(30, 31, dump_slot(32)));
    for number in 0..31 {
        asm.word(fsd(number, 31, dump_slot(33 + number as i32)));
    }
    asm.li(5, DUMP + 8).li(6, DUMP + 64 * 8);
    hash(asm);
    asm.li(31, SAVED).word(ld(8, 31, 0)).word(ld(9, 31, 8)).word(ld(18, 31, 16));
    asm.word(sd(7, reg::OUT, 0)).word(ld(10, 31, (FLAG - SAVED) as i32)).word(sd(10, reg::OUT, 8));
    asm.word(sd(0, reg::OUT, 16)).word(ld(12, reg::IN, 8)).word(ld(30, 31, 24));
    let without_window = asm.here() + 8;
    asm.branch(1, 12, 0, without_window).word(i_type(0x67, 0, 0, 30, 0));
    asm.li(5, WINDOW).li(6, WINDOW + WINDOW_BYTES);
    hash(asm);
    asm.word(sd(7, reg::OUT, 16)).word(i_type(0x67, 0, 0, 30, 0));
    Routines { epilogue, fallen_through }
}

/// Runs the cases of a table: snippet, whether to hash the window, the encoding (for messages), context.
fn run_cases(program: &mut Program, text: &str, records: &[Record]) {
    let table = program.table(records);
    program.form(text.into(), table, 3, |asm| {
        asm.li(31, SAVED).word(sd(8, 31, 0)).word(sd(9, 31, 8)).word(sd(18, 31, 16));
        asm.word(sd(0, 31, (FLAG - SAVED) as i32));
        asm.word(ld(1, reg::IN, 0)).word(ld(30, reg::IN, 24));
        let count = 2 + 3 + 32 + 28 + 2 + 1;
        asm.word(0x17 | 29 << 7).word(addi(29, 29, 4 * count)).word(sd(29, 31, 24)); // resume address
        asm.word(ld(29, 30, 256 + 256)).word(csr(1, 0, FCSR, 29));
        for number in 0..32 {
            asm.word(fld(number, 30, 256 + 8 * number as i32));
        }
        for number in (2..30).chain([31, 30]) {
            asm.word(ld(number, 30, 8 * number as i32));
        }
        asm.word(i_type(0x67, 0, 0, 1, 0));
    });
}

/// A context in memory: x0–x31, f0–f31, `fcsr`.
fn context(program: &mut Program, random: &mut Random, frm: u64, x: impl Fn(u64) -> u64) -> u64 {
    let mut values = (0..32).map(x).collect::<Vec<_>>();
    for _ in 0..32 {
        values.push(match random.below(3) {
            0 => u64::from(random.single()) | 0xffff_ffff_0000_0000,
            _ => random.double(),
        });
    }
    values.push(frm << 5);
    program.data(&values)
}

fn is_compressed_jump(half: u16) -> bool {
    let jump_register = half & 0xe003 == 0x8002 && half & 0x007c == 0 && half & 0x0f80 != 0;
    let branch_or_jump = half & 3 == 1 && half >> 13 >= 5;
    jump_register || branch_or_jump
}

const C_EBREAK: u16 = 0x9002;

/// All compressed encodings except jumps, each in a context whose registers point to memory; and C.JR and
/// C.JALR.
pub fn compressed(program: &mut Program, random: &mut Random) {
    let start = begin(program);
    let pointers = context(program, random, 0, |number| MIDDLE + 16 * number);
    let pads = landing_pads(program, &start.routines);
    let pad_context = context(program, random, 0, |number| pads + 8 * number);
    let mut records = Vec::new();
    for half in 0..=u16::MAX {
        if half & 3 == 3 || half == C_EBREAK {
            continue;
        }
        let jump = is_compressed_jump(half);
        if jump && (half & 3 == 1 || half >> 7 & 0x1f == 1) {
            continue; // immediate jumps have a test of their own; a return through x1 would loop
        }
        let store = half & 3 != 1 && half >> 15 == 1 && half >> 13 != 4;
        records.push([
            program.asm.here(),
            u64::from(store),
            half.into(),
            if jump { pad_context } else { pointers },
        ]);
        program.asm.half(half);
        back(&mut program.asm, &start.routines);
    }
    finish_snippets(program, start);
    run_cases(program, "compressed encoding (third operand)", &records);
}

/// C.J, C.BEQZ and C.BNEZ with every offset. Only the right target holds code; all other targets trap.
pub fn compressed_jumps(program: &mut Program, random: &mut Random) {
    let start = begin(program);
    let (taken, fallen) = (start.routines.epilogue, start.routines.fallen_through);
    finish_snippets(program, start);
    let context = |program: &mut Program, random: &mut Random, odd: u64| {
        context(program, random, 0, |number| match number {
            30 => fallen,
            31 => taken,
            _ => (number & 1) ^ odd,
        })
    };
    let contexts = [context(program, random, 0), context(program, random, 1)];
    let mut records = Vec::new();
    let mut arena = Vec::new();
    for half in 0..=u16::MAX {
        if half & 3 != 1 || half >> 13 < 5 {
            continue;
        }
        let offset = if half >> 13 == 5 { c_j_offset(half) } else { c_b_offset(half) };
        if (0..=2).contains(&offset) {
            continue; // the target is the jump itself or the next instruction
        }
        arena.push((half, offset));
    }
    const C_JR_X30: u16 = 0x8f02;
    const C_JR_X31: u16 = 0x8f82;
    let asm = &mut program.asm;
    let begin = asm.here() + 32;
    let size = |half: u16| if half >> 13 == 5 { 4096 } else { 512 };
    let end = begin + arena.iter().map(|(half, _)| size(*half)).sum::<u64>();
    asm.li(6, end).word(i_type(0x67, 0, 0, 6, 0));
    while asm.here() < begin {
        asm.half(0);
    }
    for (half, offset) in arena {
        let room = size(half);
        let mut cell = vec![0u16; room as usize / 2];
        let at = (room / 4) as usize; // in halfwords: the middle
        cell[at] = half;
        cell[at + 1] = C_JR_X30;
        cell[(at as i32 + offset / 2) as usize] = C_JR_X31;
        for context in contexts {
            records.push([asm.here() + room / 2, 0, half.into(), context]);
        }
        for half in cell {
            asm.half(half);
        }
    }
    assert_eq!(asm.here(), end);
    run_cases(program, "compressed jump (third operand)", &records);
}

fn gather(half: u16, places: &[u32], sign: u32) -> i32 {
    let bits =
        places.iter().enumerate().fold(0, |value, (from, to)| value | (half as i32 >> (from + 2) & 1) << to);
    bits << (31 - sign) >> (31 - sign)
}

/// C.J: positions of bits 2 to 12.
fn c_j_offset(half: u16) -> i32 {
    gather(half, &[5, 1, 2, 3, 7, 6, 10, 8, 9, 4, 11], 11)
}

fn c_b_offset(half: u16) -> i32 {
    gather(half & 0x1c7c, &[5, 1, 2, 6, 7, 0, 0, 0, 3, 4, 8], 8)
}

/// Pads of eight bytes, one per register, each of which marks the floating-point registers differently.
fn landing_pads(program: &mut Program, routines: &Routines) -> u64 {
    let asm = &mut program.asm;
    while !asm.here().is_multiple_of(8) {
        asm.half(1);
    }
    let pads = asm.here();
    for number in 0..32 {
        asm.word(r_type(0x53, 0, 0x79, number % 31, 0, 0)); // fmv.d.x
        back(asm, routines);
    }
    pads
}

fn back(asm: &mut Asm, routines: &Routines) {
    let offset = routines.epilogue.wrapping_sub(asm.here()) as i64 as i32;
    asm.word(j_type(0, offset));
}

struct Layout {
    routines: Routines,
    /// Address of the program's second jump, which must skip the snippets.
    jump: u64,
}

/// Emits the routines, then the snippets, then the main program, which the jump at the start leads to.
fn begin(program: &mut Program) -> Layout {
    let asm = &mut program.asm;
    let jump = asm.here();
    asm.word(0);
    let routines = epilogue(asm);
    Layout { routines, jump }
}

fn finish_snippets(program: &mut Program, layout: Layout) {
    let asm = &mut program.asm;
    asm.patch(layout.jump, j_type(0, (asm.here() - layout.jump) as i32));
    asm.li(10, FLAG).li(11, layout.routines.epilogue).syscall(SET_HANDLER);
    program.fill_memory(WINDOW, WINDOW_BYTES);
}

/// Opcodes whose random encodings are harmless: they do not jump, and their addresses are in the window.
/// Unassigned opcodes (custom and reserved) must trap.
const OPCODES: [u32; 26] = [
    0x13, 0x1b, 0x33, 0x3b, 0x53, 0x53, 0x53, 0x53, 0x43, 0x47, 0x4b, 0x4f, 0x2f, 0x03, 0x07, 0x23, 0x27,
    0x37, 0x17, 0x0f, 0x0b, 0x2b, 0x5b, 0x6b, 0x77, 0x57,
];

/// A random word with one of the opcodes; `None` if it would not be a useful test.
fn random_word(random: &mut Random) -> Option<u32> {
    let opcode = random.pick(&OPCODES);
    let mut word = random.next() as u32 & !0x7f | opcode;
    if matches!(opcode, 0x13 | 0x1b | 0x33 | 0x3b) && random.below(4) != 0 {
        word = word & 0x01ff_ffff | random.pick(&[0u32, 1, 0x20, 0x21]) << 25;
    }
    if opcode == 0x53 && random.below(3) != 0 {
        word = word & 0x07ff_ffff | random.pick(&[0u32, 1, 2, 3, 4, 5, 8, 11, 20, 24, 26, 28, 30]) << 27;
        word &= !(1 << 26);
        if random.below(2) == 0 {
            word &= !(0x1c << 20);
        }
    }
    let (funct3, rs1) = (word >> 12 & 7, word >> 15 & 0x1f);
    // x1 points to code. x0 leads to address zero.
    let bad_base = rs1 < 2 && matches!(opcode, 0x03 | 0x07 | 0x23 | 0x27 | 0x2f);
    // The result of LR and SC depends on earlier cases.
    let reserved = opcode == 0x2f && matches!(word >> 27, 2 | 3) && matches!(funct3, 2 | 3);
    // Some versions of QEMU accept reserved static rounding modes.
    let reserved_rm = matches!(opcode, 0x43 | 0x47 | 0x4b | 0x4f | 0x53) && matches!(funct3, 5 | 6);
    (!bad_base && !reserved && !reserved_rm).then_some(word)
}

/// Random 32-bit encodings.
pub fn random_words(program: &mut Program, random: &mut Random) {
    let start = begin(program);
    let contexts = (0..8).map(|frm| context(program, random, frm, |n| MIDDLE + 16 * n)).collect::<Vec<_>>();
    let mut records = Vec::new();
    while records.len() < 40_000 {
        let Some(word) = random_word(random) else { continue };
        let store = matches!(word & 0x7f, 0x23 | 0x27 | 0x2f);
        records.push([program.asm.here(), u64::from(store), word.into(), random.pick(&contexts)]);
        program.asm.word(word);
        back(&mut program.asm, &start.routines);
    }
    finish_snippets(program, start);
    run_cases(program, "random encoding (third operand)", &records);
}
