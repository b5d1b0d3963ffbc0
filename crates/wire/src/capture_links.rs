//! Link types of captures (<https://www.tcpdump.org/linktypes.html>). Ethernet frames are used unchanged.
//! Packets of links that carry IP without an Ethernet header get one: Linux cooked captures of both versions
//! (`LINKTYPE_LINUX_SLL`, `LINKTYPE_LINUX_SLL2`), raw IP (`LINKTYPE_RAW`, `LINKTYPE_IPV4`, `LINKTYPE_IPV6`),
//! and BSD loopback (`LINKTYPE_NULL`, `LINKTYPE_LOOP`). The EtherType follows from the packet; the user of
//! the packet fills in the addresses.

use etherparse::EtherType;

use crate::mac::MacAddr;

/// A link type of pcap and pcapng.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkType(pub(crate) u32);

impl LinkType {
    const NULL: LinkType = LinkType(0);
    const ETHERNET: LinkType = LinkType(1);
    /// Raw IP numbers of libpcap on Linux and on OpenBSD, found in old files.
    const DLT_RAW: LinkType = LinkType(12);
    const DLT_RAW_OPENBSD: LinkType = LinkType(14);
    const RAW: LinkType = LinkType(101);
    const LOOP: LinkType = LinkType(108);
    const LINUX_SLL: LinkType = LinkType(113);
    const IPV4: LinkType = LinkType(228);
    const IPV6: LinkType = LinkType(229);
    const LINUX_SLL2: LinkType = LinkType(276);
}

/// Ethernet header added to a packet whose link has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyntheticHeader {
    /// The sender's MAC address, if recorded in the link's own header.
    pub sender: Option<MacAddr>,
}

/// A packet as an Ethernet frame without FCS.
pub(crate) struct Payload {
    pub(crate) bytes: Vec<u8>,
    pub(crate) original_len: u64,
    pub(crate) synthetic_header: Option<SyntheticHeader>,
}

const ADDRESSES_BYTES: usize = 12;
const ETHERNET_BYTES: u64 = 14;
const LOOPBACK_BYTES: usize = 4;
/// Address families of BSD loopback: IPv4 is always 2, IPv6 depends on the system.
const AF_INET: u32 = 2;
const AF_INET6: [u32; 3] = [24, 28, 30];
/// Smaller values are lengths (IEEE 802.3, 3.2.6), or Linux-specific numbers in cooked captures.
const ETHERTYPE_MIN: u16 = 0x0600;
/// Linux numbers of frames with a length instead of a type: without and with an LLC header.
const LINUX_802_3: u16 = 1;
const LINUX_802_2: u16 = 4;
const LENGTH_MAX: u64 = 1500;
/// ARP hardware type of Ethernet (RFC 1700), in cooked captures.
const ARPHRD_ETHER: u16 = 1;

/// Field offsets in a cooked capture's header.
struct Cooked {
    bytes: usize,
    protocol: usize,
    hardware: usize,
    /// Low byte of the address length.
    address_len: usize,
    address: usize,
}

const SLL: Cooked = Cooked { bytes: 16, protocol: 14, hardware: 2, address_len: 5, address: 6 };
const SLL2: Cooked = Cooked { bytes: 20, protocol: 0, hardware: 8, address_len: 11, address: 12 };

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

impl Payload {
    /// The frame of a packet; none if the link type is unsupported or the packet is shorter than the link's
    /// header.
    pub(crate) fn from_packet(link: LinkType, bytes: &[u8], original_len: u64) -> Option<Payload> {
        match link {
            LinkType::ETHERNET => {
                Some(Payload { bytes: bytes.to_vec(), original_len, synthetic_header: None })
            }
            LinkType::LINUX_SLL => Payload::from_cooked(&SLL, bytes, original_len),
            LinkType::LINUX_SLL2 => Payload::from_cooked(&SLL2, bytes, original_len),
            LinkType::RAW | LinkType::DLT_RAW | LinkType::DLT_RAW_OPENBSD => {
                let kind = match bytes.first()? >> 4 {
                    4 => EtherType::IPV4,
                    6 => EtherType::IPV6,
                    _ => return None,
                };
                Some(Payload::with_header(kind.0, None, bytes, original_len))
            }
            LinkType::IPV4 => Some(Payload::with_header(EtherType::IPV4.0, None, bytes, original_len)),
            LinkType::IPV6 => Some(Payload::with_header(EtherType::IPV6.0, None, bytes, original_len)),
            LinkType::NULL | LinkType::LOOP => {
                let (family, rest) = bytes.split_first_chunk::<LOOPBACK_BYTES>()?;
                let network_order = u32::from_be_bytes(*family);
                // The family of NULL is in the byte order of the capturing host.
                let swapped = (link == LinkType::NULL).then_some(network_order.swap_bytes());
                let is = |family: u32| network_order == family || swapped == Some(family);
                let kind = match () {
                    () if is(AF_INET) => EtherType::IPV4,
                    () if AF_INET6.into_iter().any(is) => EtherType::IPV6,
                    () => return None,
                };
                let rest_len = original_len.saturating_sub(LOOPBACK_BYTES as u64);
                Some(Payload::with_header(kind.0, None, rest, rest_len))
            }
            _ => None,
        }
    }

    fn from_cooked(header: &Cooked, bytes: &[u8], original_len: u64) -> Option<Payload> {
        let (head, rest) = bytes.split_at_checked(header.bytes)?;
        let rest_len = original_len.saturating_sub(header.bytes as u64);
        let kind = match u16_at(head, header.protocol) {
            LINUX_802_3 | LINUX_802_2 if rest_len <= LENGTH_MAX => rest_len as u16,
            kind if kind >= ETHERTYPE_MIN => kind,
            _ => return None,
        };
        let has_address = u16_at(head, header.hardware) == ARPHRD_ETHER && head[header.address_len] == 6;
        let address = head[header.address..].first_chunk::<6>().copied().map(MacAddr).filter(|_| has_address);
        let sender = address.filter(|address| !address.is_group() && address.0 != [0; 6]);
        Some(Payload::with_header(kind, sender, rest, rest_len))
    }

    /// Prepends an Ethernet header without addresses.
    fn with_header(kind: u16, sender: Option<MacAddr>, packet: &[u8], packet_len: u64) -> Payload {
        let bytes = [&[0; ADDRESSES_BYTES][..], &kind.to_be_bytes(), packet].concat();
        Payload {
            bytes,
            original_len: packet_len + ETHERNET_BYTES,
            synthetic_header: Some(SyntheticHeader { sender }),
        }
    }
}

#[cfg(test)]
#[path = "capture_links_tests.rs"]
mod tests;
