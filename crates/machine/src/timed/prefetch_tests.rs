//! Software prefetches in a whole machine: a loop over cold lines that prefetches each line some iterations
//! before loading it.

use doorbell_assembler::*;
use doorbell_sim::Ps;

use super::Mode;
use crate::machine::Machine;
use crate::overlay::Overlay;
use crate::run::Limits;

const BASE: u64 = 0x8000_0000;
const DATA: u64 = BASE + (4 << 20);
const LINES: u64 = 4096;
const GUEST: &str = "bare";

/// `prefetch.r 64*ahead(a0)`: OP-IMM with funct3 6, rd x0 and 1 in the low five bits of the immediate. With
/// `ahead` 0, a hint without effect (2 in these bits).
fn prefetch(ahead: u32) -> u32 {
    let immediate = if ahead == 0 { 2 } else { (64 * ahead) | 1 };
    (immediate << 20) | (10 << 15) | (6 << 12) | 0x13
}

/// Sums one word of each line, in order.
fn program(ahead: u32) -> Vec<u8> {
    let mut a = Assembler::new(BASE);
    a.li(A0, DATA);
    a.li(A1, LINES);
    while !a.here().is_multiple_of(64) {
        a.addi(ZERO, ZERO, 0);
    }
    a.label("line");
    a.word(prefetch(ahead));
    a.ld(A2, A0, 0);
    a.add(A3, A3, A2);
    a.addi(A0, A0, 64);
    a.addi(A1, A1, -1);
    a.bnez(A1, "line");
    a.label("end");
    a.wfi();
    a.j("end");
    a.finish()
}

fn machine(set: &[&str], ahead: u32) -> Machine {
    let mut overlay = Overlay::default();
    let all = ["platform.nics=0", "platform.ram=64MiB", "core.model=timed", "memory.dram.refresh=false"];
    all.iter().chain(set).for_each(|assignment| overlay.set(assignment).unwrap());
    let mut machine = Machine::new(overlay.resolve().unwrap(), 1).unwrap();
    assert!(machine.load_bare(&program(ahead)));
    machine
}

fn loops(mut machine: Machine) -> (Machine, f64) {
    machine.set_mode(Mode::Detailed);
    machine.run(&Limits::until(Ps::from_ms(2)));
    assert!(machine.harts()[0].is_waiting(), "the loop is over");
    let cycles = machine.timing().unwrap().core(0).now().number();
    (machine, cycles as f64 / LINES as f64)
}

#[test]
fn prefetching_hides_latency_up_to_the_miss_registers() {
    // An in-order core waits for each word at the addition: without prefetches only one miss is in flight.
    let pace = |ahead: u32, mshrs: u32| {
        let set = ["pipeline.kind=in-order", &format!("memory.l1d.mshrs={mshrs}")];
        let (machine, pace) = loops(machine(&set, ahead));
        let stats = machine.timing().unwrap().memory.stats().harts[0].l1d.clone();
        assert_eq!(stats.software_prefetches, if ahead == 0 { 0 } else { LINES });
        (pace, stats)
    };
    let (alone, _) = pace(0, 16);
    assert!(alone > 150.0, "a line takes {alone} cycles");
    for ahead in [2, 4, 8] {
        let (with, stats) = pace(ahead, 16);
        // The latency of one miss is shared by the line being loaded and `ahead` prefetched lines.
        let expected = alone / f64::from(ahead + 1);
        assert!((expected..1.05 * expected).contains(&with), "{ahead} lines ahead: {with} of {alone}");
        assert_eq!(stats.software_prefetches_dropped, 0);
        assert!(stats.prefetches_useful + u64::from(ahead) >= LINES, "{stats:?}");
    }
    // Prefetches without a free miss register are dropped, and their loads miss.
    let (few, stats) = pace(8, 4);
    assert!(few > 1.5 * pace(8, 16).0 && few < alone, "{few} of {alone}");
    assert!(stats.software_prefetches_dropped > 0);
}

#[test]
fn prefetches_do_not_change_registers_and_do_not_fault() {
    let end = |ahead: u32, mode: Mode| {
        let mut machine = machine(&[], ahead);
        machine.set_mode(mode);
        machine.run(&Limits::until(Ps::from_ms(3)));
        assert!(machine.harts()[0].is_waiting());
        let registers: Vec<u64> = (0..32).map(|register| machine.harts()[0].reg(register)).collect();
        (registers, machine.harts()[0].instructions())
    };
    let plain = end(0, Mode::Functional);
    for mode in [Mode::Functional, Mode::Warming, Mode::Detailed] {
        assert_eq!(end(8, mode), plain, "{mode:?}");
    }
}

#[test]
fn warming_fetches_prefetched_lines() {
    let mut machine = machine(&[], 8);
    machine.set_mode(Mode::Warming);
    machine.run(&Limits::until(Ps::from_ms(3)));
    let l1d = machine.timing().unwrap().memory.stats().harts[0].l1d.clone();
    assert_eq!(l1d.software_prefetches, LINES);
    assert!(l1d.prefetches_useful + 8 >= LINES, "{l1d:?}");
}

#[test]
fn run_restored_between_prefetches_is_identical() {
    for kind in ["pipeline.kind=in-order", "pipeline.kind=out-of-order"] {
        let mut whole = machine(&[kind], 8);
        whole.set_mode(Mode::Detailed);
        whole.run(&Limits::until(Ps::from_us(20)));
        let saved = whole.checkpoint(GUEST, "test");
        let mut again = machine(&[kind], 8);
        again.restore(&saved, GUEST).unwrap();
        for machine in [&mut whole, &mut again] {
            machine.run(&Limits::until(Ps::from_us(60)));
        }
        let look = |machine: &Machine| {
            let timing = machine.timing().unwrap();
            (timing.core(0).stats(), timing.memory.stats(), machine.harts()[0].instructions())
        };
        assert_eq!(look(&whole), look(&again), "{kind}");
        assert!(look(&whole).0.counts.prefetches > 100);
    }
}
