//! What moves between a server in node 0, or behind it, and its client in node 1, by what it is known on the cable between both nodes, and how
//! much has moved.

use doorbell_machine::{Carried, Network};
use doorbell_results::Protocol;
use doorbell_sim::stats::Stats;

use crate::figures::nic_totals::{NicTotals, port_totals};
use crate::plan::counting::Counting;
use crate::ratio::per;
use crate::testbed::ramp::RunUp;
use crate::window::interval::Interval;

/// More segments than these are not of the talk before a test, which has some five to a connection.
const TALK_SEGMENTS_MAX: u64 = 200;

/// What moves, and by what it is known.
pub(crate) struct Load {
    /// The program's name.
    pub program: &'static str,
    /// What moves, in its words.
    pub name: String,
    /// Transactions that are always under way, or streams.
    pub connections: u32,
    /// For each connection so many requests at once.
    pub depth: u32,
    /// What begins it. What is counted there are data: the stream, or answers.
    pub start: RunUp,
    /// By what they go. It decides what is known to have come to its goal.
    pub protocol: Protocol,
    /// Whether the measurement is stopped on its way, to show it over time: that cuts blocks of a functional drive node's code.
    pub in_parts: bool,
    /// What is counted, where it is transactions.
    pub transaction: Option<Transaction>,
    /// What the program says of its failure on the client's console.
    pub failure: fn(&str) -> Option<String>,
    /// What counts at the server the frames that it watches, if something does.
    pub counting: Option<&'static Counting>,
    /// The ports of the servers of each core, by core, if there are several.
    pub servers: Vec<Vec<u16>>,
}

/// By what a transaction is known: so many bytes that a node sends for each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transaction {
    pub node: usize,
    pub bytes: u64,
}

/// More segments than a connection's beginning has, however many there are.
pub(crate) fn is_more_than_talk(carried: &Carried) -> bool {
    carried.tcp_segments + carried.udp_datagrams > TALK_SEGMENTS_MAX
}

impl Load {
    /// The node that sends the stream, or answers.
    pub fn data(&self) -> usize {
        self.start.counted
    }

    /// What has come to its goal: what TCP acknowledges, or the frames' share of datagrams that were not lost.
    pub fn moved(&self, sides: &[Side; 2]) -> Moved {
        let arrived = |side: &Side| match self.protocol {
            Protocol::Tcp => side.carried.tcp_acknowledged,
            Protocol::Udp => {
                let accepted = side.frames.saturating_sub(side.lost) as f64 / side.frames.max(1) as f64;
                (side.carried.udp_payload as f64 * accepted) as u64
            }
        };
        let of =
            |transaction: Transaction| arrived(&sides[transaction.node]) as f64 / transaction.bytes as f64;
        Moved { bytes: arrived(&sides[self.data()]), transactions: self.transaction.map_or(0.0, of) }
    }

    /// By Little's law.
    pub fn round_trip_us(&self, per_second: f64) -> Option<f64> {
        (per_second > 0.0).then(|| f64::from(self.connections * self.depth) * 1e6 / per_second)
    }
}

/// What a node has sent: its flows, its frames, and how many of these did not come in.
pub(crate) struct Side {
    pub carried: Carried,
    frames: u64,
    lost: u64,
}

impl Side {
    /// Both, up to now.
    pub fn both(network: &Network) -> [Side; 2] {
        let carried = network.carried(0).expect("its flows are followed");
        let wires = network.wires();
        let dropped = |node| port_totals(network.node(node))[0].since(&NicTotals::default()).at_nics();
        [0, 1].map(|node| {
            let link = network.link(&wires[node]).stats();
            let lost = link.lost + dropped(1 - node);
            Side { carried: carried[node].clone(), frames: link.frames, lost }
        })
    }

    /// Both, in an interval.
    pub fn both_in(interval: &Interval) -> [Side; 2] {
        let carried = interval.carried.as_ref().expect("its flows are followed");
        Self::of(interval, carried)
    }

    /// What some ports of node 0's have of an interval; of frames that were lost it is not known whose they were, so all have the same share of them.
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

/// What has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Moved {
    /// Bytes of payload that have come to their goal.
    pub bytes: u64,
    /// Transactions, parts of them included.
    pub transactions: f64,
}

impl Moved {
    /// What has moved since then.
    pub fn since(&self, then: &Moved) -> Moved {
        // Of datagrams the share that is taken for lost may grow a little.
        Moved {
            bytes: self.bytes.saturating_sub(then.bytes),
            transactions: self.transactions - then.transactions,
        }
    }

    /// Of bytes that took so many seconds.
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
    fn in_no_time_nothing_moves() {
        assert_eq!(Moved { bytes: 5, transactions: 1.0 }.gbps(0.0), 0.0);
    }

    #[test]
    fn of_datagrams_what_was_lost_has_not_come_to_its_goal() {
        let of = |protocol, lost| {
            let carried = Carried { udp_payload: 4000, tcp_acknowledged: 3000, ..Carried::default() };
            let side = |lost| Side { carried: carried.clone(), frames: 8, lost };
            let load = IperfConfig { protocol, ..IperfConfig::default() }.load();
            load.moved(&[side(0), side(lost)]).bytes
        };
        assert_eq!([0, 2, 9].map(|lost| of(Protocol::Udp, lost)), [4000, 3000, 0]);
        assert_eq!(of(Protocol::Tcp, 2), 3000);
    }
}
