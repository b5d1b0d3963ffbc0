//! Requests in a closed loop: the worked example of `docs/requests.md`, word for word, on Debian's memcached and on
//! ours over DPDK.

use std::process::Command;

use doorbell_acceptance::{doorbell_path, scratch};
use serde_json::Value;

const DOCUMENT: &str = include_str!("../../../../docs/requests.md");

fn answer_the_example_on(benchmark: &str) {
    let example =
        DOCUMENT.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let example = example.replace("memcached-kernel", benchmark);
    let folder = scratch();
    std::os::unix::fs::symlink(doorbell_path(), folder.path().join("doorbell")).expect("a link can be made");
    let output = Command::new("sh")
        // The functional machine is the quickest; what is asked and answered is the same.
        .args(["-ec", &format!("PATH=.:$PATH; {} --preset fast --json -q", example.trim_end())])
        .current_dir(folder.path())
        .output()
        .expect("a shell starts");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let summary: Value = serde_json::from_slice(&output.stdout).expect("a summary");
    let of = |name: &str| summary[name].as_u64().unwrap_or_else(|| panic!("no {name}"));
    assert_eq!((of("frames_offered"), of("frames_delivered")), (2_000, 2_000));
    assert_eq!((of("frames_corrupt"), of("frames_timed_out")), (0, 0));
    // Four of five are GETs, whose answers carry the values: more bits come back than are sent.
    assert!(summary["delivered_gbps"].as_f64() > summary["offered_gbps"].as_f64());
}

#[test]
fn the_example_s_gets_and_sets_are_all_answered_as_they_should_be() {
    answer_the_example_on("memcached-kernel");
}

#[test]
fn our_own_store_answers_the_same() {
    answer_the_example_on("memcached-dpdk");
}
