//! Merges the ops of an instruction into one ChampSim record; each op may access memory, compute or branch.
//!
//! Registers that only pass values between the ops of an instruction are left out. Ops made from ChampSim
//! records are converted back with the same branch type, addresses, and registers read and written, so data
//! dependences are preserved. Details that ops cannot express are lost. Registers that a record writes
//! together become one, the first of them. A register renamed to avoid a conflict gets another number, and
//! fields of a record are filled from the front.

use doorbell_sim::op::{INNER_REGISTERS, Register};
use doorbell_sim::{Op, OpClass};

use super::names::default_of;
use super::ops::RegisterList;
use super::{FIRST_REGISTER, FLAGS, INSTRUCTION_POINTER, Record, STACK_POINTER};

/// Meaning of the register numbers in ops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegisterNumbers {
    /// Registers of Doorbell's own traces.
    #[default]
    Own,
    /// Registers that [`ops`](super::ops()) assigned to those of a ChampSim trace.
    ChampSim,
}

/// Record number of a register of Doorbell's own traces.
fn champsim_number(register: Register) -> u8 {
    if register == 0 { 0 } else { register.saturating_add(FIRST_REGISTER) }
}

/// Merges one instruction's ops, the last of which ends it.
fn merged(ops: &[Op], numbers: RegisterNumbers, pointer: Register) -> Record {
    let last = ops.last().expect("an instruction has an op");
    let branch = ops.iter().find(|op| op.class.is_branch());
    let mut record = Record { ip: last.fetch.0, is_branch: branch.is_some(), ..Record::default() };
    record.taken = branch.is_some_and(Op::is_taken);
    (record.destinations, record.sources) = match numbers {
        RegisterNumbers::Own => own_registers(ops, branch),
        RegisterNumbers::ChampSim => champsim_registers(ops, branch, pointer),
    };
    let reads = |op: &&Op| matches!(op.class, OpClass::Load | OpClass::Atomic);
    let writes =
        |op: &&Op| op.class == OpClass::Store || op.class == OpClass::Atomic && op.flags & Op::WRITES != 0;
    for (place, op) in record.read.iter_mut().zip(ops.iter().filter(reads)) {
        *place = op.phys.0;
    }
    for (place, op) in record.written.iter_mut().zip(ops.iter().filter(writes)) {
        *place = op.phys.0;
    }
    record
}

/// Registers written and read by a branch of this class that also reads `others`.
fn branch_registers(class: OpClass, others: [u8; 2]) -> ([u8; 4], [u8; 4]) {
    let (ip, sp, [other, next]) = (INSTRUCTION_POINTER, STACK_POINTER, others);
    let (destinations, sources) = match class {
        OpClass::Branch if other == 0 => ([ip, 0], [ip, FLAGS, 0, 0]),
        OpClass::Branch => ([ip, 0], [ip, other, next, 0]),
        // Without a register, the target is fixed.
        OpClass::IndirectJump if other != 0 => ([ip, 0], [other, 0, 0, 0]),
        OpClass::Call => ([ip, sp], [ip, sp, 0, 0]),
        OpClass::IndirectCall => ([ip, sp], [ip, sp, other, 0]),
        OpClass::Return => ([ip, sp], [sp, other, 0, 0]),
        _ => ([ip, 0], [ip, 0, 0, 0]),
    };
    ([destinations[0], destinations[1], 0, 0], sources)
}

/// Registers that the instruction writes, and those that it reads without having written them itself.
fn own_registers(ops: &[Op], branch: Option<&Op>) -> ([u8; 4], [u8; 4]) {
    if let [op] = ops {
        let [first, second, third] = op.sources.map(champsim_number);
        let mut others = [first, second, third].into_iter().filter(|source| *source != 0);
        return match op.class.is_branch() {
            true => branch_registers(op.class, [others.next().unwrap_or(0), others.next().unwrap_or(0)]),
            false => ([champsim_number(op.destination), 0, 0, 0], [first, second, third, 0]),
        };
    }
    let (mut written, mut read) = (RegisterList::default(), RegisterList::default());
    let mut made = [0u64; 4];
    for op in ops {
        let is_made = |register: Register| made[usize::from(register / 64)] >> (register % 64) & 1 != 0;
        op.sources
            .into_iter()
            .filter(|source| !is_made(*source))
            .for_each(|source| read.add(champsim_number(source)));
        made[usize::from(op.destination / 64)] |= 1 << (op.destination % 64);
        if !INNER_REGISTERS.contains(&op.destination) {
            written.add(champsim_number(op.destination));
        }
    }
    let Some(branch) = branch else { return (written.all, read.all) };
    // An indirect branch through memory must still name a register as its source.
    let fetched = branch.sources.into_iter().find(|source| *source != 0).map_or(0, champsim_number);
    let others = if read.count == 0 { [fetched, 0] } else { [read.all[0], read.all[1]] };
    branch_registers(branch.class, others)
}

/// The same for ops made from a ChampSim record; `pointer` currently represents the instruction pointer.
fn champsim_registers(ops: &[Op], branch: Option<&Op>, pointer: Register) -> ([u8; 4], [u8; 4]) {
    let named = |name: Register| match default_of(name) {
        _ if name == pointer => INSTRUCTION_POINTER,
        // The register is renamed, and `pointer` has another name now. A write of the instruction pointer
        // would be taken for a branch.
        INSTRUCTION_POINTER => FIRST_REGISTER,
        register => register,
    };
    let mut written = RegisterList::default();
    if branch.is_some() {
        written.add(INSTRUCTION_POINTER);
    }
    let results = ops.iter().filter(|op| op.flags & Op::INNER == 0).map(|op| op.destination);
    let all_but_pointer = results.filter(|name| branch.is_none_or(|branch| branch.destination != *name));
    all_but_pointer.for_each(|name| written.add(named(name)));
    if ops.iter().any(|op| op.flags & Op::MOVES_STACK != 0) {
        written.add(STACK_POINTER);
    }
    // The first op reads all registers of the record, except for those that a preceding join op reads.
    let read = match ops {
        [join, next, ..] if join.class == OpClass::Int && join.flags & Op::INNER != 0 => {
            [next.sources[0], join.sources[0], join.sources[1], join.sources[2]]
        }
        _ => [ops[0].sources[0], ops[0].sources[1], ops[0].sources[2], 0],
    };
    let read = read.map(named);
    let record = Record { destinations: written.all, sources: read, ..Record::default() };
    match branch {
        // Registers written together have one name, which may be that of a special register.
        Some(branch) if record.branch() != Some(branch.class) => {
            let special = [0, STACK_POINTER, FLAGS, INSTRUCTION_POINTER];
            let others = read.into_iter().filter(|register| !special.contains(register));
            let is_indirect = matches!(branch.class, OpClass::IndirectJump | OpClass::IndirectCall);
            let mut others = others.chain(is_indirect.then_some(FIRST_REGISTER));
            branch_registers(branch.class, [others.next().unwrap_or(0), others.next().unwrap_or(0)])
        }
        _ => (written.all, read),
    }
}

/// Collects ops until an instruction ends.
#[derive(Debug)]
pub(super) struct Recorder {
    pending: Vec<Op>,
    numbers: RegisterNumbers,
    /// Register that represents the instruction pointer: the one written by the last branch.
    pointer: Register,
}

impl Recorder {
    pub(super) fn new(numbers: RegisterNumbers) -> Recorder {
        Recorder { pending: Vec::new(), numbers, pointer: FIRST_REGISTER }
    }

    /// Adds an op; returns the record if the op ends its instruction.
    pub(super) fn take(&mut self, op: &Op) -> Option<Record> {
        self.pending.push(*op);
        op.ends_instruction().then(|| {
            let record = merged(&self.pending, self.numbers, self.pointer);
            if let Some(branch) = self.pending.iter().find(|op| op.class.is_branch()) {
                self.pointer = branch.destination;
            }
            self.pending.clear();
            record
        })
    }
}

/// Records of consecutive ops. An instruction that has not ended is left out.
pub fn records(ops: &[Op], numbers: RegisterNumbers) -> Vec<Record> {
    let mut recorder = Recorder::new(numbers);
    ops.iter().filter_map(|op| recorder.take(op)).collect()
}
