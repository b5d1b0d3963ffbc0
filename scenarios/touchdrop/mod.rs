//! touchdrop: reads every byte of each frame as touchfwd does, and drops it (`guest/programs`), in the dpdk
//! image.

use doorbell_loadgen::Returned;

use crate::measure::benchmark::Benchmark;
use crate::plan::worker::Work;
use crate::scenarios::touchfwd;

/// The benchmark.
pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "touchdrop",
    summary: "reads every byte of each frame and drops it; a frame is delivered when it is in guest memory",
    guest_words: |config| touchfwd::words("touchdrop", Work::TouchDrop, config),
    returned: |_| Returned::Sink,
    ..touchfwd::BENCHMARK
};
