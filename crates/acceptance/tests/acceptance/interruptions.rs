//! Ctrl-C at every stage: the run ends soon, reports the interrupt, and leaves only complete files.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use doorbell_acceptance::{Pty, Running, doorbell, doorbell_path, scratch, shared_checkpoint};
use doorbell_bench::verify;
use rustix::process::Signal;

/// Maximum time from Ctrl-C to the end of a run.
const SOON: Duration = Duration::from_secs(10);

fn run(out: &Path, further: &[&str]) -> Command {
    let mut command = Command::new(doorbell_path());
    command.args(["run", "testpmd", "--out"]).arg(out).args(further);
    command
}

#[test]
fn an_interrupted_boot_ends_soon_and_leaves_no_files() {
    for signal in [Signal::INT, Signal::TERM] {
        let folder = scratch();
        let running = Running::start(run(folder.path(), &["--boot"]));
        std::thread::sleep(Duration::from_millis(400));
        let signalled = Instant::now();
        running.signal(signal);
        running.end().assert_interrupted(&[]);
        assert!(signalled.elapsed() < SOON);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn an_interrupted_measurement_keeps_the_completed_points() {
    let folder = scratch();
    let checkpoint = shared_checkpoint(&[]).display().to_string();
    // The second point would take an hour.
    let further = [
        "--checkpoint",
        &checkpoint,
        "--frames",
        "300",
        "--rate",
        "1Mpps,1pps",
        "--pcap",
        "--set",
        "run.warmup=1us",
    ];
    let out = folder.path().join("out");
    let running = Running::start(run(&out, &further));
    let started = Instant::now();
    // Results of a point are published as soon as it is complete.
    while !out.exists() {
        assert!(started.elapsed() < Duration::from_secs(100), "the first point does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    running.signal(Signal::INT);
    running.end().assert_interrupted(&["1 of 2 loads are finished"]);
    let check = || {
        assert_eq!(verify(&out), Ok(()));
        let first = out.join("point-00");
        for file in [first.join("summary.json"), first.join("stats.json"), out.join("summary.json")] {
            let text = fs::read_to_string(file).unwrap();
            serde_json::from_str::<serde_json::Value>(&text).unwrap();
        }
        assert!(first.join("config.toml").exists() && first.join("report.html").exists());
        let output =
            Command::new("tshark").arg("-r").arg(first.join("wire.pcap")).output().expect("tshark runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(!out.join("point-01").exists());
        let page = fs::read_to_string(out.join("report.html")).unwrap();
        assert!(page.contains("1 of 2 loads were not measured"), "the page reports the missing load");
    };
    check();
    // The page can be regenerated from the partial results.
    let stdout = doorbell(&["report", out.to_str().unwrap()]).success();
    assert!(stdout.contains("1 of 2 loads were not measured"), "{stdout}");
    check();
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["out"]);
}

#[test]
fn an_interrupted_run_restores_the_terminal() {
    let folder = scratch();
    let checkpoint = shared_checkpoint(&[]).display().to_string();
    let mut terminal = Pty::start(run(folder.path(), &["--checkpoint", &checkpoint, "--duration", "1000s"]));
    terminal.wait_for("measuring");
    terminal.signal(Signal::INT);
    assert_eq!(terminal.end().code(), Some(130));
    assert!(terminal.is_cooked());
    let screen = terminal.screen();
    assert!(screen.contains("interrupted"), "{screen}");
    // The cursor is shown as often as it was hidden.
    assert_eq!(screen.matches("\x1b[?25l").count(), screen.matches("\x1b[?25h").count(), "{screen:?}");
}
