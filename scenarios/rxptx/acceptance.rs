//! The latency includes the configured work.

use doorbell_acceptance::programs::{measured_twice, median, prepared};

#[test]
fn rxptx_latency_grows_by_the_configured_work() {
    // At this rate bursts have one frame, so each frame waits for the whole work.
    let with = |work: &str| median(&measured_twice(&prepared("rxptx", &[work]), 64));
    let (short, long) = (with("rxptx.work=10ns"), with("rxptx.work=510ns"));
    let longer = long - short;
    // Tolerance: the program's clock has a resolution of 1 ns, and waiting frames may share a poll.
    assert!((450.0..550.0).contains(&longer), "{longer} ns");
}
