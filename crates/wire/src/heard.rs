//! All that went over one direction of a link as one number, so that two runs can be compared frame by frame and picosecond by
//! picosecond without keeping frames.

use doorbell_sim::frame::Frame;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::link::Sent;

/// A number that follows from every frame since it was begun: when it left and arrived, its bytes, and its faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// How many frames.
    pub frames: u64,
    /// Chained over all of them.
    pub hash: u64,
}

impl Heard {
    /// Takes in the next frame.
    pub(crate) fn take(&mut self, sent: &Sent, frame: &Frame) {
        let mut head = [0; 17];
        head[..8].copy_from_slice(&sent.start.0.to_le_bytes());
        head[8..16].copy_from_slice(&sent.arrives_at.0.to_le_bytes());
        head[16] = u8::from(sent.lost) | u8::from(frame.fcs_bad) << 1;
        self.frames += 1;
        self.hash = xxh3_64_with_seed(&frame.bytes, xxh3_64_with_seed(&head, self.hash));
    }
}
