//! Many cases in an ordinary test: files found by a fuzzer, and random bytes by number.

use std::panic::{RefUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use doorbell_sim::rng::Rng;

/// Environment variable with the number of random cases, if not the default.
const CASES: &str = "DOORBELL_HARNESS_CASES";
/// Environment variable with the number of a single case to run, to examine a failure.
const CASE: &str = "DOORBELL_HARNESS_CASE";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs random cases of `least` to `most` bytes: `usual` of them, or the number from the environment. A
/// failure reports the case numbers, for use with `DOORBELL_HARNESS_CASE`.
pub fn random(name: &str, usual: u64, (least, most): (u64, u64), case: impl Fn(&[u8]) + RefUnwindSafe) {
    let numbers = number(CASE).map_or(0..number(CASES).unwrap_or(usual), |only| only..only + 1);
    let failed: Vec<u64> = numbers
        .filter(|number| {
            let mut rng = Rng::stream(*number, name);
            let length = least + rng.below(most - least + 1);
            let bytes: Vec<u8> = (0..length).map(|_| rng.next_u64() as u8).collect();
            catch_unwind(|| case(&bytes)).is_err()
        })
        .collect();
    assert!(failed.is_empty(), "{name}: random cases {failed:?} failed");
}

/// Replays the files stored for a fuzz target.
pub fn seeds(target: &str, case: impl Fn(&[u8]) + RefUnwindSafe) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let entries = std::fs::read_dir(&folder).expect("every target has a folder of seeds");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    assert!(files.len() >= 5, "{} has only {} seeds", folder.display(), files.len());
    for file in files {
        let bytes = std::fs::read(&file).expect("a readable seed");
        assert!(catch_unwind(|| case(&bytes)).is_ok(), "{} failed", file.display());
    }
}
