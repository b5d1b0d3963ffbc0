//! Transmit checksums and segmentation over IPv4 and IPv6. Each frame is compared with the one that software
//! would have built according to RFC 768, 791, 1071, 8200 and 9293.

use doorbell_pcie::NetworkFunction as _;
use doorbell_sim::Ps;

use crate::igb::driver::*;

const TCP: u8 = 6;
const UDP: u8 = 17;
const VME: u32 = 1 << 30;
/// Transmit commands: EOP, IFCS, RS and DEXT; then the requests for a VLAN tag and for segmentation.
const SEND: u64 = 0x2b;
const VLE: u64 = 0x40;
const TSE: u64 = 0x80;
/// POPTS: requested checksums.
const IXSM: u64 = 1;
const TXSM: u64 = 2;
const FIN: u8 = 1;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// Protocols of a packet.
#[derive(Clone, Copy, Debug)]
struct Kind {
    v6: bool,
    /// A hop-by-hop header of eight bytes follows the IPv6 header.
    extended: bool,
    protocol: u8,
}

impl Kind {
    const ALL: [Kind; 6] = [
        Kind { v6: false, extended: false, protocol: TCP },
        Kind { v6: false, extended: false, protocol: UDP },
        Kind { v6: true, extended: false, protocol: TCP },
        Kind { v6: true, extended: false, protocol: UDP },
        Kind { v6: true, extended: true, protocol: TCP },
        Kind { v6: true, extended: true, protocol: UDP },
    ];

    fn ip_len(self) -> usize {
        match (self.v6, self.extended) {
            (false, _) => 20,
            (true, false) => 40,
            (true, true) => 48,
        }
    }

    fn transport_len(self) -> usize {
        if self.protocol == TCP { 20 } else { 8 }
    }

    fn transport_at(self) -> usize {
        14 + self.ip_len()
    }

    fn checksum_at(self) -> usize {
        self.transport_at() + if self.protocol == TCP { 16 } else { 6 }
    }

    /// Sum of the pseudo-header for a transport header and payload of this length.
    fn pseudo(self, packet: &[u8], length: usize) -> u32 {
        let addresses = if self.v6 { &packet[22..54] } else { &packet[26..34] };
        sum(addresses) + u32::from(self.protocol) + length as u32
    }

    /// Context descriptor, and checksums requested in POPTS: no IP checksum for IPv6.
    fn context(self, mss: u64, tag: u64) -> (u64, u64, u64) {
        let l4t = u64::from(self.protocol == TCP);
        let first = self.ip_len() as u64 | 14 << 9 | tag << 16;
        let second = u64::from(!self.v6) << 10 | l4t << 11 | 2 << 20 | 0x20 << 24;
        let options = if self.v6 { TXSM } else { IXSM | TXSM };
        (first, second | (self.transport_len() as u64) << 40 | mss << 48, options)
    }
}

/// A complete packet as software builds it: packet `number` of a series, after `before` bytes of payload.
fn packet(kind: Kind, (number, before): (u16, u32), flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x52, 0x54, 0, 0x12, 0x34, 0x56, 2, 0, 0, 0, 0, 9];
    let length = kind.transport_len() + payload.len();
    if kind.v6 {
        bytes.extend([0x86, 0xdd, 0x60, 1, 2, 3]);
        bytes.extend(((length + kind.ip_len() - 40) as u16).to_be_bytes());
        bytes.extend([if kind.extended { 0 } else { kind.protocol }, 64]);
        bytes.extend((0..32).map(|at| 0x20 ^ (at * 7) as u8));
        if kind.extended {
            bytes.extend([kind.protocol, 0, 1, 4, 0, 0, 0, 0]);
        }
    } else {
        bytes.extend([8, 0, 0x45, 0]);
        bytes.extend(((20 + length) as u16).to_be_bytes());
        bytes.extend(0xfffeu16.wrapping_add(number).to_be_bytes());
        bytes.extend([0x40, 0, 64, kind.protocol, 0, 0, 10, 1, 2, 3, 192, 168, 200, 201]);
        let checksum = !(fold(sum(&bytes[14..34])) as u16);
        bytes[24..26].copy_from_slice(&checksum.to_be_bytes());
    }
    bytes.extend([0x30, 0x39, 0xd4, 0x31]);
    if kind.protocol == TCP {
        bytes.extend(0xffff_fc00u32.wrapping_add(before).to_be_bytes());
        bytes.extend([0, 0, 0, 1, 0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    } else {
        bytes.extend((length as u16).to_be_bytes());
        bytes.extend([0, 0]);
    }
    bytes.extend(payload);
    let total = fold(kind.pseudo(&bytes, length) + sum(&bytes[kind.transport_at()..])) as u16;
    // A UDP checksum of zero is sent as ones (RFC 768).
    let checksum = if kind.protocol == UDP && total == 0xffff { 0xffff } else { !total };
    bytes[kind.checksum_at()..][..2].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// The packet as software passes it to the NIC: without IP checksum, and with the pseudo-header sum for this
/// length in the transport checksum.
fn without_checksums(kind: Kind, mut bytes: Vec<u8>, length: usize) -> Vec<u8> {
    if !kind.v6 {
        bytes[24..26].fill(0);
    }
    let pseudo = fold(kind.pseudo(&bytes, length)) as u16;
    bytes[kind.checksum_at()..][..2].copy_from_slice(&pseudo.to_be_bytes());
    bytes
}

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

fn sent(bench: &mut IgbBench) -> Vec<Vec<u8>> {
    bench.run_for(Ps::from_us(100));
    bench.check();
    assert_eq!(bench.nic.stats().tx_malformed, 0);
    std::mem::take(&mut bench.world.sent).into_iter().map(|(_, frame)| frame.bytes).collect()
}

#[test]
fn tcp_and_udp_checksums_are_inserted_over_ipv4_and_ipv6() {
    for kind in Kind::ALL {
        let mut bench = IgbBench::running(1);
        for len in [7, 100, 1001] {
            let whole = packet(kind, (0, 0), ACK, &payload(len));
            let length = whole.len() - kind.transport_at();
            let (first, second, options) = kind.context(0, 0);
            bench.put_tx(0, first, second);
            bench.send(0, &without_checksums(kind, whole.clone(), length), options);
            let mut frames = sent(&mut bench);
            // Short frames are padded.
            frames.iter_mut().for_each(|frame| frame.truncate(whole.len()));
            assert_eq!(frames, [whole], "{kind:?}, {len}");
        }
    }
}

#[test]
fn a_udp_checksum_of_zero_is_sent_as_ones() {
    for kind in Kind::ALL {
        // The last two bytes make the checksum zero.
        let mut bytes = payload(64);
        bytes[62..].fill(0);
        let zero = packet(kind, (0, 0), ACK, &bytes);
        let missing = &zero[kind.checksum_at()..][..2];
        bytes[62..].copy_from_slice(missing);
        let whole = packet(kind, (0, 0), ACK, &bytes);
        let field = &whole[kind.checksum_at()..][..2];
        assert_eq!(field, if kind.protocol == UDP { [0xff; 2] } else { [0; 2] });
        let mut bench = IgbBench::running(1);
        let (first, second, options) = kind.context(0, 0);
        bench.put_tx(0, first, second);
        let length = whole.len() - kind.transport_at();
        bench.send(0, &without_checksums(kind, whole.clone(), length), options);
        assert_eq!(sent(&mut bench), [whole], "{kind:?}");
    }
}

/// Segments that software would make of this payload.
fn segments(kind: Kind, payload: &[u8], mss: usize) -> Vec<Vec<u8>> {
    let count = payload.len().div_ceil(mss);
    let of = |(number, part): (usize, &[u8])| {
        // FIN and PSH are only set in the last segment.
        let flags = if number + 1 == count { ACK | PSH | FIN } else { ACK };
        packet(kind, (number as u16, (number * mss) as u32), flags, part)
    };
    payload.chunks(mss).enumerate().map(of).collect()
}

/// Passes a packet to the NIC for segmentation, in buffers of these lengths and one for the rest.
fn put_large(
    bench: &mut IgbBench,
    bytes: &[u8],
    pieces: &[usize],
    command: u64,
    options: u64,
    header: usize,
) {
    bench.put_bytes(TX_BUFFERS, bytes);
    let mut at = 0;
    let rest = bytes.len() - pieces.iter().sum::<usize>();
    let paylen = (bytes.len() - header) as u64;
    for (number, len) in pieces.iter().chain([&rest]).enumerate() {
        let eop = u64::from(number == pieces.len());
        let command = (command & !1 | eop) << 24;
        let second = *len as u64 | 3 << 20 | command | options << 40 | paylen << 46;
        bench.put_tx(0, TX_BUFFERS + at, second);
        at += *len as u64;
    }
}

#[test]
fn segmentation_of_tcp_and_udp_over_ipv4_and_ipv6_matches_software() {
    const MSS: usize = 1000;
    for kind in Kind::ALL {
        let header = kind.transport_at() + kind.transport_len();
        for len in [1, 999, 1000, 1001, 2000, 4500] {
            for pieces in [&[][..], &[header], &[header - 10, 10], &[20, 15]] {
                let mut bench = IgbBench::running(1);
                let mut large = packet(kind, (0, 0), ACK | PSH | FIN, &payload(len));
                // The NIC must overwrite the lengths.
                if kind.v6 {
                    large[18..20].fill(0xff);
                } else {
                    large[16..18].fill(0xff);
                }
                if kind.protocol == UDP {
                    large[kind.transport_at() + 4..][..2].fill(0xff);
                }
                let large = without_checksums(kind, large, 0);
                let (first, second, options) = kind.context(MSS as u64, 0);
                bench.put_tx(0, first, second);
                put_large(&mut bench, &large, pieces, SEND | TSE, options, header);
                let expected = segments(kind, &payload(len), MSS);
                let mut frames = sent(&mut bench);
                for (frame, whole) in frames.iter_mut().zip(&expected) {
                    frame.truncate(whole.len());
                }
                assert!(frames == expected, "{kind:?}, {len} bytes, pieces {pieces:?}");
            }
        }
    }
}

#[test]
fn every_segment_has_the_vlan_tag_of_its_context() {
    for kind in Kind::ALL {
        let mut bench = IgbBench::running(1);
        bench.write(CTRL, 0x41 | VME);
        let header = kind.transport_at() + kind.transport_len();
        let large = without_checksums(kind, packet(kind, (0, 0), ACK | PSH | FIN, &payload(1500)), 0);
        let (first, second, options) = kind.context(1000, 0x6005);
        bench.put_tx(0, first, second);
        put_large(&mut bench, &large, &[], SEND | TSE | VLE, options, header);
        let tagged = |frame: &Vec<u8>| [&frame[..12], &[0x81, 0, 0x60, 5], &frame[12..]].concat();
        let expected: Vec<_> = segments(kind, &payload(1500), 1000).iter().map(tagged).collect();
        assert!(sent(&mut bench) == expected, "{kind:?}");
    }
}
