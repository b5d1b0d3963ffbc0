//! Result folders: each holds the results of one run, independent of earlier runs, and they are complete
//! despite full or closed outputs, a closed terminal and unusual names.

use std::fs::{self, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use doorbell_acceptance::{
    Running, cache_with_own_checkpoints, check_counters, doorbell, doorbell_path, scratch, shared_checkpoint,
};
use doorbell_bench::verify;
use rustix::process::Signal;
use serde_json::Value;

const SHORT: [&str; 7] = ["run", "testpmd", "-q", "--warmup", "10us", "--duration", "100us"];

/// Command of a short run on the functional machine from the shared checkpoint.
fn short_run(out: &Path) -> Command {
    run_for("100us", out)
}

/// As [`short_run`], with another duration.
fn run_for(duration: &str, out: &Path) -> Command {
    let mut command = Command::new(doorbell_path());
    command
        .args(&SHORT[..6])
        .args([duration, "--preset", "fast", "--checkpoint"])
        .arg(shared_checkpoint(&[]));
    command.arg("--out").arg(out);
    command
}

/// Waits until a run has locked its result folder.
fn wait_for_lock(lock: &Path) {
    let started = Instant::now();
    while !lock.exists() {
        assert!(started.elapsed() < Duration::from_secs(60), "the run does not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    // The lock file is created a moment before it is locked.
    std::thread::sleep(Duration::from_millis(200));
}

fn summary(out: &Path) -> Value {
    serde_json::from_slice(&fs::read(out.join("summary.json")).unwrap()).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn counters_cover_the_measurement_and_totals_the_whole_run() {
    let folder = scratch();
    let out = folder.path().join("out");
    let mut command = Command::new(doorbell_path());
    command.args(["run", "testpmd", "-q", "--rate", "8Mpps", "--set", "run.settle=20us"]);
    command.args(&SHORT[3..]).arg("--checkpoint").arg(shared_checkpoint(&[])).arg("--out").arg(&out);
    assert!(command.status().unwrap().success());
    check_counters(&out, "", &summary(&out));
}

#[test]
fn a_result_does_not_depend_on_the_run_that_booted_the_guest() {
    let folder = scratch();
    let mut results = Vec::new();
    let slow =
        ["--preset", "fast", "--set", "core.frequency=1GHz", "--set", "link.latency=3us", "--seed", "7"];
    for (name, first) in [("history-a", &["--preset", "server"][..]), ("history-b", &slow)] {
        let cache = cache_with_own_checkpoints(name);
        let cached = ["--cache", cache.to_str().unwrap()];
        let out = folder.path().join(name);
        let to = ["--out", out.to_str().unwrap()];
        doorbell(&[&cached, SHORT.as_slice(), &to, first].concat()).success();
        // The same run in both cases, from the checkpoint of the first run.
        let run = [&cached, SHORT.as_slice(), &to, &["--preset", "fast", "--rate", "3Mpps"]].concat();
        doorbell(&run).success();
        let summary = summary(&out);
        results.push((
            summary["ran"]["boot"].clone(),
            summary["state_hash"].clone(),
            summary["latency_ns"].clone(),
        ));
    }
    assert_eq!(results[0], results[1]);
    assert!(results[0].0.as_str().is_some_and(|boot| boot.len() == 16), "{:?}", results[0].0);
}

#[test]
fn two_concurrent_first_runs_boot_the_guest_once_and_give_the_same_result() {
    let folder = scratch();
    let cache = cache_with_own_checkpoints("two-first-runs");
    let start = |name: &str| {
        let mut command = Command::new(doorbell_path());
        command
            .arg("--cache")
            .arg(&cache)
            .args(&SHORT[..2])
            .args(&SHORT[3..])
            .args(["--preset", "fast", "--out"]);
        command.arg(folder.path().join(name));
        Running::start(command)
    };
    let running = [start("one"), start("other")];
    let boots: usize = running
        .into_iter()
        .map(|run| {
            let output = run.end();
            assert_eq!(output.code, Some(0), "{}", output.stderr);
            output.stderr.matches("booting Debian").count()
        })
        .sum();
    assert_eq!(boots, 1);
    let [one, other] = ["one", "other"].map(|name| summary(&folder.path().join(name)));
    assert_eq!((&one["state_hash"], &one["ran"]), (&other["state_hash"], &other["ran"]));
}

#[test]
fn a_result_has_the_versions_of_image_and_simulator() {
    let folder = scratch();
    let out = folder.path().join("out");
    Running::start(short_run(&out)).end().success();
    let ran = &summary(&out)["ran"];
    let image = &ran["images"][0];
    assert_eq!(image["image"], "testpmd");
    assert!(image["kernel_release"].as_str().unwrap().contains("riscv64"), "{image}");
    assert!(image["dpdk_version"].is_string() && image["image_sha256"].as_str().unwrap().len() == 64);
    let packages: Vec<&str> =
        image["packages"].as_array().unwrap().iter().filter_map(|package| package["name"].as_str()).collect();
    assert!(packages.contains(&"dpdk-dev") && packages.contains(&"opensbi"), "{packages:?}");
    assert!(ran["doorbell_commit"].as_str().unwrap().len() >= 7);
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains(">Software</h2>") && page.contains(image["image_sha256"].as_str().unwrap()));
}

#[test]
fn a_second_run_into_a_folder_replaces_all_files_of_the_first() {
    let folder = scratch();
    let out = folder.path().join("out");
    let mut several = short_run(&out);
    several.args(["--rate", "1Mpps,2Mpps", "--pcap"]);
    let stdout = Running::start(several).end().success();
    assert!(stdout.contains("point-00/ to point-01/"), "{stdout}");
    assert!(out.join("point-01/wire.pcap").exists());
    let stdout = Running::start(short_run(&out)).end().success();
    // The last line lists exactly the files in the folder.
    let closing = stdout.lines().last().unwrap();
    let named: Vec<&str> = closing.split_once('(').unwrap().1.trim_end_matches(").").split(", ").collect();
    assert_eq!(names(&out), named);
    assert!(!out.join("point-00").exists());
    assert_eq!(verify(&out), Ok(()));
    assert_eq!(names(folder.path()), ["out"]);
}

#[test]
fn a_folder_in_use_by_another_run_or_with_foreign_files_is_rejected() {
    let folder = scratch();
    let out = folder.path().join("out");
    let running = Running::start(run_for("1000s", &out));
    wait_for_lock(&folder.path().join(".out.lock"));
    Running::start(short_run(&out)).end().assert_failure(&["is being written by another run", "--out"]);
    running.signal(Signal::INT);
    running.end().assert_interrupted(&[]);
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("thesis.tex"), "years of work").unwrap();
    Running::start(short_run(&out)).end().assert_failure(&["thesis.tex", "--out"]);
    assert_eq!(names(&out), ["thesis.tex"]);
}

#[test]
fn results_are_complete_if_standard_output_or_error_is_full() {
    let folder = scratch();
    let full = || Stdio::from(OpenOptions::new().write(true).open("/dev/full").unwrap());
    for (name, stdout_full) in [("stdout", true), ("stderr", false)] {
        let out = folder.path().join(name);
        let mut command = short_run(&out);
        command.stdin(Stdio::null());
        if stdout_full {
            command.stdout(full()).stderr(Stdio::piped());
        } else {
            command.stdout(Stdio::piped()).stderr(full());
        }
        let output = command.output().unwrap();
        assert_eq!(verify(&out), Ok(()), "{name}");
        assert_eq!(output.status.code(), Some(i32::from(stdout_full)), "{name}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(stderr.contains("cannot write to standard output"), stdout_full, "{stderr}");
    }
    for listing in [["config", "show"], ["config", "registers"], ["image", "list"], ["help", "run"]] {
        let output = Command::new(doorbell_path()).args(listing).stdout(full()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{listing:?}: {stderr}");
        assert!(
            stderr.contains("cannot write to standard output") && !stderr.contains("panicked"),
            "{stderr}"
        );
    }
}

#[test]
fn results_are_complete_after_a_hangup_and_with_a_folder_name_that_is_not_utf_8() {
    let folder = scratch();
    let out = folder.path().join(std::ffi::OsStr::from_bytes(b"out\xff"));
    let running = Running::start(run_for("100ms", &out));
    // Signal handlers are installed before the result folder is created.
    wait_for_lock(&folder.path().join(std::ffi::OsStr::from_bytes(b".out\xff.lock")));
    running.signal(Signal::HUP);
    running.end().success();
    assert_eq!(verify(&out), Ok(()));
}

#[test]
fn a_guest_that_sleeps_forever_ends_at_the_time_limit_and_is_an_error_without_one() {
    let folder = scratch();
    let program = folder.path().join("sleep.bin");
    // A loop of WFI, with all interrupts disabled.
    fs::write(&program, b"\x73\x00\x50\x10\x6f\xf0\xdf\xff").unwrap();
    let boot = |further: &[&str]| {
        let mut command = Command::new(doorbell_path());
        command.args(["boot", "--bare"]).arg(&program).args(further);
        Running::start(command).end()
    };
    for further in [
        &["--max-time", "50ms"][..],
        &["--max-time", "50ms", "--fast-forward"],
        &["--max-time", "5ms", "--harts", "2"],
    ] {
        let output = boot(further);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        assert!(output.stderr.contains("all interrupts disabled"), "{}", output.stderr);
    }
    boot(&[]).assert_failure(&["no pending event to wake it", "--max-time"]);
}
