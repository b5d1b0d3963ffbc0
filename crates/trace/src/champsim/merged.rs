//! A record of an instruction's ops: all of them, each of which may access memory, compute or branch.
//!
//! Registers that pass between the ops of an instruction are none of the record's. Of a ChampSim record that became ops come back: its kind
//! of branch, its addresses, what it reads and writes, and so which instructions wait for which. What an op cannot tell is lost:
//! registers that a record writes together are one register from then on, the first of them; one that was renamed for another's sake comes
//! back by another number; and places within a record are filled from the front.

use doorbell_sim::op::{INNER_REGISTERS, Register};
use doorbell_sim::{Op, OpClass};

use super::names::usually;
use super::ops::Few;
use super::{FIRST_REGISTER, FLAGS, INSTRUCTION_POINTER, Record, STACK_POINTER};

/// Whose numbers the registers of ops are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// Those of Doorbell's own traces.
    #[default]
    Own,
    /// Those that [`ops`](super::ops()) gives to a ChampSim trace's.
    ChampSim,
}

/// A register of our own traces, as it is numbered in a record.
fn own(register: Register) -> u8 {
    if register == 0 { 0 } else { register.saturating_add(FIRST_REGISTER) }
}

/// The record of one instruction's ops, the last of which ends it.
fn merged(ops: &[Op], numbers: Numbers, pointer: Register) -> Record {
    let last = ops.last().expect("an instruction has an op");
    let branch = ops.iter().find(|op| op.class.is_branch());
    let mut record = Record { ip: last.fetch.0, is_branch: branch.is_some(), ..Record::default() };
    record.taken = branch.is_some_and(Op::is_taken);
    (record.destinations, record.sources) = match numbers {
        Numbers::Own => own_registers(ops, branch),
        Numbers::ChampSim => champsim_registers(ops, branch, pointer),
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

/// What a record writes and reads that is a branch of this kind, and reads others besides.
fn of_branch(class: OpClass, others: [u8; 2]) -> ([u8; 4], [u8; 4]) {
    let (ip, sp, [other, next]) = (INSTRUCTION_POINTER, STACK_POINTER, others);
    let (destinations, sources) = match class {
        OpClass::Branch if other == 0 => ([ip, 0], [ip, FLAGS, 0, 0]),
        OpClass::Branch => ([ip, 0], [ip, other, next, 0]),
        // One that names no register goes to a fixed target.
        OpClass::IndirectJump if other != 0 => ([ip, 0], [other, 0, 0, 0]),
        OpClass::Call => ([ip, sp], [ip, sp, 0, 0]),
        OpClass::IndirectCall => ([ip, sp], [ip, sp, other, 0]),
        OpClass::Return => ([ip, sp], [sp, other, 0, 0]),
        _ => ([ip, 0], [ip, 0, 0, 0]),
    };
    ([destinations[0], destinations[1], 0, 0], sources)
}

/// What the instruction writes, and what it reads that it has not written itself.
fn own_registers(ops: &[Op], branch: Option<&Op>) -> ([u8; 4], [u8; 4]) {
    if let [op] = ops {
        let [first, second, third] = op.sources.map(own);
        let mut others = [first, second, third].into_iter().filter(|source| *source != 0);
        return match op.class.is_branch() {
            true => of_branch(op.class, [others.next().unwrap_or(0), others.next().unwrap_or(0)]),
            false => ([own(op.destination), 0, 0, 0], [first, second, third, 0]),
        };
    }
    let (mut written, mut read) = (Few::default(), Few::default());
    let mut made = [0u64; 4];
    for op in ops {
        let is_made = |register: Register| made[usize::from(register / 64)] >> (register % 64) & 1 != 0;
        op.sources.into_iter().filter(|source| !is_made(*source)).for_each(|source| read.add(own(source)));
        made[usize::from(op.destination / 64)] |= 1 << (op.destination % 64);
        if !INNER_REGISTERS.contains(&op.destination) {
            written.add(own(op.destination));
        }
    }
    let Some(branch) = branch else { return (written.all, read.all) };
    // One through memory alone still goes where a register says.
    let fetched = branch.sources.into_iter().find(|source| *source != 0).map_or(0, own);
    let others = if read.count == 0 { [fetched, 0] } else { [read.all[0], read.all[1]] };
    of_branch(branch.class, others)
}

/// The same of ops that were made of a record, while one of the core's registers stands for the instruction pointer.
fn champsim_registers(ops: &[Op], branch: Option<&Op>, pointer: Register) -> ([u8; 4], [u8; 4]) {
    let named = |name: Register| match usually(name) {
        _ if name == pointer => INSTRUCTION_POINTER,
        // Another has its name meanwhile. Who wrote the pointer would be taken for a branch.
        INSTRUCTION_POINTER => FIRST_REGISTER,
        register => register,
    };
    let mut written = Few::default();
    if branch.is_some() {
        written.add(INSTRUCTION_POINTER);
    }
    let results = ops.iter().filter(|op| op.flags & Op::INNER == 0).map(|op| op.destination);
    let all_but_pointer = results.filter(|name| branch.is_none_or(|branch| branch.destination != *name));
    all_but_pointer.for_each(|name| written.add(named(name)));
    if ops.iter().any(|op| op.flags & Op::MOVES_STACK != 0) {
        written.add(STACK_POINTER);
    }
    // What comes first reads all that the record reads, but for what an op before it joins.
    let read = match ops {
        [join, next, ..] if join.class == OpClass::Int && join.flags & Op::INNER != 0 => {
            [next.sources[0], join.sources[0], join.sources[1], join.sources[2]]
        }
        _ => [ops[0].sources[0], ops[0].sources[1], ops[0].sources[2], 0],
    };
    let read = read.map(named);
    let record = Record { destinations: written.all, sources: read, ..Record::default() };
    match branch {
        // Registers that were written together have one name, which may be a special one's.
        Some(branch) if record.branch() != Some(branch.class) => {
            let special = [0, STACK_POINTER, FLAGS, INSTRUCTION_POINTER];
            let others = read.into_iter().filter(|register| !special.contains(register));
            let is_indirect = matches!(branch.class, OpClass::IndirectJump | OpClass::IndirectCall);
            let mut others = others.chain(is_indirect.then_some(FIRST_REGISTER));
            of_branch(branch.class, [others.next().unwrap_or(0), others.next().unwrap_or(0)])
        }
        _ => (written.all, read),
    }
}

/// Gathers ops until an instruction has ended.
#[derive(Debug)]
pub(super) struct Recorder {
    begun: Vec<Op>,
    numbers: Numbers,
    /// What stands for the instruction pointer: what the branch before wrote.
    pointer: Register,
}

impl Recorder {
    pub(super) fn new(numbers: Numbers) -> Recorder {
        Recorder { begun: Vec::new(), numbers, pointer: FIRST_REGISTER }
    }

    /// Takes the next op; the instruction that it ends.
    pub(super) fn take(&mut self, op: &Op) -> Option<Record> {
        self.begun.push(*op);
        op.ends_instruction().then(|| {
            let record = merged(&self.begun, self.numbers, self.pointer);
            if let Some(branch) = self.begun.iter().find(|op| op.class.is_branch()) {
                self.pointer = branch.destination;
            }
            self.begun.clear();
            record
        })
    }
}

/// The records of ops that were executed one after the other. Those of an instruction that has not ended are left out.
pub fn records(ops: &[Op], numbers: Numbers) -> Vec<Record> {
    let mut recorder = Recorder::new(numbers);
    ops.iter().filter_map(|op| recorder.take(op)).collect()
}
