//! Bandwidth and latency.

use doorbell_sim::Clock;

use super::*;

#[test]
fn a_bus_carries_its_width_per_cycle() {
    let mut bus = bus(&[stage()]);
    assert_eq!(many(&mut bus, &mut memory(0), 1000, true), ns(1000 * 80 + 100));
    let stats = bus.stages().next().unwrap();
    assert_eq!((stats.up_bytes, stats.up_busy_ps), (64_000, ns(80_000).0));
    // Address cycles reduce it.
    let mut slower = super::bus(&[StageConfig { address_cycles: 2, ..stage() }]);
    assert_eq!(many(&mut slower, &mut memory(0), 1000, true), ns(1000 * 100 + 100));
}

#[test]
fn a_transfer_begins_at_an_edge_of_the_clock_and_takes_whole_cycles() {
    for (now, begins) in [(Ps(1), 10), (ns(10), 10), (ns(10) + Ps(1), 20)] {
        let mut bus = bus(&[stage()]);
        let visible = bus.write(now, PhysAddr(0), 9, DATA, &mut memory(0));
        assert_eq!(visible, ns(begins + 20 + 100), "9 bytes are two cycles");
    }
}

#[test]
fn reads_without_split_transactions_hold_the_bus_for_the_round_trip() {
    let held = StageConfig { split: false, ..stage() };
    // A request cycle, latency, memory, latency, eight cycles of data; the next one starts after that.
    let trip = 10 + 100 + 50 + 80;
    for count in [1, 2, 7] {
        let mut bus = bus(std::slice::from_ref(&held));
        let done = many(&mut bus, &mut memory(50), count, false);
        assert_eq!(done, ns(count * trip + 100), "{count} reads");
        assert_eq!(bus.stages().next().unwrap().up_busy_ps, ns(count * trip).0);
        // A write in the meantime waits until the end, to the cycle.
        let visible = bus.write(ns(20), PhysAddr(0), 64, DATA, &mut memory(0));
        assert_eq!(visible, ns(count * trip + 80 + 100));
    }
}

#[test]
fn split_reads_release_the_bus_between_request_and_data() {
    for (full_duplex, each) in [(false, 90), (true, 80)] {
        let mut bus = bus(&[StageConfig { full_duplex, ..stage() }]);
        assert_eq!(many(&mut bus, &mut memory(50), 1, false), ns(10 + 100 + 50 + 80 + 100));
        // Shared wires carry requests and data, separate wires only data in this direction.
        let mut bus = super::bus(&[StageConfig { full_duplex, ..stage() }]);
        let done = many(&mut bus, &mut memory(50), 2000, false).0 as f64;
        assert!((done / ns(2000 * each).0 as f64 - 1.0).abs() < 0.01, "{done} for {each} ns each");
    }
    let mut bus = bus(&[stage()]);
    many(&mut bus, &mut memory(500), 1, false);
    let visible = bus.write(ns(10), PhysAddr(0), 64, DATA, &mut memory(0));
    assert_eq!(visible, ns(10 + 80 + 100), "a write is sent while the read is at memory");
}

#[test]
fn a_chain_has_the_sum_of_the_latencies_and_the_narrowest_bandwidth() {
    let fast = StageConfig {
        clock: Hertz(1_000_000_000),
        latency: ns(7),
        bridge_latency: ns(50),
        address_cycles: 1,
        ..stage()
    };
    let slow = StageConfig { bridge_latency: ns(30), ..stage() };
    for stages in [[fast.clone(), slow.clone()], [slow, fast]] {
        // Each stage receives a whole transaction before it forwards it: transfers and latencies of both add
        // up.
        let one_way = |bytes: u64| -> Ps {
            stages.iter().fold(Ps::ZERO, |at, stage| {
                let clock = Clock::new(stage.clock);
                let begin = clock.edge_at_or_after(at);
                clock.edge(begin + stage.cycles(bytes)) + stage.latency + stage.bridge_latency
            })
        };
        let mut bus = super::bus(&stages);
        assert_eq!(many(&mut bus, &mut memory(40), 1, true), one_way(64) + ns(40));
        let mut bus = super::bus(&stages);
        let done = many(&mut bus, &mut memory(40), 1, false);
        let sum = one_way(0).0 + one_way(64).0 + ns(40).0;
        assert!(done.0.abs_diff(sum) <= ns(20).0, "{done} of {sum} ps, up to clock edges");
        let mut bus = super::bus(&stages);
        let visible = many(&mut bus, &mut memory(40), 2000, true).0 as f64;
        assert!((visible / ns(2000 * 80).0 as f64 - 1.0).abs() < 0.01, "{visible} ps, 8 bytes each 10 ns");
    }
}

#[test]
fn reads_in_flight_and_bridge_buffers_limit_bandwidth_by_littles_law() {
    for places in [1, 2, 5] {
        let trip = 10 + 100 + 500 + 80;
        let mut reads = bus(&[StageConfig { outstanding: places, full_duplex: true, ..stage() }]);
        let done = many(&mut reads, &mut memory(500), 1000, false).0 as f64;
        let expected = ns(1000 * trip / u64::from(places)).0 as f64;
        assert!((done / expected - 1.0).abs() < 0.02, "{done} of {expected} ps with {places}");
        assert!(reads.stages().next().unwrap().outstanding_stall_ps > 0);
        // A write's buffer is free when the write is visible.
        let trip = 80 + 100 + 500;
        let mut writes = bus(&[StageConfig { buffer: places, ..stage() }]);
        let visible = many(&mut writes, &mut memory(500), 1000, true).0 as f64;
        let expected = ns(1000 * trip / u64::from(places)).0 as f64;
        assert!((visible / expected - 1.0).abs() < 0.02, "{visible} of {expected} ps with {places}");
        assert!(writes.stages().next().unwrap().buffer_stall_ps > 0);
    }
}

#[test]
fn a_full_bridge_stalls_only_the_bus_in_front_of_it() {
    let fast = StageConfig { clock: Hertz(1_000_000_000), latency: Ps::ZERO, buffer: 2, ..stage() };
    let mut bus = bus(&[fast, StageConfig { latency: Ps::ZERO, ..stage() }]);
    // The first bus takes 8 ns per line and the second 80: two lines are in the bridge, and the third is sent
    // when the first has left.
    assert_eq!(many(&mut bus, &mut memory(0), 3, true), ns(10 + 80 + 80 + 80));
    let [front, behind] = [0, 1].map(|index| bus.stages().nth(index).unwrap());
    // 8 ns of transfer, up to the next edge at 10 ns, then 80 ns on the second bus.
    assert_eq!((front.buffer_stall_ps, behind.buffer_stall_ps), (ns(90).0, 0));
}

#[test]
fn a_register_read_takes_each_stage_twice_and_the_devices_latency() {
    let near = StageConfig { bridge_latency: ns(40), ..stage() };
    for split in [true, false] {
        let near = StageConfig { split, ..near.clone() };
        let mut bus = bus(&[StageConfig { split, ..stage() }, near]);
        // A request cycle on each bus, and a data cycle back.
        let arrives = bus.register_read(Ps::ZERO, 4);
        assert_eq!(arrives, ns(40 + 10 + 100 + 10 + 100));
        assert_eq!(bus.register_answer(arrives, 4), arrives + ns(20 + 10 + 100 + 10 + 100 + 40));
        assert_eq!(bus.stats().register_reads, 1);
    }
}

#[test]
fn a_register_read_holds_a_non_split_bus_until_the_response() {
    let mut bus = bus(&[StageConfig { split: false, ..stage() }]);
    let arrives = bus.register_read(Ps::ZERO, 4);
    let through = arrives + ns(20 + 10);
    let visible = bus.write(ns(20), PhysAddr(0), 64, DATA, &mut memory(0));
    assert_eq!(visible, through + ns(80 + 100));
    assert_eq!(
        bus.register_answer(arrives, 4),
        visible,
        "the response pushes the write, although that was sent later"
    );
}

#[test]
fn register_writes_are_accepted_at_once_until_the_buffer_is_full() {
    let mut bus = bus(&[StageConfig { buffer: 2, ..stage() }]);
    let write = |bus: &mut Bus| {
        let write = bus.register_write(Ps::ZERO, 4);
        (write.accepted, write.acknowledged, write.arrives)
    };
    assert_eq!(write(&mut bus), (Ps::ZERO, Ps::ZERO, ns(110)));
    assert_eq!(write(&mut bus), (Ps::ZERO, Ps::ZERO, ns(120)));
    assert_eq!(write(&mut bus), (ns(110), ns(110), ns(220)), "accepted when the first is at the device");
}
