//! The op: what a timing model needs to know of an executed instruction.
//!
//! Instructions execute functionally, in order, exactly once; each leaves one op, or several if it accesses memory
//! several times. Timing models price ops and never change what happened. A recorded trace of another instruction set
//! becomes the same ops.

use crate::ports::PhysAddr;

/// What an op needs to be executed: a kind of functional unit, or special treatment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum OpClass {
    /// Integer addition, logic, shifts, comparisons, moves.
    #[default]
    Int,
    /// Integer multiplication.
    IntMul,
    /// Integer division and remainder.
    IntDiv,
    /// Floating-point addition, comparison, conversion, sign operations and moves.
    FloatAdd,
    /// Floating-point multiplication.
    FloatMul,
    /// Fused multiply-add.
    FloatFma,
    /// Floating-point division and square root.
    FloatDiv,
    /// A load from cacheable memory.
    Load,
    /// A store to cacheable memory.
    Store,
    /// A read-modify-write, LR or SC: alone at the head of the window, after all older stores.
    Atomic,
    /// A conditional branch.
    Branch,
    /// A jump to a fixed target.
    Jump,
    /// A jump to a computed target.
    IndirectJump,
    /// A call to a fixed target: it leaves its return address on the return stack.
    Call,
    /// A call to a computed target.
    IndirectCall,
    /// A return.
    Return,
    /// A fence: loads or stores behind it wait for loads or stores before it (see [`Op::fence`]).
    Fence,
    /// A CSR access or privileged instruction: waits until everything older has committed, and everything younger waits
    /// for it.
    Serialising,
    /// A load from or store to a device, executed at the head of the window.
    Device,
    /// A software prefetch: a request for a line for which nothing waits. It writes no register, never faults, and is ordered
    /// by nothing. [`Op::WRITES`] and [`Op::CODE`] say what the line is wanted for.
    Prefetch,
}

impl OpClass {
    /// How many classes there are.
    pub const COUNT: usize = OpClass::Prefetch as usize + 1;

    /// All classes, each at its number.
    pub const ALL: [OpClass; OpClass::COUNT] = [
        OpClass::Int,
        OpClass::IntMul,
        OpClass::IntDiv,
        OpClass::FloatAdd,
        OpClass::FloatMul,
        OpClass::FloatFma,
        OpClass::FloatDiv,
        OpClass::Load,
        OpClass::Store,
        OpClass::Atomic,
        OpClass::Branch,
        OpClass::Jump,
        OpClass::IndirectJump,
        OpClass::Call,
        OpClass::IndirectCall,
        OpClass::Return,
        OpClass::Fence,
        OpClass::Serialising,
        OpClass::Device,
        OpClass::Prefetch,
    ];

    /// Whether the op may be followed by another than the next instruction in memory.
    pub const fn is_branch(self) -> bool {
        matches!(
            self,
            OpClass::Branch
                | OpClass::Jump
                | OpClass::IndirectJump
                | OpClass::Call
                | OpClass::IndirectCall
                | OpClass::Return
        )
    }

    /// Whether it goes to an address that registers say.
    pub const fn has_computed_target(self) -> bool {
        matches!(self, OpClass::IndirectJump | OpClass::IndirectCall | OpClass::Return)
    }

    /// Whether the op accesses cacheable memory, or asks for a line of it.
    pub const fn is_memory(self) -> bool {
        matches!(self, OpClass::Load | OpClass::Store | OpClass::Atomic | OpClass::Prefetch)
    }
}

/// An architectural register: 1 to 31 the integer registers, 32 to 63 the floating-point registers, 64 and above what else an
/// instruction set renames (flags, more integer registers); 0 is none, as x0 is constant.
pub type Register = u8;

/// How many registers timing models keep track of: all that have a number.
pub const REGISTERS: usize = 1 << Register::BITS;

/// What ops of one instruction have between them and no program has, in traces of other instruction sets.
pub const INNER_REGISTERS: std::ops::RangeInclusive<Register> = 81..=84;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Op {
    /// Virtual address of the instruction.
    pub pc: u64,
    /// Physical address of the instruction.
    pub fetch: PhysAddr,
    /// Virtual address of the access, if it is one to memory; the target of a branch that is taken.
    pub virt: u64,
    /// Physical address of the access.
    pub phys: PhysAddr,
    /// What it needs.
    pub class: OpClass,
    /// Bytes accessed; 0 for none, and of a prefetch.
    pub size: u8,
    /// Bytes of the instruction, with its last op; 0 for the ops before.
    pub length: u8,
    /// Bits of [`Op::TAKEN`] and its neighbours.
    pub flags: u8,
    /// The register it writes.
    pub destination: Register,
    /// The registers it reads. Of a store the first is the address, the second the data.
    pub sources: [Register; 3],
}

impl Op {
    /// A branch that is taken.
    pub const TAKEN: u8 = 1;
    /// The access writes memory (of [`OpClass::Atomic`], [`OpClass::Device`] and, of the accesses to come, of
    /// [`OpClass::Prefetch`]).
    pub const WRITES: u8 = 2;
    /// Executed in machine or supervisor mode.
    pub const PRIVILEGED: u8 = 4;
    /// The line is wanted for instructions (of [`OpClass::Prefetch`]).
    pub const CODE: u8 = 8;
    /// What it writes is for further ops of its own instruction, and no register of the program's. (Of [`OpClass::Int`] and
    /// [`OpClass::Load`], which have no [`Op::fence`]: models need not look at it.)
    pub const INNER: u8 = 16;
    /// Its instruction writes the stack pointer, too, which others do not wait for. (Of the last op of one that is neither a fence nor
    /// atomic: models need not look at it.)
    pub const MOVES_STACK: u8 = 32;
    /// A fence's predecessor and successor sets: loads before, stores before, loads after, stores after. An atomic has the
    /// successors if it acquires.
    pub const FENCE_SHIFT: u8 = 4;

    /// The last op of its instruction.
    pub const fn ends_instruction(&self) -> bool {
        self.length != 0
    }

    /// A branch that is taken.
    pub const fn is_taken(&self) -> bool {
        self.flags & Op::TAKEN != 0
    }

    /// Of a fence: whether it orders loads before, stores before, loads after, stores after.
    pub const fn fence(&self) -> [bool; 4] {
        let set = self.flags >> Op::FENCE_SHIFT;
        [set & 1 != 0, set & 2 != 0, set & 4 != 0, set & 8 != 0]
    }

    /// The address of the instruction executed after this one.
    pub const fn next_pc(&self) -> u64 {
        if self.is_taken() { self.virt } else { self.pc.wrapping_add(self.length as u64) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_stand_in_their_order() {
        for (index, class) in OpClass::ALL.iter().enumerate() {
            assert_eq!(*class as usize, index);
        }
    }
}
