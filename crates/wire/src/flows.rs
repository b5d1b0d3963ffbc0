//! Counters of TCP (RFC 9293) and UDP (RFC 768) traffic on a cable, from observed frames. Bytes acknowledged
//! by a receiver have reached it in order and exactly once, regardless of retransmissions, so they are the
//! goodput of a stream. A FIN counts as one byte, as in TCP sequence numbers. Only IPv4 is counted, and no
//! fragments.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use doorbell_sim::Frame;
use etherparse::{Ipv4HeaderSlice, NetSlice, SlicedPacket, TcpSlice, TransportSlice};

use crate::headers::udp;

doorbell_sim::stats! {
    /// Traffic sent by one side.
    pub struct Carried {
        /// TCP segments with data.
        tcp_segments,
        /// Bytes of TCP payload, retransmissions included.
        tcp_payload,
        /// Bytes of TCP payload that the other side has acknowledged.
        tcp_acknowledged,
        /// UDP datagrams.
        udp_datagrams,
        /// Bytes of UDP payload.
        udp_payload,
    }
}

/// A flow direction: sending side, addresses and ports.
type Flow = (usize, Ipv4Addr, Ipv4Addr, u16, u16);

/// Counters of a cable with two sides, 0 and 1.
#[derive(Clone, Debug, Default)]
pub struct FlowCounters {
    /// Traffic sent by each side.
    pub carried: [Carried; 2],
    /// Traffic of individual ports of side 0.
    pub by_port: BTreeMap<u16, [Carried; 2]>,
    /// Last acknowledgement number of each flow.
    acknowledged: BTreeMap<Flow, u32>,
}

impl FlowCounters {
    /// Also counts the traffic from and to these ports of side 0 individually.
    pub fn watch_ports(&mut self, ports: impl IntoIterator<Item = u16>) {
        for port in ports {
            self.by_port.entry(port).or_default();
        }
    }

    /// Adds to all counters of a flow; `ports` are source and destination.
    fn count(&mut self, from: usize, ports: [u16; 2], add: impl Fn(&mut [Carried; 2])) {
        add(&mut self.carried);
        if let Some(own) = self.by_port.get_mut(&ports[from]) {
            add(own);
        }
    }

    /// Counts a frame sent by side `from` (0 or 1).
    pub fn take(&mut self, from: usize, frame: &Frame) {
        let Ok(packet) = SlicedPacket::from_ethernet(&frame.bytes) else { return };
        let Some(NetSlice::Ipv4(ip)) = &packet.net else { return };
        match &packet.transport {
            Some(TransportSlice::Udp(datagram)) if udp::length_is_right(datagram) => {
                let ports = [datagram.source_port(), datagram.destination_port()];
                let payload = datagram.payload().len() as u64;
                self.count(from, ports, |sides| {
                    sides[from].udp_datagrams += 1;
                    sides[from].udp_payload += payload;
                });
            }
            Some(TransportSlice::Tcp(segment)) => self.take_segment(from, &ip.header(), segment),
            _ => {}
        }
    }

    fn take_segment(&mut self, from: usize, ip: &Ipv4HeaderSlice, segment: &TcpSlice) {
        let payload = segment.payload().len() as u64;
        let ports = [segment.source_port(), segment.destination_port()];
        self.count(from, ports, |sides| {
            sides[from].tcp_segments += u64::from(payload > 0);
            sides[from].tcp_payload += payload;
        });
        if !segment.ack() {
            return;
        }
        let flow = (from, ip.source_addr(), ip.destination_addr(), ports[0], ports[1]);
        let number = segment.acknowledgment_number();
        let begins = segment.syn();
        let last = self.acknowledged.entry(flow).or_insert(number);
        let advance = number.wrapping_sub(*last);
        if begins {
            *last = number;
        } else if advance < 1 << 31 {
            *last = number;
            self.count(from, ports, |sides| sides[1 - from].tcp_acknowledged += u64::from(advance));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    const ENDS: [[u8; 4]; 2] = [[10, 0, 0, 2], [10, 0, 0, 3]];

    /// A TCP segment of side `from`.
    fn segment(from: usize, syn: bool, acknowledgement: u32, payload: usize) -> Frame {
        let packet = PacketBuilder::ethernet2([0; 6], [0; 6])
            .ipv4(ENDS[from], ENDS[1 - from], 64)
            .tcp(1, 2, 0, 1)
            .ack(acknowledgement);
        let packet = if syn { packet.syn() } else { packet };
        let mut bytes = Vec::new();
        packet.write(&mut bytes, &vec![0; payload]).unwrap();
        // Ethernet padding, not part of the packet.
        bytes.resize(bytes.len().max(60), 0xee);
        Frame::new(bytes)
    }

    #[test]
    fn acknowledged_bytes_count_once_and_across_wraparound() {
        let mut counters = FlowCounters::default();
        let start = u32::MAX - 999;
        counters.take(1, &segment(1, true, start, 0));
        for _ in 0..2 {
            counters.take(0, &segment(0, false, 77, 1448));
            counters.take(1, &segment(1, false, start.wrapping_add(1448), 0));
        }
        // A stale acknowledgement that was overtaken.
        counters.take(1, &segment(1, false, start.wrapping_add(100), 0));
        let [data, answers] = &counters.carried;
        assert_eq!((data.tcp_segments, data.tcp_payload, data.tcp_acknowledged), (2, 2896, 1448));
        assert_eq!((answers.tcp_segments, answers.tcp_payload, answers.tcp_acknowledged), (0, 0, 0));
        // A new connection on the same ports has different sequence numbers.
        counters.take(1, &segment(1, true, 500, 0));
        counters.take(1, &segment(1, false, 510, 0));
        assert_eq!(counters.carried[0].tcp_acknowledged, 1458);
    }

    #[test]
    fn watched_port_counts_both_directions_of_side_0_only() {
        let mut counters = FlowCounters::default();
        counters.watch_ports([1, 7]);
        // All segments are from port 1 to port 2, so only side 0's segments count for its port 1.
        counters.take(0, &segment(0, false, 10, 100));
        counters.take(1, &segment(1, false, 20, 50));
        counters.take(0, &segment(0, false, 60, 0));
        assert_eq!(counters.carried.each_ref().map(|side| side.tcp_payload), [100, 50]);
        let own = &counters.by_port[&1];
        assert_eq!((own[0].tcp_payload, own[1].tcp_payload, own[1].tcp_acknowledged), (100, 0, 50));
        assert_eq!(counters.by_port[&7], [Carried::default(), Carried::default()]);
        assert!(!counters.by_port.contains_key(&2));
    }

    /// A UDP datagram of side 0 with ten bytes, behind `tags` VLAN tags.
    fn datagram(tags: usize) -> Vec<u8> {
        let packet = PacketBuilder::ipv4(ENDS[0], ENDS[1], 64).udp(1, 2);
        let mut bytes = vec![0; 12];
        (0..tags).for_each(|_| bytes.extend([0x81, 0x00, 0, 5]));
        bytes.extend([0x08, 0x00]);
        packet.write(&mut bytes, &[0; 10]).unwrap();
        bytes
    }

    fn udp_of(bytes: Vec<u8>) -> (u64, u64) {
        let mut counters = FlowCounters::default();
        counters.take(0, &Frame::new(bytes));
        (counters.carried[0].udp_datagrams, counters.carried[0].udp_payload)
    }

    #[test]
    fn datagrams_behind_tags_count_and_fragments_do_not() {
        const IP_AT: usize = 14;
        for tags in 0..3 {
            assert_eq!(udp_of(datagram(tags)), (1, 10), "{tags} tags");
        }
        for offset_and_flags in [[0x20, 0], [0, 1]] {
            let mut fragment = datagram(0);
            fragment[IP_AT + 6..IP_AT + 8].copy_from_slice(&offset_and_flags);
            assert_eq!(udp_of(fragment), (0, 0));
        }
        let mut without_length = datagram(0);
        without_length[IP_AT + 24..IP_AT + 26].fill(0);
        assert_eq!(udp_of(without_length), (0, 0));
    }

    #[test]
    fn other_frames_are_ignored() {
        let mut counters = FlowCounters::default();
        for bytes in [vec![], vec![0xff; 13], vec![0x08; 60]] {
            counters.take(0, &Frame::new(bytes));
        }
        assert_eq!(counters.carried, [Carried::default(), Carried::default()]);
    }
}
