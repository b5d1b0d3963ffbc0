//! IPv6 headers (RFC 8200 §3). Extension headers are part of the payload: neither written nor skipped.

use std::net::Ipv6Addr;

use crate::HeaderError;

/// A view of an IPv6 packet.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Ipv6<T> {
    /// A view of `bytes`, if they contain a version 6 header and the length it announces. Bytes after the
    /// packet (Ethernet padding) are excluded.
    pub fn new_checked(bytes: T) -> Result<Self, HeaderError> {
        let view = Ipv6 { bytes };
        let length = view.bytes.as_ref().len();
        if length < Ipv6Repr::HEADER_BYTES {
            return Err(HeaderError::Truncated { header: "IPv6" });
        }
        if view.bytes.as_ref()[0] >> 4 != 6 {
            return Err(HeaderError::Malformed { header: "IPv6" });
        }
        if length < Ipv6Repr::HEADER_BYTES + usize::from(view.payload_len()) {
            return Err(HeaderError::Truncated { header: "IPv6" });
        }
        Ok(view)
    }

    fn address(&self, at: usize) -> Ipv6Addr {
        let mut octets = [0; 16];
        octets.copy_from_slice(&self.bytes.as_ref()[at..at + 16]);
        Ipv6Addr::from(octets)
    }

    /// Differentiated services code point (RFC 2474 §3).
    pub fn dscp(&self) -> u8 {
        let bytes = self.bytes.as_ref();
        (bytes[0] & 0xf) << 2 | bytes[1] >> 6
    }

    /// Payload length from the header.
    pub fn payload_len(&self) -> u16 {
        u16::from_be_bytes([self.bytes.as_ref()[4], self.bytes.as_ref()[5]])
    }

    /// Protocol number of the payload or of the first extension header.
    pub fn next_header(&self) -> u8 {
        self.bytes.as_ref()[6]
    }

    /// Hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.bytes.as_ref()[7]
    }

    /// Source address.
    pub fn source(&self) -> Ipv6Addr {
        self.address(Ipv6Repr::SOURCE_AT)
    }

    /// Destination address.
    pub fn destination(&self) -> Ipv6Addr {
        self.address(Ipv6Repr::DESTINATION_AT)
    }

    /// The payload, without padding.
    pub fn payload(&self) -> &[u8] {
        let header = Ipv6Repr::HEADER_BYTES;
        &self.bytes.as_ref()[header..header + usize::from(self.payload_len())]
    }
}

/// An IPv6 header as values. The flow label is zero (RFC 6437 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Repr {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Protocol number of the payload.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Bytes of the payload.
    pub payload_len: u16,
}

impl Ipv6Repr {
    /// Bytes of the header.
    pub const HEADER_BYTES: usize = 40;
    /// Offset of the source address.
    pub const SOURCE_AT: usize = 8;
    /// Offset of the destination address.
    pub const DESTINATION_AT: usize = 24;

    /// Parses a view's header.
    pub fn parse<T: AsRef<[u8]>>(view: &Ipv6<T>) -> Ipv6Repr {
        Ipv6Repr {
            source: view.source(),
            destination: view.destination(),
            next_header: view.next_header(),
            hop_limit: view.hop_limit(),
            dscp: view.dscp(),
            payload_len: view.payload_len(),
        }
    }

    /// Writes the header to the front of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), HeaderError> {
        let header = bytes.get_mut(..Self::HEADER_BYTES).ok_or(HeaderError::Truncated { header: "IPv6" })?;
        if self.dscp > 63 {
            return Err(HeaderError::Malformed { header: "IPv6" });
        }
        header.fill(0);
        header[0] = 0x60 | self.dscp >> 2;
        header[1] = self.dscp << 6;
        header[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        header[6] = self.next_header;
        header[7] = self.hop_limit;
        header[Self::SOURCE_AT..Self::DESTINATION_AT].copy_from_slice(&self.source.octets());
        header[Self::DESTINATION_AT..].copy_from_slice(&self.destination.octets());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REPR: Ipv6Repr = Ipv6Repr {
        source: Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1),
        destination: Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 1),
        next_header: 17,
        hop_limit: 64,
        dscp: 46,
        payload_len: 3,
    };

    #[test]
    fn header_round_trips_and_padding_is_excluded() {
        let mut bytes = [0xee; 50];
        REPR.emit(&mut bytes).unwrap();
        // Traffic class 46 << 2 = 0xb8, between the version and the flow label.
        assert_eq!(bytes[..8], [0x6b, 0x80, 0, 0, 0, 3, 17, 64]);
        let view = Ipv6::new_checked(&bytes).unwrap();
        assert_eq!((Ipv6Repr::parse(&view), view.payload()), (REPR, [0xee; 3].as_slice()));
        assert_eq!(Ipv6::new_checked(&bytes[..42]).unwrap_err(), HeaderError::Truncated { header: "IPv6" });
        bytes[0] = 0x45;
        assert_eq!(Ipv6::new_checked(&bytes).unwrap_err(), HeaderError::Malformed { header: "IPv6" });
        assert!(Ipv6Repr { dscp: 64, ..REPR }.emit(&mut bytes).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_checked_view_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..80), likely: bool) {
            if likely && bytes.len() > 5 {
                bytes[0] = 0x60;
                bytes[4] = 0;
            }
            if let Ok(view) = Ipv6::new_checked(&bytes[..]) {
                prop_assert_eq!(view.payload().len(), usize::from(Ipv6Repr::parse(&view).payload_len));
            }
        }
    }
}
