//! Header layout of a captured packet, for filters and address rewriting. Packets are parsed but not
//! validated, because captures may contain anything. VLAN tags, IPv4 options, IPv6 extension headers and ARP
//! are handled.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use doorbell_wire::checksum::Sum;
use doorbell_wire::{ipv4, ipv6, tcp, udp};
use etherparse::{EtherType, IpNumber, Ipv4Header, Ipv6Header};

use crate::frame::ADDRESS_BYTES;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
const ICMP_V6: u8 = 58;
const TCP: u8 = IpNumber::TCP.0;
const UDP: u8 = IpNumber::UDP.0;
const DCCP: u8 = 33;
const UDP_LITE: u8 = 136;
/// Offsets of the IPv4 addresses in an ARP packet, after its Ethernet addresses.
const ARP_ADDRESSES: [usize; 2] = [14, 24];
const ARP_BYTES: usize = 28;
const FRAGMENT_OFFSET: u16 = 0x1fff;

/// An address with a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net {
    address: IpAddr,
    bits: u8,
}

/// Error in a text that should be a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not a network; expected an address with a prefix such as \"10.1.0.0/16\" or \"2001:2::/48\", or an address"
)]
pub struct NetError(String);

impl Net {
    fn mask(self) -> u128 {
        let width = if self.address.is_ipv6() { 128 } else { 32 };
        let hosts = width - u32::from(self.bits);
        let all = u128::MAX >> (128 - width);
        if hosts == width { 0 } else { all >> hosts << hosts }
    }

    fn network(self) -> u128 {
        value(self.address) & self.mask()
    }

    /// Whether the address is in the network.
    pub(crate) fn has(self, address: &[u8]) -> bool {
        self.has_version_of(address) && number(address) & self.mask() == self.network()
    }

    fn has_version_of(self, address: &[u8]) -> bool {
        address.len() == if self.address.is_ipv6() { 16 } else { 4 }
    }

    /// Maps an address of the same version into the network, keeping its host part.
    fn remap(self, address: &[u8]) -> Option<u128> {
        self.has_version_of(address).then(|| self.network() | (number(address) & !self.mask()))
    }
}

fn value(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

impl FromStr for Net {
    type Err = NetError;
    fn from_str(text: &str) -> Result<Net, NetError> {
        let error = || NetError(text.to_owned());
        let (address, bits) = text.trim().split_once('/').map_or((text.trim(), None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| error())?;
        let most = if address.is_ipv6() { 128 } else { 32 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| error())?;
        if bits > most { Err(error()) } else { Ok(Net { address, bits }) }
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

doorbell_sim::text_serde!(Net);
doorbell_sim::text_schema!(Net, "a network such as \"10.0.0.0/8\" or \"2001:db8::/32\"", &[]);

/// Offsets of a packet's headers and fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// EtherType after all tags, and the offset of its packet.
    pub(crate) ethertype: u16,
    pub(crate) network_at: usize,
    /// Offsets of the source and destination address, and their length; zero if there are none.
    addresses: [usize; 2],
    pub(crate) address_bytes: usize,
    /// Transport protocol, and the offset of its header if this fragment contains it.
    pub(crate) protocol: Option<u8>,
    transport_at: Option<usize>,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

impl Layout {
    pub(crate) fn parse(bytes: &[u8]) -> Layout {
        let mut at = ADDRESS_BYTES;
        let is_tag =
            |kind: u16| [EtherType::VLAN_TAGGED_FRAME.0, EtherType::PROVIDER_BRIDGING.0].contains(&kind);
        while u16_at(bytes, at).is_some_and(is_tag) {
            at += 4;
        }
        let Some(ethertype) = u16_at(bytes, at) else { return Layout::default() };
        let plain = Layout { ethertype, network_at: at + 2, ..Layout::default() };
        let packet = &bytes[plain.network_at..];
        match EtherType(ethertype) {
            EtherType::IPV4 if packet.len() >= Ipv4Header::MIN_LEN && packet[0] >> 4 == 4 => {
                plain.ipv4(packet)
            }
            EtherType::IPV6 if packet.len() >= Ipv6Header::LEN && packet[0] >> 4 == 6 => plain.ipv6(packet),
            EtherType::ARP if packet.len() >= ARP_BYTES && packet[..6] == [0, 1, 8, 0, 6, 4] => {
                let addresses = ARP_ADDRESSES.map(|place| plain.network_at + place);
                Layout { addresses, address_bytes: 4, ..plain }
            }
            _ => plain,
        }
    }

    fn ipv4(self, packet: &[u8]) -> Layout {
        let first = u16_at(packet, 6).is_some_and(|field| field & FRAGMENT_OFFSET == 0);
        let at = self.network_at;
        Layout {
            addresses: [at + ipv4::SOURCE_AT, at + ipv4::DESTINATION_AT],
            address_bytes: 4,
            protocol: Some(packet[9]),
            transport_at: first.then_some(at + usize::from(packet[0] & 0xf) * 4),
            ..self
        }
    }

    fn ipv6(self, packet: &[u8]) -> Layout {
        let (mut protocol, mut at, mut first) = (packet[6], Ipv6Header::LEN, true);
        while let (HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS, Some(header)) =
            (protocol, packet.get(at..at + 8))
        {
            let length = if protocol == FRAGMENT { 8 } else { (usize::from(header[1]) + 1) * 8 };
            first &= protocol != FRAGMENT || u16_at(header, 2).is_some_and(|field| field >> 3 == 0);
            (protocol, at) = (header[0], at + length);
        }
        let places = [ipv6::SOURCE_AT, ipv6::DESTINATION_AT];
        Layout {
            addresses: places.map(|place| self.network_at + place),
            address_bytes: 16,
            protocol: Some(protocol),
            transport_at: first.then_some(self.network_at + at),
            ..self
        }
    }

    /// Source and destination IP address; empty if there are none.
    pub(crate) fn ip_addresses<'a>(&self, bytes: &'a [u8]) -> [&'a [u8]; 2] {
        self.addresses.map(|at| bytes.get(at..at + self.address_bytes).unwrap_or_default())
    }

    /// Ports of TCP, UDP and similar protocols.
    pub(crate) fn ports(&self, bytes: &[u8]) -> Option<[u16; 2]> {
        let has_ports = [TCP, UDP, UDP_LITE, DCCP].contains(&self.protocol?);
        let at = self.transport_at.filter(|_| has_ports)?;
        Some([u16_at(bytes, at)?, u16_at(bytes, at + 2)?])
    }

    /// Offset of the transport checksum, if it covers the addresses.
    fn checksum_at(&self) -> Option<usize> {
        let offset = match self.protocol? {
            TCP => tcp::CHECKSUM_AT,
            UDP | UDP_LITE | DCCP => udp::CHECKSUM_AT,
            ICMP_V6 if self.address_bytes == 16 => 2,
            _ => return None,
        };
        Some(self.transport_at? + offset)
    }

    /// Maps the IP addresses into other networks and updates the checksums that cover them incrementally (RFC
    /// 1624). Correct checksums stay correct, wrong ones stay wrong.
    pub(crate) fn rewrite(&self, nets: [Option<Net>; 2], bytes: &mut [u8]) {
        for (at, net) in self.addresses.into_iter().zip(nets) {
            let Some(old) = bytes.get(at..at + self.address_bytes).map(<[u8]>::to_vec) else { continue };
            let Some(new) = net.and_then(|net| net.remap(&old)) else { continue };
            let new = &new.to_be_bytes()[16 - self.address_bytes..];
            bytes[at..at + self.address_bytes].copy_from_slice(new);
            if self.ethertype == EtherType::IPV4.0 {
                update_checksum(bytes, self.network_at + ipv4::CHECKSUM_AT, &old, new);
            }
            let Some(checksum_at) = self.checksum_at() else { continue };
            // A UDP checksum of zero means none.
            if self.protocol != Some(UDP) || u16_at(bytes, checksum_at) != Some(0) {
                update_checksum(bytes, checksum_at, &old, new);
                if self.protocol == Some(UDP) && u16_at(bytes, checksum_at) == Some(0) {
                    bytes[checksum_at..checksum_at + 2].fill(0xff);
                }
            }
        }
    }
}

/// Updates a checksum for a change of bytes from `old` to `new`, if the packet contains the checksum.
fn update_checksum(bytes: &mut [u8], at: usize, old: &[u8], new: &[u8]) {
    let Some(checksum) = u16_at(bytes, at) else { return };
    let inverted: Vec<u8> = old.iter().map(|byte| !byte).collect();
    let sum = Sum::new().plus_u16(!checksum).plus(&inverted).plus(new).finish();
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// The bytes that a router preserves: all after the MAC addresses, with TTL or hop limit and the IPv4
/// checksum zeroed.
pub(crate) fn router_invariant_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut rest = bytes.to_vec();
    let layout = Layout::parse(bytes);
    let fields: &[usize] = match EtherType(layout.ethertype) {
        EtherType::IPV4 => &[ipv4::TTL_AT, ipv4::CHECKSUM_AT, ipv4::CHECKSUM_AT + 1],
        EtherType::IPV6 => &[ipv6::HOP_LIMIT_AT],
        _ => &[],
    };
    for field in fields {
        if let Some(byte) = rest.get_mut(layout.network_at + field) {
            *byte = 0;
        }
    }
    rest.drain(..ADDRESS_BYTES.min(bytes.len()));
    rest
}

#[cfg(test)]
#[path = "packet_tests.rs"]
mod tests;
