//! The responder: what a tester's port answers besides taking its own frames back, so that a network stack at
//! the other end finds a neighbour. It takes no simulated time to answer; the link carries answers in turn.
//!
//! Answered are ARP requests for its two addresses (RFC 826), ICMP echo requests to the first (RFC 792, "Echo or Echo
//! Reply Message"), and every IPv4 packet to the second, the *mirror*: it goes back with its MAC and its IPv4 addresses
//! exchanged, so that a host meets itself there, over the wire. A program that connects to the mirror reaches the
//! port of its own host, and an echo request to the mirror is answered by the host itself. Exchanged addresses leave
//! every checksum as it was, so a wrong one comes back wrong. One 802.1Q tag is kept as it is.
//!
//! Not modelled: fragments (an echo request in pieces is not answered; the mirror returns every piece), IPv6, and
//! addresses learnt: answers go to whoever sent the request.

use std::net::Ipv4Addr;

use doorbell_sim::Frame;
use doorbell_wire::checksum::Sum;
use doorbell_wire::{EtherType, Ethernet, Ipv4, Ipv4Repr, MacAddr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::address_at_port;

/// What the responder answers to, as configuration files write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResponderConfig {
    /// Whether it answers at all.
    pub enabled: bool,
    /// The address that answers ARP and echo requests. This is the generator at the first port; those at further ports
    /// count up in the third byte (10.0.1.1, 10.0.2.1 …), and so does `mirror`. The MAC address is the traffic's `source`.
    pub ip: Ipv4Addr,
    /// The address from which every packet comes back to its sender.
    pub mirror: Ipv4Addr,
}

impl Default for ResponderConfig {
    fn default() -> Self {
        ResponderConfig {
            enabled: true,
            ip: Ipv4Addr::new(10, 0, 0, 1),
            mirror: Ipv4Addr::new(10, 0, 0, 254),
        }
    }
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// An ARP request.
    Arp,
    /// An ICMP echo request.
    Echo,
    /// A packet to the mirror.
    Mirrored,
}

/// A responder at one port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Responder {
    ip: Ipv4Addr,
    mirror: Ipv4Addr,
}

const ARP_BYTES: usize = 28;
/// Ethernet and IPv4 addresses, of 6 and 4 bytes; the operation is a request.
const ARP_REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
const ARP_OPERATION_REPLY: u8 = 2;
const ICMP: u8 = 1;
const ICMP_HEADER_BYTES: usize = 8;
const ICMP_ECHO: u8 = 8;
const ICMP_ECHO_REPLY: u8 = 0;
const TTL: u8 = 64;
/// Bytes of the IPv4 header: the fragment's flags and offset, and the end of the addresses.
const IP_FRAGMENT: usize = 6;
const IP_END: usize = 20;
const MORE_FRAGMENTS_AND_OFFSET: u16 = 0x3fff;

impl Responder {
    /// The responder of generator number `stream`, if it is on.
    pub fn new(config: &ResponderConfig, stream: u32) -> Option<Responder> {
        let at_port = |address| address_at_port(address, stream);
        config.enabled.then(|| Responder { ip: at_port(config.ip), mirror: at_port(config.mirror) })
    }

    /// The answer to a frame that the station `mac` gets, if there is one.
    pub fn answer(&self, mac: MacAddr, frame: &[u8]) -> Option<(Answered, Frame)> {
        let view = Ethernet::new_checked(frame).ok()?;
        let to_us = view.destination() == mac || view.destination() == MacAddr::BROADCAST;
        if !to_us || view.source().is_group() {
            return None;
        }
        let (ethertype, header) = (view.ethertype(), view.header_len());
        let mut answer = frame.to_vec();
        let payload = &mut answer[header..];
        let answered = match ethertype {
            EtherType::ARP => self.arp(mac, payload),
            EtherType::IPV4 if view.destination() == mac => self.ipv4(payload),
            _ => None,
        }?;
        let mut reply = Ethernet::new_checked(&mut answer).ok()?;
        reply.set_destination(view.source());
        reply.set_source(mac);
        // A short answer is padded as a sender has to.
        answer.resize(answer.len().max(Frame::MIN_BYTES_WITH_FCS - Frame::FCS_BYTES), 0);
        Some((answered, Frame::new(answer)))
    }

    /// Turns an ARP request for one of the addresses into its reply.
    fn arp(&self, mac: MacAddr, packet: &mut [u8]) -> Option<Answered> {
        let packet = packet.get_mut(..ARP_BYTES)?;
        let target = Ipv4Addr::new(packet[24], packet[25], packet[26], packet[27]);
        if packet[..8] != ARP_REQUEST || ![self.ip, self.mirror].contains(&target) {
            return None;
        }
        packet[7] = ARP_OPERATION_REPLY;
        packet.copy_within(8..18, 18);
        packet[8..14].copy_from_slice(&mac.0);
        packet[14..18].copy_from_slice(&target.octets());
        Some(Answered::Arp)
    }

    /// Turns a packet to one of the addresses into its answer.
    fn ipv4(&self, packet: &mut [u8]) -> Option<Answered> {
        let view = Ipv4::new_checked(&*packet).ok()?;
        if !view.checksum_is_right() {
            return None;
        }
        let (destination, header) = (view.destination(), view.header_len());
        if destination == self.mirror {
            packet[Ipv4Repr::SOURCE_AT..IP_END].rotate_left(4);
            return Some(Answered::Mirrored);
        }
        let is_echo = view.protocol() == ICMP
            && u16::from_be_bytes([packet[IP_FRAGMENT], packet[IP_FRAGMENT + 1]]) & MORE_FRAGMENTS_AND_OFFSET
                == 0
            && view.payload().len() >= ICMP_HEADER_BYTES
            && view.payload()[..2] == [ICMP_ECHO, 0]
            && Sum::new().plus(view.payload()).finish() == 0;
        if destination != self.ip || !is_echo {
            return None;
        }
        let end = usize::from(view.total_len());
        packet[Ipv4Repr::SOURCE_AT..IP_END].rotate_left(4);
        packet[Ipv4Repr::TTL_AT] = TTL;
        put_checksum(&mut packet[..header], Ipv4Repr::CHECKSUM_AT);
        let message = &mut packet[header..end];
        message[0] = ICMP_ECHO_REPLY;
        put_checksum(message, 2);
        Some(Answered::Echo)
    }
}

/// Writes the checksum of all these bytes at `at` among them.
pub(crate) fn put_checksum(bytes: &mut [u8], at: usize) {
    bytes[at..at + 2].fill(0);
    let sum = Sum::new().plus(bytes).finish();
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
#[path = "responder_tests.rs"]
mod tests;
