//! A trace as ops, looked through whole and with lists that grow: what a stream of them must come to as well.

use std::collections::BTreeMap;

use doorbell_sim::op::{REGISTERS, Register};
use proptest::prelude::*;

use super::*;

/// A call is not longer than this; a return that comes back further behind it is somebody else's.
const CALL_BYTES_MAX: u64 = 10;

/// A trace's ops. The last record has no successor and leaves none.
fn whole(records: &[Record]) -> Vec<Op> {
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

    /// Integer registers (and flags) come first, those that the special ones are usually called by last among them: a register that was
    /// renamed is not to be taken for one of these.
    fn free(&self, not: &[Register]) -> Option<Register> {
        (67..=u8::MAX).chain(64..67).chain(1..64).find(|name| self.is_free(*name, not))
    }

    fn is_free(&self, name: Register, not: &[Register]) -> bool {
        self.users[usize::from(name)] == 0 && !not.contains(&name)
    }

    /// Names what an instruction writes, if it can be none of `not`; 0 if it writes nothing.
    fn write(&mut self, written: &[u8], not: &[Register]) -> Register {
        for register in written {
            self.users[usize::from(self.of[usize::from(*register)])] -= 1;
        }
        let mut usual = written.iter().map(|register| usual(*register));
        let name = usual.find(|name| self.is_free(*name, not)).or_else(|| self.free(not));
        let name = match name {
            Some(64..=66) if written.len() > 1 => self.free(not).or(name),
            _ => name,
        };
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
    let mut seen = Vec::new();
    written.retain(|register| {
        !seen.contains(register) && {
            seen.push(*register);
            true
        }
    });
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
    let last = ops[first..].last_mut().expect("there is one at least");
    last.length = length(record, next, taken, calls);
    if record.destinations.contains(&STACK_POINTER) && !written.contains(&STACK_POINTER) {
        last.flags |= Op::MOVES_STACK;
    }
}

/// Bytes of an instruction.
fn length(record: &Record, next: u64, taken: bool, calls: &BTreeMap<u64, u8>) -> u8 {
    let behind = next.wrapping_sub(record.ip);
    let is_call = matches!(record.branch(), Some(OpClass::Call | OpClass::IndirectCall));
    match calls.get(&record.ip) {
        Some(length) if is_call => *length,
        _ if !taken && (1..=15).contains(&behind) => behind as u8,
        _ => 4,
    }
}

/// The ops of a stream, each instruction apart.
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

/// Calls, returns and others at few places, so that calls come back where they should and elsewhere.
fn any_program() -> impl Strategy<Value = Vec<Record>> {
    let kinds: [([u8; 4], [u8; 4]); 5] = [
        ([26, 6, 0, 0], [26, 6, 0, 0]),
        ([26, 6, 0, 0], [26, 6, 10, 0]),
        ([26, 6, 0, 0], [6, 0, 0, 0]),
        ([26, 0, 0, 0], [26, 25, 0, 0]),
        ([10, 0, 0, 0], [10, 0, 0, 0]),
    ];
    let one = (0usize..5, 0u64..24).prop_map(move |(kind, place)| {
        // What one address holds is one kind of instruction, as in programs.
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
fn a_call_has_the_length_of_its_last_return_and_one_that_comes_back_elsewhere_has_not() {
    let call = Record { ip: BASE, destinations: [26, 6, 0, 0], sources: [26, 6, 0, 0], ..Record::default() };
    let ret = Record { ip: BASE + 99, sources: [6, 0, 0, 0], ..call };
    let at = |ip| Record { ip, ..Record::default() };
    let lengths = |behind: [u64; 2]| {
        let [first, second] = behind.map(|behind| at(BASE + behind));
        let ops = ops(&[call, ret, first, call, ret, second]);
        [ops[0].length, ops[3].length]
    };
    assert_eq!(lengths([5, 2]), [2, 2]);
    assert_eq!(lengths([5, 11]), [5, 5]);
    assert_eq!(lengths([11, 0]), [4, 4]);
}

proptest! {
    #[test]
    fn a_stream_has_the_ops_of_the_whole_trace((_, records) in any_variant().prop_flat_map(|variant| (Just(variant), any_records(variant)))) {
        prop_assert_eq!(streamed(&records).concat(), whole(&records));
        prop_assert_eq!(ops(&records), whole(&records));
    }

    #[test]
    fn a_stream_knows_how_long_calls_are_as_the_whole_trace_says(records in any_program()) {
        let instructions = streamed(&records);
        prop_assert_eq!(instructions.len(), records.len().saturating_sub(1));
        prop_assert_eq!(instructions.concat(), whole(&records));
    }

    #[test]
    fn a_stream_that_is_taken_in_pieces_is_the_same(records in any_records(Variant::CloudSuite), piece in 1u64..9) {
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
