//! The frame header of memcached over UDP (memcached's protocol.txt, "UDP protocol"): eight bytes before the
//! text of each datagram, in both directions. The client chooses the request ID, which is repeated in every
//! datagram of the reply. Datagrams are numbered from 0; the last two bytes are reserved and zero.

/// A datagram's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemcachedUdp {
    /// Request ID, chosen by the client.
    pub request_id: u16,
    /// Number of this datagram in its message, from 0.
    pub sequence: u16,
    /// Number of datagrams in the message.
    pub datagrams: u16,
}

impl MemcachedUdp {
    /// Bytes of the header.
    pub const HEADER_BYTES: usize = 8;

    /// The header of a datagram's payload, and the text after it; `None` if the header is invalid.
    pub fn parse(bytes: &[u8]) -> Option<(MemcachedUdp, &[u8])> {
        let (header, text) = bytes.split_first_chunk::<{ Self::HEADER_BYTES }>()?;
        let [a, b, c, d, e, f, 0, 0] = *header else { return None };
        let [request_id, sequence, datagrams] = [[a, b], [c, d], [e, f]].map(u16::from_be_bytes);
        (sequence < datagrams).then_some((MemcachedUdp { request_id, sequence, datagrams }, text))
    }

    /// The header's bytes.
    pub fn to_bytes(self) -> [u8; Self::HEADER_BYTES] {
        let [[a, b], [c, d], [e, f]] = [self.request_id, self.sequence, self.datagrams].map(u16::to_be_bytes);
        [a, b, c, d, e, f, 0, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn header_is_four_big_endian_numbers() {
        let bytes = [0x12, 0x34, 0, 1, 0, 3, 0, 0, b'E', b'N', b'D'];
        let header = MemcachedUdp { request_id: 0x1234, sequence: 1, datagrams: 3 };
        assert_eq!(MemcachedUdp::parse(&bytes), Some((header, &b"END"[..])));
        assert_eq!(header.to_bytes(), bytes[..8]);
    }

    #[test]
    fn short_headers_invalid_datagram_numbers_and_reserved_bits_are_refused() {
        for wrong in [[0, 1, 0, 1, 0, 1, 0, 0], [0, 1, 0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 1, 0, 1]] {
            assert_eq!(MemcachedUdp::parse(&wrong), None);
        }
        assert_eq!(MemcachedUdp::parse(&[0, 1, 0, 0, 0, 1, 0]), None);
    }

    proptest! {
        #[test]
        fn header_round_trips_and_any_bytes_are_handled(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            if let Some((header, text)) = MemcachedUdp::parse(&bytes) {
                prop_assert_eq!([&header.to_bytes(), text].concat(), bytes);
            }
        }
    }
}
