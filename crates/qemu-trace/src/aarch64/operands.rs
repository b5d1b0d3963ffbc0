//! Registers that an instruction reads and writes, from its operands.

use doorbell_sim::op::Register;
use yaxpeax_arm::armv8::a64::Operand;

use super::class::is_flags;
use crate::instruction::Decoded;
use crate::names::{FLAGS, FURTHER, GENERAL, VECTOR};

const STACK_POINTER: Register = FURTHER;
const SIMD_REGISTERS: u16 = 32;

/// Register 31 is the zero register or the stack pointer.
fn general(number: u16) -> Register {
    if number < 31 { GENERAL + number as Register } else { 0 }
}

fn base(number: u16) -> Register {
    if number < 31 { general(number) } else { STACK_POINTER }
}

/// Direction of an operand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Written,
    Both,
}

/// Records the registers of all operands.
pub(super) fn list(decoded: &mut Decoded, name: &str, operands: &[Operand; 4]) {
    for (place, operand) in operands.iter().enumerate() {
        let how = used(name, place, operands);
        data(operand, &mut |register| {
            if how != Use::Written {
                decoded.reads.add(register);
            }
            if how != Use::Read {
                decoded.writes.add(register);
            }
        });
        address(decoded, operand);
        if is_flags(operand) && place == 0 {
            decoded.writes.add(FLAGS);
        } else if is_flags(operand) {
            decoded.reads.add(FLAGS);
        }
    }
    if reads_flags(name) {
        decoded.reads.add(FLAGS);
    }
    if writes_flags(name) {
        decoded.writes.add(FLAGS);
    }
}

/// Calls `emit` for each register of an operand that is not an address.
fn data(operand: &Operand, emit: &mut impl FnMut(Register)) {
    match *operand {
        Operand::Register(_, number) | Operand::RegShift(_, _, _, number) => emit(general(number)),
        Operand::RegisterPair(_, number) => {
            emit(general(number));
            emit(general(number + 1));
        }
        Operand::RegisterOrSP(_, number) => emit(base(number)),
        Operand::SIMDRegister(_, number)
        | Operand::SIMDRegisterElements(_, number, _)
        | Operand::SIMDRegisterElementsLane(_, number, ..)
        | Operand::SIMDRegisterElementsMultipleLane(_, number, ..) => emit(vector(number)),
        Operand::SIMDRegisterGroup(_, first, _, count)
        | Operand::SIMDRegisterGroupLane(first, _, count, _) => {
            (0..u16::from(count)).for_each(|at| emit(vector(first + at)));
        }
        _ => {}
    }
}

fn vector(number: u16) -> Register {
    VECTOR + (number % SIMD_REGISTERS) as Register
}

fn address(decoded: &mut Decoded, operand: &Operand) {
    match *operand {
        Operand::RegRegOffset(first, second, ..) => {
            decoded.address_registers.add(base(first));
            decoded.address_registers.add(general(second));
        }
        Operand::RegPreIndex(first, _, is_written_back) => {
            decoded.address_registers.add(base(first));
            if is_written_back {
                decoded.updates.add(base(first));
            }
        }
        Operand::RegPostIndex(first, _) => {
            decoded.address_registers.add(base(first));
            decoded.updates.add(base(first));
        }
        Operand::RegPostIndexReg(first, second) => {
            decoded.address_registers.add(base(first));
            decoded.address_registers.add(general(second));
            decoded.updates.add(base(first));
        }
        _ => {}
    }
}

/// Direction of an operand; by default, the first is written and the others are read.
fn used(name: &str, place: usize, operands: &[Operand; 4]) -> Use {
    let written = |count: usize| if place < count { Use::Written } else { Use::Read };
    let begins = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
    if begins(&["STX", "STLX"]) {
        // Written: the status result.
        written(1)
    } else if begins(&["CAS"]) {
        if place == 0 { Use::Both } else { Use::Read }
    } else if begins(&["LDADD", "LDCLR", "LDEOR", "LDSET", "LDSM", "LDUM", "SWP"]) {
        if place == 1 { Use::Written } else { Use::Read }
    } else if begins(&["LDP", "LDNP", "LDXP", "LDAXP"]) {
        written(2)
    } else if writes_none(name) {
        Use::Read
    } else if place == 0
        && (keeps_some(name) || reads_what_it_loads_into(operands) || is_vector_immediate(name, operands))
    {
        Use::Both
    } else {
        written(1)
    }
}

fn writes_none(name: &str) -> bool {
    let begins = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
    let is_store = name.starts_with("ST");
    let is_branch = begins(&["BR", "BLR", "BCcc", "Bcc", "CB", "TBZ", "TBNZ", "RET"]);
    is_store
        || is_branch
        || begins(&["CCM", "FCMP", "FCCMP", "SETF"])
        || matches!(name, "MSR" | "SYS" | "RMIF" | "SVC")
}

/// Returns whether the destination is also read, because part of it is kept.
fn keeps_some(name: &str) -> bool {
    let begins = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
    let accumulates = name.contains("MLAL")
        || name.contains("MLSL")
        || begins(&["MLA", "MLS", "FMLA", "FMLS", "FCMLA", "SQRDML", "SABA", "UABA", "SADALP", "UADALP"])
        || begins(&["SSRA", "USRA", "SRSRA", "URSRA", "SDOT", "UDOT", "SUQADD", "USQADD"]);
    let is_cipher =
        begins(&["SHA1C", "SHA1M", "SHA1P", "SHA1SU", "SHA256", "SHA512", "SM3", "SM4E", "AESE", "AESD"]);
    // Narrowing into the upper half keeps the lower half.
    let is_upper = name.ends_with("N2");
    let is_inserted = matches!(name, "MOVK" | "BFM" | "SRI" | "SLI" | "BSL" | "BIT" | "BIF" | "TBX" | "INS");
    accumulates || is_cipher || is_upper || is_inserted
}

/// ORR and BIC (vector, immediate) read and write the vector.
fn is_vector_immediate(name: &str, operands: &[Operand; 4]) -> bool {
    let is_vector = matches!(operands[0], Operand::SIMDRegisterElements(..));
    matches!(name, "ORR" | "BIC") && is_vector && !matches!(operands[1], Operand::SIMDRegisterElements(..))
}

/// Returns whether a load writes one lane of a register and keeps the others.
pub(super) fn reads_what_it_loads_into(operands: &[Operand; 4]) -> bool {
    matches!(
        operands[0],
        Operand::SIMDRegisterElementsLane(..)
            | Operand::SIMDRegisterElementsMultipleLane(..)
            | Operand::SIMDRegisterGroupLane(..)
    )
}

fn reads_flags(name: &str) -> bool {
    let begins = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
    begins(&["ADC", "SBC", "CSEL", "CSIN", "CSNEG", "CCM", "FCSEL", "FCCMP", "Bcc", "BCcc"])
}

fn writes_flags(name: &str) -> bool {
    let begins = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
    matches!(name, "ADDS" | "SUBS" | "ANDS" | "BICS" | "ADCS" | "SBCS" | "RMIF" | "SUBPS")
        || begins(&["CCM", "FCMP", "FCCMP", "SETF"])
}
