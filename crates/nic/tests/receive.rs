//! Receive tests: polling driver, thresholds, filters, large frames, the FIFO and drop classes.

use crate::common::*;
use doorbell_nic::NicConfig;
use doorbell_pcie::network::NicStats;
use doorbell_pcie::{NetworkFunction as _, PciFunction as _};
use doorbell_sim::{Bytes, Frame, Ps};

#[test]
fn a_polling_driver_receives_a_single_frame_with_any_write_back_threshold() {
    for thresholds in [0x0100_0000, 0x0101_0000, 0x0104_0000, 0x013f_0000, 0x0001_0000, 0x003f_3f3f] {
        let mut bench = Bench::running(NicConfig::default(), 256, 64);
        bench.write(RXDCTL, thresholds);
        bench.arrive(frame(64, 1));
        // 60 bytes of data and 16 of descriptor at 8 bytes per nanosecond, and 200 ns of write latency.
        bench.run_for(Ps::from_ns(7 + 2 + 200) - Ps(1));
        assert!(bench.poll().is_empty());
        bench.run_for(Ps(1));
        assert_eq!(bench.poll(), [frame(64, 1).bytes], "{thresholds:#x}");
        bench.check();
    }
}

#[test]
fn data_is_visible_before_its_descriptor() {
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    bench.arrive(frame(1518, 3));
    while bench.world.word(RX_RING + 8) == 0 {
        bench.step();
    }
    assert_eq!(bench.poll(), [frame(1518, 3).bytes]);
}

#[test]
fn a_frame_is_reported_with_its_pieces_when_its_last_descriptor_is_in_memory() {
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    let long_packets = 1 << 5; // RCTL.LPE
    let receive_control = bench.read(RCTL);
    bench.write(RCTL, receive_control | long_packets);
    for (size, tag) in [(64, 1), (1518, 2), (4500, 3)] {
        bench.arrive(frame(size, tag));
        bench.run_for(Ps::from_us(5));
    }
    let reported = std::mem::take(&mut bench.world.in_memory);
    let sizes: Vec<(u32, usize)> = reported.iter().map(|(wire, pieces)| (*wire, pieces.len())).collect();
    assert_eq!(sizes, [(64, 1), (1518, 1), (4500, 3)], "buffers have 2048 bytes");
    for ((wire, pieces), tag) in reported.iter().zip(1..) {
        let mut bytes = Vec::new();
        for (addr, len) in pieces {
            bytes.extend_from_slice(&bench.world.memory[addr.0 as usize..][..*len as usize]);
        }
        assert_eq!(bytes[..*wire as usize - 4], frame(*wire as usize, tag).bytes);
    }
}

#[test]
fn a_buffer_is_reported_as_returned_each_time_its_descriptor_is_fetched() {
    let mut bench = Bench::running(NicConfig::default(), 8, 64);
    let buffer = |index: u64| (doorbell_sim::PhysAddr(RX_BUFFERS + RX_BUFFER * (index % 8)), 2048);
    bench.run_for(Ps::from_us(5));
    assert_eq!(bench.world.returned.len(), 7, "software keeps the last descriptor of the ring");
    for returned in 7..30 {
        bench.arrive(frame(64, 1));
        bench.run_for(Ps::from_us(5));
        assert!(bench.world.returned.len() <= returned, "software owns the buffer until it returns it");
        assert_eq!(bench.poll().len(), 1);
        bench.run_for(Ps::from_us(5));
    }
    let returned = &bench.world.returned;
    assert!(returned.len() > 23, "the chip must fetch more when it runs out of descriptors");
    assert_eq!(*returned, (0..returned.len() as u64).map(buffer).collect::<Vec<_>>());
    bench.check();
}

#[test]
fn frames_stay_in_order_when_the_ring_wraps() {
    let mut bench = Bench::running(NicConfig::default(), 8, 64);
    for round in 0..50 {
        for i in 0..5 {
            bench.arrive(frame(64 + (round + i) as usize % 900, round * 5 + i));
            bench.run_for(Ps::from_ns(900));
        }
        bench.run_for(Ps::from_us(3));
        let expected: Vec<_> =
            (0..5).map(|i| frame(64 + (round + i) as usize % 900, round * 5 + i).bytes).collect();
        assert_eq!(bench.poll(), expected);
    }
    assert_eq!(bench.nic.stats().rx_delivered, 250);
    bench.check();
}

/// Number of frames that a polling driver receives, and statistics, for frames of 64 bytes at intervals of
/// `spacing`.
fn throughput(config: NicConfig, thresholds: u32, spacing: Ps, frames: u32) -> (usize, NicStats) {
    let mut bench = Bench::running(config, 1024, 64);
    bench.write(RXDCTL, thresholds);
    bench.world.bytes_per_ns = 64;
    let start = bench.world.now();
    for i in 0..frames {
        bench.arrive_at(start + Ps(spacing.0 * u64::from(i)), frame(64, i));
    }
    let mut received = 0;
    for _ in 0..frames / 16 + 40 {
        bench.run_for(Ps(spacing.0 * 16));
        received += bench.poll().len();
    }
    bench.check();
    (received, bench.nic.stats().clone())
}

#[test]
fn throughput_exceeds_one_frame_per_round_trip() {
    // 200 ns write latency and 500 ns read latency; one frame per 30 ns.
    let (received, stats) = throughput(NicConfig::default(), 0x0100_0000, Ps::from_ns(30), 20_000);
    assert_eq!((received, stats.rx_delivered), (20_000, 20_000));
    // With one write in flight it is one frame per round trip, and frames are lost.
    let narrow = NicConfig { writes_in_flight: 1, ..NicConfig::default() };
    let (_, stats) = throughput(narrow, 0x0100_0000, Ps::from_ns(30), 20_000);
    assert!(stats.rx_drop_dma > 10_000, "{stats:?}");
}

#[test]
fn fetches_take_whole_batches_and_prefetch_follows_its_thresholds() {
    let (_, lazy) = throughput(NicConfig::default(), 0x0100_0000, Ps::from_ns(100), 6400);
    assert!(lazy.rx_fetches <= 6400 / 32, "{}", lazy.rx_fetches);
    let (_, eager) = throughput(NicConfig::default(), 0x0100_0420, Ps::from_ns(100), 6400);
    assert!(eager.rx_fetches > lazy.rx_fetches);
    // A prefetch threshold of 63 with a host threshold of 1 fetches after every few frames.
    let (_, greedy) = throughput(NicConfig::default(), 0x0100_013f, Ps::from_ns(100), 6400);
    assert!(greedy.rx_fetches > eager.rx_fetches);
    for stats in [lazy, eager, greedy] {
        assert_eq!(stats.rx_delivered, 6400);
    }
}

#[test]
fn a_write_back_threshold_gathers_descriptors_while_frames_queue() {
    let frame_time = NicConfig { writes_in_flight: 2, ..NicConfig::default() };
    let (_, single) = throughput(frame_time.clone(), 0x0100_0000, Ps::from_ns(60), 2000);
    let (_, gathered) = throughput(frame_time, 0x0108_0000, Ps::from_ns(60), 2000);
    assert!(gathered.rx_write_backs * 3 < gathered.rx_delivered, "{gathered:?}");
    assert!(single.rx_write_backs * 10 > single.rx_delivered * 9, "{single:?}");
}

#[test]
fn large_frames_span_descriptors() {
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    bench.write(RCTL, 0x0400_8022);
    bench.arrive(frame(9018, 5));
    bench.arrive(frame(2052, 6));
    bench.arrive(frame(2053, 7));
    bench.run_for(Ps::from_us(20));
    let frames = bench.poll_status();
    assert_eq!(frames.len(), 3);
    for (received, sent) in frames.iter().zip([frame(9018, 5), frame(2052, 6), frame(2053, 7)]) {
        assert_eq!(received.0, sent.bytes);
    }
    assert_eq!(bench.nic.stats().rx_descriptors, 5 + 1 + 2);
    bench.write(RCTL, 0x0400_8002);
    bench.arrive(frame(1522, 8));
    bench.arrive(frame(1523, 9));
    assert_eq!((bench.nic.stats().rx_drop_oversize, bench.read(0x40ac)), (1, 1));
    bench.check();
}

#[test]
fn every_buffer_size_takes_effect() {
    for (rctl, size) in [
        (0x0400_8022, 2048),
        (0x0401_8022, 1024),
        (0x0402_8022, 512),
        (0x0403_8022, 256),
        (0x0601_8022, 16384),
        (0x0602_8022, 8192),
        (0x0603_8022, 4096u64),
    ] {
        let mut bench = Bench::running(NicConfig::default(), 64, 64);
        bench.write(RCTL, rctl);
        bench.arrive(frame(9018, 1));
        bench.run_for(Ps::from_us(30));
        assert_eq!(bench.nic.stats().rx_descriptors, 9014u64.div_ceil(size), "{rctl:#x}");
    }
}

#[test]
fn the_fcs_is_stored_without_secrc_and_null_descriptors_are_skipped() {
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    bench.write(RCTL, 0x8002);
    bench.world.put_word(RX_RING + 16 * 70, 0);
    bench.arrive(frame(64, 1));
    bench.run_for(Ps::from_us(3));
    let received = bench.poll();
    assert_eq!((received[0].len(), &received[0][..60]), (64, &frame(64, 1).bytes[..]));
    // The CRC of the frame including its FCS is the residue defined by the standard.
    let mut crc = !0u32;
    for byte in &received[0] {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    assert_eq!(crc, 0xdebb_20e3);

    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    bench.write(RCTL, 0);
    bench.set_up_rx(64);
    bench.world.put_word(RX_RING, 0);
    bench.write(RCTL, 0x0400_8002);
    bench.run_for(Ps::from_us(3));
    bench.arrive(frame(64, 1));
    bench.run_for(Ps::from_us(3));
    assert_eq!(bench.poll(), [frame(64, 1).bytes]);
    assert_eq!(bench.nic.stats().rx_null_descriptors, 1);
    bench.check();
}

fn to(address: [u8; 6]) -> Frame {
    let mut frame = frame(64, 0);
    frame.bytes[..6].copy_from_slice(&address);
    frame
}

/// With these registers: whether a frame passes the filters (`None` if not), and whether as an inexact match.
fn passes(rctl: u32, registers: &[(u64, u32)], frame: Frame) -> Option<bool> {
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    bench.write(RCTL, 0x0400_0002 | rctl);
    for (offset, value) in registers {
        bench.write(*offset, *value);
    }
    bench.arrive(frame);
    bench.run_for(Ps::from_us(3));
    bench.check();
    bench.poll_status().first().map(|(_, second)| second >> 39 & 1 != 0)
}

#[test]
fn address_filters_accept_and_reject() {
    let station = to([0x52, 0x54, 0, 0x12, 0x34, 0x56]);
    let other = to([0x52, 0x54, 0, 0x12, 0x34, 0x57]);
    let broadcast = to([0xff; 6]);
    // The manual's example for the multicast hash: the last two bytes select the bits.
    let multicast = to([0x01, 0, 0x5e, 0, 0x56, 0x34]);
    let (exact, inexact) = (Some(false), Some(true));
    assert_eq!(passes(0, &[], station.clone()), exact);
    assert_eq!(passes(0, &[(RAH, 0x5634)], station), None, "invalid entry");
    assert_eq!(passes(0, &[], other.clone()), None);
    assert_eq!(passes(0x8, &[], other.clone()), inexact, "unicast promiscuous");
    let entry = [(RAL + 8 * 15, 0x1200_5452), (RAH + 8 * 15, 0x8000_5734)];
    assert_eq!(passes(0, &entry, other), exact, "the last entry");
    assert_eq!(passes(0, &[], broadcast.clone()), None);
    assert_eq!(passes(0x8000, &[], broadcast), exact);
    assert_eq!(passes(0x8008, &[], multicast.clone()), None);
    assert_eq!(passes(0x10, &[], multicast.clone()), inexact, "multicast promiscuous");
    for (offset_bits, bits) in [(0u32, 0x345u64), (1, 0x68a), (2, 0xd15), (3, 0x456)] {
        let hit = [(MTA + (bits >> 5) * 4, 1u32 << (bits & 31))];
        assert_eq!(passes(offset_bits << 12, &hit, multicast.clone()), inexact, "offset {offset_bits}");
        let miss = [(MTA + (bits >> 5) * 4, !(1u32 << (bits & 31)))];
        assert_eq!(passes(offset_bits << 12, &miss, multicast.clone()), None, "offset {offset_bits}");
    }
}

fn tagged(tag: u16) -> Frame {
    let mut frame = frame(68, 0);
    frame.bytes[12..16].copy_from_slice(&[0x81, 0, (tag >> 8) as u8, tag as u8]);
    frame
}

#[test]
fn vlan_tags_are_filtered_and_stripped() {
    let filter = 1 << 18;
    assert_eq!(passes(filter, &[], frame(64, 0)), Some(false), "untagged frames pass");
    assert_eq!(passes(filter, &[], tagged(5)), None);
    assert_eq!(passes(filter, &[(VFTA, 1 << 5)], tagged(5)), Some(false));
    assert_eq!(passes(filter, &[(VFTA + 4 * 127, 1 << 31)], tagged(0xefff)), Some(false));
    let cfi = filter | 1 << 19;
    assert_eq!(passes(cfi, &[(VFTA, 1 << 5)], tagged(0x1005)), None);
    assert_eq!(passes(cfi | 1 << 20, &[(VFTA, 1 << 5)], tagged(0x1005)), Some(false));

    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    bench.write(CTRL, 0x4000_0041);
    bench.arrive(tagged(0x6123));
    bench.run_for(Ps::from_us(3));
    let (bytes, second) = bench.poll_status().remove(0);
    assert_eq!((second >> 48, second >> 35 & 1), (0x6123, 1));
    let whole = tagged(0x6123).bytes;
    assert_eq!(bytes, [&whole[..12], &whole[16..]].concat());
}

#[test]
fn bad_and_short_frames_are_dropped_and_counted_by_cause() {
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    let bad = |bytes| Frame { fcs_bad: true, ..frame(bytes, 0) };
    for frame in [bad(64), frame(63, 0), bad(63), bad(1600), frame(1600, 0)] {
        bench.arrive(frame);
    }
    let s = bench.nic.stats();
    assert_eq!((s.rx_drop_fcs, s.rx_drop_undersize, s.rx_drop_oversize), (1, 2, 2));
    // CRCERRS, RUC, RFC, ROC, RJC, RLEC, and CRCERRS again, which is clear now; then the totals.
    let registers = [0x4000, 0x40a4, 0x40a8, 0x40ac, 0x40b0, 0x4040, 0x4000].map(|offset| bench.read(offset));
    assert_eq!(registers, [1, 1, 1, 1, 1, 4, 0]);
    assert_eq!((bench.read(0x40d0), bench.read(GPRC)), (5, 0));
    bench.write(RCTL, 0x0400_8006);
    bench.arrive(bad(64));
    bench.run_for(Ps::from_us(3));
    assert_eq!(bench.poll_status()[0].1 >> 40 & 1, 1, "stored with the CE error bit");
    bench.check();
}

#[test]
fn pba_sets_the_fifo_size_unless_it_is_overridden() {
    let capacity = |config: NicConfig, pba: u32, bytes: usize| {
        let mut bench = Bench::running(config, 64, 64);
        bench.write(PBA, pba);
        assert_eq!(bench.read(PBA), pba | (64 - pba) << 16);
        // Without descriptors the FIFO does not drain.
        bench.write(RDH, 0);
        bench.write(RDT, 0);
        for i in 0..5000 {
            bench.arrive(frame(bytes, i));
        }
        bench.check();
        assert_eq!(u64::from(bench.read(MPC)), 5000 - bench.nic.in_flight().rx);
        assert_eq!((bench.read(RNBC), bench.read(ICR) & 0x40), (5000, 0x40));
        bench.nic.in_flight().rx
    };
    let default = NicConfig::default();
    assert_eq!(capacity(default.clone(), 40, 64), 640);
    assert_eq!(capacity(default.clone(), 48, 64), 768);
    assert_eq!(capacity(default.clone(), 48, 65), 49152 / 80);
    assert_eq!(capacity(default, 48, 1518), 49152 / 1520);
    let own = NicConfig { rx_fifo: Some(Bytes(128 << 10)), ..NicConfig::default() };
    assert_eq!(capacity(own, 40, 64), 2048);
    let overhead = NicConfig { rx_fifo_frame_overhead: Bytes(16), ..NicConfig::default() };
    assert_eq!(capacity(overhead, 40, 64), 512);
}

#[test]
fn pba_always_divides_64_kib() {
    let mut bench = Bench::new(NicConfig::default());
    for (written, read) in [(0, 64 << 16), (64, 64), (65, 64), (0xffff_ffff, 64), (30, 34 << 16 | 30)] {
        bench.write(PBA, written);
        assert_eq!(bench.read(PBA), read);
    }
}

#[test]
fn a_full_fifo_without_descriptors_is_a_core_drop() {
    let mut bench = Bench::running(NicConfig::default(), 8, 8);
    for i in 0..800 {
        bench.arrive(frame(64, i));
        bench.run_for(Ps::from_ns(100));
    }
    let s = bench.nic.stats();
    assert_eq!((s.rx_drop_core, s.rx_drop_dma, s.rx_drop_tx), (800 - 768 - 7, 0, 0));
    bench.check();
}

#[test]
fn a_full_fifo_with_descriptors_is_a_dma_drop() {
    let mut bench = Bench::running(NicConfig::default(), 1024, 8);
    for i in 0..1000 {
        bench.arrive(frame(64, i));
    }
    let s = bench.nic.stats();
    assert_eq!(s.rx_drop_dma, 1000 - 768);
    assert_eq!(s.rx_drop_core + s.rx_drop_tx, 0);
    bench.check();
    bench.run_for(Ps::from_ms(1));
    bench.check();
    assert_eq!(bench.nic.in_flight().rx, 0);
}

#[test]
fn a_full_fifo_with_both_rings_full_is_a_tx_drop() {
    let mut bench = Bench::running(NicConfig::default(), 8, 8);
    // The transmitter is off, and its ring is full before the receive ring runs out of descriptors.
    bench.write(TCTL, 0);
    bench.write(TDT, 7);
    for i in 0..800 {
        bench.arrive(frame(64, i));
        bench.run_for(Ps::from_ns(100));
    }
    let s = bench.nic.stats();
    assert_eq!((s.rx_drop_tx, s.rx_drop_dma, s.rx_drop_core), (800 - 768 - 7, 0, 0));
    bench.check();
}

#[test]
fn frames_lost_by_a_reset_or_a_moved_ring_are_counted() {
    for reset in [true, false] {
        let mut bench = Bench::running(NicConfig::default(), 64, 64);
        for i in 0..100 {
            bench.arrive(frame(64, i));
        }
        bench.run_for(Ps::from_ns(250));
        if reset {
            bench.write(CTRL, 1 << 26);
        } else {
            bench.write(RDH, 0);
        }
        bench.check();
        let s = bench.nic.stats();
        assert!(s.rx_delivered > 0 && s.rx_drop_reset > 0, "{s:?}");
        assert_eq!(s.rx_delivered + s.rx_drop_reset + bench.nic.in_flight().rx, 100);
        bench.run_for(Ps::from_ms(1));
        bench.check();
    }
}

#[test]
fn without_bus_mastering_frames_wait_in_the_fifo() {
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    let now = bench.world.now();
    bench.nic.set_bus_master(now, false, &mut bench.world);
    let before = bench.world.dma.len();
    bench.arrive(frame(64, 1));
    bench.run_for(Ps::from_us(10));
    assert_eq!(bench.world.dma.len(), before);
    let now = bench.world.now();
    bench.nic.set_bus_master(now, true, &mut bench.world);
    bench.run_for(Ps::from_us(10));
    assert_eq!(bench.poll(), [frame(64, 1).bytes]);
    assert_eq!(bench.world.count_dma(RX_DATA), 1);
}

#[test]
fn statistics_registers_count_by_size_and_kind() {
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    bench.write(RCTL, 0x0400_8012);
    let sizes = [64, 65, 127, 128, 255, 256, 511, 512, 1023, 1024, 1518];
    for bytes in sizes {
        bench.arrive(frame(bytes, 0));
    }
    bench.arrive(to([0xff; 6]));
    bench.arrive(to([1, 0, 0, 0, 0, 1]));
    let by_size: Vec<u32> = (0..6).map(|i| bench.read(0x405c + 4 * i)).collect();
    assert_eq!(by_size, [3, 2, 2, 2, 2, 2]);
    let total = sizes.iter().sum::<usize>() as u32 + 128;
    assert_eq!((bench.read(GPRC), bench.read(0x4078), bench.read(0x407c)), (13, 1, 1));
    assert_eq!((bench.read(0x4088), bench.read(0x40c0)), (total, total));
    assert_eq!((bench.read(0x408c), bench.read(0x4088)), (0, 0), "the high half clears both");
}

#[test]
fn the_packet_checksum_is_in_the_first_descriptor() {
    for (rctl, start, size) in
        [(0x0400_8002u32, 14usize, 1500), (0x8002, 0, 64), (0x0403_8022, 14, 1500), (0x8002, 200, 64)]
    {
        let mut bench = Bench::running(NicConfig::default(), 64, 64);
        bench.write(RCTL, rctl);
        bench.write(RXCSUM, start as u32);
        bench.arrive(frame(size, 77));
        bench.run_for(Ps::from_us(5));
        let first = bench.world.word(RX_RING + 8);
        let stored = bench.poll().remove(0);
        let mut sum = 0u32;
        for pair in stored.get(start..).unwrap_or(&[]).chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        assert_eq!((first >> 16) as u16, !(sum as u16));
    }
}

#[test]
fn checksums_are_reported_in_the_descriptor() {
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    bench.write(RXCSUM, 0x300);
    let mut packet = frame(64, 0);
    packet.bytes[12..42].copy_from_slice(&[
        8, 0, 0x45, 0, 0, 30, 0, 0, 0x40, 0, 64, 17, 0x26, 0xcd, 10, 0, 0, 1, 10, 0, 0, 2, 0, 1, 0, 2, 0, 10,
        0x83, 0x6b,
    ]);
    packet.bytes[42..44].copy_from_slice(b"hi");
    bench.arrive(packet.clone());
    packet.bytes[42] = b'H';
    bench.arrive(packet);
    bench.arrive(frame(64, 1));
    bench.run_for(Ps::from_us(5));
    let status: Vec<u64> = bench.poll_status().iter().map(|(_, second)| second >> 32 & 0xffff).collect();
    assert_eq!(status, [0x0063, 0x2063, 0x0007]);
}
