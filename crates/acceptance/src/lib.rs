//! Shared code of the acceptance checks: the `doorbell` command as users run it, guests that boot once for
//! all checks, and a pseudo-terminal.
//!
//! The checks are in `tests/acceptance`, one file per promised feature, and in the folders of the benchmarks
//! (`scenarios`). They are short by default;
//! `DOORBELL_LONG=1` in the environment selects full lengths and counts.

#![forbid(unsafe_code)]

mod command;
mod counters;
mod full_disk;
mod guest;
mod pages;
mod pty;

pub mod baseline;
pub mod memcached;
pub mod micro;
pub mod native;
pub mod net_guest;
pub mod programs;
pub mod result_invariants;
pub mod tshark;

use serde_json::Value;

pub use command::{CommandOutput, Running, doorbell, doorbell_path};
pub use counters::check_counters;
pub use full_disk::FullDisk;
pub use guest::{
    counter, places, quiet, run_point, run_point_observed, scratch, session, shared_checkpoint, timed_session,
};
pub use pages::{answers_the_example_of_requests, blocks, cache_with_own_checkpoints, repository};
pub use pty::Pty;

/// Whether `DOORBELL_LONG` selects full lengths and counts.
pub fn long() -> bool {
    std::env::var_os("DOORBELL_LONG").is_some_and(|value| value != "0" && !value.is_empty())
}

/// Runs `doorbell run` with these options and a short warm-up; returns its summary.
#[track_caller]
pub fn summary(options: &str) -> Value {
    let folder = scratch();
    let out = folder.path().join("out");
    let common = ["run", "--out", out.to_str().expect("a path in UTF-8"), "--json", "-q", "--warmup", "2ms"];
    let words: Vec<&str> = common.into_iter().chain(options.split_whitespace()).collect();
    serde_json::from_str(&doorbell(&words).success()).expect("the summary is JSON and nothing else")
}

/// A number in a summary, by its JSON pointer ("/transfer/goodput_gbps").
#[track_caller]
pub fn number(of: &Value, path: &str) -> f64 {
    of.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path}: {of}"))
}

/// Dropped frames of a summary, over all causes. `waited_for` and `nic` are excluded: they classify the same
/// frames in other ways.
pub fn dropped(drops: &Value) -> u64 {
    let causes = drops.as_object().expect("drops by cause");
    let counts = causes.iter().filter(|(cause, _)| !["waited_for", "nic"].contains(&cause.as_str()));
    counts
        .map(|(cause, count)| count.as_u64().unwrap_or_else(|| panic!("{cause}: {count} is not a count")))
        .sum()
}

/// `short` in a short run, `at_length` in a long run.
pub fn short_or_long<T>(short: T, at_length: T) -> T {
    if long() { at_length } else { short }
}
