//! `doorbell run`: resolves the options, prepares the guest, measures each load and reports.

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use doorbell_bench::{
    BENCHMARKS, Benchmark, BenchmarkPlan, CachePaths, Control, DriveConfig, DriveKind, HostCost, Length,
    M5Ops, Nodes, Prepared, Resolved, RunConfig, RunError, Session, Source, benchmark, driven_guests,
};
use doorbell_image::DebugSymbols;
use doorbell_loadgen::{Arrivals, Kind, LoadGen, Rate};
use doorbell_machine::CoreModel;
use doorbell_sim::{Bytes, Frame, Ps};
use doorbell_study::search::{frames_per_second, line_rate};

use crate::exit::OrUsageError as _;
use crate::inputs;
use crate::loads::Loads;
use crate::network_cmd;
use crate::point_text::point_text;
use crate::run_args::{GuestArgs, RunArgs};
use crate::screen::Screen;
use crate::script_cmd;
use crate::two_nodes_cmd;
use crate::usage_hint;

/// Maximum frame size of standard Ethernet.
pub(crate) const FRAME_USUAL: Bytes = Bytes(1518);

/// A warm-up of at least this length takes about half a minute of host time.
const WARMUP_LONG: Ps = Ps::from_ms(40);

/// A resolved `run` command.
pub struct RunRequest {
    /// The benchmark.
    pub benchmark: &'static Benchmark,
    /// Checkpoint name of a network, and the number of host threads that run its nodes.
    pub network: (String, usize),
    /// Configuration for the boot, shared by all loads.
    pub config: Resolved,
    /// Loads to measure, in order.
    pub loads: Vec<Load>,
}

/// One load.
pub struct Load {
    /// Its configuration.
    pub config: Resolved,
    /// Rate of the load generators or the drive node.
    pub rate: Rate,
    /// Message printed when its measurement starts.
    pub message: Option<String>,
}

impl RunRequest {
    /// A request for a benchmark on a single machine.
    pub fn new(benchmark: &'static Benchmark, config: Resolved, loads: Vec<Load>) -> RunRequest {
        RunRequest { benchmark, network: (benchmark.name.to_owned(), 1), config, loads }
    }
}

/// Measures and reports.
pub fn run(args: &RunArgs, places: &CachePaths) -> anyhow::Result<ExitCode> {
    two_nodes_cmd::check_samples(args).or_usage_error()?;
    if let Some(script) = &args.script.script {
        args.observe.observe(None, Path::new("")).or_usage_error()?.check_node(None).or_usage_error()?;
        return script_cmd::run(args, script, places);
    }
    measure_all(args, &resolve(args).or_usage_error()?, places)
}

/// Resolves the options.
pub(crate) fn resolve(args: &RunArgs) -> anyhow::Result<RunRequest> {
    if let Some(option) = args.script.given() {
        bail!("{option} applies only to a script; add --script FILE");
    }
    match &args.network {
        Some(path) => network_cmd::request(args, path),
        None => resolve_benchmark(args),
    }
}

/// Resolves a benchmark at each rate.
fn resolve_benchmark(args: &RunArgs) -> anyhow::Result<RunRequest> {
    let Some(name) = &args.benchmark else {
        let names: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
        bail!(
            "nothing to run; give a benchmark ({}), a script with --script FILE, or a network with --network FILE",
            names.join(", ")
        );
    };
    let chosen = benchmark(name).map_err(|error| match usage_hint::of_file(name) {
        Some(hint) => anyhow::anyhow!(hint),
        None => error.into(),
    })?;
    chosen.reject_foreign_settings(&args.common.set)?;
    if let Nodes::Joined { .. } = chosen.nodes {
        return two_nodes_cmd::request(args, chosen);
    }
    if chosen.silent && !args.rate.is_empty() {
        bail!("--rate does not apply: {} has no traffic", chosen.name);
    }
    let mut configs = args.configs(chosen.defaults)?;
    configs.iter().try_for_each(|config| (chosen.check)(config))?;
    let mut loads = Vec::new();
    for config in &configs {
        let mut source = "";
        if config.options::<DriveConfig>().kind == DriveKind::Node {
            args.observe.reject_for_nodes("two nodes")?;
            driven_guests(chosen, config)?;
            source = " from a drive node";
        }
        let of_this = loads.len();
        for requested in args.rates(config)? {
            let what = what_is_sent(config);
            let (rate, capped) = cap_at_line_rate(config, requested)?;
            // Rates capped at the line rate are measured once.
            let same = loads[of_this..].iter_mut().find(|load: &&mut Load| load.rate == rate);
            if let (Some(_), Some(Load { message: Some(message), .. })) = (&capped, same) {
                *message += &format!("; {requested} is capped to the same rate");
                continue;
            }
            let remark = (chosen.remark)(config).unwrap_or_default();
            let message =
                format!("{}: {rate} of {what}{source}{}{remark}", chosen.name, capped.unwrap_or_default());
            let message = (!chosen.silent).then(|| message + &long_warmup(chosen, config, rate));
            loads.push(Load { config: config.clone(), rate, message });
        }
    }
    // One boot serves all frame sizes: the boot for the longest frames.
    let longest = |config: &Resolved| config.loadgen.traffic.frame_size_max().max(FRAME_USUAL);
    let first = configs.iter().map(longest).enumerate().rev().max_by_key(|(_, size)| *size);
    let first = first.map_or(0, |(index, _)| index);
    Ok(RunRequest::new(chosen, configs.swap_remove(first), loads))
}

/// Notice for a warm-up that is long because frames arrive slowly: it lasts until they have filled the rings
/// twice.
fn long_warmup(chosen: &Benchmark, config: &RunConfig, rate: Rate) -> String {
    let own = |rings: [u32; 2]| u64::from(rings.into_iter().max().unwrap_or_default());
    let is_auto = config.run.warmup == Length::Auto && config.core.model == CoreModel::Timed;
    let is_paced = config.loadgen.traffic.outstanding.is_none() && !matches!(rate, Rate::Times(_));
    let Some(rings) = (chosen.rings)(config).map(own).filter(|_| is_auto && is_paced) else {
        return String::new();
    };
    let frames = frames_per_second(rate, config, config.loadgen.traffic.frame_size_max());
    let needed = Ps::PER_SECOND.saturating_mul(2 * rings) / frames.max(1);
    let length = Ps(needed).min(config.run.warmup_limit);
    if length < WARMUP_LONG {
        return String::new();
    }
    format!(
        "; at this rate the warm-up takes up to {length} of simulated time: frames must fill rings of {rings} descriptors twice \
         (--warmup 10ms sets a shorter one)"
    )
}

/// Caps a rate at the line rate: an excess would wait in the generator, and the wait would be attributed to
/// the machine. Returns a note if the rate was capped.
fn cap_at_line_rate(config: &RunConfig, requested: Rate) -> anyhow::Result<(Rate, Option<String>)> {
    const LINE: Rate = Rate::Line(100 * Rate::ONCE);
    let traffic = &config.loadgen.traffic;
    let is_open = traffic.kind == Kind::Frames && traffic.outstanding.is_none();
    let by_generator = config.options::<DriveConfig>().kind == DriveKind::Generator;
    // Rates are per port: a rate above one port's line rate may be within another's.
    let alike = config.all_ports().all(|port| port.link == config.port(0).link);
    if !is_open || !by_generator || !alike || matches!(requested, Rate::Times(_)) {
        return Ok((requested, None));
    }
    let size = match traffic.streams.is_empty() {
        true => traffic.frame_size,
        false => LoadGen::new(0, config.run.seed, &config.loadgen, &config.port(0).link)?.mean_frame_size(),
    };
    let line = line_rate(config, size);
    if frames_per_second(requested, config, size) <= line {
        return Ok((requested, None));
    }
    let mpps = line as f64 / 1e6;
    Ok((LINE, Some(format!(", because {requested} is above the line rate ({mpps:.3} Mpps)"))))
}

/// Prepares a benchmark, measures its loads, and reports.
fn measure_all(args: &RunArgs, request: &RunRequest, places: &CachePaths) -> anyhow::Result<ExitCode> {
    let RunRequest { benchmark, network: (name, threads), config, loads: all } = request;
    // Checks rules and node names before the boot.
    let observe = args.observe.observe(None, Path::new("")).or_usage_error()?;
    let plan = BenchmarkPlan::new(benchmark, config, name, *threads)?;
    plan.check(&observe).or_usage_error()?;
    inputs::check(config).or_usage_error()?;
    let mut loads = Loads::begin(args, benchmark.name, config, all.len())?;
    let screen = Screen::new(args.output.quiet);
    let mut m5 = M5Ops::new(loads.folder().clone(), config.run.m5_limit);
    let mut extra = String::new();
    screen.simulating(Some(&mut m5), |control| {
        let mut prepared = plan.prepare(places, &args.guest.source(), control)?;
        prepared.set_fingerprint(args.fingerprint);
        let write = |path: &Path| prepared.write_checkpoint(path);
        let ready = if prepared.images().len() > 1 { "all nodes ready" } else { "ready" };
        is_ready(&args.guest, ready, prepared.boot(), write, control)?;
        let symbols = args.observe.fetch_symbols(prepared.images(), places, control.say)?;
        for load in all {
            if let Some(line) = &load.message {
                (control.say)(line);
            }
            let measured = measure(&prepared, &symbols, load, &mut loads, control);
            extra = loads.with_finished_count(measured)?;
        }
        Ok(())
    })?;
    screen.clear();
    loads.finish(if all.len() == 1 { &extra } else { table_note(config) })?;
    Ok(ExitCode::SUCCESS)
}

/// Measures one load. Returns text for which its table has no columns.
fn measure(
    prepared: &Prepared,
    symbols: &[DebugSymbols],
    load: &Load,
    loads: &mut Loads,
    control: &mut Control,
) -> anyhow::Result<String> {
    let (own, observe) = loads.next(symbols)?;
    let measured = prepared.measure(&load.config, load.rate, &observe, &own, control)?;
    let extra = point_text(&measured.summary);
    loads.done(&own, &measured.config, measured.summary, measured.meanings, prepared.ran().clone())?;
    Ok(extra)
}

/// Reports the cost of the boot, if there was one, and writes the checkpoint if requested.
fn is_ready(
    args: &GuestArgs,
    ready: &str,
    boot: Option<HostCost>,
    write: impl FnOnce(&Path) -> Result<(), RunError>,
    control: &mut Control,
) -> anyhow::Result<()> {
    if let Some(boot) = boot {
        let (millions, seconds, rate) = (boot.instructions as f64 / 1e6, boot.seconds, boot.mips());
        (control.say)(&format!(
            "{ready} after {millions:.0} M instructions, {seconds:.1} s ({rate:.0} M per second)"
        ));
    }
    Ok(args.save_checkpoint.as_deref().map_or(Ok(()), write)?)
}

/// Prepares a session from the source given by the options.
pub fn session(
    args: &GuestArgs,
    control: &mut Control,
    prepare: impl FnOnce(&Source, &mut Control) -> Result<Session, RunError>,
) -> anyhow::Result<Session> {
    let session = prepare(&args.source(), control)?;
    let write = |path: &Path| Ok(session.checkpoint().write(path)?);
    is_ready(args, "ready", session.boot, write, control)?;
    Ok(session)
}

/// Whether frames have jitter by default. Frames from a drive node have none.
fn has_jitter(config: &RunConfig) -> bool {
    let by_generator = config.options::<DriveConfig>().kind == DriveKind::Generator;
    by_generator && config.loadgen.traffic.arrivals == Arrivals::Jitter
}

/// Note that applies to all loads of a table.
fn table_note(config: &RunConfig) -> &'static str {
    match has_jitter(config) && config.loadgen.traffic.streams.iter().all(|stream| stream.arrivals.is_none())
    {
        true => {
            "Frames have jitter, so that no rate synchronizes with the program's loop; --arrivals constant disables it (docs/traffic.md).\n"
        }
        false => "",
    }
}

/// Description of the traffic that the rate refers to.
pub(crate) fn what_is_sent(config: &RunConfig) -> String {
    let traffic = &config.loadgen.traffic;
    match traffic.streams.len() {
        0 => {
            let spread = if has_jitter(config) { " with jitter" } else { "" };
            format!("{} frames{spread}", Bytes((traffic.frame_len() + Frame::FCS_BYTES) as u64))
        }
        count => {
            let what = if count == 1 { "a stream".to_owned() } else { format!("{count} streams") };
            // The rate of a ramp is its initial one.
            let changes = traffic.streams.iter().any(|stream| stream.ramp.is_some());
            if changes { format!("{what}, initially") } else { what }
        }
    }
}

#[cfg(test)]
mod tests {
    use doorbell_bench::resolve;

    use super::*;

    #[test]
    fn the_rate_of_a_ramp_is_reported_as_initial() {
        let of = |streams: &str| {
            what_is_sent(&resolve("fast", &[format!("loadgen.traffic.streams={streams}")]).unwrap())
        };
        assert_eq!(of("[{}, {name=\"b\"}]"), "2 streams");
        assert_eq!(of("[{}, {ramp={to=\"9Mpps\", over=\"1ms\"}}]"), "2 streams, initially");
        assert_eq!(of("[{ramp={to=\"9Mpps\", over=\"1ms\"}}]"), "a stream, initially");
    }

    #[test]
    fn a_long_warm_up_at_a_low_rate_is_announced_with_the_reason() {
        let of = |preset: &str, rate: &str, set: &[&str]| {
            let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
            long_warmup(benchmark("testpmd").unwrap(), &resolve(preset, &set).unwrap(), rate.parse().unwrap())
        };
        let message = of("server", "5Mbps", &[]);
        assert!(
            message.contains("up to 100ms of simulated time") && message.contains("rings of 1024"),
            "{message}"
        );
        assert!(of("server", "5Mbps", &["dpdk.rxd=64", "dpdk.txd=128"]).is_empty());
        assert!(of("server", "40kpps", &[]).contains("up to 51200us of"), "{}", of("server", "40kpps", &[]));
        assert!(of("server", "1Mpps", &[]).is_empty());
        assert!(of("server", "5Mbps", &["run.warmup=1ms"]).is_empty());
        assert!(of("fast", "5Mbps", &[]).is_empty(), "nothing is timed");
    }

    #[test]
    fn rates_above_the_line_rate_are_capped_for_open_loops() {
        let of = |rate: &str, set: &[&str]| {
            let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
            let (rate, message) =
                cap_at_line_rate(&resolve("fast", &set).unwrap(), rate.parse().unwrap()).unwrap();
            (rate.to_string(), message.is_some())
        };
        let unchanged = |rate: &str| (rate.to_owned(), false);
        let capped = ("100%".to_owned(), true);
        // 100 Gbps carry 148,809,523.8 frames of 64 bytes per second; each takes 84 bytes with preamble and
        // gap.
        assert_eq!(of("148809523pps", &[]), unchanged("148809523pps"));
        assert_eq!(of("148809600pps", &[]), capped);
        assert_eq!(of("100%", &[]), unchanged("100%"));
        assert_eq!(of("101%", &[]), capped);
        assert_eq!(of("100Gbps-l1", &[]), unchanged("100Gbps-l1"));
        assert_eq!(of("77Gbps", &[]), capped);
        assert_eq!(of("77Gbps", &["loadgen.traffic.frame_size=1518B"]), unchanged("77Gbps"));
        assert_eq!(of("2Mpps", &["link.rate=1Gbps"]), capped);
        assert_eq!(of("200Mpps", &["loadgen.traffic.outstanding=4"]), unchanged("200Mpps"));
        assert_eq!(of("200Mpps", &["loadgen.traffic.kind=ping"]), unchanged("200Mpps"));
        assert_eq!(of("2x", &[]), unchanged("2x"));
        let two = ["platform.nics=2", "testpmd.topology=paired"];
        assert_eq!(of("200Mpps", &two), capped);
        assert_eq!(of("40Mpps", &[&two[..], &["port.1.link.rate=25Gbps"]].concat()), unchanged("40Mpps"));
    }
}
