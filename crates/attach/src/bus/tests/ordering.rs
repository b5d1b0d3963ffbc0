//! Ordering rules, and the bytes of each transaction.

use super::*;

#[test]
fn transactions_do_not_cross_the_burst_size_and_cover_every_byte_once() {
    for (burst, addr, len) in [(64, 0, 1518), (64, 60, 8), (16, 3, 61), (4096, 100, 9000), (64, 64, 64)] {
        let mut bus = Bus::new(&Chain { burst: Bytes(burst), ..chain(&[stage()]) });
        let mut memory = memory(1);
        bus.write(Ps::ZERO, PhysAddr(addr), len, DATA, &mut memory);
        let mut next = addr;
        for (_, at, bytes) in &memory.lines {
            assert_eq!(*at, next, "lines are requested in order");
            assert_eq!(at / 64, (at + u64::from(*bytes) - 1) / 64, "within a line");
            next += u64::from(*bytes);
        }
        assert_eq!(next, addr + u64::from(len));
        let last = addr + u64::from(len) - 1;
        assert_eq!(bus.stats().writes, last / burst - addr / burst + 1);
        assert_eq!(bus.stages().next().unwrap().up_bytes, u64::from(len));
        assert_eq!(bus.kind_stats(DmaPurpose::RxData, DmaDirection::Write).payload_bytes, u64::from(len));
    }
}

#[test]
fn a_zero_length_read_is_a_round_trip_and_a_zero_length_write_a_cycle() {
    let mut bus = bus(&[stage()]);
    let mut memory = memory(50);
    assert_eq!(bus.read(Ps::ZERO, PhysAddr(0), 0, DATA, &mut memory), ns(10 + 100 + 10 + 100));
    assert_eq!(bus.write(ns(1000), PhysAddr(0), 0, DATA, &mut memory), ns(1000 + 10 + 100));
    assert!(memory.lines.is_empty());
}

#[test]
fn reads_push_writes_only_if_configured() {
    for (reads_push_writes, done) in [(true, 680 + 50 + 80 + 100), (false, 190 + 50 + 80 + 100)] {
        let mut bus = Bus::new(&Chain { reads_push_writes, ..chain(&[stage()]) });
        let mut slow = Memory { read: ns(50), write: ns(500), lines: Vec::new() };
        assert_eq!(bus.write(Ps::ZERO, PhysAddr(0), 64, DATA, &mut slow), ns(680));
        assert_eq!(bus.read(Ps::ZERO, PhysAddr(64), 64, DATA, &mut slow), ns(done));
    }
}

#[test]
fn writes_and_reads_complete_in_order_for_any_memory_latency() {
    let mut bus = bus(&[stage(), stage()]);
    let (mut visible, mut done) = (Ps::ZERO, Ps::ZERO);
    for step in 0..200u64 {
        let mut memory = memory((step * 37) % 400);
        let now = ns(step * 13);
        let written = bus.write(now, PhysAddr(step * 64), 1 + (step as u32 * 7) % 200, DATA, &mut memory);
        let read = bus.read(now, PhysAddr(step * 64), 1 + (step as u32 * 11) % 200, DATA, &mut memory);
        assert!(written >= visible && read >= done && written > now && read > now);
        (visible, done) = (written, read);
    }
}

#[test]
fn a_request_does_not_overtake_one_that_waits_for_a_longer_gap() {
    // A register response is booked for later, which leaves a gap of three cycles before it.
    let mut bus = bus(&[stage()]);
    bus.register_answer(ns(10), 8);
    let mut memory = memory(0);
    let write = bus.write(Ps::ZERO, PhysAddr(0), 64, DATA, &mut memory);
    assert_eq!(write, ns(40 + 80 + 100), "after the response at 30 to 40");
    bus.read(Ps::ZERO, PhysAddr(64), 64, DATA, &mut memory);
    assert!(memory.lines[1].0 >= write, "the read's one cycle would fit into the gap");
}
