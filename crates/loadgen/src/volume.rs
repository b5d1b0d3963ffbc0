//! Amounts of traffic: frames and bytes, and their rates.

pub use doorbell_results::Throughput;
use doorbell_sim::{Frame, Ps};
use doorbell_wire::LinkConfig;
use serde::{Deserialize, Serialize};

/// Frames and their bytes at layers 1 and 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Number of frames.
    pub frames: u64,
    /// Their bytes with FCS.
    pub bytes_l2: u64,
    /// Their bytes with FCS, preamble and gap, as charged by the generator's link.
    pub bytes_l1: u64,
}

impl Volume {
    /// One frame of `frame_len` bytes without its FCS.
    pub(crate) fn of_frame(frame_len: usize, link: &LinkConfig) -> Volume {
        let bytes_l2 = (frame_len + Frame::FCS_BYTES) as u64;
        Volume { frames: 1, bytes_l2, bytes_l1: link.wire_bytes(frame_len) }
    }

    /// Adds another volume.
    pub fn add(&mut self, other: Volume) {
        self.frames += other.frames;
        self.bytes_l2 += other.bytes_l2;
        self.bytes_l1 += other.bytes_l1;
    }

    pub(crate) fn parts(self) -> [u64; 3] {
        [self.frames, self.bytes_l2, self.bytes_l1]
    }

    pub(crate) fn over(self, span: Ps) -> Throughput {
        // Scaled to the unit before the only division, so that round figures stay round.
        let per_ps = |amount: u64, scale: f64| {
            if span == Ps::ZERO { 0.0 } else { amount as f64 * scale / span.0 as f64 }
        };
        Throughput {
            mpps: per_ps(self.frames, 1e6),
            gbps_l2: per_ps(8 * self.bytes_l2, 1e3),
            gbps_l1: per_ps(8 * self.bytes_l1, 1e3),
        }
    }
}
