//! Results of each stream of a load, and of its flows.

use serde::{Deserialize, Serialize};

use crate::latency::{BatchSummary, Confidence, LatencySummary};
use crate::number::{finite, or_nan};

/// Figures of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamSummary {
    /// Its name.
    pub name: String,
    /// Frames whose first bit was sent in the window.
    pub frames_offered: u64,
    /// Offered frames that came back intact.
    pub frames_delivered: u64,
    /// Offered frames that came back modified.
    pub frames_corrupt: u64,
    /// Offered frames that did not come back.
    pub frames_lost: u64,
    /// Intact frames that arrived in the window after a later frame of the stream.
    pub frames_reordered: u64,
    /// 1 − delivered / offered.
    #[serde(deserialize_with = "or_nan")]
    pub drop_rate: f64,
    /// The offered frames over the length of the window.
    pub offered: Throughput,
    /// The delivered frames over the length of the window.
    pub delivered: Throughput,
    /// Round trips in nanoseconds, from the time each frame was due; `null` if none came back.
    pub latency_ns: Option<LatencySummary>,
    /// Confidence intervals, without percentiles; `null` for windows that are too short.
    #[serde(default)]
    pub confidence_95: Option<Confidence>,
    /// The stream in the same parts of the window as the total traffic.
    #[serde(skip)]
    pub batches: Vec<BatchSummary>,
    /// Its flows; `null` if its headers do not change, or if there are too many flows.
    #[serde(default)]
    pub flows: Option<FlowSummary>,
    /// Statistics of the replayed capture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayStats>,
}

impl StreamSummary {
    /// Figures that must be plausible, with their names.
    pub(crate) fn figures(&self) -> impl Iterator<Item = (&'static str, Option<f64>)> {
        let latency = self.latency_ns.as_ref();
        let all = [
            ("streams.drop_rate", finite(self.drop_rate)),
            ("streams.offered.mpps", Some(self.offered.mpps)),
            ("streams.offered.gbps_l2", Some(self.offered.gbps_l2)),
            ("streams.delivered.mpps", Some(self.delivered.mpps)),
            ("streams.delivered.gbps_l2", Some(self.delivered.gbps_l2)),
            ("streams.latency_ns.p50", latency.map(|l| l.p50)),
            ("streams.latency_ns.p99", latency.map(|l| l.p99)),
            ("streams.latency_ns.max", latency.map(|l| l.max)),
        ];
        all.into_iter()
    }
}

/// The flows of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSummary {
    /// Number of possible flows.
    #[serde(default)]
    pub count: u64,
    /// Flows with a frame in the window.
    pub offered: u64,
    /// Flows with a lost frame.
    pub with_loss: u64,
    /// Flows with a frame that came back modified.
    #[serde(default)]
    pub with_corruption: u64,
    /// Flows with a frame that arrived after a later frame of the flow.
    pub with_reordering: u64,
    /// Frames that arrived after a later frame of their flow.
    #[serde(default)]
    pub frames_reordered: u64,
    /// The most frames of one flow.
    #[serde(default)]
    pub frames_offered_max: u64,
    /// The most frames that one flow lost.
    pub frames_lost_max: u64,
}

/// Throughput.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Million frames per second.
    pub mpps: f64,
    /// Gigabits per second with FCS.
    pub gbps_l2: f64,
    /// Gigabits per second with FCS, preamble and gap.
    #[serde(default)]
    pub gbps_l1: f64,
}

/// Statistics of a replayed capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayStats {
    /// Packets sent in each pass.
    pub packets: u64,
    /// Packets removed by the filter.
    pub filtered: u64,
    /// Packets that were too large.
    pub oversize: u64,
    /// Packets captured incompletely, sent or not.
    pub truncated: u64,
    /// Packets that were too short for Ethernet and got padding.
    pub padded: u64,
    /// Packets with an earlier time stamp than a previous one; they are due at the same time as that one.
    pub backward: u64,
    /// Packets of unsupported link types: neither Ethernet nor one that carries IP directly.
    pub other_links: u64,
    /// 1 if the file ended within a packet, or the rest could not be read.
    pub incomplete: u64,
    /// Packets recorded with an FCS, which was removed, sent or not.
    #[serde(default)]
    pub fcs_removed: u64,
    /// Packets recorded with more bytes than the packet's length; these were removed, sent or not.
    #[serde(default)]
    pub clipped: u64,
    /// Packets of links without an Ethernet header, to which one was added.
    #[serde(default)]
    pub header_made: u64,
    /// Length of the capture by its time stamps, in nanoseconds.
    #[serde(default)]
    pub length_ns: u64,
    /// Packets sent before the measurement.
    #[serde(default)]
    pub sent_before: u64,
    /// Packets not sent by the end of the measurement, over all passes; if the capture is repeated without
    /// end, those of the first pass.
    #[serde(default)]
    pub not_sent: u64,
}
