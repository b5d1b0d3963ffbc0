//! A measured interval of a network: traffic between its members, losses, and the nodes' timing statistics. For two
//! nodes its figures have the form of a run with a load generator; fields that need a generator stay empty.

use std::collections::BTreeMap;

use doorbell_machine::{Carried, Network, WatchReport};
use doorbell_sim::Ps;
use doorbell_sim::stats::Stats;
use doorbell_wire::LinkStats;

use crate::figures::counters::MeasuredCounters;
use crate::figures::host_cost::HostCost;
use crate::figures::ports;
use crate::figures::timing;
use crate::plan::config::RunConfig;
use crate::ratio::per;
use crate::window::losses::{Losses, Lost};
use crate::window::machine::{OpenWindow, Window};
use crate::window::observe::{NodeTrace, Observe, end_watch_of_nodes, watch_nodes};
use doorbell_results::{Direction, Drops, PointSummary, Throughput, WindowSummary};

/// An interval in progress: counts at its beginning.
pub(crate) struct OpenInterval {
    begin: Ps,
    nodes: Vec<OpenWindow>,
    sent: Vec<LinkStats>,
    losses: Losses,
    late: u64,
    carried: Option<[Carried; 2]>,
    by_port: BTreeMap<u16, [Carried; 2]>,
}

/// Changes over an interval. With two nodes, node 0 is the test node.
pub(crate) struct Interval {
    pub seconds: f64,
    /// By node.
    pub nodes: Vec<Window>,
    /// By direction: link n has the directions 2n and 2n + 1. With two nodes, the index is the sending node.
    pub sent: Vec<Direction>,
    /// Busy time of each direction, in picoseconds.
    pub busy: Vec<u64>,
    /// Frames that NICs, cables and switches lost.
    pub lost: Lost,
    /// Loss counts at its end.
    losses: Losses,
    /// Frames that had returned after the generators' timeout when it began.
    late: u64,
    /// Payload on the first link by sending end, if its flows are tracked.
    pub carried: Option<[Carried; 2]>,
    /// The same for each tracked port of the first end.
    pub by_port: BTreeMap<u16, [Carried; 2]>,
    /// Observations, by node.
    pub watched: Vec<Option<WatchReport>>,
}

/// Statistics of each direction up to now. A frame in transmission counts as busy time only up to now.
fn sent(network: &Network) -> Vec<LinkStats> {
    let links = network.wires().iter().map(|wire| network.link(wire));
    let now = network.complete_until();
    links.map(|link| LinkStats { busy_ps: link.busy_until(now), ..link.stats().clone() }).collect()
}

impl OpenInterval {
    /// Starts an interval now, together with the schedule of direct cache access and the trace of a node, if any.
    pub fn begin(network: &mut Network, observe: &Observe, trace: Option<&NodeTrace>) -> OpenInterval {
        network.begin_window();
        watch_nodes(network, observe);
        if let Some(trace) = trace {
            trace.begin(network);
        }
        OpenInterval {
            begin: network.complete_until(),
            nodes: network.nodes().map(OpenWindow::begin).collect(),
            sent: sent(network),
            losses: Losses::of(network),
            late: came_late(network),
            carried: network.carried(0),
            by_port: network.carried_by_port(0),
        }
    }

    /// Ends the interval now, together with the trace of a node, if any.
    pub fn end(self, network: &mut Network, trace: Option<&NodeTrace>) -> Interval {
        if let Some(trace) = trace {
            trace.end(network);
        }
        let watched = end_watch_of_nodes(network);
        let network = &*network;
        let windows = self.nodes.into_iter().zip(network.nodes()).map(|(open, node)| open.end(node));
        let links = sent(network).into_iter().zip(&self.sent).map(|(now, begin)| now.since(begin));
        let links: Vec<LinkStats> = links.collect();
        let losses = Losses::of(network);
        let carried = network.carried(0).zip(self.carried);
        let change = |now: &[Carried; 2], begin: &[Carried; 2]| [0, 1].map(|end| now[end].since(&begin[end]));
        let by_port = network.carried_by_port(0);
        let by_port = by_port.iter().zip(self.by_port.values());
        Interval {
            seconds: network.complete_until().saturating_sub(self.begin).as_secs_f64(),
            sent: links.iter().map(direction).collect(),
            busy: links.iter().map(|link| link.busy_ps).collect(),
            lost: losses.since(&self.losses),
            losses,
            late: self.late,
            carried: carried.map(|(now, begin)| change(&now, &begin)),
            by_port: by_port.map(|((port, now), begin)| (*port, change(now, begin))).collect(),
            nodes: windows.collect(),
            watched,
        }
    }
}

/// Frames that returned to generators after the timeout.
fn came_late(network: &Network) -> u64 {
    network.generators().map(|generator| generator.loadgen().stats().late).sum()
}

fn direction(link: &LinkStats) -> Direction {
    Direction { frames: link.frames, bytes: link.bytes_l2, lost: link.lost, corrupted: link.corrupted }
}

impl Interval {
    /// Takes the counter values of each node at both ends.
    pub fn take_counters(&mut self) -> Vec<MeasuredCounters> {
        self.nodes.iter_mut().map(|window| std::mem::take(&mut window.counters)).collect()
    }

    /// Frames lost since its end.
    pub fn lost_behind(&self, network: &Network) -> Lost {
        Losses::of(network).since(&self.losses)
    }

    /// Frames that have returned after the timeout since its beginning.
    pub fn late(&self, network: &Network) -> u64 {
        came_late(network) - self.late
    }

    /// The figures. Frames sent by node `from` count as offered, those that the other node's NIC accepted as
    /// delivered. `cost` is that of the whole run.
    pub fn point(
        &self,
        benchmark: &str,
        rate: String,
        config: &RunConfig,
        network: &Network,
        from: usize,
        cost: HostCost,
    ) -> PointSummary {
        let offered = &self.sent[from];
        let drops = Drops { link: offered.lost, ..self.lost.by_port[1 - from][0].clone() };
        let lost = (drops.at_nics() + drops.link).min(offered.frames);
        let traffic = between_nodes(offered.frames, offered.bytes, lost, self.seconds);
        let frame_size = per(offered.bytes as f64, offered.frames as f64).round() as u64;
        PointSummary {
            benchmark: benchmark.to_owned(),
            rate,
            drops,
            state_hash: format!("{:016x}", network.state_hash()),
            wire_share: self.busy.iter().max().map(|busy| per(*busy as f64 * 1e-12, self.seconds)),
            ..self.nodes[0].summary(config, network.node(0), traffic, frame_size, cost)
        }
    }
}

/// Traffic between nodes in the form of a load generator's figures: frames and bytes sent, and frames lost.
pub(crate) fn between_nodes(frames: u64, bytes: u64, lost: u64, seconds: f64) -> WindowSummary {
    let delivered = frames.saturating_sub(lost);
    let share = |part: u64| Throughput {
        mpps: per(frames as f64 * 1e-6, seconds) * per(part as f64, frames as f64),
        gbps_l2: per(bytes as f64 * 8e-9, seconds) * per(part as f64, frames as f64),
        ..Throughput::default()
    };
    WindowSummary {
        seconds,
        frames_offered: frames,
        frames_delivered: delivered,
        drop_rate: per((frames - delivered) as f64, frames as f64),
        offered: share(frames),
        delivered: share(delivered),
        arrived: share(delivered),
        ..WindowSummary::default()
    }
}

/// Descriptions of the nodes' figures, by name.
pub(crate) fn meanings(summary: &PointSummary, network: &Network) -> BTreeMap<String, String> {
    let mut meanings = network.nodes().next().map(ports::meanings).unwrap_or_default();
    meanings.extend(timing::meanings(summary));
    meanings
}
