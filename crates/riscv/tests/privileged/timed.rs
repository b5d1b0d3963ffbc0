//! Timed execution: it leaves the hart in the same state as plain execution, and the ops match the executed
//! instructions.

use doorbell_riscv::decode::decode;
use doorbell_riscv::{Hart, Privilege, Stop, Turn};
use doorbell_sim::memory::LINE_BYTES;
use doorbell_sim::{Op, OpClass, Ram};

use crate::asm::i_type;
use crate::bench::{Bench, CODE, DATA, DEVICE, pte};
use crate::random::Random;
use crate::saving::{assert_same, copy_of, endless};

fn answer(hart: &mut Hart) {
    match hart.pending_mmio().expect("an access is pending").store_value() {
        Some(_) => hart.complete_store(),
        None => hart.complete_load(hart.instructions().wrapping_mul(0x9e37_79b9_7f4a_7c15)),
    }
}

/// One retired instruction of the plain hart: its address, the next address, its bits, and the first operand.
struct Step {
    pc: u64,
    next: u64,
    bits: u32,
    base: u64,
}

/// Executes until an instruction has retired. Returns none for a device access, which has no op either.
fn step(hart: &mut Hart, ram: &mut Ram) -> Option<Step> {
    let before = hart.instructions();
    loop {
        let pc = hart.pc();
        let mut bytes = [0; 4];
        hart.peek(ram, pc, &mut bytes).expect("the program is mapped");
        let bits = u32::from_le_bytes(bytes);
        let base = hart.reg(usize::from(decode(bits).rs1));
        let slot = hart.slots() + 1;
        match hart.run(ram, slot) {
            Stop::Mmio(_) => {
                answer(hart);
                return None;
            }
            Stop::Slot => {}
            stop => panic!("stopped with {stop:?}"),
        }
        if hart.instructions() > before {
            return Some(Step { pc, next: hart.pc(), bits, base });
        }
    }
}

#[test]
fn timed_execution_matches_plain_execution_and_lists_its_ops() {
    let mut random = Random::new(7);
    for _ in 0..12 {
        let mut bench = endless(&mut random);
        let mut ram = copy_of(&bench.ram);
        let mut plain = Hart::new(crate::bench::config());
        plain.restore(bench.hart.save(&bench.ram), &ram).expect("a state just saved can be restored");
        let mut ops = Vec::new();
        let mut traps = 0;
        for _ in 0..5_000 {
            ops.clear();
            let turn = bench.hart.run_timed(&mut bench.ram, 1 + random.below(70), &mut ops);
            traps += u32::from(turn == Turn::Trapped);
            let mut pieces = ops.iter();
            while let Some(first) = pieces.next() {
                let done = step(&mut plain, &mut ram).expect("the same instructions retire");
                let second = if first.ends_instruction() { None } else { pieces.next() };
                check(first, second, &done);
            }
            if matches!(turn, Turn::Stopped(Stop::Mmio(_))) {
                assert!(step(&mut plain, &mut ram).is_none(), "a device access");
                answer(&mut bench.hart);
            }
        }
        assert!(traps > 50 && plain.instructions() > 5_000, "{traps} traps");
        // A trap comes after the previous instruction: advance the plain hart to the handler, too.
        while plain.pc() != bench.hart.pc() {
            let slot = plain.slots() + 1;
            plain.run(&mut ram, slot);
        }
        // In timed execution the timing model sets the slots.
        let slots = plain.slots().max(bench.hart.slots());
        plain.rebase(slots);
        bench.hart.rebase(slots);
        assert_same((&bench.hart, &bench.ram), (&plain, &ram), "timed execution changed the state");
    }
}

fn check(op: &Op, second: Option<&Op>, done: &Step) {
    let inst = decode(done.bits);
    assert_eq!(op.pc, done.pc, "{inst:?}");
    let last = second.unwrap_or(op);
    assert_eq!(u64::from(last.length), u64::from(inst.len), "{inst:?}");
    if last.class.is_branch() {
        assert_eq!(last.next_pc(), done.next, "{inst:?}");
    }
    if op.class.is_memory() {
        let virt = done.base.wrapping_add(i64::from(inst.imm) as u64);
        assert_eq!(op.virt, virt, "{inst:?}");
        assert_eq!(op.phys.0, virt, "the program's pages are identity-mapped");
        let bytes = u64::from(op.size) + second.map_or(0, |second| u64::from(second.size));
        assert_eq!(second.is_some(), virt % LINE_BYTES + bytes > LINE_BYTES, "split only at a line boundary");
        if let Some(second) = second {
            assert_eq!((second.virt % LINE_BYTES, second.virt), (0, virt + u64::from(op.size)));
        }
    }
}

/// Executes `prefetch.r 64(x6)` in timed mode and returns its op.
fn prefetched(bench: &mut Bench, level: Privilege, address: u64) -> Op {
    bench.write(CODE, &[i_type(0x13, 6, 0, 6, 64 | 1)]);
    bench.go(level, CODE);
    bench.hart.set_reg(6, address);
    let (before, registers) =
        (bench.hart.stats().exceptions, (0..32).map(|n| bench.hart.reg(n)).collect::<Vec<_>>());
    let mut ops = Vec::new();
    bench.hart.run_timed(&mut bench.ram, 1, &mut ops);
    assert_eq!(
        (bench.hart.stats().exceptions, bench.hart.pc()),
        (before, CODE + 4),
        "a prefetch never faults"
    );
    assert_eq!((0..32).map(|n| bench.hart.reg(n)).collect::<Vec<_>>(), registers);
    ops[0]
}

#[test]
fn a_prefetch_needs_any_access_permission_and_does_not_modify_page_tables() {
    const PAGE: u64 = 0x4_0000_0000;
    let cases = [
        (pte::V | pte::R | pte::A, true),
        (pte::V | pte::R, true), // A and D are not checked
        (pte::V | pte::X, true),
        (pte::V | pte::R | pte::U, false), // without SUM
        (0, false),
    ];
    for (flags, allowed) in cases {
        let mut bench = Bench::new();
        let table = bench.page_table(3);
        bench.map(table, CODE, CODE, 0, pte::ALL);
        let slot = bench.map(table, PAGE, DATA, 0, flags);
        let entry = bench.read_u64(slot);
        let op = prefetched(&mut bench, Privilege::Supervisor, PAGE);
        assert_eq!(op.virt, PAGE + 64);
        match allowed {
            true => assert_eq!((op.class, op.phys.0), (OpClass::Prefetch, DATA + 64), "{flags:#x}"),
            false => assert_eq!(op.class, OpClass::Int, "{flags:#x}"),
        }
        assert_eq!(bench.read_u64(slot), entry, "{flags:#x}");
    }
    // Without translation the address is used as it is, even that of a device; the caches check whether it is
    // memory.
    for address in [DATA, DEVICE] {
        let op = prefetched(&mut Bench::new(), Privilege::Machine, address);
        assert_eq!((op.class, op.phys.0), (OpClass::Prefetch, address + 64));
    }
}

#[test]
fn other_hints_are_not_prefetches() {
    // ORI to x0 is a hint of the base ISA with any immediate; to a register it is an OR.
    for (immediate, rd) in [(2, 0), (4, 0), (31, 0), (1, 5), (3, 5)] {
        let mut bench = Bench::new();
        bench.write(CODE, &[i_type(0x13, 6, rd, 6, 64 | immediate)]);
        bench.go(Privilege::Machine, CODE);
        bench.hart.set_reg(6, DATA);
        let mut ops = Vec::new();
        bench.hart.run_timed(&mut bench.ram, 1, &mut ops);
        assert_eq!(ops[0].class, OpClass::Int, "{immediate}, {rd}");
        assert_eq!(bench.hart.reg(5), if rd == 5 { DATA | 64 | immediate as u64 } else { 0 });
    }
}
