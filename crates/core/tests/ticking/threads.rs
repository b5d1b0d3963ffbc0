//! Compares two SMT threads with the cycle-by-cycle reference model.

use doorbell_core::{Core, PipelineConfig};
use doorbell_sim::rng::Rng;

use crate::common::{Simple, feed, random_ops};
use crate::ticking::exact_config;
use crate::ticking::machine::Pair;

/// A configuration as for one thread, but with sizes that can be partitioned and shared.
fn random_config(rng: &mut Rng) -> PipelineConfig {
    let mut config = exact_config(rng);
    for size in [&mut config.rob, &mut config.lq, &mut config.sq] {
        *size = (*size * 2).max(4);
    }
    config.iq += 7;
    config.int_registers += 34;
    config.float_registers += 34;
    config
}

#[test]
fn each_threads_progress_matches_the_reference_model() {
    const OPS: usize = 600;
    let mut errors = Vec::new();
    for case in 0..150 {
        let mut rng = Rng::stream(case, "threads");
        let config = random_config(&mut rng);
        let mut memory = Simple { warm_code: case % 3 == 0, ..Simple::default() };
        let programs = [0; 2].map(|_| random_ops(&mut rng, OPS, false));
        let ops = [&programs[0][..], &programs[1][..]];
        let fast = feed(&mut Core::threads(&config), ops, &mut memory);
        let predictions =
            fast.each_ref().map(|seen| seen.iter().map(|stages| stages.prediction).collect::<Vec<_>>());
        let common = [0, 1].map(|thread: usize| &ops[thread][..fast[thread].len()]);
        let mut slow = Pair::new(&config, common, [&predictions[0], &predictions[1]], &memory);
        slow.run_until(common[0].len().min(common[1].len()) * 9 / 10);
        for (thread, fast) in fast.iter().enumerate() {
            // Commit cycle of the last op that both have committed.
            let lives = &slow.threads[thread].lives;
            let last = lives.iter().take_while(|life| life.commit.is_some()).count() - 1;
            let ends = (fast[last].commit.number() as f64, lives[last].commit.unwrap() as f64);
            errors.push((ends.0 / ends.1 - 1.0, case, thread, last));
        }
    }
    errors.sort_by(|one, other| one.0.abs().total_cmp(&other.0.abs()));
    let of = |percent: usize| errors[(errors.len() - 1) * percent / 100].0.abs();
    println!("relative difference {:.4} (median), {:.4} (99 of 100), {:?}", of(50), of(99), errors.last());
    assert!(of(50) < 0.005 && of(99) < 0.04 && of(100) < 0.05, "{:?}", errors.last());
}
