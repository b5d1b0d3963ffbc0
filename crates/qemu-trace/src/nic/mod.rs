//! Interprets QEMU's NIC events as DMA, for Intel NICs; [`NicModel`] has the differences between models.
//!
//! QEMU has no events for descriptor reads and write-backs: they are recognised by the rings' addresses.
//! Reads of transmitted frames are invisible, because QEMU maps the buffers. They are assumed when the
//! descriptor is read. Writes to adjacent bytes are merged, as are repeated status writes of a descriptor. A
//! received frame's length is known only after it is in memory, so events in between are held back. Frames
//! that the NIC drops are not recorded, because their length is unknown.
//!
//! Data that the NIC segments itself (82574L 7.2.11) are read under the number of the first of these frames;
//! offsets count within the whole data.

mod model;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use doorbell_sim::Ps;
use doorbell_sim::ports::{DmaDirection, DmaPurpose, PhysAddr};
use doorbell_trace::system::{Dma, EventKind};

use crate::stream::Device;
pub use model::{E1000E, EVENTS, IGB, NICS, NicModel, nic};

/// Offsets of a ring's registers from its first one.
const BASE_LOW: u64 = 0;
const BASE_HIGH: u64 = 4;
const LENGTH: u64 = 8;
const DESCRIPTOR_BYTES: u64 = 16;
/// Receive control (10.2.5.1), and its bit that strips the frame check sequence.
const RCTL: u64 = 0x100;
const STRIP_CRC: u64 = 1 << 26;
/// Second word of a transmit descriptor: extended format, data descriptor, last descriptor of the frame.
const EXTENDED: u32 = 1 << 29;
const DATA: u32 = 1 << 20;
const END_OF_PACKET: u32 = 1 << 24;
/// Ethernet frame check sequence, and minimum frame size including it.
const FCS_BYTES: u64 = 4;
const FRAME_BYTES_MIN: u64 = 64;

/// Converts the NIC's raw events to device events.
#[derive(Debug)]
pub struct Follower {
    model: &'static NicModel,
    registers: BTreeMap<u64, u64>,
    rings: Vec<Ring>,
    /// The last request, which the next may extend.
    pending: Option<Pending>,
    /// Events held back while a frame arrives, and its bytes written so far.
    arriving: Option<Vec<EventKind>>,
    written: u64,
    received: u64,
    /// Bytes read of the frame being transmitted, and its buffers.
    read: u64,
    buffers: Vec<(u64, u64)>,
    sent: u64,
    /// Segmentation: bytes of the headers and of payload per frame.
    segments: (u64, u64),
    /// Writes outside frames and rings.
    others: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ring {
    is_transmit: bool,
    base: u64,
    bytes: u64,
}

/// A DMA request; `offset` is its position in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pending {
    purpose: DmaPurpose,
    direction: DmaDirection,
    addr: u64,
    bytes: u64,
    frame: u64,
    offset: u64,
}

impl Pending {
    fn event(self) -> EventKind {
        let Pending { purpose, direction, addr, bytes, frame, offset } = self;
        let (addr, len, offset) = (PhysAddr(addr), bytes as u32, offset as u32);
        EventKind::Dma(Dma { purpose, direction, addr, len, frame, offset, took: Ps::ZERO, visible: 0 })
    }
}

impl Follower {
    /// Initial state.
    pub fn new(model: &'static NicModel) -> Follower {
        Follower {
            model,
            registers: BTreeMap::new(),
            rings: Vec::new(),
            pending: None,
            arriving: None,
            written: 0,
            received: 0,
            read: 0,
            buffers: Vec::new(),
            sent: 0,
            segments: (0, 0),
            others: 0,
        }
    }

    /// Number of DMA writes outside frames and rings, which are not recorded.
    pub fn others(&self) -> u64 {
        self.others
    }

    /// Applies a register write from before the window.
    pub fn register(&mut self, offset: u64, value: u64) {
        self.registers.insert(self.model.register(offset), value);
        self.rings.clear();
        for (is_transmit, first) in [(false, self.model.receive), (true, self.model.transmit)] {
            for number in 0..self.model.rings {
                let at = |register: u64| {
                    self.registers
                        .get(&(first + number * self.model.ring_stride + register))
                        .copied()
                        .unwrap_or(0)
                };
                let (base, bytes) = (at(BASE_HIGH) << 32 | at(BASE_LOW), at(LENGTH));
                if bytes > 0 {
                    self.rings.push(Ring { is_transmit, base, bytes });
                }
            }
        }
    }

    /// Handles a raw event and calls `emit` for the resulting device events. `place` is the physical address
    /// of the register written.
    pub fn device(&mut self, device: Device, place: Option<u64>, emit: &mut impl FnMut(EventKind)) {
        if let Device::Dma { is_write, addr, bytes } = device {
            return self.dma(is_write, addr, bytes, emit);
        }
        self.flush(emit);
        match device {
            Device::Register { offset, size, value } => {
                if !self.model.is_tail(offset) {
                    self.register(offset, value);
                }
                if let Some(place) = place {
                    emit(EventKind::Register { addr: PhysAddr(place), size, value, stored: None });
                }
            }
            Device::RxFrame => {
                self.end_receive(false, emit);
                self.arriving = Some(Vec::new());
                self.written = 0;
            }
            Device::RxDone => self.end_receive(true, emit),
            Device::RxDropped => self.end_receive(false, emit),
            Device::TxDescriptor(addr, lower, upper) => self.transmit(addr, lower, upper, emit),
            Device::Interrupt(_) => self.emit_or_hold(EventKind::Interrupt { raised: true }, emit),
            Device::Dma { .. } | Device::RxBuffer | Device::Other => {}
        }
    }

    /// Emits the pending request.
    pub fn flush(&mut self, emit: &mut impl FnMut(EventKind)) {
        if let Some(pending) = self.pending.take() {
            self.emit_or_hold(pending.event(), emit);
        }
    }

    fn emit_or_hold(&mut self, event: EventKind, emit: &mut impl FnMut(EventKind)) {
        match &mut self.arriving {
            Some(held_back) => held_back.push(event),
            None => emit(event),
        }
    }

    /// Ends a received frame, complete or dropped.
    fn end_receive(&mut self, is_whole: bool, emit: &mut impl FnMut(EventKind)) {
        let Some(held_back) = self.arriving.take() else { return };
        if is_whole {
            let strips = self.registers.get(&RCTL).is_none_or(|control| control & STRIP_CRC != 0);
            let bytes = self.written + if strips { FCS_BYTES } else { 0 };
            emit(EventKind::FrameIn { bytes: bytes.max(FRAME_BYTES_MIN) as u32 });
            self.received += 1;
        }
        held_back.into_iter().for_each(emit);
    }

    /// Purpose, frame number and offset of a request.
    fn classify(&mut self, is_write: bool, addr: u64) -> Option<(DmaPurpose, u64, u64)> {
        if let Some(ring) = self.rings.iter().find(|ring| addr.wrapping_sub(ring.base) < ring.bytes) {
            let purpose = if ring.is_transmit { DmaPurpose::TxDescriptor } else { DmaPurpose::RxDescriptor };
            return Some((purpose, 0, 0));
        }
        // Other reads are QEMU's user network copying transmitted data.
        if !is_write {
            return None;
        }
        if self.arriving.is_some() {
            return Some((DmaPurpose::RxData, self.received, self.written));
        }
        // QEMU writes checksums into the transmit buffers; a NIC inserts them on the way.
        if !self.buffers.iter().any(|(from, bytes)| addr.wrapping_sub(*from) < *bytes) {
            self.others += 1;
        }
        None
    }

    fn dma(&mut self, is_write: bool, addr: u64, bytes: u64, emit: &mut impl FnMut(EventKind)) {
        let Some((purpose, frame, offset)) = self.classify(is_write, addr) else { return };
        let direction = if is_write { DmaDirection::Write } else { DmaDirection::Read };
        let is_data = purpose == DmaPurpose::RxData;
        if is_data {
            self.written += bytes;
        }
        let same_kind = |last: &&mut Pending| (last.purpose, last.direction) == (purpose, direction);
        if let Some(last) = self.pending.as_mut().filter(same_kind) {
            let same = |address: u64| address / DESCRIPTOR_BYTES * DESCRIPTOR_BYTES;
            let is_rewrite = is_write
                && !is_data
                && same(addr) == same(last.addr)
                && addr >= last.addr
                && addr + bytes <= last.addr + last.bytes;
            let extends = is_data && frame == last.frame && last.addr + last.bytes == addr;
            if extends {
                last.bytes += bytes;
            }
            if is_rewrite || extends {
                return;
            }
        }
        self.flush(emit);
        self.pending = Some(Pending { purpose, direction, addr, bytes, frame, offset });
    }

    /// Handles the read of a transmit descriptor (82574L, 7.2.10), after which its data are read.
    fn transmit(&mut self, addr: u64, lower: u32, upper: u32, emit: &mut impl FnMut(EventKind)) {
        if lower & EXTENDED != 0 && lower & DATA == 0 {
            // Context descriptor: header length and segment size.
            let further = if self.model.adds_headers { (addr & 0x1ff) + (addr >> 9 & 0x7f) } else { 0 };
            self.segments = (further + u64::from(upper >> 8 & 0xff), u64::from(upper >> 16));
            return;
        }
        let mask = if lower & EXTENDED == 0 { 0xffff } else { (1 << self.model.length_bits) - 1 };
        let bytes = u64::from(lower & mask);
        if bytes > 0 {
            let (purpose, direction) = (DmaPurpose::TxData, DmaDirection::Read);
            let read = Pending { purpose, direction, addr, bytes, frame: self.sent, offset: self.read };
            self.emit_or_hold(read.event(), emit);
            if self.read == 0 {
                self.buffers.clear();
            }
            self.buffers.push((addr, bytes));
            self.read += bytes;
        }
        if lower & END_OF_PACKET != 0 {
            self.end_transmit(lower & EXTENDED != 0 && lower & self.model.segments != 0, emit);
        }
    }

    /// Ends a transmitted frame, or data to be segmented.
    fn end_transmit(&mut self, is_cut: bool, emit: &mut impl FnMut(EventKind)) {
        let all = std::mem::take(&mut self.read);
        let (header, segment) = match self.segments {
            (header, segment) if is_cut && segment > 0 && header < all => (header, segment),
            _ => (0, all.max(1)),
        };
        let mut data = all - header;
        loop {
            let now = data.min(segment);
            let bytes = (header + now + FCS_BYTES).max(FRAME_BYTES_MIN);
            self.emit_or_hold(EventKind::FrameOut { bytes: bytes as u32 }, emit);
            self.sent += 1;
            data -= now;
            if data == 0 {
                return;
            }
        }
    }
}
