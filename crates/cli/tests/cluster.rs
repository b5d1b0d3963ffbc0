//! `--on slurm` with a shell script in place of Slurm (`fake_slurm/slurm.sh`): submission, handling of
//! failures, and that nothing is lost or submitted twice. Slurm itself is tested in
//! acceptance/tests/acceptance/slurm.rs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::loop_trace::record;

/// Far longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// An experiment with four points.
const EXPERIMENT: &str = "trace = \"loop.dbt\"\npreset = \"server\"\nset = [\"playback.warmup=1000\"]\n[grid]\n\
     \"playback.instructions\" = [10001, 10002, 10003, 10004]\n[cluster]\nsettle_seconds = 0\n";

/// A folder with a trace, an experiment and a cluster.
struct Cluster {
    folder: tempfile::TempDir,
}

impl Cluster {
    fn new() -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        let cluster = Cluster { folder };
        fs::create_dir_all(cluster.path("slurm")).unwrap();
        fs::create_dir_all(cluster.path("bin")).unwrap();
        let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_slurm/slurm.sh");
        for name in ["sbatch", "squeue", "sacct", "scontrol", "sinfo"] {
            symlink(&fake, cluster.path("bin").join(name)).unwrap();
        }
        fs::create_dir_all(cluster.path("cache/traces")).unwrap();
        record(&cluster.path("cache/traces/loop.dbt"));
        fs::write(cluster.path("x.toml"), EXPERIMENT).unwrap();
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Creates a control file of the fake Slurm, which causes a failure or an event.
    fn has(&self, name: &str, text: &str) -> &Cluster {
        fs::write(self.path("slurm").join(name), text).unwrap();
        self
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).env("FAKE_SLURM", self.path("slurm")).env("FAKE_HOME", self.folder.path());
        command.env("DOORBELL_CACHE", self.path("cache")).current_dir(self.folder.path()).args(words);
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    #[track_caller]
    fn succeeds(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {stderr}");
        stderr
    }

    #[track_caller]
    fn fails(&self, status: i32, words: &[&str], parts: &[&str]) -> String {
        let output = self.run(words);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{words:?}: {stderr}");
        for part in parts {
            assert!(stderr.contains(part), "no {part}: {stderr}");
        }
        stderr
    }

    /// The submitted arrays.
    fn arrays(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.path("slurm/calls")).unwrap_or_default();
        let array = |line: &str| {
            line.split_once("--array=").map(|(_, rest)| rest.split(' ').next().unwrap().to_owned())
        };
        calls.lines().filter_map(array).collect()
    }

    /// A table without host times.
    fn table(&self, results: &str) -> String {
        let text = fs::read_to_string(self.path(results).join("table.csv")).unwrap();
        let mut rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        let host: Vec<bool> = rows[0].iter().map(|name| name.starts_with("host_")).collect();
        for row in &mut rows {
            let mut own = host.iter();
            row.retain(|_| !own.next().unwrap());
        }
        rows.into_iter().map(|row| row.join(",") + "\n").collect()
    }

    /// The remaining journal files of the jobs.
    fn left(&self, results: &str) -> Vec<String> {
        let names = |path: PathBuf| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
        let all =
            names(self.path(results).join("cluster")).chain(names(self.path(results).join("cluster/logs")));
        let mut all: Vec<String> = all.map(|name| name.into_string().unwrap()).collect();
        all.sort();
        all
    }
}

/// A running command.
struct Running {
    child: Child,
    output: BufReader<std::process::ChildStderr>,
}

impl Running {
    fn start(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stderr.take().unwrap());
        Running { child, output }
    }

    /// Waits until it prints this text.
    fn says(&mut self, part: &str) {
        let mut all = String::new();
        while !all.contains(part) {
            let count = self.output.read_line(&mut all).unwrap();
            assert!(count > 0, "it ended without printing {part}: {all}");
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const SWEEP: [&str; 4] = ["sweep", "x.toml", "--on", "slurm"];

#[test]
fn failed_and_lost_tasks_are_resubmitted_and_the_table_equals_a_local_sweeps() {
    let cluster = Cluster::new();
    cluster.succeeds(&["sweep", "x.toml", "--out", "local", "-q"]);
    cluster
        .has("fate.1.1", "FAILED")
        .has("says.1.1", "the node's disk is full\n")
        .has("fate.1.2", "PREEMPTED");
    cluster.has("unanswered", "");
    let options = [
        "--partition",
        "long",
        "--time",
        "1:00:00",
        "--memory",
        "2G",
        "--account",
        "net",
        "--sbatch=--qos=low",
    ];
    let output = cluster.succeeds(&[&SWEEP[..], &options].concat());
    for part in [
        "4 points, 4 to measure",
        "submitted again",
        "disk is full",
        "another job took its node",
        "4/4 point",
    ] {
        assert!(output.contains(part), "no {part}: {output}");
    }
    let arrays = cluster.arrays();
    assert!(arrays[0] == "0-3" && arrays.len() > 1, "{arrays:?}");
    let calls = fs::read_to_string(cluster.path("slurm/calls")).unwrap();
    let first = calls.lines().next().unwrap();
    for option in
        ["--partition=long", "--time=1:00:00", "--mem=2G", "--account=net", "--qos=low", "--requeue"]
    {
        assert!(first.contains(option), "no {option}: {first}");
    }
    assert_eq!(cluster.table("local"), cluster.table("results/x"));
    assert_eq!(cluster.left("results/x"), ["logs", "state.json"]);
    // Finished points are not submitted again.
    cluster.succeeds(&SWEEP);
    assert_eq!(cluster.arrays(), arrays);
}

#[test]
fn array_size_and_concurrency_respect_the_limits() {
    let cluster = Cluster::new();
    cluster.has("array_max", "3");
    cluster.succeeds(&SWEEP);
    assert_eq!(cluster.arrays(), ["0-2", "0-0"]);
    let limited = Cluster::new();
    limited.has("taken_max", "2");
    limited.succeeds(&[&SWEEP[..], &["--concurrency", "3"]].concat());
    let arrays = limited.arrays();
    // The full array is rejected, then half is accepted, and the rest when fewer than three tasks are in the
    // queue.
    assert_eq!((arrays[0].as_str(), arrays[1].as_str()), ("0-3%3", "0-1%3"), "{arrays:?}");
    assert!(
        arrays[2..]
            .iter()
            .all(|array| array.ends_with("%1") || array.ends_with("%2") || array.ends_with("%3"))
    );
}

#[test]
fn invalid_settings_are_rejected_before_submission() {
    let cluster = Cluster::new();
    let none = cluster.path("none");
    fs::create_dir(&none).unwrap();
    let output = cluster.command(&SWEEP).env("PATH", &none).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && stderr.contains("login node") && stderr.contains("squeue"),
        "{stderr}"
    );
    assert!(!cluster.path("results").exists());
    cluster.fails(2, &[&SWEEP[..], &["--time", "2h"]].concat(), &["1:30:00"]);
    cluster.fails(2, &[&SWEEP[..], &["--sbatch=--wrap=ls"]].concat(), &["--wrap", "qos"]);
    cluster.fails(2, &["sweep", "x.toml", "--partition", "long"], &["--on"]);
    cluster.fails(2, &[&SWEEP[..], &["--jobs", "2"]].concat(), &["--jobs"]);
    for (refusal, parts) in [
        (
            "Batch job submission failed: Invalid partition name specified",
            ["[cluster]", "There are: short, long"],
        ),
        (
            "Batch job submission failed: Invalid account or account/partition combination specified",
            ["--account", "sacctmgr"],
        ),
        (
            "Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)",
            ["time limit", "--time"],
        ),
        (
            "Batch job submission failed: Unable to contact slurm controller (connect failure)",
            ["does not answer", "sinfo"],
        ),
        (
            "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
            ["policy", "MaxSubmitJobs"],
        ),
    ] {
        cluster.has("refuse", refusal);
        let parts: Vec<&str> = parts.into_iter().collect();
        cluster.fails(1, &SWEEP, &parts);
        assert_eq!(cluster.left("results/x"), ["logs", "state.json"], "{refusal}");
    }
    fs::write(cluster.path("x.toml"), EXPERIMENT.replace("settle", "setle")).unwrap();
    cluster.fails(2, &SWEEP, &["setle_seconds"]);
}

#[test]
fn each_kind_of_failure_is_reported_with_a_remedy() {
    let cluster = Cluster::new();
    cluster.has("fate.1.0", "TIMEOUT").has("fate.1.1", "OUT_OF_MEMORY").has("fate.1.2", "CANCELLED");
    cluster.has("fate.1.3", "VANISHED").has("accounts", "DEADLINE\n");
    cluster.fails(
        1,
        &SWEEP,
        &["4 of 4 points failed", "--time", "--memory", "it was cancelled", "longer than a job may"],
    );
    assert_eq!(cluster.arrays().len(), 1, "none of these is tried again");
    // The tasks succeed without results: their folder is not shared with the nodes.
    let elsewhere = Cluster::new();
    for job in 1..=8 {
        for task in 0..4 {
            elsewhere.has(&format!("fate.{job}.{task}"), "COMPLETED");
        }
    }
    let output = elsewhere.fails(
        1,
        &[&SWEEP[..], &["--attempts", "2"]].concat(),
        &["4 of 4 points failed", "compute nodes share"],
    );
    assert!(output.contains("--out"), "{output}");
    // The task's own error output.
    let own = Cluster::new();
    fs::remove_file(own.path("cache/traces/loop.dbt")).unwrap();
    record(&own.path("loop.dbt"));
    own.has("hold", "");
    let mut sweep = Running::start(own.command(&[&SWEEP[..], &["--attempts", "1"]].concat()));
    sweep.says("job 1");
    fs::remove_file(own.path("loop.dbt")).unwrap();
    fs::remove_file(own.path("slurm/hold")).unwrap();
    sweep.says("there is no trace loop.dbt");
    assert_eq!(sweep.end(), Some(1));
}

#[test]
fn a_killed_command_is_continued_and_nothing_is_submitted_twice() {
    let cluster = Cluster::new();
    cluster.has("hold", "");
    let mut first = Running::start(cluster.command(&SWEEP));
    first.says("job 1");
    // Two commands at once: the second waits for the first, and continues when that is killed.
    let mut second = Running::start(cluster.command(&SWEEP));
    second.says("submits and watches these points already");
    first.signal(Signal::KILL);
    assert_eq!(first.end(), None);
    second.says("4 of them in the queue already");
    // Jobs stay in the queue when the user interrupts the command.
    second.signal(Signal::INT);
    second.says("scancel 1");
    assert_eq!(second.end(), Some(130));
    fs::remove_file(cluster.path("slurm/hold")).unwrap();
    cluster.succeeds(&SWEEP);
    assert_eq!(cluster.arrays(), ["0-3"]);
}

#[test]
fn a_kill_during_submission_leaves_no_unknown_job() {
    let cluster = Cluster::new();
    cluster.has("slow", "0.3");
    let first = Running::start(cluster.command(&SWEEP));
    let began = Instant::now();
    while cluster.arrays().is_empty() {
        assert!(began.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    // sbatch has started, and continues without its parent.
    first.signal(Signal::KILL);
    assert_eq!(first.end(), None);
    cluster.succeeds(&SWEEP);
    assert_eq!(cluster.arrays(), ["0-3"]);
}

#[test]
fn a_study_is_reproduced_on_a_cluster_in_one_array() {
    let cluster = Cluster::new();
    fs::create_dir(cluster.path("mine")).unwrap();
    let part = |name: &str, length| {
        format!(
            "[[part]]\nname = \"{name}\"\ntrace = \"loop.dbt\"\nset = [\"playback.warmup=1000\"]\n\
             grid = {{ \"playback.instructions\" = [{length}, {}] }}\n",
            length + 1
        )
    };
    let figure = format!(
        "title = \"t\"\nabout = \"a\"\npreset = \"server\"\n{}{}",
        part("a", 10_001),
        part("b", 10_011)
    );
    fs::write(cluster.path("mine/fig1.toml"), figure).unwrap();
    cluster.succeeds(&["reproduce", "mine", "--on", "slurm"]);
    assert_eq!(cluster.arrays(), ["0-3"]);
    cluster.succeeds(&["reproduce", "mine", "--out", "local", "-q"]);
    for part in ["a", "b"] {
        assert_eq!(
            cluster.table(&format!("results/mine/fig1/{part}")),
            cluster.table(&format!("local/fig1/{part}"))
        );
    }
}
