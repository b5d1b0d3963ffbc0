//! `doorbell trace run`: plays a trace on a configuration, and says what it came to.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use doorbell_machine::Mode;
use doorbell_machine::playback::{Plan, Played, Player, TraceInput};
use doorbell_sim::stats::Stats;
use serde_json::{Value, json};

use crate::out::outln;
use crate::run_args::CommonArgs;
use crate::trace_cmd::open;

#[derive(Args)]
pub struct PlayArgs {
    /// The trace
    file: PathBuf,
    /// Let caches, TLBs and predictors learn from so many instructions first
    #[arg(long, value_name = "INSTRUCTIONS", default_value_t = 0)]
    warmup: u64,
    /// Measure so many instructions behind them, instead of all
    #[arg(long, value_name = "N")]
    instructions: Option<u64>,
    /// Print the figures as JSON, and nothing else
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    common: CommonArgs,
}

pub fn play(args: &PlayArgs) -> anyhow::Result<()> {
    let of = || args.file.display().to_string();
    let file = open(&args.file)?;
    let harts = file.description().harts;
    if args.common.harts.is_some_and(|given| given != u32::from(harts)) {
        bail!("{}: the trace is of {harts} harts and is played on as many; leave --harts out", of());
    }
    let config = args.common.resolve(&[format!("platform.harts={harts}")])?;
    let all: u64 = file.counts().instructions.iter().sum();
    if args.warmup >= all && all > 0 {
        bail!(
            "{}: nothing is left to measure: it has {all} instructions, and --warmup takes {}",
            of(),
            args.warmup
        );
    }
    let plan = Plan::of(TraceInput::own(file));
    let mut player = Player::new(&config.machine(), &plan).with_context(of)?;
    if args.warmup > 0 {
        player.set_mode(Mode::Warming);
        player.run(args.warmup).with_context(of)?;
        player.set_mode(Mode::Detailed);
    }
    let (before, started) = (player.played(), Instant::now());
    let until = args.instructions.map_or(u64::MAX, |count| before.instructions.saturating_add(count));
    player.run(until).with_context(of)?;
    let figures = figures(&before, &player.played(), started.elapsed().as_secs_f64());
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&figures)?);
    } else {
        outln!("{}, preset {}", of(), args.common.preset);
        for (name, figure) in figures.as_object().expect("figures have names") {
            outln!("  {name:<28}{figure}");
        }
    }
    Ok(())
}

/// What was played between two moments.
fn figures(before: &Played, after: &Played, host_seconds: f64) -> Value {
    let instructions = (after.instructions - before.instructions) as f64;
    let seconds = (after.now - before.now).as_secs_f64();
    let sum = |of: &dyn Fn(&Played, usize) -> u64| -> f64 {
        (0..after.cores.len()).map(|hart| (of(after, hart) - of(before, hart)) as f64).sum()
    };
    let cycles = sum(&|played, hart| played.cores[hart].0);
    let idle = sum(&|played, hart| played.cores[hart].1.books.cpi_idle);
    let memory = after.memory.since(&before.memory);
    let per_thousand = |misses: u64| misses as f64 * 1000.0 / instructions.max(1.0);
    let misses = |of: fn(&doorbell_machine::HartStats) -> u64| memory.harts.iter().map(of).sum::<u64>();
    let devices = after.devices.since(&before.devices);
    let gbps = |bytes: u64| bytes as f64 * 8e-9 / seconds.max(1e-12);
    json!({
        "instructions": instructions as u64,
        "cycles": cycles as u64,
        "cycles_asleep_or_waiting": idle as u64,
        "ipc": instructions / (cycles - idle).max(1.0),
        "simulated_us": seconds * 1e6,
        "l1i_mpki": per_thousand(misses(|hart| hart.l1i.misses)),
        "l1d_mpki": per_thousand(misses(|hart| hart.l1d.misses)),
        "l2_mpki": per_thousand(misses(|hart| hart.l2.misses)),
        "llc_mpki": per_thousand(memory.llc.misses),
        "frames_in": devices.frames_in,
        "frames_out": devices.frames_out,
        "in_gbps": gbps(devices.frames_in_bytes),
        "out_gbps": gbps(devices.frames_out_bytes),
        "dma_written_bytes": devices.dma_written_bytes,
        "dma_read_bytes": devices.dma_read_bytes,
        "dca_updates": memory.devices.updates,
        "dca_allocations": memory.devices.allocations,
        "private_invalidations": memory.devices.private_invalidations,
        "waits_for_dma": devices.waits,
        "waited_us": devices.waited_ps as f64 * 1e-6,
        "host_mips": instructions * 1e-6 / host_seconds.max(1e-9),
    })
}
