//! The programs of the image dpdk: each returns or consumes frames as documented, becomes ready by itself,
//! and two runs are identical.

use doorbell_acceptance::{places, quiet};
use doorbell_bench::{Point, Session, Source, benchmark, resolve, run_point};
use doorbell_sim::Bytes;

const COMMON: [&str; 3] = ["run.warmup=100us", "run.duration=500us", "run.drain=1ms"];

fn prepared(name: &str, overrides: &[&str]) -> Session {
    let chosen = benchmark(name).expect("a benchmark");
    let all = chosen.defaults.iter().chain(&COMMON).chain(overrides).map(|&text| text.to_owned());
    let config = resolve("fast", &all.collect::<Vec<_>>()).expect("a configuration");
    quiet(|control| Session::prepare(&config, chosen, &places(), &Source::Boot, control))
        .unwrap_or_else(|error| panic!("{name} does not become ready: {error}"))
}

fn measured(session: &Session, size: u64) -> Point {
    let rate = "1Mpps".parse().expect("a rate");
    quiet(|control| run_point(session, rate, Bytes(size), None, control)).expect("the program runs")
}

/// Measures a program twice, and checks that all frames are delivered intact and that the runs are identical.
fn measured_twice(session: &Session, size: u64) -> Point {
    let (one, other) = (measured(session, size), measured(session, size));
    let what = format!("{} with {size} bytes", session.workload().name);
    assert_eq!(one.summary.state_hash, other.summary.state_hash, "{what}");
    assert_eq!(one.summary.frames_offered, 500, "{what}");
    assert_eq!((one.summary.frames_delivered, one.summary.frames_corrupt), (500, 0), "{what}");
    one
}

fn median(point: &Point) -> f64 {
    point.summary.latency_ns.as_ref().expect("frames came back").p50
}

#[test]
fn touchfwd_returns_complete_frames_and_its_latency_grows_with_their_length() {
    let session = prepared("touchfwd", &[]);
    let small = measured_twice(&session, 65);
    let large = measured_twice(&session, 1517);
    let instructions = |point: &Point| point.summary.instructions as i64;
    // Each further byte takes at least a load, an addition and a branch, at one instruction per cycle and 3
    // GHz.
    let bytes = 1517 - 65;
    assert!(median(&large) - median(&small) > f64::from(bytes) * 3.0 / 3.0);
    assert!((instructions(&large) - instructions(&small)).abs() < instructions(&small) / 10);
}

#[test]
fn touchdrop_delivers_frames_into_memory_and_sends_none() {
    let session = prepared("touchdrop", &["nic.rx_fifo=16KiB", "run.warmup=300us"]);
    let point = measured_twice(&session, 256);
    let port = &point.machine.ports()[0];
    assert_eq!(port.link_out.stats().frames, 0);
    assert_eq!(port.loadgen.stats().returned, point.machine.nic(0).stats().rx_delivered);
    // The latency is one-way, so it is less than a round trip.
    let one_way = median(&point);
    assert!(one_way > 500.0 && one_way < 1_500.0, "{one_way} ns");
    // Under overload the lost frames are those that the NIC dropped.
    let rate = "25Mpps".parse().expect("a rate");
    let point = quiet(|control| run_point(&session, rate, Bytes(256), None, control))
        .expect("the program runs")
        .summary;
    let drops = point.drops.dma + point.drops.core + point.drops.tx;
    assert!(point.drop_rate > 0.1, "{}", point.drop_rate);
    assert_eq!(point.drops.guest, 0);
    // Frames of the window may be dropped shortly after it, and earlier frames within it.
    let lost = point.frames_offered - point.frames_delivered;
    assert!(drops.abs_diff(lost) < lost / 50, "{drops} dropped, {lost} lost");
}

#[test]
fn rxptx_latency_grows_by_the_configured_work() {
    // At this rate bursts have one frame, so each frame waits for the whole work.
    let with = |work: &str| median(&measured_twice(&prepared("rxptx", &[work]), 64));
    let (short, long) = (with("rxptx.work=10ns"), with("rxptx.work=510ns"));
    let longer = long - short;
    // Tolerance: the program's clock has a resolution of 1 ns, and waiting frames may share a poll.
    assert!((450.0..550.0).contains(&longer), "{longer} ns");
}

#[test]
fn l3fwd_routes_by_the_third_byte_of_the_address() {
    // 198.18.1.0/24 is routed to port 1 for frames from any port.
    let session = prepared("l3fwd", &["platform.nics=2", "loadgen.traffic.destination_ip=198.18.1.77"]);
    let point = measured(&session, 128);
    let summary = &point.summary;
    assert_eq!((summary.frames_offered, summary.frames_delivered, summary.frames_corrupt), (1000, 1000, 0));
    let sent = [0, 1].map(|port| point.machine.ports()[port].link_out.stats().frames);
    assert_eq!(sent[0], 0, "frames sent by the ports: {sent:?}");
    assert_eq!(sent[1], point.machine.ports().iter().map(|port| port.loadgen.stats().sent).sum::<u64>());
}

#[test]
#[ignore = "long: make test-long runs it"]
fn compute_runs_without_traffic_and_is_slower_with_a_table_larger_than_the_caches() {
    let chosen = benchmark("compute").expect("a benchmark");
    let at = |table: &str| {
        let all = [table, "run.warmup=2ms", "run.duration=1ms", "run.settle=200us"].map(str::to_owned);
        let config = resolve("server", &all).expect("a configuration");
        let session = quiet(|control| Session::prepare(&config, chosen, &places(), &Source::Boot, control))
            .expect("ready");
        let rate = config.loadgen.traffic.requested_rate();
        quiet(|control| run_point(&session, rate, Bytes(64), None, control))
            .expect("the program runs")
            .summary
    };
    let (small, large) = (at("compute.table=16KiB"), at("compute.table=16MiB"));
    assert_eq!((small.rate.as_str(), small.frames_offered), ("none", 0));
    assert!(small.simulated_seconds >= 1e-3);
    assert!(small.ipc > 2.0 * large.ipc, "{} and {} instructions per cycle", small.ipc, large.ipc);
}

#[test]
#[ignore = "long: make test-long runs it"]
fn open_vswitch_forwards_every_frame_to_the_other_port_with_two_threads() {
    let flows = "loadgen.traffic.streams=[{sweeps=[{field=\"source-port\",count=1000}]}]";
    let session = prepared("ovs", &["ovs.cores=2", "platform.harts=3", "run.warmup=2ms", flows]);
    let (one, other) = (measured(&session, 64), measured(&session, 64));
    assert_eq!(one.summary.state_hash, other.summary.state_hash);
    let counts = [one.summary.frames_offered, one.summary.frames_delivered, one.summary.frames_corrupt];
    assert_eq!(counts, [1_000, 1_000, 0]);
    for port in 0..2 {
        let queues = one.machine.nic(port).queue_stats();
        assert!(queues[..2].iter().all(|queue| queue.rx_delivered > 100), "port {port}");
        assert!(queues[2..].iter().all(|queue| queue.rx_delivered == 0), "port {port}");
    }
}
