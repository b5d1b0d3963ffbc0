//! What main memory did over the time of a measurement.

use serde::{Deserialize, Serialize};

/// What one channel did in a part of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryPart {
    /// When the part begins, in nanoseconds from the measurement's beginning.
    pub begin_ns: f64,
    /// How long it is, in nanoseconds.
    pub length_ns: f64,
    /// The channel's number.
    pub channel: u64,
    /// Gbps read from its devices.
    pub read_gbps: f64,
    /// Gbps written to its devices.
    pub write_gbps: f64,
    /// The loaded latency: the mean of its reads in nanoseconds, from the controller's port and back; `null` if there were none.
    pub read_latency_ns: Option<f64>,
}
