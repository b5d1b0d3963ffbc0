//! Tests of the DMA engine's parameters: times of requests, and durations against closed-form expectations.

use crate::common::*;
use doorbell_nic::NicConfig;
use doorbell_pcie::NetworkFunction as _;
use doorbell_pcie::network::NicStats;
use doorbell_sim::{BitsPerSec, Bytes, Ps};

/// One byte per nanosecond.
const SLOW: Option<BitsPerSec> = Some(BitsPerSec(8_000_000_000));

const fn ns(ns: u64) -> Ps {
    Ps::from_ns(ns)
}

/// A NIC with its descriptors on the chip. Memory has unlimited bandwidth, a write latency of 200 ns and a
/// read latency of 500 ns.
fn running(config: NicConfig) -> Bench {
    let mut bench = Bench::running(config, 64, 64);
    bench.world.bytes_per_ns = 1 << 40;
    bench.world.dma.clear();
    bench
}

/// Times since `start` and lengths of the requests of a kind.
fn requests(bench: &Bench, start: Ps, kind: Kind) -> Vec<(Ps, u32)> {
    let of_kind = bench.world.dma.iter().filter(|(_, k, _)| *k == kind);
    of_kind.map(|(at, _, len)| (*at - start, *len)).collect()
}

#[test]
fn a_transfer_starts_when_the_bytes_before_it_have_passed_the_engine() {
    // 1000 bytes and a descriptor of 16 bytes pass the engine in 1016 ns.
    for (arrives, begins) in [(0, 1016), (1, 1016), (1015, 1016), (1016, 1016), (1017, 1017)] {
        let mut bench = running(NicConfig { dma_rate: SLOW, ..NicConfig::default() });
        let start = bench.world.now();
        bench.arrive_at(start, frame(1004, 1));
        bench.arrive_at(start + ns(arrives), frame(104, 2));
        bench.run_for(Ps::from_us(5));
        let data = requests(&bench, start, RX_DATA);
        assert_eq!(data, [(Ps::ZERO, 1000), (ns(begins), 100)], "arrival at {arrives}");
        bench.check();
    }
}

#[test]
fn a_transfer_takes_the_longer_of_engine_time_and_path_latency() {
    // 150 bytes and a descriptor pass the engine in 166 ns and are in memory 200 ns after the descriptor's
    // request.
    for (bytes, visible) in [(150, 150 + 200), (1000, 1000 + 200)] {
        for (before, received) in [(Ps(1), 0), (Ps::ZERO, 1)] {
            let mut bench = running(NicConfig { dma_rate: SLOW, ..NicConfig::default() });
            bench.arrive(frame(bytes + 4, 1));
            bench.run_for(ns(visible) - before);
            assert_eq!(bench.poll().len(), received, "{bytes} bytes, {before} before");
        }
    }
    // A read of 1000 bytes takes the engine's 1000 ns, not the path's 500.
    let mut bench = running(NicConfig { dma_rate: SLOW, ..NicConfig::default() });
    let start = bench.world.now();
    bench.send_legacy(&frame(1004, 1).bytes, 0x0b);
    bench.run_for(Ps::from_us(5));
    // The descriptor fetch takes the first 500 ns.
    assert_eq!(bench.world.sent[0].0 - start, ns(500 + 1000));
}

#[test]
fn directions_share_the_rate_only_with_dma_shared() {
    for (dma_shared, fetched) in [(false, 0), (true, 1016)] {
        let mut bench = running(NicConfig { dma_rate: SLOW, dma_shared, ..NicConfig::default() });
        let start = bench.world.now();
        bench.arrive(frame(1004, 1));
        bench.send_legacy(&frame(104, 2).bytes, 0x0b);
        bench.run_for(Ps::from_us(5));
        assert_eq!(requests(&bench, start, TX_FETCH), [(ns(fetched), 16)]);
        bench.check();
    }
}

#[test]
fn each_frame_takes_its_transfer_time_plus_the_engine_time_per_frame() {
    const FRAMES: u64 = 32;
    for (bytes, frame_time, rate) in
        [(1000, 0, SLOW), (1000, 6, SLOW), (60, 6, Some(BitsPerSec(57_700_000_000))), (300, 100, None)]
    {
        let config = NicConfig {
            dma_rate: rate,
            rx_frame_time: ns(frame_time),
            tx_buffer_time: ns(frame_time),
            write_bytes_in_flight: Bytes(1 << 20),
            ..NicConfig::default()
        };
        let per_frame = rate.map_or(Ps::ZERO, |rate| rate.time_for_bits(8 * bytes)) + ns(frame_time);
        let times: Vec<_> = (0..FRAMES).map(|i| (Ps(per_frame.0 * i), bytes as u32)).collect();
        // Receive: the frames wait for descriptors, which arrive together. They are written back after the
        // last one.
        let mut bench = running(config.clone());
        bench.write(RXDCTL, 0x013f_0000);
        bench.write(RDT, 0);
        bench.write(RDH, 0);
        for i in 0..FRAMES {
            bench.arrive(frame(bytes as usize + 4, i as u32));
        }
        bench.world.dma.clear();
        bench.write(RDT, FRAMES as u32);
        let start = bench.world.now() + ns(500);
        bench.run_for(Ps::from_us(100));
        // With a rate limit the 512 bytes of descriptors may take longer than the memory's 500 ns.
        let first = bench.world.dma.iter().find(|(_, kind, _)| *kind == RX_DATA).unwrap().0;
        let fetch = rate.map_or(Ps::ZERO, |rate| rate.time_for_bits(8 * 16 * FRAMES));
        assert_eq!(first, start.max(start - ns(500) + fetch));
        assert_eq!(requests(&bench, first, RX_DATA), times, "{bytes} bytes received");
        let back = if rate.is_some() {
            Ps(per_frame.0 * FRAMES) - ns(frame_time)
        } else {
            Ps(per_frame.0 * (FRAMES - 1))
        };
        assert_eq!(requests(&bench, first, RX_WRITE_BACK), [(back, 16 * FRAMES as u32)]);
        bench.check();
        // Transmit. Write-backs go in the other direction and do not matter.
        let mut bench = running(NicConfig { tx_fifo: Some(Bytes(1 << 20)), ..config });
        for i in 0..FRAMES {
            bench.put_tx(TX_BUFFERS + 2048 * i, bytes | 0x0b << 24);
        }
        bench.ring_tx();
        bench.run_for(Ps::from_us(100));
        let first = bench.world.dma.iter().find(|(_, kind, _)| *kind == TX_DATA).unwrap().0;
        assert_eq!(requests(&bench, first, TX_DATA), times, "{bytes} bytes sent");
        bench.check();
    }
}

#[test]
fn used_descriptors_wait_for_more_until_write_back_wait_expires() {
    let config = NicConfig { write_back_wait: ns(100), ..NicConfig::default() };
    let batch_of_two = NicConfig { write_back_batch: 2, ..config.clone() };
    for (config, second, expected) in [
        (&config, 99, vec![(ns(100), 32)]),
        (&config, 101, vec![(ns(100), 16), (ns(201), 16)]),
        (&batch_of_two, 50, vec![(ns(50), 32)]),
        (&batch_of_two, 150, vec![(ns(100), 16), (ns(250), 16)]),
    ] {
        let mut bench = running(config.clone());
        let start = bench.world.now();
        bench.arrive_at(start, frame(104, 1));
        bench.arrive_at(start + ns(second), frame(104, 2));
        bench.run_for(Ps::from_us(3));
        assert_eq!(requests(&bench, start, RX_WRITE_BACK), expected, "second at {second}");
        assert_eq!(bench.poll().len(), 2);
        // The same for two sent frames; the engine reads the second one `second` ns later.
        let mut bench = running(NicConfig { tx_buffer_time: ns(second), ..config.clone() });
        bench.put_tx(TX_BUFFERS, 100 | 0x0b << 24);
        bench.put_tx(TX_BUFFERS, 100 | 0x0b << 24);
        bench.ring_tx();
        let start = bench.world.now() + ns(1000);
        bench.run_for(Ps::from_us(5));
        assert_eq!(requests(&bench, start, TX_WRITE_BACK), expected, "second at {second}");
        bench.check();
    }
}

#[test]
fn complete_lines_are_written_back_at_once_and_partial_lines_after_the_wait() {
    let config = NicConfig { write_back_lines: true, write_back_wait: ns(100), ..NicConfig::default() };
    let mut bench = running(config);
    let start = bench.world.now();
    for (number, at) in [0, 20, 40, 60, 70, 200, 210, 220].into_iter().enumerate() {
        bench.arrive_at(start + ns(at), frame(104, number as u32));
    }
    bench.run_for(Ps::from_us(3));
    // Four; one that has waited since 70 ns; the other three of its line.
    let expected = [(ns(60), 64), (ns(170), 16), (ns(220), 48)];
    assert_eq!(requests(&bench, start, RX_WRITE_BACK), expected);
    assert_eq!(bench.poll().len(), 8);
    bench.check();
}

#[test]
fn descriptors_added_during_a_fetch_are_fetched_at_once_if_more_fetches_are_allowed() {
    for (fetches, expected) in [
        (1, vec![(Ps::ZERO, 16), (ns(500), 32)]),
        (2, vec![(Ps::ZERO, 16), (ns(100), 16), (ns(500), 16)]),
        (4, vec![(Ps::ZERO, 16), (ns(100), 16), (ns(200), 16)]),
    ] {
        let mut bench = running(NicConfig { descriptor_fetches_in_flight: fetches, ..NicConfig::default() });
        let start = bench.world.now();
        for number in 0..3 {
            bench.send_legacy(&frame(104, number).bytes, 0x0b);
            bench.run_for(ns(100));
        }
        bench.run_for(Ps::from_us(5));
        assert_eq!(requests(&bench, start, TX_FETCH), expected, "{fetches} in flight");
        assert_eq!(bench.world.sent.len(), 3);
        bench.check();
    }
}

#[test]
fn the_last_write_of_a_frame_is_padded_to_its_line_if_the_buffer_has_room() {
    for (full_line_writes, lengths, cut) in
        [(false, [100, 60, 256, 44], 100), (true, [128, 64, 256, 64], 126)]
    {
        let mut bench = running(NicConfig { full_line_writes, ..NicConfig::default() });
        // Buffers of 256 bytes.
        bench.write(RCTL, 0x0403_8022);
        bench.world.memory[RX_BUFFERS as usize + 100] = 0x5a;
        for (number, bytes) in [104, 64, 304].into_iter().enumerate() {
            bench.arrive(frame(bytes, number as u32));
        }
        bench.run_for(Ps::from_us(3));
        let bytes = bench.world.pieces(RX_DATA).iter().map(|piece| piece.1).collect::<Vec<_>>();
        assert_eq!(bytes, lengths);
        assert_eq!(bench.world.memory[RX_BUFFERS as usize + 100], 0x5a, "padding does not change memory");
        assert_eq!(bench.poll().iter().map(|frame| frame.len()).collect::<Vec<_>>(), [100, 60, 300]);
        bench.check();
        // The buffer starts and ends two bytes into a line, so the write of a frame that fills it is not
        // padded.
        let mut bench = running(NicConfig { full_line_writes, ..NicConfig::default() });
        bench.set_up_rx_at(64, 2);
        bench.write(RCTL, 0x0403_8022);
        bench.arrive(frame(104, 1));
        bench.arrive(frame(260, 2));
        bench.run_for(Ps::from_us(3));
        let bytes = bench.world.pieces(RX_DATA).iter().map(|piece| piece.1).collect::<Vec<_>>();
        assert_eq!(bytes, [cut, 256]);
    }
}

#[test]
fn write_back_batch_limits_the_size_of_write_backs() {
    let mut bench = running(NicConfig { write_back_batch: 3, rx_frame_time: ns(1), ..NicConfig::default() });
    bench.write(RXDCTL, 0x0108_0000);
    for i in 0..8 {
        bench.arrive(frame(104, i));
    }
    bench.run_for(Ps::from_us(5));
    let sizes: Vec<_> = bench.world.pieces(RX_WRITE_BACK).iter().map(|piece| piece.1).collect();
    assert!(sizes.iter().all(|bytes| *bytes <= 48) && sizes.contains(&48), "{sizes:?}");
    assert_eq!((sizes.iter().sum::<u32>(), bench.poll().len()), (128, 8));
}

/// Statistics for frames of 64 bytes at intervals of 10 ns, with a polling driver that does not set PTHRESH.
fn without_prefetch_threshold(config: NicConfig) -> NicStats {
    let mut bench = Bench::running(config, 1024, 64);
    bench.world.bytes_per_ns = 64;
    let start = bench.world.now();
    for i in 0..8000 {
        bench.arrive_at(start + ns(10 * u64::from(i)), frame(64, i));
    }
    for _ in 0..600 {
        bench.run_for(ns(160));
        bench.poll();
    }
    bench.check();
    bench.nic.stats().clone()
}

#[test]
fn prefetched_descriptors_keep_the_engine_from_stalling() {
    // 50 frames arrive during a round trip of 500 ns for descriptors, and the FIFO holds 32. A fetch stops at
    // the end of the ring, so two fetches follow each other there; half of the cache covers this time.
    let lazy = NicConfig {
        rx_fifo: Some(Bytes(2048)),
        rx_descriptor_cache: 256,
        descriptor_fetch_max: 256,
        ..NicConfig::default()
    };
    let ahead = NicConfig { descriptor_prefetch: Some(128), ..lazy.clone() };
    let (lazy, ahead) = (without_prefetch_threshold(lazy), without_prefetch_threshold(ahead));
    assert!(lazy.rx_drop_dma > 500, "{lazy:?}");
    assert_eq!((ahead.rx_delivered, ahead.rx_drop_dma), (8000, 0));
    assert!(
        ahead.rx_fetches <= 8000 / 32,
        "descriptors must not be fetched one by one: {}",
        ahead.rx_fetches
    );
}

#[test]
fn every_data_request_has_its_offset_in_the_frame() {
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    // Buffers of 256 bytes.
    bench.write(RCTL, 0x0403_8022);
    bench.arrive(frame(604, 1));
    bench.arrive(frame(304, 2));
    bench.run_for(Ps::from_us(5));
    let expected = [(0, 256), (256, 256), (512, 88), (0, 256), (256, 44)];
    assert_eq!(bench.world.pieces(RX_DATA), expected);
    assert!(bench.world.pieces(RX_WRITE_BACK).iter().all(|(offset, _)| *offset == 0));
    // A packet of two legacy descriptors and one of one: EOP is set in the second and third descriptor.
    for (len, command) in [(100, 0x02), (200, 0x0b), (80, 0x0b)] {
        bench.put_tx(TX_BUFFERS, len | command << 24);
    }
    bench.ring_tx();
    bench.run_for(Ps::from_us(5));
    assert_eq!(bench.world.pieces(TX_DATA), [(0, 100), (100, 200), (0, 80)]);
    assert!(bench.world.pieces(TX_FETCH).iter().all(|(offset, _)| *offset == 0));
    bench.check();
}
