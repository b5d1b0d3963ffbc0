//! AArch64 instructions as ops: 64-bit Armv8-A up to the features of a Neoverse N1. Sections refer to the Arm
//! Architecture Reference Manual for A-profile (DDI 0487).
//!
//! yaxpeax-arm decodes the instructions. It names them without aliases, so operands have fixed positions: the
//! first is written unless [`operands`] says otherwise. A load or store with base write-back is two ops, as
//! in current cores: the new base does not depend on the loaded data. A pair is one access. LDAR is a load
//! followed by a fence, STLR a store preceded by one. Exclusives and LSE atomics are atomic ops.
//!
//! DC ZVA is a store of 64 bytes. Prefetches are plain ops, as QEMU does not execute them.

mod class;
mod operands;
#[cfg(test)]
mod tests;

use doorbell_sim::{Op, OpClass};
use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Instruction, Operand};

use crate::instruction::{Decoded, Flow, InstructionSet};
use crate::names::GENERAL;
use crate::stream::Bytes;

/// x30.
const LINK: u8 = GENERAL + 30;

/// AArch64 decoder.
#[derive(Debug, Default)]
pub struct Aarch64;

impl InstructionSet for Aarch64 {
    fn decode(&mut self, bytes: &Bytes) -> Decoded {
        let mut decoded = Decoded::plain(bytes);
        let Ok(instruction) = InstDecoder::default().decode(&mut U8Reader::new(bytes.bytes())) else {
            return decoded;
        };
        let word = bytes.bytes().iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        // The name; for LSE atomics followed by their acquire (2) and release (1) bits.
        let shown = format!("{:?}", instruction.opcode);
        let name = shown.split('(').next().expect("there is a first part");
        decoded.class = class::of(name, &instruction.operands);
        (decoded.class, decoded.flow) = branch(name, &instruction, bytes.address, decoded.class);
        decoded.returns = name.starts_with("ERET");
        if clears(word) {
            decoded.accesses_memory = true;
            decoded.is_move = true;
            decoded.class = OpClass::Int;
        } else {
            decoded.accesses_memory = class::accesses_memory(name);
            let merges = !name.starts_with("ST") && operands::reads_what_it_loads_into(&instruction.operands);
            decoded.is_move = decoded.accesses_memory && !merges;
        }
        decoded.is_atomic = class::is_atomic(name);
        let acquires =
            name.starts_with("LDAX") || decoded.is_atomic && shown.ends_with("(2)") || shown.ends_with("(3)");
        decoded.flags = match class::fence(name, word) {
            _ if decoded.is_atomic && acquires => 0b1100 << Op::FENCE_SHIFT,
            order => order << Op::FENCE_SHIFT,
        };
        decoded.order = class::order(name);
        operands::list(&mut decoded, name, &instruction.operands);
        if clears(word) {
            decoded.address_registers = std::mem::take(&mut decoded.reads);
        }
        if matches!(decoded.class, OpClass::Call | OpClass::IndirectCall) {
            decoded.writes.add(LINK);
        }
        decoded
    }
}

/// Returns whether the instruction is DC ZVA (C6.2.91).
fn clears(word: u32) -> bool {
    word & 0xffff_ffe0 == 0xd50b_7420
}

/// Class and control flow; instructions that are no branches keep `class`.
fn branch(name: &str, instruction: &Instruction, address: u64, class: OpClass) -> (OpClass, Flow) {
    let offset = instruction.operands.iter().find_map(|operand| match operand {
        Operand::PCOffset(offset) => Some(*offset),
        _ => None,
    });
    let target = address.wrapping_add(offset.unwrap_or(0) as u64);
    match name {
        "B" => (OpClass::Jump, Flow::Direct(target)),
        "BL" => (OpClass::Call, Flow::Direct(target)),
        "Bcc" | "BCcc" | "CBZ" | "CBNZ" | "TBZ" | "TBNZ" => (OpClass::Branch, Flow::Branch(target)),
        _ if name.starts_with("BLR") => (OpClass::IndirectCall, Flow::Indirect),
        "BR" | "BRAA" | "BRAAZ" | "BRAB" | "BRABZ" => (OpClass::IndirectJump, Flow::Indirect),
        _ if name.starts_with("RET") => (OpClass::Return, Flow::Indirect),
        _ if class::is_system_jump(name) => (class, Flow::System),
        _ => (class, Flow::Next),
    }
}
