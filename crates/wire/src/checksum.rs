//! The Internet checksum (RFC 1071): the ones' complement of the ones' complement sum of 16-bit words.
//!
//! The sum is independent of the order of additions and, except for a final swap, of byte order. It is
//! therefore computed over native 32-bit words, two at a time, which compilers vectorise.

use std::net::Ipv4Addr;

/// A running sum. Chunks are added in sequence; each except the last must have an even length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// An empty sum.
    pub fn new() -> Sum {
        Sum(0)
    }

    /// Adds bytes. An odd last byte is padded with a zero.
    pub fn plus(mut self, bytes: &[u8]) -> Sum {
        // Fold first, to bound the sum: 2^29 words below 2^32 then fit a u64.
        self.0 = u64::from(self.fold());
        let (words, rest) = bytes.as_chunks::<8>();
        let mut tail = [0; 8];
        match bytes.last_chunk::<8>() {
            // Shift the remainder out of the last eight bytes, which is faster than copying a few bytes.
            Some(last) if !rest.is_empty() => {
                tail = (u64::from_le_bytes(*last) >> (64 - 8 * rest.len())).to_le_bytes();
            }
            Some(_) => {}
            None => tail[..rest.len()].copy_from_slice(rest),
        }
        let halves = |bytes: &[u8; 8]| {
            let word = u64::from_ne_bytes(*bytes);
            (word & 0xffff_ffff) + (word >> 32)
        };
        self.0 += words.iter().map(halves).sum::<u64>() + halves(&tail);
        self
    }

    /// Adds a 16-bit field by value.
    pub fn plus_u16(self, value: u16) -> Sum {
        Sum(self.0 + u64::from(u16::from_ne_bytes(value.to_be_bytes())))
    }

    /// Adds the IPv4 pseudo-header of UDP and TCP (RFC 768, RFC 9293 §3.1).
    pub fn plus_ipv4_pseudo_header(
        self,
        source: Ipv4Addr,
        destination: Ipv4Addr,
        protocol: u8,
        length: u16,
    ) -> Sum {
        self.plus(&source.octets()).plus(&destination.octets()).plus_u16(u16::from(protocol)).plus_u16(length)
    }

    fn fold(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// Value of the checksum field; zero over bytes that contain a correct checksum.
    pub fn finish(self) -> u16 {
        u16::from_be_bytes((!self.fold()).to_ne_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 literally: 16-bit words, one at a time.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn the_example_of_rfc_1071_section_3_sums_to_ddf2() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::new().plus(&bytes).finish(), !0xddf2);
    }

    proptest! {
        #[test]
        fn chunked_sum_equals_word_by_word_sum(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 0usize..150) {
            let cut = (cut * 2).min(bytes.len() & !1);
            let sum = Sum::new().plus(&bytes[..cut]).plus(&bytes[cut..]);
            prop_assert_eq!(sum.finish(), naive(&bytes));
        }
    }
}
