//! Checksums and segmentation on the way out, over both versions of IP: each frame beside the one that software would have made by itself,
//! from RFC 768, 791, 1071, 8200 and 9293.

use doorbell_pcie::NetworkFunction as _;
use doorbell_sim::Ps;

use crate::driver::*;

const TCP: u8 = 6;
const UDP: u8 = 17;
const VME: u32 = 1 << 30;
/// Transmit commands: EOP, IFCS, RS, DEXT; and those that ask for a tag and for segments.
const SEND: u64 = 0x2b;
const VLE: u64 = 0x40;
const TSE: u64 = 0x80;
/// POPTS.
const IXSM: u64 = 1;
const TXSM: u64 = 2;
const FIN: u8 = 1;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// What a packet is made of.
#[derive(Clone, Copy, Debug)]
struct Kind {
    v6: bool,
    /// A hop-by-hop header of eight bytes behind IPv6's own.
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

    /// The sum of the pseudo header, for a transport header and payload of this length.
    fn pseudo(self, packet: &[u8], length: usize) -> u32 {
        let addresses = if self.v6 { &packet[22..54] } else { &packet[26..34] };
        sum(addresses) + u32::from(self.protocol) + length as u32
    }

    /// The context descriptor for it, and what POPTS asks for: no checksum of IP where it has none.
    fn context(self, mss: u64, tag: u64) -> (u64, u64, u64) {
        let l4t = u64::from(self.protocol == TCP);
        let first = self.ip_len() as u64 | 14 << 9 | tag << 16;
        let second = u64::from(!self.v6) << 10 | l4t << 11 | 2 << 20 | 0x20 << 24;
        let options = if self.v6 { TXSM } else { IXSM | TXSM };
        (first, second | (self.transport_len() as u64) << 40 | mss << 48, options)
    }
}

/// A packet as software makes it, in full: the `number`th of some, with `before` bytes of payload in those before it.
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
    // UDP has no checksum of zero (RFC 768).
    let checksum = if kind.protocol == UDP && total == 0xffff { 0xffff } else { !total };
    bytes[kind.checksum_at()..][..2].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// The same as software leaves it to the NIC: no checksum of IP, and of the transport's the pseudo header alone, with this length.
fn left_to_the_nic(kind: Kind, mut bytes: Vec<u8>, length: usize) -> Vec<u8> {
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
fn checksums_of_tcp_and_udp_are_put_in_over_either_ip() {
    for kind in Kind::ALL {
        let mut bench = IgbBench::running(1);
        for len in [7, 100, 1001] {
            let whole = packet(kind, (0, 0), ACK, &payload(len));
            let length = whole.len() - kind.transport_at();
            let (first, second, options) = kind.context(0, 0);
            bench.put_tx(0, first, second);
            bench.send(0, &left_to_the_nic(kind, whole.clone(), length), options);
            let mut frames = sent(&mut bench);
            // Short frames are padded.
            frames.iter_mut().for_each(|frame| frame.truncate(whole.len()));
            assert_eq!(frames, [whole], "{kind:?}, {len}");
        }
    }
}

#[test]
fn a_udp_checksum_that_comes_to_zero_is_sent_as_ones() {
    for kind in Kind::ALL {
        // The last two bytes make the sum of all others complete.
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
        bench.send(0, &left_to_the_nic(kind, whole.clone(), length), options);
        assert_eq!(sent(&mut bench), [whole], "{kind:?}");
    }
}

/// The packets that software would make of so much payload.
fn segments(kind: Kind, payload: &[u8], mss: usize) -> Vec<Vec<u8>> {
    let count = payload.len().div_ceil(mss);
    let of = |(number, part): (usize, &[u8])| {
        // FIN and PSH belong to the last one.
        let flags = if number + 1 == count { ACK | PSH | FIN } else { ACK };
        packet(kind, (number as u16, (number * mss) as u32), flags, part)
    };
    payload.chunks(mss).enumerate().map(of).collect()
}

/// Gives a packet to be cut, its bytes in buffers of these lengths and the rest in a last one.
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
fn large_packets_of_tcp_and_udp_are_cut_over_either_ip_as_software_would_have() {
    const MSS: usize = 1000;
    for kind in Kind::ALL {
        let header = kind.transport_at() + kind.transport_len();
        for len in [1, 999, 1000, 1001, 2000, 4500] {
            for pieces in [&[][..], &[header], &[header - 10, 10], &[20, 15]] {
                let mut bench = IgbBench::running(1);
                let mut large = packet(kind, (0, 0), ACK | PSH | FIN, &payload(len));
                // Lengths are the NIC's to write, whatever they were.
                if kind.v6 {
                    large[18..20].fill(0xff);
                } else {
                    large[16..18].fill(0xff);
                }
                if kind.protocol == UDP {
                    large[kind.transport_at() + 4..][..2].fill(0xff);
                }
                let large = left_to_the_nic(kind, large, 0);
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
fn segments_have_the_tag_of_their_context_each() {
    for kind in Kind::ALL {
        let mut bench = IgbBench::running(1);
        bench.write(CTRL, 0x41 | VME);
        let header = kind.transport_at() + kind.transport_len();
        let large = left_to_the_nic(kind, packet(kind, (0, 0), ACK | PSH | FIN, &payload(1500)), 0);
        let (first, second, options) = kind.context(1000, 0x6005);
        bench.put_tx(0, first, second);
        put_large(&mut bench, &large, &[], SEND | TSE | VLE, options, header);
        let tagged = |frame: &Vec<u8>| [&frame[..12], &[0x81, 0, 0x60, 5], &frame[12..]].concat();
        let expected: Vec<_> = segments(kind, &payload(1500), 1000).iter().map(tagged).collect();
        assert!(sent(&mut bench) == expected, "{kind:?}");
    }
}
