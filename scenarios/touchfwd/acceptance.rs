//! Complete frames return, and the latency includes the time for reading them.

use doorbell_acceptance::programs::{measured_twice, median, prepared};
use doorbell_bench::Point;

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
