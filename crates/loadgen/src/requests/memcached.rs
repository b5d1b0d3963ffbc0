//! memcached's text protocol over UDP: `set` and `get` of one key per datagram, with the frame header of
//! memcached's protocol.txt ("UDP protocol") before the text in both directions.
//!
//! Keys and values come from `keyspace`, so the expected reply of a `get` is known without storing it. A
//! stream of as many `set`s as there are keys stores all of them. In a `get` stream, some requests may set
//! their key again, to the same value.
//!
//! The request ID has 16 bits; together with the client's port it identifies one of the last 65,536 requests
//! of each client. A reply is correct only if its text is exactly as expected: a miss or server error counts
//! as corrupt, with a different length.
//!
//! Not modelled: values that need several datagrams, several keys per request, the binary and the meta
//! protocol.

use std::io::Write;

use doorbell_wire::checksum::Sum;
use doorbell_wire::{MacAddr, MemcachedUdp, ipv4, udp};
use etherparse::{
    Ethernet2Slice, IpNumber, Ipv4Header, Ipv4Slice, LinkSlice, NetSlice, SlicedPacket, TransportSlice,
    UdpHeader, UdpSlice,
};

use crate::config::TrafficConfig;
use crate::frame::{ETHERNET_BYTES, Mismatch};
use crate::requests::keyspace::{Keyspace, MemcachedConfig};
use crate::requests::ping::ipv4_headers;

const UDP_AT: usize = ETHERNET_BYTES + Ipv4Header::MIN_LEN;
const HEADER_AT: usize = UDP_AT + UdpHeader::LEN;
const TEXT_AT: usize = HEADER_AT + MemcachedUdp::HEADER_BYTES;
/// Number of request IDs per client before they wrap around.
const IDS: u64 = 1 << 16;

/// Kind of requests in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Set,
    Get,
}

/// Builds requests and checks replies.
#[derive(Clone, Debug)]
pub(crate) struct Memcached {
    operation: Operation,
    traffic: TrafficConfig,
    keyspace: Keyspace,
}

/// Mean bytes of request frames, without FCS.
pub(crate) fn request_len(config: &MemcachedConfig, operation: Operation) -> usize {
    let (key, value) = config.mean_lengths();
    let get = "get \r\n".len() as u64 + key;
    let set = "set  0 0 \r\n\r\n".len() as u64 + key + value + value.to_string().len() as u64;
    let text = match operation {
        Operation::Set => set as f64,
        Operation::Get => get as f64 + (set - get) as f64 * config.sets.value(),
    };
    TEXT_AT + libm::round(text) as usize
}

impl Memcached {
    pub(crate) fn new(traffic: &TrafficConfig, operation: Operation, stream: u32, key: u64) -> Memcached {
        let keyspace = Keyspace::new(&traffic.memcached, stream, key);
        Memcached { operation, traffic: traffic.clone(), keyspace }
    }

    /// Operation and key number of request `sequence`.
    fn request(&self, sequence: u64) -> (Operation, u64) {
        match self.operation {
            // Any sequence of as many requests as keys sets each key once.
            Operation::Set => (Operation::Set, sequence % self.keyspace.keys()),
            Operation::Get if self.keyspace.is_set(sequence) => {
                (Operation::Set, self.keyspace.key_of_request(sequence))
            }
            Operation::Get => (Operation::Get, self.keyspace.key_of_request(sequence)),
        }
    }

    fn put_request(&self, sequence: u64, text: &mut Vec<u8>) {
        let (operation, index) = self.request(sequence);
        text.extend_from_slice(if operation == Operation::Set { b"set " } else { b"get " });
        self.keyspace.put_key(index, text);
        if operation == Operation::Set {
            write!(text, " 0 0 {}\r\n", self.keyspace.value_len(index))
                .expect("writing to a vector does not fail");
            self.keyspace.put_value(index, text);
        }
        text.extend_from_slice(b"\r\n");
    }

    fn put_answer(&self, sequence: u64, text: &mut Vec<u8>) {
        let (operation, index) = self.request(sequence);
        if operation == Operation::Set {
            return text.extend_from_slice(b"STORED\r\n");
        }
        text.extend_from_slice(b"VALUE ");
        self.keyspace.put_key(index, text);
        write!(text, " 0 {}\r\n", self.keyspace.value_len(index)).expect("writing to a vector does not fail");
        self.keyspace.put_value(index, text);
        text.extend_from_slice(b"\r\nEND\r\n");
    }

    /// Client number and request ID.
    fn client_and_id(&self, sequence: u64) -> (u16, u16) {
        let clients = u64::from(self.traffic.memcached.clients);
        ((sequence % clients) as u16, (sequence / clients % IDS) as u16)
    }

    /// UDP port of the server that has a key.
    fn server_port(&self, index: u64) -> u16 {
        let shard = index % u64::from(self.traffic.memcached.shards);
        self.traffic.destination_port.wrapping_add(shard as u16)
    }

    pub(crate) fn make(&self, sequence: u64, bytes: &mut Vec<u8>) {
        let traffic = &self.traffic;
        bytes.clear();
        bytes.resize(TEXT_AT, 0);
        self.put_request(sequence, bytes);
        let (client, id) = self.client_and_id(sequence);
        let udp_len = (bytes.len() - UDP_AT) as u16;
        let (source, destination) = (traffic.source_ip, traffic.destination_ip);
        let header = UdpHeader {
            source_port: traffic.source_port.wrapping_add(client),
            destination_port: self.server_port(self.request(sequence).1),
            length: udp_len,
            checksum: 0,
        };
        bytes[..UDP_AT].copy_from_slice(&ipv4_headers(traffic, IpNumber::UDP, udp_len.into()));
        bytes[UDP_AT..HEADER_AT].copy_from_slice(&header.to_bytes());
        let header = MemcachedUdp { request_id: id, sequence: 0, datagrams: 1 };
        bytes[HEADER_AT..TEXT_AT].copy_from_slice(&header.to_bytes());
        let sum = Sum::new().plus_ipv4_pseudo_header(source, destination, IpNumber::UDP.0, udp_len);
        let checksum = udp::checksum_field(sum.plus(&bytes[UDP_AT..]));
        bytes[UDP_AT + udp::CHECKSUM_AT..HEADER_AT].copy_from_slice(&checksum.to_be_bytes());
    }

    /// The request that a server's frame answers; `next` is the number of the next request.
    pub(crate) fn read(&self, next: u64, frame: &[u8]) -> Option<u64> {
        let (_, ip, udp) = datagram(frame)?;
        let (header, _) = MemcachedUdp::parse(udp.payload())?;
        let client = udp.destination_port().wrapping_sub(self.traffic.source_port);
        if ip.header().source_addr() != self.traffic.destination_ip
            || udp.source_port().wrapping_sub(self.traffic.destination_port) >= self.traffic.memcached.shards
            || client >= self.traffic.memcached.clients
        {
            return None;
        }
        let clients = u64::from(self.traffic.memcached.clients);
        let period = clients * IDS;
        let place = u64::from(header.request_id) * clients + u64::from(client);
        // The latest request with this client and ID, or a number that was never sent.
        let back = (next + period - 1 - place) % period + 1;
        Some(next.checked_sub(back).unwrap_or(u64::MAX))
    }

    pub(crate) fn check(&self, sequence: u64, frame: &[u8]) -> Result<(), Mismatch> {
        let traffic = &self.traffic;
        let (ethernet, packet, datagram) = datagram(frame).ok_or(Mismatch::Headers)?;
        let ip = packet.header();
        let (header, answer) = MemcachedUdp::parse(datagram.payload()).ok_or(Mismatch::Headers)?;
        let stations = (MacAddr(ethernet.destination()), MacAddr(ethernet.source()));
        if stations != (traffic.source, traffic.destination) || ip.destination_addr() != traffic.source_ip {
            return Err(Mismatch::Addresses);
        }
        let (_, id) = self.client_and_id(sequence);
        let expected = MemcachedUdp { request_id: id, sequence: 0, datagrams: 1 };
        if !ipv4::checksum_is_right(&ip)
            || !udp::checksum_is_right(&datagram, ip.source_addr(), ip.destination_addr())
            || header != expected
            || datagram.source_port() != self.server_port(self.request(sequence).1)
        {
            return Err(Mismatch::Headers);
        }
        let mut text = Vec::new();
        self.put_answer(sequence, &mut text);
        match answer {
            got if got.len() != text.len() => Err(Mismatch::Length),
            got if got != text => Err(Mismatch::Payload),
            _ => Ok(()),
        }
    }
}

/// The Ethernet frame, the IPv4 packet and the UDP datagram in a frame, if all are complete.
fn datagram(frame: &[u8]) -> Option<(Ethernet2Slice<'_>, Ipv4Slice<'_>, UdpSlice<'_>)> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    match (packet.link?, packet.net?, packet.transport?) {
        (LinkSlice::Ethernet2(ethernet), NetSlice::Ipv4(ip), TransportSlice::Udp(datagram)) => {
            udp::length_is_right(&datagram).then_some((ethernet, ip, datagram))
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "memcached_tests.rs"]
mod tests;
