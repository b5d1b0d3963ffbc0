//! ping: the kernel answers ICMP echo requests, in the net image. No program runs in the guest.

use crate::measure::benchmark::Benchmark;
use crate::measure::kinds::KERNEL_PROGRAM;
use crate::plan::kernel;

/// The benchmark. The kernel handles about 100,000 requests per second, so a rate far above that only
/// measures loss.
pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "ping",
    summary: "the kernel answers ICMP echo requests: interrupts, NAPI and the stack up to ICMP",
    guest_words: |config| kernel::words("respond", &[], config),
    defaults: &[
        "loadgen.traffic.kind=ping",
        "loadgen.traffic.rate=20kpps",
        "loadgen.traffic.source_ip=10.0.0.1",
        "loadgen.traffic.destination_ip=10.0.0.2",
    ],
    ..KERNEL_PROGRAM
};
