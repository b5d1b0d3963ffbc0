//! Harts with different clocks, cores and private caches, on bare metal. Each has the same speed as alone,
//! and a run does not depend on stops or on the machine that restores its checkpoint.

use doorbell_assembler::*;
use doorbell_sim::Ps;

use super::Mode;
use crate::config::MachineConfig;
use crate::machine::Machine;
use crate::overlay::Overlay;
use crate::run::{Limits, Outcome};

pub(crate) const BASE: u64 = 0x8000_0000;
pub(crate) const DATA: u64 = BASE + (1 << 20);
pub(crate) const GUEST: &str = "bare";

pub(crate) fn machine(set: &[&str], program: &[u8]) -> Machine {
    machine_with_corunners(0, set, program)
}

/// A machine with cores for traces.
pub(crate) fn machine_with_corunners(trace_cores: u32, set: &[&str], program: &[u8]) -> Machine {
    let mut overlay = Overlay::default();
    let all = ["platform.nics=0", "platform.ram=64MiB", "core.model=timed", "memory.dram.refresh=false"];
    all.iter().chain(set).for_each(|assignment| overlay.set(assignment).unwrap());
    let config = MachineConfig { trace_cores, ..overlay.resolve().unwrap() };
    let mut machine = Machine::new(config, 1).unwrap();
    assert!(machine.load_bare(program));
    machine
}

pub(crate) fn until(machine: &mut Machine, time: Ps) {
    assert_eq!(machine.run(&Limits::until(time)), Outcome::Time);
}

/// Program that repeats `body` on each hart.
fn forever(setup: impl FnOnce(&mut Assembler), body: impl FnOnce(&mut Assembler)) -> Vec<u8> {
    let mut a = Assembler::new(BASE);
    setup(&mut a);
    while !a.here().is_multiple_of(64) {
        a.addi(ZERO, ZERO, 0);
    }
    a.label("loop");
    body(&mut a);
    a.j("loop");
    a.finish()
}

/// A chain of dependent additions.
pub(crate) fn chained_additions() -> Vec<u8> {
    forever(|_| {}, |a| (0..31).for_each(|_| a.addi(A1, A1, 1)))
}

pub(crate) fn additions() -> Vec<u8> {
    forever(|_| {}, |a| (0..32u8).for_each(|n| a.addi(Reg::x(16 + n % 8), A1, 1)))
}

/// Dependent loads (pointer chase) around a ring of lines in `bytes` bytes.
pub(crate) fn chase(bytes: u64) -> Vec<u8> {
    let setup = |a: &mut Assembler| {
        // Each hart has its own ring.
        a.slli(A1, A0, 22);
        a.li(A2, DATA);
        a.add(A1, A1, A2);
        a.li(A3, bytes);
        a.add(A3, A3, A1);
        a.mv(A4, A1);
        a.label("line");
        a.addi(A5, A4, 64);
        a.sd(A5, A4, 0);
        a.mv(A4, A5);
        a.bne(A4, A3, "line");
        a.sd(A1, A4, -64);
    };
    forever(setup, |a| (0..8).for_each(|_| a.ld(A1, A1, 0)))
}

/// Cycles and instructions of each hart from `from` to `to`.
pub(crate) fn between(machine: &mut Machine, from: Ps, to: Ps) -> Vec<(u64, u64)> {
    let look = |machine: &Machine| {
        let harts = machine.harts().iter();
        harts.map(|hart| (hart.slots(), hart.instructions())).collect::<Vec<_>>()
    };
    until(machine, from);
    let before = look(machine);
    until(machine, to);
    let after = look(machine).into_iter();
    after.zip(before).map(|(after, before)| (after.0 - before.0, after.1 - before.1)).collect()
}

pub(crate) const WINDOW: (Ps, Ps) = (Ps::from_us(100), Ps::from_us(200));

#[test]
fn loop_takes_twice_the_time_at_half_the_frequency() {
    let set = ["platform.harts=2", "hart.0.core.frequency=3GHz", "hart.1.core.frequency=1.5GHz"];
    for mode in [Mode::Functional, Mode::Warming, Mode::Detailed] {
        let mut machine = machine(&set, &chained_additions());
        machine.set_mode(mode);
        let harts = between(&mut machine, WINDOW.0, WINDOW.1);
        // Both stop after a block, which is one iteration.
        assert!(
            harts[0].0.abs_diff(300_000) <= 64 && harts[1].0.abs_diff(150_000) <= 64,
            "{mode:?}: {harts:?}"
        );
        assert!(harts[0].1.abs_diff(2 * harts[1].1) <= 3 * 32, "{mode:?}: {harts:?}");
    }
}

#[test]
fn each_hart_has_the_same_ipc_as_its_core_alone() {
    let small =
        ["pipeline.kind=in-order", "pipeline.issue_width=1", "core.frequency=1GHz", "memory.l1d.latency=3"];
    let own: Vec<String> = small.iter().map(|key| format!("hart.1.{key}")).collect();
    let both: Vec<&str> = ["platform.harts=2"].into_iter().chain(own.iter().map(String::as_str)).collect();
    let pace = |set: &[&str], program: &[u8]| -> Vec<f64> {
        let mut machine = machine(set, program);
        machine.set_mode(Mode::Detailed);
        let harts = between(&mut machine, WINDOW.0, WINDOW.1);
        harts.into_iter().map(|(cycles, instructions)| instructions as f64 / cycles as f64).collect()
    };
    for (name, program) in
        [("additions", additions()), ("chain", chained_additions()), ("chase", chase(16 << 10))]
    {
        let (big, little, both) = (pace(&[], &program)[0], pace(&small, &program)[0], pace(&both, &program));
        assert!((both[0] / big - 1.0).abs() < 1e-3, "{name}: {} together, {big} alone", both[0]);
        assert!((both[1] / little - 1.0).abs() < 1e-3, "{name}: {} together, {little} alone", both[1]);
        assert!(both[1] <= 1.0, "{name}: at most one instruction per cycle");
        if name == "additions" {
            assert!(both[0] > 3.5 && both[1] > 0.9, "four and one instructions per cycle: {both:?}");
        }
    }
}

#[test]
fn working_set_fits_the_l2_of_one_hart_but_not_of_the_other() {
    let set = ["platform.harts=2", "memory.l2.size=1MiB", "hart.1.memory.l2.size=256KiB"];
    let mut machine = machine(&set, &chase(512 << 10));
    machine.set_mode(Mode::Detailed);
    let misses = |machine: &Machine| {
        let stats = machine.timing().unwrap().memory.stats();
        stats.harts.iter().map(|hart| (hart.l1d.misses, hart.l2.misses)).collect::<Vec<_>>()
    };
    until(&mut machine, Ps::from_ms(2));
    let before = misses(&machine);
    until(&mut machine, Ps::from_ms(3));
    let after = misses(&machine);
    assert!(after[0].0 - before[0].0 > 10_000, "every load misses the first level");
    assert_eq!(after[0].1 - before[0].1, 0, "no load misses hart 0's second level");
    assert_eq!(after[1].1 - before[1].1, after[1].0 - before[1].0, "every load misses hart 1's second level");
}

/// Harts that differ in clock, core, caches and page walks.
const UNEQUAL: [&str; 10] = [
    "platform.harts=3",
    "core.frequency=2GHz",
    "hart.0.core.frequency=2.9GHz",
    "hart.0.pipeline.branch.direction=tage",
    "hart.1.core.frequency=700MHz",
    "hart.1.core.warming_ipc=0.7",
    "hart.1.pipeline.kind=in-order",
    "hart.1.memory.l2.size=128KiB",
    "hart.1.memory.walks=l2",
    "hart.2.memory.l1d.prefetch.kind=stride",
];

/// Program with shared lines, traps, and reads of the time.
pub(crate) fn busy() -> Vec<u8> {
    let mut a = Assembler::new(BASE);
    a.la(T0, "trap");
    a.csrw(csr::MTVEC, T0);
    a.li(S0, DATA);
    a.addi(S1, ZERO, 1);
    a.label("loop");
    a.amoadd(T1, S1, S0);
    a.andi(T2, T1, 1023);
    a.slli(T2, T2, 7);
    a.add(T2, T2, S0);
    a.sd(T1, T2, 64);
    a.andi(T3, T1, 7);
    a.bnez(T3, "loop");
    a.csrr(T4, csr::TIME);
    a.sd(T4, T2, 72);
    a.ecall();
    a.j("loop");
    a.label("trap");
    a.csrr(T5, csr::MEPC);
    a.addi(T5, T5, 4);
    a.csrw(csr::MEPC, T5);
    a.mret();
    a.finish()
}

pub(crate) const MODES: [Mode; 3] = [Mode::Functional, Mode::Warming, Mode::Detailed];

#[test]
fn run_of_unequal_harts_does_not_depend_on_slices_or_checkpoints() {
    for mode in MODES {
        let start = || {
            let mut machine = machine(&UNEQUAL, &busy());
            machine.set_mode(mode);
            machine
        };
        let end = Ps::from_us(60);
        let mut straight = start();
        until(&mut straight, end);
        assert!(
            straight.harts().iter().all(|hart| hart.instructions() > 300),
            "{mode:?}: every hart executes"
        );
        let mut sliced = start();
        let mut at = Ps::ZERO;
        while at < end {
            at = Ps(at.0 + 123_457).min(end);
            until(&mut sliced, at);
        }
        assert_eq!(sliced.section_hashes(), straight.section_hashes(), "{mode:?}: in slices");
        let mut first = start();
        until(&mut first, Ps(31_234_567));
        let mut second = machine(&UNEQUAL, &[]);
        second.restore(&first.checkpoint(GUEST, "test"), GUEST).unwrap();
        assert_eq!(second.section_hashes(), first.section_hashes(), "{mode:?}: as restored");
        until(&mut second, end);
        assert_eq!(second.section_hashes(), straight.section_hashes(), "{mode:?}: after the restore");
        assert_eq!(second.state_hash(), straight.state_hash());
    }
}

#[test]
fn checkpoint_restored_with_other_clocks_continues_at_the_same_time() {
    let equal = ["platform.harts=3"];
    for (from, to) in [(&equal[..], &UNEQUAL[..]), (&UNEQUAL[..], &equal[..])] {
        for mode in MODES {
            let mut first = machine(from, &busy());
            first.set_mode(mode);
            until(&mut first, Ps::from_us(20));
            let mut second = machine(to, &[]);
            second.restore(&first.checkpoint(GUEST, "test"), GUEST).unwrap();
            for (before, after) in first.harts().iter().zip(second.harts()) {
                let slot = Ps(after.time().0 * 2 / after.slots().max(1) + 1);
                assert!(after.time() >= before.time() && after.time() - before.time() <= slot, "{mode:?}");
            }
            assert_eq!(second.mode(), Mode::Functional, "the timing models belong to other cores");
            second.set_mode(mode);
            until(&mut second, Ps::from_us(40));
            assert!(second.instructions() > first.instructions());
        }
    }
}

#[test]
fn warming_uses_each_hart_s_ipc_and_l2_size() {
    let set = ["platform.harts=2", "hart.1.memory.l2.size=256KiB", "hart.1.core.warming_ipc=0.5"];
    let mut machine = machine(&set, &chase(512 << 10));
    machine.set_mode(Mode::Warming);
    let harts = between(&mut machine, Ps::from_us(300), Ps::from_us(400));
    let ipc: Vec<f64> = harts.iter().map(|(cycles, done)| *done as f64 / *cycles as f64).collect();
    assert!((ipc[0] - 3.0).abs() < 0.01 && (ipc[1] - 0.5).abs() < 0.01, "{ipc:?}");
    // By then each hart has walked its ring more than once.
    until(&mut machine, Ps::from_ms(1));
    machine.set_mode(Mode::Detailed);
    let before = machine.timing().unwrap().memory.stats();
    until(&mut machine, Ps::from_us(1_100));
    let seen = machine.timing().unwrap().memory.stats().since(&before);
    assert_eq!(seen.harts[0].l2.misses, 0);
    assert_eq!(seen.harts[1].l2.misses, seen.harts[1].l1d.misses);
}
