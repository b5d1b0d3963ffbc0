//! Receive descriptors: formats, and the distribution of a frame over the one or two buffers of a descriptor.
//! All chips have the legacy format (82540EM: §3.2.3); the 82576 has the others (SRRCTL, §7.1, §8.10).

use super::{RxFields, RxFrame};
use crate::intel::bits::rxd;
use crate::intel::{Chip, Controller};

/// Receive descriptor format and use of the header buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorType {
    Legacy,
    OneBuffer,
    /// The headers go to the header buffer if found and if they fit.
    Split,
    /// The headers are copied to the header buffer if found and if they fit.
    Replicate,
    /// As `Replicate` for frames larger than the header buffer; smaller frames go to the header buffer only.
    ReplicateLarge,
    /// As `Split`, but without fitting headers the first bytes fill the header buffer.
    SplitAlways,
}

/// A range of a frame's bytes and its target address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub addr: u64,
    pub offset: usize,
    pub len: usize,
}

/// Distribution of a frame, from a given byte on, over the buffers of one descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// Part for the header buffer; may be empty.
    pub header: Part,
    pub data: Part,
    /// Header in a separate buffer (SPH), header length, and header buffer too small (HBO).
    pub split: bool,
    pub header_len: usize,
    pub overflow: bool,
}

impl Layout {
    /// Returns the offset of the first frame byte after this layout.
    pub fn end(&self) -> usize {
        if self.data.len == 0 {
            self.header.offset + self.header.len
        } else {
            self.data.offset + self.data.len
        }
    }

    /// Returns the written-back descriptor words, without DD and EOP.
    pub fn words(
        &self,
        of: DescriptorType,
        addr: u64,
        notes: &RxFields,
        first: bool,
        last: bool,
    ) -> [u64; 2] {
        let status = if last { notes.status } else { 0 };
        let vlan = if last { notes.vlan } else { 0 };
        let second = (self.data.len as u64) << 32 | u64::from(vlan) << 48;
        if of == DescriptorType::Legacy {
            // The packet checksum goes into the first descriptor, everything else into the last.
            let checksum = if first { notes.checksum } else { 0 };
            let unchecked = last && status & (rxd::IPCS | rxd::L4CS) == 0;
            let low = status & 0xff | if unchecked { rxd::IXSM } else { 0 };
            let second = self.data.len as u64
                | u64::from(checksum) << 16
                | u64::from(low) << 32
                | u64::from(status >> 24) << 40
                | u64::from(vlan) << 48;
            return [addr, second];
        }
        let mut word = (self.header_len as u64) << rxd::HEADER_LEN_SHIFT;
        if self.split {
            word |= rxd::SPH;
        }
        if last {
            word |= u64::from(notes.packet_info) | u64::from(notes.hash) << 32;
        }
        let overflow = if self.overflow { rxd::HBO } else { 0 };
        [word, second | u64::from(status | overflow)]
    }
}

impl<C: Chip> Controller<C> {
    /// Distributes a frame, from byte `offset` on, over a descriptor's packet and header buffers.
    pub(super) fn lay_out(&self, frame: &RxFrame, offset: usize, [packet, header]: [u64; 2]) -> Layout {
        let queue = usize::from(frame.queue);
        let of = C::descriptor_type(&self.regs, queue);
        let [room, header_room] = C::buffer_bytes(&self.regs, queue);
        let bytes = frame.bytes.len();
        let data = |from: usize| Part { addr: packet, offset: from, len: room.min(bytes - from) };
        let plain = Layout { data: data(offset), ..Layout::default() };
        if offset != 0 || matches!(of, DescriptorType::Legacy | DescriptorType::OneBuffer) {
            return plain;
        }
        let found = usize::from(frame.notes.header).min(bytes);
        let fits = found != 0 && found <= header_room;
        let part = |len: usize| Part { addr: header & !1, offset: 0, len };
        let overflow = found > header_room;
        match of {
            DescriptorType::Replicate if fits => {
                Layout { header: part(found), split: true, header_len: found, ..plain }
            }
            DescriptorType::ReplicateLarge if bytes <= header_room => Layout {
                header: part(bytes),
                data: Part { addr: packet, offset: bytes, len: 0 },
                header_len: bytes,
                ..plain
            },
            DescriptorType::ReplicateLarge if fits => {
                Layout { header: part(found), split: true, header_len: found, ..plain }
            }
            DescriptorType::Split | DescriptorType::SplitAlways if fits => {
                Layout { header: part(found), data: data(found), split: true, header_len: found, overflow }
            }
            DescriptorType::SplitAlways => {
                let len = header_room.min(bytes);
                Layout { header: part(len), data: data(len), split: false, header_len: len, overflow }
            }
            _ => Layout { header_len: if overflow { found } else { 0 }, overflow, ..plain },
        }
    }
}
