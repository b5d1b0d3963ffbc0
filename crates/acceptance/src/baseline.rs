//! Benchmark figures, compared with a stored baseline.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

/// Prints one line per figure with its ratio to the baseline, and overwrites the baseline if `store` is set.
/// `file` is relative to this crate's folder.
pub fn print_and_store(figures: &Map<String, Value>, file: &str, store: bool) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let baseline: Value = std::fs::read_to_string(&path)
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    println!("{:<42} {:>12} {:>12}", "", "now", "of baseline");
    for (name, value) in figures {
        let now = value.as_f64().unwrap_or_default();
        let ratio = baseline[name].as_f64().map_or("-".to_owned(), |before| format!("{:.2}", now / before));
        println!("{name:<42} {now:>12.2} {ratio:>12}");
    }
    if store {
        let text = serde_json::to_string_pretty(figures).expect("figures are JSON");
        std::fs::write(&path, text + "\n").expect("the baseline can be written");
        println!("stored in {}", path.display());
    }
}

/// Runs a command until it exits and returns its run time in seconds and its peak resident memory in bytes.
pub fn seconds_and_peak(command: &mut Command) -> (f64, u64) {
    let started = Instant::now();
    let mut child = command.stdout(Stdio::null()).spawn().expect("the command starts");
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    while child.try_wait().expect("a child can be waited for").is_none() {
        let status = std::fs::read_to_string(&status_file).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let words = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        peak_kib = peak_kib.max(words.unwrap_or_default());
        std::thread::sleep(Duration::from_millis(2));
    }
    let seconds = started.elapsed().as_secs_f64();
    assert!(child.wait().expect("it has ended").success(), "the run failed");
    (seconds, peak_kib << 10)
}

/// The median; the upper one if the count is even.
pub fn median(all: impl IntoIterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = all.into_iter().collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}
