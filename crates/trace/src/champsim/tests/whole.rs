//! Reference conversion of a whole trace, with growing lists: the stream must yield the same ops.

use std::collections::BTreeMap;

use doorbell_sim::op::{REGISTERS, Register};
use proptest::prelude::*;

use super::*;

/// Longest call instruction; a return further after the call does not belong to it.
const CALL_BYTES_MAX: u64 = 10;

/// Converts records to ops. The last record has no successor and yields no ops.
fn reference_ops(records: &[Record]) -> Vec<Op> {
    let calls = call_lengths(records);
    let mut names = Names::new(records);
    let mut ops = Vec::with_capacity(records.len());
    for pair in records.windows(2) {
        convert(&pair[0], pair[1].ip, &calls, &mut names, &mut ops);
    }
    ops
}

/// Lengths of call instructions, derived from their returns.
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

/// Core register of each trace register.
struct Names {
    of: [Register; REGISTERS],
    /// Number of trace registers that each core register represents. Registers that the trace never uses are
    /// not counted.
    users: [u8; REGISTERS],
}

/// Default core register of a trace register. Doorbell's registers, which the writer numbers from
/// [`FIRST_REGISTER`], keep their numbers; the special ones follow, then all others.
fn default_of(register: u8) -> Register {
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
            names.of[usize::from(register)] = default_of(register);
        }
        for register in records.iter().flat_map(|record| record.sources.iter().chain(&record.destinations)) {
            names.users[usize::from(default_of(*register))] = 1;
        }
        names
    }

    /// A core register that represents none of the trace's; 0 if all are in use.
    fn spare(&self) -> Register {
        self.free(&[]).unwrap_or(0)
    }

    /// A free register other than `not`. Integer registers and flags are preferred; the defaults of the
    /// special registers come last among these, so that a renamed register is not mistaken for a special one.
    fn free(&self, not: &[Register]) -> Option<Register> {
        (67..=u8::MAX).chain(64..67).chain(1..64).find(|name| self.is_free(*name, not))
    }

    fn is_free(&self, name: Register, not: &[Register]) -> bool {
        self.users[usize::from(name)] == 0 && !not.contains(&name)
    }

    /// Assigns a register other than `not` to an instruction's results; 0 if it writes none.
    fn write(&mut self, written: &[u8], not: &[Register]) -> Register {
        for register in written {
            self.users[usize::from(self.of[usize::from(*register)])] -= 1;
        }
        let mut default_of = written.iter().map(|register| default_of(*register));
        let name = default_of.find(|name| self.is_free(*name, not)).or_else(|| self.free(not));
        let name = match name {
            Some(64..=66) if written.len() > 1 => self.free(not).or(name),
            _ => name,
        };
        // If all others are in use, only the register just released is left.
        let name = name.or_else(|| self.free(&[])).filter(|_| !written.is_empty()).unwrap_or(0);
        for register in written {
            self.of[usize::from(*register)] = name;
            self.users[usize::from(name)] += 1;
        }
        name
    }
}

/// Result registers that later instructions depend on.
fn written(record: &Record, is_branch: bool) -> Vec<u8> {
    let special = [0, STACK_POINTER, FLAGS, INSTRUCTION_POINTER];
    let by_a_variable = record.sources.iter().any(|source| !special.contains(source));
    let accesses = record.read.iter().chain(&record.written).any(|address| *address != 0);
    let folded = is_branch || accesses || !by_a_variable;
    let mut written = record.destinations.to_vec();
    written.retain(|register| *register != 0 && !(folded && *register == STACK_POINTER));
    let mut unique = Vec::new();
    written.retain(|register| {
        !unique.contains(register) && {
            unique.push(*register);
            true
        }
    });
    written
}

/// Appends the ops of a record; `next` is the address of the following instruction.
fn convert(record: &Record, next: u64, calls: &BTreeMap<u64, u8>, names: &mut Names, ops: &mut Vec<Op>) {
    let class = record.branch();
    let taken = class.is_some_and(|class| class != OpClass::Branch || record.taken);
    let first = ops.len();
    let loads = || record.read.iter().filter(|address| **address != 0);
    let stores = || record.written.iter().filter(|address| **address != 0);

    let sources = record.sources.iter().filter(|source| **source != 0);
    let mut sources: Vec<Register> = sources.map(|source| names.of[usize::from(*source)]).collect();
    let several =
        sources.len() > 3 || stores().count() > 0 || loads().count() + usize::from(class.is_some()) > 1;
    // The result of one op must not overwrite a source of the next.
    let not = if several { sources.clone() } else { Vec::new() };
    let written = written(record, class.is_some());
    let result = names.write(&written, &not);
    let between = if result == 0 && several { names.spare() } else { result };

    let op = Op { pc: record.ip, fetch: PhysAddr(record.ip), ..Op::default() };
    let reading = |sources: &[Register]| {
        let mut all = [0; 3];
        all.iter_mut().zip(sources).for_each(|(place, source)| *place = *source);
        all
    };
    if sources.len() > 3 {
        ops.push(Op { sources: reading(&sources[1..]), destination: between, flags: Op::INNER, ..op });
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
        let flags = if loaded == result { 0 } else { Op::INNER };
        ops.push(Op { destination: loaded, flags, ..access(OpClass::Load, *address, &sources) });
    }
    if loads().next().is_some() {
        // The remaining ops depend on the loads' sources through the last load.
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
    let last = ops[first..].last_mut().expect("there is one at least");
    last.length = length(record, next, taken, calls);
    if record.destinations.contains(&STACK_POINTER) && !written.contains(&STACK_POINTER) {
        last.flags |= Op::MOVES_STACK;
    }
}

/// Length of an instruction in bytes.
fn length(record: &Record, next: u64, taken: bool, calls: &BTreeMap<u64, u8>) -> u8 {
    let distance = next.wrapping_sub(record.ip);
    let is_call = matches!(record.branch(), Some(OpClass::Call | OpClass::IndirectCall));
    match calls.get(&record.ip) {
        Some(length) if is_call => *length,
        _ if !taken && (1..=15).contains(&distance) => distance as u8,
        _ => 4,
    }
}

/// Ops of a stream, by instruction.
fn streamed(records: &[Record]) -> Vec<Vec<Op>> {
    let each = || records.iter().map(|record| Ok::<Record, Error>(*record));
    let mut stream = OpStream::new(each(), Survey::of(each()).unwrap());
    let mut instructions = Vec::new();
    let mut ops = Vec::new();
    while stream.instruction(&mut ops).unwrap() {
        instructions.push(std::mem::take(&mut ops));
    }
    assert!(!stream.instruction(&mut ops).unwrap(), "it stays at its end");
    assert!(ops.is_empty());
    instructions
}

/// Calls, returns and other instructions at few addresses, so that calls return to the right place or
/// elsewhere.
fn any_program() -> impl Strategy<Value = Vec<Record>> {
    let kinds: [([u8; 4], [u8; 4]); 5] = [
        ([26, 6, 0, 0], [26, 6, 0, 0]),
        ([26, 6, 0, 0], [26, 6, 10, 0]),
        ([26, 6, 0, 0], [6, 0, 0, 0]),
        ([26, 0, 0, 0], [26, 25, 0, 0]),
        ([10, 0, 0, 0], [10, 0, 0, 0]),
    ];
    let one = (0usize..5, 0u64..24).prop_map(move |(kind, place)| {
        // Each address holds one kind of instruction, as in programs.
        let kind = (kind + place as usize) % 5;
        let ip = BASE + 16 * kind as u64 + place % 3 * 100 + place / 3;
        Record {
            ip,
            taken: true,
            is_branch: kind < 4,
            destinations: kinds[kind].0,
            sources: kinds[kind].1,
            ..Record::default()
        }
    });
    proptest::collection::vec(one, 0..200)
}

#[test]
fn call_length_follows_its_last_matching_return() {
    let call = Record { ip: BASE, destinations: [26, 6, 0, 0], sources: [26, 6, 0, 0], ..Record::default() };
    let ret = Record { ip: BASE + 99, sources: [6, 0, 0, 0], ..call };
    let at = |ip| Record { ip, ..Record::default() };
    let lengths = |offsets: [u64; 2]| {
        let [first, second] = offsets.map(|offset| at(BASE + offset));
        let ops = ops(&[call, ret, first, call, ret, second]);
        [ops[0].length, ops[3].length]
    };
    assert_eq!(lengths([5, 2]), [2, 2]);
    assert_eq!(lengths([5, 11]), [5, 5]);
    assert_eq!(lengths([11, 0]), [4, 4]);
}

proptest! {
    #[test]
    fn stream_yields_the_reference_ops((_, records) in any_variant().prop_flat_map(|variant| (Just(variant), any_records(variant)))) {
        prop_assert_eq!(streamed(&records).concat(), reference_ops(&records));
        prop_assert_eq!(ops(&records), reference_ops(&records));
    }

    #[test]
    fn stream_yields_the_reference_call_lengths(records in any_program()) {
        let instructions = streamed(&records);
        prop_assert_eq!(instructions.len(), records.len().saturating_sub(1));
        prop_assert_eq!(instructions.concat(), reference_ops(&records));
    }

    #[test]
    fn stream_read_in_pieces_is_unchanged(records in any_records(Variant::CloudSuite), piece in 1u64..9) {
        let each = || records.iter().map(|record| Ok::<Record, Error>(*record));
        let mut stream = OpStream::new(each(), Survey::of(each()).unwrap());
        let (mut all, mut total) = (Vec::new(), 0);
        loop {
            let taken = stream.instructions(piece, &mut all).unwrap();
            total += taken;
            if taken < piece {
                break;
            }
        }
        prop_assert_eq!(total as usize, records.len() - 1);
        prop_assert_eq!(all, ops(&records));
    }
}
