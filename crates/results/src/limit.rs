//! What keeps a machine from doing more: the part, what that is concluded from, and one line for people.

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
/// A cable that carries more than this share of its rate takes no more.
const FULL_WIRE: f64 = 0.98;
/// Nor does a link of PCI Express, whose acknowledgements are among what it carries,
const FULL_LINK: f64 = 0.9;
/// or memory, whose channels lose time to rows, turnarounds and refresh.
const FULL_MEMORY: f64 = 0.75;
/// Waits for credits for a smaller share of the time limit nothing.
const LONG_WAIT: f64 = 0.1;

/// What limited a point or a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// `core`, `ring_stalled`, `tx`, `descriptors`, `pcie`, `memory`, `bus`, `nic`, `nic_size`, `nic_address`,
    /// `nic_vlan`, `nic_fcs`, `nic_off`, `nic_other`, `link`, `switch`, `guest`, `generator`, `drive_node`,
    /// `cores`, `wire` or `window`; `none` if nothing was seen to limit, `unknown` if it cannot be said.
    pub part: String,
    /// What that is concluded from, by name: `lost_frames` and `share_of_lost` of the point's lost frames, `offered_mpps`, and shares
    /// of time or of a rate in use (`saturation`, `up_share`, `memory_share`, `wire_share`, `test_idle`, `drive_idle`).
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

/// What limited one point; where all frames came to one queue of several, the line says so.
pub fn of_point(point: &PointSummary) -> Option<Limit> {
    of_points(&[point])
}

/// What limited the points of one frame size, as one line.
pub fn line(points: &[&PointSummary]) -> Option<String> {
    Some(format!("Limit: {}", of_points(points)?.text))
}

fn of_points(points: &[&PointSummary]) -> Option<Limit> {
    let limit = concluded(points);
    let Some(one_queue) = one_queue::line(points) else { return limit };
    let mut limit = limit.unwrap_or_else(|| Limit::new("unknown", "not known.".to_owned()));
    limit.text = format!("{} {one_queue}", limit.text);
    Some(limit)
}

/// Concluded from the point that lost most, which shows it most clearly.
fn concluded(points: &[&PointSummary]) -> Option<Limit> {
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
    let culprit =
        culprit(&worst.drops, without_descriptors(worst), worst.frames_late, worst.timing.as_ref())?;
    let Culprit { mut part, mut text, frames } = culprit;
    if part == "core" && has_stalled_ring(worst) {
        (part, text) = ("ring_stalled", STALLED.to_owned());
    }
    // Between members of a network, frames that no machine lost were lost in the queue of a switch.
    if let Some(queue) = worst.network.as_ref().filter(|_| text == LINK).and_then(fullest_queue) {
        (part, text) = ("switch", queue);
    }
    let share = frames as f64 / worst.lost().max(1) as f64;
    let timing = worst.timing.as_ref();
    let busy = timing.filter(|_| part == "core").and_then(saturated).unwrap_or_default();
    let text = format!(
        "{text}, by {} of the frames lost at {} Mpps{busy}.",
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

/// Whether software gave the NICs that lost frames no receive descriptor in the whole measurement. Older files lack the counts.
fn has_stalled_ring(point: &PointSummary) -> bool {
    let counts = |port: &&PortFigures| {
        port.groups.iter().flat_map(|group| &group.figures).any(|f| f.name == "rx_fetches")
    };
    let mut losing =
        point.ports.iter().filter(|port| port.value("rx_fifo_full") > 0).filter(counts).peekable();
    losing.peek().is_some() && losing.all(|port| port.value("rx_descriptors") + port.value("rx_fetches") == 0)
}

/// What limited points that lost nothing.
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
            format!("not known yet; queues still changed at {} Mpps, and nothing was lost.", rate(filled));
        return Some(Limit::new("unknown", text).with("offered_mpps", filled));
    }
    Some(of_sender(most).unwrap_or_else(|| {
        let text = format!("none seen; no frame was lost at up to {} Mpps.", rate(highest));
        Limit::new("none", text).with("offered_mpps", highest)
    }))
}

/// How much of their time cores would need for what they found.
fn saturated(timing: &TimingFigures) -> Option<String> {
    let share = |name| timing.get("packet cost", name).map(|share| fixed(share * 100.0, 1));
    Some(match share("most_saturated") {
        Some(most) => {
            format!("; the busiest saturated to {most} %, all that poll to {} %", share("saturation")?)
        }
        None => format!("; saturated to {} %", share("saturation")?),
    })
}

/// Where nothing was lost: what kept more from being offered.
fn of_sender(point: &PointSummary) -> Option<Limit> {
    if let Some(behind) = point.drive_behind {
        let text = format!(
            "the drive node, which could not send {} frames that were due at {}; of what it sent none was lost.",
            grouped(behind),
            one_line(&point.rate)
        );
        return Some(Limit::new("drive_node", text).with("frames_behind", behind as f64));
    }
    let share = point.wire_share.filter(|share| *share >= FULL_WIRE)?;
    let text = format!(
        "the wire, {} of whose rate was in use at {} Mpps; no frame was lost.",
        percent_label(share.min(1.0)),
        rate(point.offered_mpps)
    );
    Some(Limit::new("wire", text).with("wire_share", share).with("offered_mpps", point.offered_mpps))
}

const CORE: &str = "the core, for which full FIFOs waited";
const CORE_OF_QUEUE: &str = "the core, which gave its receive queue no descriptors in time (SRRCTL.DROP_EN)";
const DATA: &str = "the NIC's DMA and its way to memory";
const LATE: &str =
    "the generator, which had given up (loadgen.traffic.timeout, loadgen.tracked_frames) what came back";
const STALLED: &str = "the receive ring, to which software gave no descriptor in the whole measurement: it has no packet buffers left \
    (a pool smaller than the rings; DPDK's rx_nombuf), or does not run";
const SIZE: &str =
    "the NIC, which was not set up to receive frames of this size (its MTU: kernel.mtu, dpdk.mtu)";
const LINK: &str = "the link's configured faults";

/// The output of a switch that dropped most.
fn fullest_queue(network: &NetworkFigures) -> Option<String> {
    let outputs = network.switches.iter().flat_map(|(switch, figures)| {
        figures.outputs.iter().map(move |(to, output)| (switch, to, output.dropped))
    });
    let (switch, to, _) = outputs.filter(|output| output.2 > 0).max_by_key(|output| output.2)?;
    Some(format!(
        "the cable from {} to {}, for which the switch's queue was full",
        one_line(switch),
        one_line(to)
    ))
}

/// Who limits what moves between two nodes and loses nothing: a closed loop waits, and its idle cores show for whom. One core that is
/// never idle is enough, whatever the others do.
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
            Limit::new("wire", format!("the cable, {in_use} of whose rate was in use."))
        }
        (_, _, in_use) => {
            let cable = in_use
                .map_or(String::new(), |in_use| format!(", and {in_use} of the cable's rate was in use"));
            let text = format!(
                "how much is under way at once ({}); the busiest cores were idle for {test_idle} (test node) and {drive_idle} ({who}) \
                 of the time{cable}.",
                under_way(transfer)
            );
            Limit::new("window", text)
        }
    };
    limit.with("test_idle", test).with("drive_idle", drive).with("wire_share", wire)
}

/// What keeps a closed loop from having more under way.
fn under_way(transfer: &TransferFigures) -> String {
    let connections = match transfer.connections {
        1 => "one connection".to_owned(),
        several => format!("{} connections", grouped(u64::from(several))),
    };
    match transfer.goodput_gbps {
        Some(_) => format!("TCP's window, of {connections}"),
        None => format!("requests of {connections}"),
    }
}

/// What limited a search; its line has no full stop.
pub fn of_search(size: &SizeSummary) -> Option<Limit> {
    let mut limit = concluded_of_search(size)?;
    // Trials do not keep what queues did: the point at the rate that met the goal does.
    if let Some(text) = size.at_low.as_ref().and_then(|point| one_queue::line(&[point])) {
        limit.text = format!("{}. {}", limit.text, text.trim_end_matches('.'));
    }
    Some(limit)
}

/// Concluded from the lowest rate that missed the goal.
fn concluded_of_search(size: &SizeSummary) -> Option<Limit> {
    if size.ended == "at_highest" {
        let wire = size.at_low.as_ref().and_then(|point| point.wire_share);
        let wire = wire.filter(|share| *share >= FULL_WIRE)?;
        let text = format!("the wire, {} of whose rate met the goal", percent_label(wire.min(1.0)));
        return Some(Limit::new("wire", text).with("wire_share", wire));
    }
    let missed = size.trials.iter().filter(|trial| trial.verdict == "above");
    let nearest = missed.min_by(|a, b| a.rate_mpps.total_cmp(&b.rate_mpps))?;
    let drops = nearest.drops.as_ref()?;
    // Where FIFOs were full too, the rest of the NICs' drops waited in none.
    let waited = Some(drops.waited_for.total()).filter(|waited| *waited > 0);
    let without = waited.map_or(0, |waited| (drops.dma + drops.core + drops.tx).saturating_sub(waited));
    let Culprit { part, text, frames } = culprit(drops, without, 0, None)?;
    let lost = [drops.dma, drops.core, drops.tx, drops.nic_other, drops.link, drops.guest];
    let share = frames as f64 / lost.iter().sum::<u64>().max(1) as f64;
    let text =
        format!("{text}, by {} of the frames lost at {} Mpps", percent_label(share), rate(nearest.rate_mpps));
    let limit = Limit::new(part, text).with("lost_frames", frames as f64).with("share_of_lost", share);
    Some(limit.with("offered_mpps", nearest.rate_mpps))
}

/// Frames that queues dropped because they had no descriptors, while the FIFO had room for others' (SRRCTL.DROP_EN).
fn without_descriptors(point: &PointSummary) -> u64 {
    let queues = point.ports.iter().flat_map(|port| &port.queues);
    queues.map(|queue| queue.value("rx_drop_no_descriptor")).sum()
}

/// What most lost frames were lost to.
struct Culprit {
    part: &'static str,
    text: String,
    frames: u64,
}

/// See [`Culprit`]. Some frames waited in no full FIFO, because their queue had no descriptors.
fn culprit(
    drops: &Drops,
    without_descriptors: u64,
    late: u64,
    timing: Option<&TimingFigures>,
) -> Option<Culprit> {
    let fifo = drops.by_wait();
    let of_queue = without_descriptors.min(drops.core);
    let (part, descriptors) = descriptors_way(timing);
    let all = [
        ("core", if 2 * of_queue > fifo.core { CORE_OF_QUEUE } else { CORE }, fifo.core),
        ("tx", "transmission, whose ring was full", fifo.tx),
        (part, descriptors, fifo.fetch),
        ("nic", DATA, fifo.data),
        ("nic_size", SIZE, drops.nic.size),
        (
            "nic_address",
            "the NIC's filters, which do not pass the frames' destination addresses",
            drops.nic.address,
        ),
        ("nic_vlan", "the NIC's filter of VLANs", drops.nic.vlan),
        ("nic_fcs", "wrong frame check sequences, which the NIC drops", drops.nic.fcs),
        ("nic_off", "the NIC, whose receiver or link was off", drops.nic.off),
        ("nic_other", "the NIC, for another reason than a full FIFO (stats.json has it)", drops.nic_rest()),
        ("link", LINK, drops.link),
        ("guest", "software in the guest, which did not send back what it was given", drops.guest),
        ("generator", LATE, late),
    ];
    // Of equals the first, which is nearer to the core.
    let (part, text, frames) =
        all.into_iter().rev().max_by_key(|(_, _, frames)| *frames).filter(|(_, _, frames)| *frames > 0)?;
    let way = timing.filter(|_| text == DATA).and_then(way_to_memory);
    let (part, text) = way.unwrap_or_else(|| (part, text.to_owned()));
    Some(Culprit { part, text, frames })
}

/// By what the NIC fetches descriptors, as far as a run's figures show it: one without timing has none.
fn descriptors_way(timing: Option<&TimingFigures>) -> (&'static str, &'static str) {
    let has = |group: &str| timing.is_some_and(|timing| timing.0.iter().any(|of| of.name == group));
    let link = timing.is_some_and(|timing| timing.get("PCI Express", "up_share").is_some());
    match (link, has("buses")) {
        (true, false) => ("pcie", "PCI Express, over which the NIC fetched descriptors"),
        (false, true) => ("bus", "the bus of the NIC (attach), over which it fetched descriptors"),
        _ => ("descriptors", "the NIC's way to its descriptors"),
    }
}

/// Which part of the NIC's way to memory was full. Where none was, the NIC's DMA engine has no more under way, or moves no more.
fn way_to_memory(timing: &TimingFigures) -> Option<(&'static str, String)> {
    let link = |way: &str| timing.get("PCI Express", &format!("{way}_share"));
    let (up, down, memory) = (link("up")?, link("down")?, timing.get("DRAM", "share")?);
    let link = up.max(down);
    let carried = |share: f64| percent_label(share.min(1.0));
    // Older files lack it.
    let waited = timing.get("PCI Express", "posted_wait_share").unwrap_or(0.0);
    Some(match (link >= FULL_LINK, memory >= FULL_MEMORY) {
        (true, _) => ("pcie", format!("PCI Express, {} of whose rate was in use", carried(link))),
        // While writes wait for credits the link carries none, whatever its rate is.
        (false, false) if up + waited >= FULL_LINK && waited >= LONG_WAIT => (
            "pcie",
            format!(
                "PCI Express, on which writes waited for credits (pcie.posted_headers, pcie.posted_data) for {} of the time, with {} of its rate in use",
                carried(waited),
                carried(up)
            ),
        ),
        (_, true) => ("memory", format!("memory, {} of whose channels' rate was in use", carried(memory))),
        _ => (
            "nic",
            format!(
                "the NIC's DMA engine, since of PCI Express {} and of memory {} of the rate was in use",
                carried(link),
                carried(memory)
            ),
        ),
    })
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;
