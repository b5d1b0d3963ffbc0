//! The headers of a stream's frames, made once for each frame size, and what changes in them from frame to frame.

use std::net::IpAddr;

use doorbell_sim::Frame;
use doorbell_wire::checksum::Sum;
use doorbell_wire::{EtherType, Ipv4Repr, Ipv6Repr, MacAddr, TcpRepr, UdpRepr};

use crate::config::TrafficConfig;
use crate::frame::{ADDRESS_BYTES, hash};
use crate::responder::put_checksum;
use crate::streams::{Addresses, Field, Network, StreamConfig, Sweep, Transport};

/// The headers of all frames of one size.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    /// At least as many bytes as the shortest frame has.
    headers: Vec<u8>,
    /// Bytes of the frame without FCS.
    pub(crate) frame_len: usize,
    /// Over the pseudo-header and the transport's header, without its checksum and without what is swept.
    pub(crate) transport_sum: Sum,
}

/// Of the shortest frame, without FCS.
const FRAME_BYTES_MIN: usize = Frame::MIN_BYTES_WITH_FCS - Frame::FCS_BYTES;

/// What changes in the headers of a stream's frames.
#[derive(Clone, Debug)]
pub(crate) struct Variations {
    swept: Vec<Swept>,
    /// Where a sequence number stands, in TCP's header.
    sequence_at: Option<usize>,
    /// Where the IPv4 header is, if something in it changes.
    ipv4_at: Option<usize>,
}

/// A field that is swept.
#[derive(Clone, Debug)]
struct Swept {
    sweep: Sweep,
    /// Its bytes in the frame: where they begin, and how many they are.
    at: usize,
    width: usize,
    /// The stream's own value, and which of its bits change.
    base: u64,
    mask: u64,
    /// Whether the transport's checksum covers it.
    summed: bool,
}

const MAC_LOW_AT: usize = 3;

impl Swept {
    fn value(&self, choice: u64) -> u64 {
        let changed = self.base.wrapping_add(self.sweep.distance(choice)) & self.mask;
        (self.base & !self.mask) | changed
    }

    fn write(&self, value: u64, headers: &mut [u8]) {
        let bytes = value.to_be_bytes();
        headers[self.at..self.at + self.width].copy_from_slice(&bytes[bytes.len() - self.width..]);
    }
}

/// Writes all headers of a frame of `frame_len` bytes, the transport's checksum zero.
fn emit(traffic: &TrafficConfig, stream: &StreamConfig, frame_len: usize) -> Vec<u8> {
    let [ip_at, transport_at, payload_at] = stream.places();
    let mut headers = vec![0; payload_at];
    headers[..6].copy_from_slice(&stream.destination.unwrap_or(traffic.destination).0);
    headers[6..ADDRESS_BYTES].copy_from_slice(&stream.source.unwrap_or(traffic.source).0);
    let mut put = |at: usize, value: u16| headers[at..at + 2].copy_from_slice(&value.to_be_bytes());
    let mut at = ADDRESS_BYTES;
    for (place, tag) in stream.vlans.iter().enumerate() {
        let outer_of_two = place == 0 && stream.vlans.len() == 2;
        put(at, if outer_of_two { EtherType::SERVICE_VLAN.0 } else { EtherType::VLAN.0 });
        put(at + 2, u16::from(tag.priority) << 13 | tag.id);
        at += 4;
    }
    put(at, if stream.network() == Network::Ipv6 { EtherType::IPV6.0 } else { EtherType::IPV4.0 });
    let payload_len = (frame_len - transport_at) as u16;
    let protocol = match stream.transport {
        Transport::Udp => Ipv4Repr::UDP,
        Transport::Tcp => TcpRepr::PROTOCOL,
    };
    let (ttl, dscp) = (stream.ttl, stream.dscp);
    let network = match stream.addresses(traffic) {
        Addresses::V4(source, destination) => {
            Ipv4Repr { source, destination, protocol, ttl, dscp, payload_len }.emit(&mut headers[ip_at..])
        }
        Addresses::V6(source, destination) => {
            Ipv6Repr { source, destination, next_header: protocol, hop_limit: ttl, dscp, payload_len }
                .emit(&mut headers[ip_at..])
        }
    };
    let source_port = stream.source_port.unwrap_or(traffic.source_port);
    let destination_port = stream.destination_port.unwrap_or(traffic.destination_port);
    let transport = match stream.transport {
        Transport::Udp => {
            let payload_len = payload_len - UdpRepr::HEADER_BYTES as u16;
            UdpRepr { source_port, destination_port, payload_len }.emit(&mut headers[transport_at..])
        }
        Transport::Tcp => {
            let flags = TcpRepr::ACK;
            TcpRepr { source_port, destination_port, sequence: 0, flags, window: u16::MAX }
                .emit(&mut headers[transport_at..])
        }
    };
    network.and(transport).expect("the headers of a validated stream fit its frames");
    headers
}

/// Where the IP addresses stand behind the IP header's begin, and how many bytes each has.
fn address_places(network: Network) -> (usize, usize, usize) {
    match network {
        Network::Ipv4 => (Ipv4Repr::SOURCE_AT, Ipv4Repr::DESTINATION_AT, 4),
        Network::Ipv6 => (Ipv6Repr::SOURCE_AT, Ipv6Repr::DESTINATION_AT, 16),
    }
}

impl Template {
    /// The headers of frames of `frame_len` bytes without FCS. What `variations` writes is left out of the sum.
    pub(crate) fn new(
        traffic: &TrafficConfig,
        stream: &StreamConfig,
        frame_len: usize,
        variations: &Variations,
    ) -> Template {
        let [ip_at, transport_at, _] = stream.places();
        let mut headers = emit(traffic, stream, frame_len);
        let mut summed = headers.clone();
        variations.swept.iter().for_each(|swept| summed[swept.at..swept.at + swept.width].fill(0));
        let (source, destination, bytes) = address_places(stream.network());
        let protocol = match stream.transport {
            Transport::Udp => Ipv4Repr::UDP,
            Transport::Tcp => TcpRepr::PROTOCOL,
        };
        // The pseudo-headers of both versions of IP are the same sum.
        let transport_sum = Sum::new()
            .plus(&summed[ip_at + source..][..bytes])
            .plus(&summed[ip_at + destination..][..bytes])
            .plus_u16(u16::from(protocol))
            .plus_u16((frame_len - transport_at) as u16)
            .plus(&summed[transport_at..]);
        headers.resize(headers.len().max(FRAME_BYTES_MIN), 0);
        Template { headers, frame_len, transport_sum }
    }

    /// Writes the headers, and something into the payload behind them: a fixed number of bytes is copied much faster.
    pub(crate) fn write(&self, frame: &mut [u8]) {
        let (headers, longer) = self.headers.split_at(FRAME_BYTES_MIN);
        let (first, rest) = frame.split_at_mut(FRAME_BYTES_MIN);
        first.copy_from_slice(headers);
        if !longer.is_empty() {
            rest[..longer.len()].copy_from_slice(longer);
        }
    }
}

impl Variations {
    /// What changes in the frames of a validated stream. `key` decides what is random.
    pub(crate) fn new(traffic: &TrafficConfig, stream: &StreamConfig, key: u64) -> Variations {
        let [ip_at, transport_at, _] = stream.places();
        let (source, destination, bytes) = address_places(stream.network());
        // The lower half of an IPv6 address.
        let (skipped, width) = if bytes == 16 { (8, 8) } else { (0, 4) };
        let least = stream.size_min().0 as usize;
        let headers = emit(traffic, stream, least - crate::frame::FCS_BYTES);
        let swept = stream.sweeps.iter().zip(1u64..).map(|(config, place)| {
            let (at, width, mask, summed) = match config.field {
                Field::DestinationMac => (MAC_LOW_AT, 3, 0xff_ffff, false),
                Field::SourceMac => (6 + MAC_LOW_AT, 3, 0xff_ffff, false),
                Field::SourceIp => (ip_at + source + skipped, width, u64::MAX, true),
                Field::DestinationIp => (ip_at + destination + skipped, width, u64::MAX, true),
                Field::SourcePort => (transport_at, 2, 0xffff, true),
                Field::DestinationPort => (transport_at + 2, 2, 0xffff, true),
                // Behind the last tag's type, and before the packet's.
                Field::Vlan => (ip_at - 4, 2, 0xfff, false),
            };
            let base = headers[at..at + width].iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
            Swept { sweep: Sweep::new(*config, hash(key ^ place)), at, width, base, mask, summed }
        });
        let swept: Vec<Swept> = swept.collect();
        let in_ipv4 = stream.network() == Network::Ipv4
            && swept.iter().any(|swept| (ip_at..transport_at).contains(&swept.at));
        let is_tcp = stream.transport == Transport::Tcp;
        Variations {
            swept,
            sequence_at: is_tcp.then_some(transport_at + TcpRepr::SEQUENCE_AT),
            ipv4_at: in_ipv4.then_some(ip_at),
        }
    }

    /// Whether all frames of one size have the same headers.
    pub(crate) fn are_none(&self) -> bool {
        self.swept.is_empty() && self.sequence_at.is_none()
    }

    /// Writes what frame `index` has of its own, and returns the transport's sum with it.
    pub(crate) fn write(&self, index: u64, headers: &mut [u8], mut sum: Sum) -> Sum {
        for swept in &self.swept {
            swept.write(swept.value(swept.sweep.choice(index)), headers);
            if swept.summed {
                sum = sum.plus(&headers[swept.at..swept.at + swept.width]);
            }
        }
        if let Some(at) = self.sequence_at {
            headers[at..at + 4].copy_from_slice(&(index as u32).to_be_bytes());
            sum = sum.plus(&headers[at..at + 4]);
        }
        if let Some(at) = self.ipv4_at {
            put_checksum(&mut headers[at..at + Ipv4Repr::HEADER_BYTES], Ipv4Repr::CHECKSUM_AT);
        }
        sum
    }

    /// Writes what the frames of a flow have in common.
    fn write_flow(&self, mut flow: u64, headers: &mut [u8]) {
        for swept in self.swept.iter().rev() {
            let count = swept.sweep.config.count;
            swept.write(swept.value(flow % count), headers);
            flow /= count;
        }
    }

    /// The flow of frame `index`: a number for each choice of values.
    pub(crate) fn flow(&self, index: u64) -> u64 {
        self.swept.iter().fold(0, |flow, swept| flow * swept.sweep.config.count + swept.sweep.choice(index))
    }
}

/// Tells the flows of a stream by what stands in their headers.
#[derive(Clone, Debug)]
pub struct FlowHeaders {
    headers: Vec<u8>,
    variations: Variations,
    network: Network,
    /// Where the IP header and the transport's begin.
    places: (usize, usize),
    tagged: bool,
}

/// What the frames of a flow have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Of sender and receiver.
    pub macs: [MacAddr; 2],
    /// Of sender and receiver.
    pub addresses: [IpAddr; 2],
    /// Of sender and receiver.
    pub ports: [u16; 2],
    /// The number of the innermost VLAN.
    pub vlan: Option<u16>,
}

impl FlowHeaders {
    /// Of a validated stream whose frames are made, not those of a capture.
    pub fn new(traffic: &TrafficConfig, stream: &StreamConfig) -> FlowHeaders {
        let [ip_at, transport_at, _] = stream.places();
        FlowHeaders {
            headers: emit(traffic, stream, stream.size_min().0 as usize - crate::frame::FCS_BYTES),
            // What is random decides which frames a flow has, and not what its headers are.
            variations: Variations::new(traffic, stream, 0),
            network: stream.network(),
            places: (ip_at, transport_at),
            tagged: !stream.vlans.is_empty(),
        }
    }

    /// The flow of this number.
    pub fn flow(&self, number: u64) -> Flow {
        let mut headers = self.headers.clone();
        self.variations.write_flow(number, &mut headers);
        let (ip_at, transport_at) = self.places;
        let two = |at: usize| u16::from_be_bytes([headers[at], headers[at + 1]]);
        let mac = |at: usize| MacAddr(std::array::from_fn(|byte| headers[at + byte]));
        let (source, destination, bytes) = address_places(self.network);
        let address = |at: usize| match bytes {
            4 => IpAddr::from(std::array::from_fn::<u8, 4, _>(|byte| headers[ip_at + at + byte])),
            _ => IpAddr::from(std::array::from_fn::<u8, 16, _>(|byte| headers[ip_at + at + byte])),
        };
        Flow {
            macs: [mac(6), mac(0)],
            addresses: [address(source), address(destination)],
            ports: [two(transport_at), two(transport_at + 2)],
            vlan: self.tagged.then(|| two(ip_at - 4) & 0xfff),
        }
    }
}
