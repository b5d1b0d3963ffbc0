//! The kernel answers every echo request, with at most two interrupts for each.

use doorbell_acceptance::programs::prepared;
use doorbell_acceptance::{quiet, run_point};
use doorbell_sim::Bytes;

#[test]
fn the_kernel_answers_every_echo_request() {
    let session = prepared("ping", &["run.duration=5ms"]);
    let rate = "20kpps".parse().expect("a rate");
    let measured =
        || quiet(|control| run_point(&session, rate, Bytes(64), control)).expect("the kernel answers");
    let (one, other) = (measured(), measured());
    assert_eq!(one.summary.state_hash, other.summary.state_hash);
    let counts = [one.summary.frames_offered, one.summary.frames_delivered, one.summary.frames_corrupt];
    assert_eq!(counts, [100, 100, 0]);
    assert!(one.summary.latency_ns.as_ref().is_some_and(|latency| latency.min > 1_000.0));
}
