//! The event log is in order of simulated time, agrees with the counters, and does not change the run.

use std::fs;

use doorbell_acceptance::{doorbell, scratch, shared_checkpoint};
use serde_json::Value;

/// Runs testpmd for a short time at a rate, with further arguments, and returns the summary and the counters.
fn run(folder: &std::path::Path, rate: &str, further: &[&str]) -> (Value, Value) {
    let checkpoint = shared_checkpoint(&[]);
    let (out, checkpoint) = (folder.to_str().unwrap(), checkpoint.to_str().unwrap());
    let mut arguments = vec!["run", "testpmd", "--rate", rate, "--warmup", "10us", "--duration", "100us"];
    arguments.extend(["--checkpoint", checkpoint, "--out", out, "-q"]);
    arguments.extend(further);
    doorbell(&arguments).success();
    let read = |name| serde_json::from_str(&fs::read_to_string(folder.join(name)).unwrap()).unwrap();
    (read("summary.json"), read("stats.json"))
}

#[test]
fn the_log_is_in_time_order_and_does_not_change_the_run() {
    let folder = scratch();
    let log = folder.path().join("log");
    let silent = run(&folder.path().join("silent"), "1Mpps", &[]);
    let to = ["--log", "all=trace", "--log-file", log.to_str().unwrap()];
    let logged = run(&folder.path().join("logged"), "1Mpps", &to);
    assert_eq!(silent.0["state_hash"], logged.0["state_hash"]);
    assert_eq!(silent.1["counters"], logged.1["counters"]);

    let text = fs::read_to_string(&log).unwrap();
    let mut before = String::new();
    let mut counts = [0u64; 4];
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (seconds, rest) = words[0].split_once('.').unwrap_or_else(|| panic!("no time: {line}"));
        let time = format!("{seconds:0>9}.{rest}");
        // Lines of harts have the hart's own time, which may be a few instructions ahead of the devices.
        if words[1] != "riscv" && words[1] != "machine" {
            assert!(rest.len() == 12 && before <= time, "out of order after {before}: {line}");
            before = time;
        }
        for (count, what) in counts.iter_mut().zip([
            "nic0: frame of 64 bytes received",
            "nic0: frame of 64 bytes sent",
            "bytes received: Returned",
            "nic0: write TDT = 0x",
        ]) {
            *count += u64::from(line.contains(what));
        }
    }
    let sent = logged.0["points"][0]["frames_offered"].as_u64().unwrap();
    let [received, sent_back, returned, doorbells] = counts;
    assert!(sent >= 90 && received >= sent, "{counts:?} of {sent}");
    assert_eq!((received, received), (sent_back, returned), "{counts:?}");
    assert!((1..=received).contains(&doorbells), "{counts:?}");
}

#[test]
fn drops_are_logged_with_their_cause() {
    let folder = scratch();
    let log = folder.path().join("log");
    let small = ["--set", "nic.rx_fifo=2KiB", "--log", "nic=debug", "--log-file", log.to_str().unwrap()];
    let (_, stats) = run(&folder.path().join("run"), "100%", &small);
    let text = fs::read_to_string(&log).unwrap();
    let of = |name: &str| stats["totals"][format!("port0.nic.{name}")]["value"].as_u64().unwrap();
    for (class, counter) in [("Dma", "rx_drop_dma"), ("Core", "rx_drop_core"), ("Tx", "rx_drop_tx")] {
        let logged = text.matches(&format!("the FIFO is full ({class})")).count() as u64;
        assert_eq!(logged, of(counter), "{class}");
    }
    assert!(of("rx_drop_dma") + of("rx_drop_core") > 100);
    assert!(
        !text.contains(" trace ") && !text.contains("loadgen"),
        "only the selected component and level are logged"
    );
}

#[test]
fn an_invalid_log_option_is_rejected_with_the_valid_values() {
    doorbell(&["config", "show", "--log", "nik=trace"])
        .assert_failure(&["\"nik\"", "nic, pcie, link, loadgen"]);
    doorbell(&["config", "show", "--log", "nic=loud"]).assert_failure(&["\"loud\"", "debug, trace"]);
    doorbell(&["config", "show", "--log", "nic"]).assert_failure(&["component=level"]);
    doorbell(&["config", "show", "--log-file", "/tmp/x"]).assert_failure(&["--log nic=debug"]);
    doorbell(&["config", "show", "--log", "nic=debug", "--log-file", "/no/such/folder/log"])
        .assert_failure(&["/no/such/folder/log"]);
}
