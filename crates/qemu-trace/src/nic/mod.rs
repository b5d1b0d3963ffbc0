//! What the NIC's events in QEMU mean, of Intel's NICs; what one model of them has of its own is [`NicModel`].
//!
//! QEMU tells nobody that descriptors are read and written back: that follows from where the rings are. Transmitted frames are not
//! seen being read, as QEMU maps them: they are read when their descriptors are. What is written in pieces to neighbouring bytes is
//! one write here, as is a descriptor whose status QEMU writes once more.

mod model;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::event::{Event, Nic, Of, Recorder};
use crate::stream::Device;
pub use model::{E1000E, IGB, NICS, NicModel, nic};

/// A ring's registers, from its first one on.
const BASE_LOW: u64 = 0;
const BASE_HIGH: u64 = 4;
const LENGTH: u64 = 8;
const DESCRIPTOR_BYTES: u64 = 16;
/// Of a transmit descriptor's second word: an extended one, of data if this bit is set, the last one of its frame.
const EXTENDED: u32 = 1 << 29;
const DATA: u32 = 1 << 20;
const END_OF_PACKET: u32 = 1 << 24;

/// Follows the NIC's events.
#[derive(Debug)]
pub struct Follower {
    model: &'static NicModel,
    registers: BTreeMap<u64, u64>,
    rings: Vec<Ring>,
    /// What has been written last and may go on.
    pending: Option<Pending>,
    /// The frame that arrives, and how much of it has been written.
    arriving: Option<u64>,
    written: u64,
    received: u64,
    /// How much of the frame that is transmitted has been read, and where it lies.
    read: u64,
    buffers: Vec<(u64, u64)>,
    sent: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ring {
    is_transmit: bool,
    number: u8,
    base: u64,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    is_write: bool,
    addr: u64,
    bytes: u64,
    of: Of,
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
        }
    }

    /// Software writes a register. Before the window that says only where rings are.
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
                    self.rings.push(Ring { is_transmit, number: number as u8, base, bytes });
                }
            }
        }
    }

    /// A device did something.
    pub fn device(&mut self, device: Device, recorder: &mut impl Recorder) {
        if let Device::Dma { is_write, addr, bytes } = device {
            return self.dma(is_write, addr, bytes, recorder);
        }
        self.flush(recorder);
        let mut tell = |nic: Nic| recorder.event(Event::Nic(nic));
        match device {
            Device::Register(offset, value) => {
                if let Some((is_transmit, ring)) = self.model.doorbell(offset) {
                    tell(Nic::Doorbell(is_transmit, ring, value as u32));
                } else {
                    self.register(offset, value);
                }
            }
            Device::RxFrame => {
                self.arriving = Some(self.received);
                self.written = 0;
                tell(Nic::Arrives(self.received));
                self.received += 1;
            }
            Device::RxDone | Device::RxDropped => {
                let Some(frame) = self.arriving.take() else { return };
                tell(if device == Device::RxDone { Nic::Delivered(frame) } else { Nic::Dropped(frame) });
            }
            Device::TxDescriptor(addr, lower, _) => self.transmit(addr, lower, recorder),
            Device::Interrupt(vector) => tell(Nic::Interrupt(vector)),
            Device::Dma { .. } | Device::RxBuffer | Device::Other => {}
        }
    }

    /// Tells of what was held back in case that it went on.
    pub fn flush(&mut self, recorder: &mut impl Recorder) {
        if let Some(Pending { is_write, addr, bytes, of }) = self.pending.take() {
            recorder.event(Event::Nic(Nic::Dma { is_write, addr, bytes, of }));
        }
    }

    /// Whether something is held back.
    pub fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    fn dma(&mut self, is_write: bool, addr: u64, bytes: u64, recorder: &mut impl Recorder) {
        let ring = self.rings.iter().find(|ring| addr.wrapping_sub(ring.base) < ring.bytes);
        let of = match ring {
            Some(ring) => {
                let place = (addr - ring.base) / DESCRIPTOR_BYTES;
                Of::Descriptor(ring.is_transmit, ring.number, place as u32)
            }
            // The copies that QEMU's user network makes of what is transmitted.
            None if !is_write => return,
            None => match self.arriving {
                Some(frame) => Of::Frame(false, frame, self.written),
                // QEMU puts checksums into what is transmitted where it lies; a NIC does that on the way.
                None if self.is_transmitted(addr) => return,
                None => Of::Other,
            },
        };
        if is_write && matches!(of, Of::Frame(..)) {
            self.written += bytes;
        }
        if let Some(last) = self.pending.as_mut().filter(|last| last.is_write == is_write) {
            let is_again =
                last.of == of && addr >= last.addr && addr + bytes <= last.addr + last.bytes && is_write;
            let goes_on = match (last.of, of) {
                (Of::Frame(_, one, _), Of::Frame(_, other, _)) => {
                    one == other && last.addr + last.bytes == addr
                }
                _ => false,
            };
            if goes_on {
                last.bytes += bytes;
            }
            if is_again || goes_on {
                return;
            }
        }
        self.flush(recorder);
        self.pending = Some(Pending { is_write, addr, bytes, of });
    }

    fn is_transmitted(&self, addr: u64) -> bool {
        self.buffers.iter().any(|(from, bytes)| addr.wrapping_sub(*from) < *bytes)
    }

    /// A transmit descriptor has been read (82574L, 7.2.10): the data that it names are read next.
    fn transmit(&mut self, addr: u64, lower: u32, recorder: &mut impl Recorder) {
        if lower & EXTENDED != 0 && lower & DATA == 0 {
            return;
        }
        let mask = if lower & EXTENDED == 0 { 0xffff } else { (1 << self.model.length_bits) - 1 };
        let bytes = u64::from(lower & mask);
        if bytes > 0 {
            let of = Of::Frame(true, self.sent, self.read);
            recorder.event(Event::Nic(Nic::Dma { is_write: false, addr, bytes, of }));
            if self.read == 0 {
                self.buffers.clear();
            }
            self.buffers.push((addr, bytes));
            self.read += bytes;
        }
        if lower & END_OF_PACKET != 0 {
            recorder.event(Event::Nic(Nic::Sent(self.sent)));
            self.sent += 1;
            self.read = 0;
        }
    }
}
