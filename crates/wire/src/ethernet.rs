//! Ethernet II frames (IEEE 802.3 §3.1) with at most one VLAN tag (IEEE 802.1Q §9.6), from the destination
//! address to the last byte before the FCS. LLC frames, which have a length instead of a type, are
//! recognisable only by that value; further tags (802.1ad) are part of the payload.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::HeaderError;

/// A 48-bit MAC address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The broadcast address.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// Whether it is a group address (multicast or broadcast): the first bit on the wire is 1.
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Error in a text that should be a MAC address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a MAC address; expected six bytes in hexadecimal such as \"52:54:00:12:34:56\"")]
pub struct MacAddrError(String);

impl FromStr for MacAddr {
    type Err = MacAddrError;
    fn from_str(text: &str) -> Result<MacAddr, MacAddrError> {
        let error = || MacAddrError(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.trim().split([':', '-']);
        for byte in &mut bytes {
            let part = parts.next().filter(|p| p.len() == 2 && p.bytes().all(|c| c.is_ascii_hexdigit()));
            *byte = u8::from_str_radix(part.ok_or_else(error)?, 16).map_err(|_| error())?;
        }
        if parts.next().is_some() { Err(error()) } else { Ok(MacAddr(bytes)) }
    }
}

doorbell_sim::text_schema!(MacAddr, "an Ethernet address such as \"52:54:00:12:34:56\"", &[]);

impl Serialize for MacAddr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for MacAddr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MacAddr, D::Error> {
        if deserializer.is_human_readable() {
            String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
        } else {
            <[u8; 6]>::deserialize(deserializer).map(MacAddr)
        }
    }
}

/// Type of an Ethernet frame's payload (the IANA "EtherType" registry).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: EtherType = EtherType(0x0800);
    /// ARP.
    pub const ARP: EtherType = EtherType(0x0806);
    /// An 802.1Q tag: four bytes, followed by the frame's own type.
    pub const VLAN: EtherType = EtherType(0x8100);
    /// A service tag (802.1ad), before an 802.1Q tag.
    pub const SERVICE_VLAN: EtherType = EtherType(0x88a8);
    /// IPv6.
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// MAC control (802.3x PAUSE).
    pub const MAC_CONTROL: EtherType = EtherType(0x8808);
}

/// The tag control information of an 802.1Q tag: priority (3 bits), drop eligible (1), VLAN (12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag(pub u16);

impl VlanTag {
    /// VLAN ID, 0 to 4095.
    pub const fn id(self) -> u16 {
        self.0 & 0xfff
    }

    /// Priority, 0 to 7.
    pub const fn priority(self) -> u8 {
        (self.0 >> 13) as u8
    }
}

/// A view of a frame's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Ethernet<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Ethernet<T> {
    /// A view of `bytes`, if they contain both addresses, the type and any tag.
    pub fn new_checked(bytes: T) -> Result<Self, HeaderError> {
        let view = Ethernet { bytes };
        let length = view.bytes.as_ref().len();
        if length < EthernetRepr::UNTAGGED_BYTES || length < view.header_len() {
            return Err(HeaderError::Truncated { header: "Ethernet" });
        }
        Ok(view)
    }

    fn address(&self, at: usize) -> MacAddr {
        let mut address = [0; 6];
        address.copy_from_slice(&self.bytes.as_ref()[at..at + 6]);
        MacAddr(address)
    }

    fn u16_at(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.bytes.as_ref()[at], self.bytes.as_ref()[at + 1]])
    }

    fn is_tagged(&self) -> bool {
        EtherType(self.u16_at(12)) == EtherType::VLAN
    }

    /// Bytes before the payload: 14, or 18 with a tag.
    pub fn header_len(&self) -> usize {
        EthernetRepr::UNTAGGED_BYTES + if self.is_tagged() { EthernetRepr::TAG_BYTES } else { 0 }
    }

    /// Destination address.
    pub fn destination(&self) -> MacAddr {
        self.address(0)
    }

    /// Source address.
    pub fn source(&self) -> MacAddr {
        self.address(6)
    }

    /// The 802.1Q tag, if there is one.
    pub fn tag(&self) -> Option<VlanTag> {
        self.is_tagged().then(|| VlanTag(self.u16_at(14)))
    }

    /// Type of the payload; after the tag if there is one.
    pub fn ethertype(&self) -> EtherType {
        EtherType(self.u16_at(self.header_len() - 2))
    }

    /// Everything after the header, padding included.
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[self.header_len()..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ethernet<T> {
    /// Writes the destination address.
    pub fn set_destination(&mut self, address: MacAddr) {
        self.bytes.as_mut()[..6].copy_from_slice(&address.0);
    }

    /// Writes the source address.
    pub fn set_source(&mut self, address: MacAddr) {
        self.bytes.as_mut()[6..12].copy_from_slice(&address.0);
    }

    /// Everything after the header, writable.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let header = self.header_len();
        &mut self.bytes.as_mut()[header..]
    }
}

/// An Ethernet header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetRepr {
    /// Destination address.
    pub destination: MacAddr,
    /// Source address.
    pub source: MacAddr,
    /// The 802.1Q tag, if any.
    pub tag: Option<VlanTag>,
    /// Type of the payload.
    pub ethertype: EtherType,
}

impl EthernetRepr {
    const UNTAGGED_BYTES: usize = 14;
    const TAG_BYTES: usize = 4;

    /// Parses a view's header.
    pub fn parse<T: AsRef<[u8]>>(view: &Ethernet<T>) -> EthernetRepr {
        EthernetRepr {
            destination: view.destination(),
            source: view.source(),
            tag: view.tag(),
            ethertype: view.ethertype(),
        }
    }

    /// Number of bytes that [`emit`](Self::emit) writes.
    pub const fn header_len(&self) -> usize {
        Self::UNTAGGED_BYTES + if self.tag.is_some() { Self::TAG_BYTES } else { 0 }
    }

    /// Writes the header to the front of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), HeaderError> {
        let header = bytes.get_mut(..self.header_len());
        let header = header.ok_or(HeaderError::Truncated { header: "Ethernet" })?;
        header[..6].copy_from_slice(&self.destination.0);
        header[6..12].copy_from_slice(&self.source.0);
        if let Some(tag) = self.tag {
            header[12..14].copy_from_slice(&EtherType::VLAN.0.to_be_bytes());
            header[14..16].copy_from_slice(&tag.0.to_be_bytes());
        }
        let at = self.header_len() - 2;
        header[at..].copy_from_slice(&self.ethertype.0.to_be_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mac_address_parses_with_colons_or_dashes_only() {
        let address = MacAddr([0x52, 0x54, 0, 0x12, 0x34, 0x5f]);
        assert_eq!("52:54:00:12:34:5F".parse(), Ok(address));
        assert_eq!("52-54-00-12-34-5f".parse(), Ok(address));
        assert_eq!(address.to_string(), "52:54:00:12:34:5f");
        for wrong in ["", "52:54:00:12:34", "52:54:00:12:34:56:78", "52:54:00:12:34:5", "52:54:00:12:34:+5"] {
            assert!(wrong.parse::<MacAddr>().unwrap_err().to_string().contains("six bytes"), "{wrong}");
        }
    }

    #[test]
    fn vlan_tag_shifts_type_and_payload_by_four_bytes() {
        let mut bytes = [0u8; 24];
        let repr = EthernetRepr {
            destination: MacAddr::BROADCAST,
            source: MacAddr([2, 0, 0, 0, 0, 1]),
            tag: Some(VlanTag(0xa064)),
            ethertype: EtherType::IPV6,
        };
        repr.emit(&mut bytes).unwrap();
        assert_eq!(bytes[12..18], [0x81, 0x00, 0xa0, 0x64, 0x86, 0xdd]);
        let view = Ethernet::new_checked(&bytes).unwrap();
        assert_eq!((view.tag().unwrap().id(), view.tag().unwrap().priority()), (100, 5));
        assert_eq!(view.payload().len(), 6);
        assert_eq!(EthernetRepr::parse(&view), repr);
        assert!(Ethernet::new_checked(&bytes[..17]).is_err(), "the tag is truncated");
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_checked_view_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..40), tagged: bool) {
            if tagged && bytes.len() >= 14 {
                bytes[12..14].copy_from_slice(&[0x81, 0x00]);
            }
            if let Ok(view) = Ethernet::new_checked(&bytes[..]) {
                let repr = EthernetRepr::parse(&view);
                let mut copy = bytes.clone();
                repr.emit(&mut copy).unwrap();
                prop_assert_eq!(&copy, &bytes);
                prop_assert_eq!(view.payload().len() + repr.header_len(), bytes.len());
            } else {
                prop_assert!(bytes.len() < 18);
            }
        }
    }
}
