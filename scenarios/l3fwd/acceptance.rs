//! Frames leave by the port of their route.

use doorbell_acceptance::programs::{measured, prepared};

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
