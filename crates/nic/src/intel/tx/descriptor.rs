//! Transmit descriptors in a chip-independent form: a buffer with or without offload options, or a context
//! that holds offload parameters.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::intel::bits::txd;
use crate::parts::offload::{Offsets, Sums};

/// Offsets for checksums and segmentation, from a context descriptor.
pub trait Context: Copy + Debug + Default + PartialEq + Eq + Send + Serialize + DeserializeOwned {
    /// Positions of headers and checksums.
    fn offsets(&self) -> Offsets;
    /// Length of all headers in bytes.
    fn header_len(&self) -> usize;
    /// Payload bytes per segment.
    fn mss(&self) -> usize;
    /// VLAN tag to insert, for chips that have it in the context.
    fn vlan(&self) -> u16 {
        0
    }
    /// Whether the transport is SCTP, whose checksum has its own algorithm and position.
    fn is_sctp(&self) -> bool {
        false
    }
}

/// A decoded descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptor<X> {
    /// A buffer, optionally with one checksum to insert (command bit IC): its position and the first byte
    /// covered.
    Legacy { command: u8, len: u32, checksum_offset: u8, checksum_start: u8, vlan: u16 },
    /// Sets the queue's context `index`.
    Context { command: u8, index: usize, context: X },
    /// A buffer whose offload options use context `index`. If `vlan` is `None`, the VLAN tag is that of the
    /// context.
    Data { command: u8, len: u32, options: u8, segments: bool, index: usize, vlan: Option<u16> },
    /// An undefined descriptor type.
    Unknown { command: u8 },
}

impl<X> Descriptor<X> {
    /// Decodes a legacy descriptor, a format common to all chips (82540EM: §3.3.3; 82576: §7.2).
    pub fn legacy([_, second]: [u64; 2]) -> Descriptor<X> {
        let byte = |shift: u32| (second >> shift) as u8;
        let (command, len) = (byte(24), (second & 0xffff) as u32);
        let (checksum_offset, checksum_start) = (byte(16), byte(40));
        Descriptor::Legacy { command, len, checksum_offset, checksum_start, vlan: (second >> 48) as u16 }
    }

    /// Length of its buffer in bytes.
    pub fn buffer_len(&self) -> u32 {
        match *self {
            Descriptor::Legacy { len, .. } | Descriptor::Data { len, .. } => len,
            Descriptor::Context { .. } | Descriptor::Unknown { .. } => 0,
        }
    }

    /// Whether it is the last descriptor of its packet (EOP).
    pub fn ends_packet(&self) -> bool {
        match *self {
            Descriptor::Legacy { command, .. } | Descriptor::Data { command, .. } => command & txd::EOP != 0,
            Descriptor::Context { .. } | Descriptor::Unknown { .. } => false,
        }
    }

    /// Returns the command byte. EOP, RS and DEXT are at the same position in every type.
    pub fn command(&self) -> u8 {
        match *self {
            Descriptor::Legacy { command, .. }
            | Descriptor::Context { command, .. }
            | Descriptor::Data { command, .. }
            | Descriptor::Unknown { command } => command,
        }
    }
}

/// Returns the checksums requested by POPTS of a data descriptor.
pub(crate) fn sums(options: u8) -> Sums {
    Sums { ip: options & txd::POPTS_IXSM != 0, transport: options & txd::POPTS_TXSM != 0 }
}
