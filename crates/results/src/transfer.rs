//! What benchmarks have that move bytes or transactions between two nodes: iperf, netperf, redis, web.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::iperf::Direction;

/// What moved between two nodes in a measurement, and how it went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TransferFigures {
    /// What moved, as the program has it: netperf's `TCP_RR`, redis' `GET`.
    pub load: String,
    /// Connections side by side.
    pub connections: u32,
    /// Bytes of payload that were sent, of the stream or of responses, as they went over the cable, what TCP sent again among them.
    pub bytes_sent: u64,
    /// Of these what arrived: what TCP acknowledged, each byte once, or of datagrams the share of the frames that the receiver's NIC accepted.
    /// Of a whole test of a stream, as its program says.
    pub bytes_received: u64,
    /// How long it was measured; of a whole test, as its program says.
    pub seconds: f64,
    /// Payload that arrived, in bits a second, in units of 10⁹; `null` of requests and responses.
    #[serde(default)]
    pub goodput_gbps: Option<f64>,
    /// Transactions: requests with their responses; `null` of a stream.
    #[serde(default)]
    pub transactions: Option<u64>,
    /// The same a second.
    #[serde(default)]
    pub transactions_per_second: Option<f64>,
    /// The mean of a transaction's time in microseconds: so many are always under way.
    #[serde(default)]
    pub round_trip_us: Option<f64>,
    /// What the program itself finds of a whole test, by its own names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub said: BTreeMap<String, String>,
    /// From the server to the client.
    pub wire_to_client: Direction,
    /// From the client to the server.
    pub wire_to_server: Direction,
    /// Frames that the NICs dropped on arrival for whatever reason: server's, client's.
    pub nic_drops: [u64; 2],
    /// Instructions retired: server's node, client's node.
    pub node_instructions: [u64; 2],
    /// Share of the measured time in which the test node's cores had nothing to do (WFI).
    pub test_idle: f64,
    /// The same of the drive node, which must not be what limits the transfer.
    pub drive_idle: f64,
    /// The same of each node's core that had least rest: one that has none limits, whatever the others do.
    #[serde(default)]
    pub test_least_idle: Option<f64>,
    /// The same of the drive node.
    #[serde(default)]
    pub drive_least_idle: Option<f64>,
    /// The server behind a gateway, if that is what is tested: `wire_to_server` then ends at the gateway, and so do the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<Behind>,
    /// Of servers on several cores, what each moved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<TransferCore>,
    /// What an intrusion detection system saw of it that watches the test node's port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched: Option<WatchedFigures>,
    /// How it came to its pace and kept it: from when the test node's caches begin to warm up to the end of the measurement.
    pub over_time: Vec<TransferPart>,
    /// The measurement's samples, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<Samples>,
}

impl TransferFigures {
    /// Which of the nodes that drive had the core with least rest, and the share of the time in which that had.
    pub fn busiest_drive(&self) -> (&'static str, f64) {
        let drive = self.drive_least_idle.unwrap_or(self.drive_idle);
        match &self.behind {
            Some(server) if server.least_idle() < drive => ("server behind the gateway", server.least_idle()),
            _ => ("drive node", drive),
        }
    }

    /// The same of the test node.
    pub fn busiest_test(&self) -> f64 {
        self.test_least_idle.unwrap_or(self.test_idle)
    }
}

/// A server behind a gateway, on a cable of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Behind {
    /// From the gateway to the server.
    pub wire_to_server: Direction,
    /// From the server to the gateway.
    pub wire_to_gateway: Direction,
    /// Frames that NICs dropped on arrival from this cable: the server's, and the gateway's second.
    pub nic_drops: [u64; 2],
    /// Instructions that the server's node retired.
    pub instructions: u64,
    /// Share of the measured time in which its cores had nothing to do.
    pub idle: f64,
    /// The same of the core that had least rest.
    #[serde(default)]
    pub least_idle: Option<f64>,
}

impl Behind {
    fn least_idle(&self) -> f64 {
        self.least_idle.unwrap_or(self.idle)
    }
}

/// What one of several cores moved, each of which has servers and a queue of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TransferCore {
    /// Its hart, and the number of its queue.
    pub core: u32,
    /// The ports of TCP or UDP of its servers.
    pub ports: Vec<u16>,
    /// As of all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_gbps: Option<f64>,
    /// As of all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions_per_second: Option<f64>,
    /// Frames that its queue received.
    pub queue_received: u64,
}

/// What a program saw of a transfer that watches a copy of what comes to the test node and leaves it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedFigures {
    /// The program.
    pub program: String,
    /// Frames that the kernel had a copy of for it: those that came and those that were sent.
    pub frames: u64,
    /// Of these, frames that it saw.
    pub seen: u64,
    /// Of these, frames that the kernel dropped, as the program's ring was full.
    pub dropped: u64,
    /// Rules that matched.
    pub alerts: u64,
}

impl WatchedFigures {
    /// Which share of the frames it saw; none of none.
    pub fn seen_share(&self) -> Option<f64> {
        (self.frames > 0).then(|| self.seen as f64 / self.frames as f64)
    }
}

/// What moved in a part of the time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TransferPart {
    /// `warmup`, `settle` or `measured`.
    pub phase: String,
    /// When it begins, in nanoseconds from the beginning of the warm-up.
    pub begin_ns: f64,
    /// How long it is, in nanoseconds.
    pub length_ns: f64,
    /// Payload that arrived, in bits a second, in units of 10⁹.
    pub gbps: f64,
    /// Transactions a second; `null` of a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions_per_second: Option<f64>,
}

/// Stretches of a measurement, equally long, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// What each has found: `Gbps` of payload, or `transactions/s`.
    pub unit: String,
    /// How long each is, in simulated seconds.
    pub seconds: f64,
    /// By sample.
    pub values: Vec<f64>,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation, of one sample (n − 1).
    pub stddev: f64,
    /// The coefficient of variation: the standard deviation over the mean.
    pub variation: f64,
}

impl Samples {
    /// Of these values; none of fewer than two.
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
    fn samples_vary_by_their_standard_deviation_over_their_mean() {
        let samples = Samples::of("Gbps", 0.01, vec![4.0, 6.0]).unwrap();
        assert_eq!((samples.mean, samples.stddev), (5.0, 2f64.sqrt()));
        assert!((samples.variation - 2f64.sqrt() / 5.0).abs() < 1e-12);
        assert_eq!(Samples::of("Gbps", 0.01, vec![3.0, 3.0, 3.0]).unwrap().variation, 0.0);
        assert_eq!(Samples::of("Gbps", 0.01, vec![0.0, 0.0]).unwrap().variation, 0.0);
        assert_eq!(Samples::of("Gbps", 0.01, vec![1.0]), None);
    }
}
