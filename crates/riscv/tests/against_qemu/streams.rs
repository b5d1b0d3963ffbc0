//! Random instruction streams: arithmetic, floating point, memory, atomics, branches, loops and calls mixed,
//! so that decoded blocks of many shapes are built, linked, entered in the middle and cut short.

use crate::asm::{
    Asm, FCSR, FFLAGS, addi, csr, fld, fsd, i_type, j_type, ld, r_type, r4_type, reg, s_type, sd,
};
use crate::integer::{FREE, IMMEDIATE_FORMS, REGISTER_FORMS};
use crate::program::{Program, SCRATCH, Table};
use crate::random::Random;

/// Two memory pointers and a loop counter, which streams do not overwrite.
const POINTER: u32 = 20;
const ALIGNED: u32 = 21;
const COUNTER: u32 = 22;
const LINK: u32 = 1;

const MIDDLE: u64 = SCRATCH + 0x8000;
const WINDOW_BYTES: u64 = 4096 + 256;

fn target(random: &mut Random) -> u32 {
    loop {
        let register = random.pick(&FREE);
        if ![POINTER, ALIGNED, COUNTER, LINK].contains(&register) {
            return register;
        }
    }
}

fn arithmetic(asm: &mut Asm, random: &mut Random) {
    let (rd, rs1, rs2) = (target(random), random.pick(&FREE), random.pick(&FREE));
    if random.below(2) == 0 {
        let (_, opcode, funct3, funct7) = random.pick(&REGISTER_FORMS);
        asm.word(r_type(opcode, funct3, funct7, rd, rs1, rs2));
    } else {
        let (_, opcode, funct3, high, shift) = random.pick(&IMMEDIATE_FORMS);
        let imm = if shift == 0 {
            random.below(4096) as i32 - 2048
        } else {
            high as i32 | random.below(1 << shift) as i32
        };
        asm.word(i_type(opcode, funct3, rd, rs1, imm));
    }
}

fn floating(asm: &mut Asm, random: &mut Random) {
    let float = |random: &mut Random| random.below(32) as u32;
    let (format, rm) = (random.below(2) as u32, random.pick(&[0, 1, 2, 3, 4, 7]));
    let (rd, rs) = (float(random), [float(random), float(random), float(random)]);
    let word = match random.below(8) {
        0..4 => r_type(0x53, rm, random.below(4) as u32 * 4 + format, rd, rs[0], rs[1]),
        4 => r4_type(random.pick(&[0x43, 0x47, 0x4b, 0x4f]), rm, format, rd, rs),
        5 => r_type(0x53, random.below(3) as u32, 0x50 + format, target(random), rs[0], rs[1]),
        6 => r_type(0x53, rm, 0x60 + format, target(random), rs[0], random.below(4) as u32),
        _ => r_type(0x53, rm, 0x68 + format, rd, random.pick(&FREE), random.below(4) as u32),
    };
    asm.word(word);
}

fn memory(asm: &mut Asm, random: &mut Random) {
    let imm = random.below(4000) as i32 - 2000;
    let float = random.below(32) as u32;
    let word = match random.below(7) {
        0 | 1 => i_type(0x03, random.below(7) as u32, target(random), POINTER, imm),
        2 | 3 => s_type(0x23, random.below(4) as u32, POINTER, random.pick(&FREE), imm),
        4 => i_type(0x07, 2 + random.below(2) as u32, float, POINTER, imm),
        5 => s_type(0x27, 2 + random.below(2) as u32, POINTER, float, imm),
        _ => {
            let funct5 = random.pick(&[0, 1, 4, 8, 12, 16, 20, 24, 28]);
            let rs2 = random.pick(&FREE);
            r_type(0x2f, 2 + random.below(2) as u32, funct5 << 2, target(random), ALIGNED, rs2)
        }
    };
    asm.word(word);
}

/// A compressed instruction without memory access.
fn compressed(asm: &mut Asm, random: &mut Random) {
    let rd = target(random) as u16;
    let rs2 = random.pick(&FREE) as u16;
    let imm = random.below(64) as u16;
    let six = (imm >> 5 & 1) << 12 | (imm & 0x1f) << 2;
    let half = match random.below(6) {
        0 => 0x0001 | rd << 7 | six,      // c.addi
        1 => 0x2001 | rd << 7 | six,      // c.addiw
        2 => 0x4001 | rd << 7 | six,      // c.li
        3 => 0x8002 | rd << 7 | rs2 << 2, // c.mv
        4 => 0x9002 | rd << 7 | rs2 << 2, // c.add
        _ => 0x0002 | rd << 7 | six,      // c.slli
    };
    asm.half(half);
}

/// Straight-line instructions.
fn straight(asm: &mut Asm, random: &mut Random, count: u64) {
    for _ in 0..count {
        match random.below(10) {
            0..4 => arithmetic(asm, random),
            4 | 5 => floating(asm, random),
            6 | 7 => memory(asm, random),
            8 => compressed(asm, random),
            _ if random.below(4) == 0 => {
                asm.word(csr(2, target(random), FFLAGS, 0));
            }
            _ => {
                asm.word(0x17 | target(random) << 7); // auipc
            }
        }
    }
}

/// Emits `body` after an instruction that may jump over it; `jump` builds that instruction from the distance.
fn skippable(
    asm: &mut Asm,
    random: &mut Random,
    jump: impl FnOnce(i32) -> u32,
    body: impl FnOnce(&mut Asm, &mut Random),
) {
    let at = asm.here();
    asm.word(0);
    body(asm, random);
    asm.patch(at, jump((asm.here() - at) as i32));
}

fn piece(asm: &mut Asm, random: &mut Random) {
    let count = random.below(12);
    match random.below(8) {
        0..3 => {
            let (funct3, rs1, rs2) =
                (random.pick(&[0, 1, 4, 5, 6, 7]), random.pick(&FREE), random.pick(&FREE));
            skippable(
                asm,
                random,
                |distance| crate::asm::b_type(funct3, rs1, rs2, distance),
                |asm, random| straight(asm, random, count),
            );
        }
        3 => {
            skippable(asm, random, |distance| j_type(0, distance), |asm, random| straight(asm, random, count))
        }
        4 => {
            // A finite loop.
            asm.li(COUNTER, 1 + random.below(5));
            let again = asm.here();
            straight(asm, random, count);
            asm.word(addi(COUNTER, COUNTER, -1)).branch(1, COUNTER, 0, again);
        }
        5 => {
            // A function that is called twice, in different ways.
            let mut function = 0;
            skippable(
                asm,
                random,
                |distance| j_type(0, distance),
                |asm, random| {
                    function = asm.here();
                    straight(asm, random, count);
                    asm.word(i_type(0x67, 0, 0, LINK, 0));
                },
            );
            let offset = function.wrapping_sub(asm.here()) as i64 as i32;
            asm.word(j_type(LINK, offset));
            asm.li(LINK, function).word(i_type(0x67, 0, LINK, LINK, 0));
        }
        _ => straight(asm, random, count * 5),
    }
}

/// Initial registers: x0–x31, then f0–f31.
fn contexts(program: &mut Program, random: &mut Random) -> Table {
    let mut records = Vec::new();
    for _ in 0..6 {
        let mut values = (0..32).map(|_| random.integer()).collect::<Vec<_>>();
        values[POINTER as usize] = MIDDLE + random.below(64);
        values[ALIGNED as usize] = MIDDLE + 8 * random.below(16);
        for _ in 0..32 {
            values.push(match random.below(3) {
                0 => u64::from(random.single()) | 0xffff_ffff_0000_0000,
                _ => random.double(),
            });
        }
        let frm = random.below(5);
        records.push([program.data(&values), frm << 5, 0, 0]);
    }
    program.table(&records)
}

/// `count` streams, each run from several contexts; compares all registers, flags and a hash of memory.
pub fn streams(program: &mut Program, random: &mut Random, count: usize) {
    program.fill_memory(MIDDLE - 2048, WINDOW_BYTES);
    let table = contexts(program, random);
    for number in 0..count {
        let length = 2 + random.below(14);
        program.form(format!("stream {number}"), table, 26 + 32 + 2, |asm| {
            asm.word(ld(reg::TEMP, reg::IN, 8)).word(csr(1, 0, FCSR, reg::TEMP)).word(ld(
                reg::TEMP,
                reg::IN,
                0,
            ));
            for register in 0..32 {
                asm.word(fld(register, reg::TEMP, 256 + 8 * register as i32));
            }
            for register in FREE {
                asm.word(ld(register, reg::TEMP, 8 * register as i32));
            }
            for _ in 0..length {
                piece(asm, random);
            }
            for (slot, register) in FREE.into_iter().enumerate() {
                asm.word(sd(register, reg::OUT, 8 * slot as i32));
            }
            for register in 0..32 {
                asm.word(fsd(register, reg::OUT, 8 * (26 + register as i32)));
            }
            asm.word(csr(2, reg::TEMP, FCSR, 0)).word(sd(reg::TEMP, reg::OUT, 8 * 58));
            hash_memory(asm);
        });
    }
}

fn hash_memory(asm: &mut Asm) {
    asm.li(6, MIDDLE - 2048).li(7, MIDDLE - 2048 + WINDOW_BYTES).li(11, 0x9e37_79b9_7f4a_7c15).li(12, 0);
    let again = asm.here();
    asm.word(ld(10, 6, 0)).word(r_type(0x33, 0, 1, 12, 12, 11)).word(r_type(0x33, 0, 0, 12, 12, 10));
    asm.word(addi(6, 6, 8)).branch(6, 6, 7, again);
    asm.word(sd(12, reg::OUT, 8 * 59));
}
