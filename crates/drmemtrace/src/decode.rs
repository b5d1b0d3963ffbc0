//! What is known of a static instruction: from its encoding, which stands before it where it comes first (in a chunk of the file), or from
//! its record's type alone.

use std::collections::HashMap;

use doorbell_qemu_trace::aarch64::Aarch64;
use doorbell_qemu_trace::instruction::{Decoded, Flow, InstructionSet};
use doorbell_qemu_trace::riscv64::Riscv64;
use doorbell_qemu_trace::stream::Bytes;
use doorbell_qemu_trace::x86::X86;
use doorbell_sim::OpClass;

use crate::error::Wrong;
use crate::record::{ENCODING_BYTES, Record, Sort, file_type};
use crate::regdeps;

/// The longest instruction.
const LENGTH_MAX: u16 = 15;
/// Synthetic encodings are longer.
const ENCODING_MAX: usize = 16;
/// So many instructions are remembered; no program has as many, broken traces may.
const KNOWN_MAX: usize = 1 << 22;

/// What encodings are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    X86_64,
    Aarch64,
    /// DynamoRIO has no bit for it: what is of none of the others, and has encodings.
    Riscv64,
    /// Registers and what kind of instruction it is, in DynamoRIO's own encoding.
    Regdeps,
    /// There are no encodings, and nothing says what recorded it.
    Unknown,
}

impl Isa {
    /// As a file's type says.
    pub fn of(bits: u64) -> Result<Isa, Wrong> {
        let is = |bit| bits & bit != 0;
        Ok(match () {
            () if is(file_type::REGDEPS) => Isa::Regdeps,
            () if is(file_type::X86_64) => Isa::X86_64,
            () if is(file_type::AARCH64) => Isa::Aarch64,
            () if is(file_type::X86_32 | file_type::ARM32) => {
                return Err(Wrong::Unfit("is of a program of 32 bits, and those of 64 are played"));
            }
            () if is(file_type::ENCODINGS) => Isa::Riscv64,
            () => Isa::Unknown,
        })
    }

    /// As a trace's description has it.
    pub fn name(self) -> &'static str {
        match self {
            Isa::X86_64 => "x86_64",
            Isa::Aarch64 => "aarch64",
            Isa::Riscv64 => "riscv64 (a program's)",
            Isa::Regdeps => "regdeps (DynamoRIO's synthetic one)",
            Isa::Unknown => "not told",
        }
    }

    fn decoder(self) -> Option<Box<dyn InstructionSet>> {
        Some(match self {
            Isa::X86_64 => Box::new(X86::default()),
            Isa::Aarch64 => Box::new(Aarch64),
            Isa::Riscv64 => Box::new(Riscv64),
            Isa::Regdeps | Isa::Unknown => return None,
        })
    }
}

/// See the module.
pub struct Decoder {
    isa: Isa,
    decoder: Option<Box<dyn InstructionSet>>,
    /// By address space and address.
    known: HashMap<(u16, u64), Decoded>,
    /// The encoding of the instruction to come.
    encoding: [u8; ENCODING_MAX],
    encoded: usize,
}

impl Decoder {
    pub fn new(isa: Isa) -> Decoder {
        let (known, encoding) = (HashMap::new(), [0; ENCODING_MAX]);
        Decoder { isa, decoder: isa.decoder(), known, encoding, encoded: 0 }
    }

    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Some bytes of the encoding of the instruction to come.
    pub fn encoding(&mut self, record: &Record) -> Result<(), Wrong> {
        let count = usize::from(record.size);
        let to = self.encoded..self.encoded + count;
        if count > ENCODING_BYTES || to.end > ENCODING_MAX {
            return Err(Wrong::Damaged("an instruction's encoding is too long"));
        }
        self.encoding[to].copy_from_slice(&record.value.to_le_bytes()[..count]);
        self.encoded += count;
        Ok(())
    }

    /// What is known of the instruction of a record, and whether its encoding is.
    pub fn decode(&mut self, record: &Record, sort: Sort, space: u16) -> Result<(Decoded, bool), Wrong> {
        let (address, length) = (record.value, record.size);
        if !(1..=LENGTH_MAX).contains(&length) {
            return Err(Wrong::Damaged("an instruction has no bytes, or too many"));
        }
        let place = (space, address);
        let encoded = std::mem::take(&mut self.encoded);
        if encoded == 0 {
            let known = self.known.get(&place).filter(|known| u16::from(known.length) == length);
            return Ok(known.map_or_else(|| (by_sort(address, length, sort), false), |known| (*known, true)));
        }
        let plain = Decoded::plain(&Bytes::new(address, &[0; LENGTH_MAX as usize][..usize::from(length)]));
        let encoding = &self.encoding[..encoded];
        let mut decoded = match &mut self.decoder {
            Some(_) if encoded != usize::from(length) => {
                return Err(Wrong::Damaged("an instruction's encoding is longer or shorter than it"));
            }
            Some(decoder) => decoder.decode(&Bytes::new(address, encoding)),
            None if self.isa == Isa::Regdeps => {
                regdeps::decode(plain, encoding, sort).ok_or(Wrong::Damaged("an encoding makes no sense"))?
            }
            None => return Err(Wrong::Damaged("it has encodings, and its type says nothing of them")),
        };
        // A program's tracer knows its branches best.
        if !decoded.class.is_branch()
            && let Some(class) = class(sort)
        {
            decoded.class = class;
        }
        if self.known.len() < KNOWN_MAX || self.known.contains_key(&place) {
            self.known.insert(place, decoded);
        }
        Ok((decoded, true))
    }
}

/// The class of a branch.
pub fn class(sort: Sort) -> Option<OpClass> {
    Some(match sort {
        Sort::Plain => return None,
        Sort::Conditional(_) => OpClass::Branch,
        Sort::Jump => OpClass::Jump,
        Sort::IndirectJump => OpClass::IndirectJump,
        Sort::Call => OpClass::Call,
        Sort::IndirectCall => OpClass::IndirectCall,
        Sort::Return => OpClass::Return,
    })
}

/// An instruction without an encoding: what it accesses, and where it goes.
fn by_sort(address: u64, length: u16, sort: Sort) -> Decoded {
    let bytes = Bytes::new(address, &[0; LENGTH_MAX as usize][..usize::from(length)]);
    let mut decoded = Decoded { is_move: true, accesses_memory: true, ..Decoded::plain(&bytes) };
    if let Some(class) = class(sort) {
        (decoded.class, decoded.is_move, decoded.flow) = (class, false, Flow::Indirect);
    }
    decoded
}
