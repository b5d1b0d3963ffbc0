//! Random configurations.

use doorbell_harness::config;
use doorbell_sim::rng::Rng;

#[test]
fn a_configuration_is_refused_by_key_or_runs() {
    let count = std::env::var("CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let first = std::env::var("FIRST").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut failed = Vec::new();
    for seed in first..first + count {
        let mut rng = Rng::stream(seed, "configs");
        let bytes: Vec<u8> = (0..96).map(|_| rng.next_u64() as u8).collect();
        if std::panic::catch_unwind(|| config::run(&bytes)).is_err() {
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "configurations {failed:?}");
}
