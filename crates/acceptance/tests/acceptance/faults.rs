//! Several `doorbell` processes on shared folders, killed and short of space at moments that a seed decides: some histories, each
//! time the same. `make test-faults` plays new ones without end.

use doorbell_acceptance::{doorbell_path, short_or_long};
use doorbell_faults::{expected, play};

/// Histories that have found faults (1 and 23 those from before there was this simulator, when they are put back), and others; the last
/// two have builds of images among them.
const SEEDS: [u64; 11] = [1, 5, 8, 23, 115, 150, 1001, 1002, 3043, 5098, 5130];

#[test]
fn whatever_is_killed_and_whenever_the_disk_is_full_results_are_whole_and_the_same() {
    let doorbell = doorbell_path();
    let expected = expected(doorbell).expect("nothing disturbs these");
    let further = 2000..2000 + short_or_long(0, 100);
    for seed in SEEDS.into_iter().chain(further) {
        let mut log = Vec::new();
        if let Err(fault) = play(seed, doorbell, &expected, &mut log) {
            panic!(
                "seed {seed}: {fault:#}\nthe last operations:\n{}",
                log[log.len().saturating_sub(60)..].join("\n")
            );
        }
    }
}
