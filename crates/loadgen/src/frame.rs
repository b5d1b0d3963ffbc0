//! Making a frame from its number, and checking one that came back.
//!
//! A frame is Ethernet II, IPv4 and UDP with right checksums. Its payload begins with a signature of 16
//! bytes (magic, stream, sequence number; big-endian) and goes on with a fill that is a function of the run's
//! seed, the stream and the sequence number. So the whole frame can be made again when it returns, and
//! every byte of it compared, without keeping any.
//!
//! The fill is a Weyl sequence (a counter with an odd step) from a start that is hashed from seed, stream and
//! number, eight bytes at a time: cheap, vectorisable, and without two frames alike.

use doorbell_sim::rng::Rng;
use doorbell_wire::checksum::Sum;
use doorbell_wire::udp::checksum_field;
use doorbell_wire::{EtherType, EthernetRepr, Ipv4Repr, MacAddr, UdpRepr};

use crate::config::{Returned, TrafficConfig};
use crate::responder::{IP_CHECKSUM, IP_TTL, put_checksum};

pub(crate) const ETHERNET_BYTES: usize = 14;
const UDP_AT: usize = ETHERNET_BYTES + Ipv4Repr::HEADER_BYTES;
const UDP_CHECKSUM_AT: usize = UDP_AT + UdpRepr::CHECKSUM_AT;
pub(crate) const PAYLOAD_AT: usize = UDP_AT + UdpRepr::HEADER_BYTES;
pub(crate) const FILL_AT: usize = PAYLOAD_AT + Signature::BYTES;
const ADDRESS_BYTES: usize = 12;

/// What the generator writes at the beginning of a frame's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The generator that sent the frame.
    pub stream: u32,
    /// The frame's number among all that this generator sent.
    pub sequence: u64,
}

impl Signature {
    const BYTES: usize = 16;
    const MAGIC: [u8; 4] = *b"DrbL";

    /// Reads the signature of a frame (without FCS); `None` if it has none, that is if no generator sent it.
    pub fn read(frame: &[u8]) -> Option<Signature> {
        let bytes: &[u8; Self::BYTES] = frame.get(PAYLOAD_AT..FILL_AT)?.try_into().ok()?;
        let [m0, m1, m2, m3, s0, s1, s2, s3, sequence @ ..] = *bytes;
        ([m0, m1, m2, m3] == Self::MAGIC).then(|| Signature {
            stream: u32::from_be_bytes([s0, s1, s2, s3]),
            sequence: u64::from_be_bytes(sequence),
        })
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&Self::MAGIC);
        bytes[4..8].copy_from_slice(&self.stream.to_be_bytes());
        bytes[8..].copy_from_slice(&self.sequence.to_be_bytes());
        bytes
    }
}

/// The first thing that is wrong with a frame that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// It is longer or shorter than it was sent.
    Length,
    /// Its addresses are not as expected.
    Addresses,
    /// A byte of type, IPv4 or UDP header differs.
    Headers,
    /// A byte of the payload differs.
    Payload,
}

/// Makes and checks the frames of one stream.
#[derive(Clone, Debug)]
pub(crate) struct FrameMaker {
    headers: [u8; PAYLOAD_AT],
    /// Over the pseudo-header and the UDP header without checksum.
    udp_sum: Sum,
    frame_len: usize,
    stream: u32,
    key: u64,
    returned: Returned,
    scratch: Vec<u8>,
}

impl FrameMaker {
    /// The key of a stream's fill in a run with this seed.
    pub(crate) fn key(seed: u64, stream: u32) -> u64 {
        Rng::stream(seed, &format!("loadgen{stream}.fill")).next_u64()
    }

    /// A maker of frames for validated traffic.
    pub(crate) fn new(traffic: &TrafficConfig, stream: u32, key: u64) -> FrameMaker {
        let frame_len = traffic.frame_len();
        let udp_len = (frame_len - UDP_AT) as u16;
        let mut headers = [0; PAYLOAD_AT];
        let ethernet = EthernetRepr {
            destination: traffic.destination,
            source: traffic.source,
            tag: None,
            ethertype: EtherType::IPV4,
        };
        let ip = Ipv4Repr {
            source: traffic.source_ip,
            destination: traffic.destination_ip,
            protocol: Ipv4Repr::UDP,
            ttl: 64,
            payload_len: udp_len,
        };
        let udp = UdpRepr {
            source_port: traffic.source_port,
            destination_port: traffic.destination_port,
            payload_len: udp_len - UdpRepr::HEADER_BYTES as u16,
        };
        ethernet
            .emit(&mut headers)
            .and_then(|()| ip.emit(&mut headers[ETHERNET_BYTES..]))
            .and_then(|()| udp.emit(&mut headers[UDP_AT..]))
            .expect("the headers fit a validated frame size");
        let udp_sum = Sum::new()
            .plus_ipv4_pseudo_header(ip.source, ip.destination, Ipv4Repr::UDP, udp_len)
            .plus(&headers[UDP_AT..]);
        let returned = traffic.returned;
        FrameMaker { headers, udp_sum, frame_len, stream, key, returned, scratch: Vec::new() }
    }

    pub(crate) fn stored_key(&self) -> u64 {
        self.key
    }

    /// Writes frame `sequence` into `bytes`, whatever was there.
    pub(crate) fn make(&self, sequence: u64, bytes: &mut Vec<u8>) {
        bytes.resize(self.frame_len, 0);
        bytes[..PAYLOAD_AT].copy_from_slice(&self.headers);
        let signature = Signature { stream: self.stream, sequence };
        bytes[PAYLOAD_AT..FILL_AT].copy_from_slice(&signature.to_bytes());
        fill(&mut bytes[FILL_AT..], hash(self.key ^ sequence));
        let checksum = checksum_field(self.udp_sum.plus(&bytes[PAYLOAD_AT..]));
        bytes[UDP_CHECKSUM_AT..PAYLOAD_AT].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Compares a frame that says it is number `sequence`, and that arrived at `station`, with what was sent under that
    /// number.
    pub(crate) fn check(&mut self, sequence: u64, bytes: &[u8], station: MacAddr) -> Result<(), Mismatch> {
        if bytes.len() != self.frame_len {
            return Err(Mismatch::Length);
        }
        let (destination, source) = (&self.headers[..6], &self.headers[6..ADDRESS_BYTES]);
        let addresses_are_right = match self.returned {
            Returned::MacSwap => bytes[..6] == *source && bytes[6..ADDRESS_BYTES] == *destination,
            Returned::AsSent => bytes[..ADDRESS_BYTES] == self.headers[..ADDRESS_BYTES],
            Returned::Routed => bytes[..6] == station.0 && bytes[6..ADDRESS_BYTES] != *source,
            Returned::Any => true,
        };
        if !addresses_are_right {
            return Err(Mismatch::Addresses);
        }
        let mut sent = std::mem::take(&mut self.scratch);
        self.make(sequence, &mut sent);
        if self.returned == Returned::Routed {
            let packet = &mut sent[ETHERNET_BYTES..];
            packet[IP_TTL] -= 1;
            put_checksum(&mut packet[..Ipv4Repr::HEADER_BYTES], IP_CHECKSUM);
        }
        let result = if bytes[ADDRESS_BYTES..] == sent[ADDRESS_BYTES..] {
            Ok(())
        } else if bytes[ADDRESS_BYTES..PAYLOAD_AT] != sent[ADDRESS_BYTES..PAYLOAD_AT] {
            Err(Mismatch::Headers)
        } else {
            Err(Mismatch::Payload)
        };
        self.scratch = sent;
        result
    }
}

/// The finaliser of SplitMix64: a bijection that spreads every input bit over the output.
pub(crate) fn hash(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Fills `bytes` from a hashed start.
pub(crate) fn fill(bytes: &mut [u8], start: u64) {
    /// 2^64 divided by the golden ratio, and odd: visits all values, far apart.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    // Four words abreast, so that compilers can make vector code of it; then what is left.
    let mut words: [u64; 4] = [1, 2, 3, 4].map(|i| start.wrapping_add(STEP.wrapping_mul(i)));
    let (blocks, rest) = bytes.as_chunks_mut::<32>();
    for block in blocks {
        let mixed = words.map(|word| (word ^ (word >> 32)).to_le_bytes());
        block.copy_from_slice(mixed.as_flattened());
        words = words.map(|word| word.wrapping_add(STEP.wrapping_mul(4)));
    }
    let mixed = words.map(|word| (word ^ (word >> 32)).to_le_bytes());
    rest.copy_from_slice(&mixed.as_flattened()[..rest.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_sim::Bytes;
    use doorbell_wire::{Ethernet, Ipv4, Udp};
    use proptest::prelude::*;

    const STATION: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn maker(size: u64, returned: Returned) -> FrameMaker {
        let traffic = TrafficConfig { frame_size: Bytes(size), returned, ..TrafficConfig::default() };
        FrameMaker::new(&traffic, 3, FrameMaker::key(1, 3))
    }

    fn frame(maker: &FrameMaker, sequence: u64) -> Vec<u8> {
        let mut bytes = vec![0xee; 7];
        maker.make(sequence, &mut bytes);
        bytes
    }

    #[test]
    fn frames_are_golden() {
        // Worked out by a program of another language from the description in this module's head.
        let traffic = TrafficConfig { frame_size: Bytes(79), ..TrafficConfig::default() };
        let maker = FrameMaker::new(&traffic, 3, 0x0123_4567_89ab_cdef);
        let bytes = frame(&maker, 0x0102_0304_0506_0708);
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        let golden = [
            "5254001234560200000000010800",
            "4500003d000040004011ad89c6120001c6120101",
            "c351c3500029139d",
            "4472624c000000030102030405060708",
            "fa6321f7453ddb772b6c5616ffb6121651",
        ];
        assert_eq!(hex, golden.concat());
    }

    #[test]
    fn a_swap_is_told_from_none_and_both_from_any() {
        let sent = frame(&maker(64, Returned::Any), 9);
        let mut swapped = sent.clone();
        swapped[..12].rotate_left(6);
        for (returned, as_sent, as_swapped) in [
            (Returned::AsSent, Ok(()), Err(Mismatch::Addresses)),
            (Returned::MacSwap, Err(Mismatch::Addresses), Ok(())),
            (Returned::Any, Ok(()), Ok(())),
        ] {
            let mut maker = maker(64, returned);
            assert_eq!(
                (maker.check(9, &sent, STATION), maker.check(9, &swapped, STATION)),
                (as_sent, as_swapped)
            );
        }
    }

    #[test]
    fn a_routed_frame_has_new_stations_one_hop_less_and_a_right_checksum() {
        let sent = frame(&maker(64, Returned::Routed), 9);
        let mut routed = sent.clone();
        routed[..6].copy_from_slice(&STATION.0);
        routed[6..12].copy_from_slice(&[0x52, 0x54, 0, 0x12, 0x34, 0x57]);
        routed[22] = 63;
        // RFC 1624: the checksum rises by what the field lost.
        routed[24] += 1;
        let mut maker = maker(64, Returned::Routed);
        assert_eq!(maker.check(9, &routed, STATION), Ok(()));
        assert_eq!(maker.check(9, &sent, STATION), Err(Mismatch::Addresses));
        assert_eq!(maker.check(9, &routed, MacAddr([2, 0, 0, 0, 0, 3])), Err(Mismatch::Addresses));
        for (at, value) in [(22, 64), (22, 62), (25, routed[25] ^ 1)] {
            let mut wrong = routed.clone();
            wrong[at] = value;
            assert_eq!(maker.check(9, &wrong, STATION), Err(Mismatch::Headers));
        }
    }

    #[test]
    fn a_frame_under_another_number_or_key_is_a_mismatch() {
        let mut maker = maker(64, Returned::AsSent);
        let sent = frame(&maker, 9);
        assert_eq!(maker.check(10, &sent, STATION), Err(Mismatch::Headers), "the checksum differs");
        maker.key ^= 1;
        assert!(maker.check(9, &sent, STATION).is_err());
    }

    #[test]
    fn a_frame_of_another_length_is_a_mismatch() {
        let mut maker = maker(128, Returned::AsSent);
        let mut bytes = frame(&maker, 0);
        bytes.push(0);
        assert_eq!(maker.check(0, &bytes, STATION), Err(Mismatch::Length));
        bytes.truncate(123);
        assert_eq!(maker.check(0, &bytes, STATION), Err(Mismatch::Length));
    }

    proptest! {
        #[test]
        fn every_frame_parses_with_right_checksums_and_gives_its_signature_back(
            size in 64u64..=16_384, sequence: u64, stream: u32, seed: u64,
        ) {
            let traffic = TrafficConfig { frame_size: Bytes(size), ..TrafficConfig::default() };
            let mut maker = FrameMaker::new(&traffic, stream, FrameMaker::key(seed, stream));
            let bytes = frame(&maker, sequence);
            prop_assert_eq!(bytes.len() as u64, size - 4);
            let ethernet = Ethernet::new_checked(&bytes[..]).unwrap();
            let ip = Ipv4::new_checked(ethernet.payload()).unwrap();
            prop_assert!(ip.checksum_is_right());
            prop_assert_eq!(usize::from(ip.total_len()), ethernet.payload().len());
            let udp = Udp::new_checked(ip.payload()).unwrap();
            prop_assert!(udp.checksum() != 0 && udp.checksum_is_right(ip.source(), ip.destination()));
            prop_assert_eq!(Signature::read(&bytes), Some(Signature { stream, sequence }));
            prop_assert_eq!(maker.check(sequence, &bytes, STATION), Ok(()));
        }

        #[test]
        fn any_changed_byte_is_found_and_classed_by_its_place(
            size in 64u64..2_000, sequence: u64, at: prop::sample::Index, change in 1u8..,
        ) {
            let mut maker = maker(size, Returned::AsSent);
            let mut bytes = frame(&maker, sequence);
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            let expected = match at {
                0..12 => Mismatch::Addresses,
                12..42 => Mismatch::Headers,
                _ => Mismatch::Payload,
            };
            prop_assert_eq!(maker.check(sequence, &bytes, STATION), Err(expected));
        }

        #[test]
        fn two_frames_differ_in_their_fill(a: u64, b: u64) {
            prop_assume!(a != b);
            let maker = maker(128, Returned::Any);
            prop_assert_ne!(&frame(&maker, a)[FILL_AT..], &frame(&maker, b)[FILL_AT..]);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            prop_assert_eq!(Signature::read(&bytes), None);
        }
    }
}
