//! Many cases in an ordinary test: files that a fuzzer left, and random bytes by number.

use std::panic::{RefUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use doorbell_sim::rng::Rng;

/// The variable that asks for more random cases than a test runs by itself.
const CASES: &str = "DOORBELL_HARNESS_CASES";

/// Runs random cases of `least` to `most` bytes; `usual` of them, or as many as the environment asks for. A failure is
/// told with the case's number.
pub fn random(name: &str, usual: u64, (least, most): (u64, u64), case: impl Fn(&[u8]) + RefUnwindSafe) {
    let count = std::env::var(CASES).ok().and_then(|count| count.parse().ok()).unwrap_or(usual);
    let failed: Vec<u64> = (0..count)
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
