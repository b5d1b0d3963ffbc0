//! Causes of drops by waiting time, against closed-form expectations: one slow stage at a time, and two.

use crate::common::{Bench, RDT, TCTL, TDT};
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

/// A FIFO for 32 frames of 64 bytes, and an engine that takes `frame_time` per frame.
fn config(frame_time: Ps) -> NicConfig {
    NicConfig {
        rx_fifo: Some(Bytes(2048)),
        rx_frame_time: frame_time,
        descriptor_prefetch: Some(32),
        ..NicConfig::default()
    }
}

/// Drops during `micros` microseconds with a frame per 20 ns. Software returns `batch` descriptors every
/// `period` nanoseconds.
fn dropped(mut bench: Bench, micros: u64, (batch, period): (u32, u64)) -> (WaitedDrops, u64) {
    bench.world.bytes_per_ns = 64;
    let start = bench.world.now();
    for number in 0..micros * 50 {
        bench.arrive_at(start + Ps::from_ns(20 * number), frame(number as u32));
    }
    let mut tail = RING - 1;
    for step in 1..=micros * 1000 / period {
        bench.run_until(start + Ps::from_ns(period * step));
        let done = bench.nic.stats().rx_delivered as u32 + RING - 1;
        tail = (tail + batch).min(done);
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
fn slow_software_causes_core_drops_for_any_batch_size() {
    // Software returns ten descriptors per microsecond, in batches of different size; the engine could
    // process a hundred frames. The paper's rule depends on the state at arrivals, and so on the batch size.
    for (batch, period) in [(1, 100), (8, 800), (32, 3200)] {
        let bench = Bench::running(config(Ps::from_ns(10)), RING.into(), 8);
        let (waited, drops) = dropped(bench, 400, (batch, period));
        assert_eq!(all(waited), drops);
        assert!(drops.abs_diff(400 * 40) < 400 + 200, "{drops}");
        assert!(waited.core * 100 >= drops * 98, "{batch} per {period} ns: {waited:?}");
    }
}

#[test]
fn a_slow_engine_causes_data_drops() {
    let bench = Bench::running(config(Ps::from_ns(50)), RING.into(), 8);
    let (waited, drops) = dropped(bench, 400, (RING, 100));
    assert_eq!(all(waited), drops);
    assert!(drops.abs_diff(400 * 30) < 400, "{drops}");
    assert!(waited.data * 100 >= drops * 98, "{waited:?}");
}

#[test]
fn slow_fetches_cause_fetch_drops() {
    // Eight descriptors per 500 ns, or fewer where the ring wraps.
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
fn a_full_transmit_ring_causes_tx_drops() {
    let mut bench = Bench::running(config(Ps::from_ns(10)), RING.into(), 8);
    bench.write(TCTL, 0);
    bench.write(TDT, 7);
    let (waited, drops) = dropped(bench, 100, (0, 100));
    assert_eq!(all(waited), drops);
    assert_eq!(waited, WaitedDrops { tx: drops, ..WaitedDrops::default() });
}

#[test]
fn two_slow_stages_share_the_drops_by_what_each_could_have_avoided() {
    // A frame per 20 ns; the engine takes 50 ns per frame and software 100 ns. 40 frames per microsecond are
    // lost; faster software would have saved 10 of them.
    for (batch, period) in [(1, 100), (8, 800)] {
        let mut bench = Bench::running(config(Ps::from_ns(50)), RING.into(), 8);
        // Without read latency no frame waits for a fetch.
        bench.world.read_latency = Ps::ZERO;
        let (waited, drops) = dropped(bench, 1000, (batch, period));
        assert_eq!(all(waited), drops);
        assert!(
            waited.core.abs_diff(10_000) < 500 && waited.data.abs_diff(30_000) < 500,
            "{waited:?} of {drops}"
        );
    }
}
