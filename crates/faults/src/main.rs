//! `doorbell-faults`: histories from seeds, until one finds a fault or Ctrl-C ends them.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use doorbell_faults::{expected, play};

/// Play histories of several doorbell processes on shared folders, with kills and full disks
#[derive(Parser)]
struct Arguments {
    /// The doorbell to try
    #[arg(long, default_value = "target/debug/doorbell")]
    doorbell: PathBuf,
    /// The first history's seed; the next ones count on
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many histories [default: without end]
    #[arg(long)]
    histories: Option<u64>,
    /// Print every file operation, also of histories that found nothing
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
                println!("seed {seed} finds a fault: {fault:#}");
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
