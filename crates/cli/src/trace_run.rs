//! `doorbell trace run`: plays a trace on a configuration, and reports as `doorbell run` does.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::Args;
use doorbell_bench::{
    CachePaths, KindRules, Observe, PlayedRun, ReadyTrace, Resolved, Results, TRACE, Traces, Warmup,
    list_names, resolve_played, run_summary, write_played,
};
use doorbell_report::{PageLinks, html_with};

use crate::exit::OrUsageError;
use crate::inputs;
use crate::loads::stacks;
use crate::out::{errln, out, outln};
use crate::run_args::{CommonArgs, OutputArgs, command_line};
use crate::screen::Screen;

#[derive(Args)]
#[command(
    after_help = "Settings of guest, NIC and traffic do not apply here; docs/traces.md lists those that do."
)]
pub struct PlayArgs {
    /// Traces to play, in Doorbell's, DynamoRIO's or ChampSim's format
    ///
    /// DynamoRIO traces are files or folders, ChampSim traces plain, .xz, .gz or .zst. The first one is
    /// measured. Further ones are co-runners, each on its own cores and repeated until the first one ends;
    /// they share the last-level cache, DRAM and links with it.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The ChampSim traces have the variant with 96 bytes per instruction
    #[arg(long)]
    cloudsuite: bool,
    /// Warm caches, TLBs and predictors with this many instructions first [default: 50%]
    ///
    /// Or with this share of the played instructions, or with the "whole" trace, which is then played again;
    /// short for --set playback.warmup=….
    #[arg(long, value_name = "INSTRUCTIONS|SHARE")]
    warmup: Option<Warmup>,
    /// Measure this many instructions after the warm-up, instead of all
    ///
    /// Blocks are played as a whole, which may add some dozen instructions. Short for --set
    /// playback.instructions=N.
    #[arg(long, value_name = "N")]
    instructions: Option<u64>,
    /// Frame arrival rate, such as 5Mpps, 10Gbps or 40%, instead of the recorded times
    ///
    /// Short for --set playback.rate=….
    #[arg(long, value_name = "RATE", conflicts_with = "window")]
    rate: Option<String>,
    /// Keep this many requests outstanding; each new one follows an answer
    ///
    /// Short for --set playback.window=N.
    #[arg(long, value_name = "N")]
    window: Option<u32>,
    /// Also profile CPU time, by kind and by function
    ///
    /// Writes kinds.csv, functions.csv and functions.folded. Names come from the recorder's file next to the
    /// trace (.symbols); other code is named by its page.
    #[arg(long)]
    profile: bool,
    /// Your own rules that assign functions to kinds
    ///
    /// They take precedence over the built-in ones; guest/kinds.toml describes the format.
    #[arg(long, value_name = "FILE", requires = "profile")]
    kinds: Option<PathBuf>,
    /// Also write a timeline of the cores as timeline.perfetto, which ui.perfetto.dev opens
    #[arg(long)]
    timeline: bool,
    /// Also log the measurement's first N instructions in the pipeline as pipeline.konata
    #[arg(long, value_name = "N")]
    pipeline: Option<u64>,
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl PlayArgs {
    fn config(&self, traces: &Traces) -> anyhow::Result<Resolved> {
        let (harts, path) = (traces.harts(), traces.first().path.display());
        let mut overrides = self.common.overrides(&[]);
        let of_harts =
            |text: &String| Some(text.strip_prefix("platform.harts=")?.trim() != harts.to_string());
        if overrides.iter().filter_map(of_harts).any(|differs| differs) {
            let many = if harts == 1 { "one hart".to_owned() } else { format!("{harts} harts") };
            bail!("{path}: the traces have {many} and need as many cores; remove --harts (platform.harts)");
        }
        if !self.common.disks.is_empty() {
            bail!("--disk does not apply: a played trace has no guest");
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

/// Plays the traces, writes the result folder, and prints the summary.
pub fn run(args: &PlayArgs, places: &CachePaths) -> anyhow::Result<ExitCode> {
    let traces = Traces::open(&args.files, args.cloudsuite)?;
    if args.cloudsuite && !traces.has_champsim() {
        return Err(anyhow!("--cloudsuite: none of the traces is a ChampSim trace; remove it"))
            .or_usage_error();
    }
    let config = args.config(&traces).or_usage_error()?;
    let observe = args.observe().or_usage_error()?;
    inputs::keep(&args.output.out, &args.files).or_usage_error()?;
    let ready = ReadyTrace::new(&traces, &config, &observe)?;
    let results = Results::begin(&args.output.out)?;
    // Warnings are printed even if progress messages are off.
    traces.doubts().iter().for_each(|doubt| errln!("{doubt}"));
    let screen = Screen::new(args.output.quiet);
    let played = screen.simulating(None, |control| {
        let header = &traces.first().description;
        let millions = header.instructions / 1_000_000;
        (control.say)(&format!("{}: {millions} M instructions of {}", header.file, header.recorded));
        Ok(ready.play(control)?)
    })?;
    screen.clear();
    let folder = results.folder();
    write_played(folder, &config, &played)?;
    let PlayedRun { summary, meanings, .. } = played;
    let base = args.common.base()?;
    let ran = traces.ran(places.commit);
    let summary = run_summary(TRACE, command_line(), base, &config, ran, meanings, vec![summary])?;
    let json = folder.write_summary(&summary)?;
    let links = PageLinks { stacks: stacks(folder.path()), ..PageLinks::default() };
    folder.write("report.html", &html_with(&summary, &folder.config_text()?, &links))?;
    let written = results.publish()?;
    if args.output.json {
        out!("{json}");
        return Ok(ExitCode::SUCCESS);
    }
    out!("{}", doorbell_report::table(&summary));
    outln!("Results in {} ({}).", args.output.out.display(), list_names(&written));
    Ok(ExitCode::SUCCESS)
}
