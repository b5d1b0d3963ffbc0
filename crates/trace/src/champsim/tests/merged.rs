//! Conversion of records to ops and back, and of several ops per instruction to one record.

use doorbell_sim::op::Register;

use super::*;

const IP: u8 = INSTRUCTION_POINTER;
const SP: u8 = STACK_POINTER;

/// Converts records to ops and back. The last record yields no ops.
fn back(records_there: &[Record]) -> Vec<Record> {
    records(&ops(records_there), RegisterNumbers::ChampSim)
}

fn branch(place: u64, sources: [u8; 4], destinations: [u8; 2]) -> Record {
    Record { ip: BASE + 4 * place, is_branch: true, taken: true, ..plain(sources, destinations) }
}

/// An x86-64 program with every class of branch, as recorded by a tracer.
fn program() -> Vec<Record> {
    let (rax, rbx, rcx, stack) = (10, 11, 12, 0x7000);
    let at = |place: u64, record: Record| Record { ip: BASE + 4 * place, ..record };
    vec![
        // push rax; pop rbx
        at(0, Record { written: [stack, 0, 0, 0], ..plain([SP, rax, 0, 0], [SP, 0]) }),
        at(1, Record { read: [stack, 0, 0, 0], ..plain([SP, 0, 0, 0], [rbx, SP]) }),
        // cmp [rbx], rax; jne
        at(2, Record { read: [0x100, 0, 0, 0], ..plain([rbx, rax, 0, 0], [FLAGS, 0]) }),
        Record { taken: false, ..branch(3, [IP, FLAGS, 0, 0], [IP, 0]) },
        // add [rbx + rcx], rax; movs; a store; a memory-to-memory move that reads four registers
        at(
            4,
            Record { read: [64, 0, 0, 0], written: [64, 0, 0, 0], ..plain([rbx, rcx, rax, 0], [FLAGS, 0]) },
        ),
        at(5, Record { read: [64, 0, 0, 0], written: [128, 0, 0, 0], ..plain([rbx, rcx, 0, 0], [0; 2]) }),
        at(6, Record { written: [192, 256, 0, 0], ..plain([rbx, rax, 0, 0], [0; 2]) }),
        at(7, Record { read: [1, 2, 3, 4], written: [5, 0, 0, 0], ..plain([rbx, rcx, rax, 13], [0; 2]) }),
        at(8, plain([rax, rbx, rcx, 13], [14, 0])),
        // call; call [rax + 8]; call rbx; ret
        Record { written: [stack, 0, 0, 0], ..branch(9, [IP, SP, 0, 0], [IP, SP]) },
        Record { read: [8, 0, 0, 0], written: [stack, 0, 0, 0], ..branch(10, [IP, SP, rax, 0], [IP, SP]) },
        Record { written: [stack, 0, 0, 0], ..branch(11, [IP, SP, rbx, 0], [IP, SP]) },
        Record { read: [stack, 0, 0, 0], ..branch(12, [SP, 0, 0, 0], [IP, SP]) },
        // jmp; jmp rax; jmp [rbx]
        branch(13, [IP, 0, 0, 0], [IP, 0]),
        branch(14, [rax, 0, 0, 0], [IP, 0]),
        Record { read: [16, 0, 0, 0], ..branch(15, [rbx, 0, 0, 0], [IP, 0]) },
        // and rsp, -16; sub rsp, rax; nop
        at(16, plain([SP, 0, 0, 0], [SP, 0])),
        at(17, plain([SP, rax, 0, 0], [SP, 0])),
        at(18, plain([0; 4], [0; 2])),
    ]
}

#[test]
fn program_round_trips_record_by_record() {
    let mut there = program();
    let classes: Vec<_> = there.iter().filter_map(Record::branch).collect();
    use OpClass::{Branch, Call, IndirectCall, IndirectJump, Jump, Return};
    let all = [Branch, Call, IndirectCall, IndirectCall, Return, Jump, IndirectJump, IndirectJump];
    assert_eq!(classes, all);
    // Twice, so that registers renamed in the first round are renamed in the second.
    there.extend(program());
    let came = back(&there);
    assert_eq!(came.len(), there.len() - 1);
    for (came, there) in came.iter().zip(&there) {
        assert_eq!(came, there);
    }
    // A second conversion changes nothing.
    assert_eq!(back(&came), came[..came.len() - 1]);
}

#[test]
fn registers_written_together_merge_into_the_first() {
    let (rax, rbx) = (10, 11);
    let there =
        [plain([rax, rbx, 0, 0], [rax, FLAGS]), branch(1, [IP, FLAGS, 0, 0], [IP, 0]), plain([0; 4], [0; 2])];
    let [add, jump] = back(&there).try_into().unwrap();
    assert_eq!((add.destinations, jump.sources), ([rax, 0, 0, 0], [IP, rax, 0, 0]));
    assert_eq!(jump.branch(), Some(OpClass::Branch));
}

/// One of several ops of an instruction; only the last has a length.
fn part(class: OpClass, sources: [Register; 3], destination: Register, length: u8) -> Op {
    Op { class, sources, destination, length, ..op(OpClass::Int, 0) }
}

#[test]
fn internal_registers_are_left_out_of_records() {
    let (loaded, result, flags): (Register, Register, Register) = (81, 83, 64);
    let at = |op: Op, address| Op { phys: PhysAddr(address), virt: address, size: 8, ..op };
    let load = at(part(OpClass::Load, [3, 4, 0], loaded, 0), 0x9000_0000);
    // add [rbx + rcx], rax
    let add = part(OpClass::Int, [1, loaded, 0], flags, 0);
    let store = at(part(OpClass::Store, [3, flags, 4], 0, 4), 0x9000_0000);
    let [record] = records(&[load, add, store], RegisterNumbers::Own).try_into().unwrap();
    assert_eq!((record.sources, record.destinations), ([67, 68, 65, 0], [128, 0, 0, 0]));
    assert_eq!((record.read[0], record.written[0], record.is_branch), (0x9000_0000, 0x9000_0000, false));
    // A store whose data are computed within the instruction, and a load that feeds an operation.
    let stored =
        [part(OpClass::Int, [1, 2, 0], result, 0), at(part(OpClass::Store, [3, result, 0], 0, 4), 64)];
    let fed = [load, part(OpClass::Int, [1, loaded, 0], 1, 4)];
    let [stored, fed] = records(&[&stored[..], &fed].concat(), RegisterNumbers::Own).try_into().unwrap();
    assert_eq!((stored.sources, stored.destinations), ([65, 66, 67, 0], [0; 4]));
    assert_eq!((fed.sources, fed.destinations), ([67, 68, 65, 0], [65, 0, 0, 0]));
}

#[test]
fn multi_op_calls_are_recognised() {
    let target = BASE + 0x100;
    let taken = |op: Op| Op { virt: target, flags: Op::TAKEN, ..op };
    let push = Op { phys: PhysAddr(64), virt: 64, size: 8, ..part(OpClass::Store, [5, 0, 0], 0, 0) };
    let step = part(OpClass::Int, [5, 0, 0], 5, 0);
    let fetch = Op { phys: PhysAddr(8), virt: 8, size: 8, ..part(OpClass::Load, [0; 3], 81, 0) };
    for (ops, class) in [
        (vec![push, step, taken(part(OpClass::Call, [0; 3], 0, 4))], OpClass::Call),
        (vec![taken(part(OpClass::Call, [0; 3], 0, 0)), Op { length: 4, ..push }], OpClass::Call),
        (
            vec![fetch, push, step, taken(part(OpClass::IndirectCall, [81, 0, 0], 0, 4))],
            OpClass::IndirectCall,
        ),
        (vec![fetch, taken(part(OpClass::IndirectJump, [81, 0, 0], 0, 4))], OpClass::IndirectJump),
        (vec![fetch, step, taken(part(OpClass::Return, [81, 0, 0], 0, 4))], OpClass::Return),
    ] {
        let [record] = records(&ops, RegisterNumbers::Own).try_into().unwrap();
        assert_eq!((record.branch(), record.is_branch, record.taken), (Some(class), true, true), "{ops:?}");
        let stores = ops.iter().filter(|op| op.class == OpClass::Store).count();
        assert_eq!(record.written.iter().filter(|address| **address != 0).count(), stores);
    }
}

/// Restricts a record to forms found in programs: only the stack pointer is written together with the
/// instruction pointer, and no flags together with the stack pointer. A conditional branch reads the
/// instruction pointer and one more register.
fn program_like(record: Record) -> Record {
    let stack = if record.destinations.contains(&SP) { SP } else { 0 };
    match record.branch() {
        None => {
            let destinations = record
                .destinations
                .map(|register| if stack != 0 && register == FLAGS { 0 } else { register });
            Record { destinations, ..record }
        }
        Some(OpClass::Branch) => {
            let what = record.sources.into_iter().find(|source| ![0, IP, SP].contains(source));
            Record { destinations: [IP, 0, 0, 0], sources: [IP, what.unwrap_or(FLAGS), 0, 0], ..record }
        }
        Some(_) => Record { destinations: [IP, stack, 0, 0], ..record },
    }
}

proptest! {
    #[test]
    fn branch_types_addresses_and_dependences_round_trip(there in proptest::collection::vec(any_record().prop_map(program_like), 2..60)) {
        let came = back(&there);
        prop_assert_eq!(came.len(), there.len() - 1);
        prop_assert_eq!(producers_by_registers(&came), producers_by_registers(&there[..came.len()]));
        let front = |all: [u64; 4]| all.into_iter().filter(|address| *address != 0).collect::<Vec<_>>();
        for (came, there) in came.iter().zip(&there) {
            prop_assert_eq!((came.ip, came.branch()), (there.ip, there.branch()));
            prop_assert_eq!(front(came.read), front(there.read));
            prop_assert_eq!(front(came.written), front(there.written));
        }
    }
}
