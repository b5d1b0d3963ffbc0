//! `doorbell cache` as a command: it lists the contents, and removes only unused entries.

use std::fs::{self, File, FileTimes};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use doorbell_files::{Lock, hold};
use serde_json::Value;

#[track_caller]
fn cache(folder: &Path, status: i32, words: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
    let output = command.arg("--cache").arg(folder).arg("cache").args(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "{words:?}: {stdout}{stderr}");
    (stdout, stderr)
}

/// Names of the entries in use, and of all entries.
fn listed(folder: &Path) -> (Vec<String>, Vec<String>) {
    let list: Value = serde_json::from_str(&cache(folder, 0, &["list", "--json"]).0).unwrap();
    let name =
        |entry: &Value| format!("{} {}", entry["kind"].as_str().unwrap(), entry["name"].as_str().unwrap());
    let all = list.as_array().unwrap();
    let used = all.iter().filter(|entry| entry["in_use"] == true).map(name).collect();
    (used, all.iter().map(name).collect())
}

fn fill(folder: &Path) {
    for name in ["images/net", "images/testpmd", "checkpoints", "packages/debs", "packages/apt", "traces"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    for name in ["images/net/kernel", "images/testpmd/kernel", "packages/debs/libc6.deb", "traces/a.dbt"] {
        fs::write(folder.join(name), [7; 5000]).unwrap();
    }
    for name in ["net-1.ckpt", "testpmd-2.ckpt", "incast-3.net", ".testpmd-2.ckpt.tmp-1-1", "notes.txt"] {
        fs::write(folder.join("checkpoints").join(name), [7; 5000]).unwrap();
    }
}

/// Creates debugging symbols of two images.
fn fill_symbols(folder: &Path) {
    for name in ["symbols/net-0123", "symbols/testpmd-4567"] {
        fs::create_dir_all(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("a.debug"), [7; 5000]).unwrap();
    }
}

/// Not parallel: a spawned process inherits this one's locks until its program starts.
#[test]
fn the_cache_is_listed_and_cleaned() {
    only_unused_entries_are_removed();
    recently_used_entries_are_kept_on_request();
    debugging_symbols_in_use_are_kept();
}

fn debugging_symbols_in_use_are_kept() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    fill_symbols(folder);
    let run = hold(&folder.join("symbols/net-0123")).unwrap().unwrap();
    let fetch = Lock::try_take(&Lock::path_for(&folder.join("symbols/testpmd-4567"))).unwrap().unwrap();
    let all = ["symbols net-0123", "symbols testpmd-4567"].map(str::to_owned).to_vec();
    assert_eq!(listed(folder), (all.clone(), all));
    assert_eq!(cache(folder, 0, &["clean", "symbols"]).1.matches("in use by a process").count(), 2);
    drop((run, fetch));
    cache(folder, 0, &["clean", "symbols"]);
    assert!(listed(folder).1.is_empty());
}

fn only_unused_entries_are_removed() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    assert!(cache(folder, 0, &["list"]).0.starts_with("0 B in "));
    fill(folder);
    let all = [
        "image net",
        "image testpmd",
        "checkpoint incast-3.net",
        "checkpoint net-1.ckpt",
        "checkpoint testpmd-2.ckpt",
        "packages packages",
        "other traces",
    ];
    assert_eq!(listed(folder), (Vec::new(), all.map(str::to_owned).to_vec()));
    assert!(cache(folder, 0, &["list"]).0.contains("KiB  just now\n"));

    // One image is read, one is built, one checkpoint is read, another is booted, and packages are fetched.
    let image = hold(&folder.join("images/testpmd")).unwrap().unwrap();
    let build = Lock::try_take(&Lock::path_for(&folder.join("images/net"))).unwrap().unwrap();
    let checkpoint = hold(&folder.join("checkpoints/testpmd-2.ckpt")).unwrap().unwrap();
    let boot = Lock::try_take(&folder.join("checkpoints/net-1.lock")).unwrap().unwrap();
    let fetch = Lock::try_take(&folder.join("packages/.lock")).unwrap().unwrap();
    let used: Vec<&str> = all
        .iter()
        .copied()
        .filter(|name| !["checkpoint incast-3.net", "other traces"].contains(name))
        .collect();
    assert_eq!(listed(folder).0, used);
    let (stdout, stderr) = cache(folder, 0, &["clean", "all"]);
    assert!(stdout.contains("removed checkpoint incast-3.net") && stdout.lines().count() == 2, "{stdout}");
    assert_eq!(stderr.matches("in use by a process").count(), 5, "{stderr}");
    assert_eq!(listed(folder).1.len(), 6);
    assert!(folder.join("packages/debs/libc6.deb").exists() && folder.join("images/testpmd/kernel").exists());

    drop((image, build, checkpoint, boot, fetch));
    assert!(listed(folder).0.is_empty());
    let (stdout, _) = cache(folder, 0, &["clean", "images", "packages", "--dry-run"]);
    assert!(stdout.contains("would remove image net") && listed(folder).1.len() == 6, "{stdout}");
    cache(folder, 0, &["clean", "testpmd-2.ckpt", "packages"]);
    assert_eq!(
        listed(folder).1,
        ["image net", "image testpmd", "checkpoint net-1.ckpt", "packages packages", "other traces"]
    );
    assert!(!folder.join("packages/debs").exists());
    cache(folder, 0, &["clean", "all"]);
    assert!(folder.join("traces/a.dbt").exists() && folder.join("checkpoints/notes.txt").exists());
    assert_eq!(fs::read_dir(folder.join("images")).unwrap().count(), 0, "nothing hidden is left");
}

fn recently_used_entries_are_kept_on_request() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    fill(folder);
    let old = SystemTime::now() - Duration::from_secs(40 * 86_400);
    for name in [
        "images/net/kernel",
        "images/net",
        "images/testpmd/kernel",
        "images/testpmd",
        "checkpoints/net-1.ckpt",
        "checkpoints/testpmd-2.ckpt",
    ] {
        let file = File::open(folder.join(name)).unwrap();
        file.set_times(FileTimes::new().set_accessed(old).set_modified(old)).unwrap();
    }
    // Listing does not count as a use.
    assert!(cache(folder, 0, &["list"]).0.contains("40 d ago\n"));
    for name in ["images/net", "checkpoints/net-1.ckpt"] {
        drop(hold(&folder.join(name)).unwrap().unwrap());
    }
    let (stdout, _) = cache(folder, 0, &["clean", "images", "checkpoints", "--unused-for", "30d"]);
    assert!(
        stdout.contains("removed image testpmd") && stdout.contains("removed checkpoint testpmd-2.ckpt"),
        "{stdout}"
    );
    assert_eq!(stdout.lines().count(), 3, "{stdout}");
    for words in [
        &["clean"][..],
        &["clean", "everything"],
        &["clean", "traces"],
        &["clean", "all", "--unused-for", "30"],
        &["clean", "all", "--unused-for", "d"],
    ] {
        let (stdout, stderr) = cache(folder, 2, words);
        assert!(stdout.is_empty() && !stderr.is_empty(), "{words:?}");
    }
    assert!(folder.join("traces/a.dbt").exists());
}
