//! `doorbell-faults`: plays histories from consecutive seeds until one detects a fault or Ctrl-C stops it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use doorbell_faults::{expected, play};

/// Play histories of several doorbell processes on shared folders, with kills and full disks
#[derive(Parser)]
struct Arguments {
    /// Path of the doorbell program to test
    #[arg(long, default_value = "target/debug/doorbell")]
    doorbell: PathBuf,
    /// Seed of the first history; later ones use the following seeds
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of histories [default: unlimited]
    #[arg(long)]
    histories: Option<u64>,
    /// Print every file operation, even of histories without a fault
    #[arg(long)]
    log: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let doorbell = arguments.doorbell.canonicalize()?;
    let expected = expected(&doorbell)?;
    let (began, mut steps) = (Instant::now(), 0);
    let last = arguments.histories.map_or(u64::MAX, |count| arguments.seed.saturating_add(count));
    for seed in arguments.seed..last {
        let mut log = Vec::new();
        let played = play(seed, &doorbell, &expected, &mut log);
        if arguments.log || played.is_err() {
            log.iter().for_each(|line| println!("{line}"));
        }
        let outcome = match played {
            Ok(outcome) => outcome,
            Err(fault) => {
                println!("seed {seed}: fault detected: {fault:#}");
                return Ok(ExitCode::FAILURE);
            }
        };
        steps += outcome.steps;
        let count = seed - arguments.seed + 1;
        println!(
            "seed {seed}: {outcome:?}; {count} histories, {steps} operations, {:.0} s",
            began.elapsed().as_secs_f64()
        );
    }
    Ok(ExitCode::SUCCESS)
}
