//! Resolves an IPv4 address to a MAC address: the requester's side of ARP (RFC 826).

use std::net::Ipv4Addr;

use doorbell_sim::Frame;
use doorbell_wire::{EtherType, Ethernet, EthernetRepr, MacAddr};

use crate::frame::ETHERNET_BYTES;

const ARP_AT: usize = ETHERNET_BYTES;
const ARP_BYTES: usize = 28;
/// Ethernet and IPv4, addresses of 6 and 4 bytes.
const ARP_KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];
const REQUEST: [u8; 2] = [0, 1];
const REPLY: [u8; 2] = [0, 2];

/// ARP request for `target` from station `mac` with address `ip`.
pub(crate) fn arp_request(target: Ipv4Addr, mac: MacAddr, ip: Ipv4Addr) -> Frame {
    let mut bytes = vec![0; Frame::MIN_BYTES_WITH_FCS - Frame::FCS_BYTES];
    let header =
        EthernetRepr { destination: MacAddr::BROADCAST, source: mac, tag: None, ethertype: EtherType::ARP };
    header.emit(&mut bytes).expect("a frame has room for its header");
    let unknown = [0; 6];
    let packet = [&ARP_KIND[..], &REQUEST, &mac.0, &ip.octets(), &unknown, &target.octets()].concat();
    bytes[ARP_AT..ARP_AT + ARP_BYTES].copy_from_slice(&packet);
    Frame::new(bytes)
}

/// The MAC address of `target` if this frame is an ARP reply for it to `mac`.
pub(crate) fn station_in_reply(frame: &[u8], target: Ipv4Addr, mac: MacAddr) -> Option<MacAddr> {
    let view = Ethernet::new_checked(frame).ok()?;
    let packet = view.payload().get(..ARP_BYTES)?;
    let is_reply = view.ethertype() == EtherType::ARP
        && view.destination() == mac
        && packet[..6] == ARP_KIND
        && packet[6..8] == REPLY
        && packet[14..18] == target.octets();
    let mut station = MacAddr::default();
    station.0.copy_from_slice(&packet[8..14]);
    (is_reply && !station.is_group()).then_some(station)
}
