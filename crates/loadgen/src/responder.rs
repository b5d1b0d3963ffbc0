//! The responder: a tester port's replies to a network stack, so that the stack finds a neighbour. It takes
//! no simulated time; the link sends replies in turn.
//!
//! It answers ARP requests for its two addresses (RFC 826), and ICMP echo requests to the first (RFC 792,
//! "Echo or Echo Reply Message"). It returns every IPv4 packet to the second address, the *mirror*, with MAC
//! and IPv4 addresses swapped, so that a host connects to itself over the wire. A program that connects to
//! the mirror reaches the port of its own host, and the host itself answers an echo request to the mirror.
//! Swapping addresses preserves every checksum, so a wrong one is returned wrong. One 802.1Q tag is
//! preserved.
//!
//! Not modelled: fragments (a fragmented echo request is not answered; the mirror returns every fragment),
//! IPv6, and address learning: replies go to the sender of the request.

use std::net::Ipv4Addr;

use doorbell_sim::{Frame, config};
use doorbell_wire::checksum::Sum;
use doorbell_wire::{MacAddr, ipv4};
use etherparse::{EtherType, Ethernet2HeaderSlice, IpNumber, Ipv4Slice, SingleVlanHeaderSlice};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::address_at_port;
use crate::frame::{ADDRESS_BYTES, ETHERNET_BYTES};

config! {
    /// The responder, as written in configuration files.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct ResponderConfig {
        /// Whether the responder is on.
        pub enabled: bool = true,
        /// Address that answers ARP and echo requests, at the first port; later ports increment the third
        /// byte (10.0.1.1, 10.0.2.1 …), also of `mirror`. The MAC address is the traffic's `source`.
        pub ip: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1),
        /// Address from which every packet is returned to its sender.
        pub mirror: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254),
    }
}

/// Kind of reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    /// To an ARP request.
    Arp,
    /// To an ICMP echo request.
    Echo,
    /// A packet returned by the mirror.
    Mirrored,
}

/// A responder at one port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Responder {
    ip: Ipv4Addr,
    mirror: Ipv4Addr,
}

const ARP_BYTES: usize = 28;
/// Ethernet and IPv4 address types and lengths (6 and 4 bytes); operation "request".
const ARP_REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
const ARP_OPERATION_REPLY: u8 = 2;
const ICMP_HEADER_BYTES: usize = 8;
const ICMP_ECHO: u8 = 8;
const ICMP_ECHO_REPLY: u8 = 0;
const TTL: u8 = 64;
/// End of the addresses in the IPv4 header.
const IP_END: usize = 20;

impl Responder {
    /// The responder of generator `stream`, if enabled.
    pub fn new(config: &ResponderConfig, stream: u32) -> Option<Responder> {
        let at_port = |address| address_at_port(address, stream);
        config.enabled.then(|| Responder { ip: at_port(config.ip), mirror: at_port(config.mirror) })
    }

    /// The reply to a frame received by station `mac`, if any.
    pub fn answer(&self, mac: MacAddr, frame: &[u8]) -> Option<(ReplyKind, Frame)> {
        let header = Ethernet2HeaderSlice::from_slice(frame).ok()?;
        let (destination, source) = (MacAddr(header.destination()), MacAddr(header.source()));
        if ![mac, MacAddr::BROADCAST].contains(&destination) || source.is_group() {
            return None;
        }
        let (ethertype, payload_at) = match header.ether_type() {
            EtherType::VLAN_TAGGED_FRAME => {
                let tag = SingleVlanHeaderSlice::from_slice(&frame[ETHERNET_BYTES..]).ok()?;
                (tag.ether_type(), ETHERNET_BYTES + tag.slice().len())
            }
            plain => (plain, ETHERNET_BYTES),
        };
        let mut answer = frame.to_vec();
        let payload = &mut answer[payload_at..];
        let answered = match ethertype {
            EtherType::ARP => self.arp(mac, payload),
            EtherType::IPV4 if destination == mac => self.ipv4(payload),
            _ => None,
        }?;
        answer[..6].copy_from_slice(&source.0);
        answer[6..ADDRESS_BYTES].copy_from_slice(&mac.0);
        // A short reply is padded to the minimum frame size.
        answer.resize(answer.len().max(Frame::MIN_BYTES_WITH_FCS - Frame::FCS_BYTES), 0);
        Some((answered, Frame::new(answer)))
    }

    /// Turns an ARP request for one of the addresses into its reply.
    fn arp(&self, mac: MacAddr, packet: &mut [u8]) -> Option<ReplyKind> {
        let packet = packet.get_mut(..ARP_BYTES)?;
        let target = Ipv4Addr::new(packet[24], packet[25], packet[26], packet[27]);
        if packet[..8] != ARP_REQUEST || ![self.ip, self.mirror].contains(&target) {
            return None;
        }
        packet[7] = ARP_OPERATION_REPLY;
        packet.copy_within(8..18, 18);
        packet[8..14].copy_from_slice(&mac.0);
        packet[14..18].copy_from_slice(&target.octets());
        Some(ReplyKind::Arp)
    }

    /// Turns a packet to one of the addresses into its reply.
    fn ipv4(&self, packet: &mut [u8]) -> Option<ReplyKind> {
        let view = Ipv4Slice::from_slice(packet).ok()?;
        if !ipv4::checksum_is_right(&view.header()) {
            return None;
        }
        let (destination, header) = (view.header().destination_addr(), view.header().slice().len());
        if destination == self.mirror {
            packet[ipv4::SOURCE_AT..IP_END].rotate_left(4);
            return Some(ReplyKind::Mirrored);
        }
        let message = view.payload().payload;
        let is_echo = view.header().protocol() == IpNumber::ICMP
            && !view.is_payload_fragmented()
            && message.len() >= ICMP_HEADER_BYTES
            && message[..2] == [ICMP_ECHO, 0]
            && Sum::new().plus(message).finish() == 0;
        if destination != self.ip || !is_echo {
            return None;
        }
        let end = usize::from(view.header().total_len());
        packet[ipv4::SOURCE_AT..IP_END].rotate_left(4);
        packet[ipv4::TTL_AT] = TTL;
        put_checksum(&mut packet[..header], ipv4::CHECKSUM_AT);
        let message = &mut packet[header..end];
        message[0] = ICMP_ECHO_REPLY;
        put_checksum(message, 2);
        Some(ReplyKind::Echo)
    }
}

/// Writes the checksum of `bytes` into them at offset `at`.
pub(crate) fn put_checksum(bytes: &mut [u8], at: usize) {
    bytes[at..at + 2].fill(0);
    let sum = Sum::new().plus(bytes).finish();
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
#[path = "responder_tests.rs"]
mod tests;
