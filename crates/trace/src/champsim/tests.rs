//! Record fields, and round trips between ops, records and bytes.

mod files;
mod merged;
mod whole;
mod wrong;

use doorbell_sim::{Op, OpClass, PhysAddr};
use proptest::prelude::*;

use super::*;

const BASE: u64 = 0x8000_0000;

fn op(class: OpClass, place: u64) -> Op {
    let pc = BASE + 4 * place;
    Op { pc, fetch: PhysAddr(pc), class, length: 4, ..Op::default() }
}

fn bytes(variant: Variant, records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| record.put(variant, &mut bytes).unwrap());
    bytes
}

fn parsed(variant: Variant, bytes: &[u8]) -> Vec<Record> {
    let each = bytes.chunks_exact(variant.record_bytes());
    each.map(|bytes| Record::from_bytes(variant, bytes)).collect()
}

fn round_trip(written: &[Op]) -> Vec<Op> {
    let instructions = written.iter().filter(|op| op.ends_instruction()).count();
    let bytes = bytes(Variant::Standard, &records(written, RegisterNumbers::Own));
    assert_eq!(bytes.len(), instructions * 64);
    ops(&parsed(Variant::Standard, &bytes))
}

#[test]
fn standard_record_layout() {
    let store = Op {
        virt: 0x1234,
        phys: PhysAddr(0x9000_0010),
        size: 8,
        sources: [2, 5, 0],
        ..op(OpClass::Store, 1)
    };
    let mut expected = [0u8; 64];
    expected[..8].copy_from_slice(&(BASE + 4).to_le_bytes());
    (expected[12], expected[13]) = (66, 69);
    expected[16..24].copy_from_slice(&0x9000_0010u64.to_le_bytes());
    assert_eq!(bytes(Variant::Standard, &records(&[store], RegisterNumbers::Own)), expected);
}

#[test]
fn cloudsuite_record_layout() {
    let record = Record {
        ip: 0x0102_0304_0506_0708,
        is_branch: true,
        taken: false,
        destinations: [11, 12, 13, 14],
        sources: [21, 22, 23, 24],
        asid: [31, 32],
        written: [0x41, 0x42, 0x43, 0x44],
        read: [0x51, 0x52, 0x53, 0x54],
    };
    let mut expected = vec![8, 7, 6, 5, 4, 3, 2, 1, 1, 0, 11, 12, 13, 14, 21, 22, 23, 24, 0, 0, 0, 0, 0, 0];
    let addresses = (0x41..0x45).chain(0x51..0x55);
    expected.extend(addresses.flat_map(|address: u64| address.to_le_bytes()));
    expected.extend([31, 32, 0, 0, 0, 0, 0, 0]);
    assert_eq!(expected.len(), 96);
    assert_eq!(bytes(Variant::CloudSuite, &[record]), expected);
    for padding in (18..24).chain(90..96) {
        expected[padding] = 0xa5;
    }
    assert_eq!(parsed(Variant::CloudSuite, &expected), [record], "padding may hold anything");
}

#[test]
fn standard_record_has_two_destinations_and_refuses_a_third() {
    let spread = Record { destinations: [0, 7, 0, 9], written: [0, 0, 0x40, 0x80], ..Record::default() };
    let kept = parsed(Variant::Standard, &bytes(Variant::Standard, &[spread]))[0];
    assert_eq!((kept.destinations, kept.written), ([7, 9, 0, 0], [0x40, 0x80, 0, 0]));
    let second = Record { destinations: [0, 7, 0, 0], ..Record::default() };
    assert_eq!(parsed(Variant::Standard, &bytes(Variant::Standard, &[second])), [second], "unchanged");
    let mut to = vec![1];
    for too_many in [
        Record { destinations: [1, 2, 3, 0], ..Record::default() },
        Record { written: [8, 0, 16, 24], ..Record::default() },
    ] {
        assert_eq!(too_many.put(Variant::Standard, &mut to), Err(NoRoom));
        assert_eq!(to, [1], "a refused record leaves no bytes");
        assert_eq!(too_many.put(Variant::CloudSuite, &mut Vec::new()), Ok(()));
    }
}

#[test]
fn branch_types_follow_from_registers() {
    let kinds = [
        (OpClass::Branch, [10, 11, 0]),
        (OpClass::Branch, [0, 0, 0]),
        (OpClass::Jump, [0, 0, 0]),
        (OpClass::IndirectJump, [10, 0, 0]),
        (OpClass::Call, [0, 0, 0]),
        (OpClass::IndirectCall, [10, 0, 0]),
        (OpClass::Return, [1, 0, 0]),
    ];
    for (class, sources) in kinds {
        for taken in [true, false] {
            if !taken && class != OpClass::Branch {
                continue;
            }
            let target = BASE + 0x100;
            let flags = u8::from(taken);
            let branch = Op { sources, flags, virt: target, ..op(class, 0) };
            let next = if taken {
                Op { pc: target, fetch: PhysAddr(target), ..op(OpClass::Int, 0) }
            } else {
                op(OpClass::Int, 1)
            };
            let back = round_trip(&[branch, next]);
            assert_eq!((back.len(), back[0].class, back[0].is_taken()), (1, class, taken));
            assert_eq!(back[0].next_pc(), next.pc);
            assert!(
                sources.iter().all(|source| *source == 0 || back[0].sources.contains(source)),
                "{:?}",
                back[0]
            );
        }
    }
}

#[test]
fn atomics_become_load_and_store_and_split_loads_two_loads() {
    let phys = PhysAddr(0x9000_0000);
    let atomic = Op { phys, flags: Op::WRITES, destination: 7, sources: [8, 9, 0], ..op(OpClass::Atomic, 0) };
    let half = Op { phys, length: 0, destination: 5, sources: [8, 0, 0], ..op(OpClass::Load, 1) };
    let rest = Op { phys: PhysAddr(phys.0 + 64), length: 4, ..half };
    let back = round_trip(&[atomic, half, rest, op(OpClass::Int, 2)]);
    let what: Vec<_> = back.iter().map(|op| (op.class, op.phys.0, op.destination, op.length)).collect();
    assert_eq!(
        what,
        [
            (OpClass::Load, phys.0, 7, 0),
            (OpClass::Store, phys.0, 0, 4),
            (OpClass::Load, phys.0, 5, 0),
            (OpClass::Load, phys.0 + 64, 5, 4),
        ]
    );
}

#[test]
fn call_length_follows_from_its_return() {
    let call = Op { length: 2, flags: Op::TAKEN, virt: BASE + 0x40, ..op(OpClass::Call, 0) };
    let back_to = BASE + 2;
    let ret = Op { flags: Op::TAKEN, virt: back_to, sources: [1, 0, 0], ..op(OpClass::Return, 16) };
    let after = Op { pc: back_to, fetch: PhysAddr(back_to), ..op(OpClass::Int, 0) };
    let read = round_trip(&[call, ret, after]);
    assert_eq!(read[0].length, 2);
}

/// Registers of all kinds, few enough for repeats.
fn any_register() -> impl Strategy<Value = u8> {
    prop_oneof![Just(0u8), 1u8..30, 60u8..70, 96u8..100, 250u8..=255]
}

fn any_record() -> impl Strategy<Value = Record> {
    let address = || prop_oneof![3 => Just(0u64), 1 => 1u64..1 << 20];
    let four = || proptest::array::uniform4(any_register());
    let addresses = (proptest::array::uniform4(address()), proptest::array::uniform4(address()));
    let ip = prop_oneof![any::<u64>(), BASE..BASE + 64];
    (ip, any::<bool>(), four(), four(), any::<[u8; 2]>(), addresses).prop_map(
        |(ip, taken, destinations, sources, asid, (written, read))| Record {
            ip,
            is_branch: taken,
            taken,
            destinations,
            sources,
            asid,
            written,
            read,
        },
    )
}

/// Records within the variant's limits.
fn any_records(variant: Variant) -> impl Strategy<Value = Vec<Record>> {
    let room = variant.destinations();
    let fitting = move |mut record: Record| {
        record.destinations[room..].fill(0);
        record.written[room..].fill(0);
        if variant == Variant::Standard {
            record.asid = [0; 2];
        }
        record
    };
    proptest::collection::vec(any_record().prop_map(fitting), 1..60)
}

fn any_variant() -> impl Strategy<Value = Variant> {
    proptest::sample::select(Variant::ALL.to_vec())
}

/// Data dependences by the trace's registers: the producers of each instruction's sources.
fn producers_by_registers(records: &[Record]) -> Vec<Vec<usize>> {
    let mut writers = [None; 256];
    let mut all = Vec::new();
    for (place, record) in records.iter().enumerate() {
        let sources = || record.sources.into_iter().filter(|source| *source != 0);
        let mut from: Vec<usize> = sources().filter_map(|source| writers[usize::from(source)]).collect();
        from.sort_unstable();
        from.dedup();
        all.push(from);
        let plain = record.read == [0; 4] && record.written == [0; 4] && !record.destinations.contains(&26);
        for register in record.destinations.into_iter().filter(|register| *register != 0) {
            if register != 6 || plain && sources().any(|source| ![6, 25, 26].contains(&source)) {
                writers[usize::from(register)] = Some(place);
            }
        }
    }
    all
}

/// The same by the registers of the ops.
fn producers_by_ops(ops: &[Op]) -> Vec<Vec<usize>> {
    let mut writers = [None; 256];
    let mut all = vec![Vec::new()];
    for op in ops {
        let place = all.len() - 1;
        let from = op.sources.iter().filter_map(|source| writers[usize::from(*source)]);
        all[place].extend(from.filter(|from| *from != place));
        if op.destination != 0 {
            writers[usize::from(op.destination)] = Some(place);
        }
        if op.ends_instruction() {
            all[place].sort_unstable();
            all[place].dedup();
            all.push(Vec::new());
        }
    }
    assert_eq!(all.pop(), Some(Vec::new()), "the last op ends its instruction");
    all
}

/// An instruction that reads and writes these registers.
fn plain(sources: [u8; 4], [first, second]: [u8; 2]) -> Record {
    Record { ip: BASE, sources, destinations: [first, second, 0, 0], ..Record::default() }
}

#[test]
fn pointer_chase_is_a_chain_through_any_register() {
    for register in (1..=255).filter(|register| ![STACK_POINTER, INSTRUCTION_POINTER].contains(register)) {
        let link = Record { read: [0x1000, 0, 0, 0], ..plain([register, 0, 0, 0], [register, 0]) };
        let ops = ops(&[link; 4]);
        assert_eq!(ops.len(), 3);
        assert!(ops[0].destination != 0, "register {register}");
        assert!(ops.windows(2).all(|pair| pair[1].sources[0] == pair[0].destination), "register {register}");
    }
}

#[test]
fn both_results_are_dependences_until_overwritten() {
    let (rax, flags, rbx) = (10, FLAGS, 7);
    let add = plain([rax, rbx, 0, 0], [rax, flags]);
    let copy = plain([rbx, 0, 0, 0], [rax, 0]);
    let of_flags = plain([flags, 0, 0, 0], [rbx, 0]);
    let of_rax = plain([rax, 0, 0, 0], [rbx, 0]);
    let records = [add, of_flags, of_rax, copy, of_flags, of_rax, add];
    let expected: [&[usize]; 6] = [&[], &[0], &[0], &[2], &[0], &[3]];
    assert_eq!(producers_by_ops(&ops(&records)), expected);
}

#[test]
fn fourth_source_register_is_a_dependence() {
    let [a, b, c, d] = [1, 2, 3, 4].map(|register| plain([0; 4], [register, 0]));
    let reads = plain([1, 2, 3, 4], [1, 0]);
    let ops = ops(&[a, b, c, d, reads, a]);
    assert_eq!(producers_by_ops(&ops)[4], [0, 1, 2, 3]);
    let [join, own] = &ops[4..] else { panic!("a join op and the instruction's own: {ops:?}") };
    assert_eq!((join.length, own.length), (0, 4));
    assert!(own.sources.contains(&join.destination));
}

#[test]
fn store_and_jump_depend_on_their_load() {
    let store = Record { read: [64, 0, 0, 0], written: [64, 0, 0, 0], ..plain([1, 2, 0, 0], [FLAGS, 0]) };
    let jump = Record { read: [64, 0, 0, 0], ..plain([1, 0, 0, 0], [INSTRUCTION_POINTER, 0]) };
    for record in [store, jump] {
        let [load, then] = ops(&[record; 2]).try_into().expect("a load and what waits for it");
        assert!(load.destination != 0 && then.sources[1..].contains(&load.destination), "{load:?} {then:?}");
    }
}

#[test]
fn only_variable_stack_pointer_updates_are_dependences() {
    let sp = STACK_POINTER;
    let push = Record { written: [0x1000, 0, 0, 0], ..plain([sp, 10, 0, 0], [sp, 0]) };
    let step = plain([sp, 0, 0, 0], [sp, FLAGS]);
    let variable = plain([sp, 10, 0, 0], [sp, FLAGS]);
    let records = [push, push, step, push, variable, push, push];
    let expected: [&[usize]; 6] = [&[], &[], &[], &[], &[], &[4]];
    assert_eq!(producers_by_ops(&ops(&records)), expected);
}

#[test]
fn trace_using_all_registers_is_converted() {
    let mut records: Vec<_> = (1..=255).map(|register| plain([register; 4], [register, 0])).collect();
    records.push(Record { written: [64, 0, 0, 0], ..plain([1, 2, 3, 4], [0; 2]) });
    records.push(plain([0; 4], [0; 2]));
    assert_eq!(ops(&records).iter().filter(|op| op.ends_instruction()).count(), 256);
}

proptest! {
    #[test]
    fn records_round_trip_through_bytes((variant, records) in any_variant().prop_flat_map(|variant| (Just(variant), any_records(variant)))) {
        prop_assert_eq!(parsed(variant, &bytes(variant, &records)), records);
    }

    #[test]
    fn arbitrary_records_become_ops(variant in any_variant(), bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let records = parsed(variant, &bytes);
        let ops = ops(&records);
        prop_assert_eq!(ops.iter().filter(|op| op.ends_instruction()).count(), records.len().saturating_sub(1));
    }

    #[test]
    fn dependences_match_the_trace_registers(records in proptest::collection::vec(any_record(), 2..60)) {
        prop_assert_eq!(producers_by_ops(&ops(&records)), producers_by_registers(&records[..records.len() - 1]));
    }

    #[test]
    fn plain_ops_keep_registers_and_addresses(sources in any::<[u8; 3]>(), destination in 0u8..64, address in 1u64..1 << 30, kind in 0usize..3) {
        let class = [OpClass::Int, OpClass::Load, OpClass::Store][kind];
        let sources = sources.map(|source| source % 64);
        let destination = if class == OpClass::Store { 0 } else { destination };
        let phys = PhysAddr(if class == OpClass::Int { 0 } else { address });
        let written = Op { sources, destination, phys, ..op(class, 0) };
        let back = round_trip(&[written, op(OpClass::Int, 1)]);
        let mut expected: Vec<u8> = sources.into_iter().filter(|source| *source != 0).collect();
        expected.resize(3, 0);
        prop_assert_eq!(back.len(), 1);
        prop_assert_eq!((back[0].class, back[0].destination, back[0].phys), (class, destination, phys));
        prop_assert_eq!(back[0].sources.to_vec(), expected);
    }
}
