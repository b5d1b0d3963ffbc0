//! Every frame leaves by the other port, with a queue per thread.

use doorbell_acceptance::programs::{measured, prepared};

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
