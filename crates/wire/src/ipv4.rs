//! IPv4 headers (RFC 791 §3.1). Options are skipped, never written; fragments are not reassembled.

use std::net::Ipv4Addr;

use crate::HeaderError;
use crate::checksum::Sum;

/// A view of an IPv4 packet.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Ipv4<T> {
    /// A view of `bytes`, if they contain a version 4 header and the length it announces. Bytes after the
    /// packet (Ethernet padding) are excluded.
    pub fn new_checked(bytes: T) -> Result<Self, HeaderError> {
        let view = Ipv4 { bytes };
        let length = view.bytes.as_ref().len();
        if length < Ipv4Repr::HEADER_BYTES {
            return Err(HeaderError::Truncated { header: "IPv4" });
        }
        let (version, header, total) =
            (view.bytes.as_ref()[0] >> 4, view.header_len(), usize::from(view.total_len()));
        if version != 4 || header < Ipv4Repr::HEADER_BYTES || total < header {
            return Err(HeaderError::Malformed { header: "IPv4" });
        }
        if length < total {
            return Err(HeaderError::Truncated { header: "IPv4" });
        }
        Ok(view)
    }

    fn u16_at(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.bytes.as_ref()[at], self.bytes.as_ref()[at + 1]])
    }

    fn address(&self, at: usize) -> Ipv4Addr {
        let bytes = &self.bytes.as_ref()[at..at + 4];
        Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])
    }

    /// Bytes of the header, options included.
    pub fn header_len(&self) -> usize {
        usize::from(self.bytes.as_ref()[0] & 0xf) * 4
    }

    /// Total length of the packet from its header.
    pub fn total_len(&self) -> u16 {
        self.u16_at(2)
    }

    /// Time to live.
    pub fn ttl(&self) -> u8 {
        self.bytes.as_ref()[8]
    }

    /// Differentiated services code point.
    pub fn dscp(&self) -> u8 {
        self.bytes.as_ref()[1] >> 2
    }

    /// Protocol number of the payload.
    pub fn protocol(&self) -> u8 {
        self.bytes.as_ref()[9]
    }

    /// Source address.
    pub fn source(&self) -> Ipv4Addr {
        self.address(12)
    }

    /// Destination address.
    pub fn destination(&self) -> Ipv4Addr {
        self.address(16)
    }

    /// Whether the header checksum is correct.
    pub fn checksum_is_right(&self) -> bool {
        Sum::new().plus(&self.bytes.as_ref()[..self.header_len()]).finish() == 0
    }

    /// The payload, without padding.
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[self.header_len()..usize::from(self.total_len())]
    }
}

/// An IPv4 header without options as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Repr {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Protocol number of the payload.
    pub protocol: u8,
    /// Time to live.
    pub ttl: u8,
    /// Differentiated services code point (RFC 2474 §3), 0 to 63.
    pub dscp: u8,
    /// Bytes of the payload.
    pub payload_len: u16,
}

impl Ipv4Repr {
    /// Bytes of a header without options.
    pub const HEADER_BYTES: usize = 20;
    /// Offset of the time to live.
    pub const TTL_AT: usize = 8;
    /// Offset of the header checksum.
    pub const CHECKSUM_AT: usize = 10;
    /// Offset of the source address.
    pub const SOURCE_AT: usize = 12;
    /// Offset of the destination address.
    pub const DESTINATION_AT: usize = 16;
    /// Protocol number of ICMP.
    pub const ICMP: u8 = 1;
    /// Protocol number of UDP.
    pub const UDP: u8 = 17;
    /// Flags and fragment offset of an unfragmented packet with DF set, which needs no identification (RFC
    /// 6864 §4.1).
    const DONT_FRAGMENT: u16 = 0x4000;

    /// Parses a view's header.
    pub fn parse<T: AsRef<[u8]>>(view: &Ipv4<T>) -> Ipv4Repr {
        Ipv4Repr {
            source: view.source(),
            destination: view.destination(),
            protocol: view.protocol(),
            ttl: view.ttl(),
            dscp: view.dscp(),
            payload_len: view.total_len() - view.header_len() as u16,
        }
    }

    /// Writes the header, checksum included, to the front of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), HeaderError> {
        let header = bytes.get_mut(..Self::HEADER_BYTES).ok_or(HeaderError::Truncated { header: "IPv4" })?;
        let total = self.payload_len.checked_add(Self::HEADER_BYTES as u16);
        if self.dscp > 63 {
            return Err(HeaderError::Malformed { header: "IPv4" });
        }
        header.fill(0);
        header[0] = 0x45;
        header[1] = self.dscp << 2;
        header[2..4].copy_from_slice(&total.ok_or(HeaderError::Malformed { header: "IPv4" })?.to_be_bytes());
        header[6..8].copy_from_slice(&Self::DONT_FRAGMENT.to_be_bytes());
        header[8] = self.ttl;
        header[9] = self.protocol;
        header[12..16].copy_from_slice(&self.source.octets());
        header[16..20].copy_from_slice(&self.destination.octets());
        let checksum = Sum::new().plus(header).finish();
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REPR: Ipv4Repr = Ipv4Repr {
        source: Ipv4Addr::new(198, 18, 0, 1),
        destination: Ipv4Addr::new(198, 18, 1, 1),
        protocol: Ipv4Repr::UDP,
        ttl: 64,
        dscp: 0,
        payload_len: 26,
    };

    #[test]
    fn emitted_header_parses_back_with_a_correct_checksum() {
        let mut bytes = [0xaau8; 60];
        REPR.emit(&mut bytes).unwrap();
        let view = Ipv4::new_checked(&bytes).unwrap();
        assert!(view.checksum_is_right());
        assert_eq!(Ipv4Repr::parse(&view), REPR);
        assert_eq!(view.payload().len(), 26, "padding is excluded");
        bytes[8] -= 1;
        assert!(!Ipv4::new_checked(&bytes).unwrap().checksum_is_right(), "a router must update the checksum");
    }

    #[test]
    fn header_with_too_large_length_is_refused() {
        let mut bytes = [0u8; 46];
        REPR.emit(&mut bytes).unwrap();
        assert!(Ipv4::new_checked(&bytes[..46]).is_ok());
        assert_eq!(Ipv4::new_checked(&bytes[..45]).unwrap_err(), HeaderError::Truncated { header: "IPv4" });
        bytes[0] = 0x44;
        assert_eq!(Ipv4::new_checked(&bytes).unwrap_err(), HeaderError::Malformed { header: "IPv4" });
        bytes[0] = 0x65;
        assert_eq!(Ipv4::new_checked(&bytes).unwrap_err(), HeaderError::Malformed { header: "IPv4" });
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_checked_view_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..80), likely: bool) {
            if likely && bytes.len() > 4 {
                bytes[0] = 0x40 | (bytes[0] & 0xf);
                bytes[2] = 0;
            }
            if let Ok(view) = Ipv4::new_checked(&bytes[..]) {
                let repr = Ipv4Repr::parse(&view);
                prop_assert_eq!(view.payload().len(), usize::from(repr.payload_len));
                view.checksum_is_right();
            }
        }
    }
}
