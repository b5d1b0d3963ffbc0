//! Payload and transactions moved between a server in node 0, or behind it, and its client in node 1, counted on the
//! cable between the two nodes.

use doorbell_machine::{Carried, Network};
use doorbell_results::Protocol;
use doorbell_sim::stats::Stats;

use crate::figures::nic_totals::{NicTotals, port_totals};
use crate::plan::counting::Counting;
use crate::ratio::per;
use crate::testbed::ramp::Ramp;
use crate::window::interval::Interval;

/// A transfer, and how it is counted.
pub(crate) struct Load {
    /// The program's name.
    pub program: &'static str,
    /// Name of the test in the program's terms.
    pub name: String,
    /// Number of connections or streams.
    pub connections: u32,
    /// Outstanding requests per connection.
    pub depth: u32,
    /// Detects the start of the transfer. The node it counts sends the data: the stream, or the responses.
    pub start: Ramp,
    /// Transport protocol. It decides which bytes count as delivered.
    pub protocol: Protocol,
    /// Whether the measurement stops at regular times for samples. A stop splits blocks of a functional drive node's
    /// code.
    pub in_parts: bool,
    /// How transactions are counted; `None` for a stream.
    pub transaction: Option<Transaction>,
    /// Finds the program's error message in the client's console.
    pub failure: fn(&str) -> Option<String>,
    /// The program that counts frames on the server's port, if any.
    pub counting: Option<&'static Counting>,
    /// Ports of the servers on each core, by core, if there are several.
    pub servers: Vec<Vec<u16>>,
}

/// How transactions are counted: the node that sends, and its bytes per transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transaction {
    pub node: usize,
    pub bytes: u64,
}

impl Load {
    /// A stream on one TCP connection, which this ramp starts; it does not end by itself.
    pub fn tcp(program: &'static str, name: String, start: Ramp) -> Load {
        Load {
            program,
            name,
            connections: 1,
            depth: 1,
            start,
            protocol: Protocol::Tcp,
            in_parts: true,
            transaction: None,
            failure: |_| None,
            counting: None,
            servers: Vec::new(),
        }
    }

    /// The node that sends the stream or the responses.
    pub fn data(&self) -> usize {
        self.start.sender
    }

    /// Delivered payload and transactions: bytes acknowledged by TCP, or UDP payload times the share of frames that
    /// were not lost.
    pub fn counts(&self, sides: &[Side; 2]) -> TransferCounts {
        let arrived = |side: &Side| match self.protocol {
            Protocol::Tcp => side.carried.tcp_acknowledged,
            Protocol::Udp => {
                let accepted = side.frames.saturating_sub(side.lost) as f64 / side.frames.max(1) as f64;
                (side.carried.udp_payload as f64 * accepted) as u64
            }
        };
        let of =
            |transaction: Transaction| arrived(&sides[transaction.node]) as f64 / transaction.bytes as f64;
        TransferCounts { bytes: arrived(&sides[self.data()]), transactions: self.transaction.map_or(0.0, of) }
    }

    /// Mean round-trip time by Little's law.
    pub fn round_trip_us(&self, per_second: f64) -> Option<f64> {
        (per_second > 0.0).then(|| f64::from(self.connections * self.depth) * 1e6 / per_second)
    }
}

/// Traffic sent by a node: payload of its flows, frames, and lost frames.
pub(crate) struct Side {
    pub carried: Carried,
    frames: u64,
    lost: u64,
}

impl Side {
    /// Both nodes, up to now.
    pub fn both(network: &Network) -> [Side; 2] {
        let carried = network.carried(0).expect("flows of link 0 are tracked");
        let wires = network.wires();
        let dropped = |node| port_totals(network.node(node))[0].since(&NicTotals::default()).at_nics();
        [0, 1].map(|node| {
            let link = network.link(&wires[node]).stats();
            let lost = link.lost + dropped(1 - node);
            Side { carried: carried[node].clone(), frames: link.frames, lost }
        })
    }

    /// Both nodes, in an interval.
    pub fn both_in(interval: &Interval) -> [Side; 2] {
        let carried = interval.carried.as_ref().expect("flows of link 0 are tracked");
        Self::of(interval, carried)
    }

    /// Both nodes, in an interval, for some ports of node 0. Lost frames cannot be attributed to ports, so all ports
    /// have the same loss rate.
    pub fn both_of(interval: &Interval, ports: &[u16]) -> [Side; 2] {
        let mut sum = [Carried::default(), Carried::default()];
        for own in ports.iter().filter_map(|port| interval.by_port.get(port)) {
            sum.iter_mut().zip(own).for_each(|(sum, own)| *sum = sum.plus(own));
        }
        Self::of(interval, &sum)
    }

    fn of(interval: &Interval, carried: &[Carried; 2]) -> [Side; 2] {
        [0, 1].map(|node| {
            let sent = &interval.sent[node];
            let lost = sent.lost + interval.lost.by_port[1 - node][0].at_nics();
            Side { carried: carried[node].clone(), frames: sent.frames, lost }
        })
    }
}

/// Delivered payload and transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TransferCounts {
    /// Delivered payload bytes.
    pub bytes: u64,
    /// Transactions, including fractions.
    pub transactions: f64,
}

impl TransferCounts {
    /// The change since `then`.
    pub fn since(&self, then: &TransferCounts) -> TransferCounts {
        // The estimated loss rate of datagrams may rise, so that the delivered bytes fall slightly.
        TransferCounts {
            bytes: self.bytes.saturating_sub(then.bytes),
            transactions: self.transactions - then.transactions,
        }
    }

    /// Goodput over a time in seconds.
    pub fn gbps(&self, seconds: f64) -> f64 {
        per(self.bytes as f64 * 8e-9, seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::transfer::Transfers;
    use crate::scenarios::iperf::IperfConfig;

    #[test]
    fn goodput_over_zero_seconds_is_zero() {
        assert_eq!(TransferCounts { bytes: 5, transactions: 1.0 }.gbps(0.0), 0.0);
    }

    #[test]
    fn udp_payload_is_reduced_by_the_share_of_lost_frames() {
        let of = |protocol, lost| {
            let carried = Carried { udp_payload: 4000, tcp_acknowledged: 3000, ..Carried::default() };
            let side = |lost| Side { carried: carried.clone(), frames: 8, lost };
            let load = IperfConfig { protocol, ..IperfConfig::default() }.load();
            load.counts(&[side(0), side(lost)]).bytes
        };
        assert_eq!([0, 2, 9].map(|lost| of(Protocol::Udp, lost)), [4000, 3000, 0]);
        assert_eq!(of(Protocol::Tcp, 2), 3000);
    }
}
