//! A receive queue's buffers (SRRCTL, §7.1, §8.10): which format its descriptors have, and how a frame is laid over the one or two
//! buffers of each.

use super::super::Igb;
use super::super::bits::{rctl, rxd, srrctl};
use super::super::regs::Reg;
use super::{FrameNotes, RxFrame};

/// Bytes of a receive buffer by RCTL.BSIZE, where SRRCTL names none.
const BUFFER_BYTES: [usize; 4] = [2048, 1024, 512, 256];

/// SRRCTL.DESCTYPE. Reserved ones count as one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DescriptorType {
    Legacy,
    OneBuffer,
    /// The header in a buffer of its own, if there is one and it fits.
    Split,
    /// The header in its buffer as well as before the data.
    Replicate,
    /// The same of frames that are larger than the header's buffer; smaller ones lie there alone.
    ReplicateLarge,
    /// The first bytes in the header's buffer, header or not.
    SplitAlways,
}

/// Bytes of a frame and the buffer that they go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub addr: u64,
    pub offset: usize,
    pub len: usize,
}

/// How a descriptor takes a frame from some byte on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// What goes to the header's buffer, if anything does.
    pub header: Part,
    pub data: Part,
    /// The header lies apart (SPH), how long it is, and whether its buffer was too small for it.
    pub split: bool,
    pub header_len: usize,
    pub overflow: bool,
}

impl Layout {
    /// Which byte of the frame comes next.
    pub fn end(&self) -> usize {
        if self.data.len == 0 {
            self.header.offset + self.header.len
        } else {
            self.data.offset + self.data.len
        }
    }

    /// The words of an advanced or legacy descriptor, without DD and EOP.
    pub fn words(
        &self,
        of: DescriptorType,
        addr: u64,
        notes: &FrameNotes,
        first: bool,
        last: bool,
    ) -> [u64; 2] {
        let status = if last { notes.status } else { 0 };
        let vlan = if last { notes.vlan } else { 0 };
        let second = (self.data.len as u64) << 32 | u64::from(vlan) << 48;
        if of == DescriptorType::Legacy {
            // The packet checksum stands in the first descriptor, everything else in the last.
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

impl Igb {
    /// The format of a queue's descriptors.
    pub(in crate::e82576) fn descriptor_type(&self, queue: usize) -> DescriptorType {
        match self.regs.at(Reg::Srrctl, queue) >> srrctl::TYPE_SHIFT & 0b111 {
            0 => DescriptorType::Legacy,
            2 => DescriptorType::Split,
            3 => DescriptorType::Replicate,
            4 => DescriptorType::ReplicateLarge,
            5 => DescriptorType::SplitAlways,
            _ => DescriptorType::OneBuffer,
        }
    }

    /// Bytes of a queue's packet buffers.
    pub(super) fn buffer_bytes(&self, queue: usize) -> usize {
        match self.regs.at(Reg::Srrctl, queue) & srrctl::PACKET {
            0 => BUFFER_BYTES[(self.regs.get(Reg::Rctl) >> rctl::BSIZE_SHIFT & 3) as usize],
            kib => (kib as usize) << 10,
        }
    }

    /// Bytes of its header buffers.
    fn header_bytes(&self, queue: usize) -> usize {
        (self.regs.at(Reg::Srrctl, queue) >> srrctl::HEADER_SHIFT & 0xf) as usize * 64
    }

    /// How a descriptor with these buffers takes a frame from byte `offset` on.
    pub(super) fn lay_out(&self, frame: &RxFrame, offset: usize, [packet, header]: [u64; 2]) -> Layout {
        let queue = usize::from(frame.queue);
        let (of, room, bytes) = (self.descriptor_type(queue), self.buffer_bytes(queue), frame.bytes.len());
        let data = |from: usize| Part { addr: packet, offset: from, len: room.min(bytes - from) };
        let plain = Layout { data: data(offset), ..Layout::default() };
        if offset != 0 || matches!(of, DescriptorType::Legacy | DescriptorType::OneBuffer) {
            return plain;
        }
        let header_room = self.header_bytes(queue);
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
