//! Checkpoints that someone changed.

use doorbell_harness::checkpoint;
use doorbell_sim::rng::Rng;

#[test]
fn a_changed_checkpoint_is_refused_or_runs() {
    let count = std::env::var("CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let first = std::env::var("FIRST").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut failed = Vec::new();
    for seed in first..first + count {
        let mut rng = Rng::stream(seed, "checkpoints");
        let bytes: Vec<u8> = (0..64).map(|_| rng.next_u64() as u8).collect();
        if std::panic::catch_unwind(|| checkpoint::run(&bytes)).is_err() {
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "checkpoints {failed:?}");
}
