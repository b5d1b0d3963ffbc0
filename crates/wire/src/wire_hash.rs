//! Hash of all frames of one link direction, to compare two runs frame by frame and picosecond by picosecond
//! without storing frames.

use doorbell_sim::frame::Frame;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::link::Sent;

/// Running hash over all frames: departure and arrival times, bytes and faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireHash {
    /// Number of frames.
    pub frames: u64,
    /// Hash chained over all frames.
    pub hash: u64,
}

impl WireHash {
    /// Adds the next frame.
    pub(crate) fn take(&mut self, sent: &Sent, frame: &Frame) {
        let mut head = [0; 17];
        head[..8].copy_from_slice(&sent.start.0.to_le_bytes());
        head[8..16].copy_from_slice(&sent.arrives_at.0.to_le_bytes());
        head[16] = u8::from(sent.lost) | u8::from(frame.fcs_bad) << 1;
        self.frames += 1;
        self.hash = xxh3_64_with_seed(&frame.bytes, xxh3_64_with_seed(&head, self.hash));
    }
}
