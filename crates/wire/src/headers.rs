//! Offsets in headers, for code that writes single fields, and checksums of received headers. The crate
//! [`etherparse`] parses and builds headers.

/// IPv4 headers without options (RFC 791 §3.1).
pub mod ipv4 {
    use etherparse::Ipv4HeaderSlice;

    use crate::checksum::Sum;

    /// Offset of the time to live.
    pub const TTL_AT: usize = 8;
    /// Offset of the header checksum.
    pub const CHECKSUM_AT: usize = 10;
    /// Offset of the source address.
    pub const SOURCE_AT: usize = 12;
    /// Offset of the destination address.
    pub const DESTINATION_AT: usize = 16;

    /// Whether the header checksum is correct.
    pub fn checksum_is_right(header: &Ipv4HeaderSlice) -> bool {
        Sum::new().plus(header.slice()).finish() == 0
    }
}

/// IPv6 headers (RFC 8200 §3).
pub mod ipv6 {
    /// Offset of the hop limit.
    pub const HOP_LIMIT_AT: usize = 7;
    /// Offset of the source address.
    pub const SOURCE_AT: usize = 8;
    /// Offset of the destination address.
    pub const DESTINATION_AT: usize = 24;
}

/// TCP headers without options (RFC 9293 §3.1).
pub mod tcp {
    /// Offset of the sequence number.
    pub const SEQUENCE_AT: usize = 4;
    /// Offset of the checksum.
    pub const CHECKSUM_AT: usize = 16;
}

/// UDP headers (RFC 768).
pub mod udp {
    use std::net::Ipv4Addr;

    use etherparse::{IpNumber, UdpSlice};

    use crate::checksum::Sum;

    /// Offset of the checksum.
    pub const CHECKSUM_AT: usize = 6;

    /// The checksum field for a sum over pseudo-header, header (checksum field zero) and payload. A result of
    /// zero is sent as all ones, because zero means no checksum.
    pub fn checksum_field(sum: Sum) -> u16 {
        match sum.finish() {
            0 => 0xffff,
            checksum => checksum,
        }
    }

    /// Whether the length field is that of the datagram. Zero is for IPv6 jumbograms (RFC 2675 §4), for which
    /// the parser takes all bytes.
    pub fn length_is_right(datagram: &UdpSlice) -> bool {
        usize::from(datagram.length()) == datagram.slice().len()
    }

    /// Whether the checksum is absent or correct for a datagram between these addresses.
    pub fn checksum_is_right(datagram: &UdpSlice, source: Ipv4Addr, destination: Ipv4Addr) -> bool {
        let bytes = datagram.slice();
        let sum =
            Sum::new().plus_ipv4_pseudo_header(source, destination, IpNumber::UDP.0, bytes.len() as u16);
        datagram.checksum() == 0 || sum.plus(bytes).finish() == 0
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use etherparse::{IpNumber, Ipv4Header, Ipv4HeaderSlice, UdpHeader, UdpSlice};
    use proptest::prelude::*;

    use super::*;
    use crate::checksum::Sum;

    const A: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 1);

    #[test]
    fn ipv4_checksum_is_right_until_a_field_changes() {
        let mut header = Ipv4Header::new(26, 64, IpNumber::UDP, A.octets(), B.octets()).unwrap();
        header.header_checksum = header.calc_header_checksum();
        let mut bytes = header.to_bytes();
        assert!(ipv4::checksum_is_right(&Ipv4HeaderSlice::from_slice(&bytes).unwrap()));
        bytes[ipv4::TTL_AT] -= 1;
        assert!(!ipv4::checksum_is_right(&Ipv4HeaderSlice::from_slice(&bytes).unwrap()));
    }

    fn datagram(payload: &[u8]) -> Vec<u8> {
        let length = (UdpHeader::LEN + payload.len()) as u16;
        let header = UdpHeader { source_port: 9, destination_port: 50_000, length, checksum: 0 };
        let mut bytes = [&header.to_bytes()[..], payload].concat();
        let sum = Sum::new().plus_ipv4_pseudo_header(A, B, IpNumber::UDP.0, length).plus(&bytes);
        bytes[udp::CHECKSUM_AT..8].copy_from_slice(&udp::checksum_field(sum).to_be_bytes());
        bytes
    }

    fn is_right(bytes: &[u8]) -> bool {
        udp::checksum_is_right(&UdpSlice::from_slice(bytes).unwrap(), A, B)
    }

    #[test]
    fn zero_checksum_is_sent_as_all_ones() {
        let plain = datagram(&[0, 0]);
        let checksum = u16::from_be_bytes([plain[6], plain[7]]);
        let bytes = datagram(&checksum.to_be_bytes());
        assert_eq!(bytes[6..8], [0xff, 0xff]);
        assert!(is_right(&bytes));
    }

    #[test]
    fn zero_is_no_length_of_a_datagram() {
        let mut bytes = datagram(&[1, 2, 3]);
        let length_is_right = |bytes: &[u8]| udp::length_is_right(&UdpSlice::from_slice(bytes).unwrap());
        assert!(length_is_right(&bytes));
        bytes[4..6].fill(0);
        assert!(!length_is_right(&bytes));
    }

    proptest! {
        #[test]
        fn a_flipped_bit_makes_the_checksum_wrong(payload in prop::collection::vec(any::<u8>(), 1..100), bit in 0usize..800) {
            let mut bytes = datagram(&payload);
            prop_assert!(is_right(&bytes));
            let bit = bit % (payload.len() * 8);
            bytes[UdpHeader::LEN + bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!is_right(&bytes));
        }
    }
}
