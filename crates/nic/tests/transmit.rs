//! Transmit tests: all descriptor types, offloads against an independent computation, write-back.

use crate::common::*;
use doorbell_nic::NicConfig;
use doorbell_pcie::NetworkFunction as _;
use doorbell_sim::{Bytes, Ps};
use proptest::prelude::*;

/// Ones' complement sum by the definition (RFC 1071).
fn ones_sum(bytes: &[u8], mut sum: u32) -> u32 {
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

fn pseudo(frame: &[u8], ip: usize, v6: bool, protocol: u8, len: usize) -> u32 {
    let addresses = if v6 { &frame[ip + 8..ip + 40] } else { &frame[ip + 12..ip + 20] };
    ones_sum(addresses, u32::from(protocol) + len as u32)
}

fn context(bench: &mut Bench, fields: [u64; 6], command: u64, header: u64, mss: u64, paylen: u64) {
    let [ip_start, ip_offset, ip_end, start, offset, end] = fields;
    let first = ip_start | ip_offset << 8 | ip_end << 16 | start << 32 | offset << 40 | end << 48;
    bench.put_tx(first, paylen | (command | 0x20) << 24 | header << 40 | mss << 48);
}

/// Puts a packet into memory, and data descriptors for its pieces into the ring.
fn data(bench: &mut Bench, bytes: &[u8], pieces: &[usize], command: u64, options: u64) {
    let buffer = TX_BUFFERS;
    bench.world.memory[buffer as usize..buffer as usize + bytes.len()].copy_from_slice(bytes);
    let mut at = 0;
    for (i, len) in pieces.iter().enumerate() {
        let last = if i + 1 == pieces.len() { 0x09 } else { 0 };
        let second = *len as u64 | 1 << 20 | (command | 0x20 | last) << 24 | options << 40;
        bench.put_tx(buffer + at, second);
        at += *len as u64;
    }
    assert_eq!(at as usize, bytes.len());
}

fn ipv4_tcp(payload: usize, udp: bool) -> Vec<u8> {
    let l4 = if udp { 8 } else { 20 };
    let total = 20 + l4 + payload;
    let mut bytes = frame(64, 1).bytes[..12].to_vec();
    bytes.extend([
        8,
        0,
        0x45,
        0,
        (total >> 8) as u8,
        total as u8,
        0x12,
        0xfe,
        0x40,
        0,
        64,
        if udp { 17 } else { 6 },
        0,
        0,
    ]);
    bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    if udp {
        bytes.extend([0x12, 0x34, 0x56, 0x78, ((l4 + payload) >> 8) as u8, (l4 + payload) as u8, 0, 0]);
    } else {
        bytes.extend([
            0x12, 0x34, 0x56, 0x78, 0xff, 0xff, 0xff, 0x00, 0, 0, 0, 1, 0x50, 0x19, 0x20, 0, 0, 0, 0, 0,
        ]);
    }
    bytes.extend((0..payload).map(|i| (i * 31 + i / 251) as u8));
    bytes
}

#[test]
fn a_legacy_descriptor_sends_and_pads_a_frame_and_is_written_back() {
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    let start = bench.world.now();
    bench.send_legacy(&frame(64, 1).bytes[..42], 0x0b);
    // Descriptor 502 ns, data 505 ns; then the frame leaves. Its descriptor is written back 202 ns later.
    bench.run_until(start + Ps::from_ns(502 + 505 + 202) - Ps(1));
    assert_eq!((bench.world.word(TX_RING + 8) >> 32, bench.read(TDH)), (0, 0));
    bench.run_until(start + Ps::from_ns(502 + 505 + 202));
    assert_eq!((bench.world.word(TX_RING + 8) >> 32, bench.read(TDH)), (1, 1));
    let (at, sent) = &bench.world.sent[0];
    assert_eq!(*at, start + Ps::from_ns(502 + 505));
    assert_eq!(sent.bytes, [&frame(64, 1).bytes[..42], &[0; 18]].concat());
    bench.check();
}

#[test]
fn only_descriptors_with_rs_are_written_back() {
    let mut bench = Bench::running(NicConfig::default(), 64, 256);
    for i in 0..128u64 {
        bench.put_tx(TX_BUFFERS + 2048 * i, 60 | if i % 32 == 31 { 0x0b } else { 0x03 } << 24);
    }
    bench.ring_tx();
    bench.run_for(Ps::from_us(100));
    for i in 0..128 {
        assert_eq!(bench.world.word(TX_RING + 16 * i + 8) >> 32 & 1, u64::from(i % 32 == 31));
    }
    let bytes: u32 = bench.world.dma.iter().filter(|d| d.1 == TX_WRITE_BACK).map(|d| d.2).sum();
    assert_eq!((bytes, bench.read(TDH), bench.read(GPTC)), (16 * 4, 128, 128));
    assert_eq!((bench.read(0x40d4), bench.read(0x40d8), bench.read(0x4090)), (128, 128, 128 * 64));
    bench.check();
}

#[test]
fn frames_leave_back_to_back_at_line_rate() {
    let mut bench = Bench::running(NicConfig::default(), 64, 1024);
    bench.world.bytes_per_ns = 64;
    for i in 0..1000u64 {
        bench.put_tx(TX_BUFFERS + 2048 * (i % 8), 60 | 0x0b << 24);
    }
    bench.ring_tx();
    bench.run_for(Ps::from_ms(1));
    assert_eq!(bench.world.sent.len(), 1000);
    // 84 bytes take 67.2 ns at 10 Gb/s, without gaps between the frames.
    let (first, last) = (bench.world.sent[100].0, bench.world.sent[900].0);
    assert_eq!((last - first).0, 800 * 67_200);
}

#[test]
fn a_write_back_threshold_makes_bursts_but_does_not_delay_the_last_descriptors() {
    let mut bench = Bench::running(NicConfig::default(), 64, 256);
    bench.write(TXDCTL, 0x0108_0000);
    for i in 0..20u64 {
        bench.put_tx(TX_BUFFERS + 2048 * i, 60 | 0x0b << 24);
    }
    bench.ring_tx();
    bench.run_for(Ps::from_us(50));
    for i in 0..20 {
        assert_eq!(bench.world.word(TX_RING + 16 * i + 8) >> 32 & 1, 1);
    }
    assert!(bench.nic.stats().tx_write_backs <= 4, "{}", bench.nic.stats().tx_write_backs);
    assert_eq!(bench.read(TDH), 20);
}

#[test]
fn software_may_supply_the_fcs() {
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    let mut bytes = b"123456789".to_vec();
    bytes.extend(0xcbf4_3926u32.to_le_bytes());
    bench.send_legacy(&bytes, 0x09);
    bytes[0] ^= 1;
    bench.send_legacy(&bytes, 0x09);
    bench.run_for(Ps::from_us(10));
    let sent: Vec<bool> = bench.world.sent.iter().map(|(_, f)| f.fcs_bad).collect();
    assert_eq!(sent, [false, true]);
    assert_eq!(bench.world.sent[0].1.bytes[..9], *b"123456789");
}

#[test]
fn vlan_tags_are_inserted() {
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    bench.write(CTRL, 0x4000_0041);
    let bytes = frame(100, 2).bytes;
    let buffer = TX_BUFFERS as usize;
    bench.world.memory[buffer..buffer + bytes.len()].copy_from_slice(&bytes);
    bench.put_tx(TX_BUFFERS, bytes.len() as u64 | 0x4b << 24 | 0x6123 << 48);
    bench.ring_tx();
    bench.run_for(Ps::from_us(10));
    assert_eq!(bench.world.sent[0].1.bytes, [&bytes[..12], &[0x81, 0, 0x61, 0x23], &bytes[12..]].concat());
}

#[test]
fn a_legacy_descriptor_inserts_one_checksum() {
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    let mut bytes = ipv4_tcp(100, false);
    let len = bytes.len() - 34;
    let partial = pseudo(&bytes, 14, false, 6, len);
    bytes[50..52].copy_from_slice(&(partial as u16).to_be_bytes());
    let buffer = TX_BUFFERS as usize;
    bench.world.memory[buffer..buffer + bytes.len()].copy_from_slice(&bytes);
    bench.put_tx(TX_BUFFERS, bytes.len() as u64 | 50 << 16 | 0x0f << 24 | 34 << 40);
    bench.ring_tx();
    bench.run_for(Ps::from_us(10));
    let sent = &bench.world.sent[0].1.bytes;
    assert_eq!(ones_sum(&sent[34..], pseudo(sent, 14, false, 6, len)), 0xffff);
}

#[test]
fn contexts_insert_both_checksums_for_tcp_and_udp() {
    for udp in [false, true] {
        let mut bench = Bench::running(NicConfig::default(), 64, 64);
        let mut bytes = ipv4_tcp(333, udp);
        let (protocol, at, len) = if udp { (17, 40, bytes.len() - 34) } else { (6, 50, bytes.len() - 34) };
        let partial = pseudo(&bytes, 14, false, protocol, len);
        bytes[at..at + 2].copy_from_slice(&(partial as u16).to_be_bytes());
        context(&mut bench, [14, 24, 33, 34, at as u64, 0], if udp { 2 } else { 3 }, 0, 0, 0);
        let pieces = [14, 100, bytes.len() - 114];
        data(&mut bench, &bytes, &pieces, 0x02, 3);
        bench.ring_tx();
        bench.run_for(Ps::from_us(20));
        assert_eq!(bench.world.sent.len(), 1);
        let sent = &bench.world.sent[0].1.bytes;
        assert_eq!(sent.len(), bytes.len());
        assert_eq!(ones_sum(&sent[14..34], 0), 0xffff);
        assert_eq!(ones_sum(&sent[34..], pseudo(sent, 14, false, protocol, len)), 0xffff);
        assert_eq!(bench.nic.stats().tx_malformed, 0);
    }
}

/// Segments as software would send them.
fn segments(bytes: &[u8], mss: usize) -> Vec<Vec<u8>> {
    let chunks: Vec<&[u8]> = bytes[54..].chunks(mss).collect();
    let mut sequence = u32::from_be_bytes(bytes[38..42].try_into().unwrap());
    let mut out = Vec::new();
    for (i, chunk) in chunks.iter().enumerate() {
        let mut segment = [&bytes[..54], chunk].concat();
        let len = (segment.len() - 14) as u16;
        segment[16..18].copy_from_slice(&len.to_be_bytes());
        let id = u16::from_be_bytes([bytes[18], bytes[19]]).wrapping_add(i as u16);
        segment[18..20].copy_from_slice(&id.to_be_bytes());
        segment[38..42].copy_from_slice(&sequence.to_be_bytes());
        if i + 1 != chunks.len() {
            segment[47] &= !9;
        }
        segment[24..26].fill(0);
        let sum = !(ones_sum(&segment[14..34], 0) as u16);
        segment[24..26].copy_from_slice(&sum.to_be_bytes());
        segment[50..52].fill(0);
        let pseudo = pseudo(&segment, 14, false, 6, segment.len() - 34);
        let sum = !(ones_sum(&segment[34..], pseudo) as u16);
        segment[50..52].copy_from_slice(&sum.to_be_bytes());
        segment.resize(segment.len().max(60), 0);
        sequence = sequence.wrapping_add(chunk.len() as u32);
        out.push(segment);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn tcp_segmentation_matches_software_segmentation(
        payload in 1usize..20_000, mss in 100usize..1460, cut in prop::collection::vec(1usize..6000, 0..6), read in 64u64..4096,
    ) {
        let mut bench = Bench::running(NicConfig { tx_read_max: Bytes(read), ..NicConfig::default() }, 64, 64);
        let mut bytes = ipv4_tcp(payload, false);
        // The pseudo-header sum without the length, as drivers provide it.
        let partial = pseudo(&bytes, 14, false, 6, 0);
        bytes[50..52].copy_from_slice(&(partial as u16).to_be_bytes());
        bytes[16..18].fill(0);
        context(&mut bench, [14, 24, 33, 34, 50, 0], 0x07, 54, mss as u64, payload as u64);
        let mut pieces = vec![54];
        let mut left = payload;
        for piece in cut {
            if left > piece {
                pieces.push(piece);
                left -= piece;
            }
        }
        pieces.push(left);
        data(&mut bench, &bytes, &pieces, 0x06, 3);
        bench.ring_tx();
        bench.run_for(Ps::from_ms(1));
        let sent: Vec<_> = bench.world.sent.iter().map(|(_, frame)| frame.bytes.clone()).collect();
        prop_assert_eq!(sent, segments(&bytes, mss));
        prop_assert_eq!(bench.nic.stats().tx_malformed, 0);
        prop_assert_eq!(bench.read(0x40f8), 1);
        // Each read has its offset in the packet, even if the first segments have already left.
        let mut at = 0;
        for (offset, len) in bench.world.pieces(TX_DATA) {
            prop_assert_eq!(offset, at);
            at += len;
        }
        prop_assert_eq!(at as usize, bytes.len());
        bench.check();
    }
}

#[test]
fn udp_and_ipv6_segments_have_correct_lengths_and_checksums() {
    // UDP over IPv4.
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    let mut bytes = ipv4_tcp(3000, true);
    let partial = pseudo(&bytes, 14, false, 17, 0);
    bytes[40..42].copy_from_slice(&(partial as u16).to_be_bytes());
    context(&mut bench, [14, 24, 33, 34, 40, 0], 0x06, 42, 1000, 3000);
    data(&mut bench, &bytes, &[42, 3000], 0x06, 3);
    bench.ring_tx();
    bench.run_for(Ps::from_us(50));
    assert_eq!(bench.world.sent.len(), 3);
    for (_, frame) in &bench.world.sent {
        let sent = &frame.bytes;
        assert_eq!((sent.len(), &sent[38..40]), (1042, &1008u16.to_be_bytes()[..]));
        assert_eq!(ones_sum(&sent[34..], pseudo(sent, 14, false, 17, 1008)), 0xffff);
    }
    // TCP over IPv6.
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    let v4 = ipv4_tcp(3000, false);
    let mut bytes = [&v4[..12], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 6, 64]].concat();
    bytes.extend((0..32).map(|i| i * 5 + 1));
    bytes.extend(&v4[34..]);
    let partial = pseudo(&bytes, 14, true, 6, 0);
    bytes[70..72].copy_from_slice(&(partial as u16).to_be_bytes());
    context(&mut bench, [14, 0, 0, 54, 70, 0], 0x05, 74, 1400, 3000);
    data(&mut bench, &bytes, &[74, 3000], 0x06, 2);
    bench.ring_tx();
    bench.run_for(Ps::from_us(50));
    let lengths: Vec<usize> = bench.world.sent.iter().map(|(_, f)| f.bytes.len() - 74).collect();
    assert_eq!(lengths, [1400, 1400, 200]);
    for (_, frame) in &bench.world.sent {
        let sent = &frame.bytes;
        assert_eq!(usize::from(u16::from_be_bytes([sent[18], sent[19]])), sent.len() - 54);
        assert_eq!(ones_sum(&sent[54..], pseudo(sent, 14, true, 6, sent.len() - 54)), 0xffff);
    }
}

#[test]
fn the_fifo_size_limits_reads_ahead() {
    let config = NicConfig { tx_fifo: Some(Bytes(4096)), reads_in_flight: 64, ..NicConfig::default() };
    let mut bench = Bench::running(config, 64, 64);
    bench.world.bytes_per_ns = 64;
    for i in 0..50 {
        bench.put_tx(TX_BUFFERS + 2048 * i, 1514 | 0x0b << 24);
    }
    bench.ring_tx();
    let mut most = 0;
    while bench.step() {
        most = most.max(bench.nic.in_flight().tx);
    }
    assert!(most <= 2, "{most}");
    assert_eq!(bench.world.sent.len(), 50);
    bench.check();
}

#[test]
fn a_packet_larger_than_the_fifo_is_sent_and_an_oversized_one_is_dropped() {
    let config = NicConfig { tx_fifo: Some(Bytes(4096)), tx_read_max: Bytes(1024), ..NicConfig::default() };
    let mut bench = Bench::running(config, 64, 64);
    bench.put_tx(TX_BUFFERS, 9000 | 0x0b << 24);
    bench.put_tx(TX_BUFFERS, 16289 | 0x0b << 24);
    bench.put_tx(TX_BUFFERS, 60_000 | 0x0b << 24);
    bench.put_tx(TX_BUFFERS, 0x0b << 24);
    bench.put_tx(TX_BUFFERS, 60 | 0x0b << 24);
    bench.ring_tx();
    bench.run_for(Ps::from_ms(1));
    let lengths: Vec<usize> = bench.world.sent.iter().map(|(_, f)| f.bytes.len()).collect();
    assert_eq!(lengths, [9000, 60]);
    let s = bench.nic.stats();
    assert_eq!((s.tx_drop_oversize, s.tx_drop_empty), (2, 1));
    assert_eq!(bench.read(TDH), 5);
    bench.check();
}

#[test]
fn a_read_that_waits_for_fifo_space_starts_when_the_last_frame_has_left() {
    let config = NicConfig { tx_fifo: Some(Bytes(2048)), reads_in_flight: 1, ..NicConfig::default() };
    let mut bench = Bench::running(config, 64, 64);
    for bytes in [1229, 845, 1185] {
        bench.put_tx(TX_BUFFERS, bytes | 0x0b << 24);
    }
    bench.ring_tx();
    bench.run_for(Ps::from_us(100));
    assert_eq!(bench.world.sent.len(), 3);
}
