//! SCTP's checksum (RFC 9260, appendix A).

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
}
