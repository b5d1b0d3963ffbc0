//! `doorbell run --network FILE`: nodes, switches and load generators on cables.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use doorbell_bench::{
    Control, NetworkFigures, NetworkFile, Places, RunConfig, Testbed, TestbedPlan, run_network,
};
use doorbell_loadgen::Rate;

use crate::loads::Loads;
use crate::run_cmd::{RunArgs, two_nodes_ready};
use crate::screen::Screen;
use crate::search_cmd::jobs_or_cores;

/// Measures a network at each rate, and reports.
pub fn run(args: &RunArgs, path: &Path, places: &Places) -> anyhow::Result<ExitCode> {
    refuse_what_has_no_meaning(args)?;
    args.observe.refuse("a network")?;
    let file = NetworkFile::read(path)?;
    let resolve = |rate: Option<Rate>| configuration(args, &file, rate);
    let config = resolve(None)?;
    let mut rates: Vec<Option<Rate>> = args.rates_given(&config)?.into_iter().map(Some).collect();
    if rates.is_empty() {
        rates.push(None);
    }
    let mut loads = Loads::begin(args, "network", &config, rates.len())?;
    let screen = Screen::new(args.output.quiet);
    let mut told = String::new();
    screen.simulating(|control| {
        let threads = jobs_or_cores(args.threads);
        let name =
            path.file_stem().map_or_else(|| "network".to_owned(), |stem| stem.to_string_lossy().into_owned());
        let (plan, _) = TestbedPlan::network(&config, &name, threads)?;
        let mut testbed = Testbed::prepare(plan, places, &args.guest.source(), control)?;
        two_nodes_ready(args, &mut testbed, control)?;
        for rate in &rates {
            let own = resolve(*rate)?;
            let measured = measure(&testbed, &own, args.pcap, &mut loads, control);
            told = loads.but_some_are_done(measured)?;
        }
        Ok(())
    })?;
    screen.clear();
    loads.finish(if rates.len() == 1 { &told } else { "" })?;
    Ok(ExitCode::SUCCESS)
}

/// Measures one load; returns what its hops did, in words.
fn measure(
    testbed: &Testbed,
    config: &RunConfig,
    capture: bool,
    loads: &mut Loads,
    control: &mut Control,
) -> anyhow::Result<String> {
    let (folder, _) = loads.next()?;
    let plan = config.topology()?;
    let captures = capture.then(|| folder.path().to_owned());
    let run = run_network(testbed, (config, &plan), captures.as_deref(), control)?;
    folder.write_nodes(config, &run.network)?;
    let told = run.summary.network.as_ref().map_or_else(String::new, hops);
    loads.done(&folder, config, run.summary, run.meanings, testbed.ran())?;
    Ok(told)
}

/// What the options and the file say, at this rate of every generator if one is given.
fn configuration(args: &RunArgs, file: &NetworkFile, rate: Option<Rate>) -> anyhow::Result<RunConfig> {
    let mut further = Vec::new();
    for (key, value) in [("run.duration", &args.duration), ("run.warmup", &args.warmup)] {
        further.extend(value.as_ref().map(|value| format!("{key}={value}")));
    }
    further.extend(args.frame_size.as_ref().map(|size| {
        let unit = if size.bytes().all(|byte| byte.is_ascii_digit()) { "B" } else { "" };
        format!("loadgen.traffic.frame_size={size}{unit}")
    }));
    let overrides = args.common.overrides(&[], &further);
    let preset = &args.common.preset;
    match rate {
        None => Ok(file.resolve(preset, &overrides)?),
        Some(rate) => file.resolve_at(preset, &overrides, rate).context("--rate"),
    }
}

fn refuse_what_has_no_meaning(args: &RunArgs) -> anyhow::Result<()> {
    let given = [
        ("--frames", args.frames.is_some(), "--duration 1ms"),
        ("--drive", args.drive.is_some(), "nothing: write a node that drives into the network's file"),
        ("--disk", !args.common.disks.is_empty(), "nothing: nodes of a network have no disks"),
        (
            args.traffic.given().unwrap_or("--traffic"),
            args.traffic.given().is_some(),
            "[generator.NAME.traffic] in the network's file",
        ),
    ];
    for (option, given, instead) in given {
        if given {
            bail!("{option} is for one machine and its own load generators; instead: {instead}");
        }
    }
    if let Some(benchmark) = &args.benchmark {
        bail!(
            "a network's file says what runs where; leave out \"{benchmark}\", or write benchmark = \"{benchmark}\" under a node"
        );
    }
    Ok(())
}

/// Hops and switches in words.
fn hops(figures: &NetworkFigures) -> String {
    let mut lines = vec![format!(
        "{:<34} {:>10} {:>9} {:>7} {:>7} {:>9}",
        "hop", "frames", "Gbps", "busy %", "lost", "link, ns"
    )];
    for (name, hop) in &figures.hops {
        lines.push(format!(
            "{name:<34} {:>10} {:>9.3} {:>7.1} {:>7} {:>9.1}",
            hop.sent.frames,
            hop.gbps,
            hop.busy * 100.0,
            hop.sent.lost,
            hop.latency_ns
        ));
    }
    if !figures.switches.is_empty() {
        lines.push(format!(
            "{:<34} {:>10} {:>9} {:>9} {:>9} {:>9}",
            "switch: output", "queued", "dropped", "deepest", "p50, ns", "p99, ns"
        ));
    }
    for (switch, figures) in &figures.switches {
        for (cable, output) in &figures.outputs {
            let name = format!("{switch}: {cable}");
            let of = |pick: fn(&doorbell_loadgen::LatencySummary) -> f64| {
                output.residence_ns.as_ref().map_or("-".to_owned(), |of| format!("{:.1}", pick(of)))
            };
            lines.push(format!(
                "{name:<34} {:>10} {:>9} {:>9} {:>9} {:>9}",
                output.queued,
                output.dropped,
                output.deepest,
                of(|of| of.p50),
                of(|of| of.p99)
            ));
        }
    }
    lines.join("\n") + "\n"
}
