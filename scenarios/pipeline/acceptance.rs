//! All frames pass the stages, from one receive queue over two working cores.

use doorbell_acceptance::programs::{flows, measured, prepared, received_by_queue};
use doorbell_acceptance::short_or_long;

#[test]
fn a_pipeline_passes_packets_between_cores_without_loss() {
    let works: &[&str] =
        short_or_long(&["stages.work=macswap"], &["stages.work=macswap", "stages.work=touchfwd"]);
    for work in works {
        let session = prepared("pipeline", &[work, &flows("source-port")]);
        let one = measured(&session, 64);
        assert_eq!(received_by_queue(&one).len(), 1, "a pipeline receives on one core from one queue");
        assert_eq!(one.summary.frames_corrupt, 0, "{work}");
        assert_eq!(one.summary.state_hash, measured(&session, 64).summary.state_hash);
    }
}
