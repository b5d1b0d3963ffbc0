//! A trace's ops, as ChampSim understands its records.
//!
//! An instruction is one op, or several: its loads, then what it computes or where it jumps, then its stores. Every number but 0 is
//! a register. An op writes one register and reads three, a record writes two and reads four, so registers are *renamed*: what an
//! instruction writes gets one of the core's registers, which stands for both of the trace's until either is written again; and
//! one that reads four registers is an op more, which joins three of them. What an instruction loads, its stores and its jump
//! wait for. A branch depends on the branch before it, through the instruction pointer. The stack pointer is folded as ChampSim
//! does it (`do_stack_pointer_folding` in its `ooo_cpu.cc`): branches, accesses to memory and constant steps leave it behind without
//! anybody's having to wait, as a stack engine does. A load overlaps a store only if it has the same address. Of several loads of
//! one instruction the last is what others wait for.

use std::collections::BTreeMap;

use doorbell_sim::op::{REGISTERS, Register};
use doorbell_sim::{Op, OpClass, PhysAddr};

use super::{FIRST_REGISTER, FLAGS, INSTRUCTION_POINTER, Record, STACK_POINTER};

/// A call is not longer than this; a return that comes back further behind it is somebody else's.
const CALL_BYTES_MAX: u64 = 10;

/// A trace's ops. The last record has no successor and leaves none.
pub fn ops(records: &[Record]) -> Vec<Op> {
    let calls = call_lengths(records);
    let mut names = Names::new(records);
    let mut ops = Vec::with_capacity(records.len());
    for pair in records.windows(2) {
        one(&pair[0], pair[1].ip, &calls, &mut names, &mut ops);
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

/// Which of the core's registers stands for each of the trace's.
struct Names {
    of: [Register; REGISTERS],
    /// How many of the trace's registers each of the core's stands for. Those that the trace never names need none.
    users: [u8; REGISTERS],
}

/// The core's register for one of the trace's while there is no reason for another. Ours, which the writer numbers from
/// [`FIRST_REGISTER`] on, come back as they were; the special ones follow them, and then all the others.
fn usual(register: u8) -> Register {
    let first = FIRST_REGISTER;
    let special = [INSTRUCTION_POINTER, FLAGS, STACK_POINTER];
    if register == 0 || (first + 1..2 * first).contains(&register) {
        return register.saturating_sub(first);
    }
    match special.iter().position(|other| *other == register) {
        Some(place) => first + place as u8,
        None if register > first => register,
        None => first + 2 + register - special.iter().filter(|other| **other < register).count() as u8,
    }
}

impl Names {
    fn new(records: &[Record]) -> Names {
        let mut names = Names { of: [0; REGISTERS], users: [0; REGISTERS] };
        for register in 1..=u8::MAX {
            names.of[usize::from(register)] = usual(register);
        }
        for register in records.iter().flat_map(|record| record.sources.iter().chain(&record.destinations)) {
            names.users[usize::from(usual(*register))] = 1;
        }
        names
    }

    /// A register of the core's that stands for none of the trace's; 0 where the trace needs them all.
    fn spare(&self) -> Register {
        self.free(&[]).unwrap_or(0)
    }

    /// Integer registers (and flags) come first.
    fn free(&self, not: &[Register]) -> Option<Register> {
        (64..=u8::MAX).chain(1..64).find(|name| self.is_free(*name, not))
    }

    fn is_free(&self, name: Register, not: &[Register]) -> bool {
        self.users[usize::from(name)] == 0 && !not.contains(&name)
    }

    /// Names what an instruction writes, if it can be none of `not`; 0 if it writes nothing.
    fn write(&mut self, written: &[u8], not: &[Register]) -> Register {
        for register in written {
            self.users[usize::from(self.of[usize::from(*register)])] -= 1;
        }
        let usual = || written.iter().map(|register| usual(*register));
        let name = usual().find(|name| self.is_free(*name, not)).or_else(|| self.free(not));
        // Where all others are taken, what has just been given up is left.
        let name = name.or_else(|| self.free(&[])).filter(|_| !written.is_empty()).unwrap_or(0);
        for register in written {
            self.of[usize::from(*register)] = name;
            self.users[usize::from(name)] += 1;
        }
        name
    }
}

/// The registers that an instruction writes for others to wait for.
fn written(record: &Record, is_branch: bool) -> Vec<u8> {
    let special = [0, STACK_POINTER, FLAGS, INSTRUCTION_POINTER];
    let by_a_variable = record.sources.iter().any(|source| !special.contains(source));
    let accesses = record.read.iter().chain(&record.written).any(|address| *address != 0);
    let folded = is_branch || accesses || !by_a_variable;
    let mut written = record.destinations.to_vec();
    written.retain(|register| *register != 0 && !(folded && *register == STACK_POINTER));
    written.dedup();
    written
}

/// The ops of a record that is followed by the instruction at `next`.
fn one(record: &Record, next: u64, calls: &BTreeMap<u64, u8>, names: &mut Names, ops: &mut Vec<Op>) {
    let class = record.branch();
    let taken = class.is_some_and(|class| class != OpClass::Branch || record.taken);
    let first = ops.len();
    let loads = || record.read.iter().filter(|address| **address != 0);
    let stores = || record.written.iter().filter(|address| **address != 0);

    let sources = record.sources.iter().filter(|source| **source != 0);
    let mut sources: Vec<Register> = sources.map(|source| names.of[usize::from(*source)]).collect();
    let several =
        sources.len() > 3 || stores().count() > 0 || loads().count() + usize::from(class.is_some()) > 1;
    // What one op writes the next one must not read by mistake.
    let not = if several { sources.clone() } else { Vec::new() };
    let result = names.write(&written(record, class.is_some()), &not);
    let between = if result == 0 && several { names.spare() } else { result };

    let op = Op { pc: record.ip, fetch: PhysAddr(record.ip), ..Op::default() };
    let reading = |sources: &[Register]| {
        let mut all = [0; 3];
        all.iter_mut().zip(sources).for_each(|(place, source)| *place = *source);
        all
    };
    if sources.len() > 3 {
        ops.push(Op { sources: reading(&sources[1..]), destination: between, ..op });
        sources = vec![sources[0], between];
    }
    let access = |class: OpClass, address: u64, sources: &[Register]| Op {
        class,
        virt: address,
        phys: PhysAddr(address),
        size: 1,
        sources: reading(sources),
        ..op
    };
    for address in loads() {
        let loaded = if class.is_some() || stores().next().is_some() { between } else { result };
        ops.push(Op { destination: loaded, ..access(OpClass::Load, *address, &sources) });
    }
    if loads().next().is_some() {
        // All that the loads waited for, they have waited for.
        sources = sources.first().copied().into_iter().chain([between]).collect();
    }
    if let Some(class) = class {
        let flags = u8::from(taken) * Op::TAKEN;
        ops.push(Op { class, sources: reading(&sources), destination: result, virt: next, flags, ..op });
    } else if loads().next().is_none() && (result != 0 || stores().next().is_none()) {
        ops.push(Op { sources: reading(&sources), destination: result, ..op });
    }
    for address in stores() {
        ops.push(access(OpClass::Store, *address, &sources));
    }
    ops[first..].last_mut().expect("there is one at least").length = length(record, next, taken, calls);
}

/// Bytes of an instruction.
fn length(record: &Record, next: u64, taken: bool, calls: &BTreeMap<u64, u8>) -> u8 {
    let behind = next.wrapping_sub(record.ip);
    match calls.get(&record.ip) {
        Some(length) => *length,
        None if !taken && (1..=15).contains(&behind) => behind as u8,
        None => 4,
    }
}
