//! Measurements of polling programs: each returns or consumes frames as documented, becomes ready by itself,
//! and two runs are identical.

use doorbell_bench::{Point, Session, Source, benchmark, resolve};
use doorbell_sim::Bytes;

use crate::{places, quiet, run_point};

const COMMON: [&str; 3] = ["run.warmup=100us", "run.duration=500us", "run.drain=1ms"];

/// A session of the benchmark on the preset fast, with these settings.
pub fn prepared(name: &str, overrides: &[&str]) -> Session {
    let chosen = benchmark(name).expect("a benchmark");
    let all = chosen.defaults.iter().chain(&COMMON).chain(overrides).map(|&text| text.to_owned());
    let config = resolve("fast", &all.collect::<Vec<_>>()).expect("a configuration");
    quiet(|control| Session::prepare(&config, chosen, &places(), &Source::Boot, control))
        .unwrap_or_else(|error| panic!("{name} does not become ready: {error}"))
}

/// Measures 1 Mpps of frames of this size.
pub fn measured(session: &Session, size: u64) -> Point {
    let rate = "1Mpps".parse().expect("a rate");
    quiet(|control| run_point(session, rate, Bytes(size), control)).expect("the program runs")
}

/// Measures a program twice, and checks that all frames are delivered intact and that the runs are identical.
pub fn measured_twice(session: &Session, size: u64) -> Point {
    let (one, other) = (measured(session, size), measured(session, size));
    let what = format!("{} with {size} bytes", session.workload().name);
    assert_eq!(one.summary.state_hash, other.summary.state_hash, "{what}");
    assert_eq!(one.summary.frames_offered, 500, "{what}");
    assert_eq!((one.summary.frames_delivered, one.summary.frames_corrupt), (500, 0), "{what}");
    one
}

/// Median latency in ns.
pub fn median(point: &Point) -> f64 {
    point.summary.latency_ns.as_ref().expect("frames came back").p50
}

/// Traffic of 64 flows, which differ in this field.
pub fn flows(field: &str) -> String {
    format!("loadgen.traffic.streams=[{{rate=\"1Mpps\",sweeps=[{{field=\"{field}\",count=64}}]}}]")
}

/// Frames that each queue of port 0 has received. Asserts that none of the measurement's 500 frames was lost.
pub fn received_by_queue(point: &Point) -> Vec<u64> {
    point.machine.check_conservation();
    let whole = (point.summary.frames_offered, point.summary.frames_delivered);
    assert!(whole.0 == whole.1 && whole.0.abs_diff(500) <= 1, "{whole:?}");
    let queues = point.summary.ports[0].queues.iter();
    let received = queues.map(|of| of.figures.iter().find(|figure| figure.name == "rx_frames"));
    received.map(|figure| figure.map_or(0, |figure| figure.value)).collect()
}
