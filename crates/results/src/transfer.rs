//! Figures of benchmarks that transfer data or transactions between nodes, as iperf and nfs do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::iperf::{Direction, TransferTotals};

/// A transfer between two nodes in a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TransferFigures {
    /// The load, in the program's terms: netperf's `TCP_RR`, redis' `GET`.
    pub load: String,
    /// Number of parallel connections.
    pub connections: u32,
    /// The totals.
    #[serde(flatten)]
    pub totals: TransferTotals,
    /// Delivered payload in bits per second, in units of 10⁹; `null` for requests and responses.
    #[serde(default)]
    pub goodput_gbps: Option<f64>,
    /// Transactions (requests with responses); `null` for a stream.
    #[serde(default)]
    pub transactions: Option<u64>,
    /// Transactions per second.
    #[serde(default)]
    pub transactions_per_second: Option<f64>,
    /// Mean time of a transaction in microseconds, from the constant number of transactions in flight.
    #[serde(default)]
    pub round_trip_us: Option<f64>,
    /// The program's own results of a whole test, under its own names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub said: BTreeMap<String, String>,
    /// Share of the measured time in which the test node's cores were idle (WFI).
    pub test_idle: f64,
    /// The same for the drive node, which must not be the bottleneck.
    pub drive_idle: f64,
    /// The same for the test node's least idle core: a core without idle time is a bottleneck.
    #[serde(default)]
    pub test_least_idle: Option<f64>,
    /// The same for the drive node's.
    #[serde(default)]
    pub drive_least_idle: Option<f64>,
    /// The server behind a gateway, if a gateway is tested: `wire_to_server` and the other links then end at
    /// the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<Behind>,
    /// Transfer of each core, for servers on several cores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<TransferCore>,
    /// Figures of an intrusion detection system that monitors the test node's port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched: Option<WatchedFigures>,
    /// The transfer over time, from the start of the test node's cache warm-up to the end of the measurement.
    pub over_time: Vec<TransferPart>,
    /// Samples of the measurement, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<Samples>,
}

impl TransferFigures {
    /// The driving node with the least idle core, and that core's idle share.
    pub fn busiest_drive(&self) -> (&'static str, f64) {
        let drive = self.drive_least_idle.unwrap_or(self.drive_idle);
        match &self.behind {
            Some(server) if server.least_idle() < drive => ("server behind the gateway", server.least_idle()),
            _ => ("drive node", drive),
        }
    }

    /// The idle share of the test node's least idle core.
    pub fn busiest_test(&self) -> f64 {
        self.test_least_idle.unwrap_or(self.test_idle)
    }
}

/// A server behind a gateway, on a separate cable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Behind {
    /// Traffic from the gateway to the server.
    pub wire_to_server: Direction,
    /// Traffic from the server to the gateway.
    pub wire_to_gateway: Direction,
    /// Frames dropped on arrival from this cable: by the server's NIC, and by the gateway's second NIC.
    pub nic_drops: [u64; 2],
    /// Instructions retired by the server's node.
    pub instructions: u64,
    /// Share of the measured time in which its cores were idle.
    pub idle: f64,
    /// The same for its least idle core.
    #[serde(default)]
    pub least_idle: Option<f64>,
}

impl Behind {
    fn least_idle(&self) -> f64 {
        self.least_idle.unwrap_or(self.idle)
    }
}

/// Transfer of one of several cores, each with its own servers and queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TransferCore {
    /// The hart's number, which is also the queue's number.
    pub core: u32,
    /// The TCP or UDP ports of its servers.
    pub ports: Vec<u16>,
    /// Delivered payload in bits per second, in units of 10⁹.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_gbps: Option<f64>,
    /// Transactions per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions_per_second: Option<f64>,
    /// Frames received by its queue.
    pub queue_received: u64,
}

/// Figures of a program that monitors a copy of the test node's traffic in both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedFigures {
    /// The program.
    pub program: String,
    /// Frames that the kernel copied for it: received and sent ones.
    pub frames: u64,
    /// Copied frames that the program processed.
    pub seen: u64,
    /// Copied frames that the kernel dropped because the program's ring was full.
    pub dropped: u64,
    /// Number of rule matches.
    pub alerts: u64,
}

impl WatchedFigures {
    /// Share of the frames that the program processed; `None` if there were none.
    pub fn seen_share(&self) -> Option<f64> {
        (self.frames > 0).then(|| self.seen as f64 / self.frames as f64)
    }
}

/// The transfer in a part of the time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TransferPart {
    /// `warmup`, `settle` or `measured`.
    pub phase: String,
    /// Start of the part, in nanoseconds from the start of the warm-up.
    pub begin_ns: f64,
    /// Length of the part, in nanoseconds.
    pub length_ns: f64,
    /// Delivered payload in bits per second, in units of 10⁹.
    pub gbps: f64,
    /// Transactions per second; `null` for a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions_per_second: Option<f64>,
}

/// Consecutive intervals of a measurement, of equal length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// Unit of the values: `Gbps` of payload, or `transactions/s`.
    pub unit: String,
    /// Length of each sample in simulated seconds.
    pub seconds: f64,
    /// The value of each sample.
    pub values: Vec<f64>,
    /// Their mean.
    pub mean: f64,
    /// Their sample standard deviation (n − 1).
    pub stddev: f64,
    /// The coefficient of variation: the standard deviation over the mean.
    pub variation: f64,
}

impl Samples {
    /// Statistics of these values; `None` for fewer than two.
    pub fn of(unit: &str, seconds: f64, values: Vec<f64>) -> Option<Samples> {
        if values.len() < 2 {
            return None;
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let stddev = (squares / (n - 1.0)).sqrt();
        let variation = if mean == 0.0 { 0.0 } else { stddev / mean };
        Some(Samples { unit: unit.to_owned(), seconds, values, mean, stddev, variation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coefficient_of_variation_is_the_standard_deviation_over_the_mean() {
        let samples = Samples::of("Gbps", 0.01, vec![4.0, 6.0]).unwrap();
        assert_eq!((samples.mean, samples.stddev), (5.0, 2f64.sqrt()));
        assert!((samples.variation - 2f64.sqrt() / 5.0).abs() < 1e-12);
        assert_eq!(Samples::of("Gbps", 0.01, vec![3.0, 3.0, 3.0]).unwrap().variation, 0.0);
        assert_eq!(Samples::of("Gbps", 0.01, vec![0.0, 0.0]).unwrap().variation, 0.0);
        assert_eq!(Samples::of("Gbps", 0.01, vec![1.0]), None);
    }
}
