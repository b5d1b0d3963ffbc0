//! Transfers of bytes or transactions between nodes: the common part of their benchmarks. A line typed at the
//! client's console starts the transfer. Traffic on the cable is measured, for a part of the transfer or all
//! of it.

use std::collections::BTreeMap;

use doorbell_machine::{ConfigError, Mode, Network, NetworkOutcome, Outcome};
use doorbell_results::{Behind, PointSummary, Samples, Steady, SteadyPhase, TransferFigures, TransferTotals};
use doorbell_sim::Ps;
use doorbell_sim::stats::Stats as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::RunError;
use crate::measure::benchmark::{Measured, NodesLoad};
use crate::measure::nodes_run::NodesRun;
use crate::measure::roles::Pair;
use crate::measure::shards;
use crate::plan::config::RunConfig;
use crate::plan::counting::{Counted, Counting};
use crate::plan::length::Length;
use crate::plan::options::{self, Options};
use crate::ratio::per;
use crate::testbed::control::{Control, LINES_SHOWN, run_network_watched};
use crate::testbed::nodes::NodeGuest;
use crate::testbed::nodes::NodesTestbed;
use crate::testbed::ramp::{PATIENCE, Ramp};
use crate::testbed::steady::{MEASURED, Pace, Watch, add_measured_phase};
use crate::testbed::system::{System, why_ended};
use crate::testbed::ticks::{Ticks, until_ready};
use crate::window::ids_monitor::Edges;
use crate::window::interval::{Interval, OpenInterval};
use crate::window::observe::{NodeTrace, Observe};
use crate::window::progress_series::ProgressSeries;
use crate::window::transfer_counts::{Load, Side, TransferCounts};

/// Number of parts of a measurement in the figures over time; all samples together have about as many.
const PARTS: u64 = 40;
/// File name of the capture of the cable behind a gateway.
const BEHIND_PCAP: &str = "wire-behind.pcap";
/// Idle share of a drive node's core below which it may limit the transfer.
const IDLE_LEAST: f64 = 0.05;

/// Measurement of a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TransferConfig {
    /// Number of samples, each of length `run.duration`, measured one after the other: 1 to 1000 (default 1).
    /// The results contain their coefficient of variation.
    #[serde(skip_serializing_if = "is_one")]
    pub samples: u32,
}

/// The default is not serialized, so that configurations without samples keep their hash.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(samples: &u32) -> bool {
    *samples == 1
}

impl Default for TransferConfig {
    fn default() -> Self {
        TransferConfig { samples: 1 }
    }
}

impl Options for TransferConfig {
    const SECTION: &'static str = "transfer";

    fn validate(&self, _: &RunConfig) -> Result<(), ConfigError> {
        options::check_range("transfer.samples", self.samples, 1..=1000)
    }
}

/// Result of a test.
pub(crate) struct TestResult<T> {
    interval: Interval,
    /// Warm-up and settling, if a part was measured.
    steady: Option<Steady>,
    /// The program's own result, if the whole test was measured.
    program_result: Option<T>,
}

/// A test in progress.
pub(crate) struct Test<'a, 'c, 'n> {
    network: &'a mut Network,
    config: &'a RunConfig,
    observe: &'a Observe,
    trace: Option<&'a NodeTrace>,
    control: &'a mut Control<'c>,
    load: &'a Load,
    progress: ProgressSeries,
    samples: Vec<f64>,
    edges: Edges<'n>,
}

impl Test<'_, '_, '_> {
    fn counts(&self) -> TransferCounts {
        self.load.counts(&Side::both(self.network))
    }

    /// Runs to a time; any other end of the run is an error.
    fn until(&mut self, time: Ps) -> Result<(), RunError> {
        run_to(self.network, time, self.load, self.control)?;
        self.progress.add_sample(self.network.complete_until(), self.counts());
        Ok(())
    }

    /// Starts the client and waits for more than connection setup.
    pub fn begin_and_wait(&mut self) -> Result<(), RunError> {
        let Test { network, control, load, .. } = self;
        match load.start.begin_and_wait(network, |network, time| run_to(network, time, load, control))? {
            true => Ok(()),
            false => Err(ended(network, load, &NetworkOutcome::Time)),
        }
    }

    /// Measures a part of a running transfer. The test node's caches warm up until the rate is steady; then
    /// it runs in detailed mode.
    pub fn part<T>(&mut self) -> Result<TestResult<T>, RunError> {
        let run = &self.config.run;
        let timed = self.network.node(0).timing().is_some();
        self.network.node_mut(0).set_mode(Mode::Warming);
        let warmup = self.phase("warmup", timed, run.warmup, run.warmup_limit)?;
        let mut steady = Steady { warmup, ..Steady::default() };
        if timed {
            self.network.node_mut(0).set_mode(Mode::Detailed);
            steady.settle = self.phase("settle", false, run.settle, run.settle_limit)?;
        }
        self.edges.keep(self.network);
        let open = OpenInterval::begin(self.network, self.observe, self.trace);
        self.samples(timed)?;
        self.edges.keep(self.network);
        let interval = open.end(self.network, self.trace);
        Ok(TestResult { interval, steady: Some(steady), program_result: None })
    }

    /// Measures a whole test from the client's start to its end, in detailed mode. `read` extracts the
    /// program's own result from the client's console.
    pub fn whole<T>(&mut self, read: impl FnOnce(&str) -> Option<T>) -> Result<TestResult<T>, RunError> {
        self.network.node_mut(0).set_mode(Mode::Detailed);
        self.edges.keep(self.network);
        let open = OpenInterval::begin(self.network, self.observe, self.trace);
        self.load.start.begin(self.network);
        self.control.begin("measuring", self.network.now(), None);
        self.run_to_the_end()?;
        self.edges.keep(self.network);
        let client = self.load.start.client;
        let powered_off = || NetworkOutcome::Nodes(vec![(client, Outcome::PowerOff { code: 0 })]);
        let own = read(&self.network.node(client).console.text());
        let own = own.ok_or_else(|| ended(self.network, self.load, &powered_off()))?;
        let interval = open.end(self.network, self.trace);
        Ok(TestResult { interval, steady: None, program_result: Some(own) })
    }

    /// Runs the measurement: successive samples, each in parts.
    fn samples(&mut self, timed: bool) -> Result<(), RunError> {
        let start = self.network.complete_until();
        let (samples, length) =
            (u64::from(self.config.options::<TransferConfig>().samples), self.config.run.measured_time());
        // In a functional run, stops between parts would split blocks of instructions.
        let parts = if timed && self.load.in_parts { (PARTS / samples).max(1) } else { 1 };
        self.begin_phase(MEASURED);
        self.control.begin("measuring", start, Some(Ps(length.0.saturating_mul(samples))));
        for sample in 0..samples {
            let (from, before) = (self.network.complete_until(), self.counts());
            for part in 1..=parts {
                let end = u128::from(length.0) * u128::from(sample * parts + part) / u128::from(parts);
                self.until(start + Ps(end as u64))?;
            }
            let counts = self.counts().since(&before);
            let seconds = self.network.complete_until().saturating_sub(from).as_secs_f64();
            self.samples.push(match self.load.transaction {
                Some(_) => per(counts.transactions, seconds),
                None => counts.gbps(seconds),
            });
        }
        Ok(())
    }

    fn begin_phase(&mut self, phase: &'static str) {
        self.progress.begin(phase);
        self.progress.add_sample(self.network.complete_until(), self.counts());
    }

    /// Runs a phase until the transfer's rate is steady, and with `caches` the test node's caches too.
    fn phase(
        &mut self,
        name: &'static str,
        caches: bool,
        length: Length,
        limit: Ps,
    ) -> Result<Option<SteadyPhase>, RunError> {
        self.begin_phase(name);
        let stage = if caches { "warming up" } else { "settling" };
        self.control.begin(stage, self.network.now(), length.given());
        let network = &*self.network;
        let watch = Watch::begin(caches, Pace::Programs, network.longest_link(), network.sample());
        let ticks = caches.then(|| Ticks::begin(network.now(), network.timers()));
        until_ready(watch, ticks, length, limit, |time| {
            self.until(time)?;
            Ok((self.network.sample(), self.network.timers()))
        })
    }

    /// Figures of the transfer, from the traffic on the cable.
    fn figures(&self, interval: &Interval) -> TransferFigures {
        let unit = if self.load.transaction.is_some() { "transactions/s" } else { "Gbps" };
        let load = self.load;
        let sides = Side::both_in(interval);
        let (counts, seconds) = (load.counts(&sides), interval.seconds);
        let (counted, data) = (load.transaction.is_some(), &sides[load.data()].carried);
        let per_second = counted.then(|| per(counts.transactions, seconds));
        let [test, drive] = [0, 1].map(|node| Idle::of(self.network, node, interval));
        let [server, client] = [1 - load.start.client, load.start.client];
        TransferFigures {
            load: load.name.clone(),
            connections: load.connections,
            totals: TransferTotals {
                bytes_sent: data.tcp_payload + data.udp_payload,
                bytes_received: counts.bytes,
                seconds,
                wire_to_client: interval.sent[server].clone(),
                wire_to_server: interval.sent[client].clone(),
                nic_drops: [server, client].map(|node| interval.lost.by_port[node][0].at_nics()),
                node_instructions: [server, client].map(|node| interval.nodes[node].instructions),
            },
            goodput_gbps: (!counted).then(|| counts.gbps(seconds)),
            transactions: counted.then_some(counts.transactions as u64),
            transactions_per_second: per_second,
            round_trip_us: per_second.and_then(|rate| load.round_trip_us(rate)),
            said: BTreeMap::new(),
            test_idle: test.all,
            drive_idle: drive.all,
            test_least_idle: Some(test.least),
            drive_least_idle: Some(drive.least),
            behind: self.behind(interval),
            cores: shards::figures(load, interval),
            watched: None,
            over_time: self.progress.parts(counted),
            samples: Samples::of(unit, self.config.run.measured_time().as_secs_f64(), self.samples.clone()),
        }
    }

    /// Figures of the server behind a gateway: node 2, on the second cable. `None` without a gateway.
    fn behind(&self, interval: &Interval) -> Option<Behind> {
        let wires = interval.sent.get(2..4)?;
        let idle = Idle::of(self.network, 2, interval);
        Some(Behind {
            wire_to_server: wires[0].clone(),
            wire_to_gateway: wires[1].clone(),
            nic_drops: [&interval.lost.by_port[2][0], &interval.lost.by_port[0][1]]
                .map(|drops| drops.at_nics()),
            instructions: interval.nodes[2].instructions,
            idle: idle.all,
            least_idle: Some(idle.least),
        })
    }

    /// Runs until the client has powered off.
    fn run_to_the_end(&mut self) -> Result<(), RunError> {
        let patience = self.network.now() + PATIENCE;
        let ends_well = |nodes: &[(usize, Outcome)]| {
            nodes.iter().all(|(_, outcome)| matches!(outcome, Outcome::PowerOff { code: 0 }))
        };
        while !self.network.is_off(self.load.start.client) {
            match run_network_watched(self.network, patience, false, self.control)? {
                NetworkOutcome::Nodes(nodes) if ends_well(&nodes) => {}
                outcome => return Err(ended(self.network, self.load, &outcome)),
            }
        }
        Ok(())
    }
}

fn run_to(network: &mut Network, time: Ps, load: &Load, control: &mut Control) -> Result<(), RunError> {
    match run_network_watched(network, time, false, control)? {
        NetworkOutcome::Time => Ok(()),
        outcome => Err(ended(network, load, &outcome)),
    }
}

/// The error for a failed test: the program's own error message, if there is one.
fn ended(network: &Network, load: &Load, outcome: &NetworkOutcome) -> RunError {
    let program = load.program;
    let message = (load.failure)(&network.node(load.start.client).console.text());
    let (node, why) = match message {
        Some(problem) => (0, format!("{program}: {problem}")),
        None => {
            let late = format!("{program} did not start sending, or did not end, within {PATIENCE}");
            why_ended(network, outcome, &late)
        }
    };
    RunError::Ended { why, console: network.node(node).console.last_lines(LINES_SHOWN) }
}

/// Idle share of a node's cores in an interval.
struct Idle {
    /// Mean over all cores.
    all: f64,
    /// The busiest core.
    least: f64,
}

impl Idle {
    /// The idle shares of a node. A timed core counts its idle cycles. For a functional core they are the
    /// issue slots without instructions.
    fn of(network: &Network, node: usize, interval: &Interval) -> Idle {
        let (config, window) = (network.node(node).config(), &interval.nodes[node]);
        let by_hart = window.by_hart.iter().enumerate().map(|(hart, instructions)| {
            let core = config.hart(hart).core;
            let idle = match &window.timed {
                Some((begin, end)) => {
                    let own = end.harts[hart].core.books.since(&begin.harts[hart].core.books);
                    per(own.cpi_idle as f64, own.cycles as f64)
                }
                None => 1.0 - *instructions as f64 / (core.frequency.0 as f64 * interval.seconds * core.ipc),
            };
            idle.clamp(0.0, 1.0)
        });
        let by_hart: Vec<f64> = by_hart.collect();
        let all = by_hart.iter().sum::<f64>() / by_hart.len().max(1) as f64;
        Idle { all, least: by_hart.into_iter().fold(1.0, f64::min) }
    }
}

/// Measures a load by `run` and writes its result files. The load has been started and is steady, or is
/// started by `run`. `add` adds the benchmark's own figures to the summary; its argument is the program's own
/// result of a whole test.
pub(crate) fn measure<T>(
    nodes: &NodesTestbed,
    load: &NodesLoad,
    own: &Load,
    control: &mut Control,
    run: impl FnOnce(&mut Test) -> Result<TestResult<T>, RunError>,
    add: impl FnOnce(&mut PointSummary, Option<T>),
) -> Result<Measured, RunError> {
    let NodesLoad { benchmark, config, observe, .. } = *load;
    let capture = observe.capture.iter().flat_map(|path| [path.clone(), path.with_file_name(BEHIND_PCAP)]);
    let captures = capture.enumerate().take(nodes.plan.links());
    let what = format!("{}, {}", benchmark.name, own.name);
    let mut measured = NodesRun::begin(nodes, load, captures, Some(0), |_| config, &what)?;
    measured.network.follow_flows(0);
    measured.network.follow_ports(0, &own.servers.concat());
    let mut test = Test {
        network: &mut measured.network,
        config,
        observe,
        trace: measured.trace.as_ref(),
        control,
        load: own,
        progress: ProgressSeries::default(),
        samples: Vec::new(),
        edges: Edges::of(nodes, own.counting),
    };
    let TestResult { mut interval, steady, program_result } = run(&mut test)?;
    let mut figures = test.figures(&interval);
    let edges = test.edges;
    let host = measured.end()?;
    let rate = own.name.clone();
    let mut summary = interval.point(benchmark.name, rate, config, &measured.network, own.data(), host);
    summary.steady = steady;
    let counted = edges.counted(config.port(0).link.overhead, control)?;
    figures.watched = counted.as_ref().map(Counted::watched);
    add_transfer(figures, &mut summary, control);
    add(&mut summary, program_result);
    add_measured_phase(&mut summary, config);
    if let Some(counted) = counted {
        counted.add_to(&mut summary.ports);
    }
    measured.profile_test_node(interval.watched[0].take(), &mut summary)?;
    let mut measured = measured.write(config.clone(), summary, &interval.take_counters())?;
    measured.meanings.extend(own.counting.into_iter().flat_map(Counting::meanings));
    Ok(measured)
}

/// Options of a benchmark that define its transfer and its two programs.
pub(crate) trait Transfers {
    fn load(&self) -> Load;
    fn pair(&self) -> Pair;
}

/// Software of the nodes.
pub(crate) fn guests<T: Options + Transfers>(config: &RunConfig) -> Result<Vec<NodeGuest>, ConfigError> {
    Ok(config.options::<T>().pair().guests(config))
}

/// The load to start before measurements, for a benchmark whose load does not end by itself.
pub(crate) fn ramp<T: Options + Transfers>(config: &RunConfig) -> Option<Ramp> {
    Some(config.options::<T>().load().start)
}

/// Measures a part of a continuous load.
pub(crate) fn measure_part<T: Options + Transfers>(
    nodes: &NodesTestbed,
    load: &NodesLoad,
    control: &mut Control,
) -> Result<Measured, RunError> {
    let own = load.config.options::<T>().load();
    measure(nodes, load, &own, control, |test| test.part::<()>(), |_, _| {})
}

/// Adds the transfer's figures to a summary, and warns if the drive node may limit the transfer.
fn add_transfer(figures: TransferFigures, summary: &mut PointSummary, control: &mut Control) {
    if let Some(line) = limit(&figures) {
        (control.say)(&line);
    }
    summary.transfer = Some(figures);
}

/// The warning if a drive node may limit the transfer.
fn limit(figures: &TransferFigures) -> Option<String> {
    let (who, idle) = figures.busiest_drive();
    (idle < IDLE_LEAST).then(|| {
        format!(
            "a core of the {who} was idle for only {:.1} % of the time, so it may limit the transfer rather than the test node; \
             make it faster (drive.frequency, drive.ipc)",
            idle * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_drive_node_causes_a_warning() {
        let of = |drive_idle| limit(&TransferFigures { drive_idle, ..TransferFigures::default() });
        assert!(of(0.04).unwrap().contains("drive.ipc") && of(0.05).is_none());
    }
}
