//! What the NIC's events in QEMU mean, of Intel's NICs; what one model of them has of its own is [`NicModel`].
//!
//! QEMU tells nobody that descriptors are read and written back: that follows from where the rings are. Transmitted frames are not
//! seen being read, as QEMU maps them: they are read when their descriptors are. What is written in pieces to neighbouring bytes is
//! one write here, as is a descriptor whose status QEMU writes once more. How long a frame is that arrives is known when it is in memory,
//! so what happens meanwhile is held back. One that the NIC throws away is not told at all, as its length is not.
//!
//! Data that the NIC cuts into frames by itself (segmentation, 82574L 7.2.11) are read under the number of the first of these frames, and
//! by their place in the whole.

mod model;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use doorbell_sim::Ps;
use doorbell_sim::ports::{DmaKind, PhysAddr};
use doorbell_trace::system::{Dma, Happening};

use crate::stream::Device;
pub use model::{E1000E, EVENTS, IGB, NICS, NicModel, nic};

/// A ring's registers, from its first one on.
const BASE_LOW: u64 = 0;
const BASE_HIGH: u64 = 4;
const LENGTH: u64 = 8;
const DESCRIPTOR_BYTES: u64 = 16;
/// Receive control (10.2.5.1), and its bit by which the frame check sequence is left out of memory.
const RCTL: u64 = 0x100;
const STRIP_CRC: u64 = 1 << 26;
/// Of a transmit descriptor's second word: an extended one, of data if this bit is set, the last one of its frame.
const EXTENDED: u32 = 1 << 29;
const DATA: u32 = 1 << 20;
const END_OF_PACKET: u32 = 1 << 24;
/// Ethernet's frame check sequence, and its shortest frame with it.
const FCS_BYTES: u64 = 4;
const FRAME_BYTES_MIN: u64 = 64;

/// Follows the NIC's events.
#[derive(Debug)]
pub struct Follower {
    model: &'static NicModel,
    registers: BTreeMap<u64, u64>,
    rings: Vec<Ring>,
    /// What has been written last and may go on.
    pending: Option<Pending>,
    /// The frame that arrives: what is held back of it, and how much of it has been written.
    arriving: Option<Vec<Happening>>,
    written: u64,
    received: u64,
    /// How much of the frame that is transmitted has been read, and where it lies.
    read: u64,
    buffers: Vec<(u64, u64)>,
    sent: u64,
    /// How such data are to be cut: bytes of the headers that each frame gets, and of the data in each.
    segments: (u64, u64),
    /// Writes that are of no frame and no ring of the NIC's.
    others: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ring {
    is_transmit: bool,
    base: u64,
    bytes: u64,
}

/// What a request is of, and which byte of its frame is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pending {
    is_write: bool,
    addr: u64,
    bytes: u64,
    kind: DmaKind,
    frame: u64,
    offset: u64,
}

impl Follower {
    /// Before anything has happened.
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

    /// Writes by devices that were of no frame and no ring, and are not told.
    pub fn others(&self) -> u64 {
        self.others
    }

    /// Software has set a register before the window.
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

    /// A device did something; `tell` is told what there is to tell. `place` is where in memory the register lies that was stored to.
    pub fn device(&mut self, device: Device, place: Option<u64>, tell: &mut impl FnMut(Happening)) {
        if let Device::Dma { is_write, addr, bytes } = device {
            return self.dma(is_write, addr, bytes, tell);
        }
        self.flush(tell);
        match device {
            Device::Register { offset, size, value } => {
                if !self.model.is_tail(offset) {
                    self.register(offset, value);
                }
                if let Some(place) = place {
                    tell(Happening::Register { addr: PhysAddr(place), size, value, stored: None });
                }
            }
            Device::RxFrame => {
                self.arrived(false, tell);
                self.arriving = Some(Vec::new());
                self.written = 0;
            }
            Device::RxDone => self.arrived(true, tell),
            Device::RxDropped => self.arrived(false, tell),
            Device::TxDescriptor(addr, lower, upper) => self.transmit(addr, lower, upper, tell),
            Device::Interrupt(_) => self.put(Happening::Interrupt { raised: true }, tell),
            Device::Dma { .. } | Device::RxBuffer | Device::Other => {}
        }
    }

    /// Tells of what was held back in case that it went on.
    pub fn flush(&mut self, tell: &mut impl FnMut(Happening)) {
        if let Some(Pending { is_write, addr, bytes, kind, frame, offset }) = self.pending.take() {
            let (len, offset) = (bytes as u32, offset as u32);
            let dma = Dma {
                kind,
                write: is_write,
                addr: PhysAddr(addr),
                len,
                frame,
                offset,
                took: Ps::ZERO,
                visible: 0,
            };
            self.put(Happening::Dma(dma), tell);
        }
    }

    fn put(&mut self, happening: Happening, tell: &mut impl FnMut(Happening)) {
        match &mut self.arriving {
            Some(held) => held.push(happening),
            None => tell(happening),
        }
    }

    /// A frame is in memory, or was thrown away.
    fn arrived(&mut self, is_whole: bool, tell: &mut impl FnMut(Happening)) {
        let Some(held) = self.arriving.take() else { return };
        if is_whole {
            let strips = self.registers.get(&RCTL).is_none_or(|control| control & STRIP_CRC != 0);
            let bytes = self.written + if strips { FCS_BYTES } else { 0 };
            tell(Happening::FrameIn { bytes: bytes.max(FRAME_BYTES_MIN) as u32 });
            self.received += 1;
        }
        held.into_iter().for_each(tell);
    }

    /// What a request is of.
    fn of(&mut self, is_write: bool, addr: u64) -> Option<(DmaKind, u64, u64)> {
        if let Some(ring) = self.rings.iter().find(|ring| addr.wrapping_sub(ring.base) < ring.bytes) {
            let kind = match (ring.is_transmit, is_write) {
                (false, false) => DmaKind::RxDescriptorFetch,
                (false, true) => DmaKind::RxDescriptorWriteback,
                (true, false) => DmaKind::TxDescriptorFetch,
                (true, true) => DmaKind::TxDescriptorWriteback,
            };
            return Some((kind, 0, 0));
        }
        // Reads of anything else are the copies that QEMU's user network makes of what is transmitted.
        if !is_write {
            return None;
        }
        if self.arriving.is_some() {
            return Some((DmaKind::RxData, self.received, self.written));
        }
        // QEMU puts checksums into what is transmitted where it lies; a NIC does that on the way.
        if !self.buffers.iter().any(|(from, bytes)| addr.wrapping_sub(*from) < *bytes) {
            self.others += 1;
        }
        None
    }

    fn dma(&mut self, is_write: bool, addr: u64, bytes: u64, tell: &mut impl FnMut(Happening)) {
        let Some((kind, frame, offset)) = self.of(is_write, addr) else { return };
        if kind == DmaKind::RxData {
            self.written += bytes;
        }
        if let Some(last) =
            self.pending.as_mut().filter(|last| last.is_write == is_write && last.kind == kind)
        {
            let is_data = kind == DmaKind::RxData;
            let same = |address: u64| address / DESCRIPTOR_BYTES * DESCRIPTOR_BYTES;
            let is_again = is_write
                && !is_data
                && same(addr) == same(last.addr)
                && addr >= last.addr
                && addr + bytes <= last.addr + last.bytes;
            let goes_on = is_data && frame == last.frame && last.addr + last.bytes == addr;
            if goes_on {
                last.bytes += bytes;
            }
            if is_again || goes_on {
                return;
            }
        }
        self.flush(tell);
        self.pending = Some(Pending { is_write, addr, bytes, kind, frame, offset });
    }

    /// A transmit descriptor has been read (82574L, 7.2.10): the data that it names are read next.
    fn transmit(&mut self, addr: u64, lower: u32, upper: u32, tell: &mut impl FnMut(Happening)) {
        if lower & EXTENDED != 0 && lower & DATA == 0 {
            // A context: header length and segment size.
            let further = if self.model.adds_headers { (addr & 0x1ff) + (addr >> 9 & 0x7f) } else { 0 };
            self.segments = (further + u64::from(upper >> 8 & 0xff), u64::from(upper >> 16));
            return;
        }
        let mask = if lower & EXTENDED == 0 { 0xffff } else { (1 << self.model.length_bits) - 1 };
        let bytes = u64::from(lower & mask);
        if bytes > 0 {
            let (frame, offset) = (self.sent, self.read as u32);
            let (kind, place, len) = (DmaKind::TxData, PhysAddr(addr), bytes as u32);
            let dma = Dma { kind, write: false, addr: place, len, frame, offset, took: Ps::ZERO, visible: 0 };
            self.put(Happening::Dma(dma), tell);
            if self.read == 0 {
                self.buffers.clear();
            }
            self.buffers.push((addr, bytes));
            self.read += bytes;
        }
        if lower & END_OF_PACKET != 0 {
            self.sent(lower & EXTENDED != 0 && lower & self.model.segments != 0, tell);
        }
    }

    /// All of a frame, or of what is to be cut into frames, has been read.
    fn sent(&mut self, is_cut: bool, tell: &mut impl FnMut(Happening)) {
        let all = std::mem::take(&mut self.read);
        let (header, segment) = match self.segments {
            (header, segment) if is_cut && segment > 0 && header < all => (header, segment),
            _ => (0, all.max(1)),
        };
        let mut data = all - header;
        loop {
            let now = data.min(segment);
            let bytes = (header + now + FCS_BYTES).max(FRAME_BYTES_MIN);
            self.put(Happening::FrameOut { bytes: bytes as u32 }, tell);
            self.sent += 1;
            data -= now;
            if data == 0 {
                return;
            }
        }
    }
}
