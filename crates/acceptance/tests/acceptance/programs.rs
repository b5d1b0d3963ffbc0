//! The programs of the image dpdk: what each does to frames, that it is ready without anybody waiting for it, and that two
//! runs of it are the same.

use doorbell_acceptance::{places, quiet};
use doorbell_bench::{Point, Session, Source, benchmark, resolve, run_point};
use doorbell_sim::Bytes;

const COMMON: [&str; 3] = ["run.warmup=100us", "run.duration=500us", "run.drain=1ms"];

fn prepared(name: &str, overrides: &[&str]) -> Session {
    let chosen = benchmark(name).expect("a benchmark");
    let all = chosen.defaults.iter().chain(&COMMON).chain(overrides).map(|&text| text.to_owned());
    let config = resolve("fast", &all.collect::<Vec<_>>()).expect("a configuration");
    quiet(|control| Session::prepare(&config, chosen, &places(), &Source::Boot, control))
        .unwrap_or_else(|error| panic!("{name} does not get ready: {error}"))
}

fn measured(session: &Session, size: u64) -> Point {
    let rate = "1Mpps".parse().expect("a rate");
    quiet(|control| run_point(session, rate, Bytes(size), None, control)).expect("it runs")
}

/// Measures a program twice, and checks that it loses and damages nothing and does the same both times.
fn twice_the_same(session: &Session, size: u64) -> Point {
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
fn touchfwd_sends_back_whole_frames_and_takes_longer_the_longer_they_are() {
    let session = prepared("touchfwd", &[]);
    let small = twice_the_same(&session, 65);
    let large = twice_the_same(&session, 1517);
    let instructions = |point: &Point| point.summary.instructions as i64;
    // Each further byte is a load, an addition and a branch at least, at one instruction a cycle and 3 GHz.
    let bytes = 1517 - 65;
    assert!(median(&large) - median(&small) > f64::from(bytes) * 3.0 / 3.0);
    assert!((instructions(&large) - instructions(&small)).abs() < instructions(&small) / 10);
}

#[test]
fn a_sink_delivers_what_is_in_its_memory_and_sends_nothing() {
    let session = prepared("touchdrop", &["nic.rx_fifo=16KiB", "run.warmup=300us"]);
    let point = twice_the_same(&session, 256);
    let port = &point.machine.ports()[0];
    assert_eq!(port.link_out.stats().frames, 0);
    assert_eq!(port.loadgen.stats().returned, point.machine.nic(0).stats().rx_delivered);
    // One way, less than there and back.
    let there = median(&point);
    assert!(there > 500.0 && there < 1_500.0, "{there} ns");
    // Under overload it has lost what its NIC dropped.
    let rate = "25Mpps".parse().expect("a rate");
    let point =
        quiet(|control| run_point(&session, rate, Bytes(256), None, control)).expect("it runs").summary;
    let drops = point.drops.dma + point.drops.core + point.drops.tx;
    assert!(point.drop_rate > 0.1, "{}", point.drop_rate);
    assert_eq!(point.drops.guest, 0);
    // The window's frames may be dropped a little after it, and earlier ones in it.
    let lost = point.frames_offered - point.frames_delivered;
    assert!(drops.abs_diff(lost) < lost / 50, "{drops} dropped, {lost} lost");
}

#[test]
fn rxptx_works_as_long_as_it_is_told() {
    // Bursts of one frame: each waits for the whole work.
    let with = |work: &str| median(&twice_the_same(&prepared("rxptx", &[work]), 64));
    let (short, long) = (with("rxptx.work=10ns"), with("rxptx.work=510ns"));
    let longer = long - short;
    // The clock is read between two ticks of 1 ns, a few instructions apart; waiting frames may share a poll.
    assert!((450.0..550.0).contains(&longer), "{longer} ns");
}

#[test]
fn l3fwd_routes_by_the_third_byte_of_the_address() {
    // 198.18.1.0/24 is behind port 1, wherever a frame comes from.
    let session = prepared("l3fwd", &["platform.nics=2", "loadgen.traffic.destination_ip=198.18.1.77"]);
    let point = measured(&session, 128);
    let summary = &point.summary;
    assert_eq!((summary.frames_offered, summary.frames_delivered, summary.frames_corrupt), (1000, 1000, 0));
    let left = [0, 1].map(|port| point.machine.ports()[port].link_out.stats().frames);
    assert_eq!(left[0], 0, "frames left by {left:?}");
    assert_eq!(left[1], point.machine.ports().iter().map(|port| port.loadgen.stats().sent).sum::<u64>());
}

#[test]
#[ignore = "long: make test-long runs it"]
fn compute_needs_no_traffic_and_misses_the_caches_that_are_smaller_than_its_table() {
    let chosen = benchmark("compute").expect("a benchmark");
    let at = |table: &str| {
        let all = [table, "run.warmup=2ms", "run.duration=1ms", "run.settle=200us"].map(str::to_owned);
        let config = resolve("server", &all).expect("a configuration");
        let session = quiet(|control| Session::prepare(&config, chosen, &places(), &Source::Boot, control))
            .expect("ready");
        let rate = config.loadgen.traffic.requested_rate();
        quiet(|control| run_point(&session, rate, Bytes(64), None, control)).expect("it runs").summary
    };
    let (small, large) = (at("compute.table=16KiB"), at("compute.table=16MiB"));
    assert_eq!((small.rate.as_str(), small.frames_offered), ("none", 0));
    assert!(small.simulated_seconds >= 1e-3);
    assert!(small.ipc > 2.0 * large.ipc, "{} and {} instructions a cycle", small.ipc, large.ipc);
}

#[test]
#[ignore = "long: make test-long runs it"]
fn open_vswitch_sends_every_frame_out_of_the_other_port_with_two_threads() {
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
