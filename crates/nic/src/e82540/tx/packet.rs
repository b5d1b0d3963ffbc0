//! Putting packets together: bytes arrive, descriptors retire, and at the end of a packet (or of a
//! TCP segment) a frame goes into the FIFO.

use doorbell_sim::ports::PhysAddr;
use doorbell_sim::{Frame, Ps};
use serde::{Deserialize, Serialize};

use super::descriptor::{Context, Descriptor, sums};
use crate::e82540::bits::{ctrl, tctl, txd};
use crate::e82540::regs::Reg;
use crate::e82540::{Nic, NicPorts};
use crate::parts::{checksum, offload};

/// The longest packet that the device can send, FCS excluded.
const LONGEST: usize = 16288;

/// A packet being put together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Packet {
    /// What has arrived; in segmentation the header and the payload not yet sent.
    pub bytes: Vec<u8>,
    /// POPTS of the first data descriptor.
    pub options: u8,
    /// CSS of the first legacy descriptor.
    pub checksum_start: u8,
    /// Whether a descriptor of this packet has retired, so that `options` and `segments` are known.
    pub begun: bool,
    /// The packet is cut into segments.
    pub segments: bool,
    /// Segments cut so far, and the payload in them.
    pub cut: u32,
    pub cut_bytes: u32,
    /// More bytes came than can be sent: they are thrown away, and the packet with them.
    pub overflow: bool,
}

impl Packet {
    /// An empty packet that keeps its memory.
    pub fn clear(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        *self = Packet { bytes, ..Packet::default() };
    }
}

/// What the end of a packet says about its frame.
#[derive(Clone, Copy)]
struct Ending {
    command: u8,
    special: u16,
}

impl Nic {
    /// A piece of a buffer is here; it belongs to the oldest job that waits for bytes.
    pub(crate) fn tx_data_arrived(&mut self, now: Ps, addr: u64, len: u32, ports: &mut impl NicPorts) {
        self.tx.queue.reads_in_flight -= 1;
        // Descriptors without bytes may stand before the one that the bytes belong to.
        self.tx_retire();
        let Some(job) = self.tx.queue.jobs.front_mut() else { return };
        job.to_arrive -= len;
        job.stamps.0.read = now;
        let (words, stamps) = (job.words, job.stamps.0);
        self.tx_note_stamps(stamps);
        let before = self.tx.queue.packet.bytes.len();
        if before + len as usize > self.packet_limit() {
            self.tx.queue.packet.overflow = true;
            self.tx.queue.reserved -= u64::from(len);
        } else {
            let bytes = &mut self.tx.queue.packet.bytes;
            bytes.resize(before + len as usize, 0);
            ports.read(PhysAddr(addr), &mut bytes[before..]);
            self.begin(Descriptor::parse(words));
            self.cut_segments();
        }
    }

    /// In segmentation whole segments leave at once, so what is held is less than a segment and a piece.
    fn packet_limit(&self) -> usize {
        LONGEST + self.config.tx_read_max.0 as usize
    }

    /// The first descriptor of a packet says what is to be done with it.
    fn begin(&mut self, descriptor: Descriptor) {
        if self.tx.queue.packet.begun {
            return;
        }
        self.tx.queue.packet.begun = true;
        if let Descriptor::Legacy { checksum_start, .. } = descriptor {
            self.tx.queue.packet.checksum_start = checksum_start;
        }
        if let Descriptor::Data { command, options, .. } = descriptor {
            self.tx.queue.packet.options = options;
            let context = &self.tx.queue.segment_context;
            let possible = context.mss != 0 && context.header_len != 0;
            self.tx.queue.packet.segments = command & txd::TSE != 0 && possible;
            self.stats.tx_malformed += u64::from(command & txd::TSE != 0 && !possible);
        }
    }

    /// A descriptor retires: its bytes, if any, are in the packet.
    pub(crate) fn tx_process(&mut self, descriptor: Descriptor) {
        match descriptor {
            Descriptor::Context { command, context } => {
                if command & txd::TSE != 0 {
                    self.tx.queue.segment_context = context;
                    self.regs.count(Reg::Tsctc);
                } else {
                    self.tx.queue.plain_context = context;
                }
            }
            Descriptor::Unknown { .. } => self.stats.tx_malformed += 1,
            Descriptor::Legacy { command, special, .. } | Descriptor::Data { command, special, .. } => {
                self.begin(descriptor);
                if command & txd::EOP != 0 {
                    self.end_packet(descriptor, Ending { command, special });
                }
            }
        }
    }

    /// All bytes of the packet are here.
    fn end_packet(&mut self, descriptor: Descriptor, ending: Ending) {
        let held = self.tx.queue.packet.bytes.len();
        self.tx.queue.reserved -= held as u64;
        if self.tx.queue.packet.overflow {
            self.stats.tx_drop_oversize += 1;
        } else if held == 0 {
            self.stats.tx_drop_empty += 1;
        } else if self.tx.queue.packet.segments {
            self.cut_segment(held, true, ending);
        } else {
            let buffer = self.buffers.take();
            let mut bytes = std::mem::replace(&mut self.tx.queue.packet.bytes, buffer);
            let Packet { options, checksum_start, .. } = self.tx.queue.packet;
            let good = match descriptor {
                Descriptor::Legacy { command, checksum_offset, .. } if command & txd::IC != 0 => {
                    offload::insert(&mut bytes, checksum_start.into(), 0, checksum_offset.into(), false)
                }
                Descriptor::Data { .. } => {
                    offload::checksums(&mut bytes, &self.tx.queue.plain_context.offsets(), sums(options))
                }
                _ => true,
            };
            self.stats.tx_malformed += u64::from(!good);
            self.queue_frame(bytes, ending);
        }
        self.tx.queue.packet.clear();
    }

    /// Sends every segment that is complete and surely not the last.
    fn cut_segments(&mut self) {
        let Context { header_len, mss, .. } = self.tx.queue.segment_context;
        let (header, mss) = (usize::from(header_len), usize::from(mss));
        // A context that software slips in between a packet's descriptors may have no segment size.
        if !self.tx.queue.packet.segments || mss == 0 {
            return;
        }
        // What the last descriptor says is not known yet; drivers say the same in all of a packet's descriptors.
        let ending = self.segment_ending();
        let mut at = header;
        while self.tx.queue.packet.bytes.len() > at + mss {
            self.cut_segment_at(at, mss, false, ending);
            at += mss;
        }
        if at != header {
            self.tx.queue.packet.bytes.drain(header..at);
            self.tx.queue.reserved -= (at - header) as u64;
        }
    }

    /// Command and tag of the packet's descriptor that stands at the front.
    fn segment_ending(&self) -> Ending {
        match self.tx.queue.jobs.front().map(|job| Descriptor::parse(job.words)) {
            Some(Descriptor::Data { command, special, .. }) => Ending { command, special },
            _ => Ending { command: txd::IFCS, special: 0 },
        }
    }

    /// The last segment: all that is left.
    fn cut_segment(&mut self, held: usize, last: bool, ending: Ending) {
        let header = usize::from(self.tx.queue.segment_context.header_len).min(held);
        self.cut_segment_at(header, held - header, last, ending);
    }

    /// A frame of the header and the payload at `at`.
    fn cut_segment_at(&mut self, at: usize, len: usize, last: bool, ending: Ending) {
        let context = self.tx.queue.segment_context;
        let header = usize::from(context.header_len).min(at);
        let mut bytes = self.buffers.take();
        bytes.extend_from_slice(&self.tx.queue.packet.bytes[..header]);
        bytes.extend_from_slice(&self.tx.queue.packet.bytes[at..at + len]);
        let packet = &mut self.tx.queue.packet;
        let part = offload::Part { number: packet.cut, offset: packet.cut_bytes, last };
        packet.cut = packet.cut.wrapping_add(1);
        packet.cut_bytes = packet.cut_bytes.wrapping_add(len as u32);
        let (headers, options) = (context.offsets(), packet.options);
        let good = offload::segment(&mut bytes, &headers, part)
            & offload::checksums(&mut bytes, &headers, sums(options));
        self.stats.tx_malformed += u64::from(!good);
        self.stats.tx_segments += 1;
        self.queue_frame(bytes, ending);
    }

    /// The last steps: tag, padding, FCS; then the FIFO.
    fn queue_frame(&mut self, mut bytes: Vec<u8>, ending: Ending) {
        let mut fcs_bad = false;
        if ending.command & txd::IFCS == 0 && bytes.len() > Frame::FCS_BYTES {
            // Software supplies the FCS as the last four bytes.
            let given = bytes.split_off(bytes.len() - Frame::FCS_BYTES);
            fcs_bad = given != checksum::fcs(&bytes).to_le_bytes();
        }
        if ending.command & txd::VLE != 0 && self.regs.has(Reg::Ctrl, ctrl::VME) && bytes.len() >= 12 {
            let [tag_high, tag_low] = ending.special.to_be_bytes();
            let [type_high, type_low] = (self.regs.get(Reg::Vet) as u16).to_be_bytes();
            bytes.splice(12..12, [type_high, type_low, tag_high, tag_low]);
        }
        if bytes.len() > LONGEST {
            self.stats.tx_drop_oversize += 1;
            return self.buffers.recycle(bytes);
        }
        let shortest = Frame::MIN_BYTES_WITH_FCS - Frame::FCS_BYTES;
        if self.regs.has(Reg::Tctl, tctl::PSP) && bytes.len() < shortest {
            bytes.resize(shortest, 0);
        }
        let frame = Frame { bytes, fcs_bad };
        self.stats.tx_frames += 1;
        self.tx.fifo.push((frame, self.tx.queue.stamps));
    }
}
