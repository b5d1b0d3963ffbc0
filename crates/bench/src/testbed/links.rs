//! Maximum time of a frame on a link.

use doorbell_machine::LinkConfig;
use doorbell_sim::Ps;

/// Maximum time that a frame of this length (without FCS) takes over a link. It may first wait for another
/// frame of the same length.
pub(crate) fn time_on(link: &LinkConfig, frame_len: usize) -> Ps {
    let frame = link.rate.time_for_bits(8 * link.wire_bytes(frame_len));
    Ps(link.latency.0.saturating_add(frame.0.saturating_mul(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maximum_time_is_the_latency_plus_two_frame_times() {
        let link = LinkConfig {
            rate: doorbell_sim::BitsPerSec(10_000_000),
            latency: Ps::from_us(50),
            ..LinkConfig::default()
        };
        assert_eq!(time_on(&link, 1514), Ps::from_us(50) + Ps(2 * 1538 * 800_000));
    }
}
