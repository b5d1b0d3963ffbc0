//! Benchmarks driven by a second node instead of a load generator: by the DPDK program `drive`
//! (`guest/programs/drive.c`). The line typed at its console contains all times of the measurement, in ticks
//! of the nodes' common clock. The program therefore measures the frames of the same interval as the
//! simulator.

use doorbell_loadgen::{Arrivals, Kind, LatencySummary, Pacing, Returned};
use doorbell_machine::{ConfigError, CoreModel, Mode, Network, NetworkOutcome, Outcome};
use doorbell_sim::{Bytes, Clock, Ps};
use serde::Deserialize;

use crate::error::RunError;
use crate::measure::benchmark::{Benchmark, Measured, NodesLoad};
use crate::measure::nodes_run::NodesRun;
use crate::plan::config::RunConfig;
use crate::plan::dpdk::DpdkConfig;
use crate::plan::drive::DriveConfig;
use crate::plan::length::Length;
use crate::testbed::control::{Control, LINES_SHOWN, run_network_watched};
use crate::testbed::nodes::NodeGuest;
use crate::testbed::nodes::NodesTestbed;
use crate::testbed::ramp::type_line;
use crate::testbed::steady::{Pace, SETTLED_MIN, Watch, add_measured_phase};
use crate::testbed::system::{System, why_ended};
use crate::window::interval::OpenInterval;
use crate::window::losses::of_window;
use doorbell_results::{Drops, PointSummary, Steady, SteadyPhase};

const READY_MARKER: &str = "drive: waiting";
const RESULT: &str = "drive: {";
const DONE: &str = "drive: done";
/// Instructions of the drive node from the typed line to its first frame, enough for the program to read the
/// line.
const LEAD_INSTRUCTIONS: f64 = 12e6;
/// Length of an automatic warm-up in passes over a descriptor ring. It is fixed, since the drive node must
/// know its end in advance. In the second pass a forwarder's receive ring still gets new buffers.
const ROUNDS: u64 = 3;
/// Additional warm-up time, for the steady-state criterion of the caches.
const WARMUP_MORE: Ps = Ps::from_ms(6);
/// The longest frame, with FCS, for Ethernet's standard MTU.
const FRAME_MAX: Bytes = Bytes(1518);
/// Maximum time from the end of the drain to the result, which is printed on a slow console.
const PATIENCE: Ps = Ps::from_ms(500);

/// Software of the nodes: the benchmark's guest in node 0, `drive` in node 1.
pub fn driven_guests(benchmark: &Benchmark, config: &RunConfig) -> Result<[NodeGuest; 2], ConfigError> {
    let refused = |key: &str, problem: String| Err(ConfigError::new(key, problem));
    let traffic = &config.loadgen.traffic;
    if traffic.kind != Kind::Frames || benchmark.silent {
        let problem =
            format!("a drive node sends test frames only, which {} does not process", benchmark.name);
        return refused("drive.kind", problem);
    }
    if !traffic.streams.is_empty() || traffic.frames.is_some() || traffic.outstanding.is_some() {
        let problem =
            "a drive node sends frames of one size at a fixed rate; remove streams, frames and outstanding";
        return refused("loadgen.traffic", problem.to_owned());
    }
    if !matches!(traffic.arrivals, Arrivals::Constant | Arrivals::Jitter) {
        let problem = "a drive node sends frames at equal distances; remove this setting";
        return refused("loadgen.traffic.arrivals", problem.to_owned());
    }
    if traffic.frame_size > FRAME_MAX {
        let problem =
            format!("{} is more than {FRAME_MAX}, the maximum for a drive node", traffic.frame_size);
        return refused("loadgen.traffic.frame_size", problem);
    }
    if config.run.frames.is_some() {
        return refused("run.frames", "not available with a drive node; set run.duration".to_owned());
    }
    let guest = |image: &str, words: String, ready: &str| NodeGuest {
        image: image.to_owned(),
        words,
        ready_marker: ready.to_owned(),
        ..NodeGuest::default()
    };
    let test = guest(benchmark.image, (benchmark.guest_words)(config), benchmark.ready_marker);
    Ok([test, guest("dpdk", "doorbell.app=drive".to_owned(), READY_MARKER)])
}

/// The result that `drive` prints.
#[derive(Debug, Deserialize)]
struct Driven {
    offered: u64,
    behind: u64,
    returned: u64,
    arrived: u64,
    reordered: u64,
    altered: u64,
    latency_ns: Option<LatencySummary>,
}

/// Schedule of a measurement.
struct Times {
    /// First frame, and beginning of the warm-up.
    begin: Ps,
    /// Beginning of the detailed mode.
    detail: Ps,
    measure: Ps,
    end: Ps,
    /// End of the drain.
    give_up: Ps,
}

impl Times {
    fn warmup(config: &RunConfig) -> Ps {
        let Length::Auto = config.run.warmup else { return config.run.warmup.at_most(Ps::MAX) };
        let DpdkConfig { rxd, txd, .. } = config.options();
        let rounds = ROUNDS * u64::from(*rxd.max(txd)) * Ps::PER_SECOND;
        (Ps(rounds / frames_per_second(config)) + WARMUP_MORE).min(config.run.warmup_limit)
    }

    fn from(now: Ps, config: &RunConfig) -> Times {
        let drive = config.options::<DriveConfig>();
        let lead = LEAD_INSTRUCTIONS / (drive.frequency.0 as f64 * drive.ipc);
        let begin = now + Ps((lead * 1e12) as u64);
        let detail = begin + Self::warmup(config);
        let measure = match (config.core.model, config.run.settle) {
            (CoreModel::Timed, Length::For(settle)) => detail + settle,
            (CoreModel::Timed, Length::Auto) => detail + SETTLED_MIN,
            (CoreModel::Functional, _) => detail,
        };
        let end = measure + config.run.measured_time();
        Times { begin, detail, measure, end, give_up: end + config.run.drain }
    }
}

/// Runs a phase to its scheduled end, and evaluates the steady-state criteria. They cannot change its length.
fn phase(
    network: &mut Network,
    caches: bool,
    requested: Length,
    end: Ps,
    control: &mut Control,
) -> Result<Option<SteadyPhase>, RunError> {
    let watch = Watch::begin(caches, Pace::Generators, network.longest_link(), network.sample());
    let left = Length::For(end.saturating_sub(network.now()));
    let phase = watch.until_steady(left, Ps::ZERO, |time| {
        until(network, time, control)?;
        Ok::<_, RunError>(network.sample())
    })?;
    Ok(phase.map(|phase| SteadyPhase { asked: requested.to_string(), ..phase }))
}

/// Measures the benchmark in node 0 while node 1 sends it frames. Available observations are a capture of the
/// cable, profiles of the nodes, and a trace of the test node.
pub(crate) fn measure_driven(
    testbed: &NodesTestbed,
    load: &NodesLoad,
    control: &mut Control,
) -> Result<Measured, RunError> {
    let NodesLoad { benchmark, rate, observe, .. } = *load;
    let mut config = load.config.clone();
    config.loadgen.traffic = config.loadgen.traffic.at_rate(rate);
    config.loadgen.traffic.returned = (benchmark.returned)(&config);
    let capture = observe.capture.clone().map(|file| (0, file));
    let what = format!("{} at {rate}", benchmark.name);
    let mut nodes = NodesRun::begin(testbed, load, capture, Some(0), |_| &config, &what)?;
    let network = &mut nodes.network;
    let times = Times::from(network.now(), &config);
    network.node_mut(1).console.watch(Some(DONE));
    type_line(network, 1, &typed(&config, &times));
    until(network, times.begin, control)?;
    network.node_mut(0).set_mode(Mode::Warming);
    let timed = network.node(0).timing().is_some();
    control.begin("warming up", network.now(), Some(times.detail - network.now()));
    let warmup = phase(network, timed, config.run.warmup, times.detail, control)?;
    network.node_mut(0).set_mode(Mode::Detailed);
    let settle = match timed {
        true => {
            control.begin("settling", network.now(), Some(times.measure - network.now()));
            phase(network, false, config.run.settle, times.measure, control)?
        }
        false => None,
    };
    let open = OpenInterval::begin(network, observe, nodes.trace.as_ref());
    control.begin("measuring", network.now(), Some(times.end - network.now()));
    until(network, times.end, control)?;
    let mut interval = open.end(network, nodes.trace.as_ref());
    let driven = result(network, times.give_up + PATIENCE, control)?;
    let losses = [interval.lost.with_drive(), interval.lost_behind(network).with_drive()];
    let host = nodes.end()?;
    let rate = config.loadgen.traffic.requested_rate().to_string();
    let mut summary = interval.point(benchmark.name, rate, &config, &nodes.network, 1, host);
    summary.steady = Some(Steady { warmup, settle, ..Steady::default() });
    summary.drive_behind = Some(driven.behind).filter(|behind| *behind > 0);
    if config.loadgen.traffic.returned != Returned::Sink {
        as_driven(&mut summary, &driven, &losses, config.loadgen.traffic.frame_size);
    }
    add_measured_phase(&mut summary, &config);
    nodes.profile_test_node(interval.watched[0].take(), &mut summary)?;
    let measured = nodes.write(config, summary, &interval.take_counters())?;
    if driven.behind > 0 {
        (control.say)(&too_slow(driven.behind, &measured.summary.rate));
    }
    Ok(measured)
}

/// The warning if the drive node was too slow for the load.
fn too_slow(behind: u64, rate: &str) -> String {
    format!(
        "the drive node could not send {behind} frames that were due by the end: its core (drive.ipc, drive.frequency), NIC or link \
         is the limit, and the offered load is less than {rate}"
    )
}

fn frames_per_second(config: &RunConfig) -> u64 {
    let traffic = &config.loadgen.traffic;
    let pacing = Pacing::new(Ps::ZERO, traffic.rate, traffic.frame_len(), &config.port(0).link);
    (pacing.frames_per_second().round() as u64).max(1)
}

/// The line typed at the console of `drive`.
fn typed(config: &RunConfig, times: &Times) -> String {
    let traffic = &config.loadgen.traffic;
    let timebase = Clock::new(config.platform.timebase);
    let station =
        config.port(0).nic.mac_of(0).0.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let numbers = [
        traffic.frame_len() as u64,
        frames_per_second(config),
        timebase.edge_at_or_after(times.begin),
        timebase.edge_at_or_after(times.measure),
        timebase.edge_at_or_after(times.end),
        timebase.edge_at_or_after(times.give_up),
        station,
        u64::from(u32::from(traffic.source_ip)),
        u64::from(u32::from(traffic.destination_ip)),
        u64::from(traffic.source_port),
        u64::from(traffic.destination_port),
    ];
    numbers.map(|number| number.to_string()).join(" ")
}

/// Runs to a time; any other end of the run is an error.
fn until(network: &mut Network, time: Ps, control: &mut Control) -> Result<(), RunError> {
    match run_network_watched(network, time, false, control)? {
        NetworkOutcome::Time => Ok(()),
        outcome => Err(ended(network, &outcome)),
    }
}

/// Runs until `drive` has printed its result. It still counts frames that return meanwhile, up to the end of
/// the drain.
fn result(network: &mut Network, patience: Ps, control: &mut Control) -> Result<Driven, RunError> {
    match run_network_watched(network, patience, true, control)? {
        NetworkOutcome::Nodes(nodes) if nodes == [(1, Outcome::Marker)] => {}
        outcome => return Err(ended(network, &outcome)),
    }
    find_result(&network.node(1).console.text()).ok_or_else(|| ended(network, &NetworkOutcome::Time))
}

/// Finds the result in the console's text.
fn find_result(console: &str) -> Option<Driven> {
    let line =
        console.lines().rev().find_map(|line| line.find(RESULT).map(|at| &line[at + RESULT.len() - 1..]));
    serde_json::from_str(line?.trim()).ok()
}

fn ended(network: &Network, outcome: &NetworkOutcome) -> RunError {
    let (node, why) = why_ended(network, outcome, "the drive node printed no result");
    RunError::Ended { why, console: network.node(node).console.last_lines(LINES_SHOWN) }
}

/// Fills in frames and round trips as counted by the drive node. Frames lost neither in NICs nor on the cable
/// were dropped by the guest. The losses are those within the measurement, and those after it.
fn as_driven(summary: &mut PointSummary, driven: &Driven, [within, behind]: &[Drops; 2], frame_size: Bytes) {
    let delivered = driven.returned - driven.altered;
    let lost = driven.offered - delivered.min(driven.offered);
    summary.drops = of_window(within, behind, lost.saturating_sub(driven.altered));
    let seconds = summary.simulated_seconds;
    let rate = |frames: u64| {
        let per_second = frames as f64 / seconds;
        (per_second * 1e-6, per_second * frame_size.0 as f64 * 8e-9)
    };
    (summary.frame_size, summary.frames_offered) = (frame_size.0, driven.offered);
    (summary.frames_delivered, summary.frames_corrupt) = (delivered, driven.altered);
    summary.frames_reordered = driven.reordered;
    (summary.offered_mpps, summary.offered_gbps) = rate(driven.offered);
    (summary.delivered_mpps, summary.delivered_gbps) = rate(delivered);
    (summary.arrived_mpps, summary.arrived_gbps) = rate(driven.arrived);
    summary.drop_rate = if driven.offered == 0 { 0.0 } else { lost as f64 / driven.offered as f64 };
    summary.instructions_per_frame =
        if delivered == 0 { 0.0 } else { summary.instructions as f64 / delivered as f64 };
    summary.latency_ns =
        driven.latency_ns.map(|latency| LatencySummary { frames: driven.returned, ..latency });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::benchmark;
    use crate::request::resolve::resolve;

    #[test]
    fn load_line_contains_times_in_ticks_of_the_common_clock() {
        let set = [
            "platform.timebase=10MHz",
            "loadgen.traffic.rate=2Mpps",
            "run.warmup=10ms",
            "run.duration=3ms",
            "drive.ipc=1",
        ];
        let config = resolve("fast", &set.map(str::to_owned)).unwrap();
        let times = Times::from(Ps::from_ms(100), &config);
        let numbers: Vec<u64> =
            typed(&config, &times).split_whitespace().map(|word| word.parse().unwrap()).collect();
        // 60 bytes without FCS. 12 M instructions at 3 GHz take 4 ms, the requested warm-up 10 ms, the
        // measurement 3 ms, and the drain 20 ms.
        assert_eq!(numbers[..6], [60, 2_000_000, 1_040_000, 1_140_000, 1_170_000, 1_370_000]);
        assert_eq!(numbers[6..8], [0x5254_0012_3456, 0xc612_0001]);
        // Three rounds of 1024 descriptors at 2 Mpps are 1.536 ms.
        let mut auto = (*config).clone();
        auto.run.warmup = Length::Auto;
        assert_eq!(Times::warmup(&auto), Ps::from_us(7536));
    }

    #[test]
    fn result_is_found_among_other_lines() {
        let console = "drive: waiting\n60 1\ndrive: {\"offered\":5,\"behind\":0,\"returned\":4,\"arrived\":3,\
                       \"reordered\":0,\"altered\":0}\r\ndrive: done\n";
        let driven = find_result(console).unwrap();
        assert_eq!((driven.offered, driven.returned, driven.latency_ns.is_none()), (5, 4, true));
        assert!(find_result("drive: {\"offered\":5").is_none());
    }

    #[test]
    fn loads_that_a_drive_node_cannot_send_are_rejected() {
        let key = |name: &str, set: &str| {
            let chosen = benchmark(name).unwrap();
            let own = chosen.defaults.iter().copied().chain([set]).map(str::to_owned).collect::<Vec<_>>();
            driven_guests(chosen, &resolve("fast", &own).unwrap()).map_err(|error| error.key)
        };
        assert!(key("l3fwd", "run.seed=1").is_ok());
        assert_eq!(key("ping", "run.seed=1").unwrap_err(), "drive.kind");
        assert_eq!(key("testpmd", "run.frames=100").unwrap_err(), "run.frames");
        assert_eq!(
            key("testpmd", "loadgen.traffic.frame_size=1519B").unwrap_err(),
            "loadgen.traffic.frame_size"
        );
        assert_eq!(key("testpmd", "loadgen.traffic.outstanding=4").unwrap_err(), "loadgen.traffic");
    }
}
