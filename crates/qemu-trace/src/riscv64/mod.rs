//! RV64GC instructions as ops: those of this project's own hart (`doorbell-riscv`), so that a program has the
//! same ops in both.
//!
//! Prefetches (Zicbop) are plain ops, as QEMU does not execute them.

#[cfg(test)]
mod tests;

use doorbell_riscv::inst::{Inst, Kind};
use doorbell_sim::{Op, OpClass};

use crate::instruction::{Decoded, Flow, InstructionSet};
use crate::stream::Bytes;

/// RISC-V decoder.
#[derive(Debug, Default)]
pub struct Riscv64;

impl InstructionSet for Riscv64 {
    fn decode(&mut self, bytes: &Bytes) -> Decoded {
        let inst = match *bytes.bytes() {
            [low, high] => doorbell_riscv::decode_compressed(u16::from_le_bytes([low, high])),
            [first, second, third, fourth] => {
                doorbell_riscv::decode::decode(u32::from_le_bytes([first, second, third, fourth]))
            }
            _ => return Decoded::plain(bytes),
        };
        let op = doorbell_riscv::op_of(&inst);
        let mut decoded = Decoded::plain(bytes);
        decoded.flow = flow(&inst, bytes.address);
        decoded.returns = matches!(inst.kind, Kind::Mret | Kind::Sret);
        decoded.writes.add(op.destination);
        let is_prefetch = op.class == OpClass::Prefetch;
        decoded.accesses_memory = op.class.is_memory() && !is_prefetch;
        decoded.is_atomic = op.class == OpClass::Atomic;
        decoded.is_move = decoded.accesses_memory;
        if decoded.accesses_memory {
            // The accesses have their own classes.
            decoded.address_registers.add(op.sources[0]);
            decoded.reads.add(op.sources[1]);
        } else {
            decoded.class = if is_prefetch { OpClass::Int } else { op.class };
            op.sources.iter().for_each(|source| decoded.reads.add(*source));
        }
        decoded.flags = if is_prefetch { 0 } else { op.flags & !Op::WRITES };
        decoded
    }
}

fn flow(inst: &Inst, address: u64) -> Flow {
    use Kind::*;
    let target = address.wrapping_add(i64::from(inst.imm) as u64);
    match inst.kind {
        Jal => Flow::Direct(target),
        Jalr => Flow::Indirect,
        Beq | Bne | Blt | Bge | Bltu | Bgeu => Flow::Branch(target),
        Ecall | Ebreak | Mret | Sret => Flow::System,
        _ => Flow::Next,
    }
}
