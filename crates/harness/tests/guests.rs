//! Random guests in whole machines.

use doorbell_harness::guest;
use doorbell_harness::operations::Profile;
use doorbell_sim::rng::Rng;

fn random(seed: u64, name: &str) -> Vec<u8> {
    let mut rng = Rng::stream(seed, name);
    let len = 64 + rng.below(1200);
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

fn many(profile: Profile, name: &str) {
    let count = std::env::var("CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(30);
    let first = std::env::var("FIRST").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    for seed in first..first + count {
        let bytes = random(seed, name);
        let result = std::panic::catch_unwind(|| guest::run(profile, &bytes));
        if result.is_err() {
            panic!("random guest {name} {seed}");
        }
    }
}

#[test]
fn no_access_to_a_device_panics() {
    many(Profile::Mmio, "mmio");
}

#[test]
fn no_access_to_configuration_space_panics() {
    many(Profile::ConfigSpace, "config_space");
}

#[test]
fn no_program_panics() {
    many(Profile::Program, "program");
}
