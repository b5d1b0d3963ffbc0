//! A measured interval of two nodes: what they sent each other in it, what became of it, and what the test node's timing
//! models say. Its figures have the form of those of a run with a load generator; what only a generator knows is left empty.

use std::collections::BTreeMap;

use doorbell_machine::{Carried, Pair};
use doorbell_sim::Ps;
use doorbell_sim::stats::Stats;
use doorbell_wire::LinkStats;
use serde::Serialize;

use crate::config::RunConfig;
use crate::phases::{NicTotals, OpenWindow, Window, nic_totals};
use crate::ports;
use crate::summary::{Drops, PointSummary};
use crate::timing::{self, TimingFigures};

/// What went through one direction of the cable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Direction {
    /// Frames sent into it.
    pub frames: u64,
    /// Their bytes with FCS.
    pub bytes: u64,
    /// Lost to configured faults.
    pub lost: u64,
    /// Damaged by configured faults.
    pub corrupted: u64,
}

/// An interval that has begun.
pub(crate) struct OpenInterval {
    begun: Ps,
    test: OpenWindow,
    sent: [LinkStats; 2],
    arrived: [NicTotals; 2],
    carried: [Carried; 2],
    instructions: [u64; 2],
}

/// What changed in an interval; of two nodes, node 0 is the test node. What was sent is by the node that sent it.
pub(crate) struct Interval {
    pub seconds: f64,
    pub test: Window,
    pub sent: [Direction; 2],
    /// Frames that each NIC dropped on arrival.
    pub dropped: [Drops; 2],
    pub carried: [Carried; 2],
    pub instructions: [u64; 2],
}

fn sent(pair: &Pair) -> [LinkStats; 2] {
    pair.nodes().each_ref().map(|node| node.ports()[0].link_out.stats().clone())
}

fn instructions(pair: &Pair) -> [u64; 2] {
    pair.nodes().each_ref().map(|node| node.instructions())
}

impl OpenInterval {
    /// An interval that begins at this very moment. The schedule of direct cache access begins with it.
    pub fn begin(pair: &mut Pair) -> OpenInterval {
        pair.node_mut(0).begin_window();
        OpenInterval {
            begun: pair.now(),
            test: OpenWindow::begin(&pair.nodes()[0]),
            sent: sent(pair),
            arrived: pair.nodes().each_ref().map(nic_totals),
            carried: pair.carried(),
            instructions: instructions(pair),
        }
    }

    /// What has changed up to this moment.
    pub fn end(self, pair: &Pair) -> Interval {
        let sent = sent(pair);
        Interval {
            seconds: (pair.now() - self.begun).as_secs_f64(),
            sent: [0, 1].map(|node| direction(&sent[node].since(&self.sent[node]))),
            dropped: [0, 1].map(|node| dropped(self.arrived[node], nic_totals(&pair.nodes()[node]))),
            carried: {
                let now = pair.carried();
                [0, 1].map(|node| now[node].since(&self.carried[node]))
            },
            instructions: {
                let now = instructions(pair);
                [0, 1].map(|node| now[node] - self.instructions[node])
            },
            test: self.test.end(&pair.nodes()[0]),
        }
    }
}

fn direction(link: &LinkStats) -> Direction {
    Direction { frames: link.frames, bytes: link.bytes_l2, lost: link.lost, corrupted: link.corrupted }
}

fn dropped(begin: NicTotals, end: NicTotals) -> Drops {
    Drops {
        dma: end.dma - begin.dma,
        core: end.core - begin.core,
        tx: end.tx - begin.tx,
        nic_other: end.other - begin.other,
        link: 0,
        guest: 0,
    }
}

/// Frames that a NIC dropped on arrival.
pub(crate) fn all_dropped(drops: &Drops) -> u64 {
    drops.dma + drops.core + drops.tx + drops.nic_other
}

impl Interval {
    /// The figures, with the frames that node `from` sent as those that were offered, and what the other's NIC accepted of
    /// them as delivered. `host_seconds` is the time that all of the run took, `executed` the instructions.
    pub fn point(
        &self,
        (benchmark, rate): (&str, String),
        config: &RunConfig,
        pair: &Pair,
        from: usize,
        (host_seconds, executed): (f64, u64),
    ) -> PointSummary {
        let test = &pair.nodes()[0];
        let offered = &self.sent[from];
        let drops = Drops { link: offered.lost, ..self.dropped[1 - from].clone() };
        let lost = (all_dropped(&drops) + drops.link).min(offered.frames);
        let delivered = offered.frames - lost;
        let per = |amount: f64, over: f64| if over == 0.0 { 0.0 } else { amount / over };
        let share = per(delivered as f64, offered.frames as f64);
        let gbps = per(offered.bytes as f64 * 8e-9, self.seconds);
        let mpps = per(offered.frames as f64 * 1e-6, self.seconds);
        let cycles = config.core_cycles(self.seconds);
        let timing = self.test.timed.clone().map(|(begin, end)| {
            let span =
                timing::Window { begin, end, frames: delivered, instructions: self.instructions[0], config };
            timing::figures(&span, test)
        });
        PointSummary {
            benchmark: benchmark.to_owned(),
            config_hash: config.hash(),
            rate,
            frame_size: per(offered.bytes as f64, offered.frames as f64).round() as u64,
            frames_offered: offered.frames,
            frames_delivered: delivered,
            frames_corrupt: 0,
            frames_timed_out: 0,
            frames_reordered: 0,
            frames_duplicate: 0,
            drop_rate: per(lost as f64, offered.frames as f64),
            drops,
            offered_gbps: gbps,
            delivered_gbps: gbps * share,
            arrived_gbps: gbps * share,
            arrived_mpps: mpps * share,
            offered_mpps: mpps,
            delivered_mpps: mpps * share,
            latency_ns: None,
            latency_from_actual_ns: None,
            delay_variation_ns: None,
            confidence_95: None,
            batches: Vec::new(),
            latency_stages_ns: None,
            streams: Vec::new(),
            simulated_seconds: self.seconds,
            instructions: self.instructions[0],
            ipc: per(self.instructions[0] as f64, cycles),
            instructions_per_frame: per(self.instructions[0] as f64, delivered as f64),
            host_seconds,
            host_mips: per(executed as f64 / 1e6, host_seconds),
            state_hash: format!("{:016x}", pair.state_hash()),
            timing,
            functions: None,
            ports: self.test.ports.clone(),
            exit_status: None,
            iperf: None,
        }
    }
}

/// What the figures of the test node mean, by name.
pub(crate) fn meanings(summary: &PointSummary, pair: &Pair) -> BTreeMap<String, String> {
    let mut meanings = ports::meanings(&pair.nodes()[0]);
    meanings.extend(summary.timing.iter().flat_map(TimingFigures::meanings));
    meanings
}
