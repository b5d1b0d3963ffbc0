//! What TCP (RFC 9293) and UDP (RFC 768) carry over a cable, as somebody sees it who looks at its frames. What the other side
//! acknowledges has reached its TCP, in order and once, however often it was sent: that is what a stream delivers. The end of
//! a connection counts as one byte, as in TCP's numbers. Only IPv4 without VLAN tags is looked at, and no fragment but the
//! first is counted.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use doorbell_sim::Frame;

use crate::{EtherType, Ethernet, Ipv4, Ipv4Repr, Tcp, TcpRepr, Udp};

doorbell_sim::stats! {
    /// What one side has sent.
    pub struct Carried {
        /// TCP segments that hold data.
        tcp_segments,
        /// Bytes of TCP payload, what was sent again among them.
        tcp_payload,
        /// Bytes of TCP payload whose receipt the other side has acknowledged.
        tcp_acknowledged,
        /// UDP datagrams.
        udp_datagrams,
        /// Bytes of UDP payload.
        udp_payload,
    }
}

/// Who sends to whom: the side, addresses and ports.
type Flow = (usize, Ipv4Addr, Ipv4Addr, u16, u16);

/// The flows on a cable with two sides, 0 and 1.
#[derive(Clone, Debug, Default)]
pub struct FlowBook {
    /// What each side has sent.
    pub carried: [Carried; 2],
    /// The same of some ports of side 0, each by itself.
    pub of_ports: BTreeMap<u16, [Carried; 2]>,
    /// The last number that each flow has acknowledged.
    acknowledged: BTreeMap<Flow, u32>,
}

impl FlowBook {
    /// From now on counts what goes from and to these ports of side 0 by itself, too.
    pub fn watch_ports(&mut self, ports: impl IntoIterator<Item = u16>) {
        for port in ports {
            self.of_ports.entry(port).or_default();
        }
    }

    /// Counts in all books that a flow belongs to, whose ports are those of the sender and of the receiver.
    fn count(&mut self, from: usize, ports: [u16; 2], add: impl Fn(&mut [Carried; 2])) {
        add(&mut self.carried);
        if let Some(own) = self.of_ports.get_mut(&ports[from]) {
            add(own);
        }
    }

    /// Side `from` (0 or 1) has sent a frame.
    pub fn take(&mut self, from: usize, frame: &Frame) {
        let Ok(ethernet) = Ethernet::new_checked(&frame.bytes[..]) else { return };
        if ethernet.ethertype() != EtherType::IPV4 {
            return;
        }
        let Ok(packet) = Ipv4::new_checked(ethernet.payload()) else { return };
        match packet.protocol() {
            Ipv4Repr::UDP => {
                if let Ok(datagram) = Udp::new_checked(packet.payload()) {
                    let (ports, payload) = (
                        [datagram.source_port(), datagram.destination_port()],
                        datagram.payload().len() as u64,
                    );
                    self.count(from, ports, |sides| {
                        sides[from].udp_datagrams += 1;
                        sides[from].udp_payload += payload;
                    });
                }
            }
            TcpRepr::PROTOCOL => {
                if let Ok(segment) = Tcp::new_checked(packet.payload()) {
                    self.take_segment(from, (packet.source(), packet.destination()), &segment);
                }
            }
            _ => {}
        }
    }

    fn take_segment(
        &mut self,
        from: usize,
        (source, destination): (Ipv4Addr, Ipv4Addr),
        segment: &Tcp<&[u8]>,
    ) {
        let payload = segment.payload().len() as u64;
        let ports = [segment.source_port(), segment.destination_port()];
        self.count(from, ports, |sides| {
            sides[from].tcp_segments += u64::from(payload > 0);
            sides[from].tcp_payload += payload;
        });
        if segment.flags() & TcpRepr::ACK == 0 {
            return;
        }
        let flow = (from, source, destination, ports[0], ports[1]);
        let number = segment.acknowledgement();
        let begins = segment.flags() & TcpRepr::SYN != 0;
        let last = self.acknowledged.entry(flow).or_insert(number);
        let further = number.wrapping_sub(*last);
        if begins {
            *last = number;
        } else if further < 1 << 31 {
            *last = number;
            self.count(from, ports, |sides| sides[1 - from].tcp_acknowledged += u64::from(further));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EthernetRepr, MacAddr};

    const ENDS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 3)];

    /// A TCP segment of side `from`.
    fn segment(from: usize, flags: u8, acknowledgement: u32, payload: usize) -> Frame {
        let ethernet = EthernetRepr {
            source: MacAddr::default(),
            destination: MacAddr::default(),
            tag: None,
            ethertype: EtherType::IPV4,
        };
        let packet = Ipv4Repr {
            source: ENDS[from],
            destination: ENDS[1 - from],
            protocol: TcpRepr::PROTOCOL,
            ttl: 64,
            dscp: 0,
            payload_len: (TcpRepr::HEADER_BYTES + payload) as u16,
        };
        let tcp = TcpRepr { source_port: 1, destination_port: 2, sequence: 0, flags, window: 1 };
        let mut bytes = vec![0; 14 + 20 + TcpRepr::HEADER_BYTES + payload];
        ethernet.emit(&mut bytes).unwrap();
        packet.emit(&mut bytes[14..]).unwrap();
        tcp.emit(&mut bytes[34..]).unwrap();
        bytes[42..46].copy_from_slice(&acknowledgement.to_be_bytes());
        // As short frames have it: no part of the packet.
        bytes.resize(bytes.len().max(60), 0xee);
        Frame::new(bytes)
    }

    #[test]
    fn what_is_acknowledged_counts_once_and_across_the_numbers_wrap() {
        let mut book = FlowBook::default();
        let start = u32::MAX - 999;
        book.take(1, &segment(1, TcpRepr::SYN | TcpRepr::ACK, start, 0));
        for _ in 0..2 {
            book.take(0, &segment(0, TcpRepr::ACK, 77, 1448));
            book.take(1, &segment(1, TcpRepr::ACK, start.wrapping_add(1448), 0));
        }
        // An old one, overtaken.
        book.take(1, &segment(1, TcpRepr::ACK, start.wrapping_add(100), 0));
        let [data, answers] = &book.carried;
        assert_eq!((data.tcp_segments, data.tcp_payload, data.tcp_acknowledged), (2, 2896, 1448));
        assert_eq!((answers.tcp_segments, answers.tcp_payload, answers.tcp_acknowledged), (0, 0, 0));
        // The same ports again: a new connection has other numbers.
        book.take(1, &segment(1, TcpRepr::SYN | TcpRepr::ACK, 500, 0));
        book.take(1, &segment(1, TcpRepr::ACK, 510, 0));
        assert_eq!(book.carried[0].tcp_acknowledged, 1458);
    }

    #[test]
    fn a_port_of_side_0_has_what_goes_either_way_of_it_and_no_other_ports() {
        let mut book = FlowBook::default();
        book.watch_ports([1, 7]);
        // All segments go from port 1 to port 2, so that only side 0's are of its port 1.
        book.take(0, &segment(0, TcpRepr::ACK, 10, 100));
        book.take(1, &segment(1, TcpRepr::ACK, 20, 50));
        book.take(0, &segment(0, TcpRepr::ACK, 60, 0));
        assert_eq!(book.carried.each_ref().map(|side| side.tcp_payload), [100, 50]);
        let own = &book.of_ports[&1];
        assert_eq!((own[0].tcp_payload, own[1].tcp_payload, own[1].tcp_acknowledged), (100, 0, 50));
        assert_eq!(book.of_ports[&7], [Carried::default(), Carried::default()]);
        assert!(!book.of_ports.contains_key(&2));
    }

    #[test]
    fn frames_that_are_neither_are_passed_over() {
        let mut book = FlowBook::default();
        for bytes in [vec![], vec![0xff; 13], vec![0x08; 60]] {
            book.take(0, &Frame::new(bytes));
        }
        assert_eq!(book.carried, [Carried::default(), Carried::default()]);
    }
}
