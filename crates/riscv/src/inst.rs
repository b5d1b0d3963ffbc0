//! Decoded instructions: kind, registers, immediate.

/// Every instruction of RV64GC (I, M, A, F, D, Zicsr, Zifencei, Zicbop and the privileged ones), with the
/// compressed ones expanded, plus gem5's m5ops. Named as in the RISC-V manuals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)] // the manual's own mnemonics
#[rustfmt::skip]
pub enum Kind {
    Lui, Auipc, Jal, Jalr,
    Beq, Bne, Blt, Bge, Bltu, Bgeu,
    Lb, Lh, Lw, Ld, Lbu, Lhu, Lwu, Sb, Sh, Sw, Sd,
    Addi, Slti, Sltiu, Xori, Ori, Andi, Slli, Srli, Srai,
    Add, Sub, Sll, Slt, Sltu, Xor, Srl, Sra, Or, And,
    Addiw, Slliw, Srliw, Sraiw, Addw, Subw, Sllw, Srlw, Sraw,
    Mul, Mulh, Mulhsu, Mulhu, Div, Divu, Rem, Remu, Mulw, Divw, Divuw, Remw, Remuw,
    Fence, FenceI, Ecall, Ebreak, Csrrw, Csrrs, Csrrc, Csrrwi, Csrrsi, Csrrci,
    Mret, Sret, Wfi, SfenceVma,
    LrW, ScW, AmoswapW, AmoaddW, AmoxorW, AmoandW, AmoorW, AmominW, AmomaxW, AmominuW, AmomaxuW,
    LrD, ScD, AmoswapD, AmoaddD, AmoxorD, AmoandD, AmoorD, AmominD, AmomaxD, AmominuD, AmomaxuD,
    Flw, Fsw, FmaddS, FmsubS, FnmsubS, FnmaddS, FaddS, FsubS, FmulS, FdivS, FsqrtS,
    FsgnjS, FsgnjnS, FsgnjxS, FminS, FmaxS, FcvtWS, FcvtWuS, FcvtLS, FcvtLuS, FmvXW, FeqS, FltS, FleS, FclassS,
    FcvtSW, FcvtSWu, FcvtSL, FcvtSLu, FmvWX,
    Fld, Fsd, FmaddD, FmsubD, FnmsubD, FnmaddD, FaddD, FsubD, FmulD, FdivD, FsqrtD,
    FsgnjD, FsgnjnD, FsgnjxD, FminD, FmaxD, FcvtSD, FcvtDS, FcvtWD, FcvtWuD, FcvtLD, FcvtLuD, FmvXD, FeqD, FltD, FleD, FclassD,
    FcvtDW, FcvtDWu, FcvtDL, FcvtDLu, FmvDX,
    PrefetchI, PrefetchR, PrefetchW,
    M5Op,
    Illegal,
}

/// One decoded instruction. Unused fields are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inst {
    /// The kind of instruction.
    pub kind: Kind,
    /// Destination register number.
    pub rd: u8,
    /// First source register number (the zero-extended immediate of CSRR*I).
    pub rs1: u8,
    /// Second source register number.
    pub rs2: u8,
    /// Third source register number (fused multiply-add).
    pub rs3: u8,
    /// Rounding-mode field of floating-point instructions; `aq` (2) and `rl` (1) of atomics.
    pub rm: u8,
    /// Length in bytes: 2 or 4.
    pub len: u8,
    /// Immediate, CSR number, m5op function, or the raw bits of an illegal instruction.
    pub imm: i32,
}

impl Inst {
    /// An instruction of this kind with all fields zero.
    pub const fn new(kind: Kind, len: u8) -> Inst {
        Inst { kind, rd: 0, rs1: 0, rs2: 0, rs3: 0, rm: 0, len, imm: 0 }
    }
}

impl Kind {
    /// Whether the instruction ends a block: the next instruction may not be the following one in memory, or
    /// state that decoded code depends on may change.
    pub fn ends_block(self) -> bool {
        use Kind::*;
        matches!(
            self,
            Jal | Jalr | Beq | Bne | Blt | Bge | Bltu | Bgeu | FenceI | Ecall | Ebreak | Csrrw | Csrrs
        ) || matches!(self, Csrrc | Csrrwi | Csrrsi | Csrrci | Mret | Sret | Wfi | SfenceVma | M5Op | Illegal)
    }
}

impl Kind {
    /// Whether `rd` names a floating-point register.
    pub fn writes_float(self) -> bool {
        use Kind::*;
        let moves = matches!(self, Flw | Fld | FcvtSD | FcvtDS | FmvWX | FmvDX);
        let from_integer = (FcvtSW..=FcvtSLu).contains(&self) || (FcvtDW..=FcvtDLu).contains(&self);
        let arithmetic = (FmaddS..=FmaxS).contains(&self) || (FmaddD..=FmaxD).contains(&self);
        moves || from_integer || arithmetic
    }

    /// Whether the instruction has a rounding-mode field (without fused multiply-adds, which also have one).
    pub fn rounds(self) -> bool {
        use Kind::*;
        let arithmetic = (FaddS..=FsqrtS).contains(&self) || (FaddD..=FsqrtD).contains(&self);
        let to_integer = (FcvtWS..=FcvtLuS).contains(&self) || (FcvtWD..=FcvtLuD).contains(&self);
        let from_integer = (FcvtSW..=FcvtSLu).contains(&self) || (FcvtDW..=FcvtDLu).contains(&self);
        arithmetic || to_integer || from_integer || matches!(self, FcvtSD | FcvtDS)
    }
}
