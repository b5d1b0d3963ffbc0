//! What a network's members did in a measurement, hop by hop: nodes, directions of links, switches, load generators.

use std::collections::BTreeMap;

use doorbell_loadgen::{LatencySummary, Summary};
use doorbell_machine::{End, Generator, Network, Output, OutputStats, Switch, SwitchStats};
use doorbell_sim::stats::Stats;
use serde::Serialize;

use crate::config::RunConfig;
use crate::interval::{Direction, Interval, all_dropped};
use crate::ports::PortFigures;
use crate::summary::Drops;
use crate::timing::{self, CoreFigures, TimingFigures};

/// A network's figures, by the names of its members.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NetworkFigures {
    /// Its machines.
    pub nodes: BTreeMap<String, NodeFigures>,
    /// Each direction of each cable, by the cable's name and the two that it joins: "uplink: tor > server".
    pub hops: BTreeMap<String, HopFigures>,
    /// Its switches.
    pub switches: BTreeMap<String, SwitchFigures>,
    /// Its load generators.
    pub generators: BTreeMap<String, GeneratorFigures>,
}

/// A machine's figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeFigures {
    /// Instructions retired in the measurement.
    pub instructions: u64,
    /// Instructions a core cycle, waiting included.
    pub ipc: f64,
    /// Frames that its NICs dropped, by cause.
    pub drops: Drops,
    /// What each port counted.
    pub ports: Vec<PortFigures>,
    /// What its timing models say, if it is timed; a packet there is a frame that its NICs accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timing: Option<TimingFigures>,
    /// What each core did, if it is timed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<CoreFigures>,
}

/// One direction of a cable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HopFigures {
    /// What was sent.
    #[serde(flatten)]
    pub sent: Direction,
    /// Bits a second at layer 2 (with FCS), in units of 10⁹.
    pub gbps: f64,
    /// The share of time in which the link was busy, preambles and gaps included.
    pub busy: f64,
    /// From a frame's last bit out to its last bit in, in nanoseconds.
    pub latency_ns: f64,
}

/// A switch's figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SwitchFigures {
    /// What became of frames that arrived.
    #[serde(flatten)]
    pub stats: SwitchStats,
    /// Its outputs, by their cables.
    pub outputs: BTreeMap<String, OutputFigures>,
}

/// What left a switch by one cable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutputFigures {
    /// Frames queued and dropped.
    #[serde(flatten)]
    pub stats: OutputStats,
    /// The most bytes that waited at a time.
    pub deepest: u64,
    /// From a frame's last bit in to its last bit out, in nanoseconds; `null` if none left.
    pub residence_ns: Option<LatencySummary>,
}

/// A load generator's figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GeneratorFigures {
    /// The rate that it was to send at.
    pub rate: String,
    /// What it sent and what came back.
    #[serde(flatten)]
    pub summary: Summary,
}

/// What switches had counted when a measurement began.
pub(crate) struct SwitchMoment(Vec<(SwitchStats, Vec<OutputStats>)>);

impl SwitchMoment {
    /// Now.
    pub fn of(network: &Network) -> SwitchMoment {
        let outputs =
            |switch: &Switch| switch.outputs().iter().map(|output| output.stats().clone()).collect();
        SwitchMoment(network.switches().map(|switch| (switch.stats().clone(), outputs(switch))).collect())
    }
}

/// All of it. `nodes` are the machines' configurations.
pub(crate) fn figures(
    network: &Network,
    nodes: &[RunConfig],
    interval: &Interval,
    switches: &SwitchMoment,
) -> NetworkFigures {
    let count = network.config().nodes.len();
    NetworkFigures {
        nodes: (0..count)
            .map(|node| {
                let name = network.config().nodes[node].0.clone();
                (name, node_figures(network, node, &nodes[node], interval))
            })
            .collect(),
        hops: hops(network, interval),
        switches: switch_figures(network, switches),
        generators: generators(network),
    }
}

fn node_figures(network: &Network, node: usize, config: &RunConfig, interval: &Interval) -> NodeFigures {
    let (window, drops) = (&interval.nodes[node], &interval.dropped[node]);
    let cycles = config.core_cycles(interval.seconds);
    let frames = received(network, node, interval).saturating_sub(all_dropped(drops));
    let timing = window.timed.clone().map(|(begin, end)| {
        let instructions = window.instructions;
        let span = timing::Window { begin, end, frames, instructions, config };
        (timing::figures(&span, network.node(node)), timing::cores(&span))
    });
    let (timing, cores) = timing.unzip();
    NodeFigures {
        instructions: window.instructions,
        ipc: if cycles == 0.0 { 0.0 } else { window.instructions as f64 / cycles },
        drops: drops.clone(),
        ports: window.ports.clone(),
        timing,
        cores: cores.unwrap_or_default(),
    }
}

/// Frames that were sent to a node and not lost on the way.
fn received(network: &Network, node: usize, interval: &Interval) -> u64 {
    let to_it = |(index, sent): (usize, &Direction)| {
        let to = network.config().links[index / 2].ends[1 - index % 2];
        let is_own = matches!(to, End::Node { node: own, .. } if own == node);
        if is_own { sent.frames - sent.lost } else { 0 }
    };
    interval.sent.iter().enumerate().map(to_it).sum()
}

fn hops(network: &Network, interval: &Interval) -> BTreeMap<String, HopFigures> {
    let plan = network.config();
    let hop = |(index, sent): (usize, &Direction)| {
        let cable = &plan.links[index / 2];
        let (from, to) = (cable.ends[index % 2], cable.ends[1 - index % 2]);
        let figures = HopFigures {
            sent: sent.clone(),
            gbps: sent.bytes as f64 * 8e-9 / interval.seconds,
            busy: interval.busy[index] as f64 * 1e-12 / interval.seconds,
            latency_ns: cable.directions[index % 2].latency.as_ns_f64(),
        };
        (format!("{}: {} > {}", cable.name, plan.name(from), plan.name(to)), figures)
    };
    interval.sent.iter().enumerate().map(hop).collect()
}

fn switch_figures(network: &Network, begin: &SwitchMoment) -> BTreeMap<String, SwitchFigures> {
    let plan = network.config();
    let figures = |(index, (switch, (stats, outputs))): (usize, (&Switch, &(SwitchStats, Vec<_>)))| {
        let own = End::Switch(index);
        // Its outputs are in the order of the cables that end at it.
        let is_at = |link: &&doorbell_machine::LinkPlan| link.ends.contains(&own);
        let cables = plan.links.iter().filter(is_at).map(|link| link.name.clone());
        let output = |(output, begin): (&Output, &OutputStats)| OutputFigures {
            stats: output.stats().since(begin),
            deepest: output.deepest(),
            residence_ns: output.residence().summary(),
        };
        let outputs = cables.zip(switch.outputs().iter().zip(outputs).map(output)).collect();
        (switch.name().to_owned(), SwitchFigures { stats: switch.stats().since(stats), outputs })
    };
    network.switches().zip(&begin.0).enumerate().map(figures).collect()
}

fn generators(network: &Network) -> BTreeMap<String, GeneratorFigures> {
    let figures = |generator: &Generator| {
        let loadgen = generator.loadgen();
        let rate = loadgen.traffic().rate_asked().to_string();
        let summary = loadgen.measurement()?.summary(generator.now());
        Some((generator.name().to_owned(), GeneratorFigures { rate, summary }))
    };
    network.generators().filter_map(figures).collect()
}
