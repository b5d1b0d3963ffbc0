//! Static part of an instruction. Each instruction set decodes its instructions to this ([`InstructionSet`]);
//! everything else is common to all.

use std::fmt::Debug;

use doorbell_sim::OpClass;
use doorbell_sim::op::Register;

use crate::stream::Bytes;

/// Instruction decoder of an instruction set.
pub trait InstructionSet: Debug + Send {
    /// Decodes an instruction; called once per instruction in memory. Invalid ones become plain ops
    /// ([`Decoded::plain`]).
    fn decode(&mut self, bytes: &Bytes) -> Decoded;
}

/// Possible successors of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// Only the next instruction.
    #[default]
    Next,
    /// The next instruction or this address.
    Branch(u64),
    /// Only this address.
    Direct(u64),
    /// A computed or loaded address.
    Indirect,
    /// The operating system, or back from it.
    System,
}

/// Memory ordering of a plain load or store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Nothing.
    #[default]
    None,
    /// Load-acquire: before all later accesses.
    Acquires,
    /// Store-release: after all earlier accesses.
    Releases,
}

/// Limit of a [`List`].
pub const LISTED_MAX: usize = 6;

/// Up to [`LISTED_MAX`] registers, in the order in which they were added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct List {
    registers: [Register; LISTED_MAX],
    count: u8,
}

impl List {
    /// Adds a register, unless it is 0, already in the list, or the list is full.
    pub fn add(&mut self, register: Register) {
        if register != 0 && !self.all().contains(&register) && usize::from(self.count) < LISTED_MAX {
            self.registers[usize::from(self.count)] = register;
            self.count += 1;
        }
    }

    /// The registers.
    pub fn all(&self) -> &[Register] {
        &self.registers[..usize::from(self.count)]
    }
}

/// Static part of an instruction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decoded {
    /// Virtual address.
    pub address: u64,
    /// Physical address; 0 if it is not in RAM.
    pub physical: u64,
    /// Length in bytes.
    pub length: u8,
    /// Possible successors.
    pub flow: Flow,
    /// Successor of the last execution.
    pub last_successor: u64,
    /// Class of the op that computes the result or the branch direction.
    pub class: OpClass,
    /// Fence, atomic or port access only: bits of the op's flags.
    pub flags: u8,
    /// Only moves data: its load or store needs no computation op.
    pub is_move: bool,
    /// Its load and store are one atomic access.
    pub is_atomic: bool,
    /// May execute several times before it ends, as with a REP prefix.
    pub is_repeated: bool,
    /// Returns from a handler or the operating system.
    pub returns: bool,
    /// Accesses memory when it executes.
    pub accesses_memory: bool,
    /// Address registers.
    pub address_registers: List,
    /// Data registers read.
    pub reads: List,
    /// Registers written.
    pub writes: List,
    /// Address registers that it updates (base write-back).
    pub updates: List,
    /// Ordering of a plain load or store.
    pub order: Order,
}

impl Decoded {
    /// An instruction without effect.
    pub fn plain(bytes: &Bytes) -> Decoded {
        let length = bytes.bytes().len() as u8;
        Decoded {
            address: bytes.address,
            physical: bytes.physical,
            length,
            last_successor: bytes.address.wrapping_add(u64::from(length)),
            ..Decoded::default()
        }
    }

    /// Address of the next instruction in memory.
    pub fn end(&self) -> u64 {
        self.address.wrapping_add(u64::from(self.length))
    }
}
