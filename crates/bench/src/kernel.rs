//! Programs over the kernel's own network stack, in the net image: the guest is 10.0.N.2 at port N, the generator 10.0.N.1.

use doorbell_loadgen::Returned;
use doorbell_sim::Ps;

use crate::config::RunConfig;

/// The image's scripts print this when what they start can be asked.
pub(crate) const READY_MARKER: &str = "doorbell: ready";

/// How long the kernel may keep a frame that nothing else holds up: Linux' e1000 has its interrupts 250 µs apart (4,000 a second) when
/// they say little of latency (`e1000_set_itr`), a program that is woken waits for its turn, and what it answers waits for the next
/// interrupt.
pub(crate) const PAUSE: Ps = Ps::from_ms(1);

/// The kernel alone handles on the order of a hundred thousand requests a second; a rate far above says little.
pub(crate) const PING: &[&str] = &[
    "loadgen.traffic.kind=ping",
    "loadgen.traffic.rate=20kpps",
    "loadgen.traffic.source_ip=10.0.0.1",
    "loadgen.traffic.destination_ip=10.0.0.2",
];

/// The window is long, because the rate is low.
pub(crate) const MEMCACHED: &[&str] = &[
    "loadgen.traffic.kind=memcached-get",
    "loadgen.traffic.rate=20kpps",
    "loadgen.traffic.outstanding=64",
    "loadgen.traffic.source_ip=10.0.0.1",
    "loadgen.traffic.destination_ip=10.0.0.2",
    "loadgen.traffic.destination_port=11211",
    "run.duration=50ms",
];

/// What the image's /init is told: nothing runs but the kernel.
pub(crate) fn respond(_: &RunConfig) -> String {
    "doorbell.app=respond".to_owned()
}

/// What the image's /init is told.
pub(crate) fn memcached(_: &RunConfig) -> String {
    "doorbell.app=memcached".to_owned()
}

/// Answers are checked by the protocol that asks.
pub(crate) fn returned(_: &RunConfig) -> Returned {
    Returned::Any
}
