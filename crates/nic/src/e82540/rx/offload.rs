//! Receive checksum offload (§3.2.9, §13.4.47): the IPv4 header's checksum, and TCP's or UDP's over
//! IPv4. Where the chip did not look, it says so (IXSM). Not checked: fragments, IPv6, what hides
//! behind more than one VLAN tag.

use super::FrameNotes;
use crate::e82540::bits::{rxcsum, rxd};
use crate::parts::headers::{Headers, Network};

/// What the chip finds out about a frame (without FCS).
pub(super) fn receive(bytes: &[u8], rxcsum: u32, vet: u32) -> FrameNotes {
    let mut notes = FrameNotes::default();
    let (check_ip, check_l4) = (rxcsum & rxcsum::IPOFL != 0, rxcsum & rxcsum::TUOFL != 0);
    if check_ip || check_l4 {
        let headers = Headers::of(bytes, Some(vet as u16));
        let ipv4 = |asked: bool| asked && headers.network == Some(Network::Ipv4);
        if let Some(good) = headers.ip_sum_is_good(bytes).filter(|_| ipv4(check_ip)) {
            notes.status |= rxd::IPCS;
            notes.errors |= if good { 0 } else { rxd::ERROR_IPE };
        }
        if let Some(good) = headers.transport_sum_is_good(bytes).filter(|_| ipv4(check_l4)) {
            notes.status |= rxd::TCPCS;
            notes.errors |= if good { 0 } else { rxd::ERROR_TCPE };
        }
    }
    if notes.status & (rxd::IPCS | rxd::TCPCS) == 0 {
        notes.status |= rxd::IXSM;
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP packet computed by hand, independently of this crate: 10.0.0.1:1 to 10.0.0.2:2, payload "hi".
    fn udp() -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        bytes.extend([0x45, 0, 0, 30, 0, 0, 0x40, 0, 64, 17, 0x26, 0xcd, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend([0, 1, 0, 2, 0, 10, 0x83, 0x6b, b'h', b'i']);
        bytes.resize(60, 0);
        bytes
    }

    const BOTH: u32 = 0x300;

    #[test]
    fn good_sums_are_reported_good_and_broken_ones_broken() {
        let notes = receive(&udp(), BOTH, 0x8100);
        assert_eq!((notes.status, notes.errors), (0x60, 0));
        let mut broken = udp();
        broken[15] ^= 1;
        assert_eq!(receive(&broken, BOTH, 0x8100).errors, 0x40);
        let mut broken = udp();
        broken[42] ^= 1;
        assert_eq!(receive(&broken, BOTH, 0x8100).errors, 0x20);
    }

    #[test]
    fn a_tagged_packet_is_checked_behind_its_tag() {
        let mut tagged = udp();
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        assert_eq!(receive(&tagged, BOTH, 0x8100).status, 0x60);
        assert_eq!(receive(&tagged, BOTH, 0x9100).status, 0x04);
    }

    #[test]
    fn what_was_not_looked_at_says_so() {
        assert_eq!(receive(&udp(), 0, 0x8100).status, 0x04);
        assert_eq!(receive(&[0; 60], BOTH, 0x8100).status, 0x04);
        let mut fragment = udp();
        (fragment[20], fragment[24], fragment[25]) = (0x20, 0x46, 0xcd);
        assert_eq!(
            (receive(&fragment, BOTH, 0x8100).status, receive(&fragment, BOTH, 0x8100).errors),
            (0x40, 0)
        );
        let mut without = udp();
        (without[40], without[41]) = (0, 0);
        assert_eq!(receive(&without, BOTH, 0x8100).status, 0x40);
    }

    #[test]
    fn lengths_that_lie_do_not_panic() {
        for len in 0..60 {
            receive(&udp()[..len], BOTH | 14, 0x8100);
        }
        let mut lies = udp();
        (lies[16], lies[17]) = (0xff, 0xff);
        assert_eq!(receive(&lies, BOTH, 0x8100).status, 0x04);
    }
}
