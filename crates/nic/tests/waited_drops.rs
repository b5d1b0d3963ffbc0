//! What dropped frames waited for, beside closed forms: one slow part at a time, and two.

mod common;

use common::{Bench, RDT, TCTL, TDT};
use doorbell_nic::NicConfig;
use doorbell_pcie::NetworkFunction as _;
use doorbell_pcie::network::WaitedDrops;
use doorbell_sim::{Bytes, Frame, Ps};

const RING: u32 = 64;

fn frame(number: u32) -> Frame {
    let mut bytes = vec![0; 60];
    bytes[..6].copy_from_slice(&[0x52, 0x54, 0, 0x12, 0x34, 0x56]);
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    Frame { bytes, fcs_bad: false }
}

/// A FIFO of 32 frames of 64 bytes, and an engine that takes this long for each.
fn config(frame_time: Ps) -> NicConfig {
    NicConfig {
        rx_fifo: Some(Bytes(2048)),
        rx_frame_time: frame_time,
        descriptor_prefetch: Some(32),
        ..NicConfig::default()
    }
}

/// What is dropped in `micros` of a frame each 20 ns, while software gives so many descriptors back each so many nanoseconds.
fn dropped(mut bench: Bench, micros: u64, (give, each): (u32, u64)) -> (WaitedDrops, u64) {
    bench.world.bytes_per_ns = 64;
    let start = bench.world.now();
    for number in 0..micros * 50 {
        bench.arrive_at(start + Ps::from_ns(20 * number), frame(number as u32));
    }
    let mut tail = RING - 1;
    for step in 1..=micros * 1000 / each {
        bench.run_until(start + Ps::from_ns(each * step));
        let done = bench.nic.stats().rx_delivered as u32 + RING - 1;
        tail = (tail + give).min(done);
        bench.write(RDT, tail % RING);
    }
    bench.check();
    let s = bench.nic.stats();
    (bench.nic.waited_drops(), s.rx_drop_dma + s.rx_drop_core + s.rx_drop_tx)
}

fn all(drops: WaitedDrops) -> u64 {
    drops.core + drops.tx + drops.fetch + drops.data
}

#[test]
fn with_slow_software_only_all_drops_waited_for_it_however_it_gives_back() {
    // Ten a microsecond, in one piece or several: the engine could do a hundred. The paper's rule sees what is there when frames come.
    for (give, each) in [(1, 100), (8, 800), (32, 3200)] {
        let bench = Bench::running(config(Ps::from_ns(10)), RING.into(), 8);
        let (waited, drops) = dropped(bench, 400, (give, each));
        assert_eq!(all(waited), drops);
        assert!(drops.abs_diff(400 * 40) < 400 + 200, "{drops}");
        assert!(waited.core * 100 >= drops * 98, "{give} each {each} ns: {waited:?}");
    }
}

#[test]
fn with_a_slow_engine_only_all_drops_waited_for_the_data_path() {
    let bench = Bench::running(config(Ps::from_ns(50)), RING.into(), 8);
    let (waited, drops) = dropped(bench, 400, (RING, 100));
    assert_eq!(all(waited), drops);
    assert!(drops.abs_diff(400 * 30) < 400, "{drops}");
    assert!(waited.data * 100 >= drops * 98, "{waited:?}");
}

#[test]
fn with_slow_fetches_only_all_drops_waited_for_them() {
    // Eight descriptors in 500 ns, or fewer where the ring begins anew.
    let few = NicConfig {
        rx_descriptor_cache: 8,
        descriptor_fetch_max: 8,
        descriptor_prefetch: None,
        ..config(Ps::from_ns(10))
    };
    let (waited, drops) = dropped(Bench::running(few, RING.into(), 8), 400, (RING, 100));
    assert_eq!(all(waited), drops);
    assert!(drops > 400 * 30, "{drops}");
    assert!(waited.fetch * 100 >= drops * 98, "{waited:?}");
}

#[test]
fn with_a_wire_that_takes_nothing_all_drops_waited_for_the_transmit_ring() {
    let mut bench = Bench::running(config(Ps::from_ns(10)), RING.into(), 8);
    bench.write(TCTL, 0);
    bench.write(TDT, 7);
    let (waited, drops) = dropped(bench, 100, (0, 100));
    assert_eq!(all(waited), drops);
    assert_eq!(waited, WaitedDrops { tx: drops, ..WaitedDrops::default() });
}

#[test]
fn of_two_that_are_too_slow_each_has_the_drops_that_it_alone_could_have_saved() {
    // A frame each 20 ns, 50 for the engine, 100 for software: 40 a microsecond are lost, 10 of which faster software would have saved.
    for (give, each) in [(1, 100), (8, 800)] {
        let mut bench = Bench::running(config(Ps::from_ns(50)), RING.into(), 8);
        // So that neither waits for a fetch.
        bench.world.read_latency = Ps::ZERO;
        let (waited, drops) = dropped(bench, 1000, (give, each));
        assert_eq!(all(waited), drops);
        assert!(
            waited.core.abs_diff(10_000) < 500 && waited.data.abs_diff(30_000) < 500,
            "{waited:?} of {drops}"
        );
    }
}
