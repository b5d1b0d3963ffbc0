//! x86-64 instructions as ops, decoded by iced-x86.
//!
//! A stack engine handles the stack pointer, as in current cores: PUSH, POP, CALL and RET cause no dependence
//! through it. Nor do the pointers and the counter of string instructions. Prefetches are plain ops, as QEMU
//! does not execute them. The flags are one register.

mod class;
mod registers;
#[cfg(test)]
mod tests;

use doorbell_sim::op::Register;
use doorbell_sim::{Op, OpClass};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind,
};

use crate::instruction::{Decoded, Flow, InstructionSet};
use crate::names::FLAGS;
use crate::stream::Bytes;
use registers::{STACK_POINTER, STRING_REGISTERS, number};

/// x86-64 decoder.
pub struct X86(InstructionInfoFactory);

impl Default for X86 {
    fn default() -> X86 {
        X86(InstructionInfoFactory::new())
    }
}

/// The contents are not useful in debug output.
impl std::fmt::Debug for X86 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("X86")
    }
}

impl InstructionSet for X86 {
    fn decode(&mut self, bytes: &Bytes) -> Decoded {
        let instruction = Decoder::with_ip(64, bytes.bytes(), bytes.address, DecoderOptions::NONE).decode();
        let mut decoded = Decoded::plain(bytes);
        decoded.flow = flow(&instruction);
        if instruction.is_invalid() {
            return decoded;
        }
        decoded.class = branch(&instruction).unwrap_or_else(|| class::of(&instruction));
        decoded.flags = class::flags(&instruction);
        decoded.returns = class::is_system_return(&instruction);
        decoded.is_move = class::is_move(&instruction);
        let info = self.0.info(&instruction);
        decoded.accesses_memory = instruction.mnemonic() != Mnemonic::Lea
            && info.used_memory().iter().any(|used| is_read(used.access()) || is_write(used.access()));
        decoded.is_atomic = decoded.accesses_memory
            && (instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg);
        if decoded.is_atomic {
            // Later accesses wait.
            decoded.flags = 0b1100 << Op::FENCE_SHIFT;
        }
        decoded.is_repeated = instruction.is_string_instruction()
            && (instruction.has_rep_prefix() || instruction.has_repne_prefix());
        registers(&mut decoded, &instruction, info);
        decoded
    }
}

fn registers(decoded: &mut Decoded, instruction: &Instruction, info: &InstructionInfo) {
    let is_named = |register: Register| {
        (0..instruction.op_count()).any(|at| {
            instruction.op_kind(at) == OpKind::Register && number(instruction.op_register(at)) == register
        })
    };
    if decoded.accesses_memory {
        for used in info.used_memory() {
            decoded.address_registers.add(number(used.base()));
            decoded.address_registers.add(number(used.index()));
        }
    }
    let (is_stack, is_string) = (instruction.is_stack_instruction(), instruction.is_string_instruction());
    for used in info.used_registers() {
        let register = number(used.register());
        let is_implicit =
            register == STACK_POINTER && is_stack || is_string && STRING_REGISTERS.contains(&register);
        if is_implicit && !is_named(register) {
            continue;
        }
        let access = used.access();
        if is_read(access) && (!decoded.address_registers.all().contains(&register) || is_named(register)) {
            decoded.reads.add(register);
        }
        if is_write(access) {
            decoded.writes.add(register);
            // A conditional write may keep the old value.
            if access == OpAccess::CondWrite {
                decoded.reads.add(register);
            }
        }
    }
    if instruction.rflags_read() != 0 {
        decoded.reads.add(FLAGS);
    }
    if instruction.rflags_modified() != 0 {
        decoded.writes.add(FLAGS);
    }
}

fn is_read(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn is_write(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn flow(instruction: &Instruction) -> Flow {
    if class::is_system_jump(instruction) {
        return Flow::System;
    }
    match instruction.flow_control() {
        FlowControl::ConditionalBranch => Flow::Branch(instruction.near_branch_target()),
        FlowControl::UnconditionalBranch | FlowControl::Call if is_near(instruction) => {
            Flow::Direct(instruction.near_branch_target())
        }
        FlowControl::UnconditionalBranch
        | FlowControl::Call
        | FlowControl::IndirectBranch
        | FlowControl::IndirectCall
        | FlowControl::Return => Flow::Indirect,
        _ => Flow::Next,
    }
}

fn is_near(instruction: &Instruction) -> bool {
    instruction.op_count() > 0
        && matches!(
            instruction.op_kind(0),
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
        )
}

fn branch(instruction: &Instruction) -> Option<OpClass> {
    if class::is_system_jump(instruction) {
        return None;
    }
    Some(match instruction.flow_control() {
        FlowControl::ConditionalBranch => OpClass::Branch,
        FlowControl::UnconditionalBranch if is_near(instruction) => OpClass::Jump,
        FlowControl::Call if is_near(instruction) => OpClass::Call,
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => OpClass::IndirectJump,
        FlowControl::Call | FlowControl::IndirectCall => OpClass::IndirectCall,
        FlowControl::Return => OpClass::Return,
        _ => return None,
    })
}
