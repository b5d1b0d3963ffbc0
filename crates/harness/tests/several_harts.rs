//! Interaction of several harts: atomics, time, code modification and interrupts. The programs are
//! bare-metal; every hart starts at the same address with its number in a0.

use doorbell_harness::assembler::{Assembler, Reg, T0, T1, T2, X0};
use doorbell_harness::guest::small_machine;
use doorbell_machine::{CoreModel, Limits, Machine, Mode, Outcome};
use doorbell_sim::{PhysAddr, Ps};

const BASE: u64 = 0x8000_0000;
/// Shared data of the programs, one line per item.
const SHARED: u64 = 0x8010_0000;
const A0: Reg = 10;
const A1: Reg = 11;
const A2: Reg = 12;
const A3: Reg = 13;
const AMO: u32 = 0x2f;

fn line(number: u64) -> u64 {
    SHARED + 64 * number
}

/// Loops until a load from `address` returns a value other than zero.
fn wait_for(asm: &mut Assembler, address: u64) {
    asm.constant(T0, address);
    let start = asm.here();
    asm.load(3, false, T1, T0);
    asm.branch(0, T1, X0, start.wrapping_sub(asm.here()) as i32);
}

fn set(asm: &mut Assembler, address: u64, value: u64) {
    asm.constant(T0, address);
    asm.constant(T1, value);
    asm.store(3, false, T1, T0);
}

fn lr(asm: &mut Assembler, rd: Reg, address: Reg) {
    asm.r(AMO, 3, 0b00010 << 2, [rd, address, X0]);
}

fn sc(asm: &mut Assembler, rd: Reg, address: Reg, value: Reg) {
    asm.r(AMO, 3, 0b00011 << 2, [rd, address, value]);
}

fn wfi_forever(asm: &mut Assembler) {
    asm.word(0x1050_0073);
    asm.jump(-4);
}

/// Hart 0 runs the first part, the others the second.
fn parts(first: impl FnOnce(&mut Assembler), others: impl FnOnce(&mut Assembler)) -> Vec<u8> {
    let mut zero = Assembler::new(BASE + 4);
    first(&mut zero);
    wfi_forever(&mut zero);
    let zero = zero.finish();
    let mut asm = Assembler::new(BASE);
    asm.branch(1, A0, X0, 4 + zero.len() as i32);
    asm.append(&zero);
    others(&mut asm);
    wfi_forever(&mut asm);
    asm.finish()
}

/// How harts take turns.
#[derive(Clone, Copy, Debug)]
enum Turns {
    /// Functional with this quantum.
    Functional(Ps),
    /// Functional or timed, with this lookahead.
    Ahead(CoreModel, Ps),
}

fn machine(harts: u32, turns: Turns, program: &[u8]) -> Machine {
    let mut config = small_machine();
    config.platform.harts = harts;
    config.platform.nics = 0;
    match turns {
        Turns::Functional(quantum) => config.core.quantum = quantum,
        Turns::Ahead(model, lookahead) => {
            config.core.model = model;
            config.core.lookahead = lookahead;
        }
    }
    let mut machine = Machine::new(config, 1).expect("the configuration is legal");
    assert!(machine.load_bare(program));
    machine.set_mode(Mode::Detailed);
    machine
}

/// Runs until all harts sleep.
fn run(harts: u32, turns: Turns, program: &[u8]) -> Machine {
    let mut machine = machine(harts, turns, program);
    assert_eq!(machine.run(&Limits::until(Ps::from_ms(20))), Outcome::Asleep);
    machine
}

fn functional() -> [Turns; 3] {
    [Ps::from_ns(10), Ps::from_ns(500), Ps::from_us(100)].map(Turns::Functional)
}

fn all_turns() -> impl Iterator<Item = Turns> {
    let ahead = [CoreModel::Functional, CoreModel::Timed]
        .into_iter()
        .flat_map(|model| [Ps::from_ns(10), Ps::from_us(1)].map(|lookahead| Turns::Ahead(model, lookahead)));
    functional().into_iter().chain(ahead).chain([Turns::Ahead(CoreModel::Timed, Ps::ZERO)])
}

fn value(machine: &Machine, address: u64) -> u64 {
    machine.ram().load_u64(PhysAddr(address)).expect("the address is in RAM")
}

#[test]
fn increments_by_lr_sc_and_amo_are_not_lost() {
    const ROUNDS: u64 = 3_000;
    let mut asm = Assembler::new(BASE);
    asm.constant(A1, line(0));
    asm.constant(A2, line(1));
    asm.constant(A3, ROUNDS);
    let again = asm.here();
    lr(&mut asm, T0, A1);
    asm.addi(T0, T0, 1);
    sc(&mut asm, T1, A1, T0);
    asm.branch(1, T1, X0, -12);
    asm.addi(T2, X0, 1);
    asm.r(AMO, 3, 0, [X0, A2, T2]);
    asm.addi(A3, A3, -1);
    asm.branch(1, A3, X0, again.wrapping_sub(asm.here()) as i32);
    wfi_forever(&mut asm);
    let program = asm.finish();
    for turns in all_turns() {
        for harts in [2, 4] {
            let machine = run(harts, turns, &program);
            let expected = u64::from(harts) * ROUNDS;
            assert_eq!([value(&machine, line(0)), value(&machine, line(1))], [expected; 2], "{turns:?}");
        }
    }
}

#[test]
fn reservation_breaks_even_if_the_old_value_is_restored() {
    let program = parts(
        |asm| {
            asm.constant(A1, line(0));
            wait_for(asm, line(1));
            lr(asm, T2, A1);
            set(asm, line(2), 1);
            wait_for(asm, line(3));
            asm.constant(A1, line(0));
            sc(asm, T2, A1, X0);
            asm.constant(A1, line(4));
            asm.store(3, false, T2, A1);
        },
        |asm| {
            // Touch the page first, so that the translation is cached and later stores take the fast path.
            set(asm, line(0) + 8, 0);
            set(asm, line(1), 1);
            wait_for(asm, line(2));
            set(asm, line(0), 7);
            set(asm, line(0), 0);
            set(asm, line(3), 1);
        },
    );
    for turns in all_turns() {
        let machine = run(2, turns, &program);
        assert_eq!(value(&machine, line(4)), 1, "the store-conditional fails; {turns:?}");
    }
}

#[test]
fn time_is_monotonic_across_harts() {
    const ROUNDS: u64 = 2_000;
    let rdtime = |asm: &mut Assembler, rd| asm.csr_set(rd, 0xc01, X0);
    let program = parts(
        |asm| {
            asm.constant(A1, line(0));
            asm.constant(A3, ROUNDS);
            let again = asm.here();
            rdtime(asm, T0);
            asm.store(3, false, T0, A1);
            asm.addi(A3, A3, -1);
            asm.branch(1, A3, X0, again.wrapping_sub(asm.here()) as i32);
            set(asm, line(1), 1);
        },
        |asm| {
            asm.constant(A1, line(0));
            asm.constant(A2, line(1));
            asm.addi(A3, X0, 0);
            let again = asm.here();
            asm.load(3, false, T0, A1);
            rdtime(asm, T1);
            asm.r(0x33, 3, 0, [T2, T1, T0]); // sltu: is now before then?
            asm.r(0x33, 0, 0, [A3, A3, T2]);
            asm.load(3, false, T0, A2);
            asm.branch(0, T0, X0, again.wrapping_sub(asm.here()) as i32);
            asm.constant(A1, line(2));
            asm.store(3, false, A3, A1);
        },
    );
    for turns in all_turns() {
        let machine = run(2, turns, &program);
        assert!(value(&machine, line(0)) > 0);
        assert_eq!(value(&machine, line(2)), 0, "backward steps with {turns:?}");
    }
}

#[test]
fn code_modified_by_another_hart_is_executed() {
    let routine = SHARED + 0x1000;
    let return_ = 0x0000_8067;
    let load_immediate = |value: u32| value << 20 | A2 << 7 | 0x13;
    let call = |asm: &mut Assembler, result: u64| {
        asm.word(0x0000_100f); // fence.i
        asm.constant(T0, routine);
        asm.i(0x67, 0, 1, T0, 0);
        asm.constant(T0, result);
        asm.store(3, false, A2, T0);
    };
    let pair = |value| u64::from(load_immediate(value)) | return_ << 32;
    let program = parts(
        |asm| {
            set(asm, routine, pair(5));
            set(asm, line(0), 1);
            wait_for(asm, line(1));
            set(asm, routine, pair(6));
            set(asm, line(2), 1);
        },
        |asm| {
            wait_for(asm, line(0));
            call(asm, line(3));
            set(asm, line(1), 1);
            wait_for(asm, line(2));
            call(asm, line(4));
        },
    );
    for turns in all_turns() {
        let machine = run(2, turns, &program);
        assert_eq!([value(&machine, line(3)), value(&machine, line(4))], [5, 6], "{turns:?}");
    }
}

#[test]
fn software_interrupt_wakes_a_sleeping_hart_immediately() {
    const MSIP_OF_HART_1: u64 = 0x200_0004;
    let program = parts(
        |asm| {
            wait_for(asm, line(0));
            // Let the other hart fall asleep.
            asm.constant(T1, 5_000);
            asm.addi(T1, T1, -1);
            asm.branch(1, T1, X0, -4);
            asm.csr_set(T2, 0xc01, X0);
            asm.constant(T0, MSIP_OF_HART_1);
            asm.addi(T1, X0, 1);
            asm.store(2, false, T1, T0);
            asm.constant(T0, line(1));
            asm.store(3, false, T2, T0);
        },
        |asm| {
            asm.addi(T1, X0, 8);
            asm.csr_set(X0, 0x304, T1);
            set(asm, line(0), 1);
            asm.word(0x1050_0073); // wfi
            asm.csr_set(T2, 0xc01, X0);
            asm.constant(T0, line(2));
            asm.store(3, false, T2, T0);
            asm.csr_write(0x304, X0);
        },
    );
    for turns in functional() {
        let machine = run(2, turns, &program);
        let (sent, woken) = (value(&machine, line(1)), value(&machine, line(2)));
        // Five instructions of 0.3 ns; the clock counts nanoseconds.
        assert!(sent > 0 && (sent..=sent + 5).contains(&woken), "sent at {sent}, woken at {woken}");
    }
}
