//! Transmit descriptors, as the chips' formats say the same: a buffer with or without options, or a context for them.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::intel::bits::txd;
use crate::parts::offload::{Offsets, Sums};

/// Offsets for checksums and segmentation, from a context descriptor.
pub trait Context: Copy + Debug + Default + PartialEq + Eq + Send + Serialize + DeserializeOwned {
    /// Positions of headers and checksums.
    fn offsets(&self) -> Offsets;
    /// Bytes of all headers.
    fn header_len(&self) -> usize;
    /// Payload bytes of a segment.
    fn mss(&self) -> usize;
    /// The tag to insert, of chips that have it in the context.
    fn vlan(&self) -> u16 {
        0
    }
    /// Whether the transport is SCTP, whose checksum is another one at another position.
    fn is_sctp(&self) -> bool {
        false
    }
}

/// A descriptor's meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptor<X> {
    /// A buffer, perhaps with one checksum to insert: its position, and the first byte that it covers.
    Legacy { command: u8, len: u32, checksum_offset: u8, checksum_start: u8, vlan: u16 },
    /// The queue's context with this index.
    Context { command: u8, index: usize, context: X },
    /// A buffer with options that refer to the context with this index. The tag is the context's if the descriptor has none.
    Data { command: u8, len: u32, options: u8, segments: bool, index: usize, vlan: Option<u16> },
    /// A type that does not exist.
    Unknown { command: u8 },
}

impl<X> Descriptor<X> {
    /// A legacy descriptor, which all chips have (82540EM: §3.3.3; 82576: §7.2).
    pub fn legacy([_, second]: [u64; 2]) -> Descriptor<X> {
        let byte = |shift: u32| (second >> shift) as u8;
        let (command, len) = (byte(24), (second & 0xffff) as u32);
        let (checksum_offset, checksum_start) = (byte(16), byte(40));
        Descriptor::Legacy { command, len, checksum_offset, checksum_start, vlan: (second >> 48) as u16 }
    }

    /// Bytes of its buffer.
    pub fn buffer_len(&self) -> u32 {
        match *self {
            Descriptor::Legacy { len, .. } | Descriptor::Data { len, .. } => len,
            Descriptor::Context { .. } | Descriptor::Unknown { .. } => 0,
        }
    }

    /// Whether it is the last of its packet.
    pub fn ends_packet(&self) -> bool {
        match *self {
            Descriptor::Legacy { command, .. } | Descriptor::Data { command, .. } => command & txd::EOP != 0,
            Descriptor::Context { .. } | Descriptor::Unknown { .. } => false,
        }
    }

    /// The command byte. EOP, RS and DEXT are at the same position in every type.
    pub fn command(&self) -> u8 {
        match *self {
            Descriptor::Legacy { command, .. }
            | Descriptor::Context { command, .. }
            | Descriptor::Data { command, .. }
            | Descriptor::Unknown { command } => command,
        }
    }
}

/// The checksums that a data descriptor's POPTS request.
pub(crate) fn sums(options: u8) -> Sums {
    Sums { ip: options & txd::POPTS_IXSM != 0, transport: options & txd::POPTS_TXSM != 0 }
}
