//! iperf3's results match the traffic on the cable, and a part of a transfer to a timed server is reproducible.

use std::fs;
use std::path::Path;

use doorbell_acceptance::{check_counters, doorbell, number, scratch};
use serde_json::Value;

/// Runs `iperf` into a folder; returns its summary.
fn iperf(folder: &Path, options: &[&str]) -> Value {
    let common = ["run", "iperf", "--out", folder.to_str().expect("a path in UTF-8"), "--json", "-q"];
    let printed = doorbell(&[&common[..], options].concat()).success();
    serde_json::from_str(&printed).expect("the summary is JSON and nothing else")
}

#[test]
#[ignore = "long: make test-long runs it"]
fn iperf3_reports_the_traffic_on_the_cable() {
    let folder = scratch();
    // Slow cores, so that iperf3's shortest test of one second is simulated quickly.
    let slow = ["core.frequency=300MHz", "drive.frequency=300MHz", "drive.ipc=1", "iperf.seconds=1"];
    let options = slow.iter().flat_map(|set| ["--set", set]);
    let found = iperf(folder.path(), &["--preset", "fast"].into_iter().chain(options).collect::<Vec<_>>());
    let (goodput, seconds) = (number(&found, "/goodput_gbps"), number(&found, "/seconds"));
    assert!((0.9..1.2).contains(&seconds) && (0.02..10.0).contains(&goodput), "{found}");
    assert!((goodput - number(&found, "/bytes_received") * 8e-9 / seconds).abs() < 1e-6, "{found}");
    // The cable carried the bytes that iperf3 reports, and acknowledgements returned.
    assert!(number(&found, "/wire_to_server/bytes") > number(&found, "/bytes_received"));
    assert!(
        number(&found, "/wire_to_server/bytes") < 1.1 * number(&found, "/bytes_sent") + 100_000.0,
        "{found}"
    );
    assert!(number(&found, "/wire_to_client/frames") > 10.0);
    assert!(folder.path().join("iperf3.json").exists());
}

#[test]
fn a_transfer_with_a_timed_server_is_reproducible_also_when_profiled_and_recorded() {
    let folder = scratch();
    let short = ["--preset", "server", "--warmup", "2ms", "--duration", "1ms", "--set", "run.settle=300us"];
    let one = folder.path().join("one");
    let first = iperf(&one, &short);
    // The window is exact except for the block that the core executes at its end.
    let seconds = number(&first, "/seconds");
    assert!((seconds - 1e-3).abs() < 1e-7, "{seconds}");
    let (goodput, received) = (number(&first, "/goodput_gbps"), number(&first, "/bytes_received"));
    assert!((1.0..20.0).contains(&goodput) && (goodput - received * 8e-9 / seconds).abs() < 1e-6, "{first}");
    // The link carries at least the received bytes, with headers.
    assert!(number(&first, "/offered_gbps") > goodput * 0.8, "{first}");
    // The server's core is timed: IPC and top-down slots are plausible.
    let (ipc, instructions) = (number(&first, "/ipc"), number(&first, "/instructions"));
    assert!((0.05..4.0).contains(&ipc) && (ipc - instructions / 3e6).abs() < 1e-3, "{first}");
    let top = first.pointer("/timing/top-down").and_then(Value::as_object).expect("the top-down split");
    let slots: f64 = ["retiring", "bad_speculation", "frontend_bound", "backend_bound"]
        .iter()
        .map(|part| top.get(*part).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {part}: {top:?}")))
        .sum();
    assert!((slots - 1.0).abs() < 1e-9, "{top:?}");
    check_counters(&one, "node0.", &first);
    let stats = fs::read_to_string(one.join("stats.json")).expect("stats.json was written");
    assert!(stats.contains("node0.hart0.core.") && !stats.contains("node1.hart0.core."));
    assert!(doorbell(&["report", one.to_str().unwrap()]).success().contains("goodput"));
    // Idle shares, and figures over time.
    let (test, drive) = (number(&first, "/transfer/test_idle"), number(&first, "/transfer/drive_idle"));
    assert!(test < 0.5 && (0.3..1.0).contains(&drive), "{test} {drive}");
    let parts = first.pointer("/transfer/over_time").and_then(Value::as_array).expect("parts over time");
    let of = |phase: &str| parts.iter().filter(|part| part["phase"] == phase).collect::<Vec<_>>();
    assert!(of("warmup").len() > 10 && of("settle").len() > 5 && of("measured").len() == 1);
    let moved: f64 =
        of("measured").iter().map(|part| number(part, "/gbps") * number(part, "/length_ns")).sum();
    assert!((moved / 8.0 / received - 1.0).abs() < 1e-3, "{moved} {received}");
    let two = folder.path().join("two");
    let second = iperf(&two, &[&short[..], &["--profile", "--trace", "--samples", "1"]].concat());
    assert_eq!(first["state_hash"], second["state_hash"], "profiling and recording do not change the run");
    check_trace(&two.join("trace.dbt"), &first);
    check_kinds(&two, &second);
    // The other direction and protocol.
    let other = ["--preset", "fast", "--warmup", "1ms", "--duration", "1ms", "--set", "iperf.reverse=true"];
    let found = iperf(&folder.path().join("three"), &[&other[..], &["--set", "iperf.protocol=udp"]].concat());
    assert!(number(&found, "/goodput_gbps") > 0.5, "{found}");
    assert!(
        number(&found, "/wire_to_client/bytes") > 10.0 * number(&found, "/wire_to_server/bytes"),
        "{found}"
    );
}

/// Checks that each cycle of the server has one kind, and that the kernel's functions are attributed to
/// kinds.
fn check_kinds(folder: &Path, found: &Value) {
    let kinds = found.pointer("/kinds/kinds").and_then(Value::as_array).expect("a profile was requested");
    let sum: u64 = kinds.iter().map(|cost| cost["cycles"].as_u64().expect("cycles")).sum();
    assert_eq!(Some(sum), found["kinds"]["cycles"].as_u64());
    // The sum is the window's cycles, including sleep, except for the blocks at its edges.
    let expected = number(found, "/seconds") * 3e9;
    assert!((sum as f64 - expected).abs() < 3000.0, "{sum} cycles of {expected}");
    let share = |kind: &str| -> f64 {
        kinds.iter().find(|cost| cost["kind"] == kind).map_or(0.0, |cost| number(cost, "/share"))
    };
    assert!(share("copy") > 0.1 && share("stack") > 0.05 && share("driver") > 0.02, "{kinds:?}");
    assert!(share("interrupt") > 0.001 && share("syscalls") > 0.0005, "{kinds:?}");
    let idle = number(found, "/transfer/test_idle");
    assert!((share("idle") - idle).abs() < 0.01, "{idle} {kinds:?}");
    assert!(share("other") <= 0.05 * (1.0 - share("idle")), "{kinds:?}");
    let per_kb = |kind: &Value| number(kind, "/llc_misses") * 1024.0 / number(found, "/bytes_received");
    assert!(kinds.iter().all(|cost| (number(cost, "/misses_per_kb") - per_kb(cost)).abs() < 1e-9));
    assert!(number(found, "/kinds/frames_per_interrupt") > 1.0, "{found}");
    let csv = fs::read_to_string(folder.join("kinds-node0.csv")).expect("kinds-node0.csv was written");
    assert_eq!(csv.lines().count(), 1 + kinds.len());
    assert!(folder.join("functions-node0.folded").exists() && !folder.join("kinds-node1.csv").exists());
}

/// Replays a trace of the server on the same machine. Frames and instructions must match, and so must the busy
/// time, except for additional cache misses because of the short warm-up.
fn check_trace(trace: &Path, executed: &Value) {
    let folder = scratch();
    let (trace, out) = (trace.to_str().unwrap(), folder.path().to_str().unwrap());
    let info = doorbell(&["trace", "info", trace]).success();
    assert!(info.contains("iperf, TCP: node0, one of 2 nodes"), "{info}");
    let words =
        ["trace", "run", trace, "--preset", "server", "--warmup", "whole", "--out", out, "--json", "-q"];
    let played: Value = serde_json::from_str(&doorbell(&words).success()).expect("the summary is JSON");
    let of = |path: &str| number(&played, path);
    assert!(of("/frames_in") > 100.0 && of("/frames_out") > 0.0, "{played}");
    assert_eq!(of("/instructions"), number(executed, "/instructions"));
    assert_eq!(of("/frames_in"), number(executed, "/wire_to_server/frames"));
    // Its warm-up plays the whole trace, so it lacks misses of the LLC that the short warm-up left. Each of them
    // costs the executed run at most an access to DRAM, 100 ns at 3 GHz.
    let instructions = number(executed, "/timing/packet cost/instructions");
    let saved = instructions * (1.0 / number(executed, "/timing/packet cost/ipc") - 1.0 / of("/ipc"));
    let misses = |of: &Value| number(of, "/timing/LLC/misses_per_packet");
    let fewer_misses = misses(executed) - misses(&played);
    let cycles = number(executed, "/timing/packet cost/cycles");
    assert!(
        (-0.02 * cycles..300.0 * fewer_misses + 0.02 * cycles).contains(&saved),
        "{saved} of {cycles} cycles per packet less, with {fewer_misses} misses less"
    );
}
