//! The op: an executed instruction as timing models see it.
//!
//! Instructions execute functionally, in order, exactly once; each leaves one op, or several if it accesses
//! memory several times. Timing models compute the time of ops and never change results. Recorded traces of
//! other instruction sets are converted to the same ops.

use crate::ports::PhysAddr;

/// Class of an op: the kind of functional unit it needs, or special treatment.
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
    /// A read-modify-write, LR or SC: executes alone at the head of the window, after all older stores.
    Atomic,
    /// A conditional branch.
    Branch,
    /// A jump to a fixed target.
    Jump,
    /// A jump to a computed target.
    IndirectJump,
    /// A call to a fixed target; pushes its return address on the return stack.
    Call,
    /// A call to a computed target.
    IndirectCall,
    /// A return.
    Return,
    /// A fence: younger loads or stores wait for older loads or stores (see [`Op::fence`]).
    Fence,
    /// A CSR access or privileged instruction: waits until everything older has committed, and everything
    /// younger waits for it.
    Serialising,
    /// A load from or store to a device, executed at the head of the window.
    Device,
    /// A software prefetch: a request for a line without a wait. It never faults, writes no register, and
    /// is unordered. [`Op::WRITES`] and [`Op::CODE`] give the intended use of the line.
    Prefetch,
}

impl OpClass {
    /// Number of classes.
    pub const COUNT: usize = OpClass::Prefetch as usize + 1;

    /// All classes in the order of their discriminants.
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

    /// Whether the op may be followed by an instruction other than the next one in memory.
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

    /// Whether the target address comes from a register.
    pub const fn has_computed_target(self) -> bool {
        matches!(self, OpClass::IndirectJump | OpClass::IndirectCall | OpClass::Return)
    }

    /// Whether the op accesses cacheable memory or prefetches a line of it.
    pub const fn is_memory(self) -> bool {
        matches!(self, OpClass::Load | OpClass::Store | OpClass::Atomic | OpClass::Prefetch)
    }
}

/// An architectural register. 0: none (x0 is constant); 1 to 31: integer; 32 to 63: floating-point; 64 and
/// above: other renamed registers of an instruction set (flags, more integer registers).
pub type Register = u8;

/// Number of registers that timing models track: all values of [`Register`].
pub const REGISTERS: usize = 1 << Register::BITS;

/// Temporary registers between the ops of one instruction in traces of other instruction sets; not visible to
/// programs.
pub const INNER_REGISTERS: std::ops::RangeInclusive<Register> = 81..=84;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Op {
    /// Virtual address of the instruction.
    pub pc: u64,
    /// Physical address of the instruction.
    pub fetch: PhysAddr,
    /// Virtual address of a memory access; for a taken branch, its target.
    pub virt: u64,
    /// Physical address of the memory access.
    pub phys: PhysAddr,
    /// Class of the op.
    pub class: OpClass,
    /// Bytes accessed; 0 for no access or a prefetch.
    pub size: u8,
    /// Bytes of the instruction, in its last op; 0 in its earlier ops.
    pub length: u8,
    /// Flag bits: [`Op::TAKEN`] and the constants after it.
    pub flags: u8,
    /// The register it writes.
    pub destination: Register,
    /// The registers it reads. For a store, the first is the address and the second the data.
    pub sources: [Register; 3],
}

impl Op {
    /// A branch that is taken.
    pub const TAKEN: u8 = 1;
    /// The access writes memory ([`OpClass::Atomic`], [`OpClass::Device`]), or the prefetch is for a store
    /// ([`OpClass::Prefetch`]).
    pub const WRITES: u8 = 2;
    /// Executed in machine or supervisor mode.
    pub const PRIVILEGED: u8 = 4;
    /// The line is prefetched for instruction fetch ([`OpClass::Prefetch`]).
    pub const CODE: u8 = 8;
    /// The result is a temporary for later ops of the same instruction, not a program register. (Only for
    /// [`OpClass::Int`] and [`OpClass::Load`], which have no [`Op::fence`]; models need not check that.)
    pub const INNER: u8 = 16;
    /// The instruction also writes the stack pointer, and readers of it do not wait. (Only in the last op of
    /// an instruction that is neither a fence nor atomic; models need not check that.)
    pub const MOVES_STACK: u8 = 32;
    /// Shift of a fence's predecessor and successor sets: loads before, stores before, loads after, stores
    /// after. An acquiring atomic has the successor bits set.
    pub const FENCE_SHIFT: u8 = 4;

    /// Whether this is the last op of its instruction.
    pub const fn ends_instruction(&self) -> bool {
        self.length != 0
    }

    /// Whether this is a taken branch.
    pub const fn is_taken(&self) -> bool {
        self.flags & Op::TAKEN != 0
    }

    /// The four order bits of a fence: loads before, stores before, loads after, stores after.
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
    fn classes_are_listed_in_discriminant_order() {
        for (index, class) in OpClass::ALL.iter().enumerate() {
            assert_eq!(*class as usize, index);
        }
    }
}
