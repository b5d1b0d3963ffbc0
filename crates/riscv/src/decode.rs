//! Decoding of 32-bit instructions (RISC-V unprivileged manual, chapter "RV32/64G Instruction Set
//! Listings"; privileged manual, "RISC-V Privileged Instruction Set Listings").
//! Reserved encodings decode to [`Kind::Illegal`].

use crate::compressed::decode_compressed;
use crate::inst::{Inst, Kind};
use Kind::*;

/// Decodes the instruction whose first halfword is the low half of `bits`. The high half is ignored
/// if the instruction is compressed.
pub fn decode(bits: u32) -> Inst {
    if bits & 3 != 3 { decode_compressed(bits as u16) } else { decode_full(bits) }
}

fn illegal(bits: u32) -> Inst {
    Inst { imm: bits as i32, ..Inst::new(Illegal, 4) }
}

fn field(bits: u32, low: u32, width: u32) -> u8 {
    (bits >> low & ((1 << width) - 1)) as u8
}

fn imm_i(bits: u32) -> i32 {
    bits as i32 >> 20
}

fn imm_s(bits: u32) -> i32 {
    (bits as i32 >> 25 << 5) | (bits >> 7 & 0x1f) as i32
}

fn imm_b(bits: u32) -> i32 {
    (bits as i32 >> 31 << 12)
        | ((bits >> 7 & 1) << 11 | (bits >> 25 & 0x3f) << 5 | (bits >> 8 & 0xf) << 1) as i32
}

fn imm_u(bits: u32) -> i32 {
    (bits & 0xffff_f000) as i32
}

fn imm_j(bits: u32) -> i32 {
    let low = (bits >> 12 & 0xff) << 12 | (bits >> 20 & 1) << 11 | (bits >> 21 & 0x3ff) << 1;
    (bits as i32 >> 31 << 20) | low as i32
}

fn decode_full(bits: u32) -> Inst {
    let base = Inst {
        rd: field(bits, 7, 5),
        rs1: field(bits, 15, 5),
        rs2: field(bits, 20, 5),
        ..Inst::new(Illegal, 4)
    };
    let funct3 = field(bits, 12, 3);
    let with = |kind: Kind, imm: i32| Inst { kind, imm, ..base };
    // Immediate forms have no rs2; store and branch forms have no rd.
    let i_type = |kind: Kind| Inst { rs2: 0, ..with(kind, imm_i(bits)) };
    let s_type = |kind: Kind| Inst { rd: 0, ..with(kind, imm_s(bits)) };
    let b_type = |kind: Kind| Inst { rd: 0, ..with(kind, imm_b(bits)) };
    let inst = match bits & 0x7f {
        0x37 => Inst { rs1: 0, rs2: 0, ..with(Lui, imm_u(bits)) },
        0x17 => Inst { rs1: 0, rs2: 0, ..with(Auipc, imm_u(bits)) },
        0x6f => Inst { rs1: 0, rs2: 0, ..with(Jal, imm_j(bits)) },
        0x67 if funct3 == 0 => i_type(Jalr),
        0x63 => b_type([Beq, Bne, Illegal, Illegal, Blt, Bge, Bltu, Bgeu][funct3 as usize]),
        0x03 => i_type([Lb, Lh, Lw, Ld, Lbu, Lhu, Lwu, Illegal][funct3 as usize]),
        0x23 => s_type([Sb, Sh, Sw, Sd, Illegal, Illegal, Illegal, Illegal][funct3 as usize]),
        0x07 => i_type([Illegal, Illegal, Flw, Fld, Illegal, Illegal, Illegal, Illegal][funct3 as usize]),
        0x27 => s_type([Illegal, Illegal, Fsw, Fsd, Illegal, Illegal, Illegal, Illegal][funct3 as usize]),
        0x13 => op_imm(bits, i_type(Illegal)),
        0x1b => op_imm_32(bits, i_type(Illegal)),
        0x33 => with(op(field(bits, 25, 7), funct3), 0),
        0x3b => with(op_32(field(bits, 25, 7), funct3), 0),
        0x0f => match funct3 {
            0 => Inst { imm: (bits >> 20) as i32, ..Inst::new(Fence, 4) },
            1 => Inst::new(FenceI, 4),
            _ => illegal(bits),
        },
        0x73 => system(bits, base),
        0x2f => Inst { rm: field(bits, 25, 2), ..with(amo(field(bits, 27, 5), funct3, base.rs2), 0) },
        0x43 | 0x47 | 0x4b | 0x4f => fused(bits, base),
        0x53 => with_rm(bits, with(op_fp(bits, base.rs2), 0)),
        0x7b if bits & 0x01ff_ff80 == 0 => with(M5Op, (bits >> 25) as i32),
        _ => illegal(bits),
    };
    if inst.kind == Illegal { illegal(bits) } else { inst }
}

fn op_imm(bits: u32, base: Inst) -> Inst {
    let shift = i32::from(field(bits, 20, 6));
    let (kind, imm) = match (field(bits, 12, 3), field(bits, 26, 6)) {
        (0, _) => (Addi, base.imm),
        (1, 0) => (Slli, shift),
        (2, _) => (Slti, base.imm),
        (3, _) => (Sltiu, base.imm),
        (4, _) => (Xori, base.imm),
        (5, 0) => (Srli, shift),
        (5, 0x10) => (Srai, shift),
        (6, _) if base.rd == 0 => prefetch(base.imm),
        (6, _) => (Ori, base.imm),
        (7, _) => (Andi, base.imm),
        _ => (Illegal, 0),
    };
    Inst { kind, imm, ..base }
}

/// ORI to x0 is a hint of the base ISA; with a Zicbop encoding in the low five immediate bits it is a
/// prefetch (Base Cache Management Operation ISA Extensions 1.0, "Cache-block prefetch instructions").
fn prefetch(imm: i32) -> (Kind, i32) {
    match imm & 0x1f {
        0 => (PrefetchI, imm),
        1 => (PrefetchR, imm & !0x1f),
        3 => (PrefetchW, imm & !0x1f),
        _ => (Ori, imm),
    }
}

fn op_imm_32(bits: u32, base: Inst) -> Inst {
    let shift = i32::from(field(bits, 20, 5));
    let (kind, imm) = match (field(bits, 12, 3), field(bits, 25, 7)) {
        (0, _) => (Addiw, base.imm),
        (1, 0) => (Slliw, shift),
        (5, 0) => (Srliw, shift),
        (5, 0x20) => (Sraiw, shift),
        _ => (Illegal, 0),
    };
    Inst { kind, imm, ..base }
}

fn op(funct7: u8, funct3: u8) -> Kind {
    match funct7 {
        0x00 => [Add, Sll, Slt, Sltu, Xor, Srl, Or, And][funct3 as usize],
        0x01 => [Mul, Mulh, Mulhsu, Mulhu, Div, Divu, Rem, Remu][funct3 as usize],
        0x20 if funct3 == 0 => Sub,
        0x20 if funct3 == 5 => Sra,
        _ => Illegal,
    }
}

fn op_32(funct7: u8, funct3: u8) -> Kind {
    match (funct7, funct3) {
        (0x00, 0) => Addw,
        (0x00, 1) => Sllw,
        (0x00, 5) => Srlw,
        (0x20, 0) => Subw,
        (0x20, 5) => Sraw,
        (0x01, 0) => Mulw,
        (0x01, 4) => Divw,
        (0x01, 5) => Divuw,
        (0x01, 6) => Remw,
        (0x01, 7) => Remuw,
        _ => Illegal,
    }
}

fn system(bits: u32, base: Inst) -> Inst {
    let csr = (bits >> 20) as i32;
    let kind = match field(bits, 12, 3) {
        0 if field(bits, 25, 7) == 0x09 && base.rd == 0 => return Inst { kind: SfenceVma, ..base },
        0 if bits & 0x000f_ff80 == 0 => match bits >> 20 {
            0x000 => Ecall,
            0x001 => Ebreak,
            0x102 => Sret,
            0x302 => Mret,
            0x105 => Wfi,
            _ => Illegal,
        },
        3 => Csrrc,
        2 => Csrrs,
        1 => Csrrw,
        5 => Csrrwi,
        6 => Csrrsi,
        7 => Csrrci,
        _ => Illegal,
    };
    if matches!(kind, Illegal | Ecall | Ebreak | Sret | Mret | Wfi) {
        return Inst { kind, ..Inst::new(kind, 4) };
    }
    Inst { kind, rs2: 0, imm: csr, ..base }
}

fn amo(funct5: u8, funct3: u8, rs2: u8) -> Kind {
    let pick = |word: Kind, double: Kind| match funct3 {
        2 => word,
        3 => double,
        _ => Illegal,
    };
    match funct5 {
        0x02 if rs2 == 0 => pick(LrW, LrD),
        0x03 => pick(ScW, ScD),
        0x01 => pick(AmoswapW, AmoswapD),
        0x00 => pick(AmoaddW, AmoaddD),
        0x04 => pick(AmoxorW, AmoxorD),
        0x0c => pick(AmoandW, AmoandD),
        0x08 => pick(AmoorW, AmoorD),
        0x10 => pick(AmominW, AmominD),
        0x14 => pick(AmomaxW, AmomaxD),
        0x18 => pick(AmominuW, AmominuD),
        0x1c => pick(AmomaxuW, AmomaxuD),
        _ => Illegal,
    }
}

/// Static rounding modes 5 and 6 are reserved; 7 means the mode in `frm`.
fn with_rm(bits: u32, inst: Inst) -> Inst {
    let rm = field(bits, 12, 3);
    let ignores_rm =
        matches!(
            inst.kind,
            FsgnjS
                | FsgnjnS
                | FsgnjxS
                | FminS
                | FmaxS
                | FmvXW
                | FmvWX
                | FeqS
                | FltS
                | FleS
                | FclassS
                | FsgnjD
                | FsgnjnD
        ) || matches!(inst.kind, FsgnjxD | FminD | FmaxD | FmvXD | FmvDX | FeqD | FltD | FleD | FclassD);
    if !ignores_rm && (rm == 5 || rm == 6) { illegal(bits) } else { Inst { rm, ..inst } }
}

fn fused(bits: u32, base: Inst) -> Inst {
    let row = (field(bits, 2, 2)) as usize;
    let kind = match field(bits, 25, 2) {
        0 => [FmaddS, FmsubS, FnmsubS, FnmaddS][row],
        1 => [FmaddD, FmsubD, FnmsubD, FnmaddD][row],
        _ => Illegal,
    };
    with_rm(bits, Inst { kind, rs3: field(bits, 27, 5), ..base })
}

fn op_fp(bits: u32, rs2: u8) -> Kind {
    let rm = field(bits, 12, 3);
    let double = field(bits, 25, 2) == 1;
    if field(bits, 25, 2) > 1 {
        return Illegal;
    }
    let pick = |single: Kind, double_kind: Kind| if double { double_kind } else { single };
    match (field(bits, 27, 5), rs2, rm) {
        (0x00, ..) => pick(FaddS, FaddD),
        (0x01, ..) => pick(FsubS, FsubD),
        (0x02, ..) => pick(FmulS, FmulD),
        (0x03, ..) => pick(FdivS, FdivD),
        (0x0b, 0, _) => pick(FsqrtS, FsqrtD),
        (0x04, _, 0) => pick(FsgnjS, FsgnjD),
        (0x04, _, 1) => pick(FsgnjnS, FsgnjnD),
        (0x04, _, 2) => pick(FsgnjxS, FsgnjxD),
        (0x05, _, 0) => pick(FminS, FminD),
        (0x05, _, 1) => pick(FmaxS, FmaxD),
        (0x08, 1, _) if !double => FcvtSD,
        (0x08, 0, _) if double => FcvtDS,
        (0x14, _, 0) => pick(FleS, FleD),
        (0x14, _, 1) => pick(FltS, FltD),
        (0x14, _, 2) => pick(FeqS, FeqD),
        (0x18, 0..=3, _) => [[FcvtWS, FcvtWuS, FcvtLS, FcvtLuS], [FcvtWD, FcvtWuD, FcvtLD, FcvtLuD]]
            [double as usize][rs2 as usize],
        (0x1a, 0..=3, _) => [[FcvtSW, FcvtSWu, FcvtSL, FcvtSLu], [FcvtDW, FcvtDWu, FcvtDL, FcvtDLu]]
            [double as usize][rs2 as usize],
        (0x1c, 0, 0) => pick(FmvXW, FmvXD),
        (0x1c, 0, 1) => pick(FclassS, FclassD),
        (0x1e, 0, 0) => pick(FmvWX, FmvDX),
        _ => Illegal,
    }
}
