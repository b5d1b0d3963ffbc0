//! Compares the cores with a cycle-by-cycle reference model: every op is dispatched, issued, complete,
//! committed and written in the same cycle in both.

mod machine;
mod threads;

use crate::common::{Simple, random_config, random_ops, watch};
use doorbell_core::{Core, CoreKind, MemoryDependence, PipelineConfig, StoreDrain};
use doorbell_sim::op::OpClass;
use doorbell_sim::rng::Rng;
use machine::Machine;

/// A configuration for which both models agree to the cycle: pipelined units, and no speculative loads.
fn exact_config(rng: &mut Rng) -> PipelineConfig {
    let mut config = random_config(rng);
    config.units.divide_interval = 1;
    config.units.float_divide_interval = 1;
    config.memory_dependence =
        if rng.below(2) == 0 { MemoryDependence::Wait } else { MemoryDependence::Perfect };
    config.store_drain = if rng.below(2) == 0 { StoreDrain::InOrder } else { StoreDrain::OutOfOrder };
    config
}

/// Compares many random programs on cores of one kind.
fn compare(kind: CoreKind, cases: u64) {
    let mut longest = 0;
    for case in 0..cases {
        let mut rng = Rng::stream(case, "ticking");
        let mut config = PipelineConfig { kind, ..exact_config(&mut rng) };
        if kind == CoreKind::InOrder {
            // In-order cores never reserve a unit ahead.
            config.units.divide_interval = 1 + rng.below(30) as u32;
            config.units.float_divide_interval = 1 + rng.below(12) as u32;
        }
        let mut memory = Simple { warm_code: case % 3 == 0, ..Simple::default() };
        let ops = random_ops(&mut rng, 220, false);
        let fast = watch(&mut Core::new(&config), &ops, &mut memory);
        let predictions: Vec<_> = fast.iter().map(|stages| stages.prediction).collect();
        let mut slow = Machine::new(&config, &ops, &predictions, &memory);
        slow.run();
        for (index, (fast, slow)) in fast.iter().zip(&slow.lives).enumerate() {
            let of_fast = [fast.dispatch, fast.issue, fast.complete, fast.commit].map(|at| Some(at.number()));
            let of_slow = [slow.dispatch, slow.issue, slow.complete, slow.commit];
            assert_eq!(of_fast, of_slow, "case {case}, op {index}: {:?}\n{config:?}", ops[index]);
            if ops[index].class == OpClass::Store {
                assert_eq!(Some(fast.written.number()), slow.written, "case {case}, op {index}");
            }
        }
        longest = longest.max(fast.last().unwrap().commit.number());
    }
    assert!(longest > 2_000, "the programs were too short for a meaningful test: {longest}");
}

#[test]
fn out_of_order_core_matches_the_reference_model_to_the_cycle() {
    compare(CoreKind::OutOfOrder, 300);
}

#[test]
fn in_order_core_matches_the_reference_model_to_the_cycle() {
    compare(CoreKind::InOrder, 300);
}

#[test]
fn reserving_dividers_ahead_costs_little() {
    // Hardware starts a ready younger division; the model reserves the divider for an older one that is not
    // ready yet.
    let (mut of_fast, mut of_slow) = (0, 0);
    for case in 0..60u64 {
        let mut rng = Rng::stream(case, "dividers");
        let mut config = exact_config(&mut rng);
        config.units.divide_interval = config.units.divide_cycles;
        config.units.float_divide_interval = 12;
        let mut memory = Simple::default();
        let ops = random_ops(&mut rng, 400, false);
        let fast = watch(&mut Core::new(&config), &ops, &mut memory);
        let predictions: Vec<_> = fast.iter().map(|stages| stages.prediction).collect();
        let mut slow = Machine::new(&config, &ops, &predictions, &memory);
        slow.run();
        let ends = (fast.last().unwrap().commit.number(), slow.lives.last().unwrap().commit.unwrap());
        assert!(ends.0.abs_diff(ends.1) * 20 <= ends.1, "case {case}: {ends:?}, more than 5 % apart");
        of_fast += ends.0;
        of_slow += ends.1;
    }
    assert!(of_fast.abs_diff(of_slow) * 200 <= of_slow, "{of_fast} and {of_slow} are more than 0.5 % apart");
}
