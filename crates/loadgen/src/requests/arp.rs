//! Resolves an IPv4 address to a MAC address: the requester's side of ARP (RFC 826).

use std::net::Ipv4Addr;

use doorbell_sim::Frame;
use doorbell_wire::MacAddr;
use etherparse::{EtherType, Ethernet2Header, Ethernet2Slice};

const ARP_BYTES: usize = 28;
/// Ethernet and IPv4, addresses of 6 and 4 bytes.
const ARP_KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];
const REQUEST: [u8; 2] = [0, 1];
const REPLY: [u8; 2] = [0, 2];

/// ARP request for `target` from station `mac` with address `ip`.
pub(crate) fn arp_request(target: Ipv4Addr, mac: MacAddr, ip: Ipv4Addr) -> Frame {
    let (source, destination) = (mac.0, MacAddr::BROADCAST.0);
    let header = Ethernet2Header { source, destination, ether_type: EtherType::ARP }.to_bytes();
    let unknown = [0; 6];
    let packet = [&header[..], &ARP_KIND, &REQUEST, &mac.0, &ip.octets(), &unknown, &target.octets()];
    let mut bytes = packet.concat();
    bytes.resize(Frame::MIN_BYTES_WITH_FCS - Frame::FCS_BYTES, 0);
    Frame::new(bytes)
}

/// The MAC address of `target` if this frame is an ARP reply for it to `mac`.
pub(crate) fn station_in_reply(frame: &[u8], target: Ipv4Addr, mac: MacAddr) -> Option<MacAddr> {
    let view = Ethernet2Slice::from_slice_without_fcs(frame).ok()?;
    let packet = view.payload_slice().get(..ARP_BYTES)?;
    let is_reply = view.ether_type() == EtherType::ARP
        && view.destination() == mac.0
        && packet[..6] == ARP_KIND
        && packet[6..8] == REPLY
        && packet[14..18] == target.octets();
    let mut station = MacAddr::default();
    station.0.copy_from_slice(&packet[8..14]);
    (is_reply && !station.is_group()).then_some(station)
}
