//! Debian's memcached answers all requests, on several cores with a queue for each thread.

use doorbell_acceptance::programs::prepared;
use doorbell_acceptance::{answers_the_example_of_requests, quiet, run_point};
use doorbell_sim::Bytes;

#[test]
fn memcached_kernel_answers_all_requests_of_the_example() {
    answers_the_example_of_requests("memcached-kernel");
}

#[test]
#[ignore = "long: make test-long runs it"]
fn memcached_kernel_uses_one_queue_per_thread() {
    let own = [
        "nic.model=82576",
        "platform.harts=4",
        "platform.interrupts=aia",
        "memcached_kernel.cores=4",
        "loadgen.traffic.memcached.clients=64",
        "run.warmup=2ms",
        "run.duration=5ms",
        "run.drain=5ms",
    ];
    let session = prepared("memcached-kernel", &own);
    let rate = "200kpps".parse().expect("a rate");
    let point = quiet(|control| run_point(&session, rate, Bytes(64), control)).expect("memcached runs");
    let summary = &point.summary;
    assert_eq!((summary.frames_delivered, summary.frames_corrupt), (summary.frames_offered, 0));
    let mut queues = point.machine.nic(0).queue_stats().iter().map(|queue| queue.rx_frames);
    assert!(queues.by_ref().take(4).all(|frames| frames > 100) && queues.all(|frames| frames == 0));
}
