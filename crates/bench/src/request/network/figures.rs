//! Figures of a network's members in a measurement: nodes, link directions (hops), switches and load generators.

use std::collections::BTreeMap;

use crate::figures::timing;
use crate::plan::config::RunConfig;
use crate::window::interval::Interval;
use doorbell_machine::{End, Generator, Network, Output, OutputStats, Switch, SwitchStats};
use doorbell_results::{
    Direction, GeneratorFigures, HopFigures, NetworkFigures, NodeFigures, OutputFigures, SwitchFigures,
};
use doorbell_sim::stats::Stats;

/// Counters of all switches at the start of a measurement.
pub(crate) struct SwitchSnapshot(Vec<(SwitchStats, Vec<OutputStats>)>);

impl SwitchSnapshot {
    /// Reads the present counters.
    pub fn of(network: &Network) -> SwitchSnapshot {
        let outputs =
            |switch: &Switch| switch.outputs().iter().map(|output| output.stats().clone()).collect();
        SwitchSnapshot(network.switches().map(|switch| (switch.stats().clone(), outputs(switch))).collect())
    }
}

/// The figures of all members. `nodes` has the machines' configurations.
pub(crate) fn figures(
    network: &Network,
    nodes: &[RunConfig],
    interval: &Interval,
    switches: &SwitchSnapshot,
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
    let (window, drops) = (&interval.nodes[node], interval.lost.by(node));
    let cycles = window.core_cycles(config);
    let frames = received(network, node, interval).saturating_sub(drops.at_nics());
    let timing = window.timed.clone().map(|(begin, end)| {
        let instructions = window.instructions;
        let span = timing::Span { begin, end, frames, instructions, config };
        (timing::figures(&span, network.node(node)), timing::cores(&span))
    });
    let (timing, cores) = timing.unzip();
    NodeFigures {
        instructions: window.instructions,
        ipc: if cycles == 0.0 { 0.0 } else { window.instructions as f64 / cycles },
        drops,
        ports: window.ports.clone(),
        timing,
        cores: cores.unwrap_or_default(),
        functions: None,
        kinds: None,
    }
}

/// Frames sent to a node and not lost on its links.
fn received(network: &Network, node: usize, interval: &Interval) -> u64 {
    let to_it = |(index, sent): (usize, &Direction)| {
        let to = network.config().links[index / 2].ends[1 - index % 2];
        let is_own = matches!(to, End::Node { node: own, .. } if own == node);
        if is_own { sent.frames - sent.lost } else { 0 }
    };
    interval.sent.iter().enumerate().map(to_it).sum()
}

/// Bytes of the frames that a node's NICs accepted, estimated from the mean size of the frames sent to it.
pub(crate) fn accepted_bytes(network: &Network, node: usize, interval: &Interval) -> u64 {
    let to_it = |(index, sent): (usize, &Direction)| {
        let to = network.config().links[index / 2].ends[1 - index % 2];
        let is_own = matches!(to, End::Node { node: own, .. } if own == node);
        is_own.then_some((sent.frames, sent.bytes))
    };
    let sent = interval.sent.iter().enumerate().filter_map(to_it);
    let (frames, bytes) = sent.fold((0, 0), |(frames, bytes), of| (frames + of.0, bytes + of.1));
    let accepted = received(network, node, interval).saturating_sub(interval.lost.by(node).at_nics());
    (bytes as f64 * accepted as f64 / frames.max(1) as f64).round() as u64
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

fn switch_figures(network: &Network, begin: &SwitchSnapshot) -> BTreeMap<String, SwitchFigures> {
    let plan = network.config();
    let figures = |(index, (switch, (stats, outputs))): (usize, (&Switch, &(SwitchStats, Vec<_>)))| {
        let own = End::Switch(index);
        // The outputs are in the order of the cables that end at the switch.
        let is_at = |link: &&doorbell_machine::LinkPlan| link.ends.contains(&own);
        let cables = plan.links.iter().filter(is_at).map(|link| link.name.clone());
        let output = |(output, begin): (&Output, &OutputStats)| {
            let OutputStats { queued, queued_bytes, dropped, dropped_bytes } = output.stats().since(begin);
            OutputFigures {
                queued,
                queued_bytes,
                dropped,
                dropped_bytes,
                deepest: output.deepest(),
                residence_ns: output.residence().summary(),
            }
        };
        let outputs = cables.zip(switch.outputs().iter().zip(outputs).map(output)).collect();
        let SwitchStats { arrived, forwarded, flooded, filtered, reserved, bad_fcs, learned, not_learned } =
            switch.stats().since(stats);
        let figures = SwitchFigures {
            arrived,
            forwarded,
            flooded,
            filtered,
            reserved,
            bad_fcs,
            learned,
            not_learned,
            outputs,
        };
        (switch.name().to_owned(), figures)
    };
    network.switches().zip(&begin.0).enumerate().map(figures).collect()
}

fn generators(network: &Network) -> BTreeMap<String, GeneratorFigures> {
    let figures = |generator: &Generator| {
        let loadgen = generator.loadgen();
        let rate = loadgen.traffic().requested_rate().to_string();
        let summary = loadgen.measurement()?.summary(generator.now());
        Some((generator.name().to_owned(), GeneratorFigures { rate, summary }))
    };
    network.generators().filter_map(figures).collect()
}
