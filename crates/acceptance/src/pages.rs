//! Access to the pages of `docs/`, whose examples the checks run verbatim.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::command::doorbell_path;
use crate::guest::{places, scratch};

/// Root folder of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Fenced code blocks of one language in a page.
pub fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap_or("").to_owned()).collect()
}

/// Runs the example of `docs/requests.md` verbatim with one of the servers of memcached's protocol, and checks
/// that it answers all requests.
pub fn answers_the_example_of_requests(benchmark: &str) {
    let page = include_str!("../../../docs/requests.md");
    let example = blocks(page, "sh").remove(0).replace("memcached-kernel", benchmark);
    let folder = scratch();
    symlink(doorbell_path(), folder.path().join("doorbell")).expect("a link can be made");
    let output = Command::new("sh")
        // The functional machine is the fastest; requests and replies are the same as on a timed one.
        .args(["-ec", &format!("PATH=.:$PATH; {} --preset fast --json -q", example.trim_end())])
        .current_dir(folder.path())
        .output()
        .expect("a shell starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let summary: Value = serde_json::from_slice(&output.stdout).expect("a summary");
    let of = |name: &str| summary[name].as_u64().unwrap_or_else(|| panic!("no {name}"));
    assert_eq!((of("frames_offered"), of("frames_delivered")), (2_000, 2_000));
    assert_eq!((of("frames_corrupt"), of("frames_timed_out")), (0, 0));
    // Four of five requests are GETs, whose replies carry the values, so more bits return than are sent.
    assert!(summary["delivered_gbps"].as_f64() > summary["offered_gbps"].as_f64());
}

/// A new cache folder with the user's images and packages but no checkpoints, which may be older than this
/// source.
///
/// # Panics
///
/// If another test of this process uses the same name: that test would lose its checkpoints.
pub fn cache_with_own_checkpoints(name: &str) -> PathBuf {
    static NAMES: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let is_new = NAMES.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
    assert!(is_new, "two tests use the cache name \"{name}\": choose another one");
    let exe = std::env::current_exe().expect("the path of the running program is available");
    let folder = exe.ancestors().nth(3).expect("tests are three levels below the target folder").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a cache can be made");
    for part in ["images", "packages"] {
        fs::create_dir_all(places().cache.join(part)).expect("the user's cache can be made");
        symlink(places().cache.join(part), folder.join(part)).expect("a link can be made");
    }
    folder
}
