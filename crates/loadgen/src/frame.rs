//! Building a frame from its number, and checking a returned one.
//!
//! A frame is Ethernet II with or without VLAN tags, IPv4 or IPv6, and UDP or TCP with correct checksums. Its
//! payload starts with a 16-byte signature (magic, generator, sequence number; big-endian). The rest is a
//! fill that is a function of the run's seed, the generator and the sequence number. Size and headers are
//! functions of the frame's index in its stream. A returned frame can thus be rebuilt and compared byte by
//! byte without storing it.
//!
//! The fill is a Weyl sequence (a counter with an odd step) that starts at a hash of seed, generator and
//! number, eight bytes at a time. It is cheap, vectorisable, and unique per frame.

use doorbell_sim::rng::Rng;
use doorbell_sim::{Bytes, Frame};
use doorbell_wire::{MacAddr, ipv4, ipv6, tcp, udp};
use etherparse::{Ethernet2Header, Ipv4Header, TcpHeader, UdpHeader};

use crate::any_headers;
use crate::config::{Returned, TrafficConfig};
use crate::responder::put_checksum;
use crate::streams::{Network, SizeOrder, StreamConfig, Transport};
use crate::template::{Template, Variations};

pub(crate) const FCS_BYTES: usize = Frame::FCS_BYTES;
pub(crate) const ETHERNET_BYTES: usize = Ethernet2Header::LEN;
/// Payload offset in a plain test frame: after Ethernet, IPv4 and UDP.
pub(crate) const PAYLOAD_AT: usize = ETHERNET_BYTES + Ipv4Header::MIN_LEN + UdpHeader::LEN;
pub(crate) const FILL_AT: usize = PAYLOAD_AT + Signature::BYTES;
/// Maximum payload offset: after two tags, IPv6 and TCP. All offsets differ by multiples of four.
const PAYLOAD_AT_LAST: usize = ETHERNET_BYTES + 8 + 40 + TcpHeader::MIN_LEN;
pub(crate) const ADDRESS_BYTES: usize = 12;

/// Signature at the start of a frame's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The generator that sent the frame.
    pub stream: u32,
    /// Sequence number among all frames of this generator.
    pub sequence: u64,
}

impl Signature {
    pub(crate) const BYTES: usize = 16;
    const MAGIC: [u8; 4] = *b"DrbL";

    /// Reads the signature of a frame (without FCS); `None` if it has none. All possible payload offsets are
    /// tried, so it is found even if the headers changed.
    pub fn read(frame: &[u8]) -> Option<Signature> {
        Self::candidate_offsets().find_map(|at| Self::read_at(frame, at))
    }

    /// Offset of the signature.
    pub(crate) fn offset(frame: &[u8]) -> Option<usize> {
        Self::candidate_offsets().find(|at| Self::read_at(frame, *at).is_some())
    }

    fn candidate_offsets() -> impl Iterator<Item = usize> {
        (PAYLOAD_AT..=PAYLOAD_AT_LAST).step_by(4)
    }

    fn read_at(frame: &[u8], at: usize) -> Option<Signature> {
        let bytes: &[u8; Self::BYTES] = frame.get(at..at + Self::BYTES)?.try_into().ok()?;
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

/// The first difference found in a returned frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// Its length differs.
    Length,
    /// Its MAC addresses are not as expected.
    Addresses,
    /// A byte of type, tags, IP, UDP or TCP header differs.
    Headers,
    /// A byte of the payload differs.
    Payload,
}

/// Builds and checks the frames of one stream.
#[derive(Clone, Debug)]
pub(crate) struct FrameMaker {
    /// One template per frame size.
    templates: Vec<Template>,
    /// Template indices of one round of frames.
    round: Vec<u16>,
    random_sizes: bool,
    variations: Variations,
    network: Network,
    transport: Transport,
    /// Offsets of the IP header, the payload and the transport checksum.
    ip_at: usize,
    payload_at: usize,
    checksum_at: usize,
    generator: u32,
    /// Key of the fill.
    key: u64,
    /// Key of random sizes.
    size_key: u64,
    returned: Returned,
    scratch: Vec<u8>,
}

impl FrameMaker {
    /// Returns the fill key of a generator in a run with this seed.
    pub(crate) fn key(seed: u64, generator: u32) -> u64 {
        Rng::stream(seed, &format!("loadgen{generator}.fill")).next_u64()
    }

    /// Creates a builder for validated traffic without streams.
    pub(crate) fn new(traffic: &TrafficConfig, generator: u32, key: u64) -> FrameMaker {
        FrameMaker::of_stream(traffic, &StreamConfig::from_traffic(traffic), generator, key, key)
    }

    /// Creates a builder for a validated stream. `own_key` is the key of all randomness except the fill.
    pub(crate) fn of_stream(
        traffic: &TrafficConfig,
        stream: &StreamConfig,
        generator: u32,
        key: u64,
        own_key: u64,
    ) -> FrameMaker {
        let [ip_at, transport_at, payload_at] = stream.header_offsets();
        let variations = Variations::new(traffic, stream, own_key);
        let mut sizes: Vec<Bytes> = Vec::new();
        let mut place_of = |size: Bytes| {
            sizes.iter().position(|other| *other == size).unwrap_or_else(|| {
                sizes.push(size);
                sizes.len() - 1
            }) as u16
        };
        let round = stream.size.round().into_iter().map(&mut place_of).collect();
        let template =
            |size: &Bytes| Template::new(traffic, stream, size.0 as usize - FCS_BYTES, &variations);
        let checksum_at = match stream.transport {
            Transport::Udp => udp::CHECKSUM_AT,
            Transport::Tcp => tcp::CHECKSUM_AT,
        };
        FrameMaker {
            templates: sizes.iter().map(template).collect(),
            round,
            random_sizes: stream.size_order == SizeOrder::Random,
            variations,
            network: stream.network(),
            transport: stream.transport,
            ip_at,
            payload_at,
            checksum_at: transport_at + checksum_at,
            generator,
            key,
            size_key: hash(own_key),
            returned: stream.returned.unwrap_or(traffic.returned),
            scratch: Vec::new(),
        }
    }

    fn template(&self, index: u64) -> &Template {
        let place = match self.round.len() as u64 {
            1 => 0,
            count if self.random_sizes => {
                ((u128::from(hash(self.size_key ^ index)) * u128::from(count)) >> 64) as usize
            }
            count => (index % count) as usize,
        };
        &self.templates[usize::from(self.round[place])]
    }

    /// Bytes of the stream's frame `index`, without FCS.
    pub(crate) fn frame_len(&self, index: u64) -> usize {
        self.template(index).frame_len
    }

    /// Flow of the stream's frame `index`.
    pub(crate) fn flow(&self, index: u64) -> u64 {
        self.variations.flow(index)
    }

    /// Writes a frame into `bytes`, overwriting its contents. `sequence` is its number in the generator,
    /// `index` its number in the stream.
    pub(crate) fn make(&self, sequence: u64, index: u64, bytes: &mut Vec<u8>) {
        let template = self.template(index);
        bytes.resize(template.frame_len, 0);
        template.write(bytes);
        let (headers, payload) = bytes.split_at_mut(self.payload_at);
        let (signature, rest) = payload.split_at_mut(Signature::BYTES);
        signature.copy_from_slice(&Signature { stream: self.generator, sequence }.to_bytes());
        fill(rest, hash(self.key ^ sequence));
        let mut sum = template.transport_sum;
        if !self.variations.are_none() {
            sum = self.variations.write(index, headers, sum);
        }
        let sum = sum.plus(payload);
        let checksum = match self.transport {
            Transport::Udp => udp::checksum_field(sum),
            Transport::Tcp => sum.finish(),
        };
        headers[self.checksum_at..self.checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Compares a frame with signature number `sequence`, received at `station`, with the frame that was
    /// sent.
    pub(crate) fn check(
        &mut self,
        sequence: u64,
        index: u64,
        bytes: &[u8],
        station: MacAddr,
    ) -> Result<(), Mismatch> {
        if bytes.len() != self.frame_len(index) && self.returned != Returned::Any {
            return Err(Mismatch::Length);
        }
        let mut sent = std::mem::take(&mut self.scratch);
        self.make(sequence, index, &mut sent);
        let result = self.compare(&mut sent, bytes, station);
        self.scratch = sent;
        result
    }

    fn compare(&self, sent: &mut [u8], bytes: &[u8], station: MacAddr) -> Result<(), Mismatch> {
        if self.returned == Returned::Any {
            // Most frames differ at most in their MAC addresses.
            return match bytes.get(ADDRESS_BYTES..) == Some(&sent[ADDRESS_BYTES..]) {
                true => Ok(()),
                false => any_headers::compare(&sent[self.payload_at..], bytes),
            };
        }
        if !self.returned.addresses_are_right(sent, bytes, station) {
            return Err(Mismatch::Addresses);
        }
        if self.returned == Returned::Routed {
            let packet = &mut sent[self.ip_at..];
            match self.network {
                Network::Ipv4 => {
                    packet[ipv4::TTL_AT] -= 1;
                    put_checksum(&mut packet[..Ipv4Header::MIN_LEN], ipv4::CHECKSUM_AT);
                    // An incremental checksum update, as in DPDK's l3fwd, may produce the other zero (RFC
                    // 1624, section 3), which receivers accept as well (RFC 1071).
                    let field = self.ip_at + ipv4::CHECKSUM_AT..self.ip_at + ipv4::CHECKSUM_AT + 2;
                    if sent[field.clone()] == [0, 0] && bytes[field.clone()] == [0xff, 0xff] {
                        sent[field].fill(0xff);
                    }
                }
                Network::Ipv6 => packet[ipv6::HOP_LIMIT_AT] -= 1,
            }
        }
        if bytes[ADDRESS_BYTES..] == sent[ADDRESS_BYTES..] {
            Ok(())
        } else if bytes[ADDRESS_BYTES..self.payload_at] != sent[ADDRESS_BYTES..self.payload_at] {
            Err(Mismatch::Headers)
        } else {
            Err(Mismatch::Payload)
        }
    }
}

/// The finaliser of SplitMix64: a bijection in which each input bit affects all output bits.
pub(crate) fn hash(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Fills `bytes` from a hashed start value.
pub(crate) fn fill(bytes: &mut [u8], start: u64) {
    /// 2^64 divided by the golden ratio, made odd: visits all values, with large distances.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    // Four words at a time, for compilers to vectorise; then the remainder.
    let mut words: [u64; 4] = [1, 2, 3, 4].map(|i| start.wrapping_add(STEP.wrapping_mul(i)));
    let (blocks, rest) = bytes.as_chunks_mut::<32>();
    for block in blocks {
        let mixed = words.map(|word| (word ^ (word >> 32)).to_le_bytes());
        block.copy_from_slice(mixed.as_flattened());
        words = words.map(|word| word.wrapping_add(STEP.wrapping_mul(4)));
    }
    let (whole, rest) = rest.as_chunks_mut::<8>();
    let mut mixed = words.into_iter().map(|word| (word ^ (word >> 32)).to_le_bytes());
    whole.iter_mut().zip(&mut mixed).for_each(|(bytes, word)| *bytes = word);
    let last = mixed.next().expect("fewer than four words were whole");
    // Copying a few bytes would take longer than computing them.
    rest.iter_mut().zip(last).for_each(|(byte, from)| *byte = from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::{Field, Order, SweepConfig};
    use etherparse::{Ipv4Slice, UdpSlice};
    use proptest::prelude::*;

    const STATION: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn maker(size: u64, returned: Returned) -> FrameMaker {
        let traffic = TrafficConfig { frame_size: Bytes(size), returned, ..TrafficConfig::default() };
        FrameMaker::new(&traffic, 3, FrameMaker::key(1, 3))
    }

    fn frame(maker: &FrameMaker, sequence: u64) -> Vec<u8> {
        let mut bytes = vec![0xee; 7];
        maker.make(sequence, 0, &mut bytes);
        bytes
    }

    #[test]
    fn frames_match_golden_bytes() {
        // Computed independently in another language from the description at the top of this module.
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
    fn macswap_and_io_check_addresses_and_any_does_not() {
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
                (maker.check(9, 0, &sent, STATION), maker.check(9, 0, &swapped, STATION)),
                (as_sent, as_swapped)
            );
        }
    }

    #[test]
    fn routed_frame_needs_new_macs_decremented_ttl_and_valid_checksum() {
        let sent = frame(&maker(64, Returned::Routed), 9);
        let mut routed = sent.clone();
        routed[..6].copy_from_slice(&STATION.0);
        routed[6..12].copy_from_slice(&[0x52, 0x54, 0, 0x12, 0x34, 0x57]);
        routed[22] = 63;
        // RFC 1624: the checksum increases by the decrement of the field.
        routed[24] += 1;
        let mut maker = maker(64, Returned::Routed);
        assert_eq!(maker.check(9, 0, &routed, STATION), Ok(()));
        assert_eq!(maker.check(9, 0, &sent, STATION), Err(Mismatch::Addresses));
        assert_eq!(maker.check(9, 0, &routed, MacAddr([2, 0, 0, 0, 0, 3])), Err(Mismatch::Addresses));
        for (at, value) in [(22, 64), (22, 62), (25, routed[25] ^ 1)] {
            let mut wrong = routed.clone();
            wrong[at] = value;
            assert_eq!(maker.check(9, 0, &wrong, STATION), Err(Mismatch::Headers));
        }
    }

    #[test]
    fn routed_frame_may_have_either_checksum_zero() {
        let traffic = TrafficConfig { returned: Returned::Routed, ..TrafficConfig::default() };
        let sources = SweepConfig {
            field: Field::SourceIp,
            count: 1 << 16,
            step: 1,
            order: Order::default(),
            every: 1,
        };
        let stream = StreamConfig { sweeps: vec![sources], ..StreamConfig::from_traffic(&traffic) };
        let mut maker = FrameMaker::of_stream(&traffic, &stream, 3, 7, 8);
        let (mut routed, mut zeros) = (Vec::new(), 0);
        for index in 0..1 << 16 {
            maker.make(9, index, &mut routed);
            routed[..6].copy_from_slice(&STATION.0);
            routed[6..12].copy_from_slice(&[0x52, 0x54, 0, 0x12, 0x34, 0x57]);
            routed[22] = 63;
            // As DPDK's l3fwd does it on a little-endian machine.
            let checksum = u16::from_le_bytes([routed[24], routed[25]]).wrapping_add(1);
            routed[24..26].copy_from_slice(&checksum.to_le_bytes());
            assert_eq!(maker.check(9, index, &routed, STATION), Ok(()), "{index}");
            zeros += u32::from(checksum == 0xffff);
            let wrong = if checksum == 0xffff { [0, 1] } else { [0xff, 0xff] };
            routed[24..26].copy_from_slice(&wrong);
            assert_eq!(maker.check(9, index, &routed, STATION), Err(Mismatch::Headers), "{index}");
        }
        assert_eq!(zeros, 1);
    }

    #[test]
    fn frame_with_other_sequence_or_key_is_a_mismatch() {
        let mut maker = maker(64, Returned::AsSent);
        let sent = frame(&maker, 9);
        assert_eq!(maker.check(10, 0, &sent, STATION), Err(Mismatch::Headers), "the checksum differs");
        maker.key ^= 1;
        assert!(maker.check(9, 0, &sent, STATION).is_err());
    }

    #[test]
    fn frame_of_other_length_is_a_mismatch() {
        let mut maker = maker(128, Returned::AsSent);
        let mut bytes = frame(&maker, 0);
        bytes.push(0);
        assert_eq!(maker.check(0, 0, &bytes, STATION), Err(Mismatch::Length));
        bytes.truncate(123);
        assert_eq!(maker.check(0, 0, &bytes, STATION), Err(Mismatch::Length));
    }

    proptest! {
        #[test]
        fn every_frame_has_valid_checksums_and_its_signature(
            size in 64u64..=16_384, sequence: u64, stream: u32, seed: u64,
        ) {
            let traffic = TrafficConfig { frame_size: Bytes(size), ..TrafficConfig::default() };
            let mut maker = FrameMaker::new(&traffic, stream, FrameMaker::key(seed, stream));
            let bytes = frame(&maker, sequence);
            prop_assert_eq!(bytes.len() as u64, size - 4);
            let ip = Ipv4Slice::from_slice(&bytes[ETHERNET_BYTES..]).unwrap();
            let (header, datagram) = (ip.header(), UdpSlice::from_slice(ip.payload().payload).unwrap());
            prop_assert!(ipv4::checksum_is_right(&header));
            prop_assert_eq!(usize::from(header.total_len()), bytes.len() - ETHERNET_BYTES);
            let [source, destination] = [header.source_addr(), header.destination_addr()];
            prop_assert!(datagram.checksum() != 0);
            prop_assert!(udp::checksum_is_right(&datagram, source, destination));
            prop_assert_eq!(Signature::read(&bytes), Some(Signature { stream, sequence }));
            prop_assert_eq!(maker.check(sequence, 0, &bytes, STATION), Ok(()));
        }

        #[test]
        fn any_changed_byte_is_detected_and_classified_by_offset(
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
            prop_assert_eq!(maker.check(sequence, 0, &bytes, STATION), Err(expected));
        }

        #[test]
        fn fills_of_two_frames_differ(a: u64, b: u64) {
            prop_assume!(a != b);
            let maker = maker(128, Returned::Any);
            prop_assert_ne!(&frame(&maker, a)[FILL_AT..], &frame(&maker, b)[FILL_AT..]);
        }

        #[test]
        fn signature_reader_does_not_panic_on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            prop_assert_eq!(Signature::read(&bytes), None);
        }
    }
}
