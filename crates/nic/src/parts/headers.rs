//! Finds the headers of a frame: Ethernet (IEEE 802.3) with at most one tag (802.1Q), IPv4 (RFC 791), IPv6
//! with extension headers (RFC 8200), TCP, UDP and SCTP. An invalid length ends the search.

use doorbell_wire::checksum::Sum;
use etherparse::{EtherType, IpNumber, Ipv4Header, Ipv4HeaderSlice, Ipv6Header, Ipv6HeaderSlice};

use super::checksum::{SCTP_FIELD, sctp};

/// IPv6 extension headers, by their next-header number.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;
const TCP: u8 = IpNumber::TCP.0;
const UDP: u8 = IpNumber::UDP.0;
const SCTP: u8 = 132;
const SYN: u8 = 1 << 1;

/// The network layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    Ipv4,
    Ipv6,
}

/// The transport layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
    Sctp,
}

/// Headers found. Positions are byte offsets in the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers {
    /// EtherType, after the VLAN tag if there is one.
    pub ethertype: u16,
    pub network: Option<Network>,
    /// Start of the IP header.
    pub ip: usize,
    /// IPv4 options or IPv6 extension headers are present.
    pub extended: bool,
    /// It is a fragment of a datagram.
    pub fragment: bool,
    /// IP protocol number.
    pub protocol: u8,
    /// Start of the IP payload, and its end according to the IP length.
    pub payload: usize,
    pub end: usize,
    /// Transport header, if it is complete and the frame is not a fragment.
    pub transport: Option<Transport>,
    /// End of the last header found.
    pub headers_end: usize,
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

impl Headers {
    /// Parses a frame without FCS. `vlan_type` is the EtherType of VLAN tags; `None` if a tag was stripped,
    /// and then headers behind another tag are not found.
    pub fn parse(bytes: &[u8], vlan_type: Option<u16>) -> Headers {
        let mut found = Headers::default();
        let Some(mut ethertype) = half(bytes, 12) else { return found };
        found.ip = 14;
        if Some(ethertype) == vlan_type {
            let Some(inner) = half(bytes, 16) else { return found };
            (ethertype, found.ip) = (inner, 18);
        }
        (found.ethertype, found.headers_end) = (ethertype, found.ip);
        let whole = match EtherType(ethertype) {
            EtherType::IPV4 => found.ipv4(bytes),
            EtherType::IPV6 => found.ipv6(bytes),
            _ => None,
        };
        if whole.is_some() && !found.fragment {
            found.transport(bytes);
        }
        found
    }

    fn ipv4(&mut self, bytes: &[u8]) -> Option<()> {
        let header = Ipv4HeaderSlice::from_slice(bytes.get(self.ip..)?).ok()?;
        (self.payload, self.end) =
            (self.ip + header.slice().len(), self.ip + usize::from(header.total_len()));
        if self.end < self.payload || self.end > bytes.len() {
            return None;
        }
        self.network = Some(Network::Ipv4);
        self.extended = header.slice().len() > Ipv4Header::MIN_LEN;
        self.fragment = header.is_fragmenting_payload();
        self.protocol = header.protocol().0;
        self.headers_end = self.payload;
        Some(())
    }

    fn ipv6(&mut self, bytes: &[u8]) -> Option<()> {
        let header = Ipv6HeaderSlice::from_slice(bytes.get(self.ip..)?).ok()?;
        self.payload = self.ip + Ipv6Header::LEN;
        self.end = self.payload + usize::from(header.payload_length());
        if self.end > bytes.len() {
            return None;
        }
        self.network = Some(Network::Ipv6);
        self.protocol = header.next_header().0;
        while matches!(self.protocol, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION) {
            let length = match self.protocol {
                FRAGMENT => 8,
                _ => 8 + 8 * usize::from(*bytes.get(self.payload + 1)?),
            };
            if self.payload + length > self.end {
                return None;
            }
            self.extended = true;
            self.fragment |= self.protocol == FRAGMENT;
            self.protocol = bytes[self.payload];
            self.payload += length;
        }
        self.headers_end = self.payload;
        Some(())
    }

    fn transport(&mut self, bytes: &[u8]) {
        let length = match self.protocol {
            TCP => match bytes.get(self.payload + 12) {
                Some(offset) => usize::from(offset >> 4) * 4,
                None => return,
            },
            UDP => 8,
            SCTP => 12,
            _ => return,
        };
        let least = if self.protocol == TCP { 20 } else { length };
        if length < least || self.payload + length > self.end {
            return;
        }
        self.transport = Some(match self.protocol {
            TCP => Transport::Tcp,
            UDP => Transport::Udp,
            _ => Transport::Sctp,
        });
        self.headers_end = self.payload + length;
    }

    /// Source and destination address, concatenated.
    pub fn addresses<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        match self.network {
            Some(Network::Ipv4) => &bytes[self.ip + 12..self.ip + 20],
            Some(Network::Ipv6) => &bytes[self.ip + 8..self.ip + Ipv6Header::LEN],
            None => &[],
        }
    }

    /// Source and destination port, concatenated.
    pub fn ports<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        if self.transport.is_some() { &bytes[self.payload..self.payload + 4] } else { &[] }
    }

    /// Whether it is a TCP SYN.
    pub fn is_syn(&self, bytes: &[u8]) -> bool {
        self.transport == Some(Transport::Tcp) && bytes[self.payload + 13] & SYN != 0
    }

    /// Whether the IPv4 header checksum is correct; `None` without IPv4.
    pub fn ip_sum_is_good(&self, bytes: &[u8]) -> Option<bool> {
        let own = self.network == Some(Network::Ipv4);
        own.then(|| Sum::new().plus(&bytes[self.ip..self.payload]).finish() == 0)
    }

    /// Whether the SCTP checksum is correct; `None` for other transports.
    pub fn sctp_sum_is_good(&self, bytes: &[u8]) -> Option<bool> {
        let own = self.transport == Some(Transport::Sctp);
        own.then(|| {
            let packet = &bytes[self.payload..self.end];
            packet[SCTP_FIELD] == sctp(packet).to_le_bytes()
        })
    }

    /// Whether the TCP or UDP checksum is correct; `None` if there is none to check.
    pub fn transport_sum_is_good(&self, bytes: &[u8]) -> Option<bool> {
        let transport = self.transport?;
        let datagram = &bytes[self.payload..self.end];
        match transport {
            Transport::Tcp => {}
            // UDP without a checksum has zero in the field.
            Transport::Udp if half(datagram, 6)? != 0 => {}
            Transport::Udp | Transport::Sctp => return None,
        }
        let pseudo = Sum::new().plus(self.addresses(bytes)).plus_u16(self.protocol.into());
        Some(pseudo.plus_u16(datagram.len() as u16).plus(datagram).finish() == 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A UDP packet with checksums computed by hand, independently of this crate: 10.0.0.1:1 to 10.0.0.2:2,
    /// payload "hi".
    fn udp() -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        bytes.extend([0x45, 0, 0, 30, 0, 0, 0x40, 0, 64, 17, 0x26, 0xcd, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend([0, 1, 0, 2, 0, 10, 0x83, 0x6b, b'h', b'i']);
        bytes.resize(60, 0);
        bytes
    }

    /// A TCP SYN over IPv6 with a hop-by-hop header and no checksum.
    fn syn_over_ipv6() -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 28, 0, 64];
        bytes.extend((0..32).collect::<Vec<u8>>());
        bytes.extend([6, 0, 1, 4, 0, 0, 0, 0]);
        bytes.extend([0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0, 1, 0, 0, 0, 0]);
        bytes
    }

    #[test]
    fn headers_are_found_and_checksums_are_verified() {
        let bytes = udp();
        let found = Headers::parse(&bytes, Some(0x8100));
        assert_eq!((found.network, found.transport), (Some(Network::Ipv4), Some(Transport::Udp)));
        assert_eq!((found.ip, found.payload, found.end, found.headers_end), (14, 34, 44, 42));
        assert_eq!(
            (found.addresses(&bytes), found.ports(&bytes)),
            (&[10, 0, 0, 1, 10, 0, 0, 2][..], &[0, 1, 0, 2][..])
        );
        assert_eq!(
            (found.ip_sum_is_good(&bytes), found.transport_sum_is_good(&bytes)),
            (Some(true), Some(true))
        );
        for (at, sums) in [(15, (Some(false), Some(true))), (42, (Some(true), Some(false)))] {
            let mut broken = bytes.clone();
            broken[at] ^= 1;
            assert_eq!((found.ip_sum_is_good(&broken), found.transport_sum_is_good(&broken)), sums);
        }
        let mut tagged = bytes.clone();
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        assert_eq!(Headers::parse(&tagged, Some(0x8100)).transport_sum_is_good(&tagged), Some(true));
        assert_eq!(Headers::parse(&tagged, Some(0x88a8)).network, None);
        assert_eq!(Headers::parse(&tagged, None).network, None);
    }

    #[test]
    fn ipv6_extension_headers_are_skipped() {
        let bytes = syn_over_ipv6();
        let found = Headers::parse(&bytes, Some(0x8100));
        assert_eq!((found.network, found.transport), (Some(Network::Ipv6), Some(Transport::Tcp)));
        assert!(found.extended && found.is_syn(&bytes) && !found.fragment);
        assert_eq!((found.payload, found.headers_end, found.ports(&bytes)), (62, 82, &[0, 80, 0, 81][..]));
    }

    #[test]
    fn a_fragment_has_no_transport_header() {
        let mut fragment = udp();
        fragment[20] = 0x20;
        let found = Headers::parse(&fragment, Some(0x8100));
        assert!(
            found.fragment && found.transport.is_none() && found.transport_sum_is_good(&fragment).is_none()
        );
    }

    proptest! {
        #[test]
        fn invalid_lengths_do_not_panic(
            six in any::<bool>(),
            cut in 0usize..90,
            changes in prop::collection::vec((12usize..80, any::<u8>()), 0..4),
        ) {
            let mut bytes = if six { syn_over_ipv6() } else { udp() };
            for (at, value) in changes {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            bytes.truncate(cut);
            let found = Headers::parse(&bytes, Some(0x8100));
            found.addresses(&bytes);
            found.ports(&bytes);
            found.is_syn(&bytes);
            found.ip_sum_is_good(&bytes);
            found.transport_sum_is_good(&bytes);
            found.sctp_sum_is_good(&bytes);
            prop_assert!(found.headers_end <= bytes.len().max(14));
        }
    }
}
