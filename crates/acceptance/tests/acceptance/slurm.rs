//! `--on slurm` with real Slurm daemons: two nodes on this host (`oracle/src/slurm.rs`). Messages for all
//! kinds of failures are tested in cli/tests/cluster.rs.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use doorbell_acceptance::{Running, cache_with_own_checkpoints, doorbell_path, scratch};
use doorbell_oracle::Slurm;
use rustix::process::Signal;

/// Sixteen points of about a second each, with two boots.
const EXPERIMENT: &str = "benchmark = \"testpmd\"\npreset = \"fast\"\nset = [\"run.warmup=1ms\", \"run.duration=20ms\"]\n\
    repetitions = 4\n[measure]\nrates = [\"1Mpps\", \"8Mpps\"]\n[grid]\n\"testpmd.mode\" = [\"io\", \"macswap\"]\n\
    [cluster]\nsettle_seconds = 2\ntime = \"10\"\n";

fn command(folder: &Path, cluster: Option<&Slurm>, cache: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(doorbell_path());
    command.args(words).env("DOORBELL_CACHE", cache).current_dir(folder);
    if let Some(cluster) = cluster {
        let (programs, configuration) = cluster.paths();
        let path = std::env::var("PATH").expect("there is a PATH");
        command.env("PATH", format!("{}:{path}", programs.display())).env("SLURM_CONF", configuration);
    }
    command
}

/// Starts a cluster of two nodes in a folder. `tests/leave-out` skips these tests on hosts without a
/// supported Slurm.
fn two_nodes(folder: &Path) -> Slurm {
    let own = folder.join("slurm");
    fs::create_dir(&own).expect("a folder");
    Slurm::start(&own, 2)
        .expect("Slurm of a supported Debian release starts; on other hosts use --skip slurm::")
}

/// A table without the columns of host time.
fn table(results: &Path) -> String {
    let text = fs::read_to_string(results.join("table.csv")).expect("there is a table");
    let mut rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let host: Vec<bool> = rows[0].iter().map(|name| name.starts_with("host_")).collect();
    for row in &mut rows {
        let mut own = host.iter();
        row.retain(|_| !own.next().expect("rows are of one length"));
    }
    rows.into_iter().map(|row| row.join(",") + "\n").collect()
}

fn points(results: &Path) -> usize {
    let names = fs::read_dir(results.join("points")).map(|entries| entries.filter_map(Result::ok));
    names.map_or(0, |names| {
        names.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')).count()
    })
}

/// Waits until `count` points are done.
fn wait_for_points(results: &Path, count: usize) {
    let started = Instant::now();
    while points(results) < count {
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "{} of {count} points are done",
            points(results)
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_slurm_sweep_with_failures_of_a_node_and_a_point_gives_the_same_table_as_a_local_one() {
    let folder = scratch();
    let folder = folder.path();
    fs::write(folder.join("x.toml"), EXPERIMENT).unwrap();
    let mut cluster = two_nodes(folder);
    // The fifth point fails once: the prolog gives it a task ID that does not exist.
    let marker = folder.join("failed-once");
    let prolog = format!(
        "#!/bin/sh\nif [ \"$SLURM_ARRAY_TASK_ID\" = 4 ] && mkdir {marker} 2> /dev/null; then echo export SLURM_ARRAY_TASK_ID=99; fi\n",
        marker = marker.display()
    );
    fs::write(folder.join("slurm/prolog"), prolog).unwrap();
    let cache = cache_with_own_checkpoints("acceptance-slurm");
    let (results, words) = (folder.join("results/x"), ["sweep", "x.toml", "--on", "slurm"]);

    // Kill the sweep while points run, and resume it.
    let first = Running::start(command(folder, Some(&cluster), &cache, &words));
    wait_for_points(&results, 2);
    first.signal(Signal::KILL);
    assert_eq!(first.end().code, None);
    let second = Running::start(command(folder, Some(&cluster), &cache, &words));
    wait_for_points(&results, 4);
    cluster.kill_node(1);
    cluster.wait_for_state(1, &["down"]);
    cluster.start_node(1);
    cluster.wait_for_state(1, &["idle", "allocated", "mixed"]);
    let output = second.end();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(output.stderr.contains("in the queue already"), "{}", output.stderr);
    assert!(marker.exists(), "no point failed");
    // The folder also has files with the lengths of boots.
    let kept = fs::read_dir(cache.join("checkpoints")).unwrap().flatten();
    let checkpoints = kept.filter(|entry| entry.path().extension().is_some_and(|is| is == "ckpt")).count();
    assert_eq!(checkpoints, 2, "each boot is made once");

    command(folder, None, &cache, &["sweep", "x.toml", "--out", "local", "-q"]).status().unwrap();
    assert_eq!(table(&results), table(&folder.join("local")));
    let wrong_partition = Running::start(command(
        folder,
        Some(&cluster),
        &cache,
        &[&words[..], &["--out", "y", "--partition", "long"]].concat(),
    ));
    wrong_partition.end().assert_failure(&["Invalid partition", "There are: main"]);
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_search_on_slurm_finds_the_same_rates_as_a_local_search() {
    let folder = scratch();
    let folder = folder.path();
    let cluster = two_nodes(folder);
    let cache = cache_with_own_checkpoints("acceptance-slurm-search");
    let words = [
        "search",
        "testpmd",
        "--preset",
        "fast",
        "--frame-size",
        "64,512",
        "--precision",
        "10%",
        "--warmup",
        "1ms",
        "--json",
        "-q",
    ];
    let found = |cluster: Option<&Slurm>, more: &[&str]| {
        let output = Running::start(command(folder, cluster, &cache, &[&words[..], more].concat())).end();
        let found: serde_json::Value = serde_json::from_str(&output.success()).unwrap();
        // Compare only these fields: others have host times, or follow from these.
        let fields = |search: &serde_json::Value| {
            let trials = search["trials"].as_array().unwrap().iter();
            let trials: Vec<String> =
                trials.map(|trial| format!("{} {}", trial["verdict"], trial["state_hash"])).collect();
            let [size, low, high] = ["frame_size", "low_mpps", "high_mpps"].map(|name| search[name].clone());
            format!("{size} {low} {high} {} {trials:?}", search["at_low"]["config_hash"])
        };
        found["searches"].as_array().unwrap().iter().map(fields).collect::<Vec<_>>()
    };
    let here = found(None, &["--jobs", "1", "--out", "here"]);
    assert_eq!(here.len(), 2);
    assert_eq!(here, found(Some(&cluster), &["--on", "slurm", "--out", "there"]));
    let left: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("search-")), "{left:?}");
}
