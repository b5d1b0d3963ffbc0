//! `--on slurm` on Slurm itself: two nodes on this host (`oracle/src/slurm.rs`). What it says beside failures of every kind is in
//! cli/tests/cluster.rs.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use doorbell_acceptance::{Running, cache_with_own_checkpoints, doorbell_path, scratch};
use doorbell_oracle::Slurm;
use rustix::process::Signal;

/// Sixteen points of a second or so, with two boots.
const EXPERIMENT: &str = "benchmark = \"testpmd\"\npreset = \"fast\"\nset = [\"run.warmup=1ms\", \"run.duration=20ms\"]\n\
    repetitions = 4\n[measure]\nrates = [\"1Mpps\", \"8Mpps\"]\n[grid]\n\"testpmd.mode\" = [\"io\", \"macswap\"]\n\
    [cluster]\nsettle_seconds = 2\ntime = \"10\"\n";

fn command(folder: &Path, cluster: Option<&Slurm>, cache: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(doorbell_path());
    command.args(words).env("DOORBELL_CACHE", cache).current_dir(folder);
    if let Some(cluster) = cluster {
        let (programs, configuration) = cluster.places();
        let path = std::env::var("PATH").expect("there is a PATH");
        command.env("PATH", format!("{}:{path}", programs.display())).env("SLURM_CONF", configuration);
    }
    command
}

/// A cluster of two nodes of its own in a folder. `tests/leave-out` leaves these tests out on other hosts.
fn two_nodes(folder: &Path) -> Slurm {
    let own = folder.join("slurm");
    fs::create_dir(&own).expect("a folder");
    Slurm::start(&own, 2).expect("this host is a Debian whose Slurm is known; elsewhere: --skip slurm::")
}

/// A table without what the host's time says.
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

/// Waits until so many points are done.
fn wait_for_points(results: &Path, count: usize) {
    let began = Instant::now();
    while points(results) < count {
        assert!(began.elapsed() < Duration::from_secs(120), "{} of {count} points are done", points(results));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_cluster_whose_node_and_point_fail_gives_the_table_of_a_local_sweep() {
    let folder = scratch();
    let folder = folder.path();
    fs::write(folder.join("x.toml"), EXPERIMENT).unwrap();
    let mut cluster = two_nodes(folder);
    // The fifth point fails once: it is sent for a task that there is not.
    let marker = folder.join("failed-once");
    let prolog = format!(
        "#!/bin/sh\nif [ \"$SLURM_ARRAY_TASK_ID\" = 4 ] && mkdir {marker} 2> /dev/null; then echo export SLURM_ARRAY_TASK_ID=99; fi\n",
        marker = marker.display()
    );
    fs::write(folder.join("slurm/prolog"), prolog).unwrap();
    let cache = cache_with_own_checkpoints("acceptance-slurm");
    let (results, words) = (folder.join("results/x"), ["sweep", "x.toml", "--on", "slurm"]);

    // Killed while points run, and taken up.
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
    let ended = second.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("in the queue already"), "{}", ended.stderr);
    assert!(marker.exists(), "no point failed");
    // Beside them stand boots' lengths.
    let kept = fs::read_dir(cache.join("checkpoints")).unwrap().flatten();
    let checkpoints = kept.filter(|entry| entry.path().extension().is_some_and(|is| is == "ckpt")).count();
    assert_eq!(checkpoints, 2, "each boot is made once");

    command(folder, None, &cache, &["sweep", "x.toml", "--out", "local", "-q"]).status().unwrap();
    assert_eq!(table(&results), table(&folder.join("local")));
    let refused = Running::start(command(
        folder,
        Some(&cluster),
        &cache,
        &[&words[..], &["--out", "y", "--partition", "long"]].concat(),
    ));
    refused.end().assert_failure(&["Invalid partition", "There are: main"]);
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_search_on_a_cluster_finds_what_it_finds_here() {
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
        let ended = Running::start(command(folder, cluster, &cache, &[&words[..], more].concat())).end();
        let found: serde_json::Value = serde_json::from_str(&ended.success()).unwrap();
        // The rest of it tells the host's time beside figures that follow from these.
        let told = |search: &serde_json::Value| {
            let trials = search["trials"].as_array().unwrap().iter();
            let trials: Vec<String> =
                trials.map(|trial| format!("{} {}", trial["verdict"], trial["state_hash"])).collect();
            let [size, low, high] = ["frame_size", "low_mpps", "high_mpps"].map(|name| search[name].clone());
            format!("{size} {low} {high} {} {trials:?}", search["at_low"]["config_hash"])
        };
        found["searches"].as_array().unwrap().iter().map(told).collect::<Vec<_>>()
    };
    let here = found(None, &["--jobs", "1", "--out", "here"]);
    assert_eq!(here.len(), 2);
    assert_eq!(here, found(Some(&cluster), &["--on", "slurm", "--out", "there"]));
    let left: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("search-")), "{left:?}");
}
