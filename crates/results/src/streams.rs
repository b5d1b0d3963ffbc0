//! What became of each stream of a load, and of its flows.

use serde::{Deserialize, Serialize};

use crate::latency::{BatchSummary, Confidence, LatencySummary};
use crate::number::{known, or_nan};

/// A stream's figures for a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamSummary {
    /// Its name.
    pub name: String,
    /// Frames whose first bit left in the window.
    pub frames_offered: u64,
    /// Of these, those that came back unharmed.
    pub frames_delivered: u64,
    /// Of these, those that came back changed.
    pub frames_corrupt: u64,
    /// Of these, those that have not come back.
    pub frames_lost: u64,
    /// Unharmed frames that arrived in the window after a later one of the stream.
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
    /// How far the figures can be trusted, but for percentiles; `null` for windows too short to say.
    #[serde(default)]
    pub confidence_95: Option<Confidence>,
    /// The stream in the same parts of the window as all traffic.
    #[serde(skip)]
    pub batches: Vec<BatchSummary>,
    /// Its flows; `null` if its headers do not change, or there are too many.
    #[serde(default)]
    pub flows: Option<FlowSummary>,
    /// What was made of the capture that is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayStats>,
}

impl StreamSummary {
    /// Figures that must be plausible, with their names.
    pub(crate) fn figures(&self) -> impl Iterator<Item = (&'static str, Option<f64>)> {
        let latency = self.latency_ns.as_ref();
        let all = [
            ("streams.drop_rate", known(self.drop_rate)),
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

/// The flows of a stream, for a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSummary {
    /// How many there can be.
    #[serde(default)]
    pub count: u64,
    /// How many had a frame in the window.
    pub offered: u64,
    /// How many lost one.
    pub with_loss: u64,
    /// How many had one that came back changed.
    #[serde(default)]
    pub with_corruption: u64,
    /// How many had one that came after a later one of the flow.
    pub with_reordering: u64,
    /// Frames that came after a later one of their flow.
    #[serde(default)]
    pub frames_reordered: u64,
    /// The most frames of one flow.
    #[serde(default)]
    pub frames_offered_max: u64,
    /// The most frames that one flow lost.
    pub frames_lost_max: u64,
}

/// A volume a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Million frames a second.
    pub mpps: f64,
    /// Gigabits a second with FCS.
    pub gbps_l2: f64,
    /// Gigabits a second with FCS, preamble and gap.
    #[serde(default)]
    pub gbps_l1: f64,
}

/// What was made of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayStats {
    /// Packets that are sent each time.
    pub packets: u64,
    /// Packets that the filter left out.
    pub filtered: u64,
    /// Packets that were too large.
    pub oversize: u64,
    /// Packets of which not all bytes were captured, sent or not.
    pub truncated: u64,
    /// Packets that were too short for Ethernet and got padding.
    pub padded: u64,
    /// Packets with an earlier stamp than one before; they are due with that one.
    pub backward: u64,
    /// Packets of links that are not replayed: neither Ethernet nor one of those that carry IP without it.
    pub other_links: u64,
    /// The file ended in the middle of a packet, or what followed could not be read: 1.
    pub incomplete: u64,
    /// Packets that were recorded with an FCS, which was removed, sent or not.
    #[serde(default)]
    pub fcs_removed: u64,
    /// Packets with more bytes recorded than the packet's length, which were removed, sent or not.
    #[serde(default)]
    pub clipped: u64,
    /// Packets of links without an Ethernet header, which got one.
    #[serde(default)]
    pub header_made: u64,
    /// How long the capture lasts by its stamps, in nanoseconds.
    #[serde(default)]
    pub length_ns: u64,
    /// Packets that were sent before the measurement.
    #[serde(default)]
    pub sent_before: u64,
    /// Packets that were not sent by the end of the measurement, of all times that the capture is sent. Of a capture that is
    /// sent without end, those of the first time.
    #[serde(default)]
    pub not_sent: u64,
}
