//! Litmus programs: several harts of a bare-metal machine repeatedly read and write two words. No outcome may
//! be forbidden by RVWMO (The RISC-V Instruction Set Manual, volume I, "RVWMO Memory Consistency Model"),
//! with any timing model.
//!
//! Values never depend on timing models, and a hart executes its instructions in order. A failure would
//! therefore be a bug in the interleaving of harts, in stores that break reservations, or in the invalidation
//! of decoded code.

use std::collections::BTreeSet;

use doorbell_acceptance::micro::Program;
use doorbell_assembler::{Assembler, *};
use doorbell_bench::resolve;
use doorbell_machine::{Limits, Machine, Mode};
use doorbell_sim::{PhysAddr, Ps};

const HARTS: u64 = 4;
const ROUNDS: u64 = 150;
const DATA: u64 = 0x8010_0000;
const WORDS: u64 = DATA + 4096;
const RESULTS: u64 = DATA + (1 << 20);

/// Code of one hart. S0 and S1 hold the addresses of the words, which are in different lines; values read go
/// to A4 and A5.
type Thread = fn(&mut Assembler);
/// Outcome of a round: the values that each hart read.
type Outcome = [[u64; 2]; HARTS as usize];

struct Litmus {
    name: &'static str,
    threads: &'static [Thread],
    /// Whether RVWMO forbids the outcome, given both words' final values.
    forbidden: fn(&Outcome, [u64; 2]) -> bool,
}

fn write(a: &mut Assembler, to: Reg, value: u64) {
    a.li(T0, value);
    a.sd(T0, to, 0);
}

const TESTS: &[Litmus] = &[
    Litmus {
        name: "message passing, with fences",
        threads: &[
            |a| {
                write(a, S0, 1);
                a.fence();
                write(a, S1, 1);
            },
            |a| {
                a.ld(A4, S1, 0);
                a.fence();
                a.ld(A5, S0, 0);
            },
        ],
        forbidden: |o, _| o[1] == [1, 0],
    },
    Litmus {
        name: "store buffering, with fences",
        threads: &[
            |a| {
                write(a, S0, 1);
                a.fence();
                a.ld(A4, S1, 0);
            },
            |a| {
                write(a, S1, 1);
                a.fence();
                a.ld(A4, S0, 0);
            },
        ],
        forbidden: |o, _| o[0][0] == 0 && o[1][0] == 0,
    },
    Litmus {
        name: "load buffering, with dependencies",
        threads: &[
            |a| {
                a.ld(A4, S0, 0);
                a.sd(A4, S1, 0);
            },
            |a| {
                a.ld(A4, S1, 0);
                a.addi(A4, A4, 0);
                a.sd(A4, S0, 0);
            },
        ],
        forbidden: |o, last| o[0][0] != 0 || o[1][0] != 0 || last != [0, 0],
    },
    Litmus {
        name: "coherence of reads of one word",
        threads: &[
            |a| {
                write(a, S0, 1);
                write(a, S0, 2);
            },
            |a| {
                a.ld(A4, S0, 0);
                a.ld(A5, S0, 0);
            },
            |a| {
                a.ld(A4, S0, 0);
                a.ld(A5, S0, 0);
            },
        ],
        forbidden: |o, last| o[1][0] > o[1][1] || o[2][0] > o[2][1] || last[0] != 2,
    },
    Litmus {
        name: "independent reads of independent writes, with fences",
        threads: &[
            |a| write(a, S0, 1),
            |a| write(a, S1, 1),
            |a| {
                a.ld(A4, S0, 0);
                a.fence();
                a.ld(A5, S1, 0);
            },
            |a| {
                a.ld(A4, S1, 0);
                a.fence();
                a.ld(A5, S0, 0);
            },
        ],
        forbidden: |o, _| o[2] == [1, 0] && o[3] == [1, 0],
    },
    Litmus {
        name: "two writes by two harts, with fences",
        threads: &[
            |a| {
                write(a, S0, 1);
                a.fence();
                write(a, S1, 2);
            },
            |a| {
                write(a, S1, 1);
                a.fence();
                write(a, S0, 2);
            },
        ],
        forbidden: |_, last| last == [1, 1],
    },
    Litmus {
        name: "additions by all harts, with AMO and with LR/SC",
        threads: &[add_atomically, |a| add_by_lr_sc(a, "one"), add_atomically, |a| add_by_lr_sc(a, "two")],
        forbidden: |_, last| last[0] != HARTS * TIMES,
    },
];

const TIMES: u64 = 6;

fn add_atomically(a: &mut Assembler) {
    a.li(T0, 1);
    (0..TIMES).for_each(|_| a.amoadd(ZERO, T0, S0));
}

fn add_by_lr_sc(a: &mut Assembler, again: &'static str) {
    a.li(T3, TIMES);
    a.label(again);
    a.lr(T0, S0);
    a.addi(T0, T0, 1);
    a.sc(T1, T0, S0);
    a.bnez(T1, again);
    a.addi(T3, T3, -1);
    a.bnez(T3, again);
}

/// All harts start a round together, each after a delay that depends on hart and round.
fn program(threads: &[Thread]) -> Program {
    const PLACES: [&str; HARTS as usize] = ["hart0", "hart1", "hart2", "hart3"];
    let setup = |a: &mut Assembler| {
        a.li(S0, WORDS);
        a.li(S2, RESULTS);
        a.slli(T0, A0, 4);
        a.add(S2, S2, T0);
        a.li(S3, DATA);
        a.li(S4, HARTS);
        a.li(S5, 0);
        a.slli(T0, A0, 2);
        a.add(S6, T0, A0);
        a.addi(S6, S6, 3);
    };
    let body = |a: &mut Assembler| {
        a.addi(S1, S0, 64);
        a.li(T0, 1);
        a.amoadd(ZERO, T0, S3);
        a.label("wait");
        a.ld(T1, S3, 0);
        a.bltu(T1, S4, "wait");
        // round · (5 hart + 3), modulo 16
        a.add(S5, S5, S6);
        a.andi(T0, S5, 15);
        a.label("delay");
        a.addi(T0, T0, -1);
        a.bge(T0, ZERO, "delay");
        a.li(A4, 0);
        a.li(A5, 0);
        for (hart, place) in PLACES.iter().enumerate().skip(1) {
            a.li(T0, hart as u64);
            a.beq(A0, T0, place);
        }
        for (hart, place) in PLACES.iter().enumerate() {
            a.label(place);
            if let Some(thread) = threads.get(hart) {
                thread(a);
            }
            a.j("over");
        }
        a.label("over");
        a.sd(A4, S2, 0);
        a.sd(A5, S2, 8);
        a.addi(S0, S0, 128);
        a.addi(S2, S2, 64);
        a.addi(S4, S4, HARTS as i32);
    };
    Program::new(setup, body)
}

/// Outcome of every round: the values read, and the words' final values.
fn outcomes(litmus: &Litmus, preset: &str, mode: Mode, set: &[&str]) -> Vec<(Outcome, [u64; 2])> {
    let set: Vec<String> =
        set.iter().map(|&text| text.to_owned()).chain([format!("platform.harts={HARTS}")]).collect();
    let config = resolve(preset, &set).expect("a configuration").machine();
    let mut machine = Machine::new(config, 1).expect("a machine");
    assert!(machine.load_bare(&program(litmus.threads).image), "the program fits into RAM");
    machine.set_mode(mode);
    let at = |machine: &Machine, addr| machine.ram().load_u64(PhysAddr(addr)).expect("the address is in RAM");
    // The first word counts arrivals at the start of rounds. One more than the total means that all harts
    // have completed the last round.
    let mut until = Ps::ZERO;
    while at(&machine, DATA) <= HARTS * ROUNDS {
        until += Ps::from_us(50);
        assert!(until < Ps::from_ms(50), "{}: {} rounds in {until}", litmus.name, at(&machine, DATA) / HARTS);
        machine.run(&Limits::until(until));
    }
    let round = |round: u64| {
        let read = |hart: u64| [0, 8].map(|word| at(&machine, RESULTS + 64 * round + 16 * hart + word));
        let read = [0, 1, 2, 3].map(read);
        (read, [0, 64].map(|word| at(&machine, WORDS + 128 * round + word)))
    };
    (0..ROUNDS - 1).map(round).collect()
}

#[test]
fn litmus_outcomes_are_allowed_by_rvwmo_and_vary() {
    let machines: [(&str, Mode, &[&str]); 8] = [
        ("fast", Mode::Functional, &[]),
        ("server", Mode::Warming, &[]),
        ("server", Mode::Detailed, &[]),
        (
            "server",
            Mode::Detailed,
            &["memory.coherence.kind=directory", "memory.coherence.entries=48", "core.quantum=200ns"],
        ),
        ("server", Mode::Detailed, &["core.lookahead=20ns"]),
        ("server", Mode::Detailed, &["platform.threads=2"]),
        // LLC slices on a ring, and on a mesh.
        ("xeon-e5-2667v4", Mode::Detailed, &[]),
        ("skylake-sp", Mode::Detailed, &["platform.threads=2"]),
    ];
    let mut varied = 0;
    for litmus in TESTS {
        for (preset, mode, set) in machines {
            let all = outcomes(litmus, preset, mode, set);
            for (outcome, last) in &all {
                let what = (litmus.name, mode, outcome, last);
                assert!(!(litmus.forbidden)(outcome, *last), "{what:?} is forbidden");
            }
            let distinct: BTreeSet<_> = all.iter().collect();
            varied += u64::from(distinct.len() > 1);
        }
    }
    // Two of the tests have only one allowed outcome.
    assert!(varied >= 14, "harts hardly interleave: only {varied} runs had several outcomes");
}
