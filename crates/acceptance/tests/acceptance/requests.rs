//! Closed-loop requests: runs the example of `docs/requests.md` verbatim, with Debian's memcached and with
//! our memcached-dpdk.

use std::process::Command;

use doorbell_acceptance::{doorbell_path, scratch};
use serde_json::Value;

const DOCUMENT: &str = include_str!("../../../../docs/requests.md");

fn run_example_with(benchmark: &str) {
    let example =
        DOCUMENT.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let example = example.replace("memcached-kernel", benchmark);
    let folder = scratch();
    std::os::unix::fs::symlink(doorbell_path(), folder.path().join("doorbell")).expect("a link can be made");
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

#[test]
fn memcached_kernel_answers_all_requests_of_the_example() {
    run_example_with("memcached-kernel");
}

#[test]
fn memcached_dpdk_answers_all_requests_of_the_example() {
    run_example_with("memcached-dpdk");
}
