//! Many cases in an ordinary test: files that a fuzzer left, and random bytes by number.

use std::panic::{RefUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use doorbell_sim::rng::Rng;

/// The variable that asks for more random cases than a test runs by itself.
const CASES: &str = "DOORBELL_HARNESS_CASES";
/// The variable that asks for one of them alone, by its number: to look at one that failed.
const CASE: &str = "DOORBELL_HARNESS_CASE";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs random cases of `least` to `most` bytes; `usual` of them, or as many as the environment asks for. A failure is
/// told with the case's number, by which `DOORBELL_HARNESS_CASE` runs it alone.
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

/// Replays the files kept for a fuzz target.
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
