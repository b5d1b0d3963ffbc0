//! An Ethernet frame in flight.

use serde::{Deserialize, Serialize};

/// A frame as it stands on the wire, from the destination address to the last byte before the FCS.
/// The four FCS bytes are not stored: they are right unless `fcs_bad` says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// Destination address to payload, without preamble and without FCS.
    #[serde(with = "crate::snapshot::piece")]
    pub bytes: Vec<u8>,
    /// The FCS would not match (a fault injected on the link).
    pub fcs_bad: bool,
}

impl Frame {
    /// Bytes of the frame check sequence.
    pub const FCS_BYTES: usize = 4;
    /// The smallest legal frame, FCS included (IEEE 802.3 §3.2.8).
    pub const MIN_BYTES_WITH_FCS: usize = 64;

    /// A good frame of these bytes (FCS excluded).
    pub fn new(bytes: Vec<u8>) -> Frame {
        Frame { bytes, fcs_bad: false }
    }

    /// The frame's length as RFC 2544 and the field count it: with FCS.
    pub fn len_with_fcs(&self) -> usize {
        self.bytes.len() + Self::FCS_BYTES
    }
}
