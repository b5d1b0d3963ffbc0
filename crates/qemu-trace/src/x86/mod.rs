//! x86-64 instructions as ops.
//!
//! An instruction is one op, or several: its loads, then what it computes, then its stores; a branch comes last. One that only moves
//! needs no op between. A locked read-modify-write is one atomic op. What is done once for each instruction that stands in memory
//! is [`Decoded`]; what it accessed and where it went comes with each execution ([`Emitter`]).
//!
//! The stack pointer is left to a stack engine, as in today's cores: PUSH, POP, CALL and RET make nobody wait for it. Prefetches
//! are plain ops, as QEMU does not execute them. Flags are one register.

mod class;
mod emit;
mod registers;
#[cfg(test)]
mod tests;

use doorbell_sim::OpClass;
use doorbell_sim::op::Register;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind,
};

use crate::stream::Bytes;

pub use emit::{Emitter, Goes};
use registers::{FLAGS, STACK_POINTER, number};

/// Where an instruction goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// To the next one.
    Next,
    /// To this address, maybe.
    Branch(u64),
    /// To this address.
    Direct(u64),
    /// To an address that it computes or loads.
    Indirect,
    /// To the operating system, or back.
    System,
}

/// Up to so many registers, in ascending order.
const LISTED_MAX: usize = 6;

/// A few registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct List {
    registers: [Register; LISTED_MAX],
    count: u8,
}

impl List {
    fn add(&mut self, register: Register) {
        if register != 0 && !self.all().contains(&register) && usize::from(self.count) < LISTED_MAX {
            self.registers[usize::from(self.count)] = register;
            self.count += 1;
        }
    }

    fn all(&self) -> &[Register] {
        &self.registers[..usize::from(self.count)]
    }
}

/// What is known of an instruction before it is executed.
#[derive(Clone, Copy, Debug)]
pub struct Decoded {
    /// Its address, and the physical one.
    pub address: u64,
    physical: u64,
    length: u8,
    /// Where it goes.
    pub flow: Flow,
    /// How it went the last time: the address that followed.
    pub went: u64,
    class: OpClass,
    /// Of a fence or an access to ports.
    flags: u8,
    is_move: bool,
    is_atomic: bool,
    /// Has a REP prefix.
    pub is_repeated: bool,
    /// Returns from a handler or the operating system.
    pub returns: bool,
    /// The processor waits behind it. QEMU with a counted clock does not tell plugins so.
    pub waits: bool,
    /// Reads or writes memory when it is executed.
    pub accesses_memory: bool,
    /// What its addresses are made of, what else it reads, and what it writes.
    address_registers: List,
    reads: List,
    writes: List,
}

impl Decoded {
    /// The address behind it.
    pub fn behind(&self) -> u64 {
        self.address.wrapping_add(u64::from(self.length))
    }

    /// Decodes one. What is no instruction of x86-64's becomes a plain op.
    pub fn new(bytes: &Bytes, factory: &mut InstructionInfoFactory) -> Decoded {
        let instruction = Decoder::with_ip(64, bytes.bytes(), bytes.address, DecoderOptions::NONE).decode();
        let length = bytes.bytes().len() as u8;
        let flow = flow(&instruction);
        let mut decoded = Decoded {
            address: bytes.address,
            physical: bytes.physical,
            length,
            flow,
            went: bytes.address.wrapping_add(u64::from(length)),
            class: OpClass::Int,
            flags: 0,
            is_move: false,
            is_atomic: false,
            is_repeated: false,
            returns: false,
            waits: false,
            accesses_memory: false,
            address_registers: List::default(),
            reads: List::default(),
            writes: List::default(),
        };
        if instruction.is_invalid() {
            return decoded;
        }
        decoded.class = branch(&instruction).unwrap_or_else(|| class::of(&instruction));
        decoded.flags = class::flags(&instruction);
        decoded.returns = class::is_system_return(&instruction);
        decoded.waits = matches!(instruction.mnemonic(), Mnemonic::Hlt | Mnemonic::Mwait);
        decoded.is_move = class::is_move(&instruction);
        let info = factory.info(&instruction);
        decoded.accesses_memory = instruction.mnemonic() != Mnemonic::Lea
            && info.used_memory().iter().any(|used| is_read(used.access()) || is_write(used.access()));
        decoded.is_atomic = decoded.accesses_memory
            && (instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg);
        decoded.is_repeated = instruction.is_string_instruction()
            && (instruction.has_rep_prefix() || instruction.has_repne_prefix());
        decoded.registers(&instruction, info);
        decoded
    }

    fn registers(&mut self, instruction: &Instruction, info: &InstructionInfo) {
        let is_named = |register: Register| {
            (0..instruction.op_count()).any(|at| {
                instruction.op_kind(at) == OpKind::Register && number(instruction.op_register(at)) == register
            })
        };
        if self.accesses_memory {
            for used in info.used_memory() {
                self.address_registers.add(number(used.base()));
                self.address_registers.add(number(used.index()));
            }
        }
        let is_stack = instruction.is_stack_instruction();
        for used in info.used_registers() {
            let register = number(used.register());
            if register == STACK_POINTER && is_stack && !is_named(register) {
                continue;
            }
            let access = used.access();
            if is_read(access) && (!self.address_registers.all().contains(&register) || is_named(register)) {
                self.reads.add(register);
            }
            if is_write(access) {
                self.writes.add(register);
                // What is only maybe written keeps its old value otherwise.
                if access == OpAccess::CondWrite {
                    self.reads.add(register);
                }
            }
        }
        if instruction.rflags_read() != 0 {
            self.reads.add(FLAGS);
        }
        if instruction.rflags_modified() != 0 {
            self.writes.add(FLAGS);
        }
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
