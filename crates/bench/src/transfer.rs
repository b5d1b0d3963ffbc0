//! What benchmarks share that move bytes or transactions between two nodes, iperf, netperf, redis and web: the client is told what to do on its
//! console; a part of what it does is measured, by what crosses the cable.

use std::collections::BTreeMap;
use std::time::Instant;

use doorbell_machine::{Carried, ConfigError, Mode, Network, NetworkOutcome, Outcome};
use doorbell_results::{PointSummary, Samples, Steady, SteadyPhase, TransferFigures};
use doorbell_sim::Ps;
use doorbell_wire::pcap::{PcapFile, WHOLE_FRAMES};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::RunConfig;
use crate::control::{Control, LINES_SHOWN, run_network_watched};
use crate::course::{Course, MEASURED, Moved};
use crate::error::{RunError, describe};
use crate::interval::{Interval, OpenInterval, all_dropped, meanings};
use crate::kernel::KernelConfig;
use crate::length::Length;
use crate::nodes::NodeGuest;
use crate::observe::{NodeTrace, Observe};
use crate::options::Options;
use crate::prepared::{Measured, NodesLoad, profile_test_node};
use crate::run_up::RunUp;
use crate::steady::{Pace, Watch};
use crate::system::System;
use crate::testbed::Testbed;

/// Simulated time after which a test that does not end, or does not begin, is given up.
pub(crate) const PATIENCE: Ps = Ps(600 * Ps::PER_SECOND);
/// How often it is looked whether data flow.
const STEP: Ps = Ps::from_us(100);
/// Into so many parts the measurement is divided, to show it over time; each of several samples into fewer.
const PARTS: u64 = 40;
/// More segments than these are not of the talk before a test, which has some five to a connection.
const TALK_SEGMENTS_MAX: u64 = 200;
/// A drive node that is idle for less may be what limits the transfer.
const IDLE_LEAST: f64 = 0.05;

/// How a transfer is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TransferConfig {
    /// Measure so many samples of `run.duration` each, one after the other, 1 to 1000. Their coefficient of variation is told.
    #[serde(skip_serializing_if = "is_one")]
    pub samples: u32,
}

/// Configurations from before there were samples keep their hash.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
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
        match self.samples {
            1..=1000 => Ok(()),
            other => Err(ConfigError::new("transfer.samples", format!("{other} is not from 1 to 1000"))),
        }
    }
}

/// What moves, and by what it is known.
pub(crate) struct Load {
    /// The program's name.
    pub program: &'static str,
    /// What moves, in its words.
    pub name: String,
    /// Transactions that are always under way, or streams.
    pub connections: u32,
    /// For each connection so many requests at once.
    pub depth: u32,
    /// What is typed at the client, in node 1.
    pub typed: String,
    /// The node that sends data: the stream, or answers.
    pub data: usize,
    /// Bytes that have come to their goal, of what a node sends.
    pub arrived: fn(&Carried) -> u64,
    /// Whether the measurement is stopped on its way, to show it over time: that cuts blocks of a functional drive node's code.
    pub in_parts: bool,
    /// What is counted, where it is transactions.
    pub transaction: Option<Transaction>,
    /// Whether it is more than the talk before a test.
    pub begun: fn(&Carried) -> bool,
    /// What the program says of its failure on the client's console.
    pub failure: fn(&str) -> Option<String>,
}

/// By what a transaction is known: so many bytes that a node sends for each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transaction {
    pub node: usize,
    pub bytes: u64,
}

/// More segments than a connection's beginning has, however many there are.
pub(crate) fn is_more_than_talk(carried: &Carried) -> bool {
    carried.tcp_segments + carried.udp_datagrams > TALK_SEGMENTS_MAX
}

impl Load {
    /// What runs it up to its pace.
    pub fn run_up(self) -> RunUp {
        RunUp { typed: self.typed, counted: self.data, begun: self.begun }
    }

    fn moved(&self, carried: &[Carried; 2]) -> Moved {
        let bytes = (self.arrived)(&carried[self.data]);
        let of = |transaction: Transaction| {
            (self.arrived)(&carried[transaction.node]) as f64 / transaction.bytes as f64
        };
        Moved { bytes, transactions: self.transaction.map_or(0.0, of) }
    }

    /// By Little's law.
    pub fn round_trip_us(&self, per_second: f64) -> Option<f64> {
        (per_second > 0.0).then(|| f64::from(self.connections * self.depth) * 1e6 / per_second)
    }
}

/// A test on its way.
pub(crate) struct Test<'a, 'c> {
    pub network: &'a mut Network,
    pub config: &'a RunConfig,
    pub observe: &'a Observe,
    pub trace: Option<&'a NodeTrace>,
    pub control: &'a mut Control<'c>,
    load: &'a Load,
    course: Course,
    samples: Vec<f64>,
}

impl<'a, 'c> Test<'a, 'c> {
    /// In this network, whose first link's flows are followed.
    pub fn new(
        network: &'a mut Network,
        (config, load): (&'a RunConfig, &'a Load),
        (observe, trace): (&'a Observe, Option<&'a NodeTrace>),
        control: &'a mut Control<'c>,
    ) -> Test<'a, 'c> {
        Test {
            network,
            config,
            observe,
            trace,
            control,
            load,
            course: Course::default(),
            samples: Vec::new(),
        }
    }

    /// Lets the client begin.
    pub fn begin(&mut self) {
        let typed = format!("{}\n", self.load.typed);
        let taken = self.network.node_mut(1).type_input(typed.as_bytes());
        assert_eq!(taken, typed.len(), "the keyboard has room for a line");
    }

    fn carried(&self) -> [Carried; 2] {
        self.network.carried(0).expect("its flows are followed")
    }

    fn moved(&self) -> Moved {
        self.load.moved(&self.carried())
    }

    /// Runs to a time; anything else that ends the run is an error.
    pub fn until(&mut self, time: Ps) -> Result<(), RunError> {
        match run_network_watched(self.network, time, false, self.control)? {
            NetworkOutcome::Time => {
                self.course.look(self.network.now(), self.moved());
                Ok(())
            }
            outcome => Err(self.ended(&outcome)),
        }
    }

    /// Lets the client begin, and waits for more than talk.
    pub fn begin_and_wait(&mut self) -> Result<(), RunError> {
        self.begin();
        let patience = self.network.now() + PATIENCE;
        while !(self.load.begun)(&self.carried()[self.load.data]) {
            if self.network.now() >= patience {
                return Err(self.ended(&NetworkOutcome::Time));
            }
            self.until(self.network.now() + STEP)?;
        }
        Ok(())
    }

    /// Measures a part of a transfer that goes on: the test node's caches warm up while it comes to its pace, then everything is timed.
    pub fn part(&mut self) -> Result<(Interval, Steady), RunError> {
        let run = &self.config.run;
        let timed = self.network.node(0).timing().is_some();
        self.network.node_mut(0).set_mode(Mode::Warming);
        let warmup = self.phase("warmup", timed, (run.warmup, run.warmup_limit))?;
        let mut steady = Steady { warmup, settle: None };
        if timed {
            self.network.node_mut(0).set_mode(Mode::Detailed);
            steady.settle = self.phase("settle", false, (run.settle, run.settle_limit))?;
        }
        let open = OpenInterval::begin(self.network, self.observe, self.trace);
        self.samples(timed)?;
        Ok((open.end(self.network, self.trace), steady))
    }

    /// The same, of a program that goes on.
    pub fn part_of_it(&mut self) -> Result<(Interval, Option<Steady>), RunError> {
        let (interval, steady) = self.part()?;
        Ok((interval, Some(steady)))
    }

    /// The measurement: samples one after the other, each in parts.
    fn samples(&mut self, timed: bool) -> Result<(), RunError> {
        let begun = self.network.now();
        let (samples, length) =
            (u64::from(self.config.options::<TransferConfig>().samples), self.config.run.duration);
        // A functional run would be cut within blocks.
        let parts = if timed && self.load.in_parts { (PARTS / samples).max(1) } else { 1 };
        self.begin_phase(MEASURED);
        for sample in 0..samples {
            let (from, before) = (self.network.now(), self.moved());
            for part in 1..=parts {
                let end = u128::from(length.0) * u128::from(sample * parts + part) / u128::from(parts);
                self.until(begun + Ps(end as u64))?;
            }
            let moved = self.moved().since(&before);
            let seconds = (self.network.now() - from).as_secs_f64();
            self.samples.push(match self.load.transaction {
                Some(_) => moved.transactions / seconds,
                None => moved.gbps(seconds),
            });
        }
        Ok(())
    }

    fn begin_phase(&mut self, phase: &'static str) {
        self.course.begin(phase);
        self.course.look(self.network.now(), self.moved());
    }

    /// A phase in which the test node's caches are to become steady, or queues; and the pace of the transfer.
    fn phase(
        &mut self,
        name: &'static str,
        caches: bool,
        length: (Length, Ps),
    ) -> Result<Option<SteadyPhase>, RunError> {
        self.begin_phase(name);
        let network = &*self.network;
        let watch = Watch::begin(caches, Pace::Programs, network.longest_link(), network.seen());
        watch.until_steady(length, |time| {
            self.until(time)?;
            Ok(self.network.seen())
        })
    }

    /// What moved, as the cable shows it, and how it went. A timed core's own books know better when it slept ([`idle`] is of functional ones).
    pub fn figures(&self, interval: &Interval) -> TransferFigures {
        let unit = if self.load.transaction.is_some() { "transactions/s" } else { "Gbps" };
        let load = self.load;
        let carried = interval.carried.as_ref().expect("its flows are followed");
        let (moved, seconds) = (load.moved(carried), interval.seconds);
        let (counted, data) = (load.transaction.is_some(), &carried[load.data]);
        let per_second = counted.then(|| moved.transactions / seconds);
        TransferFigures {
            load: load.name.clone(),
            connections: load.connections,
            bytes_sent: data.tcp_payload + data.udp_payload,
            bytes_received: moved.bytes,
            seconds,
            goodput_gbps: (!counted).then(|| moved.gbps(seconds)),
            transactions: counted.then_some(moved.transactions as u64),
            transactions_per_second: per_second,
            round_trip_us: per_second.and_then(|rate| load.round_trip_us(rate)),
            said: BTreeMap::new(),
            wire_to_client: interval.sent[0].clone(),
            wire_to_server: interval.sent[1].clone(),
            nic_drops: [0, 1].map(|node| all_dropped(&interval.dropped[node])),
            node_instructions: [0, 1].map(|node| interval.instructions[node]),
            test_idle: idle(self.network, 0, interval),
            drive_idle: idle(self.network, 1, interval),
            over_time: self.course.parts(counted),
            samples: Samples::of(unit, self.config.run.duration.as_secs_f64(), self.samples.clone()),
        }
    }

    /// Why a test failed: the program's own words, if it has some.
    pub fn ended(&self, outcome: &NetworkOutcome) -> RunError {
        let program = self.load.program;
        let said = (self.load.failure)(&self.network.node(1).console.text());
        let (node, why) = match (outcome, said) {
            (_, Some(problem)) => (0, format!("{program}: {problem}")),
            (NetworkOutcome::Nodes(nodes), None) => {
                let (node, outcome) = nodes[0];
                (node, format!("node {node}: {}", describe(outcome, self.network.now())))
            }
            (NetworkOutcome::Asleep, None) => {
                (1, "both nodes sleep, and nothing is left that would wake them".to_owned())
            }
            (NetworkOutcome::Time, None) => {
                (1, format!("{program} did not come to its end, or to sending, in {PATIENCE}"))
            }
        };
        RunError::Ended { why, console: self.network.node(node).console.last_lines(LINES_SHOWN) }
    }

    /// Runs on until the client is switched off.
    pub fn run_to_the_end(&mut self) -> Result<(), RunError> {
        let patience = self.network.now() + PATIENCE;
        let ends_well = |nodes: &[(usize, Outcome)]| {
            nodes.iter().all(|(_, outcome)| matches!(outcome, Outcome::PowerOff { code: 0 }))
        };
        while !self.network.is_off(1) {
            match run_network_watched(self.network, patience, false, self.control)? {
                NetworkOutcome::Nodes(nodes) if ends_well(&nodes) => {}
                outcome => return Err(self.ended(&outcome)),
            }
        }
        Ok(())
    }
}

/// The share of the interval in which a functional node's cores had nothing to do: the slots that instructions have not taken.
fn idle(network: &Network, node: usize, interval: &Interval) -> f64 {
    let config = network.node(node).config();
    let slots = config.core.frequency.0 as f64 * config.core.ipc * f64::from(config.platform.harts);
    (1.0 - interval.instructions[node] as f64 / (slots * interval.seconds)).clamp(0.0, 1.0)
}

/// Measures a load that has been run up to its pace, or has not yet begun, as `run` does it, and writes what there is of it.
pub(crate) fn measure(
    nodes: &Testbed,
    load: &NodesLoad,
    own: &Load,
    control: &mut Control,
    run: impl FnOnce(&mut Test) -> Result<(Interval, Option<Steady>), RunError>,
) -> Result<Measured, RunError> {
    let NodesLoad { benchmark, config, observe, folder, .. } = *load;
    let started = Instant::now();
    let mut network = nodes.network()?;
    observe.check_nodes(&network)?;
    network.follow_flows(0);
    if let Some(path) = &observe.capture {
        network.capture(0, PcapFile::create(path, WHOLE_FRAMES)?);
    }
    let what = format!("{}, {}", benchmark.name, own.name);
    let trace = NodeTrace::create(observe, &network, Some(0), |_| config, &what)?;
    let before = network.instructions();
    let mut test = Test::new(&mut network, (config, own), (observe, trace.as_ref()), control);
    let (mut interval, steady) = run(&mut test)?;
    let course = test.figures(&interval);
    network.check_conservation();
    network.finish_captures()?;
    trace.map_or(Ok(()), |trace| trace.finish(nodes, &mut network))?;
    let host = (started.elapsed().as_secs_f64(), network.instructions() - before);
    let mut summary = interval.point((benchmark.name, own.name.clone()), config, &network, own.data, host);
    summary.steady = steady;
    into_summary(course, &mut summary, control);
    profile_test_node(load, nodes, (&mut network, interval.watched[0].take()), &mut summary)?;
    folder.write_nodes(config, &network)?;
    Ok(Measured { config: config.clone(), meanings: meanings(&summary, &network), summary })
}

/// Puts into a summary how it went, and says so if the drive node may have been the limit.
pub(crate) fn into_summary(mut course: TransferFigures, summary: &mut PointSummary, control: &mut Control) {
    // Cycles of sleep an instruction, and instructions a cycle.
    let asleep = summary.timing.as_ref().and_then(|timing| timing.get("CPI stack", "idle"));
    course.test_idle = asleep.map_or(course.test_idle, |idle| (idle * summary.ipc).clamp(0.0, 1.0));
    if let Some(line) = limit(&course) {
        (control.say)(&line);
    }
    summary.transfer = Some(course);
}

/// A node that runs a script in an image, its driver as the configuration wants it.
pub(crate) fn guest(
    config: &RunConfig,
    image: &str,
    (name, lines): (&str, &str),
    ready_marker: &str,
    address: &str,
) -> NodeGuest {
    let kernel = config.options::<KernelConfig>();
    NodeGuest {
        image: image.to_owned(),
        instead: None,
        disks: Vec::new(),
        words: format!("doorbell.app={name} doorbell.ip={address}{}", kernel.words()),
        script: Some((name.to_owned(), kernel.before_program(address) + lines)),
        ready_marker: ready_marker.to_owned(),
    }
}

/// What to say if the drive node may be what limits the transfer.
pub(crate) fn limit(figures: &TransferFigures) -> Option<String> {
    (figures.drive_idle < IDLE_LEAST).then(|| {
        format!(
            "the drive node was idle for {:.1} % of the time only: its core may be the limit, and not the test node; make it faster \
             (drive.frequency, drive.ipc)",
            figures.drive_idle * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_node_without_rest_is_told() {
        let of = |drive_idle| limit(&TransferFigures { drive_idle, ..TransferFigures::default() });
        assert!(of(0.04).unwrap().contains("drive.ipc") && of(0.05).is_none());
    }
}
