//! `doorbell search`.

use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use doorbell_bench::{
    Benchmark, CachePaths, Control, Nodes, Resolved, Results, RunConfig, Session, Stage, benchmark,
    list_names,
};
use doorbell_loadgen::LoadGen;
use doorbell_report::{SearchSummary, search_html, search_table, spelled_out};
use doorbell_sim::Bytes;
use doorbell_study::experiment::SearchSpec;
use doorbell_study::search::{
    Event, Goal, Judgment, LatencyBound, Precision, SEARCH_ARRIVALS, SearchRequest, SizeResults, Verdict,
    search_config, search_sizes, search_summary,
};

use crate::cluster::{Cluster, ClusterArgs};
use crate::exit::OrUsageError as _;
use crate::frame_sizes::FrameSizes;
use crate::inputs;
use crate::out::{out, outln};
use crate::run_args::{
    CommonArgs, GuestArgs, OutputArgs, command_line, frame_size, run_help, run_names, warmup_override,
};
use crate::run_cmd::{FRAME_USUAL, session};
use crate::screen::{Line, Screen, interrupt_flag};
use crate::search_cluster::ClusterSearch;
use crate::search_progress::{SearchProgress, mpps};
use crate::traffic_args::{TrafficArgs, one_size};

#[derive(Args)]
#[command(after_help = run_names(), after_long_help = run_help())]
pub struct SearchArgs {
    /// Name of the benchmark
    benchmark: String,
    /// Goal: msb (1 % of the frames lost), ndr (none), pdr (0.5 %), or a share such as 0.1%
    ///
    /// Finds the highest rate with at most this loss: maximum sustainable bandwidth, no-drop rate,
    /// partial-drop rate.
    #[arg(long, value_name = "GOAL", default_value = "msb", value_parser = checked::<Goal>)]
    goal: String,
    /// Also bound a percentile of round trips, such as p99=20us
    #[arg(long, value_name = "PERCENTILE=TIME", value_parser = checked::<LatencyBound>)]
    latency_max: Option<String>,
    /// Width of the resulting interval, as a share of the rate
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = checked::<Precision>)]
    precision: String,
    /// The lowest rate to try [default: a thousandth of the highest]
    #[arg(long, value_name = "RATE")]
    min: Option<String>,
    /// The highest rate to try [default: the line rate]
    #[arg(long, value_name = "RATE")]
    max: Option<String>,
    /// Bytes per frame with FCS, 64 to 16384; several give a search each
    ///
    /// Separate several sizes by commas. Or one mix: imix, a genome such as genome:aag, or sizes with weights
    /// such as 7x64B,1x1518B.
    #[arg(long, value_name = "BYTES,…")]
    frame_size: Option<FrameSizes>,
    /// Minimum number of frames in a trial's window [default: a hundred losses at the goal; 100000 for ndr]
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u64).range(100..))]
    frames: Option<u64>,
    /// Simulated time of traffic before a trial is timed, such as 10ms, or auto
    ///
    /// auto: until caches and rings are steady and two ticks of the guest's timer have occurred.
    #[arg(long, value_name = "TIME")]
    warmup: Option<String>,
    /// Number of trials run at once; the result does not depend on it [default: the host's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    #[command(flatten)]
    traffic: TrafficArgs,
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    guest: GuestArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Accepts a text that is a value of this type.
fn checked<T: FromStr>(text: &str) -> Result<String, T::Err> {
    text.parse::<T>().map(|_| text.to_owned())
}

impl SearchArgs {
    /// The search parameters, as in an experiment's file.
    fn spec(&self) -> SearchSpec {
        SearchSpec {
            goal: self.goal.clone(),
            precision: Some(self.precision.clone()),
            latency_max: self.latency_max.clone(),
            min: self.min.clone(),
            max: self.max.clone(),
            frames: self.frames,
        }
    }

    fn config(&self, defaults: &[&str]) -> anyhow::Result<Resolved> {
        let mut extra = Vec::new();
        extra.extend(warmup_override(self.warmup.as_deref())?);
        let file = self.traffic.file()?;
        let file = file.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
        let defaults = [defaults, &[SEARCH_ARRIVALS]].concat();
        let config = self.common.resolve_over(file, &defaults, &extra)?;
        self.traffic.apply(self.mix(), config)
    }

    /// The given frame sizes.
    fn given_sizes(&self) -> &[String] {
        self.frame_size.as_ref().map_or(&[], |sizes| &sizes.0)
    }

    /// The mix of sizes, if one is given.
    fn mix(&self) -> Option<&str> {
        match self.given_sizes() {
            [text] if one_size(text).is_none() => Some(text),
            _ => None,
        }
    }

    fn sizes(&self, config: &RunConfig) -> anyhow::Result<Vec<Bytes>> {
        if !config.loadgen.traffic.streams.is_empty() {
            if self.given_sizes().len() > 1 || self.given_sizes().len() == 1 && self.mix().is_none() {
                bail!("--frame-size: the traffic has streams; set the sizes in the streams instead");
            }
            let generator = LoadGen::new(0, config.run.seed, &config.loadgen, &config.port(0).link)?;
            return Ok(vec![generator.mean_frame_size()]);
        }
        if self.given_sizes().is_empty() {
            return Ok(vec![config.loadgen.traffic.frame_size]);
        }
        let sizes: Vec<Bytes> =
            self.given_sizes().iter().map(|text| frame_size(text)).collect::<Result<_, _>>()?;
        for size in &sizes {
            let traffic =
                doorbell_loadgen::TrafficConfig { frame_size: *size, ..config.loadgen.traffic.clone() };
            traffic.validate().context("--frame-size")?;
        }
        Ok(sizes)
    }
}

/// The number of jobs; default: the number of host cores.
pub fn jobs_or_cores(jobs: Option<u16>) -> usize {
    jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
}

/// A resolved `search` command.
struct ResolvedSearch {
    chosen: &'static Benchmark,
    request: SearchRequest,
    config: Resolved,
    sizes: Vec<Bytes>,
}

fn resolve(args: &SearchArgs) -> anyhow::Result<ResolvedSearch> {
    let chosen = benchmark(&args.benchmark)?;
    if chosen.silent || matches!(chosen.nodes, Nodes::Joined { .. }) {
        bail!(
            "{} has no load generator, so its rate cannot be searched; choose another benchmark",
            chosen.name
        );
    }
    chosen.reject_foreign_settings(&args.common.set)?;
    let request = args.spec().request().map_err(|problem| anyhow!("--{problem}"))?;
    let mut config = args.config(chosen.defaults)?;
    let sizes = args.sizes(&config)?;
    // One boot serves all sizes: the boot for the longest frames.
    if let Some(longest) = sizes.iter().max().filter(|longest| **longest > FRAME_USUAL) {
        let longest = config.loadgen.traffic.frame_size.max(*longest);
        config = config.with_change(|config| config.loadgen.traffic.frame_size = longest)?;
    }
    (chosen.check)(&config)?;
    request.validate(&config, &sizes)?;
    Ok(ResolvedSearch { chosen, request, config, sizes })
}

/// Searches and reports. Sizes finished before an interrupt or an error are reported as well.
pub fn run(args: &SearchArgs, places: &CachePaths) -> anyhow::Result<ExitCode> {
    let ResolvedSearch { chosen, request, config, sizes } = resolve(args).or_usage_error()?;
    inputs::check(&config).or_usage_error()?;
    inputs::keep_named(&args.output.out, &config).or_usage_error()?;
    let screen = Screen::new(args.output.quiet);
    if let Some(warning) = request.line_rate_warning(&config, &sizes) {
        screen.say(&format!("--max: {warning}"));
    }
    if let Some(cluster) = args.cluster.cluster()? {
        return on_cluster(
            args,
            &cluster,
            &ResolvedSearch { chosen, request, config, sizes },
            places,
            &screen,
        );
    }
    let results = inputs::begin(&args.output.out, &args.guest)?;
    let interrupted = interrupt_flag()?;
    let mut control = Control {
        m5: None,
        interrupted: &interrupted,
        say: &mut |line| screen.say(line),
        progress: &mut |at| screen.progress(at),
        stage: Stage::default(),
    };
    let session = session(&args.guest, &mut control, |source, control| {
        Session::prepare(&config, chosen, places, source, control)
    })?;
    let started = std::time::Instant::now();
    let jobs = jobs_or_cores(args.jobs);
    screen.say(&format!("{}: {}", chosen.name, spelled_out(&request.goal.to_string())));
    let progress = Arc::new(SearchProgress::new(sizes.len(), request.precision.0));
    screen.watch(Arc::clone(&progress) as Arc<dyn Line>);
    let searches = search_sizes(&session, &sizes, &request, jobs, &interrupted, &|size, event| {
        progress.on_event(size, event);
        if let Event::Judged(number, rate, judgment) = event {
            screen.say(&format!("{size} frames, trial {number}: {}", trial_text(*rate, judgment)));
        }
    });
    screen.clear();
    let seconds = started.elapsed().as_secs_f64();
    let preset = args.common.base()?.name();
    let SizeResults { done, error } = searches;
    let (found, all) = (done.len(), sizes.len());
    let mut summary = search_summary(&session, preset, command_line(), &request, jobs, seconds, done);
    let Some(error) = error else {
        return report(args, results, &search_config(&config, chosen), &summary);
    };
    if found == 0 {
        return Err(error.into());
    }
    summary.incomplete = Some(format!(
        "{} of {all} frame sizes were not searched, because the search ended early",
        all - found
    ));
    write(results, &search_config(&config, chosen), &summary)?;
    let context = format!(
        "{found} of {all} frame sizes are finished; their results are in {}",
        args.output.out.display()
    );
    Err(anyhow::Error::from(error).context(context))
}

/// Result of a trial as text.
fn trial_text(rate: u64, judgment: &Judgment) -> String {
    let side = match judgment.verdict {
        Verdict::Below => "meets the goal",
        Verdict::Above => "misses it",
        Verdict::Undecided => "is undecided",
    };
    format!("{} Mpps loses {:.3} % and {side}", mpps(rate), judgment.loss * 100.0)
}

/// The same as tasks of a cluster, one per size.
fn on_cluster(
    args: &SearchArgs,
    cluster: &Cluster,
    resolved: &ResolvedSearch,
    places: &CachePaths,
    screen: &Screen,
) -> anyhow::Result<ExitCode> {
    if args.guest != GuestArgs::default() {
        return Err(anyhow!(
            "--boot, --checkpoint and --save-checkpoint do not apply with --on: all nodes share a boot"
        ))
        .or_usage_error();
    }
    let ResolvedSearch { chosen, config, sizes, .. } = resolved;
    let out = &args.output.out;
    let search = ClusterSearch { benchmark: chosen, config, sizes, search: &args.spec(), out };
    let mut found = search.search(cluster, places, screen)?;
    screen.clear();
    let (done, all) = (found.summaries.len(), sizes.len());
    if let Some(error) = found.error.take() {
        return Err(error.context(format!("{done} of {all} frame sizes are finished")));
    }
    let results = Results::begin(out)?;
    let code = report(
        args,
        results,
        &search_config(config, chosen),
        &found.combine(args.common.base()?.name(), command_line())?,
    )?;
    found.clean_up();
    Ok(code)
}

/// Publishes the results. Returns the summary's text and the names of the written files.
fn write(
    results: Results,
    config: &RunConfig,
    summary: &SearchSummary,
) -> anyhow::Result<(String, Vec<String>)> {
    let folder = results.folder();
    folder.write_config(config)?;
    let json = summary.to_json();
    folder.write("summary.json", &json)?;
    folder.write("report.html", &search_html(summary, &folder.config_text()?))?;
    Ok((json, results.publish()?))
}

fn report(
    args: &SearchArgs,
    results: Results,
    config: &RunConfig,
    summary: &SearchSummary,
) -> anyhow::Result<ExitCode> {
    let (json, written) = write(results, config, summary)?;
    if args.output.json {
        out!("{json}");
    } else {
        out!("{}", search_table(summary));
        outln!("Results in {} ({}).", args.output.out.display(), list_names(&written));
    }
    Ok(ExitCode::SUCCESS)
}
