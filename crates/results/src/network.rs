//! Figures of the members of a network in a measurement, hop by hop.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::drops::Drops;
use crate::functions::FunctionCost;
use crate::iperf::Direction;
use crate::kinds::KindFigures;
use crate::latency::{BatchSummary, Confidence, LatencySummary};
use crate::number::or_nan;
use crate::ports::PortFigures;
use crate::streams::{StreamSummary, Throughput};
use crate::timing::{CoreFigures, TimingFigures};

/// A network's figures, by the names of its members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkFigures {
    /// Its machines.
    pub nodes: BTreeMap<String, NodeFigures>,
    /// Each direction of each cable, by the cable's name and its two ends: "uplink: tor > server".
    pub hops: BTreeMap<String, HopFigures>,
    /// Its switches.
    pub switches: BTreeMap<String, SwitchFigures>,
    /// Its load generators.
    pub generators: BTreeMap<String, GeneratorFigures>,
}

/// A machine's figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeFigures {
    /// Instructions retired in the measurement.
    pub instructions: u64,
    /// Instructions per core cycle, including waiting.
    #[serde(deserialize_with = "or_nan")]
    pub ipc: f64,
    /// Frames that its NICs dropped, by cause.
    pub drops: Drops,
    /// Counters of each port.
    pub ports: Vec<PortFigures>,
    /// Timing figures, if the node is timed; a packet is a frame that its NICs accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<TimingFigures>,
    /// Figures of each core, if the node is timed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<CoreFigures>,
    /// The most expensive functions, if they were requested and the node is timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub functions: Option<Vec<FunctionCost>>,
    /// CPU time by kind, likewise; delivered frames are those that its NICs accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<KindFigures>,
}

/// One direction of a cable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HopFigures {
    /// The traffic sent.
    #[serde(flatten)]
    pub sent: Direction,
    /// Bits per second at layer 2 (with FCS), in units of 10⁹.
    #[serde(deserialize_with = "or_nan")]
    pub gbps: f64,
    /// Utilisation of the link, including preambles and gaps.
    #[serde(deserialize_with = "or_nan")]
    pub busy: f64,
    /// Time from a frame's last bit sent to its last bit received, in nanoseconds.
    pub latency_ns: f64,
}

/// A switch's figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SwitchFigures {
    /// Frames that arrived.
    pub arrived: u64,
    /// Frames forwarded to the one port of their destination.
    pub forwarded: u64,
    /// Frames sent to all other ports.
    pub flooded: u64,
    /// Frames whose destination is on their input port.
    pub filtered: u64,
    /// Frames to addresses that bridges do not forward, including PAUSE frames.
    pub reserved: u64,
    /// Frames dropped for a bad FCS.
    pub bad_fcs: u64,
    /// Stations learned, or moved to another port.
    pub learned: u64,
    /// Stations not learned because the table was full.
    pub not_learned: u64,
    /// Figures of each output, by cable.
    pub outputs: BTreeMap<String, OutputFigures>,
}

/// Traffic that left a switch by one cable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutputFigures {
    /// Frames put into the queue.
    pub queued: u64,
    /// Their bytes, with FCS.
    pub queued_bytes: u64,
    /// Frames dropped because the queue was full.
    pub dropped: u64,
    /// Their bytes, with FCS.
    pub dropped_bytes: u64,
    /// The largest fill level of the queue, in bytes.
    pub deepest: u64,
    /// Time from a frame's last bit received to its last bit sent, in nanoseconds; `null` if no frame left.
    pub residence_ns: Option<LatencySummary>,
}

/// A load generator's figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GeneratorFigures {
    /// The configured rate.
    pub rate: String,
    /// Sent and returned traffic.
    #[serde(flatten)]
    pub summary: WindowSummary,
}

/// Figures of a measurement window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowSummary {
    /// Length of the window in simulated seconds.
    pub seconds: f64,
    /// Frames whose first bit was sent in the window.
    pub frames_offered: u64,
    /// Offered frames that came back intact.
    pub frames_delivered: u64,
    /// Offered frames that came back with an unexpected change.
    pub frames_corrupt: u64,
    /// Offered frames that did not come back: offered − delivered − corrupt.
    pub frames_lost: u64,
    /// Lost requests that were given up after `timeout` because others waited.
    pub frames_timed_out: u64,
    /// Lost frames that may still come back. If not zero, the figures are preliminary.
    pub frames_outstanding: u64,
    /// Frames that came back intact in the window, whenever they were sent.
    pub frames_arrived: u64,
    /// Frames that came back in the window more than once.
    pub frames_duplicate: u64,
    /// Intact frames that arrived in the window after a frame that was sent later (RFC 4737 §3.4).
    pub frames_reordered: u64,
    /// Frames that arrived in the window but were not sent by any generator.
    pub frames_foreign: u64,
    /// Frames that arrived in the window too late to be matched with a sent frame.
    pub frames_late: u64,
    /// Lost and corrupt frames as a share of the offered frames: 1 − delivered / offered.
    pub drop_rate: f64,
    /// The offered frames over the length of the window.
    pub offered: Throughput,
    /// The delivered frames over the length of the window: offered × (1 − drop rate).
    pub delivered: Throughput,
    /// The arrived frames over the length of the window.
    pub arrived: Throughput,
    /// The longest delay between a frame's due time and its transmission: large when the rate exceeds the
    /// link's capacity.
    pub send_lag_ns_max: f64,
    /// Round trips, free of coordinated omission: from the time a frame was due to the time its last bit is
    /// back. `None` if no frame was delivered.
    pub latency_ns: Option<LatencySummary>,
    /// Round trips from the time the first bit was sent.
    pub latency_from_actual_ns: Option<LatencySummary>,
    /// Difference between the round trips of two consecutive returned frames (RFC 3393: the absolute IP
    /// packet delay variation, jitter).
    pub delay_variation_ns: Option<LatencySummary>,
    /// Confidence intervals; `None` for windows that are too short.
    pub confidence_95: Option<Confidence>,
    /// The window in parts of equal length.
    pub batches: Vec<BatchSummary>,
    /// The same by stream, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamSummary>,
}
