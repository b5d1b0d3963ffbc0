//! The frame header of memcached over UDP (memcached's protocol.txt, "UDP protocol"): eight bytes before the
//! text of each datagram, in both directions. The client chooses the request ID, which is repeated in every
//! datagram of the reply. Datagrams are numbered from 0; the last two bytes are reserved and zero.

use crate::HeaderError;

/// A view of a datagram's payload.
#[derive(Clone, Copy, Debug)]
pub struct MemcachedUdp<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> MemcachedUdp<T> {
    /// A view of `bytes`, if they contain a valid header.
    pub fn new_checked(bytes: T) -> Result<Self, HeaderError> {
        let view = MemcachedUdp { bytes };
        if view.bytes.as_ref().len() < MemcachedUdpRepr::HEADER_BYTES {
            return Err(HeaderError::Truncated { header: "memcached UDP" });
        }
        if view.sequence() >= view.datagrams() || view.u16_at(6) != 0 {
            return Err(HeaderError::Malformed { header: "memcached UDP" });
        }
        Ok(view)
    }

    fn u16_at(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.bytes.as_ref()[at], self.bytes.as_ref()[at + 1]])
    }

    /// Request ID, chosen by the client.
    pub fn request_id(&self) -> u16 {
        self.u16_at(0)
    }

    /// Number of this datagram in its message, from 0.
    pub fn sequence(&self) -> u16 {
        self.u16_at(2)
    }

    /// Number of datagrams in the message.
    pub fn datagrams(&self) -> u16 {
        self.u16_at(4)
    }

    /// The text, or this datagram's part of it.
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[MemcachedUdpRepr::HEADER_BYTES..]
    }
}

/// The header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemcachedUdpRepr {
    /// Request ID, chosen by the client.
    pub request_id: u16,
    /// Number of this datagram in its message, from 0.
    pub sequence: u16,
    /// Number of datagrams in the message.
    pub datagrams: u16,
}

impl MemcachedUdpRepr {
    /// Bytes of the header.
    pub const HEADER_BYTES: usize = 8;

    /// Parses a view's header.
    pub fn parse<T: AsRef<[u8]>>(view: &MemcachedUdp<T>) -> MemcachedUdpRepr {
        MemcachedUdpRepr {
            request_id: view.request_id(),
            sequence: view.sequence(),
            datagrams: view.datagrams(),
        }
    }

    /// Writes the header to the front of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), HeaderError> {
        let truncated = HeaderError::Truncated { header: "memcached UDP" };
        let header = bytes.get_mut(..Self::HEADER_BYTES).ok_or(truncated)?;
        header[..2].copy_from_slice(&self.request_id.to_be_bytes());
        header[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        header[4..6].copy_from_slice(&self.datagrams.to_be_bytes());
        header[6..].fill(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn header_is_four_big_endian_numbers() {
        let bytes = [0x12, 0x34, 0, 1, 0, 3, 0, 0, b'E', b'N', b'D'];
        let view = MemcachedUdp::new_checked(&bytes).unwrap();
        let repr = MemcachedUdpRepr { request_id: 0x1234, sequence: 1, datagrams: 3 };
        assert_eq!((MemcachedUdpRepr::parse(&view), view.payload()), (repr, &b"END"[..]));
        let mut written = [0xff; 8];
        repr.emit(&mut written).unwrap();
        assert_eq!(written, bytes[..8]);
        assert!(repr.emit(&mut written[..7]).is_err());
    }

    #[test]
    fn invalid_datagram_number_or_reserved_bits_are_refused() {
        for wrong in [[0, 1, 0, 1, 0, 1, 0, 0], [0, 1, 0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 1, 0, 1]] {
            assert!(matches!(MemcachedUdp::new_checked(wrong), Err(HeaderError::Malformed { .. })));
        }
        assert!(matches!(MemcachedUdp::new_checked([0; 7]), Err(HeaderError::Truncated { .. })));
    }

    proptest! {
        #[test]
        fn header_round_trips_and_any_bytes_are_handled(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            if let Ok(view) = MemcachedUdp::new_checked(&bytes[..]) {
                let mut written = [0; 8];
                MemcachedUdpRepr::parse(&view).emit(&mut written).unwrap();
                prop_assert_eq!(&written[..], &bytes[..8]);
            }
        }
    }
}
