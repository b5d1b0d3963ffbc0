//! What kind of op an instruction computes by. Names are the manual's, which say it for all widths alike.

use doorbell_sim::OpClass;
use yaxpeax_arm::armv8::a64::Operand;

use crate::instruction::Order;

/// Registers that are read and written as any other: o0, op1, CRn, CRm and op2 of their encoding (C5.3), from the highest bit.
mod register {
    pub const SP_EL0: u16 = 0x4208;
    pub const TPIDR_EL1: u16 = 0x4684;
    pub const TPIDR_EL0: u16 = 0x5e82;
    pub const TPIDRRO_EL0: u16 = 0x5e83;
    pub const NZCV: u16 = 0x5a10;
    pub const FPCR: u16 = 0x5a20;
    pub const FPSR: u16 = 0x5a21;
    pub const CTR_EL0: u16 = 0x5801;
    pub const DCZID_EL0: u16 = 0x5807;
    pub const CNTPCT_EL0: u16 = 0x5f01;
    pub const CNTVCT_EL0: u16 = 0x5f02;
}

/// The flags, as a system register.
pub(super) fn is_flags(operand: &Operand) -> bool {
    *operand == Operand::SystemReg(register::NZCV)
}

/// What its result, or its direction, comes from.
pub(super) fn of(name: &str, operands: &[Operand]) -> OpClass {
    match name {
        _ if is_serialising(name, operands) => OpClass::Serialising,
        "DMB" | "DSB" => OpClass::Fence,
        "MADD" | "MSUB" | "SMADDL" | "SMSUBL" | "UMADDL" | "UMSUBL" | "SMULH" | "UMULH" => OpClass::IntMul,
        // On the multiplier of the N1, too (its Software Optimization Guide).
        _ if name.starts_with("CRC32") => OpClass::IntMul,
        "UDIV" | "SDIV" => OpClass::IntDiv,
        _ if operands.iter().any(is_vector) => vector(name),
        _ => OpClass::Int,
    }
}

fn is_vector(operand: &Operand) -> bool {
    matches!(
        operand,
        Operand::SIMDRegister(..)
            | Operand::SIMDRegisterElements(..)
            | Operand::SIMDRegisterElementsLane(..)
            | Operand::SIMDRegisterElementsMultipleLane(..)
            | Operand::SIMDRegisterGroup(..)
            | Operand::SIMDRegisterGroupLane(..)
    )
}

fn vector(name: &str) -> OpClass {
    let begins = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
    if begins(&["FMADD", "FMSUB", "FNMADD", "FNMSUB", "FMLA", "FMLS", "FCMLA"]) {
        OpClass::FloatFma
    } else if begins(&["FDIV", "FSQRT"]) {
        OpClass::FloatDiv
    } else if name.contains("MUL")
        || name.contains("MLA")
        || name.contains("MLS")
        || begins(&["SDOT", "UDOT", "AES", "SHA"])
    {
        OpClass::FloatMul
    } else {
        OpClass::FloatAdd
    }
}

/// What changes how instructions are executed, and what waits for all before it: of the system registers, those but a few that no
/// core stops for.
fn is_serialising(name: &str, operands: &[Operand]) -> bool {
    use register::*;
    let is_one_of = |registers: &[u16]| {
        operands
            .iter()
            .any(|operand| matches!(operand, Operand::SystemReg(number) if registers.contains(number)))
    };
    let plain = [SP_EL0, TPIDR_EL0, TPIDRRO_EL0, TPIDR_EL1, NZCV];
    match name {
        "MRS" => !is_one_of(&plain) && !is_one_of(&[FPCR, FPSR, CTR_EL0, DCZID_EL0, CNTPCT_EL0, CNTVCT_EL0]),
        "MSR" => !is_one_of(&plain),
        "ISB" | "SB" | "SYS" | "SYSL" => true,
        _ => is_system_jump(name),
    }
}

/// Goes to or comes from another exception level.
pub(super) fn is_system_jump(name: &str) -> bool {
    matches!(name, "SVC" | "HVC" | "SMC" | "BRK" | "HLT" | "ERET" | "ERETAA" | "ERETAB" | "DRPS")
        || name.starts_with("DCPS")
}

/// Reads or writes memory when it is executed.
pub(super) fn accesses_memory(name: &str) -> bool {
    ["LD", "ST", "CAS", "SWP"].iter().any(|first| name.starts_with(first))
}

/// Its load and store, or its exclusive one, is atomic: C3.2.6, C3.2.12 and on.
pub(super) fn is_atomic(name: &str) -> bool {
    const LSE: [&str; 10] =
        ["LDADD", "LDCLR", "LDEOR", "LDSET", "LDSMAX", "LDSMIN", "LDUMAX", "LDUMIN", "SWP", "CAS"];
    const EXCLUSIVE: [&str; 4] = ["LDX", "LDAX", "STX", "STLX"];
    LSE.iter().chain(&EXCLUSIVE).any(|first| name.starts_with(first))
}

/// Which accesses before it a barrier keeps before which behind it: bits as [`Op::FENCE_SHIFT`](doorbell_sim::Op::FENCE_SHIFT) has
/// them. B2.6.9: CRm's lowest two bits.
pub(super) fn fence(name: &str, word: u32) -> u8 {
    match (name, word >> 8 & 3) {
        ("DMB" | "DSB", 1) => LOADS,
        ("DMB" | "DSB", 2) => 0b1010,
        ("DMB" | "DSB", _) => 0b1111,
        _ => 0,
    }
}

/// Loads before all.
const LOADS: u8 = 0b1101;

/// What a plain load or store that acquires or releases has beside it (B2.10).
pub(super) fn order(name: &str) -> Order {
    if name.starts_with("LDAR") || name.starts_with("LDLAR") || name.starts_with("LDAP") {
        Order::Acquires
    } else if name.starts_with("STLR") || name.starts_with("STLLR") || name.starts_with("STLUR") {
        Order::Releases
    } else {
        Order::None
    }
}
