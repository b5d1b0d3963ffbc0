//! Headers of a stream's frames, prepared once per frame size, and the fields that vary from frame to frame.

use std::net::IpAddr;

use doorbell_sim::Frame;
use doorbell_wire::checksum::Sum;
use doorbell_wire::{MacAddr, ipv4, ipv6, tcp};
use etherparse::{EtherType, IpNumber, Ipv4Header, Ipv6Header, TcpHeader, UdpHeader};

use crate::config::TrafficConfig;
use crate::frame::{ADDRESS_BYTES, hash};
use crate::responder::put_checksum;
use crate::streams::{Addresses, Field, Network, StreamConfig, Sweep, Transport};

/// The headers of all frames of one size.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    /// At least as long as the shortest frame.
    headers: Vec<u8>,
    /// Bytes of the frame without FCS.
    pub(crate) frame_len: usize,
    /// Sum of the pseudo-header and transport header, without the checksum and the swept fields.
    pub(crate) transport_sum: Sum,
}

/// Bytes of the shortest frame, without FCS.
const FRAME_BYTES_MIN: usize = Frame::MIN_BYTES_WITH_FCS - Frame::FCS_BYTES;

/// Fields that vary in the headers of a stream's frames.
#[derive(Clone, Debug)]
pub(crate) struct Variations {
    swept: Vec<SweptField>,
    /// Offset of the sequence number in a TCP header.
    sequence_at: Option<usize>,
    /// Offset of the IPv4 header, if a field in it varies.
    ipv4_at: Option<usize>,
}

/// A swept field.
#[derive(Clone, Debug)]
struct SweptField {
    sweep: Sweep,
    /// Its offset and length in the frame.
    at: usize,
    width: usize,
    /// The stream's own value, and the mask of its varying bits.
    base: u64,
    mask: u64,
    /// Whether the transport's checksum covers it.
    summed: bool,
}

const MAC_LOW_AT: usize = 3;

impl SweptField {
    fn value(&self, choice: u64) -> u64 {
        let changed = self.base.wrapping_add(self.sweep.distance(choice)) & self.mask;
        (self.base & !self.mask) | changed
    }

    fn write(&self, value: u64, headers: &mut [u8]) {
        let bytes = value.to_be_bytes();
        headers[self.at..self.at + self.width].copy_from_slice(&bytes[bytes.len() - self.width..]);
    }
}

/// Writes all headers of a frame of `frame_len` bytes, with a transport checksum of zero.
fn emit(traffic: &TrafficConfig, stream: &StreamConfig, frame_len: usize) -> Vec<u8> {
    let [ip_at, transport_at, payload_at] = stream.header_offsets();
    let mut headers = vec![0; payload_at];
    headers[..6].copy_from_slice(&stream.destination.unwrap_or(traffic.destination).0);
    headers[6..ADDRESS_BYTES].copy_from_slice(&stream.source.unwrap_or(traffic.source).0);
    let mut put = |at: usize, value: u16| headers[at..at + 2].copy_from_slice(&value.to_be_bytes());
    let mut at = ADDRESS_BYTES;
    for (place, tag) in stream.vlans.iter().enumerate() {
        let outer_of_two = place == 0 && stream.vlans.len() == 2;
        put(at, if outer_of_two { EtherType::PROVIDER_BRIDGING.0 } else { EtherType::VLAN_TAGGED_FRAME.0 });
        put(at + 2, u16::from(tag.priority) << 13 | tag.id);
        at += 4;
    }
    put(at, if stream.network() == Network::Ipv6 { EtherType::IPV6.0 } else { EtherType::IPV4.0 });
    let payload_len = (frame_len - transport_at) as u16;
    let dscp = stream.dscp.try_into().expect("a validated stream has a code point of six bits");
    let protocol = protocol(stream);
    match stream.addresses(traffic) {
        Addresses::V4(source, destination) => {
            let [source, destination] = [source, destination].map(|address| address.octets());
            let mut ip = Ipv4Header::new(payload_len, stream.ttl, protocol, source, destination)
                .expect("the headers of a validated stream fit its frames");
            ip.dscp = dscp;
            ip.header_checksum = ip.calc_header_checksum();
            headers[ip_at..transport_at].copy_from_slice(&ip.to_bytes());
        }
        Addresses::V6(source, destination) => {
            let mut ip = Ipv6Header {
                payload_length: payload_len,
                next_header: protocol,
                hop_limit: stream.ttl,
                source: source.octets(),
                destination: destination.octets(),
                ..Ipv6Header::default()
            };
            ip.set_dscp(dscp);
            headers[ip_at..transport_at].copy_from_slice(&ip.to_bytes());
        }
    }
    let source_port = stream.source_port.unwrap_or(traffic.source_port);
    let destination_port = stream.destination_port.unwrap_or(traffic.destination_port);
    match stream.transport {
        Transport::Udp => {
            let udp = UdpHeader { source_port, destination_port, length: payload_len, checksum: 0 };
            headers[transport_at..].copy_from_slice(&udp.to_bytes());
        }
        Transport::Tcp => {
            let tcp = TcpHeader { ack: true, ..TcpHeader::new(source_port, destination_port, 0, u16::MAX) };
            headers[transport_at..].copy_from_slice(&tcp.to_bytes());
        }
    }
    headers
}

fn protocol(stream: &StreamConfig) -> IpNumber {
    match stream.transport {
        Transport::Udp => IpNumber::UDP,
        Transport::Tcp => IpNumber::TCP,
    }
}

/// Offsets of the IP addresses in the IP header, and their length.
fn address_offsets(network: Network) -> (usize, usize, usize) {
    match network {
        Network::Ipv4 => (ipv4::SOURCE_AT, ipv4::DESTINATION_AT, 4),
        Network::Ipv6 => (ipv6::SOURCE_AT, ipv6::DESTINATION_AT, 16),
    }
}

impl Template {
    /// The headers of frames of `frame_len` bytes without FCS. The fields that `variations` writes are
    /// excluded from the sum.
    pub(crate) fn new(
        traffic: &TrafficConfig,
        stream: &StreamConfig,
        frame_len: usize,
        variations: &Variations,
    ) -> Template {
        let [ip_at, transport_at, _] = stream.header_offsets();
        let mut headers = emit(traffic, stream, frame_len);
        let mut summed = headers.clone();
        variations.swept.iter().for_each(|swept| summed[swept.at..swept.at + swept.width].fill(0));
        let (source, destination, bytes) = address_offsets(stream.network());
        // The pseudo-headers of both IP versions have the same sum.
        let transport_sum = Sum::new()
            .plus(&summed[ip_at + source..][..bytes])
            .plus(&summed[ip_at + destination..][..bytes])
            .plus_u16(protocol(stream).0.into())
            .plus_u16((frame_len - transport_at) as u16)
            .plus(&summed[transport_at..]);
        headers.resize(headers.len().max(FRAME_BYTES_MIN), 0);
        Template { headers, frame_len, transport_sum }
    }

    /// Writes the headers, and zeros into the payload after them: copying a fixed number of bytes is much
    /// faster.
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
    /// The varying fields of a validated stream. `key` seeds random sweeps.
    pub(crate) fn new(traffic: &TrafficConfig, stream: &StreamConfig, key: u64) -> Variations {
        let [ip_at, transport_at, _] = stream.header_offsets();
        let (source, destination, bytes) = address_offsets(stream.network());
        // For IPv6, the lower half of the address.
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
                // After the type of the last tag and before the EtherType of the packet.
                Field::Vlan => (ip_at - 4, 2, 0xfff, false),
            };
            let base = headers[at..at + width].iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
            SweptField { sweep: Sweep::new(*config, hash(key ^ place)), at, width, base, mask, summed }
        });
        let swept: Vec<SweptField> = swept.collect();
        let in_ipv4 = stream.network() == Network::Ipv4
            && swept.iter().any(|swept| (ip_at..transport_at).contains(&swept.at));
        let is_tcp = stream.transport == Transport::Tcp;
        Variations {
            swept,
            sequence_at: is_tcp.then_some(transport_at + tcp::SEQUENCE_AT),
            ipv4_at: in_ipv4.then_some(ip_at),
        }
    }

    /// Whether all frames of one size have the same headers.
    pub(crate) fn are_none(&self) -> bool {
        self.swept.is_empty() && self.sequence_at.is_none()
    }

    /// Writes the varying fields of frame `index`, and returns the transport sum including them.
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
            put_checksum(&mut headers[at..at + Ipv4Header::MIN_LEN], ipv4::CHECKSUM_AT);
        }
        sum
    }

    /// Writes the fields of a flow.
    fn write_flow(&self, mut flow: u64, headers: &mut [u8]) {
        for swept in self.swept.iter().rev() {
            let count = swept.sweep.config.count;
            swept.write(swept.value(flow % count), headers);
            flow /= count;
        }
    }

    /// The flow of frame `index`: a number for each combination of swept values.
    pub(crate) fn flow(&self, index: u64) -> u64 {
        self.swept.iter().fold(0, |flow, swept| flow * swept.sweep.config.count + swept.sweep.choice(index))
    }
}

/// Header fields of a stream's flows.
#[derive(Clone, Debug)]
pub struct FlowHeaders {
    headers: Vec<u8>,
    variations: Variations,
    network: Network,
    /// Offsets of the IP header and the transport header.
    offsets: (usize, usize),
    tagged: bool,
}

/// The header fields that a flow's frames share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Source and destination.
    pub macs: [MacAddr; 2],
    /// Source and destination.
    pub addresses: [IpAddr; 2],
    /// Source and destination.
    pub ports: [u16; 2],
    /// ID of the innermost VLAN.
    pub vlan: Option<u16>,
}

impl FlowHeaders {
    /// For a validated stream of built frames, not of a capture.
    pub fn new(traffic: &TrafficConfig, stream: &StreamConfig) -> FlowHeaders {
        let [ip_at, transport_at, _] = stream.header_offsets();
        FlowHeaders {
            headers: emit(traffic, stream, stream.size_min().0 as usize - crate::frame::FCS_BYTES),
            // Randomness decides the frames of a flow, not its headers.
            variations: Variations::new(traffic, stream, 0),
            network: stream.network(),
            offsets: (ip_at, transport_at),
            tagged: !stream.vlans.is_empty(),
        }
    }

    /// The flow with this number.
    pub fn flow(&self, number: u64) -> Flow {
        let mut headers = self.headers.clone();
        self.variations.write_flow(number, &mut headers);
        let (ip_at, transport_at) = self.offsets;
        let two = |at: usize| u16::from_be_bytes([headers[at], headers[at + 1]]);
        let mac = |at: usize| MacAddr(std::array::from_fn(|byte| headers[at + byte]));
        let (source, destination, bytes) = address_offsets(self.network);
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
