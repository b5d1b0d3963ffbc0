//! TCP headers (RFC 9293 §3.1). Options are skipped, never written; connections are not modelled.

use crate::HeaderError;

/// A view of a TCP segment.
#[derive(Clone, Copy, Debug)]
pub struct Tcp<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Tcp<T> {
    /// A view of `bytes`, if they contain the header with its options.
    pub fn new_checked(bytes: T) -> Result<Self, HeaderError> {
        let view = Tcp { bytes };
        let length = view.bytes.as_ref().len();
        if length < TcpRepr::HEADER_BYTES {
            return Err(HeaderError::Truncated { header: "TCP" });
        }
        if view.header_len() < TcpRepr::HEADER_BYTES {
            return Err(HeaderError::Malformed { header: "TCP" });
        }
        if length < view.header_len() {
            return Err(HeaderError::Truncated { header: "TCP" });
        }
        Ok(view)
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(&self.bytes.as_ref()[at..at + N]);
        array
    }

    /// Bytes of the header, options included.
    pub fn header_len(&self) -> usize {
        usize::from(self.bytes.as_ref()[12] >> 4) * 4
    }

    /// Source port.
    pub fn source_port(&self) -> u16 {
        u16::from_be_bytes(self.array(0))
    }

    /// Destination port.
    pub fn destination_port(&self) -> u16 {
        u16::from_be_bytes(self.array(2))
    }

    /// Sequence number.
    pub fn sequence(&self) -> u32 {
        u32::from_be_bytes(self.array(4))
    }

    /// Acknowledgement number, valid if the ACK bit is set.
    pub fn acknowledgement(&self) -> u32 {
        u32::from_be_bytes(self.array(8))
    }

    /// Control bits, FIN lowest.
    pub fn flags(&self) -> u8 {
        self.bytes.as_ref()[13]
    }

    /// Receive window in bytes, unscaled.
    pub fn window(&self) -> u16 {
        u16::from_be_bytes(self.array(14))
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[self.header_len()..]
    }
}

/// A TCP header without options as values. The acknowledgement number is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpRepr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Control bits.
    pub flags: u8,
    /// Receive window in bytes, unscaled.
    pub window: u16,
}

impl TcpRepr {
    /// Bytes of a header without options.
    pub const HEADER_BYTES: usize = 20;
    /// Offset of the sequence number.
    pub const SEQUENCE_AT: usize = 4;
    /// Offset of the checksum.
    pub const CHECKSUM_AT: usize = 16;
    /// Protocol number of TCP.
    pub const PROTOCOL: u8 = 6;
    /// The ACK bit, set in all segments of a connection except the first.
    pub const ACK: u8 = 0x10;
    /// The SYN bit, set in each side's first segment.
    pub const SYN: u8 = 0x02;

    /// Parses a view's header.
    pub fn parse<T: AsRef<[u8]>>(view: &Tcp<T>) -> TcpRepr {
        TcpRepr {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            sequence: view.sequence(),
            flags: view.flags(),
            window: view.window(),
        }
    }

    /// Writes the header to the front of `bytes`, with a checksum of zero, because that needs payload and
    /// addresses.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), HeaderError> {
        let header = bytes.get_mut(..Self::HEADER_BYTES).ok_or(HeaderError::Truncated { header: "TCP" })?;
        header.fill(0);
        header[..2].copy_from_slice(&self.source_port.to_be_bytes());
        header[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        header[Self::SEQUENCE_AT..8].copy_from_slice(&self.sequence.to_be_bytes());
        header[12] = (Self::HEADER_BYTES as u8 / 4) << 4;
        header[13] = self.flags;
        header[14..16].copy_from_slice(&self.window.to_be_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn header_round_trips() {
        let repr = TcpRepr {
            source_port: 50_001,
            destination_port: 443,
            sequence: 0x0102_0304,
            flags: TcpRepr::ACK,
            window: 65_535,
        };
        let mut bytes = [0xee; 24];
        repr.emit(&mut bytes).unwrap();
        assert_eq!(bytes[4..16], [1, 2, 3, 4, 0, 0, 0, 0, 0x50, 0x10, 0xff, 0xff]);
        let view = Tcp::new_checked(&bytes).unwrap();
        assert_eq!((TcpRepr::parse(&view), view.payload()), (repr, [0xee; 4].as_slice()));
        bytes[12] = 0x40;
        assert_eq!(Tcp::new_checked(&bytes).unwrap_err(), HeaderError::Malformed { header: "TCP" });
        bytes[12] = 0x70;
        assert_eq!(Tcp::new_checked(&bytes).unwrap_err(), HeaderError::Truncated { header: "TCP" });
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_checked_view_panic(bytes in prop::collection::vec(any::<u8>(), 0..70)) {
            if let Ok(view) = Tcp::new_checked(&bytes[..]) {
                prop_assert!(view.payload().len() + view.header_len() == bytes.len());
                TcpRepr::parse(&view);
            }
        }
    }
}
