//! Branches whose directions follow a pattern in memory: misprediction rate and cost of each predictor.
//!
//! The loop loads a byte and branches on it. Both directions lead to the next instruction, so the path is
//! always the same. The byte's address is computed one iteration earlier, and its index one iteration before
//! that.

use doorbell_assembler::{Assembler, *};
use doorbell_core::CoreKind;
use doorbell_machine::MachineConfig;
use doorbell_sim::rng::Rng;

use super::program::DATA;
use super::{CORES, Program, Row, machine, measure};

/// Length of the pattern in bytes.
const LENGTH: u64 = 65_536;

fn program(pattern: &[u8]) -> Program {
    let setup = |a: &mut Assembler| {
        a.li(S0, DATA);
        a.li(S2, 0);
        a.li(S4, 0);
        a.li(S3, LENGTH - 1);
        a.mv(S1, S0);
    };
    let body = |a: &mut Assembler| {
        a.lbu(T0, S1, 0);
        a.addi(S2, S2, 1);
        a.addi(ZERO, ZERO, 0);
        a.bnez(T0, "next");
        a.label("next");
        a.add(S1, S0, S4);
        a.and(S4, S2, S3);
    };
    Program::new(setup, body).with(DATA, pattern)
}

/// Cycles per iteration, and additional cycles per misprediction.
fn costs(config: &MachineConfig) -> (f64, f64) {
    let p = &config.pipeline;
    let load = p.address_cycles + config.memory.l1d.latency;
    let refill = p.redirect_cycles + config.memory.l1i.latency + p.front_end_depth;
    match p.kind {
        // Two fetch groups per iteration. After a misprediction, fetch resumes once the branch has executed.
        // The branch is dispatched with the load, and issues no sooner than one cycle later and when the load
        // is done.
        CoreKind::OutOfOrder => (2.0, f64::from(refill + 1 + load + p.units.branch_cycles - 1)),
        // The branch waits for the load, and the next load for the address, which issues with the branch.
        CoreKind::InOrder => {
            (f64::from(load + p.units.alu_cycles), f64::from(refill + p.units.branch_cycles))
        }
    }
}

fn random_pattern() -> Vec<u8> {
    let mut rng = Rng::stream(2, "branches");
    (0..LENGTH).map(|_| rng.below(2) as u8).collect()
}

fn periodic(pattern: &[u8]) -> Vec<u8> {
    pattern.iter().copied().cycle().take(LENGTH as usize).collect()
}

/// The loop with a random branch.
pub(super) fn random() -> Program {
    program(&random_pattern())
}

/// The loop with a branch that is taken two of three times.
pub(super) fn every_third() -> Program {
    program(&periodic(&[1, 1, 0]))
}

/// Mispredictions per branch and cycles per iteration, for each predictor and pattern.
pub fn patterns() -> Vec<Row> {
    let ten = [1, 1, 1, 1, 1, 1, 1, 1, 1, 0];
    // Expected mispredictions per branch of bimodal, BiMode and TAGE.
    let learnt = (0.0, 0.002);
    // The warm-up runs the whole pattern once, so histories predict a little of a random one.
    let chance = (0.44, 0.54);
    let patterns = [
        ("always taken", periodic(&[1]), [(0.0, 0.0); 3]),
        ("taken every other time", periodic(&[1, 0]), [(0.5, 1.0), learnt, learnt]),
        ("taken two of three times", periodic(&[1, 1, 0]), [(1.0 / 3.0, 1.0 / 3.0), learnt, learnt]),
        ("taken nine of ten times", periodic(&ten), [(0.1, 0.1), learnt, learnt]),
        ("taken at random", random_pattern(), [chance; 3]),
    ];
    let mut rows = Vec::new();
    for core in CORES {
        for (predictor, place) in [("bimodal", 0), ("bimode", 1), ("tage", 2)] {
            if core == CoreKind::InOrder && predictor != "bimode" {
                continue;
            }
            let config =
                machine(core, &[&format!("pipeline.branch.direction={predictor}"), "memory.l1d.size=128KiB"]);
            for (name, pattern, expected) in &patterns {
                let measured = measure(&config, &program(pattern), LENGTH + 600, 3_480);
                let wrong = measured.counts.wrong_directions as f64 / measured.iterations as f64;
                let what = format!("branch {name}, {predictor}");
                let range = expected[place];
                rows.push(Row {
                    what: what.clone(),
                    core,
                    unit: "mispredictions per branch",
                    form: "expected of the predictor".to_owned(),
                    expected: range,
                    measured: wrong,
                });
                let (base, penalty) = costs(&config);
                let pace = base + penalty * wrong;
                rows.push(Row {
                    what,
                    core,
                    unit: "cycles per iteration",
                    form: format!("{base} + {penalty} per misprediction"),
                    expected: (pace, pace),
                    measured: measured.pace(),
                });
            }
        }
    }
    rows
}
