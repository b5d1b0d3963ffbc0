//! Time of a frame on a link.

use doorbell_machine::LinkConfig;
use doorbell_sim::Ps;

/// How long a frame of this length (without FCS) is on a link at most: it may wait for the end of one as long.
pub(crate) fn time_on(link: &LinkConfig, frame_len: usize) -> Ps {
    let frame = link.rate.time_for_bits(8 * link.wire_bytes(frame_len));
    Ps(link.latency.0.saturating_add(frame.0.saturating_mul(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_on_a_link_for_its_latency_and_no_more_than_two_frames_of_its_length() {
        let link = LinkConfig {
            rate: doorbell_sim::BitsPerSec(10_000_000),
            latency: Ps::from_us(50),
            ..LinkConfig::default()
        };
        assert_eq!(time_on(&link, 1514), Ps::from_us(50) + Ps(2 * 1538 * 800_000));
    }
}
