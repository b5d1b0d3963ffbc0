//! Decoding of 16-bit instructions (RISC-V unprivileged manual, chapter "C" for RV64 with D) into their
//! 32-bit equivalents. Hints do nothing; reserved encodings are illegal.

use crate::inst::{Inst, Kind};
use Kind::*;

const SP: u8 = 2;
const RA: u8 = 1;

/// Gathers immediate bits: each (from, width, to) moves `width` bits at `from` to `to`.
fn gather(bits: u16, parts: &[(u32, u32, u32)]) -> i32 {
    parts.iter().fold(0, |imm, &(from, width, to)| imm | (i32::from(bits) >> from & ((1 << width) - 1)) << to)
}

fn sign_extend(value: i32, bits: u32) -> i32 {
    value << (32 - bits) >> (32 - bits)
}

/// The six-bit immediate at bits 12 and 6–2, sign-extended.
fn imm6(bits: u16) -> i32 {
    sign_extend(gather(bits, &[(12, 1, 5), (2, 5, 0)]), 6)
}

/// Decodes a halfword whose two low bits are not 11.
pub fn decode_compressed(bits: u16) -> Inst {
    let inst = match bits & 3 {
        0 => quadrant_0(bits),
        1 => quadrant_1(bits),
        _ => quadrant_2(bits),
    };
    inst.unwrap_or(Inst { imm: i32::from(bits), ..Inst::new(Illegal, 2) })
}

fn make(kind: Kind, rd: u8, rs1: u8, rs2: u8, imm: i32) -> Option<Inst> {
    Some(Inst { rd, rs1, rs2, imm, ..Inst::new(kind, 2) })
}

fn quadrant_0(bits: u16) -> Option<Inst> {
    let short = (bits >> 2 & 7) as u8 + 8;
    let base = (bits >> 7 & 7) as u8 + 8;
    let word = gather(bits, &[(10, 3, 3), (6, 1, 2), (5, 1, 6)]);
    let double = gather(bits, &[(10, 3, 3), (5, 2, 6)]);
    match bits >> 13 {
        0 => {
            let imm = gather(bits, &[(11, 2, 4), (7, 4, 6), (6, 1, 2), (5, 1, 3)]);
            if imm == 0 { None } else { make(Addi, short, SP, 0, imm) }
        }
        1 => make(Fld, short, base, 0, double),
        2 => make(Lw, short, base, 0, word),
        3 => make(Ld, short, base, 0, double),
        5 => make(Fsd, 0, base, short, double),
        6 => make(Sw, 0, base, short, word),
        7 => make(Sd, 0, base, short, double),
        _ => None,
    }
}

fn quadrant_1(bits: u16) -> Option<Inst> {
    let rd = (bits >> 7 & 0x1f) as u8;
    let base = (bits >> 7 & 7) as u8 + 8;
    let branch = || sign_extend(gather(bits, &[(12, 1, 8), (10, 2, 3), (5, 2, 6), (3, 2, 1), (2, 1, 5)]), 9);
    match bits >> 13 {
        0 => make(Addi, rd, rd, 0, imm6(bits)),
        1 if rd != 0 => make(Addiw, rd, rd, 0, imm6(bits)),
        2 => make(Addi, rd, 0, 0, imm6(bits)),
        3 if rd == SP => {
            let imm = gather(bits, &[(12, 1, 9), (6, 1, 4), (5, 1, 6), (3, 2, 7), (2, 1, 5)]);
            if imm == 0 { None } else { make(Addi, SP, SP, 0, sign_extend(imm, 10)) }
        }
        3 if imm6(bits) != 0 => make(Lui, rd, 0, 0, imm6(bits) << 12),
        4 => quadrant_1_arithmetic(bits, base),
        5 => {
            let parts =
                [(12, 1, 11), (11, 1, 4), (9, 2, 8), (8, 1, 10), (7, 1, 6), (6, 1, 7), (3, 3, 1), (2, 1, 5)];
            make(Jal, 0, 0, 0, sign_extend(gather(bits, &parts), 12))
        }
        6 => make(Beq, 0, base, 0, branch()),
        7 => make(Bne, 0, base, 0, branch()),
        _ => None,
    }
}

fn quadrant_1_arithmetic(bits: u16, reg: u8) -> Option<Inst> {
    let other = (bits >> 2 & 7) as u8 + 8;
    let shift = imm6(bits) & 0x3f;
    match (bits >> 10 & 3, bits >> 12 & 1, bits >> 5 & 3) {
        (0, ..) => make(Srli, reg, reg, 0, shift),
        (1, ..) => make(Srai, reg, reg, 0, shift),
        (2, ..) => make(Andi, reg, reg, 0, imm6(bits)),
        (3, 0, function) => make([Sub, Xor, Or, And][function as usize], reg, reg, other, 0),
        (3, 1, 0) => make(Subw, reg, reg, other, 0),
        (3, 1, 1) => make(Addw, reg, reg, other, 0),
        _ => None,
    }
}

fn quadrant_2(bits: u16) -> Option<Inst> {
    let rd = (bits >> 7 & 0x1f) as u8;
    let rs2 = (bits >> 2 & 0x1f) as u8;
    let load_double = gather(bits, &[(12, 1, 5), (5, 2, 3), (2, 3, 6)]);
    let store_double = gather(bits, &[(10, 3, 3), (7, 3, 6)]);
    match bits >> 13 {
        0 => make(Slli, rd, rd, 0, imm6(bits) & 0x3f),
        1 => make(Fld, rd, SP, 0, load_double),
        2 if rd != 0 => make(Lw, rd, SP, 0, gather(bits, &[(12, 1, 5), (4, 3, 2), (2, 2, 6)])),
        3 if rd != 0 => make(Ld, rd, SP, 0, load_double),
        4 => match (bits >> 12 & 1, rd, rs2) {
            (0, 0, 0) => None,
            (0, _, 0) => make(Jalr, 0, rd, 0, 0),
            (0, ..) => make(Add, rd, 0, rs2, 0),
            (_, 0, 0) => make(Ebreak, 0, 0, 0, 0),
            (_, _, 0) => make(Jalr, RA, rd, 0, 0),
            _ => make(Add, rd, rd, rs2, 0),
        },
        5 => make(Fsd, 0, SP, rs2, store_double),
        6 => make(Sw, 0, SP, rs2, gather(bits, &[(9, 4, 2), (7, 2, 6)])),
        7 => make(Sd, 0, SP, rs2, store_double),
        _ => None,
    }
}
