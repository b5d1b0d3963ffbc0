//! The format field by field, and what comes back of what was written.

use super::*;
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
        let registers = |op: &Op| op.sources.iter().chain([&op.destination]).all(|register| *register < 80);
        prop_assert!(ops.iter().all(registers));
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
