//! What the members of a network did in a measurement, hop by hop.

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
    /// Each direction of each cable, by the cable's name and the two that it joins: "uplink: tor > server".
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
    /// Instructions a core cycle, waiting included.
    #[serde(deserialize_with = "or_nan")]
    pub ipc: f64,
    /// Frames that its NICs dropped, by cause.
    pub drops: Drops,
    /// What each port counted.
    pub ports: Vec<PortFigures>,
    /// What its timing models say, if it is timed; a packet there is a frame that its NICs accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<TimingFigures>,
    /// What each core did, if it is timed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<CoreFigures>,
    /// Its most expensive functions, if they were asked for and it is timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub functions: Option<Vec<FunctionCost>>,
    /// Its CPU time by kind, likewise; what is delivered there is what its NICs accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<KindFigures>,
}

/// One direction of a cable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HopFigures {
    /// What was sent.
    #[serde(flatten)]
    pub sent: Direction,
    /// Bits a second at layer 2 (with FCS), in units of 10⁹.
    #[serde(deserialize_with = "or_nan")]
    pub gbps: f64,
    /// The share of time in which the link was busy, preambles and gaps included.
    #[serde(deserialize_with = "or_nan")]
    pub busy: f64,
    /// From a frame's last bit out to its last bit in, in nanoseconds.
    pub latency_ns: f64,
}

/// A switch's figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SwitchFigures {
    /// Frames that arrived.
    pub arrived: u64,
    /// Frames sent on to the one port behind which their destination is.
    pub forwarded: u64,
    /// Frames sent on to all other ports.
    pub flooded: u64,
    /// Frames whose destination is behind the port by which they came.
    pub filtered: u64,
    /// Frames to addresses that no bridge passes on, PAUSE frames among them.
    pub reserved: u64,
    /// Frames dropped for a bad FCS.
    pub bad_fcs: u64,
    /// Stations learned, or found behind another port.
    pub learned: u64,
    /// Stations not learned since the table was full.
    pub not_learned: u64,
    /// Its outputs, by their cables.
    pub outputs: BTreeMap<String, OutputFigures>,
}

/// What left a switch by one cable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutputFigures {
    /// Frames put into the queue.
    pub queued: u64,
    /// Their bytes, with FCS.
    pub queued_bytes: u64,
    /// Frames dropped since the queue was full.
    pub dropped: u64,
    /// Their bytes, with FCS.
    pub dropped_bytes: u64,
    /// The most bytes that waited at a time.
    pub deepest: u64,
    /// From a frame's last bit in to its last bit out, in nanoseconds; `null` if none left.
    pub residence_ns: Option<LatencySummary>,
}

/// A load generator's figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GeneratorFigures {
    /// The rate that it was to send at.
    pub rate: String,
    /// What it sent and what came back.
    #[serde(flatten)]
    pub summary: WindowSummary,
}

/// Figures of a window for a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowSummary {
    /// Length of the window in simulated seconds.
    pub seconds: f64,
    /// Frames whose first bit left in the window.
    pub frames_offered: u64,
    /// Of these, those that came back unharmed.
    pub frames_delivered: u64,
    /// Of these, those that came back with a byte changed that should not be.
    pub frames_corrupt: u64,
    /// Of these, those that have not come back: offered − delivered − corrupt.
    pub frames_lost: u64,
    /// Of the lost, requests that were given up because others waited and `timeout` had passed.
    pub frames_timed_out: u64,
    /// Of the lost, those that may still come back. Not zero means that the figures are preliminary.
    pub frames_outstanding: u64,
    /// Frames that came back unharmed in the window, whenever they were sent.
    pub frames_arrived: u64,
    /// Frames that came back in the window though they had before.
    pub frames_duplicate: u64,
    /// Unharmed frames that arrived in the window after one that was sent later (RFC 4737 §3.4).
    pub frames_reordered: u64,
    /// Frames that arrived in the window and that no generator had sent.
    pub frames_foreign: u64,
    /// Frames that arrived in the window too long after they were sent to be remembered.
    pub frames_late: u64,
    /// Lost and corrupt frames as a share of the offered: 1 − delivered / offered.
    pub drop_rate: f64,
    /// The offered frames over the length of the window.
    pub offered: Throughput,
    /// The delivered frames over the length of the window: offered × (1 − drop rate).
    pub delivered: Throughput,
    /// The arrived frames over the length of the window.
    pub arrived: Throughput,
    /// By how much a frame left after it was due, at most: large when the rate exceeds what the link carries.
    pub send_lag_ns_max: f64,
    /// Round trips from the time a frame was due: free of coordinated omission. From there to the time the
    /// frame's last bit is back. `None` if no frame was delivered.
    pub latency_ns: Option<LatencySummary>,
    /// Round trips from the time the first bit left.
    pub latency_from_actual_ns: Option<LatencySummary>,
    /// By how much the round trips of two frames differ that came back one after the other (RFC 3393: the size of the
    /// IP packet delay variation, jitter).
    pub delay_variation_ns: Option<LatencySummary>,
    /// How far the figures can be trusted; `None` for windows too short to say.
    pub confidence_95: Option<Confidence>,
    /// The window in parts of equal length.
    pub batches: Vec<BatchSummary>,
    /// The same by stream, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamSummary>,
}
