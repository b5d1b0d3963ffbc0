//! `doorbell run`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use doorbell_bench::Places;
use doorbell_bench::{
    BENCHMARKS, Benchmark, Control, M5Ops, Point, ResultFolder, RunConfig, RunSummary, Session, Source,
    benchmark, resolve, run_point,
};
use doorbell_loadgen::{Kind, Rate};
use doorbell_machine::PRESETS;
use doorbell_sim::{Bytes, Frame, Ps};

use crate::screen::{Screen, end_on_closed_pipe, interrupt_flag};

#[derive(Args)]
#[command(after_help = run_help())]
pub struct RunArgs {
    /// Which benchmark
    benchmark: String,
    /// Offered load: 5Mpps, 10Gbps (layer 2), 10Gbps-l1, 40% of the line; several, comma-separated, give a table
    #[arg(long, value_name = "RATE,…", value_delimiter = ',')]
    rate: Vec<String>,
    /// Bytes of each frame with FCS, 64 to 16384
    #[arg(long, value_name = "BYTES")]
    frame_size: Option<String>,
    /// Measure over exactly so many frames
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    frames: Option<u64>,
    /// Measure for this simulated time, such as 2ms
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// Simulated time of traffic before the measurement, such as 10ms
    #[arg(long, value_name = "TIME")]
    warmup: Option<String>,
    #[command(flatten)]
    common: CommonArgs,
    /// Result folder
    #[arg(long, value_name = "DIR", default_value = "results/latest")]
    out: PathBuf,
    /// Print the summary as JSON on standard output, and nothing else there
    #[arg(long)]
    json: bool,
    /// Do not tell what is going on
    #[arg(short, long)]
    quiet: bool,
    /// Also capture the wire at the load generator, both directions, as wire.pcap
    #[arg(long)]
    pcap: bool,
    /// Boot the guest even if there is a checkpoint, and keep none
    #[arg(long)]
    boot: bool,
    /// Start from this checkpoint file
    #[arg(long, value_name = "FILE", conflicts_with = "boot")]
    checkpoint: Option<PathBuf>,
    /// Also write the checkpoint from which the measurements start
    #[arg(long, value_name = "FILE")]
    save_checkpoint: Option<PathBuf>,
}

/// What every command that builds a machine takes.
#[derive(Args, Clone)]
pub struct CommonArgs {
    /// The machine to start from (see `doorbell config presets`)
    #[arg(long, value_name = "NAME", default_value = PRESETS[0].name)]
    pub preset: String,
    /// Override any parameter, for instance --set nic.rx_fifo=48KiB (repeatable; see `doorbell config show`)
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Seed of all random streams
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

fn run_help() -> String {
    let lines: Vec<String> = BENCHMARKS.iter().map(|b| format!("  {:<17} {}", b.name, b.summary)).collect();
    format!("Benchmarks:\n{}", lines.join("\n"))
}

impl CommonArgs {
    /// The configuration, with further overrides laid over the user's.
    pub fn resolve(&self, further: &[String]) -> anyhow::Result<RunConfig> {
        self.resolve_over(&[], further)
    }

    /// The same, with the user's overrides laid over a benchmark's.
    pub fn resolve_over(&self, defaults: &[&str], further: &[String]) -> anyhow::Result<RunConfig> {
        let mut overrides: Vec<String> = defaults.iter().map(|&text| text.to_owned()).collect();
        overrides.extend_from_slice(&self.set);
        overrides.extend(self.seed.map(|seed| format!("run.seed={seed}")));
        overrides.extend_from_slice(further);
        Ok(resolve(&self.preset, &overrides)?)
    }
}

impl RunArgs {
    fn config(&self, chosen: &Benchmark) -> anyhow::Result<RunConfig> {
        let mut further = Vec::new();
        further.extend(self.frames.map(|frames| format!("run.frames={frames}")));
        for (option, key, value) in
            [("--duration", "run.duration", &self.duration), ("--warmup", "run.warmup", &self.warmup)]
        {
            if let Some(text) = value {
                text.parse::<Ps>().with_context(|| option.to_owned())?;
                further.push(format!("{key}={text}"));
            }
        }
        if let Some(size) = &self.frame_size {
            further.push(format!("loadgen.traffic.frame_size={}", frame_size(size)?));
        }
        let config = self.common.resolve_over(chosen.defaults, &further)?;
        if self.frame_size.is_some() && !matches!(config.loadgen.traffic.kind, Kind::Frames | Kind::Ping) {
            anyhow::bail!(
                "--frame-size: memcached's frames are as long as their requests; set loadgen.traffic.memcached.value"
            );
        }
        Ok(config)
    }

    /// The rates; without any, the configuration's.
    fn rates(&self, config: &RunConfig) -> anyhow::Result<Vec<Rate>> {
        if self.rate.is_empty() {
            return Ok(vec![config.loadgen.traffic.rate]);
        }
        self.rate.iter().map(|text| text.parse::<Rate>().context("--rate")).collect()
    }
}

/// A frame size may be given without a unit: the field counts in bytes.
fn frame_size(text: &str) -> anyhow::Result<Bytes> {
    let with_unit =
        if text.bytes().all(|b| b.is_ascii_digit()) { format!("{text}B") } else { text.to_owned() };
    with_unit.parse().context("--frame-size")
}

/// Of each frame, with its FCS.
fn bytes_on_wire(config: &RunConfig) -> Bytes {
    Bytes((config.loadgen.traffic.frame_len() + Frame::FCS_BYTES) as u64)
}

/// Measures and reports.
pub fn run(args: &RunArgs, places: &Places) -> anyhow::Result<ExitCode> {
    let chosen = benchmark(&args.benchmark)?;
    let config = args.config(chosen)?;
    let rates = args.rates(&config)?;
    let folder = ResultFolder::create(&args.out)?;
    let screen = Screen::new(args.quiet);
    let interrupted = interrupt_flag()?;
    let mut m5 = M5Ops::new(folder.clone());
    let mut control = Control {
        m5: Some(&mut m5),
        interrupted: &interrupted,
        say: &mut |line| screen.say(line),
        progress: &mut |instructions, now| screen.progress("simulating", instructions, now),
    };
    let session = prepare(args, &config, chosen, places, &mut control)?;
    let (mut points, mut meanings) = (Vec::new(), BTreeMap::new());
    for (index, rate) in rates.iter().enumerate() {
        (control.say)(&format!("{}: {rate} of {} frames", chosen.name, bytes_on_wire(&config)));
        let own = if rates.len() == 1 { folder.clone() } else { folder.sub(&format!("point-{index:02}"))? };
        let capture = args.pcap.then(|| own.path().join("wire.pcap"));
        let point =
            run_point(&session, *rate, config.loadgen.traffic.frame_size, capture.as_deref(), &mut control)?;
        write_point(args, &own, &point, rates.len() > 1)?;
        points.push(point.summary);
        meanings = point.meanings;
    }
    screen.clear();
    let summary = whole_summary(args, points, meanings);
    let json = folder.write_summary(&summary)?;
    let report = doorbell_report::RunSummary::from_json(&json)?;
    folder.write("report.html", &doorbell_report::html(&report, &config.to_toml()))?;
    end_on_closed_pipe()?;
    if args.json {
        print!("{json}");
    } else {
        print!("{}", doorbell_report::table(&report));
        println!(
            "Results in {} (report.html, summary.json, stats.json, config.toml).",
            folder.path().display()
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn prepare(
    args: &RunArgs,
    config: &RunConfig,
    chosen: &'static Benchmark,
    places: &Places,
    control: &mut Control,
) -> anyhow::Result<Session> {
    let source = match &args.checkpoint {
        Some(path) => Source::File(path.clone()),
        None if args.boot => Source::Boot,
        None => Source::Cache,
    };
    let session = Session::prepare(config, chosen, places, &source, control)?;
    if let Some((seconds, instructions)) = session.boot {
        let millions = instructions as f64 / 1e6;
        let rate = millions / seconds;
        (control.say)(&format!(
            "ready after {millions:.0} M instructions, {seconds:.1} s ({rate:.0} M a second)"
        ));
    }
    if let Some(path) = &args.save_checkpoint {
        session.checkpoint().write(path)?;
    }
    Ok(session)
}

/// One of several points gets a whole result folder of its own.
fn write_point(
    args: &RunArgs,
    folder: &ResultFolder,
    point: &Point,
    one_of_several: bool,
) -> anyhow::Result<()> {
    folder.write_point(point)?;
    if one_of_several {
        let json = folder.write_summary(&whole_summary(
            args,
            vec![point.summary.clone()],
            point.meanings.clone(),
        ))?;
        let report = doorbell_report::RunSummary::from_json(&json)?;
        folder.write("report.html", &doorbell_report::html(&report, &point.config.to_toml()))?;
    }
    Ok(())
}

fn whole_summary(
    args: &RunArgs,
    points: Vec<doorbell_bench::PointSummary>,
    meanings: BTreeMap<String, String>,
) -> RunSummary {
    let words: Vec<String> = std::env::args().skip(1).collect();
    RunSummary {
        benchmark: args.benchmark.clone(),
        preset: args.common.preset.clone(),
        doorbell_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: format!("doorbell {}", words.join(" ")),
        meanings,
        points,
    }
}
