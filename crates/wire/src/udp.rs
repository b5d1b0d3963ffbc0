//! UDP headers (RFC 768) over IPv4.

use std::net::Ipv4Addr;

use crate::HeaderError;
use crate::checksum::Sum;
use crate::ipv4::Ipv4Repr;

/// A view of a UDP datagram.
#[derive(Clone, Copy, Debug)]
pub struct Udp<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Udp<T> {
    /// A view of `bytes`, if they contain the header and the length it announces.
    pub fn new_checked(bytes: T) -> Result<Self, HeaderError> {
        let view = Udp { bytes };
        let length = view.bytes.as_ref().len();
        if length < UdpRepr::HEADER_BYTES || length < usize::from(view.len()) {
            return Err(HeaderError::Truncated { header: "UDP" });
        }
        if usize::from(view.len()) < UdpRepr::HEADER_BYTES {
            return Err(HeaderError::Malformed { header: "UDP" });
        }
        Ok(view)
    }

    fn u16_at(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.bytes.as_ref()[at], self.bytes.as_ref()[at + 1]])
    }

    /// Source port.
    pub fn source_port(&self) -> u16 {
        self.u16_at(0)
    }

    /// Destination port.
    pub fn destination_port(&self) -> u16 {
        self.u16_at(2)
    }

    /// Length of the datagram with its header, from the header.
    #[allow(clippy::len_without_is_empty)] // never empty: the header is part of it
    pub fn len(&self) -> u16 {
        self.u16_at(4)
    }

    /// Checksum field; zero means no checksum.
    pub fn checksum(&self) -> u16 {
        self.u16_at(6)
    }

    /// Whether the checksum is absent or correct for a datagram between these addresses.
    pub fn checksum_is_right(&self, source: Ipv4Addr, destination: Ipv4Addr) -> bool {
        let datagram = &self.bytes.as_ref()[..usize::from(self.len())];
        let sum = Sum::new().plus_ipv4_pseudo_header(source, destination, Ipv4Repr::UDP, self.len());
        self.checksum() == 0 || sum.plus(datagram).finish() == 0
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[UdpRepr::HEADER_BYTES..usize::from(self.len())]
    }
}

/// A UDP header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpRepr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Bytes of the payload.
    pub payload_len: u16,
}

impl UdpRepr {
    /// Bytes of the header.
    pub const HEADER_BYTES: usize = 8;
    /// Offset of the checksum.
    pub const CHECKSUM_AT: usize = 6;

    /// Parses a view's header.
    pub fn parse<T: AsRef<[u8]>>(view: &Udp<T>) -> UdpRepr {
        UdpRepr {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            payload_len: view.len() - Self::HEADER_BYTES as u16,
        }
    }

    /// Writes the header to the front of `bytes`, with a checksum of zero, because that needs the payload;
    /// see [`checksum_field`].
    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), HeaderError> {
        let header = bytes.get_mut(..Self::HEADER_BYTES).ok_or(HeaderError::Truncated { header: "UDP" })?;
        let length = self.payload_len.checked_add(Self::HEADER_BYTES as u16);
        header[..2].copy_from_slice(&self.source_port.to_be_bytes());
        header[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        header[4..6].copy_from_slice(&length.ok_or(HeaderError::Malformed { header: "UDP" })?.to_be_bytes());
        header[6..].fill(0);
        Ok(())
    }
}

/// The checksum field for a sum over pseudo-header, header (checksum field zero) and payload. A result of
/// zero is sent as all ones, because zero means no checksum.
pub fn checksum_field(sum: Sum) -> u16 {
    match sum.finish() {
        0 => 0xffff,
        checksum => checksum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 1);

    fn datagram(payload: &[u8]) -> Vec<u8> {
        let repr = UdpRepr { source_port: 9, destination_port: 50_000, payload_len: payload.len() as u16 };
        let mut bytes = vec![0; UdpRepr::HEADER_BYTES + payload.len()];
        repr.emit(&mut bytes).unwrap();
        bytes[UdpRepr::HEADER_BYTES..].copy_from_slice(payload);
        let sum = Sum::new().plus_ipv4_pseudo_header(A, B, Ipv4Repr::UDP, bytes.len() as u16).plus(&bytes);
        bytes[UdpRepr::CHECKSUM_AT..8].copy_from_slice(&checksum_field(sum).to_be_bytes());
        assert_eq!(UdpRepr::parse(&Udp::new_checked(&bytes).unwrap()), repr);
        bytes
    }

    #[test]
    fn zero_checksum_is_sent_as_all_ones() {
        let plain = datagram(&[0, 0]);
        let checksum = u16::from_be_bytes([plain[6], plain[7]]);
        let bytes = datagram(&checksum.to_be_bytes());
        assert_eq!(bytes[6..8], [0xff, 0xff]);
        assert!(Udp::new_checked(&bytes).unwrap().checksum_is_right(A, B));
    }

    proptest! {
        #[test]
        fn a_flipped_bit_makes_the_checksum_wrong(payload in prop::collection::vec(any::<u8>(), 1..100), bit in 0usize..800) {
            let mut bytes = datagram(&payload);
            prop_assert!(Udp::new_checked(&bytes).unwrap().checksum_is_right(A, B));
            let bit = bit % (payload.len() * 8);
            bytes[UdpRepr::HEADER_BYTES + bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!Udp::new_checked(&bytes).unwrap().checksum_is_right(A, B));
        }

        #[test]
        fn no_bytes_make_a_checked_view_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(view) = Udp::new_checked(&bytes[..]) {
                prop_assert_eq!(view.payload().len() + 8, usize::from(view.len()));
                view.checksum_is_right(A, B);
            }
        }
    }
}
