//! Synthetic summaries for this crate's tests: a forwarder that saturates near 9.4 Mpps of 64-byte frames,
//! and one that sends nothing back.

use doorbell_results::{PointSummary, RunSummary};

pub(crate) const LOADS_JSON: &str = include_str!("../testdata/loads.json");
pub(crate) const SILENT_JSON: &str = include_str!("../testdata/silent.json");

/// Six loads, the last two beyond the machine's capacity.
pub(crate) fn loads() -> RunSummary {
    RunSummary::from_json(LOADS_JSON).expect("the sample is a summary")
}

/// One load from which no frame came back.
pub(crate) fn silent() -> RunSummary {
    RunSummary::from_json(SILENT_JSON).expect("the sample is a summary")
}

/// A run of only one of the six loads.
pub(crate) fn single(index: usize) -> RunSummary {
    let mut summary = loads();
    summary.points = vec![summary.points.remove(index)];
    summary
}

/// Makes a point lose frames to every cause.
pub(crate) fn everything_lost(point: &mut PointSummary) {
    point.frames_offered = 1_490_000_000;
    point.frames_delivered = 938_600_000;
    point.frames_corrupt = 123_456_789;
    let drops = &mut point.drops;
    (drops.dma, drops.core, drops.tx) = (12_345, 123_456_789, 9_999);
    (drops.nic_other, drops.link, drops.guest) = (99_999, 1_234_567, 7);
    point.drop_rate = 1.0 - 938.6 / 1490.0;
    (point.offered_mpps, point.offered_gbps) = (148.81, 76.19);
    point.latency_ns.as_mut().expect("a latency").max = 98_765_432.1;
}
