//! Packet assembly: bytes arrive, descriptors retire, and each complete packet or segment becomes a frame in
//! the packet buffer.

use doorbell_pcie::FunctionPorts;
use doorbell_sim::ports::PhysAddr;
use doorbell_sim::{Frame, Ps, TxStamps};
use serde::{Deserialize, Serialize};

use super::{Context, Descriptor, sums};
use crate::intel::bits::{ctrl, tctl, txd};
use crate::intel::chip::SegmentationCount;
use crate::intel::{Chip, Controller};
use crate::parts::{checksum, offload};

/// Index of the segmentation context, for chips with a dedicated one (82540EM).
pub(in crate::intel) const SEGMENTATION: usize = 1;

/// A packet being assembled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) struct Packet<X: Context> {
    /// Bytes received from memory. With segmentation, only the headers and the payload not yet cut into
    /// segments.
    pub bytes: Vec<u8>,
    /// POPTS and context of the first data descriptor.
    pub options: u8,
    pub context: X,
    /// CSS of the first legacy descriptor.
    pub checksum_start: u8,
    /// The packet's first descriptor has been processed, so the packet's options are valid.
    pub begun: bool,
    /// The packet is cut into segments.
    pub segments: bool,
    /// Segments cut so far, and their payload bytes.
    pub cut: u32,
    pub cut_bytes: u32,
    /// The packet exceeds the maximum length; it is discarded.
    pub overflow: bool,
}

impl<X: Context> Packet<X> {
    /// Empties the packet but keeps its allocation.
    pub fn clear(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        *self = Packet { bytes, ..Packet::default() };
    }
}

/// Options of a frame from the last descriptor of its packet.
#[derive(Clone, Copy)]
struct FrameOptions {
    command: u8,
    vlan: u16,
}

/// Inserts the checksums requested by POPTS. Returns false if the context's lengths are invalid.
fn insert_sums(bytes: &mut [u8], context: &impl Context, options: u8) -> bool {
    let mut requested = sums(options);
    let mut good = true;
    if requested.transport && context.is_sctp() {
        requested.transport = false;
        let packet = bytes.get_mut(context.offsets().transport_start..).unwrap_or_default();
        let sum = checksum::sctp(packet);
        match packet.get_mut(checksum::SCTP_FIELD) {
            Some(field) => field.copy_from_slice(&sum.to_le_bytes()),
            None => good = false,
        }
    }
    good & offload::checksums(bytes, &context.offsets(), requested)
}

impl<C: Chip> Controller<C> {
    /// Handles a piece of a buffer read from memory. It belongs to the queue's oldest job that waits for
    /// bytes.
    pub(in crate::intel) fn tx_data_arrived(
        &mut self,
        now: Ps,
        queue: usize,
        addr: u64,
        len: u32,
        ports: &mut dyn FunctionPorts,
    ) {
        self.tx.reads_in_flight -= 1;
        // Retire descriptors without bytes ahead of the one that the piece belongs to.
        self.tx_retire(queue);
        let Some(job) = self.tx.queues[queue].jobs.front_mut() else { return };
        job.to_arrive -= len;
        job.stamps.0.read = now;
        let (words, stamps) = (job.words, job.stamps.0);
        self.tx_record_stamps(queue, stamps);
        let limit = C::LONGEST_SENT + self.config.tx_read_max.0 as usize;
        let packet = &mut self.tx.queues[queue].packet;
        let before = packet.bytes.len();
        // With segmentation, complete segments leave at once, so less than a segment plus a piece is buffered.
        if before + len as usize > limit {
            packet.overflow = true;
            self.tx.reserved -= u64::from(len);
        } else {
            packet.bytes.resize(before + len as usize, 0);
            ports.read(PhysAddr(addr), &mut packet.bytes[before..]);
            self.begin_packet(queue, C::descriptor(words));
            self.cut_segments(queue);
        }
    }

    /// Takes the packet's options from its first descriptor. No-op for later descriptors.
    fn begin_packet(&mut self, queue: usize, descriptor: Descriptor<C::Context>) {
        let counted = &mut self.queue_stats[queue];
        let queue = &mut self.tx.queues[queue];
        if queue.packet.begun {
            return;
        }
        queue.packet.begun = true;
        if let Descriptor::Legacy { checksum_start, .. } = descriptor {
            queue.packet.checksum_start = checksum_start;
        }
        if let Descriptor::Data { options, index, segments: requested, .. } = descriptor {
            let context = queue.contexts[index];
            (queue.packet.options, queue.packet.context) = (options, context);
            let possible = context.mss() != 0 && context.header_len() != 0;
            queue.packet.segments = requested && possible;
            self.stats.tx_malformed += u64::from(requested && !possible);
            counted.tx_malformed += u64::from(requested && !possible);
            if queue.packet.segments && C::TSCTC == SegmentationCount::Packets {
                self.regs.count(C::REG.tsctc);
            }
        }
    }

    /// Processes a retired descriptor, whose bytes, if any, are in the packet.
    pub(super) fn tx_process(&mut self, queue: usize, descriptor: Descriptor<C::Context>) {
        match descriptor {
            Descriptor::Context { index, context, .. } => {
                self.tx.queues[queue].contexts[index] = context;
                if C::TSCTC == SegmentationCount::Contexts && index == SEGMENTATION {
                    self.regs.count(C::REG.tsctc);
                }
            }
            Descriptor::Unknown { .. } => self.tx_count_malformed(queue),
            Descriptor::Legacy { command, vlan, .. } => {
                self.begin_packet(queue, descriptor);
                if command & txd::EOP != 0 {
                    self.end_packet(queue, descriptor, FrameOptions { command, vlan });
                }
            }
            Descriptor::Data { command, vlan, .. } => {
                self.begin_packet(queue, descriptor);
                let vlan = vlan.unwrap_or(self.tx.queues[queue].packet.context.vlan());
                if command & txd::EOP != 0 {
                    self.end_packet(queue, descriptor, FrameOptions { command, vlan });
                }
            }
        }
    }

    fn tx_count_malformed(&mut self, queue: usize) {
        self.stats.tx_malformed += 1;
        self.queue_stats[queue].tx_malformed += 1;
        C::count_bad_packet(&mut self.regs, queue);
    }

    fn tx_count_oversize(&mut self, queue: usize) {
        self.stats.tx_drop_oversize += 1;
        self.queue_stats[queue].tx_drop_oversize += 1;
        C::count_bad_packet(&mut self.regs, queue);
    }

    /// Turns a complete packet into a frame, or drops it.
    fn end_packet(&mut self, queue: usize, descriptor: Descriptor<C::Context>, frame_options: FrameOptions) {
        let packet = &mut self.tx.queues[queue].packet;
        let len = packet.bytes.len();
        self.tx.reserved -= len as u64;
        if packet.overflow {
            self.tx_count_oversize(queue);
        } else if len == 0 {
            self.stats.tx_drop_empty += 1;
            self.queue_stats[queue].tx_drop_empty += 1;
        } else if packet.segments {
            let header = packet.context.header_len().min(len);
            self.cut_segment_at(queue, header, len - header, true, frame_options);
        } else {
            let mut bytes = std::mem::replace(&mut packet.bytes, self.buffers.take());
            let Packet { options, checksum_start, context, .. } = *packet;
            let good = match descriptor {
                Descriptor::Legacy { command, checksum_offset, .. } if command & txd::IC != 0 => {
                    offload::insert(&mut bytes, checksum_start.into(), 0, checksum_offset.into(), false)
                }
                Descriptor::Data { .. } => insert_sums(&mut bytes, &context, options),
                _ => true,
            };
            if !good {
                self.tx_count_malformed(queue);
            }
            self.queue_frame(queue, bytes, frame_options);
        }
        self.tx.queues[queue].packet.clear();
    }

    /// Queues every complete segment that cannot be the last.
    fn cut_segments(&mut self, queue: usize) {
        let packet = &self.tx.queues[queue].packet;
        let (header, mss) = (packet.context.header_len(), packet.context.mss());
        if !packet.segments || mss == 0 {
            return;
        }
        // The last descriptor may not be fetched yet, so the current one's options are used; drivers set the
        // same in all.
        let of_context = packet.context.vlan();
        let frame_options = match self.tx.queues[queue].jobs.front().map(|job| C::descriptor(job.words)) {
            Some(Descriptor::Data { command, vlan, .. }) => {
                FrameOptions { command, vlan: vlan.unwrap_or(of_context) }
            }
            _ => FrameOptions { command: txd::IFCS, vlan: of_context },
        };
        let mut at = header;
        while self.tx.queues[queue].packet.bytes.len() > at + mss {
            self.cut_segment_at(queue, at, mss, false, frame_options);
            at += mss;
        }
        if at != header {
            self.tx.queues[queue].packet.bytes.drain(header..at);
            self.tx.reserved -= (at - header) as u64;
        }
    }

    /// Queues a frame made of the headers and `len` payload bytes at `at`.
    fn cut_segment_at(
        &mut self,
        queue: usize,
        at: usize,
        len: usize,
        last: bool,
        frame_options: FrameOptions,
    ) {
        let packet = &mut self.tx.queues[queue].packet;
        let header = packet.context.header_len().min(at);
        let mut bytes = self.buffers.take();
        bytes.extend_from_slice(&packet.bytes[..header]);
        bytes.extend_from_slice(&packet.bytes[at..at + len]);
        let part = offload::Part { number: packet.cut, offset: packet.cut_bytes, last };
        packet.cut = packet.cut.wrapping_add(1);
        packet.cut_bytes = packet.cut_bytes.wrapping_add(len as u32);
        let options = packet.options;
        let good = offload::segment(&mut bytes, &packet.context.offsets(), part)
            & insert_sums(&mut bytes, &packet.context, options);
        if !good {
            self.tx_count_malformed(queue);
        }
        self.stats.tx_segments += 1;
        self.queue_frame(queue, bytes, frame_options);
    }

    /// Finishes a frame (FCS, VLAN tag, padding) and puts it into the packet buffer.
    fn queue_frame(&mut self, queue: usize, mut bytes: Vec<u8>, frame_options: FrameOptions) {
        let mut fcs_bad = false;
        if frame_options.command & txd::IFCS == 0 && bytes.len() > Frame::FCS_BYTES {
            // Software supplies the FCS as the last four bytes.
            let given = bytes.split_off(bytes.len() - Frame::FCS_BYTES);
            fcs_bad = given != crc32fast::hash(&bytes).to_le_bytes();
        }
        if frame_options.command & txd::VLE != 0 && self.regs.has(C::REG.ctrl, ctrl::VME) && bytes.len() >= 12
        {
            let [tag_high, tag_low] = frame_options.vlan.to_be_bytes();
            let [type_high, type_low] = (self.regs.get(C::REG.vet) as u16).to_be_bytes();
            bytes.splice(12..12, [type_high, type_low, tag_high, tag_low]);
        }
        if bytes.len() > C::LONGEST_SENT {
            self.tx_count_oversize(queue);
            return self.buffers.recycle(bytes);
        }
        let shortest = Frame::MIN_BYTES_WITH_FCS - Frame::FCS_BYTES;
        if self.regs.has(C::REG.tctl, tctl::PSP) && bytes.len() < shortest {
            bytes.resize(shortest, 0);
        }
        let frame = Frame { bytes, fcs_bad };
        self.stats.tx_frames += 1;
        self.queue_stats[queue].tx_frames += 1;
        self.queue_stats[queue].tx_bytes += frame.len_with_fcs() as u64;
        self.tx.fifo.push((frame, TxStamps { queue: queue as u8, ..self.tx.queues[queue].stamps }));
    }
}
