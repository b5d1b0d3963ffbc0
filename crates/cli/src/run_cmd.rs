//! `doorbell run`: what is asked for, got ready, measured at each load, and reported.

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use doorbell_bench::{
    BENCHMARKS, Benchmark, BenchmarkPlan, Control, DriveConfig, DriveKind, M5Ops, Nodes, Places, Prepared,
    RunConfig, RunError, Session, Source, benchmark,
};
use doorbell_loadgen::{Arrivals, Rate, StreamConfig};
use doorbell_sim::{Bytes, Frame};

use crate::exit::Asked as _;
use crate::iperf_cmd;
use crate::loads::Loads;
use crate::network_cmd;
use crate::run_args::{GuestArgs, RunArgs};
use crate::screen::Screen;
use crate::script_cmd;
use crate::told::told;

/// What is to be measured.
pub struct Asked {
    /// The benchmark.
    pub benchmark: &'static Benchmark,
    /// What a network's checkpoint is called, and on how many host threads its nodes run.
    pub network: (String, usize),
    /// The configuration that all loads have in common.
    pub config: RunConfig,
    /// What is offered, one after the other.
    pub loads: Vec<Load>,
}

/// One of its loads.
pub struct Load {
    /// The configuration.
    pub config: RunConfig,
    /// The rate of what has load generators or a drive node.
    pub rate: Rate,
    /// What is told when it begins.
    pub said: Option<String>,
}

impl Asked {
    /// Of a benchmark that is no network.
    pub fn new(benchmark: &'static Benchmark, config: RunConfig, loads: Vec<Load>) -> Asked {
        Asked { benchmark, network: (benchmark.name.to_owned(), 1), config, loads }
    }
}

/// Measures and reports.
pub fn run(args: &RunArgs, places: &Places) -> anyhow::Result<ExitCode> {
    if let Some(script) = &args.script.script {
        args.observe.refuse_but_trace("a script of your own").asked()?;
        args.observe.observe(None, Path::new("")).asked()?.check_node(None).asked()?;
        return script_cmd::run(args, script, places);
    }
    measure_all(args, &asked(args).asked()?, places)
}

fn asked(args: &RunArgs) -> anyhow::Result<Asked> {
    if let Some(option) = args.script.given() {
        bail!("{option} is for a script of your own: name one with --script FILE");
    }
    match &args.network {
        Some(path) => network_cmd::asked(args, path),
        None => benchmark_asked(args),
    }
}

/// The benchmark at each rate.
fn benchmark_asked(args: &RunArgs) -> anyhow::Result<Asked> {
    let Some(name) = &args.benchmark else {
        let names: Vec<&str> = BENCHMARKS.iter().map(|known| known.name).collect();
        bail!(
            "name a benchmark ({}), a script of your own with --script FILE, or a network with --network FILE",
            names.join(", ")
        );
    };
    let chosen = benchmark(name)?;
    if let Nodes::Two { .. } = chosen.nodes {
        return iperf_cmd::asked(args, chosen);
    }
    if chosen.silent && !args.rate.is_empty() {
        bail!("--rate: {} has no traffic", chosen.name);
    }
    let config = args.config(chosen.defaults)?;
    let mut source = "";
    if config.options::<DriveConfig>().kind == DriveKind::Node {
        args.observe.refuse_for_nodes("two nodes")?;
        source = " from a drive node";
    }
    let load = |rate| {
        let what = what_is_sent(&config);
        let said = (!chosen.silent).then(|| format!("{}: {rate} of {what}{source}", chosen.name));
        Load { config: config.clone(), rate, said }
    };
    let loads = args.rates(&config)?.into_iter().map(load).collect();
    Ok(Asked::new(chosen, config, loads))
}

/// Gets a benchmark ready, measures its loads, and reports.
fn measure_all(args: &RunArgs, asked: &Asked, places: &Places) -> anyhow::Result<ExitCode> {
    let Asked { benchmark, network: (name, threads), config, loads: all } = asked;
    // What is wrong with rules, or with a node's name, is found before a boot.
    let observe = args.observe.observe(None, Path::new("")).asked()?;
    let plan = BenchmarkPlan::new(benchmark, config, (name, *threads))?;
    plan.check(&observe).asked()?;
    let mut loads = Loads::begin(args, benchmark.name, config, all.len())?;
    let screen = Screen::new(args.output.quiet);
    let mut m5 = M5Ops::new(loads.folder().clone(), config.run.m5_limit);
    let mut further = String::new();
    screen.simulating(Some(&mut m5), |control| {
        let mut prepared = plan.prepare(places, &args.guest.source(), control)?;
        prepared.set_fingerprint(args.fingerprint);
        let write = |path: &Path| prepared.write_checkpoint(path);
        is_ready(&args.guest, (prepared.who(), prepared.boot()), write, control)?;
        for load in all {
            if let Some(line) = &load.said {
                (control.say)(line);
            }
            let measured = measure(args, &prepared, load, &mut loads, control);
            further = loads.but_some_are_done(measured)?;
        }
        Ok(())
    })?;
    screen.clear();
    loads.finish(if all.len() == 1 { &further } else { said_of_table(config) })?;
    Ok(ExitCode::SUCCESS)
}

/// Measures one load; what its table has no columns for.
fn measure(
    args: &RunArgs,
    prepared: &Prepared,
    load: &Load,
    loads: &mut Loads,
    control: &mut Control,
) -> anyhow::Result<String> {
    let (own, capture) = loads.next()?;
    let observe = args.observe.observe(capture, own.path())?;
    let measured = prepared.measure((&load.config, load.rate), &observe, &own, control)?;
    let further = told(&measured.summary);
    loads.done(&own, &measured.config, measured.summary, measured.meanings, prepared.ran())?;
    Ok(further)
}

/// Says what a boot took, if there was one, and writes the checkpoint if it was asked for.
fn is_ready(
    args: &GuestArgs,
    (who, boot): (&str, Option<(f64, u64)>),
    write: impl FnOnce(&Path) -> Result<(), RunError>,
    control: &mut Control,
) -> anyhow::Result<()> {
    if let Some((seconds, instructions)) = boot {
        let millions = instructions as f64 / 1e6;
        let rate = millions / seconds;
        (control.say)(&format!(
            "{who} after {millions:.0} M instructions, {seconds:.1} s ({rate:.0} M a second)"
        ));
    }
    Ok(args.save_checkpoint.as_deref().map_or(Ok(()), write)?)
}

/// A session from where the options say.
pub fn session(
    args: &GuestArgs,
    control: &mut Control,
    prepare: impl FnOnce(&Source, &mut Control) -> Result<Session, RunError>,
) -> anyhow::Result<Session> {
    let session = prepare(&args.source(), control)?;
    let write = |path: &Path| Ok(session.checkpoint().write(path)?);
    is_ready(args, ("ready", session.boot), write, control)?;
    Ok(session)
}

/// What holds for all loads of a table.
fn said_of_table(config: &RunConfig) -> &'static str {
    match &config.loadgen.traffic.streams[..] {
        [only] if only.arrivals == Arrivals::Jitter => {
            "Frames come with jitter, that no rate may fall into step with the program; --arrivals constant has none (docs/traffic.md).\n"
        }
        _ => "",
    }
}

/// What the rate is of, in words.
pub(crate) fn what_is_sent(config: &RunConfig) -> String {
    let traffic = &config.loadgen.traffic;
    match traffic.streams.len() {
        1 if traffic.streams[0]
            == (StreamConfig { arrivals: Arrivals::Jitter, ..StreamConfig::of(traffic) }) =>
        {
            format!("{} frames with jitter", Bytes((traffic.frame_len() + Frame::FCS_BYTES) as u64))
        }
        0 => format!("{} frames", Bytes((traffic.frame_len() + Frame::FCS_BYTES) as u64)),
        1 => "a stream".to_owned(),
        count => format!("{count} streams"),
    }
}
