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
//! The reader gives ops as ChampSim understands the record: branches depend on the branch before them (through the instruction
//! pointer), and a load overlaps a store only if it has the same address.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use doorbell_sim::op::Register;
use doorbell_sim::{Op, OpClass, PhysAddr};

/// Bytes of a record.
pub const RECORD_BYTES: usize = 64;

/// ChampSim's special registers.
const STACK_POINTER: u8 = 6;
const FLAGS: u8 = 25;
const INSTRUCTION_POINTER: u8 = 26;
/// Our register 1 is the one after this.
const FIRST_REGISTER: u8 = 64;
/// What the special registers are in ops.
const OUR_INSTRUCTION_POINTER: Register = 64;
const OUR_FLAGS: Register = 65;
const OUR_STACK_POINTER: Register = 66;

/// A call is not longer than this; a return that comes back further behind it is somebody else's.
const CALL_BYTES_MAX: u64 = 10;

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

/// A trace's ops: loads, then what the instruction does, then stores. The last record has no successor and leaves none.
pub fn ops(records: &[Record]) -> Vec<Op> {
    let calls = call_lengths(records);
    let mut ops = Vec::with_capacity(records.len());
    for pair in records.windows(2) {
        one(&pair[0], pair[1].ip, &calls, &mut ops);
    }
    ops
}

/// How long calls are: what a return comes back behind.
fn call_lengths(records: &[Record]) -> BTreeMap<u64, u8> {
    let (mut lengths, mut stack) = (BTreeMap::new(), Vec::new());
    for pair in records.windows(2) {
        match pair[0].branch() {
            Some(OpClass::Call | OpClass::IndirectCall) => stack.push(pair[0].ip),
            Some(OpClass::Return) => {
                let Some(call) = stack.pop() else { continue };
                let length = pair[1].ip.wrapping_sub(call);
                if (1..=CALL_BYTES_MAX).contains(&length) {
                    lengths.insert(call, length as u8);
                }
            }
            _ => {}
        }
    }
    lengths
}

/// The ops of a record that is followed by the instruction at `next`.
fn one(record: &Record, next: u64, calls: &BTreeMap<u64, u8>, ops: &mut Vec<Op>) {
    let class = record.branch();
    let taken = class.is_some_and(|class| class != OpClass::Branch || record.taken);
    let behind = next.wrapping_sub(record.ip);
    let length = match calls.get(&record.ip) {
        Some(length) => *length,
        None if !taken && (1..=15).contains(&behind) => behind as u8,
        None => 4,
    };
    let number = |register: u8| match register {
        0 => 0,
        STACK_POINTER => OUR_STACK_POINTER,
        FLAGS => OUR_FLAGS,
        INSTRUCTION_POINTER => OUR_INSTRUCTION_POINTER,
        other => other.saturating_sub(FIRST_REGISTER).min(63),
    };
    let mut sources = [0; 3];
    let read = record.sources.iter().filter(|source| **source != 0);
    sources.iter_mut().zip(read).for_each(|(place, source)| *place = number(*source));
    let op = Op { pc: record.ip, fetch: PhysAddr(record.ip), sources, ..Op::default() };
    let destination = number(record.destinations[0]);
    let access =
        |class: OpClass, address: u64| Op { class, virt: address, phys: PhysAddr(address), size: 1, ..op };
    let first = ops.len();
    for address in record.read.iter().filter(|address| **address != 0) {
        ops.push(Op { destination, ..access(OpClass::Load, *address) });
    }
    if let Some(class) = class {
        let flags = u8::from(taken) * Op::TAKEN;
        ops.push(Op { class, destination: OUR_INSTRUCTION_POINTER, virt: next, flags, ..op });
    }
    for address in record.written.iter().filter(|address| **address != 0) {
        ops.push(access(OpClass::Store, *address));
    }
    if ops.len() == first {
        ops.push(Op { destination, ..op });
    }
    ops.last_mut().expect("there is one at least").length = length;
}

#[cfg(test)]
mod tests;
