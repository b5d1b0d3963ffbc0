//! Fault injection: several `doorbell` processes on shared folders are killed or run out of disk space at
//! times chosen by a seed. These tests use fixed seeds; `make test-faults` tries new seeds without end.

use doorbell_acceptance::{doorbell_path, short_or_long};
use doorbell_faults::{expected, play};

/// Seeds that have found bugs, and others. 1 and 23 find older bugs when these are put back. The last two
/// include image builds.
const SEEDS: [u64; 11] = [1, 5, 8, 23, 115, 150, 1001, 1002, 3043, 5098, 5130];

#[test]
fn results_are_complete_and_identical_despite_kills_and_full_disks() {
    let doorbell = doorbell_path();
    let expected = expected(doorbell).expect("runs without faults succeed");
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
