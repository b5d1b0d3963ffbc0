//! SMT threads on bare metal: throughput alone and with an active sibling, accounting of slots and idle time,
//! and runs that do not depend on stops and checkpoints.

use doorbell_assembler::*;
use doorbell_riscv::Interrupt;
use doorbell_sim::Ps;

use super::Mode;
use super::unequal_tests::{
    BASE, GUEST, MODES, WINDOW, additions, between, busy, chained_additions, machine, until,
};
use crate::machine::Machine;

const TWO: [&str; 2] = ["platform.harts=2", "platform.threads=2"];

fn ipc(set: &[&str], program: &[u8]) -> Vec<f64> {
    let mut machine = machine(set, program);
    machine.set_mode(Mode::Detailed);
    let harts = between(&mut machine, WINDOW.0, WINDOW.1);
    harts.into_iter().map(|(cycles, instructions)| instructions as f64 / cycles as f64).collect()
}

#[test]
fn smt_threads_overlap_latencies_and_share_the_issue_width() {
    let (alone, both) = (ipc(&[], &chained_additions())[0], ipc(&TWO, &chained_additions()));
    assert!(both.iter().all(|ipc| (ipc / alone - 1.0).abs() < 0.005), "IPC {both:?}, alone {alone}");
    let (alone, both) = (ipc(&[], &additions())[0], ipc(&TWO, &additions()));
    assert!(alone > 3.5, "{alone}");
    assert!(both.iter().all(|ipc| (ipc / alone - 0.5).abs() < 0.01), "IPC {both:?}, alone {alone}");
}

/// Hart 0 executes additions; the other harts wait for an interrupt that never occurs.
fn hart_0_works() -> Vec<u8> {
    let mut a = Assembler::new(BASE);
    a.beqz(A0, "work");
    a.label("sleep");
    a.wfi();
    a.j("sleep");
    a.label("work");
    while !a.here().is_multiple_of(64) {
        a.addi(ZERO, ZERO, 0);
    }
    a.label("loop");
    (0..32u8).for_each(|n| a.addi(Reg::x(16 + n % 8), A1, 1));
    a.j("loop");
    a.finish()
}

#[test]
fn thread_with_a_sleeping_sibling_gets_all_slots_of_the_core() {
    let (alone, with_sibling) = (ipc(&[], &hart_0_works())[0], ipc(&TWO, &hart_0_works())[0]);
    assert!(
        (with_sibling / alone - 1.0).abs() < 1e-4,
        "IPC {with_sibling} with a sleeping sibling, {alone} alone"
    );
    let mut machine = machine(&TWO, &hart_0_works());
    machine.set_mode(Mode::Detailed);
    until(&mut machine, WINDOW.1);
    let [own, other] = [0, 1].map(|hart| machine.core_stats(hart).unwrap().books);
    assert!(
        own.slots_idle < 4 * 100 && other.slots_idle < 4 * 100,
        "{} {}",
        own.slots_idle,
        other.slots_idle
    );
    assert!(own.slots_retiring * 10 > 35 * own.slot_cycles, "{own:?}");
    assert!(other.cpi_idle * 100 > 99 * other.cycles, "{other:?}");
}

/// Cycles per block of [`hart_1_is_woken`]: 32 additions and a jump, four per cycle.
const BLOCK: u64 = 9;

/// Hart 0 executes additions; hart 1 waits for software interrupts.
fn hart_1_is_woken() -> Vec<u8> {
    let mut a = Assembler::new(BASE);
    a.beqz(A0, "work");
    a.addi(T0, ZERO, 8);
    a.csrw(csr::MIE, T0);
    a.label("sleep");
    a.wfi();
    a.j("sleep");
    a.label("work");
    a.label("loop");
    (0..32u8).for_each(|n| a.addi(Reg::x(16 + n % 8), A1, 1));
    a.j("loop");
    a.finish()
}

#[test]
fn sleep_is_idle_time_wherever_the_sibling_is_in_its_block() {
    let mut machine = machine(&TWO, &hart_1_is_woken());
    machine.set_mode(Mode::Detailed);
    let mut idle = 0;
    for n in 1..40 {
        // Irregular times, so that the sibling is at different points of its blocks.
        until(&mut machine, Ps(n * 2_000_777));
        for is_pending in [true, false] {
            let books = machine.core_stats(1).unwrap().books;
            // Statistics extend to the sibling's next block; an external interrupt takes effect at that
            // block's start.
            assert!(books.cpi_idle + BLOCK >= idle, "{} after {idle}, of {}", books.cpi_idle, books.cycles);
            assert!(books.cycles - books.cpi_idle < 1000 * n, "{} of {}", books.cpi_idle, books.cycles);
            idle = books.cpi_idle;
            machine.drive(1, Interrupt::MachineSoftware, is_pending);
            until(&mut machine, Ps(n * 2_000_777 + 100_000));
        }
    }
}

#[test]
fn each_slot_of_a_core_is_charged_to_one_thread() {
    let mut machine = machine(&["platform.harts=4", "platform.threads=2"], &busy());
    machine.set_mode(Mode::Detailed);
    let width = u64::from(machine.timing().unwrap().core(0).config().slots());
    for us in 1..40 {
        until(&mut machine, Ps::from_us(us));
        let books = |hart: usize| machine.core_stats(hart).unwrap().books;
        for core in 0..2 {
            let threads = [books(2 * core), books(2 * core + 1)];
            let slots: u64 = threads.iter().map(|books| books.top_down().total() + books.slots_idle).sum();
            assert_eq!(slots, width * threads[0].slot_cycles);
            assert_eq!(threads[0].slot_cycles, threads[1].slot_cycles);
            assert!(
                threads[0].slot_cycles.abs_diff(us * 3000) < 2500,
                "{} at {us} us",
                threads[0].slot_cycles
            );
            threads.iter().for_each(|books| assert_eq!(books.cpi_total(), books.cycles));
        }
    }
}

#[test]
fn smt_run_does_not_depend_on_slices_checkpoints_or_mode_changes() {
    let set = ["platform.harts=4", "platform.threads=2", "pipeline.branch.direction=tage"];
    let start = |mode| {
        let mut machine = machine(&set, &busy());
        machine.set_mode(mode);
        machine
    };
    let end = Ps::from_us(60);
    let change = |machine: &mut Machine| {
        until(machine, Ps::from_us(70));
        for mode in MODES.into_iter().chain([Mode::Warming, Mode::Detailed]) {
            machine.set_mode(mode);
            let to = Ps(machine.now().0 + Ps::from_us(5).0);
            until(machine, to);
        }
    };
    for mode in MODES {
        let mut straight = start(mode);
        until(&mut straight, end);

        let mut sliced = start(mode);
        let mut at = Ps::ZERO;
        while at < end {
            at = Ps(at.0 + 123_457).min(end);
            until(&mut sliced, at);
        }
        assert_eq!(sliced.section_hashes(), straight.section_hashes(), "{mode:?}: in slices");
        let mut first = start(mode);
        until(&mut first, Ps(31_234_567));
        let mut second = machine(&set, &[]);
        second.restore(&first.checkpoint(GUEST, "test"), GUEST).unwrap();
        assert_eq!(second.section_hashes(), first.section_hashes(), "{mode:?}: as restored");
        until(&mut second, end);
        assert_eq!(second.section_hashes(), straight.section_hashes(), "{mode:?}: after the restore");
        [&mut straight, &mut second].into_iter().for_each(change);
        assert_eq!(second.section_hashes(), straight.section_hashes(), "{mode:?}: after mode changes");
        assert!(
            straight.harts().iter().all(|hart| hart.instructions() > 300),
            "{mode:?}: every hart executes"
        );
    }
}
