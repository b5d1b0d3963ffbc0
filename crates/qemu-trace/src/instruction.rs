//! An instruction as it stands in memory: what is known of it before it is executed. Every instruction set makes this of its
//! instructions ([`InstructionSet`]); all else is the same for all of them.

use std::fmt::Debug;

use doorbell_sim::OpClass;
use doorbell_sim::op::Register;

use crate::stream::Bytes;

/// What decodes instructions.
pub trait InstructionSet: Debug + Send {
    /// Decodes one; asked once for each that stands in memory. What is no instruction becomes a plain op ([`Decoded::plain`]).
    fn decode(&mut self, bytes: &Bytes) -> Decoded;
}

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

/// What a plain load or store keeps in order by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Nothing.
    #[default]
    None,
    /// A load, what is behind it.
    Acquires,
    /// A store, what is before it.
    Releases,
}

/// Up to so many registers, in ascending order.
pub const LISTED_MAX: usize = 6;

/// A few registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct List {
    registers: [Register; LISTED_MAX],
    count: u8,
}

impl List {
    /// Puts one in, unless it is 0, or there already, or there is no more room.
    pub fn add(&mut self, register: Register) {
        if register != 0 && !self.all().contains(&register) && usize::from(self.count) < LISTED_MAX {
            self.registers[usize::from(self.count)] = register;
            self.count += 1;
        }
    }

    /// Those in it.
    pub fn all(&self) -> &[Register] {
        &self.registers[..usize::from(self.count)]
    }
}

/// What is known of an instruction before it is executed.
#[derive(Clone, Copy, Debug)]
pub struct Decoded {
    /// Its address.
    pub address: u64,
    /// The physical one, 0 if it is in no RAM.
    pub physical: u64,
    /// Its bytes.
    pub length: u8,
    /// Where it goes.
    pub flow: Flow,
    /// How it went the last time: the address that followed.
    pub went: u64,
    /// What its result, or its direction, comes from.
    pub class: OpClass,
    /// Of a fence, an atomic access or one to ports: bits of an op's flags.
    pub flags: u8,
    /// It only moves: a load or store needs no op beside it.
    pub is_move: bool,
    /// Its load and store are one atomic access.
    pub is_atomic: bool,
    /// May be executed several times before it is over, as with a REP prefix.
    pub is_repeated: bool,
    /// Returns from a handler or the operating system.
    pub returns: bool,
    /// Reads or writes memory when it is executed.
    pub accesses_memory: bool,
    /// What its addresses are made of,
    pub address_registers: List,
    /// what else it reads,
    pub reads: List,
    /// what it writes,
    pub writes: List,
    /// and what it makes of its address besides, a register that was part of it.
    pub updates: List,
    /// Of what only loads or only stores.
    pub order: Order,
}

impl Decoded {
    /// One that does nothing but take its place.
    pub fn plain(bytes: &Bytes) -> Decoded {
        let length = bytes.bytes().len() as u8;
        Decoded {
            address: bytes.address,
            physical: bytes.physical,
            length,
            flow: Flow::Next,
            went: bytes.address.wrapping_add(u64::from(length)),
            class: OpClass::Int,
            flags: 0,
            is_move: false,
            is_atomic: false,
            is_repeated: false,
            returns: false,
            accesses_memory: false,
            address_registers: List::default(),
            reads: List::default(),
            writes: List::default(),
            updates: List::default(),
            order: Order::None,
        }
    }

    /// The address behind it.
    pub fn behind(&self) -> u64 {
        self.address.wrapping_add(u64::from(self.length))
    }
}
