//! ChampSim's trace: a record of 64 bytes an instruction, little-endian.
//!
//! | Bytes | What |
//! |---|---|
//! | 0..8 | address of the instruction |
//! | 8, 9 | whether it is a branch; whether it was taken |
//! | 10..12 | registers written; 0 is none |
//! | 12..16 | registers read |
//! | 16..32 | two addresses written; 0 is none |
//! | 32..64 | four addresses read |
//!
//! What kind of branch an instruction is, ChampSim concludes from three special registers: 6 (stack pointer), 25 (flags) and
//! 26 (instruction pointer). So a conditional branch reads and writes the instruction pointer and reads something else, a call
//! reads and writes both pointers, a return reads the stack pointer and writes both, and so on. Ours are numbered from 64 on
//! there, beside the special ones. What the format has no room for: sizes of accesses, units (a division is as any
//! operation), fences, the link register of a call, privilege, translations (addresses are the *physical* ones, which tell
//! what caches see), devices (an access to one is an operation without memory).
//!
//! What is read may be anybody's trace, in which each number is a register ([`ops`] has the rules).

use std::io::{self, Read, Write};

use doorbell_sim::op::Register;
use doorbell_sim::{Op, OpClass};

/// Bytes of a record.
pub const RECORD_BYTES: usize = 64;

/// ChampSim's special registers.
const STACK_POINTER: u8 = 6;
const FLAGS: u8 = 25;
const INSTRUCTION_POINTER: u8 = 26;
/// Our register 1 is the one after this.
const FIRST_REGISTER: u8 = 64;

/// An instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Its address.
    pub ip: u64,
    /// Whether it can be followed by another than the next one.
    pub is_branch: bool,
    /// Whether it was.
    pub taken: bool,
    /// Registers written.
    pub destinations: [u8; 2],
    /// Registers read.
    pub sources: [u8; 4],
    /// Addresses written.
    pub written: [u64; 2],
    /// Addresses read.
    pub read: [u64; 4],
}

impl Record {
    /// As the file has it.
    pub fn to_bytes(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&self.ip.to_le_bytes());
        bytes[8] = u8::from(self.is_branch);
        bytes[9] = u8::from(self.taken);
        bytes[10..12].copy_from_slice(&self.destinations);
        bytes[12..16].copy_from_slice(&self.sources);
        let addresses = self.written.iter().chain(&self.read);
        for (place, address) in bytes[16..].chunks_exact_mut(8).zip(addresses) {
            place.copy_from_slice(&address.to_le_bytes());
        }
        bytes
    }

    /// From the file's bytes.
    pub fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Record {
        let word =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a slice of eight bytes"));
        Record {
            ip: word(0),
            is_branch: bytes[8] != 0,
            taken: bytes[9] != 0,
            destinations: [bytes[10], bytes[11]],
            sources: [bytes[12], bytes[13], bytes[14], bytes[15]],
            written: [word(16), word(24)],
            read: [word(32), word(40), word(48), word(56)],
        }
    }

    /// Of one instruction's ops, the last of which ends it.
    fn of(ops: &[Op]) -> Record {
        let last = ops.last().expect("an instruction has an op");
        let mut record = Record { ip: last.fetch.0, ..Record::default() };
        let register =
            |register: Register| if register == 0 { 0 } else { register.saturating_add(FIRST_REGISTER) };
        let others = last.sources.map(register);
        let other = |place: usize| others.into_iter().filter(|source| *source != 0).nth(place).unwrap_or(0);
        let (ip, sp) = (INSTRUCTION_POINTER, STACK_POINTER);
        record.is_branch = last.class.is_branch();
        record.taken = record.is_branch && last.is_taken();
        (record.destinations, record.sources) = match last.class {
            OpClass::Branch if other(0) == 0 => ([ip, 0], [ip, FLAGS, 0, 0]),
            OpClass::Branch => ([ip, 0], [ip, other(0), other(1), 0]),
            OpClass::Jump => ([ip, 0], [ip, 0, 0, 0]),
            // One that names no register goes to a fixed target.
            OpClass::IndirectJump if other(0) == 0 => ([ip, 0], [ip, 0, 0, 0]),
            OpClass::IndirectJump => ([ip, 0], [other(0), 0, 0, 0]),
            OpClass::Call => ([ip, sp], [ip, sp, 0, 0]),
            OpClass::IndirectCall => ([ip, sp], [ip, sp, other(0), 0]),
            OpClass::Return => ([ip, sp], [sp, other(0), 0, 0]),
            _ => ([register(last.destination), 0], [others[0], others[1], others[2], 0]),
        };
        let reads = |op: &&Op| matches!(op.class, OpClass::Load | OpClass::Atomic);
        let writes = |op: &&Op| {
            op.class == OpClass::Store || op.class == OpClass::Atomic && op.flags & Op::WRITES != 0
        };
        for (place, op) in record.read.iter_mut().zip(ops.iter().filter(reads)) {
            *place = op.phys.0;
        }
        for (place, op) in record.written.iter_mut().zip(ops.iter().filter(writes)) {
            *place = op.phys.0;
        }
        record
    }

    /// What kind of branch ChampSim takes it for; `None` if it does not write the instruction pointer.
    fn branch(&self) -> Option<OpClass> {
        let writes = |register| self.destinations.contains(&register);
        let reads = |register| self.sources.contains(&register);
        let special = [0, STACK_POINTER, FLAGS, INSTRUCTION_POINTER];
        let other = self.sources.iter().any(|source| !special.contains(source));
        if !writes(INSTRUCTION_POINTER) {
            return None;
        }
        let [sp, ip, flags] = [STACK_POINTER, INSTRUCTION_POINTER, FLAGS].map(reads);
        Some(match (sp, ip, writes(STACK_POINTER)) {
            (false, _, _) if !flags && !other => OpClass::Jump,
            (false, false, _) if !flags => OpClass::IndirectJump,
            (true, true, true) if other => OpClass::IndirectCall,
            (true, true, true) => OpClass::Call,
            (true, false, true) => OpClass::Return,
            _ => OpClass::Branch,
        })
    }
}

/// Writes ops as records.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    /// Ops of an instruction that has not ended.
    begun: Vec<Op>,
    written: u64,
}

impl<W: Write> Writer<W> {
    /// Writes to `to`, which should be buffered.
    pub fn new(to: W) -> Writer<W> {
        Writer { to, begun: Vec::new(), written: 0 }
    }

    /// Writes ops that were executed one after the other.
    pub fn write(&mut self, ops: &[Op]) -> io::Result<()> {
        for op in ops {
            self.begun.push(*op);
            if op.ends_instruction() {
                self.to.write_all(&Record::of(&self.begun).to_bytes())?;
                self.begun.clear();
                self.written += 1;
            }
        }
        Ok(())
    }

    /// Instructions written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Gives the output back, flushed.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}

/// Reads a whole trace; one that ends within a record is refused.
pub fn read(mut from: impl Read) -> io::Result<Vec<Record>> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes)?;
    let (records, rest) = bytes.as_chunks::<RECORD_BYTES>();
    if !rest.is_empty() {
        let problem = format!(
            "the trace ends within a record: {} bytes are no multiple of {RECORD_BYTES}",
            bytes.len()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    Ok(records.iter().map(Record::from_bytes).collect())
}

mod ops;
mod pages;
#[cfg(test)]
mod tests;

pub use ops::ops;
pub use pages::PageTables;
