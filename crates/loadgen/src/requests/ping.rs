//! ICMP echo (RFC 792, "Echo or Echo Reply Message"). The identifier is the generator's number, and the
//! sequence number the low 16 bits of the request's. The data is a test frame's signature and fill, so that a
//! reply fully identifies its request. A reply is checked for addresses, checksums, and the request's message
//! with the reply type.

use std::net::Ipv4Addr;

use doorbell_wire::checksum::Sum;
use doorbell_wire::{MacAddr, ipv4};
use etherparse::{EtherType, Ethernet2Header, Ethernet2Slice, IpNumber, Ipv4Header, Ipv4Slice};

use crate::config::TrafficConfig;
use crate::frame::{ETHERNET_BYTES, FILL_AT, Mismatch, PAYLOAD_AT, Signature, fill, hash};

const ICMP_AT: usize = ETHERNET_BYTES + Ipv4Header::MIN_LEN;
const ECHO: u8 = 8;
const ECHO_REPLY: u8 = 0;
const TTL: u8 = 64;

/// Builds echo requests and checks replies.
#[derive(Clone, Debug)]
pub(crate) struct Ping {
    headers: [u8; ICMP_AT],
    stations: (MacAddr, MacAddr),
    addresses: (Ipv4Addr, Ipv4Addr),
    frame_len: usize,
    stream: u32,
    key: u64,
}

impl Ping {
    pub(crate) fn new(traffic: &TrafficConfig, stream: u32, key: u64) -> Ping {
        let frame_len = traffic.frame_len();
        Ping {
            headers: ipv4_headers(traffic, IpNumber::ICMP, frame_len - ICMP_AT),
            stations: (traffic.source, traffic.destination),
            addresses: (traffic.source_ip, traffic.destination_ip),
            frame_len,
            stream,
            key,
        }
    }

    pub(crate) fn make(&self, sequence: u64, bytes: &mut Vec<u8>) {
        bytes.resize(self.frame_len, 0);
        bytes[..ICMP_AT].copy_from_slice(&self.headers);
        self.message(ECHO, sequence, &mut bytes[ICMP_AT..]);
    }

    /// Writes the ICMP message of type `kind` for request `sequence`.
    fn message(&self, kind: u8, sequence: u64, message: &mut [u8]) {
        const SIGNATURE_AT: usize = PAYLOAD_AT - ICMP_AT;
        const DATA_AT: usize = FILL_AT - ICMP_AT;
        message[..4].copy_from_slice(&[kind, 0, 0, 0]);
        message[4..6].copy_from_slice(&(self.stream as u16).to_be_bytes());
        message[6..8].copy_from_slice(&(sequence as u16).to_be_bytes());
        let signature = Signature { stream: self.stream, sequence };
        message[SIGNATURE_AT..DATA_AT].copy_from_slice(&signature.to_bytes());
        fill(&mut message[DATA_AT..], hash(self.key ^ sequence));
        let checksum = Sum::new().plus(message).finish();
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
    }

    pub(crate) fn check(&self, sequence: u64, frame: &[u8]) -> Result<(), Mismatch> {
        if frame.len() != self.frame_len {
            return Err(Mismatch::Length);
        }
        let ethernet = Ethernet2Slice::from_slice_without_fcs(frame).map_err(|_| Mismatch::Headers)?;
        let packet = Ipv4Slice::from_slice(ethernet.payload_slice()).map_err(|_| Mismatch::Headers)?;
        let (ip, message) = (packet.header(), packet.payload().payload);
        if (MacAddr(ethernet.destination()), MacAddr(ethernet.source())) != self.stations
            || (ip.destination_addr(), ip.source_addr()) != self.addresses
        {
            return Err(Mismatch::Addresses);
        }
        let mut expected = vec![0; self.frame_len - ICMP_AT];
        self.message(ECHO_REPLY, sequence, &mut expected);
        if ip.protocol() != IpNumber::ICMP || !ipv4::checksum_is_right(&ip) || message.len() != expected.len()
        {
            return Err(Mismatch::Headers);
        }
        let (header, data) = expected.split_at(PAYLOAD_AT - ICMP_AT);
        match message.split_at(header.len()) {
            (got, _) if got != header => Err(Mismatch::Headers),
            (_, got) if got != data => Err(Mismatch::Payload),
            _ => Ok(()),
        }
    }
}

/// Ethernet and IPv4 headers of requests, in front of a payload of `payload_len` bytes.
pub(crate) fn ipv4_headers(traffic: &TrafficConfig, protocol: IpNumber, payload_len: usize) -> [u8; ICMP_AT] {
    let [source, destination] = [traffic.source_ip, traffic.destination_ip].map(|address| address.octets());
    let mut ip = Ipv4Header::new(payload_len as u16, TTL, protocol, source, destination)
        .expect("a validated frame size fits the header");
    ip.header_checksum = ip.calc_header_checksum();
    let (source, destination) = (traffic.source.0, traffic.destination.0);
    let ethernet = Ethernet2Header { source, destination, ether_type: EtherType::IPV4 };
    let mut headers = [0; ICMP_AT];
    headers[..Ethernet2Header::LEN].copy_from_slice(&ethernet.to_bytes());
    headers[Ethernet2Header::LEN..].copy_from_slice(&ip.to_bytes());
    headers
}

#[cfg(test)]
#[path = "ping_tests.rs"]
mod tests;
