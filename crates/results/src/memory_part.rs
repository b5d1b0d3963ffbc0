//! Main memory activity over the time of a measurement.

use serde::{Deserialize, Serialize};

/// Activity of one channel in a part of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryPart {
    /// Start of the part, in nanoseconds from the start of the measurement.
    pub begin_ns: f64,
    /// Length of the part, in nanoseconds.
    pub length_ns: f64,
    /// The channel's number.
    pub channel: u64,
    /// Read throughput of its DRAM devices in Gbps.
    pub read_gbps: f64,
    /// Write throughput of its DRAM devices in Gbps.
    pub write_gbps: f64,
    /// Loaded latency: the mean of its reads in nanoseconds, from the controller's port and back; `null` if
    /// there were none.
    pub read_latency_ns: Option<f64>,
}
