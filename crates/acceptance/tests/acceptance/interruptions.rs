//! Ctrl-C at every stage: the run ends soon, says so, and leaves whole what it had written.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use doorbell_acceptance::{Pty, Running, doorbell_path, scratch, shared_checkpoint};
use rustix::process::Signal;

/// A run goes on at most so long after Ctrl-C.
const SOON: Duration = Duration::from_secs(10);

fn run(out: &Path, further: &[&str]) -> Command {
    let mut command = Command::new(doorbell_path());
    command.args(["run", "testpmd", "--out"]).arg(out).args(further);
    command
}

#[test]
fn an_interrupted_boot_ends_soon_and_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM] {
        let folder = scratch();
        let running = Running::start(run(folder.path(), &["--boot"]));
        std::thread::sleep(Duration::from_millis(400));
        let asked = Instant::now();
        running.signal(signal);
        running.end().refused_with(&["interrupted"]);
        assert!(asked.elapsed() < SOON);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn an_interrupted_measurement_leaves_the_points_before_it_whole() {
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
    let running = Running::start(run(folder.path(), &further));
    let second = folder.path().join("point-01");
    let started = Instant::now();
    while !second.exists() {
        assert!(started.elapsed() < Duration::from_secs(100), "the second point does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    running.signal(Signal::INT);
    running.end().refused_with(&["interrupted"]);
    let first = folder.path().join("point-00");
    for file in ["summary.json", "stats.json"] {
        let text = fs::read_to_string(first.join(file)).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
    }
    assert!(first.join("config.toml").exists() && first.join("report.html").exists());
    assert!(!folder.path().join("summary.json").exists() && !second.join("summary.json").exists());
    for capture in [first.join("wire.pcap"), second.join("wire.pcap")] {
        let output = Command::new("tshark").arg("-r").arg(&capture).output().expect("tshark runs");
        assert!(
            output.status.success(),
            "{}: {}",
            capture.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let left: Vec<_> = fs::read_dir(&second).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["wire.pcap"]);
}

#[test]
fn an_interrupted_run_leaves_its_terminal_as_it_was() {
    let folder = scratch();
    let checkpoint = shared_checkpoint(&[]).display().to_string();
    let mut terminal = Pty::start(run(folder.path(), &["--checkpoint", &checkpoint, "--duration", "1000s"]));
    terminal.wait_for("simulating");
    terminal.signal(Signal::INT);
    assert!(!terminal.end().success());
    assert!(terminal.is_cooked());
    let screen = terminal.screen();
    assert!(screen.contains("interrupted"), "{screen}");
    // A cursor that was hidden is shown again.
    assert_eq!(screen.matches("\x1b[?25l").count(), screen.matches("\x1b[?25h").count(), "{screen:?}");
}
