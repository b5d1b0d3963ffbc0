//! The format field by field, and what comes back of what was written.

use super::*;
use doorbell_sim::PhysAddr;
use proptest::prelude::*;

const BASE: u64 = 0x8000_0000;

fn op(class: OpClass, place: u64) -> Op {
    let pc = BASE + 4 * place;
    Op { pc, fetch: PhysAddr(pc), class, length: 4, ..Op::default() }
}

fn round_trip(written: &[Op]) -> Vec<Op> {
    let mut writer = Writer::new(Vec::new());
    writer.write(written).unwrap();
    let instructions = written.iter().filter(|op| op.ends_instruction()).count();
    assert_eq!(writer.written(), instructions as u64);
    let bytes = writer.finish().unwrap();
    assert_eq!(bytes.len(), instructions * RECORD_BYTES);
    ops(&read(bytes.as_slice()).unwrap())
}

#[test]
fn fields_stand_where_the_format_has_them() {
    let store = Op {
        virt: 0x1234,
        phys: PhysAddr(0x9000_0010),
        size: 8,
        sources: [2, 5, 0],
        ..op(OpClass::Store, 1)
    };
    let bytes = Record::of(&[store]).to_bytes();
    let mut expected = [0u8; 64];
    expected[..8].copy_from_slice(&(BASE + 4).to_le_bytes());
    (expected[12], expected[13]) = (66, 69);
    expected[16..24].copy_from_slice(&0x9000_0010u64.to_le_bytes());
    assert_eq!(bytes, expected);
}

#[test]
fn every_kind_of_branch_is_told_from_the_others_by_its_registers() {
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
fn an_atomic_reads_and_then_writes_and_a_split_load_is_two() {
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
fn a_call_is_as_long_as_its_return_comes_back_behind_it() {
    let call = Op { length: 2, flags: Op::TAKEN, virt: BASE + 0x40, ..op(OpClass::Call, 0) };
    let back_to = BASE + 2;
    let ret = Op { flags: Op::TAKEN, virt: back_to, sources: [1, 0, 0], ..op(OpClass::Return, 16) };
    let after = Op { pc: back_to, fetch: PhysAddr(back_to), ..op(OpClass::Int, 0) };
    let read = round_trip(&[call, ret, after]);
    assert_eq!(read[0].length, 2);
}

#[test]
fn a_trace_that_ends_within_a_record_is_refused() {
    let error = read([0u8; 100].as_slice()).unwrap_err();
    assert!(error.to_string().contains("100 bytes are no multiple of 64"), "{error}");
    assert!(read([0u8; 0].as_slice()).unwrap().is_empty());
}

/// Registers of all kinds, few enough to meet again.
fn any_register() -> impl Strategy<Value = u8> {
    prop_oneof![Just(0u8), 1u8..30, 60u8..70, 96u8..100, 250u8..=255]
}

fn any_record() -> impl Strategy<Value = Record> {
    let address = || prop_oneof![3 => Just(0u64), 1 => 1u64..1 << 20];
    let registers = (proptest::array::uniform2(any_register()), proptest::array::uniform4(any_register()));
    let addresses = (proptest::array::uniform2(address()), proptest::array::uniform4(address()));
    (any::<u64>(), any::<bool>(), registers, addresses).prop_map(|(ip, taken, registers, addresses)| Record {
        ip,
        is_branch: taken,
        taken,
        destinations: registers.0,
        sources: registers.1,
        written: addresses.0,
        read: addresses.1,
    })
}

/// By the trace's registers: which instructions wrote what each one reads.
fn producers_by_registers(records: &[Record]) -> Vec<Vec<usize>> {
    let mut writers = [None; 256];
    let mut all = Vec::new();
    for (place, record) in records.iter().enumerate() {
        let sources = || record.sources.into_iter().filter(|source| *source != 0);
        let mut from: Vec<usize> = sources().filter_map(|source| writers[usize::from(source)]).collect();
        from.sort_unstable();
        from.dedup();
        all.push(from);
        let plain = record.read == [0; 4] && record.written == [0; 2] && !record.destinations.contains(&26);
        for register in record.destinations.into_iter().filter(|register| *register != 0) {
            if register != 6 || plain && sources().any(|source| ![6, 25, 26].contains(&source)) {
                writers[usize::from(register)] = Some(place);
            }
        }
    }
    all
}

/// The same by the registers of their ops.
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
fn plain(sources: [u8; 4], destinations: [u8; 2]) -> Record {
    Record { ip: BASE, sources, destinations, ..Record::default() }
}

#[test]
fn every_number_is_a_register_so_that_a_pointer_chase_is_a_chain() {
    for register in (1..=255).filter(|register| ![STACK_POINTER, INSTRUCTION_POINTER].contains(register)) {
        let link = Record { read: [0x1000, 0, 0, 0], ..plain([register, 0, 0, 0], [register, 0]) };
        let ops = ops(&[link; 4]);
        assert_eq!(ops.len(), 3);
        assert!(ops[0].destination != 0, "register {register}");
        assert!(ops.windows(2).all(|pair| pair[1].sources[0] == pair[0].destination), "register {register}");
    }
}

#[test]
fn two_registers_that_an_instruction_writes_are_waited_for_until_each_is_written_again() {
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
fn a_fourth_register_that_is_read_is_waited_for() {
    let [a, b, c, d] = [1, 2, 3, 4].map(|register| plain([0; 4], [register, 0]));
    let reads = plain([1, 2, 3, 4], [1, 0]);
    let ops = ops(&[a, b, c, d, reads, a]);
    assert_eq!(producers_by_ops(&ops)[4], [0, 1, 2, 3]);
    let [join, own] = &ops[4..] else { panic!("an op that joins, and its own: {ops:?}") };
    assert_eq!((join.length, own.length), (0, 4));
    assert!(own.sources.contains(&join.destination));
}

#[test]
fn a_store_and_a_jump_wait_for_what_their_instruction_has_loaded() {
    let store = Record { read: [64, 0, 0, 0], written: [64, 0], ..plain([1, 2, 0, 0], [FLAGS, 0]) };
    let jump = Record { read: [64, 0, 0, 0], ..plain([1, 0, 0, 0], [INSTRUCTION_POINTER, 0]) };
    for record in [store, jump] {
        let [load, then] = ops(&[record; 2]).try_into().expect("a load and what waits for it");
        assert!(load.destination != 0 && then.sources[1..].contains(&load.destination), "{load:?} {then:?}");
    }
}

#[test]
fn pushes_and_calls_leave_the_stack_pointer_behind_at_once_and_only_a_variable_step_is_waited_for() {
    let sp = STACK_POINTER;
    let push = Record { written: [0x1000, 0], ..plain([sp, 10, 0, 0], [sp, 0]) };
    let step = plain([sp, 0, 0, 0], [sp, FLAGS]);
    let variable = plain([sp, 10, 0, 0], [sp, FLAGS]);
    let records = [push, push, step, push, variable, push, push];
    let expected: [&[usize]; 6] = [&[], &[], &[], &[], &[], &[4]];
    assert_eq!(producers_by_ops(&ops(&records)), expected);
}

#[test]
fn a_trace_that_names_every_register_there_is_still_becomes_ops() {
    let mut records: Vec<_> = (1..=255).map(|register| plain([register; 4], [register, 0])).collect();
    records.push(Record { written: [64, 0], ..plain([1, 2, 3, 4], [0; 2]) });
    records.push(plain([0; 4], [0; 2]));
    assert_eq!(ops(&records).iter().filter(|op| op.ends_instruction()).count(), 256);
}

proptest! {
    #[test]
    fn any_record_comes_back_as_it_was(bytes in proptest::collection::vec(any::<u8>(), RECORD_BYTES)) {
        let mut bytes: [u8; RECORD_BYTES] = bytes.try_into().unwrap();
        (bytes[8], bytes[9]) = (bytes[8] & 1, bytes[9] & 1);
        prop_assert_eq!(Record::from_bytes(&bytes).to_bytes(), bytes);
    }

    #[test]
    fn any_trace_becomes_ops_that_a_core_takes(bytes in proptest::collection::vec(any::<u8>(), 0..20 * RECORD_BYTES)) {
        let whole = bytes.len() / RECORD_BYTES * RECORD_BYTES;
        let records = read(&bytes[..whole]).unwrap();
        let ops = ops(&records);
        prop_assert_eq!(ops.iter().filter(|op| op.ends_instruction()).count(), records.len().saturating_sub(1));
    }

    #[test]
    fn an_instruction_waits_for_those_that_wrote_what_it_reads_and_for_nobody_else(records in proptest::collection::vec(any_record(), 2..60)) {
        prop_assert_eq!(producers_by_ops(&ops(&records)), producers_by_registers(&records[..records.len() - 1]));
    }

    #[test]
    fn plain_ops_keep_their_registers_and_addresses(sources in any::<[u8; 3]>(), destination in 0u8..64, address in 1u64..1 << 30, kind in 0usize..3) {
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
