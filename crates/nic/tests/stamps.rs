//! Tests of the stamps of observed frames, and that observing changes nothing.

use crate::common::*;
use doorbell_nic::NicConfig;
use doorbell_pcie::{NetworkFunction as _, PciFunction as _};
use doorbell_sim::{BitsPerSec, Ps, RxStamps, TxStamps};
use proptest::prelude::*;

fn recording_bench(config: NicConfig) -> Bench {
    let mut bench = Bench::running(config, 64, 64);
    bench.world.bytes_per_ns = 1 << 40;
    bench.world.records_stamps = true;
    bench
}

#[test]
fn stamps_of_a_single_frame_are_the_times_of_its_transfers() {
    // The engine transfers one byte per nanosecond. Write latency is 200 ns, read latency 500 ns.
    let config = NicConfig { dma_rate: Some(BitsPerSec(8_000_000_000)), ..NicConfig::default() };
    let mut bench = recording_bench(config);
    let start = bench.world.now();
    let at = |ns| start + Ps::from_ns(ns);
    bench.arrive(frame(104, 7));
    bench.run_for(Ps::from_us(2));
    let in_memory = at(200);
    let expected = RxStamps { arrived: at(0), dma_started: at(0), in_memory, visible: at(300), queue: 0 };
    assert_eq!(bench.world.received_stamps, [(7, expected)]);

    let start = bench.world.now();
    let at = |ns| start + Ps::from_ns(ns);
    bench.send_legacy(&frame(1004, 8).bytes, 0x0b);
    bench.send_legacy(&frame(104, 9).bytes, 0x0b);
    bench.run_for(Ps::from_us(5));
    let wire = bench.world.rate.time_for_bits(1024 * 8);
    // The second doorbell comes during the first fetch, so its descriptor is fetched next, behind the
    // 1000 bytes in the engine.
    let first = TxStamps {
        doorbell: at(0),
        fetched: at(500),
        dma_started: at(500),
        read: at(1500),
        first_bit: at(1500),
        ..TxStamps::default()
    };
    let second = TxStamps {
        doorbell: at(0),
        fetched: at(2000),
        dma_started: at(2000),
        read: at(2500),
        first_bit: at(2500),
        ..TxStamps::default()
    };
    assert!(at(1500) + wire <= at(2500), "the wire is free for the second frame");
    assert_eq!(bench.world.sent_stamps, [(8, first), (9, second)]);
}

#[test]
fn stamps_include_waiting_for_the_engine_and_the_wire() {
    let config = NicConfig { rx_frame_time: Ps::from_ns(70), ..NicConfig::default() };
    let mut bench = recording_bench(config);
    let start = bench.world.now();
    bench.arrive(frame(104, 1));
    bench.arrive(frame(104, 2));
    bench.run_for(Ps::from_us(2));
    let dma_starts: Vec<_> =
        bench.world.received_stamps.iter().map(|(_, stamps)| stamps.dma_started - start).collect();
    assert_eq!(dma_starts, [Ps::ZERO, Ps::from_ns(70)]);
    // Two frames whose bytes arrive at the same time leave one after the other.
    bench.put_tx(TX_BUFFERS, 1000 | 0x0b << 24);
    bench.put_tx(TX_BUFFERS, 1000 | 0x0b << 24);
    bench.ring_tx();
    bench.run_for(Ps::from_us(5));
    let [(_, first), (_, second)] = bench.world.sent_stamps[..] else { panic!("two frames were sent") };
    assert_eq!(first.read, second.read);
    assert_eq!(second.first_bit - first.first_bit, bench.world.rate.time_for_bits(1024 * 8));
    assert_eq!([first.first_bit, second.first_bit], [0, 1].map(|i: usize| bench.world.sent[i].0));
}

#[test]
fn a_frame_in_several_buffers_has_the_stamps_of_its_last_descriptor() {
    let mut bench = recording_bench(NicConfig::default());
    let bytes = frame(404, 5).bytes;
    bench.world.memory[TX_BUFFERS as usize..][..400].copy_from_slice(&bytes);
    let start = bench.world.now();
    bench.put_tx(TX_BUFFERS, 300 | 0x02 << 24);
    bench.ring_tx();
    bench.run_for(Ps::from_us(2));
    bench.put_tx(TX_BUFFERS + 300, 100 | 0x0b << 24);
    bench.ring_tx();
    bench.run_for(Ps::from_us(3));
    let [(5, stamps)] = bench.world.sent_stamps[..] else { panic!("one frame was sent") };
    assert_eq!((stamps.doorbell - start, stamps.read - start), (Ps::from_us(2), Ps::from_us(3)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn every_frame_is_stamped_in_order_and_observing_changes_nothing(
        gbps in prop::option::of(1u64..100),
        wait in prop_oneof![Just(0u64), 1u64..1000],
        frame_time in 0u64..100,
        (fetches, lines) in (1u16..6, any::<bool>()),
        steps in prop::collection::vec((0u32..3, 60usize..1500, 0u64..1500), 1..120),
    ) {
        let config = NicConfig {
            dma_rate: gbps.map(|gbps| BitsPerSec(gbps * 1_000_000_000)),
            write_back_wait: Ps::from_ns(wait),
            write_back_lines: lines,
            descriptor_fetches_in_flight: fetches,
            rx_frame_time: Ps::from_ns(frame_time),
            tx_buffer_time: Ps::from_ns(frame_time),
            ..NicConfig::default()
        };
        let run = |records_stamps| {
            let mut bench = Bench::running(config.clone(), 64, 64);
            bench.world.records_stamps = records_stamps;
            for (number, (kind, bytes, ns)) in (0u32..).zip(&steps) {
                match kind {
                    0 => bench.arrive(frame(*bytes + 4, number)),
                    1 if (bench.tx_next + 1) % 64 != u64::from(bench.read(TDH)) => {
                        bench.send_legacy(&frame(*bytes + 4, number).bytes, 0x0b);
                    }
                    _ => bench.run_for(Ps::from_ns(*ns)),
                }
                bench.poll();
            }
            bench.run_for(Ps::from_us(200));
            bench
        };
        let (plain, observed) = (run(false), run(true));
        prop_assert!(plain.world.dma == observed.world.dma && plain.world.sent == observed.world.sent);
        let state = |bench: &Bench| postcard::to_stdvec(&bench.nic.save()).unwrap();
        prop_assert_eq!(state(&plain), state(&observed));
        prop_assert!(plain.world.received_stamps.is_empty() && plain.world.sent_stamps.is_empty());
        let (received, sent) = (&observed.world.received_stamps, &observed.world.sent_stamps);
        prop_assert_eq!(received.len() as u64, observed.nic.stats().rx_delivered);
        prop_assert_eq!(sent.len(), observed.world.sent.len());
        for (_, s) in received {
            prop_assert!([s.arrived, s.dma_started, s.in_memory, s.visible].is_sorted(), "{:?}", s);
        }
        for ((_, s), (left, _)) in sent.iter().zip(&observed.world.sent) {
            let times = [s.doorbell, s.fetched, s.dma_started, s.read, s.first_bit];
            prop_assert!(times.is_sorted() && s.doorbell > Ps::ZERO && s.first_bit == *left, "{:?}", s);
        }
    }
}
