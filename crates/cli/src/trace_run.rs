//! `doorbell trace run`: plays a trace on a configuration, and reports as `doorbell run` does.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::Args;
use doorbell_bench::{
    KindRules, Observe, Places, PlayedRun, ReadyTrace, Results, RunConfig, RunSummary, TRACE, Traces, Warmup,
    changes, named, resolve_played, write_played,
};
use doorbell_report::{PageLinks, html_with};

use crate::exit::Asked;
use crate::inputs;
use crate::loads::stacks;
use crate::out::{out, outln, tell};
use crate::run_args::{CommonArgs, OutputArgs, command_line};
use crate::screen::Screen;

#[derive(Args)]
#[command(
    after_help = "What configures guest, NIC and traffic has no meaning here; docs/traces.md says what has."
)]
pub struct PlayArgs {
    /// What is played: traces of Doorbell's, DynamoRIO's or ChampSim's
    ///
    /// DynamoRIO's are files or folders, ChampSim's plain, .xz, .gz or .zst. The first one is measured; further ones are its neighbours, each
    /// on cores of its own and over again until the first one ends, which share with it the last level, DRAM and links.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The ChampSim traces are of the variant with 96 bytes an instruction
    #[arg(long)]
    cloudsuite: bool,
    /// Let caches, TLBs and predictors learn from so many instructions first [default: 50%]
    ///
    /// Or from such a share of those that are played, or from the "whole" trace, which then begins again; short for --set playback.warmup=….
    #[arg(long, value_name = "INSTRUCTIONS|SHARE")]
    warmup: Option<Warmup>,
    /// Measure so many instructions behind them, instead of all
    ///
    /// Blocks are played whole: up to some dozen more. Short for --set playback.instructions=N.
    #[arg(long, value_name = "N")]
    instructions: Option<u64>,
    /// Let frames arrive at this rate, such as 5Mpps, 10Gbps or 40%, instead of as they did
    ///
    /// Short for --set playback.rate=….
    #[arg(long, value_name = "RATE", conflicts_with = "window")]
    rate: Option<String>,
    /// Keep so many requests outstanding, each of which follows an answer
    ///
    /// Short for --set playback.window=N.
    #[arg(long, value_name = "N")]
    window: Option<u32>,
    /// Also tell what CPU time was for, by kind and by function
    ///
    /// As tables, kinds.csv, functions.csv and functions.folded. Names are those that the recorder left beside the trace (.symbols); other
    /// code is named by its page.
    #[arg(long)]
    profile: bool,
    /// Rules of your own by which functions have kinds
    ///
    /// They stand in front of the built-in ones; guest/kinds.toml says what they look like.
    #[arg(long, value_name = "FILE", requires = "profile")]
    kinds: Option<PathBuf>,
    /// Also write a timeline of the cores as timeline.perfetto, which ui.perfetto.dev opens
    #[arg(long)]
    timeline: bool,
    /// Also log the way of the measurement's first N instructions through the pipeline as pipeline.konata
    #[arg(long, value_name = "N")]
    pipeline: Option<u64>,
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl PlayArgs {
    fn config(&self, traces: &Traces) -> anyhow::Result<RunConfig> {
        let (harts, path) = (traces.harts(), traces.first().path.display());
        let mut overrides = self.common.overrides(&[]);
        let of_harts =
            |text: &String| Some(text.strip_prefix("platform.harts=")?.trim() != harts.to_string());
        if overrides.iter().filter_map(of_harts).any(|differs| differs) {
            let many = if harts == 1 { "one hart".to_owned() } else { format!("{harts} harts") };
            bail!("{path}: what is played has {many} and as many cores; leave --harts out (platform.harts)");
        }
        if !self.common.disks.is_empty() {
            bail!("--disk: a played trace has no guest that could use a disk");
        }
        overrides.retain(|text| !text.starts_with("platform.harts="));
        overrides.extend(self.warmup.map(|warmup| match warmup {
            Warmup::Percent(_) | Warmup::Whole => format!("playback.warmup=\"{warmup}\""),
            Warmup::Instructions(_) => format!("playback.warmup={warmup}"),
        }));
        overrides.extend(self.rate.iter().map(|rate| format!("playback.rate=\"{rate}\"")));
        overrides.extend(self.window.map(|window| format!("playback.window={window}")));
        overrides.extend(self.instructions.map(|count| format!("playback.instructions={count}")));
        Ok(resolve_played(self.common.base()?, traces.shape(), &overrides)?)
    }

    fn observe(&self) -> anyhow::Result<Observe> {
        Ok(Observe {
            profile: self.profile,
            timeline: self.timeline.then_some(0),
            pipeline: self.pipeline,
            kinds: self.kinds.as_deref().map(KindRules::with_file).transpose()?,
            ..Observe::default()
        })
    }
}

/// Plays, writes the result folder, and prints the summary.
pub fn run(args: &PlayArgs, places: &Places) -> anyhow::Result<ExitCode> {
    let traces = Traces::open(&args.files, args.cloudsuite)?;
    if args.cloudsuite && !traces.has_champsim() {
        return Err(anyhow!("--cloudsuite: nothing that is played is ChampSim's; leave it out")).asked();
    }
    let config = args.config(&traces).asked()?;
    let observe = args.observe().asked()?;
    inputs::keep(&args.output.out, &args.files).asked()?;
    let ready = ReadyTrace::new(&traces, &config, &observe)?;
    let results = Results::begin(&args.output.out)?;
    // What may be wrong is no progress: it is said whatever else is not.
    traces.doubts().iter().for_each(|doubt| tell!("{doubt}"));
    let screen = Screen::new(args.output.quiet);
    let played = screen.simulating(None, |control| {
        let known = &traces.first().known;
        let millions = known.instructions / 1_000_000;
        (control.say)(&format!("{}: {millions} M instructions of {}", known.file, known.recorded));
        Ok(ready.play(control)?)
    })?;
    screen.clear();
    let folder = results.folder();
    write_played(folder, &config, &played)?;
    let PlayedRun { summary, meanings, .. } = played;
    let base = args.common.base()?;
    let summary = RunSummary {
        benchmark: TRACE.to_owned(),
        preset: base.name().to_owned(),
        changed: changes(base, &config)?,
        doorbell_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command_line(),
        ran: traces.ran(places.commit),
        incomplete: None,
        meanings,
        points: vec![summary],
    };
    let json = folder.write_summary(&summary)?;
    let beside = PageLinks { stacks: stacks(folder.path()), ..PageLinks::default() };
    folder.write("report.html", &html_with(&summary, &folder.config_text()?, &beside))?;
    let written = results.publish()?;
    if args.output.json {
        out!("{json}");
        return Ok(ExitCode::SUCCESS);
    }
    out!("{}", doorbell_report::table(&summary));
    outln!("Results in {} ({}).", args.output.out.display(), named(&written));
    Ok(ExitCode::SUCCESS)
}
