//! Interrupt moderation, exact to the picosecond.

use crate::common::*;
use doorbell_nic::NicConfig;
use doorbell_sim::Ps;

const TXDW: u32 = 0x01;
const TXQE: u32 = 0x02;
const RXDMT0: u32 = 0x10;
const RXT0: u32 = 0x80;
const TXD_LOW: u32 = 0x8000;
const SRPD: u32 = 0x1_0000;
const UNIT: u64 = 1_024_000;

/// Time from a frame's arrival until its descriptor is visible, with the latencies of the tests.
const VISIBLE: Ps = Ps(209_000);

fn bench(causes: u32) -> Bench {
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    bench.write(IMS, causes);
    bench
}

fn rises(bench: &Bench, since: Ps) -> Vec<u64> {
    bench.world.irq_rises.iter().filter(|at| **at >= since).map(|at| (*at - since).0).collect()
}

#[test]
fn without_moderation_the_descriptor_interrupts_immediately() {
    let mut bench = bench(RXT0);
    let start = bench.world.now();
    bench.arrive(frame(64, 0));
    bench.run_for(Ps::from_us(5));
    assert_eq!(rises(&bench, start), [VISIBLE.0]);
    assert_eq!(bench.read(ICR) & RXT0, RXT0);
    assert!(!bench.world.irq);
}

#[test]
fn each_frame_restarts_the_delay_timer() {
    let mut bench = bench(RXT0);
    bench.write(RDTR, 10);
    let start = bench.world.now();
    for i in 0..3u64 {
        bench.arrive_at(start + Ps(i * 5 * UNIT), frame(64, i as u32));
    }
    bench.run_for(Ps::from_us(100));
    assert_eq!(rises(&bench, start), [VISIBLE.0 + 20 * UNIT]);
}

#[test]
fn the_absolute_timer_bounds_the_delay() {
    let mut bench = bench(RXT0);
    bench.write(RDTR, 10);
    bench.write(RADV, 12);
    let start = bench.world.now();
    for i in 0..3u64 {
        bench.arrive_at(start + Ps(i * 5 * UNIT), frame(64, i as u32));
    }
    bench.run_until(start + VISIBLE + Ps(12 * UNIT) - Ps(1));
    assert!(!bench.world.irq);
    bench.run_until(start + VISIBLE + Ps(12 * UNIT));
    assert!(bench.world.irq);
    bench.read(ICR);
    bench.run_for(Ps::from_us(100));
    assert_eq!(rises(&bench, start), [VISIBLE.0 + 12 * UNIT], "the delay timer is cancelled too");
}

#[test]
fn small_frames_interrupt_immediately_and_a_flush_ends_the_delay() {
    let mut bench = bench(RXT0 | SRPD);
    bench.write(RDTR, 100);
    bench.write(RSRPD, 128);
    let start = bench.world.now();
    bench.arrive(frame(129, 0));
    bench.run_for(Ps::from_us(1));
    assert!(!bench.world.irq);
    bench.arrive(frame(128, 0));
    bench.run_for(Ps::from_us(1));
    assert_eq!(bench.read(ICR) & (RXT0 | SRPD), SRPD);
    bench.write(RDTR, 0x8000_0064);
    assert_eq!(bench.read(ICR) & (RXT0 | SRPD), RXT0);
    bench.run_for(Ps::from_ms(1));
    assert_eq!(rises(&bench, start).len(), 2);
}

#[test]
fn the_throttle_does_not_delay_the_first_interrupt_and_spaces_the_next() {
    let mut bench = bench(RXT0);
    bench.write(ITR, 400);
    let start = bench.world.now();
    for i in 0..300u64 {
        bench.arrive_at(start + Ps::from_us(i), frame(64, i as u32));
    }
    // A handler that reads ICR as soon as the line rises.
    let end = start + Ps::from_us(301);
    while bench.world.queue.next_time() <= end {
        bench.step();
        if bench.world.irq {
            bench.read(ICR);
            bench.poll();
        }
    }
    let spacing = 400 * 256_000;
    assert_eq!(rises(&bench, start), [VISIBLE.0, VISIBLE.0 + spacing, VISIBLE.0 + 2 * spacing]);
}

#[test]
fn the_fixed_delay_starts_with_the_first_cause() {
    let config = NicConfig { interrupt_delay: Ps::from_us(10), ..NicConfig::default() };
    let mut bench = Bench::running(config, 64, 64);
    bench.write(IMS, RXT0);
    let start = bench.world.now();
    (0..4).for_each(|i| bench.arrive_at(start + Ps::from_us(4 * i), frame(64, i as u32)));
    bench.run_until(start + Ps::from_us(11));
    assert_eq!(
        rises(&bench, start),
        [VISIBLE.0 + 10_000_000],
        "the second and third frame do not extend the delay"
    );
    bench.read(ICR);
    bench.poll();
    bench.run_for(Ps::from_us(20));
    assert_eq!(
        rises(&bench, start)[1..],
        [12_000_000 + VISIBLE.0 + 10_000_000],
        "the fourth frame starts a new delay"
    );
    bench.read(ICR);
    bench.poll();
    // A cause that software clears during the delay does not interrupt.
    let again = bench.world.now();
    bench.arrive_at(again, frame(64, 5));
    bench.run_for(Ps::from_us(5));
    bench.read(ICR);
    bench.arrive_at(again + Ps::from_us(8), frame(64, 6));
    bench.run_for(Ps::from_us(20));
    assert_eq!(rises(&bench, again), [8_000_000 + VISIBLE.0 + 10_000_000]);
}

#[test]
fn the_descriptor_threshold_interrupts_once_when_half_the_ring_is_used() {
    let mut bench = bench(RXDMT0);
    for i in 0..30 {
        bench.arrive(frame(64, i));
    }
    bench.run_for(Ps::from_us(10));
    assert_eq!(bench.read(ICR) & RXDMT0, 0, "33 descriptors are left");
    bench.arrive(frame(64, 30));
    bench.run_for(Ps::from_us(10));
    assert_eq!(bench.read(ICR) & RXDMT0, RXDMT0, "32 descriptors are left");
    bench.arrive(frame(64, 31));
    bench.run_for(Ps::from_us(10));
    assert_eq!(bench.read(ICR) & RXDMT0, 0);
}

#[test]
fn transmit_interrupts_are_only_delayed_with_ide() {
    let mut bench = bench(TXDW);
    bench.write(TIDV, 20);
    bench.send_legacy(&frame(64, 0).bytes, 0x0b);
    bench.run_for(Ps::from_us(3));
    assert_eq!(bench.read(ICR) & TXDW, TXDW);

    let start = bench.world.now();
    bench.send_legacy(&frame(64, 0).bytes, 0x8b);
    // Descriptor 502 ns, data 507 ns, write-back 202 ns.
    let written = Ps::from_ns(502 + 507 + 202);
    bench.run_until(start + written + Ps(20 * UNIT) - Ps(1));
    assert_eq!((bench.world.word(TX_RING + 24) >> 32, bench.world.irq), (1, false));
    bench.run_until(start + written + Ps(20 * UNIT));
    assert!(bench.world.irq);
}

#[test]
fn the_absolute_transmit_timer_bounds_the_delay() {
    let mut bench = bench(TXDW);
    bench.write(TIDV, 20);
    bench.write(TADV, 30);
    let start = bench.world.now();
    for _ in 0..10 {
        bench.send_legacy(&frame(64, 0).bytes, 0x8b);
        bench.run_for(Ps(10 * UNIT));
        if bench.world.irq {
            break;
        }
    }
    assert_eq!(rises(&bench, start), [(502 + 507 + 202) * 1000 + 30 * UNIT]);
}

#[test]
fn a_draining_transmit_ring_raises_txd_low_and_txqe() {
    let mut bench = bench(0);
    bench.write(TXDCTL, 0x0300_0000);
    for i in 0..12 {
        let buffer = TX_BUFFERS + 2048 * i;
        bench.put_tx(buffer, 64 | 0x0b << 24);
    }
    bench.ring_tx();
    let mut seen = Vec::new();
    while bench.step() {
        let (left, causes) = (12 - bench.read(TDH), bench.read(ICR));
        if causes & (TXD_LOW | TXQE) != 0 {
            seen.push((left, causes & (TXD_LOW | TXQE)));
        }
    }
    assert_eq!(seen.first().map(|s| s.1 & TXD_LOW), Some(TXD_LOW));
    assert!(seen[0].0 <= 8 && seen.iter().filter(|s| s.1 & TXD_LOW != 0).count() == 1, "{seen:?}");
    assert_eq!(seen.last().map(|s| (s.0, s.1 & TXQE)), Some((0, TXQE)));
}
