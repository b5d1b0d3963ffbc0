//! `doorbell run`: what is asked for, got ready, measured at each load, and reported.

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use doorbell_bench::{
    BENCHMARKS, Benchmark, BenchmarkPlan, Control, DriveConfig, DriveKind, Length, M5Ops, Nodes, Places,
    Prepared, RunConfig, RunError, Session, Source, benchmark, driven_guests,
};
use doorbell_image::DebugSymbols;
use doorbell_loadgen::{Arrivals, Kind, LoadGen, Rate};
use doorbell_machine::CoreModel;
use doorbell_sim::{Bytes, Frame, Ps};
use doorbell_study::search::{frames_per_second, line_rate};

use crate::exit::Asked as _;
use crate::inputs;
use crate::loads::Loads;
use crate::network_cmd;
use crate::run_args::{GuestArgs, RunArgs};
use crate::screen::Screen;
use crate::script_cmd;
use crate::told::told;
use crate::two_nodes_cmd;
use crate::usage_hint;

/// The longest frame of usual Ethernet.
pub(crate) const FRAME_USUAL: Bytes = Bytes(1518);

/// A warm-up that takes the host about half a minute or more.
const WARMUP_LONG: Ps = Ps::from_ms(40);

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
    two_nodes_cmd::refuse_samples_of_others(args).asked()?;
    if let Some(script) = &args.script.script {
        args.observe.observe(None, Path::new("")).asked()?.check_node(None).asked()?;
        return script_cmd::run(args, script, places);
    }
    measure_all(args, &asked(args).asked()?, places)
}

/// What the options ask for.
pub(crate) fn asked(args: &RunArgs) -> anyhow::Result<Asked> {
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
    let chosen = benchmark(name).map_err(|error| match usage_hint::of_file(name) {
        Some(said) => anyhow::anyhow!(said),
        None => error.into(),
    })?;
    chosen.refuse_of_others(&args.common.set)?;
    if let Nodes::Joined { .. } = chosen.nodes {
        return two_nodes_cmd::asked(args, chosen);
    }
    if chosen.silent && !args.rate.is_empty() {
        bail!("--rate: {} has no traffic", chosen.name);
    }
    let mut configs = args.configs(chosen.defaults)?;
    configs.iter().try_for_each(chosen.check)?;
    let mut loads = Vec::new();
    for config in &configs {
        let mut source = "";
        if config.options::<DriveConfig>().kind == DriveKind::Node {
            args.observe.refuse_for_nodes("two nodes")?;
            driven_guests(chosen, config)?;
            source = " from a drive node";
        }
        let of_this = loads.len();
        for asked in args.rates(config)? {
            let what = what_is_sent(config);
            let (rate, capped) = within_the_line(config, asked)?;
            // What the line does not carry is measured once.
            let same = loads[of_this..].iter_mut().find(|load: &&mut Load| load.rate == rate);
            if let (Some(_), Some(Load { said: Some(said), .. })) = (&capped, same) {
                *said += &format!("; {asked} would be the same");
                continue;
            }
            let remark = (chosen.remark)(config).unwrap_or_default();
            let said =
                format!("{}: {rate} of {what}{source}{}{remark}", chosen.name, capped.unwrap_or_default());
            let said = (!chosen.silent).then(|| said + &long_warmup(chosen, config, rate));
            loads.push(Load { config: config.clone(), rate, said });
        }
    }
    // One boot serves all sizes: that of the longest frames.
    let longest = |config: &RunConfig| config.loadgen.traffic.frame_size_max().max(FRAME_USUAL);
    let first = configs.iter().map(longest).enumerate().rev().max_by_key(|(_, size)| *size);
    let first = first.map_or(0, |(index, _)| index);
    Ok(Asked::new(chosen, configs.swap_remove(first), loads))
}

/// What to say before a warm-up that is long because few frames come: it lasts until they have gone round the rings twice.
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
        "; at this rate the warm-up is long, up to {length} of simulated time: frames are to go round rings of {rings} descriptors twice \
         (--warmup 10ms sets a shorter one)"
    )
}

/// A rate that the line carries: more than that would only wait in the generator, and its wait would be taken for the machine's. What
/// there is to say if it is not the one that was asked for.
fn within_the_line(config: &RunConfig, asked: Rate) -> anyhow::Result<(Rate, Option<String>)> {
    const LINE: Rate = Rate::Line(100 * Rate::ONCE);
    let traffic = &config.loadgen.traffic;
    let is_open = traffic.kind == Kind::Frames && traffic.outstanding.is_none();
    let by_generator = config.options::<DriveConfig>().kind == DriveKind::Generator;
    // A rate is that at each port: what one port's line does not carry, another's may.
    let alike = config.ports().all(|port| port.link == config.port(0).link);
    if !is_open || !by_generator || !alike || matches!(asked, Rate::Times(_)) {
        return Ok((asked, None));
    }
    let size = match traffic.streams.is_empty() {
        true => traffic.frame_size,
        false => LoadGen::new(0, config.run.seed, &config.loadgen, &config.port(0).link)?.mean_frame_size(),
    };
    let line = line_rate(config, size);
    if frames_per_second(asked, config, size) <= line {
        return Ok((asked, None));
    }
    let mpps = line as f64 / 1e6;
    Ok((LINE, Some(format!(", since {asked} is more than the line carries ({mpps:.3} Mpps)"))))
}

/// Gets a benchmark ready, measures its loads, and reports.
fn measure_all(args: &RunArgs, asked: &Asked, places: &Places) -> anyhow::Result<ExitCode> {
    let Asked { benchmark, network: (name, threads), config, loads: all } = asked;
    // What is wrong with rules, or with a node's name, is found before a boot.
    let observe = args.observe.observe(None, Path::new("")).asked()?;
    let plan = BenchmarkPlan::new(benchmark, config, (name, *threads))?;
    plan.check(&observe).asked()?;
    inputs::check(config).asked()?;
    let mut loads = Loads::begin(args, benchmark.name, config, all.len())?;
    let screen = Screen::new(args.output.quiet);
    let mut m5 = M5Ops::new(loads.folder().clone(), config.run.m5_limit);
    let mut further = String::new();
    screen.simulating(Some(&mut m5), |control| {
        let mut prepared = plan.prepare(places, &args.guest.source(), control)?;
        prepared.set_fingerprint(args.fingerprint);
        let write = |path: &Path| prepared.write_checkpoint(path);
        is_ready(&args.guest, (prepared.who(), prepared.boot()), write, control)?;
        let symbols = args.observe.fetch_symbols(&prepared.images(), places, control.say)?;
        for load in all {
            if let Some(line) = &load.said {
                (control.say)(line);
            }
            let measured = measure(args, (&prepared, &symbols), load, &mut loads, control);
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
    (prepared, symbols): (&Prepared, &[DebugSymbols]),
    load: &Load,
    loads: &mut Loads,
    control: &mut Control,
) -> anyhow::Result<String> {
    let (own, capture) = loads.next()?;
    let mut observe = args.observe.observe(capture, own.path())?;
    observe.symbols.extend(symbols.iter().map(|symbols| symbols.folder.clone()));
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

/// Whether frames have jitter where a stream does not say otherwise. A drive node's have none.
fn has_jitter(config: &RunConfig) -> bool {
    let by_generator = config.options::<DriveConfig>().kind == DriveKind::Generator;
    by_generator && config.loadgen.traffic.arrivals == Arrivals::Jitter
}

/// What holds for all loads of a table.
fn said_of_table(config: &RunConfig) -> &'static str {
    match has_jitter(config) && config.loadgen.traffic.streams.iter().all(|stream| stream.arrivals.is_none())
    {
        true => {
            "Frames come with jitter, that no rate may fall into step with the program; --arrivals constant has none (docs/traffic.md).\n"
        }
        false => "",
    }
}

/// What the rate is of, in words.
pub(crate) fn what_is_sent(config: &RunConfig) -> String {
    let traffic = &config.loadgen.traffic;
    match traffic.streams.len() {
        0 => {
            let spread = if has_jitter(config) { " with jitter" } else { "" };
            format!("{} frames{spread}", Bytes((traffic.frame_len() + Frame::FCS_BYTES) as u64))
        }
        count => {
            let what = if count == 1 { "a stream".to_owned() } else { format!("{count} streams") };
            // A ramp's rate is the one that it begins with.
            let changes = traffic.streams.iter().any(|stream| stream.ramp.is_some());
            if changes { format!("{what}, at first") } else { what }
        }
    }
}

#[cfg(test)]
mod tests {
    use doorbell_bench::resolve;

    use super::*;

    #[test]
    fn the_rate_of_a_ramp_is_told_to_be_that_of_its_beginning() {
        let of = |streams: &str| {
            what_is_sent(&resolve("fast", &[format!("loadgen.traffic.streams={streams}")]).unwrap())
        };
        assert_eq!(of("[{}, {name=\"b\"}]"), "2 streams");
        assert_eq!(of("[{}, {ramp={to=\"9Mpps\", over=\"1ms\"}}]"), "2 streams, at first");
        assert_eq!(of("[{ramp={to=\"9Mpps\", over=\"1ms\"}}]"), "a stream, at first");
    }

    #[test]
    fn a_warm_up_that_is_long_at_a_low_rate_is_announced_with_the_reason() {
        let of = |preset: &str, rate: &str, set: &[&str]| {
            let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
            long_warmup(benchmark("testpmd").unwrap(), &resolve(preset, &set).unwrap(), rate.parse().unwrap())
        };
        let said = of("server", "5Mbps", &[]);
        assert!(said.contains("up to 100ms of simulated time") && said.contains("rings of 1024"), "{said}");
        assert!(of("server", "5Mbps", &["dpdk.rxd=64", "dpdk.txd=128"]).is_empty());
        assert!(of("server", "40kpps", &[]).contains("up to 51200us of"), "{}", of("server", "40kpps", &[]));
        assert!(of("server", "1Mpps", &[]).is_empty());
        assert!(of("server", "5Mbps", &["run.warmup=1ms"]).is_empty());
        assert!(of("fast", "5Mbps", &[]).is_empty(), "nothing is timed");
    }

    #[test]
    fn more_than_the_line_carries_is_not_offered_but_for_what_waits_for_answers_or_paces_itself() {
        let of = |rate: &str, set: &[&str]| {
            let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
            let (rate, said) =
                within_the_line(&resolve("fast", &set).unwrap(), rate.parse().unwrap()).unwrap();
            (rate.to_string(), said.is_some())
        };
        let asked = |rate: &str| (rate.to_owned(), false);
        let capped = ("100%".to_owned(), true);
        // 100 Gbps carry 148,809,523.8 frames of 64 bytes a second, with preamble and gap of 84.
        assert_eq!(of("148809523pps", &[]), asked("148809523pps"));
        assert_eq!(of("148809600pps", &[]), capped);
        assert_eq!(of("100%", &[]), asked("100%"));
        assert_eq!(of("101%", &[]), capped);
        assert_eq!(of("100Gbps-l1", &[]), asked("100Gbps-l1"));
        assert_eq!(of("77Gbps", &[]), capped);
        assert_eq!(of("77Gbps", &["loadgen.traffic.frame_size=1518B"]), asked("77Gbps"));
        assert_eq!(of("2Mpps", &["link.rate=1Gbps"]), capped);
        assert_eq!(of("200Mpps", &["loadgen.traffic.outstanding=4"]), asked("200Mpps"));
        assert_eq!(of("200Mpps", &["loadgen.traffic.kind=ping"]), asked("200Mpps"));
        assert_eq!(of("2x", &[]), asked("2x"));
        let two = ["platform.nics=2", "testpmd.topology=paired"];
        assert_eq!(of("200Mpps", &two), capped);
        assert_eq!(of("40Mpps", &[&two[..], &["port.1.link.rate=25Gbps"]].concat()), asked("40Mpps"));
    }
}
