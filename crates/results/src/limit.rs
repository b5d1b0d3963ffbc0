//! The bottleneck of a machine: the part, the evidence, and one line of text.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::drops::Drops;
use crate::format::{fixed, grouped, one_line, percent_label, rate};
use crate::network::NetworkFigures;
use crate::one_queue;
use crate::point::PointSummary;
use crate::ports::PortFigures;
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

/// The bottleneck of one point; the line also reports if all frames went to one of several queues.
pub fn of_point(point: &PointSummary) -> Option<Limit> {
    of_points(&[point])
}

/// The bottleneck of the points of one frame size, as one line.
pub fn line(points: &[&PointSummary]) -> Option<String> {
    Some(format!("Limit: {}", of_points(points)?.text))
}

fn of_points(points: &[&PointSummary]) -> Option<Limit> {
    let limit = derive(points);
    let Some(one_queue) = one_queue::line(points) else { return limit };
    let mut limit = limit.unwrap_or_else(|| Limit::new("unknown", "unknown.".to_owned()));
    limit.text = format!("{} {one_queue}", limit.text);
    Some(limit)
}

/// Derives the bottleneck from the point with most loss, which shows it most clearly.
fn derive(points: &[&PointSummary]) -> Option<Limit> {
    // Frames that a script does not return are not necessarily lost.
    let offered = points.iter().filter(|point| point.frames_offered > 0 && !point.is_unanswered());
    let highest = offered.clone().map(|point| point.offered_mpps).fold(0.0, f64::max);
    if highest == 0.0 {
        return None;
    }
    let Some(worst) = offered.clone().filter(|point| point.lost() > 0).max_by_key(|point| point.lost())
    else {
        return without_loss(&offered.copied().collect::<Vec<_>>(), highest);
    };
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
    let share = frames as f64 / worst.lost().max(1) as f64;
    let timing = worst.timing.as_ref();
    let busy = timing.filter(|_| part == "core").and_then(saturated).unwrap_or_default();
    let text = format!(
        "{text}: {} of the frames lost at {} Mpps{busy}.",
        percent_label(share),
        rate(worst.offered_mpps)
    );
    let of = |group: &str, name: &str| timing.and_then(|timing| timing.get(group, name));
    let limit = Limit::new(part, text)
        .with("lost_frames", frames as f64)
        .with("share_of_lost", share)
        .with("offered_mpps", worst.offered_mpps);
    Some(match part {
        "core" => limit
            .with("saturation", of("packet cost", "saturation"))
            .with("most_saturated", of("packet cost", "most_saturated")),
        "pcie" | "memory" | "nic" => limit
            .with("up_share", of("PCI Express", "up_share"))
            .with("down_share", of("PCI Express", "down_share"))
            .with("posted_wait_share", of("PCI Express", "posted_wait_share"))
            .with("memory_share", of("DRAM", "share")),
        _ => limit,
    })
}

/// Whether software returned no receive descriptor during the whole measurement to the NICs that lost frames.
/// Older files lack the counts.
fn has_stalled_ring(point: &PointSummary) -> bool {
    let counts = |port: &&PortFigures| {
        port.groups.iter().flat_map(|group| &group.figures).any(|f| f.name == "rx_fetches")
    };
    let mut losing =
        point.ports.iter().filter(|port| port.value("rx_fifo_full") > 0).filter(counts).peekable();
    losing.peek().is_some() && losing.all(|port| port.value("rx_descriptors") + port.value("rx_fetches") == 0)
}

/// The bottleneck of points without loss.
fn without_loss(offered: &[&PointSummary], highest: f64) -> Option<Limit> {
    let transfer = offered.iter().find_map(|point| Some((point, point.transfer.as_ref()?)));
    if let Some((point, transfer)) = transfer {
        return Some(between_nodes(transfer, point.wire_share));
    }
    let most = offered.iter().max_by(|a, b| a.offered_mpps.total_cmp(&b.offered_mpps))?;
    let unsteady = |point: &&&PointSummary| point.unsustained().is_some() || point.not_steady.is_some();
    let filled = offered.iter().filter(unsteady).map(|point| point.offered_mpps);
    let filled = filled.fold(f64::INFINITY, f64::min);
    if filled.is_finite() {
        let text =
            format!("unknown; queues were still changing at {} Mpps, and no frame was lost.", rate(filled));
        return Some(Limit::new("unknown", text).with("offered_mpps", filled));
    }
    Some(of_sender(most).unwrap_or_else(|| {
        let text = format!("none seen; no frame was lost at up to {} Mpps.", rate(highest));
        Limit::new("none", text).with("offered_mpps", highest)
    }))
}

/// The cores' saturation: the share of time that they would need for the work they found.
fn saturated(timing: &TimingFigures) -> Option<String> {
    let share = |name| timing.get("packet cost", name).map(|share| fixed(share * 100.0, 1));
    Some(match share("most_saturated") {
        Some(most) => {
            format!(
                "; core saturation {most} % at the busiest, {} % for all polling cores",
                share("saturation")?
            )
        }
        None => format!("; core saturation {} %", share("saturation")?),
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

/// The bottleneck of a search; its line has no full stop.
pub fn of_search(size: &SizeSummary) -> Option<Limit> {
    let mut limit = derive_of_search(size)?;
    // Trials have no queue figures; the point at the rate that met the goal has.
    if let Some(text) = size.at_low.as_ref().and_then(|point| one_queue::line(&[point])) {
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
    queues.map(|queue| queue.value("rx_drop_no_descriptor")).sum()
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
    let has = |group: &str| timing.is_some_and(|timing| timing.0.iter().any(|of| of.name == group));
    let link = timing.is_some_and(|timing| timing.get("PCI Express", "up_share").is_some());
    match (link, has("buses")) {
        (true, false) => ("pcie", "PCI Express (descriptor fetches)"),
        (false, true) => ("bus", "the NIC's bus, see attach (descriptor fetches)"),
        _ => ("descriptors", "the NIC's descriptor fetches"),
    }
}

/// The saturated part of the NIC's path to memory. If there is none, the NIC's DMA engine is the limit, by
/// its transactions in flight or its rate.
fn memory_path(timing: &TimingFigures) -> Option<(&'static str, String)> {
    let link = |way: &str| timing.get("PCI Express", &format!("{way}_share"));
    let (up, down, memory) = (link("up")?, link("down")?, timing.get("DRAM", "share")?);
    let link = up.max(down);
    let carried = |share: f64| percent_label(share.min(1.0));
    // Older files lack it.
    let waited = timing.get("PCI Express", "posted_wait_share").unwrap_or(0.0);
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
