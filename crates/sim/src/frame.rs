//! An Ethernet frame in flight.

use serde::{Deserialize, Serialize};

/// A frame from the destination address to the last byte before the FCS. The four FCS bytes are not stored;
/// `fcs_bad` marks a wrong FCS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// Destination address to payload, without preamble and without FCS.
    #[serde(with = "crate::snapshot::byte_string")]
    pub bytes: Vec<u8>,
    /// The FCS is wrong (a fault injected on the link).
    pub fcs_bad: bool,
}

impl Frame {
    /// Bytes of the frame check sequence.
    pub const FCS_BYTES: usize = 4;
    /// The smallest legal frame, FCS included (IEEE 802.3 §3.2.8).
    pub const MIN_BYTES_WITH_FCS: usize = 64;

    /// A frame of these bytes (FCS excluded) with a correct FCS.
    pub fn new(bytes: Vec<u8>) -> Frame {
        Frame { bytes, fcs_bad: false }
    }

    /// The frame's length with FCS, as in RFC 2544.
    pub fn len_with_fcs(&self) -> usize {
        self.bytes.len() + Self::FCS_BYTES
    }
}
