//! Receive checksum offload (§3.2.9, §13.4.47): the IPv4 header checksum, and the TCP or UDP checksum over
//! IPv4. Unchecked frames are marked by IXSM in the legacy descriptor. Not checked: fragments, IPv6, headers
//! behind more than one VLAN tag.

use crate::intel::bits::{rxcsum, rxd};
use crate::intel::rx::RxFields;
use crate::parts::headers::{Headers, Network};

/// Verifies a frame's checksums as enabled by RXCSUM.
pub(super) fn check(bytes: &[u8], vlan_type: u32, rxcsum: u32, notes: &mut RxFields) {
    if rxcsum & (rxcsum::IPOFL | rxcsum::TUOFL) == 0 {
        return;
    }
    let headers = Headers::parse(bytes, Some(vlan_type as u16));
    if headers.network != Some(Network::Ipv4) {
        return;
    }
    if rxcsum & rxcsum::IPOFL != 0
        && let Some(good) = headers.ip_sum_is_good(bytes)
    {
        notes.status |= rxd::IPCS | if good { 0 } else { rxd::IPE };
    }
    if rxcsum & rxcsum::TUOFL != 0
        && let Some(good) = headers.transport_sum_is_good(bytes)
    {
        notes.status |= rxd::L4CS | if good { 0 } else { rxd::L4E };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the status and error bytes of a legacy descriptor; both are zero for an unchecked frame.
    fn receive(bytes: &[u8], rxcsum: u32, vlan_type: u32) -> (u32, u32) {
        let mut notes = RxFields::default();
        check(bytes, vlan_type, rxcsum, &mut notes);
        (notes.status & 0xff, notes.status >> 24)
    }

    /// Returns a UDP packet with checksums computed by hand, independently of this crate: 10.0.0.1:1 to
    /// 10.0.0.2:2, payload "hi".
    fn udp() -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        bytes.extend([0x45, 0, 0, 30, 0, 0, 0x40, 0, 64, 17, 0x26, 0xcd, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend([0, 1, 0, 2, 0, 10, 0x83, 0x6b, b'h', b'i']);
        bytes.resize(60, 0);
        bytes
    }

    const BOTH: u32 = 0x300;

    #[test]
    fn good_and_bad_checksums_are_reported() {
        assert_eq!(receive(&udp(), BOTH, 0x8100), (0x60, 0));
        let mut broken = udp();
        broken[15] ^= 1;
        assert_eq!(receive(&broken, BOTH, 0x8100).1, 0x40);
        let mut broken = udp();
        broken[42] ^= 1;
        assert_eq!(receive(&broken, BOTH, 0x8100).1, 0x20);
    }

    #[test]
    fn checksums_behind_a_vlan_tag_are_checked() {
        let mut tagged = udp();
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        assert_eq!(receive(&tagged, BOTH, 0x8100).0, 0x60);
        assert_eq!(receive(&tagged, BOTH, 0x9100).0, 0);
    }

    #[test]
    fn unchecked_frames_have_no_checksum_bits() {
        assert_eq!(receive(&udp(), 0, 0x8100).0, 0);
        assert_eq!(receive(&[0; 60], BOTH, 0x8100).0, 0);
        let mut fragment = udp();
        (fragment[20], fragment[24], fragment[25]) = (0x20, 0x46, 0xcd);
        assert_eq!(receive(&fragment, BOTH, 0x8100), (0x40, 0));
        let mut without = udp();
        (without[40], without[41]) = (0, 0);
        assert_eq!(receive(&without, BOTH, 0x8100).0, 0x40);
    }

    #[test]
    fn invalid_lengths_do_not_panic() {
        for len in 0..60 {
            receive(&udp()[..len], BOTH | 14, 0x8100);
        }
        let mut too_long = udp();
        (too_long[16], too_long[17]) = (0xff, 0xff);
        assert_eq!(receive(&too_long, BOTH, 0x8100).0, 0);
    }
}
