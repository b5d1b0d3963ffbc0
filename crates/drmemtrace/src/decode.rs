//! Decodes static instructions: from their encoding, which precedes their first execution (per chunk of the
//! file), or from the record type alone.

use std::collections::HashMap;

use doorbell_qemu_trace::aarch64::Aarch64;
use doorbell_qemu_trace::instruction::{Decoded, Flow, InstructionSet};
use doorbell_qemu_trace::riscv64::Riscv64;
use doorbell_qemu_trace::stream::Bytes;
use doorbell_qemu_trace::x86::X86;
use doorbell_sim::OpClass;

use crate::error::RecordError;
use crate::record::{BranchKind, ENCODING_BYTES, Record, file_type};
use crate::regdeps;

/// Longest instruction.
const LENGTH_MAX: u16 = 15;
/// Synthetic encodings are longer.
const ENCODING_MAX: usize = 16;
/// Limit of cached instructions, above that of any real program; corrupt traces may exceed it.
const KNOWN_MAX: usize = 1 << 22;

/// Format of the encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    X86_64,
    Aarch64,
    /// DynamoRIO has no bit for it: a file with encodings and without the bit of another instruction set.
    Riscv64,
    /// DynamoRIO's own encoding of registers and instruction categories.
    Regdeps,
    /// No encodings; the instruction set is not recorded.
    Unknown,
}

impl Isa {
    /// Instruction set of a file type.
    pub fn of(bits: u64) -> Result<Isa, RecordError> {
        let is = |bit| bits & bit != 0;
        Ok(match () {
            () if is(file_type::REGDEPS) => Isa::Regdeps,
            () if is(file_type::X86_64) => Isa::X86_64,
            () if is(file_type::AARCH64) => Isa::Aarch64,
            () if is(file_type::X86_32 | file_type::ARM32) => {
                return Err(RecordError::Unfit(
                    "is of a 32-bit program; only 64-bit programs are supported".into(),
                ));
            }
            () if is(file_type::ENCODINGS) => Isa::Riscv64,
            () => Isa::Unknown,
        })
    }

    /// Name in a trace's description.
    pub fn name(self) -> &'static str {
        match self {
            Isa::X86_64 => "x86_64",
            Isa::Aarch64 => "aarch64",
            Isa::Riscv64 => "riscv64 (user mode)",
            Isa::Regdeps => "regdeps (DynamoRIO's synthetic encoding)",
            Isa::Unknown => "unknown",
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

/// Instruction decoder; see the module.
pub struct Decoder {
    isa: Isa,
    decoder: Option<Box<dyn InstructionSet>>,
    /// Cache by address space and address.
    known: HashMap<(u16, u64), Decoded>,
    /// Encoding of the next instruction, as far as it has been read.
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

    /// Adds bytes to the encoding of the next instruction.
    pub fn encoding(&mut self, record: &Record) -> Result<(), RecordError> {
        let count = usize::from(record.size);
        let to = self.encoded..self.encoded + count;
        if count > ENCODING_BYTES || to.end > ENCODING_MAX {
            return Err(RecordError::Damaged("an instruction's encoding is too long"));
        }
        self.encoding[to].copy_from_slice(&record.value.to_le_bytes()[..count]);
        self.encoded += count;
        Ok(())
    }

    /// Decodes the instruction of a record; returns whether its encoding is available.
    pub fn decode(
        &mut self,
        record: &Record,
        sort: BranchKind,
        space: u16,
    ) -> Result<(Decoded, bool), RecordError> {
        let (address, length) = (record.value, record.size);
        if !(1..=LENGTH_MAX).contains(&length) {
            return Err(RecordError::Damaged("an instruction has no bytes, or too many"));
        }
        let place = (space, address);
        let encoded = std::mem::take(&mut self.encoded);
        if encoded == 0 {
            let known = self.known.get(&place).filter(|known| u16::from(known.length) == length);
            return Ok(known
                .map_or_else(|| (without_encoding(address, length, sort), false), |known| (*known, true)));
        }
        let plain = Decoded::plain(&Bytes::new(address, &[0; LENGTH_MAX as usize][..usize::from(length)]));
        let encoding = &self.encoding[..encoded];
        let mut decoded = match &mut self.decoder {
            Some(_) if encoded != usize::from(length) => {
                return Err(RecordError::Damaged("an instruction's encoding differs from its length"));
            }
            Some(decoder) => decoder.decode(&Bytes::new(address, encoding)),
            None if self.isa == Isa::Regdeps => {
                regdeps::decode(plain, encoding, sort).ok_or(RecordError::Damaged("an invalid encoding"))?
            }
            None => return Err(RecordError::Damaged("it has encodings, but its type does not say so")),
        };
        // The tracer's branch type takes precedence.
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

/// Class of a branch.
pub fn class(sort: BranchKind) -> Option<OpClass> {
    Some(match sort {
        BranchKind::Plain => return None,
        BranchKind::Conditional(_) => OpClass::Branch,
        BranchKind::Jump => OpClass::Jump,
        BranchKind::IndirectJump => OpClass::IndirectJump,
        BranchKind::Call => OpClass::Call,
        BranchKind::IndirectCall => OpClass::IndirectCall,
        BranchKind::Return => OpClass::Return,
    })
}

/// An instruction without an encoding: only its accesses and its branch type are known.
fn without_encoding(address: u64, length: u16, sort: BranchKind) -> Decoded {
    let bytes = Bytes::new(address, &[0; LENGTH_MAX as usize][..usize::from(length)]);
    let mut decoded = Decoded { is_move: true, accesses_memory: true, ..Decoded::plain(&bytes) };
    if let Some(class) = class(sort) {
        (decoded.class, decoded.is_move, decoded.flow) = (class, false, Flow::Indirect);
    }
    decoded
}
