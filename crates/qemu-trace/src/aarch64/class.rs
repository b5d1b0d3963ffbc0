//! Op class of an instruction, by its name in the manual, which is the same for all operand widths.

use doorbell_sim::OpClass;
use yaxpeax_arm::armv8::a64::Operand;

use crate::instruction::Order;

/// System registers that are not serialising: o0, op1, CRn, CRm and op2 of their encoding (C5.3), from the
/// highest bit.
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

/// Returns whether the operand is the flags, as a system register.
pub(super) fn is_flags(operand: &Operand) -> bool {
    *operand == Operand::SystemReg(register::NZCV)
}

/// Class of the op that computes the result or the branch direction.
pub(super) fn of(name: &str, operands: &[Operand]) -> OpClass {
    match name {
        _ if is_serialising(name, operands) => OpClass::Serialising,
        "DMB" | "DSB" => OpClass::Fence,
        "MADD" | "MSUB" | "SMADDL" | "SMSUBL" | "UMADDL" | "UMSUBL" | "SMULH" | "UMULH" => OpClass::IntMul,
        // On the N1, CRC32 executes on the multiplier (its Software Optimization Guide).
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

/// Returns whether an instruction changes how instructions are executed, or waits for all earlier ones.
/// Accesses to system registers do, except for a few registers.
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

/// Returns whether the instruction changes the exception level.
pub(super) fn is_system_jump(name: &str) -> bool {
    matches!(name, "SVC" | "HVC" | "SMC" | "BRK" | "HLT" | "ERET" | "ERETAA" | "ERETAB" | "DRPS")
        || name.starts_with("DCPS")
}

/// Returns whether the instruction accesses memory.
pub(super) fn accesses_memory(name: &str) -> bool {
    ["LD", "ST", "CAS", "SWP"].iter().any(|first| name.starts_with(first))
}

/// Returns whether the instruction is an LSE atomic or an exclusive access (C3.2.6, C3.2.12 and following).
pub(super) fn is_atomic(name: &str) -> bool {
    const LSE: [&str; 10] =
        ["LDADD", "LDCLR", "LDEOR", "LDSET", "LDSMAX", "LDSMIN", "LDUMAX", "LDUMIN", "SWP", "CAS"];
    const EXCLUSIVE: [&str; 4] = ["LDX", "LDAX", "STX", "STLX"];
    LSE.iter().chain(&EXCLUSIVE).any(|first| name.starts_with(first))
}

/// Ordering of a barrier, from the lowest two bits of CRm (B2.6.9), as bits of
/// [`Op::FENCE_SHIFT`](doorbell_sim::Op::FENCE_SHIFT).
pub(super) fn fence(name: &str, word: u32) -> u8 {
    match (name, word >> 8 & 3) {
        ("DMB" | "DSB", 1) => LOADS,
        ("DMB" | "DSB", 2) => 0b1010,
        ("DMB" | "DSB", _) => 0b1111,
        _ => 0,
    }
}

/// Earlier loads before all later accesses.
const LOADS: u8 = 0b1101;

/// Ordering of a load-acquire or store-release (B2.10).
pub(super) fn order(name: &str) -> Order {
    if name.starts_with("LDAR") || name.starts_with("LDLAR") || name.starts_with("LDAP") {
        Order::Acquires
    } else if name.starts_with("STLR") || name.starts_with("STLLR") || name.starts_with("STLUR") {
        Order::Releases
    } else {
        Order::None
    }
}
