//! What the acceptance checks share: the `doorbell` command as a user has it, a guest booted once for
//! all of them, and a terminal to sit at.
//!
//! The checks themselves are in `tests/acceptance`, one file a promise. They run in a short form; with
//! `DOORBELL_LONG=1` in the environment they run with the full numbers.

#![forbid(unsafe_code)]

mod command;
mod counters;
mod full_disk;
mod guest;
mod pages;
mod pty;

pub mod baseline;
pub mod books;
pub mod memcached;
pub mod micro;
pub mod native;
pub mod net_guest;
pub mod tshark;

use serde_json::Value;

pub use command::{Ended, Running, doorbell, doorbell_path};
pub use counters::check_counters;
pub use full_disk::FullDisk;
pub use guest::{counter, places, quiet, scratch, session, shared_checkpoint, timed_session};
pub use pages::{blocks, cache_with_own_checkpoints, repository};
pub use pty::Pty;

/// Whether the full numbers were asked for.
pub fn long() -> bool {
    std::env::var_os("DOORBELL_LONG").is_some_and(|value| value != "0" && !value.is_empty())
}

/// A number of a summary, by its path ("/transfer/goodput_gbps").
#[track_caller]
pub fn number(of: &Value, path: &str) -> f64 {
    of.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path}: {of}"))
}

/// How many frames a summary's `drops` names by cause; what they waited for (`waited_for`) and why NICs
/// dropped them (`nic`) say another thing of the same frames.
pub fn dropped(drops: &Value) -> u64 {
    let causes = drops.as_object().expect("drops by cause");
    let counts = causes.iter().filter(|(cause, _)| !["waited_for", "nic"].contains(&cause.as_str()));
    counts
        .map(|(cause, count)| count.as_u64().unwrap_or_else(|| panic!("{cause}: {count} is no count")))
        .sum()
}

/// The one value in a short run, the other in a long one.
pub fn short_or_long<T>(short: T, at_length: T) -> T {
    if long() { at_length } else { short }
}
