//! Run time from checkpoint to summary, and peak memory, of every benchmark at its default length with preset
//! `server`. The goals are 60 s on one host core and 2 GB. A benchmark, not a test: results depend on the
//! host.
//!
//!     cargo run --release -p doorbell-acceptance --example speed_benchmarks [-- NAME…] [-- --store]
//!
//! A short run before the measurement creates a missing checkpoint.

use std::process::Command;

use doorbell_acceptance::baseline::{print_and_store, seconds_and_peak};
use doorbell_acceptance::{doorbell, doorbell_path, scratch};
use doorbell_bench::BENCHMARKS;
use serde_json::{Map, json};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (options, names): (Vec<_>, Vec<_>) = words.iter().partition(|word| word.starts_with("--"));
    let folder = scratch();
    let out = folder.path().join("results").display().to_string();
    let mut figures = Map::new();
    for chosen in
        BENCHMARKS.iter().filter(|chosen| names.is_empty() || names.iter().any(|name| *name == chosen.name))
    {
        let arguments = ["run", chosen.name, "-q", "--out", &out];
        let short = ["--warmup", "100us", "--duration", "100us"];
        doorbell(&[&arguments[..], &short].concat()).success();
        let (seconds, bytes) = seconds_and_peak(Command::new(doorbell_path()).args(arguments));
        figures.insert(format!("{}_seconds", chosen.name), json!(seconds));
        figures.insert(format!("{}_peak_mb", chosen.name), json!(bytes as f64 / 1e6));
    }
    print_and_store(
        &figures,
        "speed-benchmarks-baseline.json",
        options.iter().any(|word| *word == "--store"),
    );
}
