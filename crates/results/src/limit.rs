//! The bottleneck of a machine: the part, the evidence, and one line of text.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::drops::Drops;
use crate::figures::{BUSES, DRAM, FigureKey, PACKET_COST, PCIE};
use crate::format::{fixed, grouped, one_line, percent_label, rate};
use crate::network::NetworkFigures;
use crate::one_queue;
use crate::point::PointSummary;
use crate::ports::PortFigures;
use crate::ports::counters::{RX_DESCRIPTORS, RX_DROP_NO_DESCRIPTOR, RX_FETCHES, RX_FIFO_FULL};
use crate::search::SizeSummary;
use crate::timing::TimingFigures;
use crate::transfer::TransferFigures;

/// A core idle less than this is the bottleneck.
const IDLE_MIN: f64 = 0.05;
/// A cable with a higher utilisation than this is full.
const FULL_WIRE: f64 = 0.98;
/// The same for a PCI Express link, including its acknowledgements.
const FULL_LINK: f64 = 0.9;
/// The same for memory, whose channels lose time to row changes, turnarounds and refresh.
const FULL_MEMORY: f64 = 0.75;
/// A smaller share of time spent waiting for credits is not a bottleneck.
const LONG_WAIT: f64 = 0.1;

/// The bottleneck of a point or a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// `core`, `ring_stalled`, `tx`, `descriptors`, `pcie`, `memory`, `bus`, `nic`, `nic_size`, `nic_address`,
    /// `nic_vlan`, `nic_fcs`, `nic_off`, `nic_other`, `link`, `switch`, `guest`, `generator`, `drive_node`,
    /// `cores`, `wire` or `window`; `none` if no bottleneck was found, `unknown` if it cannot be determined.
    pub part: String,
    /// The evidence, by name: `lost_frames` and `share_of_lost` of the point's lost frames, `offered_mpps`,
    /// and shares of time or utilisations (`saturation`, `up_share`, `memory_share`, `wire_share`,
    /// `test_idle`, `drive_idle`).
    pub evidence: BTreeMap<String, f64>,
    /// The same as one line.
    pub text: String,
}

impl Limit {
    fn new(part: &str, text: String) -> Limit {
        Limit { part: part.to_owned(), evidence: BTreeMap::new(), text }
    }

    fn with(mut self, name: &str, value: impl Into<Option<f64>>) -> Limit {
        let value = value.into().filter(|value| value.is_finite());
        self.evidence.extend(value.map(|value| (name.to_owned(), value)));
        self
    }
}

/// The bottleneck of one point: the stored one, or, for new points and those of older files, that which its
/// figures show. The line also reports if all frames went to one of several queues. `None` if the point has no
/// frames, or the cause of its loss is unknown.
pub fn of_point(point: &PointSummary) -> Option<Limit> {
    if point.limit.is_some() {
        return point.limit.clone();
    }
    let limit = derive(point);
    let Some(one_queue) = one_queue::line(point) else { return limit };
    let mut limit = limit.unwrap_or_else(|| Limit::new("unknown", "unknown.".to_owned()));
    limit.text = format!("{} {one_queue}", limit.text);
    Some(limit)
}

/// The bottleneck of the points of one frame size, as one line: that of the point that shows it most clearly.
pub fn line(points: &[&PointSummary]) -> Option<String> {
    let limit = match clearest(points) {
        Some(point) => of_point(point),
        None => points.iter().find_map(|point| of_point(point)),
    };
    Some(format!("Limit: {}", limit?.text))
}

/// Whether the point offered frames. Frames that a script does not return are not necessarily lost.
fn has_load(point: &PointSummary) -> bool {
    point.frames_offered > 0 && point.offered_mpps > 0.0 && !point.is_unanswered()
}

fn is_unsteady(point: &PointSummary) -> bool {
    point.unsustained().is_some() || point.not_steady.is_some()
}

/// Lost frames. A played trace may end with frames in its rings, which are not lost.
fn lost(point: &PointSummary) -> u64 {
    match point.played {
        Some(_) => point.drops.at_nics(),
        None => point.lost(),
    }
}

/// The point with most loss; without loss a transfer, otherwise the lowest load at which queues were still
/// changing, otherwise the highest load.
fn clearest<'a>(points: &[&'a PointSummary]) -> Option<&'a PointSummary> {
    let loaded = points.iter().copied().filter(|point| has_load(point));
    let by_load = |a: &&PointSummary, b: &&PointSummary| a.offered_mpps.total_cmp(&b.offered_mpps);
    let losing = loaded.clone().filter(|point| lost(point) > 0).max_by_key(|point| lost(point));
    losing
        .or_else(|| loaded.clone().find(|point| point.transfer.is_some()))
        .or_else(|| loaded.clone().filter(|point| is_unsteady(point)).min_by(by_load))
        .or_else(|| loaded.clone().max_by(by_load))
}

fn derive(point: &PointSummary) -> Option<Limit> {
    match lost(point) {
        _ if !has_load(point) => None,
        0 => Some(without_loss(point)),
        _ => with_loss(point),
    }
}

/// The bottleneck of a point with loss: the main cause of it.
fn with_loss(worst: &PointSummary) -> Option<Limit> {
    let loss_cause =
        loss_cause(&worst.drops, without_descriptors(worst), worst.frames_late, worst.timing.as_ref())?;
    let LossCause { mut part, mut text, frames } = loss_cause;
    if part == "core" && has_stalled_ring(worst) {
        (part, text) = ("ring_stalled", STALLED.to_owned());
    }
    // Between members of a network, frames that no machine lost were lost in a switch's queue.
    if let Some(queue) = worst.network.as_ref().filter(|_| text == LINK).and_then(fullest_queue) {
        (part, text) = ("switch", queue);
    }
    let share = frames as f64 / lost(worst).max(1) as f64;
    let timing = worst.timing.as_ref();
    let busy = timing.filter(|_| part == "core").and_then(saturated).unwrap_or_default();
    let text = format!(
        "{text}: {} of the frames lost at {} Mpps{busy}.",
        percent_label(share),
        rate(worst.offered_mpps)
    );
    let limit = Limit::new(part, text)
        .with("lost_frames", frames as f64)
        .with("share_of_lost", share)
        .with("offered_mpps", worst.offered_mpps);
    let shares: &[(&str, FigureKey)] = match part {
        "core" => &[("saturation", PACKET_COST.saturation), ("most_saturated", PACKET_COST.most_saturated)],
        "pcie" | "memory" | "nic" => &[
            ("up_share", PCIE.up_share),
            ("down_share", PCIE.down_share),
            ("posted_wait_share", PCIE.posted_wait_share),
            ("memory_share", DRAM.share),
        ],
        _ => &[],
    };
    Some(shares.iter().fold(limit, |limit, (name, key)| limit.with(name, worst.figure(*key))))
}

/// Whether software returned no receive descriptor during the whole measurement to the NICs that lost frames.
/// Older files lack the counts.
fn has_stalled_ring(point: &PointSummary) -> bool {
    let counts = |port: &&PortFigures| {
        port.groups.iter().flat_map(|group| &group.figures).any(|f| f.name == RX_FETCHES)
    };
    let mut losing = point.ports.iter().filter(|port| port.value(RX_FIFO_FULL) > 0).filter(counts).peekable();
    losing.peek().is_some() && losing.all(|port| port.value(RX_DESCRIPTORS) + port.value(RX_FETCHES) == 0)
}

/// The bottleneck of a point without loss.
fn without_loss(point: &PointSummary) -> Limit {
    let offered = rate(point.offered_mpps);
    if let Some(transfer) = &point.transfer {
        return between_nodes(transfer, point.wire_share);
    }
    if is_unsteady(point) {
        let text = format!("unknown; queues were still changing at {offered} Mpps, and no frame was lost.");
        return Limit::new("unknown", text).with("offered_mpps", point.offered_mpps);
    }
    of_sender(point).unwrap_or_else(|| {
        let text = format!("none seen; no frame was lost at up to {offered} Mpps.");
        Limit::new("none", text).with("offered_mpps", point.offered_mpps)
    })
}

/// The cores' saturation: the share of time that they would need for the work they found.
fn saturated(timing: &TimingFigures) -> Option<String> {
    let share = |key| timing.get(key).map(|share| fixed(share * 100.0, 1));
    Some(match share(PACKET_COST.most_saturated) {
        Some(most) => {
            format!(
                "; core saturation {most} % at the busiest, {} % for all polling cores",
                share(PACKET_COST.saturation)?
            )
        }
        None => format!("; core saturation {} %", share(PACKET_COST.saturation)?),
    })
}

/// The bottleneck of the sender, for points without loss.
fn of_sender(point: &PointSummary) -> Option<Limit> {
    if let Some(behind) = point.drive_behind {
        let text = format!(
            "the drive node, which could not send {} frames that were due at {}; no sent frame was lost.",
            grouped(behind),
            one_line(&point.rate)
        );
        return Some(Limit::new("drive_node", text).with("frames_behind", behind as f64));
    }
    let share = point.wire_share.filter(|share| *share >= FULL_WIRE)?;
    let text = format!(
        "the wire ({} utilized at {} Mpps); no frame was lost.",
        percent_label(share.min(1.0)),
        rate(point.offered_mpps)
    );
    Some(Limit::new("wire", text).with("wire_share", share).with("offered_mpps", point.offered_mpps))
}

const CORE: &str = "the core (receive FIFOs full for lack of descriptors)";
const CORE_OF_QUEUE: &str = "the core (its receive queue had no descriptors, SRRCTL.DROP_EN)";
const DATA: &str = "the NIC's DMA path to memory";
const LATE: &str =
    "the generator (frames came back after loadgen.traffic.timeout, or after loadgen.tracked_frames others)";
const STALLED: &str = "the receive ring (software returned no descriptor in the whole measurement: it has no packet buffers \
     left, see DPDK's rx_nombuf, because its pool is smaller than the rings, or it is not running)";
const SIZE: &str = "the NIC, not configured for frames of this size (its MTU: kernel.mtu, dpdk.mtu)";
const LINK: &str = "the link's configured faults";

/// The switch output that dropped most frames.
fn fullest_queue(network: &NetworkFigures) -> Option<String> {
    let outputs = network.switches.iter().flat_map(|(switch, figures)| {
        figures.outputs.iter().map(move |(to, output)| (switch, to, output.dropped))
    });
    let (switch, to, _) = outputs.filter(|output| output.2 > 0).max_by_key(|output| output.2)?;
    Some(format!("the cable from {} to {} (switch queue full)", one_line(switch), one_line(to)))
}

/// The bottleneck of a transfer between two nodes without loss: a closed loop waits for the node whose cores
/// are not idle. A single core that is never idle suffices.
fn between_nodes(transfer: &TransferFigures, wire: Option<f64>) -> Limit {
    let (who, drive) = transfer.busiest_drive();
    let test = transfer.busiest_test();
    let (test_idle, drive_idle) = (percent_label(test), percent_label(drive));
    let in_use = wire.map(|share| percent_label(share.min(1.0)));
    let limit = match (test < IDLE_MIN, drive < IDLE_MIN, in_use) {
        (true, false, _) => Limit::new(
            "core",
            format!(
                "the test node's busiest core, idle for {test_idle} of the time (the {who}'s: {drive_idle})."
            ),
        ),
        (false, true, _) => Limit::new(
            "drive_node",
            format!(
                "the {who}'s busiest core, idle for {drive_idle} of the time (the test node's: {test_idle})."
            ),
        ),
        (true, true, _) => Limit::new(
            "cores",
            format!(
                "the busiest cores of the test node and of the {who}, idle for {test_idle} and {drive_idle} of the time."
            ),
        ),
        (_, _, Some(in_use)) if wire.is_some_and(|share| share >= FULL_WIRE) => {
            Limit::new("wire", format!("the cable ({in_use} utilized)."))
        }
        (_, _, in_use) => {
            let cable =
                in_use.map_or(String::new(), |in_use| format!(", and the cable was {in_use} utilized"));
            let text = format!(
                "the amount in flight ({}); the busiest cores were idle for {test_idle} (test node) and {drive_idle} ({who}) \
                 of the time{cable}.",
                in_flight_limit(transfer)
            );
            Limit::new("window", text)
        }
    };
    limit.with("test_idle", test).with("drive_idle", drive).with("wire_share", wire)
}

/// The limit of the amount in flight in a closed loop.
fn in_flight_limit(transfer: &TransferFigures) -> String {
    let connections = match transfer.connections {
        1 => "one connection".to_owned(),
        several => format!("{} connections", grouped(u64::from(several))),
    };
    match transfer.goodput_gbps {
        Some(_) => format!("TCP's window, {connections}"),
        None => format!("outstanding requests, {connections}"),
    }
}

/// The bottleneck of a search, likewise; its line has no full stop.
pub fn of_search(size: &SizeSummary) -> Option<Limit> {
    if size.limit.is_some() {
        return size.limit.clone();
    }
    let mut limit = derive_of_search(size)?;
    // Trials have no queue figures; the point at the rate that met the goal has.
    if let Some(text) = size.at_low.as_ref().and_then(one_queue::line) {
        limit.text = format!("{}. {}", limit.text, text.trim_end_matches('.'));
    }
    Some(limit)
}

/// Derives the bottleneck from the lowest rate that missed the goal.
fn derive_of_search(size: &SizeSummary) -> Option<Limit> {
    if size.ended == "at_highest" {
        let wire = size.at_low.as_ref().and_then(|point| point.wire_share);
        let wire = wire.filter(|share| *share >= FULL_WIRE)?;
        let text =
            format!("the wire ({} utilized at the rate that met the goal)", percent_label(wire.min(1.0)));
        return Some(Limit::new("wire", text).with("wire_share", wire));
    }
    let missed = size.trials.iter().filter(|trial| trial.verdict == "above");
    let nearest = missed.min_by(|a, b| a.rate_mpps.total_cmp(&b.rate_mpps))?;
    let drops = nearest.drops.as_ref()?;
    // If FIFOs were full as well, the remaining NIC drops had no descriptors in their queue.
    let waited = Some(drops.waited_for.total()).filter(|waited| *waited > 0);
    let without = waited.map_or(0, |waited| (drops.dma + drops.core + drops.tx).saturating_sub(waited));
    let LossCause { part, text, frames } = loss_cause(drops, without, 0, None)?;
    let lost = [drops.dma, drops.core, drops.tx, drops.nic_other, drops.link, drops.guest];
    let share = frames as f64 / lost.iter().sum::<u64>().max(1) as f64;
    let text =
        format!("{text}: {} of the frames lost at {} Mpps", percent_label(share), rate(nearest.rate_mpps));
    let limit = Limit::new(part, text).with("lost_frames", frames as f64).with("share_of_lost", share);
    Some(limit.with("offered_mpps", nearest.rate_mpps))
}

/// Frames that queues dropped because they had no descriptors, while the FIFO had room for other queues'
/// frames (SRRCTL.DROP_EN).
fn without_descriptors(point: &PointSummary) -> u64 {
    let queues = point.ports.iter().flat_map(|port| &port.queues);
    queues.map(|queue| queue.value(RX_DROP_NO_DESCRIPTOR)).sum()
}

/// The main cause of loss.
struct LossCause {
    part: &'static str,
    text: String,
    frames: u64,
}

/// Finds the main cause of loss. Some frames waited in no full FIFO, because their queue had no descriptors.
fn loss_cause(
    drops: &Drops,
    without_descriptors: u64,
    late: u64,
    timing: Option<&TimingFigures>,
) -> Option<LossCause> {
    let fifo = drops.by_wait();
    let of_queue = without_descriptors.min(drops.core);
    let (part, descriptors) = descriptor_path(timing);
    let all = [
        ("core", if 2 * of_queue > fifo.core { CORE_OF_QUEUE } else { CORE }, fifo.core),
        ("tx", "transmission (transmit ring full)", fifo.tx),
        (part, descriptors, fifo.fetch),
        ("nic", DATA, fifo.data),
        ("nic_size", SIZE, drops.nic.size),
        (
            "nic_address",
            "the NIC's filters, which reject the frames' destination addresses",
            drops.nic.address,
        ),
        ("nic_vlan", "the NIC's VLAN filter", drops.nic.vlan),
        ("nic_fcs", "wrong frame check sequences, which the NIC drops", drops.nic.fcs),
        ("nic_off", "the NIC, whose receiver or link was off", drops.nic.off),
        ("nic_other", "the NIC, for another reason than a full FIFO (see stats.json)", drops.nic_rest()),
        ("link", LINK, drops.link),
        ("guest", "software in the guest, which did not send the frames back", drops.guest),
        ("generator", LATE, late),
    ];
    // Among equals the first one, which is closest to the core.
    let (part, text, frames) =
        all.into_iter().rev().max_by_key(|(_, _, frames)| *frames).filter(|(_, _, frames)| *frames > 0)?;
    let way = timing.filter(|_| text == DATA).and_then(memory_path);
    let (part, text) = way.unwrap_or_else(|| (part, text.to_owned()));
    Some(LossCause { part, text, frames })
}

/// The path of descriptor fetches, as far as the timing figures show it; runs without timing have none.
fn descriptor_path(timing: Option<&TimingFigures>) -> (&'static str, &'static str) {
    let has_bus = timing.is_some_and(|timing| timing.group(BUSES.write_visible_ns.group).is_some());
    let has_link = timing.is_some_and(|timing| timing.get(PCIE.up_share).is_some());
    match (has_link, has_bus) {
        (true, false) => ("pcie", "PCI Express (descriptor fetches)"),
        (false, true) => ("bus", "the NIC's bus, see attach (descriptor fetches)"),
        _ => ("descriptors", "the NIC's descriptor fetches"),
    }
}

/// The saturated part of the NIC's path to memory. If there is none, the NIC's DMA engine is the limit, by
/// its transactions in flight or its rate.
fn memory_path(timing: &TimingFigures) -> Option<(&'static str, String)> {
    let (up, down) = (timing.get(PCIE.up_share)?, timing.get(PCIE.down_share)?);
    let memory = timing.get(DRAM.share)?;
    let link = up.max(down);
    let carried = |share: f64| percent_label(share.min(1.0));
    // Older files lack it.
    let waited = timing.get(PCIE.posted_wait_share).unwrap_or(0.0);
    Some(match (link >= FULL_LINK, memory >= FULL_MEMORY) {
        (true, _) => ("pcie", format!("PCI Express ({} utilized)", carried(link))),
        // While writes wait for credits the link carries none of them, whatever its rate.
        (false, false) if up + waited >= FULL_LINK && waited >= LONG_WAIT => (
            "pcie",
            format!(
                "PCI Express (writes waited for credits, pcie.posted_headers or pcie.posted_data, for {} of the time; {} utilized)",
                carried(waited),
                carried(up)
            ),
        ),
        (_, true) => ("memory", format!("memory (channels {} utilized)", carried(memory))),
        _ => (
            "nic",
            format!(
                "the NIC's DMA engine (PCI Express only {} utilized, memory {})",
                carried(link),
                carried(memory)
            ),
        ),
    })
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;
