//! memcached's text protocol over UDP: `set` and `get` of one key in one datagram, with the frame header that
//! memcached's protocol.txt ("UDP protocol") puts before both directions' text.
//!
//! Keys are all of one length, so that a stream's requests are. A key's value is a function of the key and of the
//! run's seed: what a `get` must return is known without keeping it, and a stream of as many `set`s as there are keys
//! stores them all. The request id has 16 bits; with the client's port it names the request among the
//! last 65,536 of each client. An answer is right if it is exactly the text that was expected: a miss or an error of the
//! server counts as corrupt, with another length.
//!
//! Not modelled: values that need several datagrams, several keys in a request, the binary and the meta protocol.

use std::io::Write;

use doorbell_sim::Bytes;
use doorbell_wire::checksum::Sum;
use doorbell_wire::udp::checksum_field;
use doorbell_wire::{
    EtherType, Ethernet, EthernetRepr, Ipv4, Ipv4Repr, MacAddr, MemcachedUdp, MemcachedUdpRepr, Udp, UdpRepr,
};
use serde::{Deserialize, Serialize};

use crate::config::TrafficConfig;
use crate::frame::{ETHERNET_BYTES, Mismatch, fill, hash};

const UDP_AT: usize = ETHERNET_BYTES + Ipv4Repr::HEADER_BYTES;
const HEADER_AT: usize = UDP_AT + UdpRepr::HEADER_BYTES;
const TEXT_AT: usize = HEADER_AT + MemcachedUdpRepr::HEADER_BYTES;
const TTL: u8 = 64;
/// Request ids of one client before they begin again.
const IDS: u64 = 1 << 16;
const STORED: &[u8] = b"STORED\r\n";

/// What is stored and asked for, as configuration files write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemcachedConfig {
    /// How many keys there are, from 1 to 10,000,000. Each `get` asks for one of them at random, all equally likely.
    pub keys: u32,
    /// Bytes of each value, 1 to 1024: an answer has to fit one datagram.
    pub value: Bytes,
    /// How many clients ask in turn, 1 to 1024, each from a UDP port of its own (`source_port` and those after it).
    pub clients: u16,
}

impl Default for MemcachedConfig {
    fn default() -> Self {
        MemcachedConfig { keys: 1_000, value: Bytes(64), clients: 1 }
    }
}

impl MemcachedConfig {
    pub(crate) const KEYS_MAX: u32 = 10_000_000;
    pub(crate) const VALUE_MAX: u64 = 1024;
    pub(crate) const CLIENTS_MAX: u16 = 1024;

    /// Bytes of a `get`'s or a `set`'s frame without FCS.
    pub(crate) fn request_len(&self, is_set: bool) -> usize {
        let text = match is_set {
            true => set_text(0, 0, self.value.0 as usize).len() + self.value.0 as usize + 2,
            false => get_text(0, 0).len(),
        };
        TEXT_AT + text
    }
}

/// What a stream of requests does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Set,
    Get,
}

/// Makes requests and checks answers.
#[derive(Clone, Debug)]
pub(crate) struct Memcached {
    operation: Operation,
    traffic: TrafficConfig,
    stream: u32,
    key: u64,
}

/// Generators of one machine share a server, so each has keys of its own.
fn key_text(stream: u32, index: u64) -> String {
    format!("port{stream:03}-{index:08}")
}

fn set_text(stream: u32, index: u64, value: usize) -> String {
    format!("set {} 0 0 {value}\r\n", key_text(stream, index))
}

fn get_text(stream: u32, index: u64) -> String {
    format!("get {}\r\n", key_text(stream, index))
}

impl Memcached {
    pub(crate) fn new(traffic: &TrafficConfig, operation: Operation, stream: u32, key: u64) -> Memcached {
        Memcached { operation, traffic: traffic.clone(), stream, key }
    }

    pub(crate) fn stored_key(&self) -> u64 {
        self.key
    }

    /// Which key request `sequence` is about.
    fn index(&self, sequence: u64) -> u64 {
        let keys = u64::from(self.traffic.memcached.keys);
        match self.operation {
            // Any run of as many requests as keys sets each once.
            Operation::Set => sequence % keys,
            Operation::Get => hash(self.key ^ sequence) % keys,
        }
    }

    /// The client's number and the request id.
    fn client_and_id(&self, sequence: u64) -> (u16, u16) {
        let clients = u64::from(self.traffic.memcached.clients);
        ((sequence % clients) as u16, (sequence / clients % IDS) as u16)
    }

    /// Appends a key's value: letters, so that a capture can be read.
    fn put_value(&self, index: u64, text: &mut Vec<u8>) {
        let from = text.len();
        text.resize(from + self.traffic.memcached.value.0 as usize, 0);
        fill(&mut text[from..], hash(self.key.wrapping_add(index)));
        text[from..].iter_mut().for_each(|byte| *byte = b'a' + *byte % 26);
    }

    pub(crate) fn make(&self, sequence: u64, bytes: &mut Vec<u8>) {
        let traffic = &self.traffic;
        bytes.clear();
        bytes.resize(TEXT_AT, 0);
        let index = self.index(sequence);
        match self.operation {
            Operation::Get => bytes.extend_from_slice(get_text(self.stream, index).as_bytes()),
            Operation::Set => {
                bytes.extend_from_slice(
                    set_text(self.stream, index, traffic.memcached.value.0 as usize).as_bytes(),
                );
                self.put_value(index, bytes);
                bytes.extend_from_slice(b"\r\n");
            }
        }
        let (client, id) = self.client_and_id(sequence);
        let udp_len = (bytes.len() - UDP_AT) as u16;
        let (source, destination) = (traffic.source_ip, traffic.destination_ip);
        let ethernet = EthernetRepr {
            destination: traffic.destination,
            source: traffic.source,
            tag: None,
            ethertype: EtherType::IPV4,
        };
        let ip = Ipv4Repr {
            source,
            destination,
            protocol: Ipv4Repr::UDP,
            ttl: TTL,
            dscp: 0,
            payload_len: udp_len,
        };
        let udp = UdpRepr {
            source_port: traffic.source_port.wrapping_add(client),
            destination_port: traffic.destination_port,
            payload_len: udp_len - UdpRepr::HEADER_BYTES as u16,
        };
        let header = MemcachedUdpRepr { request_id: id, sequence: 0, datagrams: 1 };
        ethernet
            .emit(bytes)
            .and_then(|()| ip.emit(&mut bytes[ETHERNET_BYTES..]))
            .and_then(|()| udp.emit(&mut bytes[UDP_AT..]))
            .and_then(|()| header.emit(&mut bytes[HEADER_AT..]))
            .expect("room was made for the headers");
        let sum = Sum::new().plus_ipv4_pseudo_header(source, destination, Ipv4Repr::UDP, udp_len);
        let checksum = checksum_field(sum.plus(&bytes[UDP_AT..]));
        bytes[UDP_AT + UdpRepr::CHECKSUM_AT..HEADER_AT].copy_from_slice(&checksum.to_be_bytes());
    }

    /// The request that a frame from the server answers, `next` being the next request's number.
    pub(crate) fn read(&self, next: u64, frame: &[u8]) -> Option<u64> {
        let ethernet = Ethernet::new_checked(frame).ok()?;
        let ip = Ipv4::new_checked(ethernet.payload()).ok()?;
        let udp = Udp::new_checked(ip.payload()).ok()?;
        let header = MemcachedUdp::new_checked(udp.payload()).ok()?;
        let client = udp.destination_port().wrapping_sub(self.traffic.source_port);
        if ethernet.ethertype() != EtherType::IPV4
            || ip.protocol() != Ipv4Repr::UDP
            || ip.source() != self.traffic.destination_ip
            || udp.source_port() != self.traffic.destination_port
            || client >= self.traffic.memcached.clients
        {
            return None;
        }
        let clients = u64::from(self.traffic.memcached.clients);
        let period = clients * IDS;
        let place = u64::from(header.request_id()) * clients + u64::from(client);
        // The last request with this client and id, or one that was never sent.
        let back = (next + period - 1 - place) % period + 1;
        Some(next.checked_sub(back).unwrap_or(u64::MAX))
    }

    pub(crate) fn check(&self, sequence: u64, frame: &[u8]) -> Result<(), Mismatch> {
        let traffic = &self.traffic;
        let wrong = |_| Mismatch::Headers;
        let ethernet = Ethernet::new_checked(frame).map_err(wrong)?;
        let ip = Ipv4::new_checked(ethernet.payload()).map_err(wrong)?;
        let udp = Udp::new_checked(ip.payload()).map_err(wrong)?;
        let header = MemcachedUdp::new_checked(udp.payload()).map_err(wrong)?;
        let stations: (MacAddr, MacAddr) = (ethernet.destination(), ethernet.source());
        if stations != (traffic.source, traffic.destination) || ip.destination() != traffic.source_ip {
            return Err(Mismatch::Addresses);
        }
        let (_, id) = self.client_and_id(sequence);
        let expected = MemcachedUdpRepr { request_id: id, sequence: 0, datagrams: 1 };
        if !ip.checksum_is_right()
            || !udp.checksum_is_right(ip.source(), ip.destination())
            || MemcachedUdpRepr::parse(&header) != expected
        {
            return Err(Mismatch::Headers);
        }
        let mut text = Vec::new();
        match self.operation {
            Operation::Set => text.extend_from_slice(STORED),
            Operation::Get => {
                let index = self.index(sequence);
                let value = traffic.memcached.value.0;
                write!(text, "VALUE {} 0 {value}\r\n", key_text(self.stream, index))
                    .expect("a vector takes any text");
                self.put_value(index, &mut text);
                text.extend_from_slice(b"\r\nEND\r\n");
            }
        }
        match header.payload() {
            got if got.len() != text.len() => Err(Mismatch::Length),
            got if got != text => Err(Mismatch::Payload),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "memcached_tests.rs"]
mod tests;
