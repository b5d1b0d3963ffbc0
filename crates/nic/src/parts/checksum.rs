//! The Internet checksum (RFC 1071), the Ethernet FCS (IEEE 802.3 §3.2.9), and SCTP's checksum (RFC 9260,
//! appendix A).

/// Ones' complement sum of `bytes` as big-endian words. An odd last byte is padded with zero.
pub(crate) fn sum(bytes: &[u8]) -> u16 {
    let (words, tail) = bytes.as_chunks::<4>();
    let mut total: u64 = words.iter().map(|word| u64::from(u32::from_le_bytes(*word))).sum();
    let mut last = [0u8; 4];
    last[..tail.len()].copy_from_slice(tail);
    total += u64::from(u32::from_le_bytes(last));
    // Sums in either byte order differ only by a final byte swap (RFC 1071).
    fold(total).swap_bytes()
}

/// Adds the carries back in until 16 bits are left.
pub(crate) fn fold(mut total: u64) -> u16 {
    while total >> 16 != 0 {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

const CRC_TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0u32; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        tables[0][i] = crc;
        i += 1;
    }
    let mut t = 1;
    while t < 8 {
        let mut i = 0;
        while i < 256 {
            let previous = tables[t - 1][i];
            tables[t][i] = previous >> 8 ^ tables[0][(previous & 0xff) as usize];
            i += 1;
        }
        t += 1;
    }
    tables
};

/// FCS of a frame, to be sent least significant byte first.
pub(crate) fn fcs(bytes: &[u8]) -> u32 {
    let (blocks, tail) = bytes.as_chunks::<8>();
    let mut crc = !0u32;
    for block in blocks {
        let word = u64::from_le_bytes(*block) ^ u64::from(crc);
        crc = (0..8).fold(0, |crc, i| crc ^ CRC_TABLES[7 - i][(word >> (8 * i) & 0xff) as usize]);
    }
    for byte in tail {
        crc = crc >> 8 ^ CRC_TABLES[0][((crc ^ u32::from(*byte)) & 0xff) as usize];
    }
    !crc
}

/// SCTP checksum of a packet (CRC-32C), to be sent least significant byte first. The checksum field itself
/// counts as zero.
pub(crate) fn sctp(packet: &[u8]) -> u32 {
    /// Polynomial of CRC-32C, bit-reversed.
    const CASTAGNOLI: u32 = 0x82f6_3b78;
    let bytes = packet.iter().enumerate().map(|(at, byte)| if SCTP_FIELD.contains(&at) { 0 } else { *byte });
    !bytes.fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ (CASTAGNOLI & (crc & 1).wrapping_neg()))
    })
}

/// Position of the checksum in the SCTP header.
pub(crate) const SCTP_FIELD: std::ops::Range<usize> = 8..12;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_fcs_of_the_check_string_matches_the_published_value() {
        assert_eq!(fcs(b"123456789"), 0xcbf4_3926);
        assert_eq!(fcs(b""), 0);
    }

    #[test]
    fn the_sctp_checksum_matches_the_published_value_and_ignores_its_field() {
        // RFC 3720, B.4: 32 zeros.
        assert_eq!(sctp(&[0; 32]), 0x8a91_36aa);
        let mut packet = [0; 32];
        packet[SCTP_FIELD].fill(0xff);
        assert_eq!(sctp(&packet), 0x8a91_36aa);
        packet[12] = 1;
        assert_ne!(sctp(&packet), 0x8a91_36aa);
    }

    #[test]
    fn the_sum_of_rfc_1071s_example_is_ddf2() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    proptest! {
        #[test]
        fn fcs_and_sum_match_bitwise_implementations(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut crc = !0u32;
            for byte in &bytes {
                crc ^= u32::from(*byte);
                for _ in 0..8 {
                    crc = crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
                }
            }
            prop_assert_eq!(fcs(&bytes), !crc);
            let mut total = 0u32;
            for pair in bytes.chunks(2) {
                total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
                total = (total & 0xffff) + (total >> 16);
            }
            prop_assert_eq!(u32::from(sum(&bytes)), total);
        }
    }
}
