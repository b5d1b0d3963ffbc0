//! The stream of devices' events within a chunk: all devices', in the order in which they happened.

use doorbell_sim::Ps;
use doorbell_sim::ports::{DmaKind, PhysAddr};

use super::bytes::{Column, Malformed, put, put_difference};

/// Columns of a chunk of events.
pub const COLUMNS: usize = 6;
const KINDS: usize = 0;
const ANCHORS: usize = 1;
const TIMES: usize = 2;
const ADDRESSES: usize = 3;
const SIZES: usize = 4;
const VALUES: usize = 5;

/// No device moves more at once.
pub const DMA_BYTES_MAX: u32 = 1 << 20;

/// A request to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dma {
    /// What is moved.
    pub kind: DmaKind,
    /// Whether it is a write.
    pub write: bool,
    /// Where its first byte lies.
    pub addr: PhysAddr,
    /// Bytes.
    pub len: u32,
    /// Of frame data: which of the frames that the device received, or sent, since recording began; from 0.
    pub frame: u64,
    /// Of frame data: which byte of the frame the first one is.
    pub offset: u32,
    /// How long it took where it was recorded; zero if that is not known.
    pub took: Ps,
    /// Of a write: the first instruction of the anchor's hart that could see it.
    pub visible: u64,
}

/// Which instruction stored to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Whose it is.
    pub hart: u16,
    /// How many instructions this hart had executed with it.
    pub after: u64,
}

/// What a device did, or what was done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// It moved data.
    Dma(Dma),
    /// A store to one of its registers arrived: a doorbell, say.
    Register {
        /// Where the register lies in physical memory.
        addr: PhysAddr,
        /// Bytes stored.
        size: u8,
        /// What was stored.
        value: u64,
        /// Which instruction stored it, if that was recorded and is in the trace: it arrives later.
        stored: Option<Stored>,
    },
    /// Its interrupt line changed, or it sent a message.
    Interrupt {
        /// The line's level; a message counts as raised.
        raised: bool,
    },
    /// A frame's last bit reached it.
    FrameIn {
        /// Bytes, FCS included.
        bytes: u32,
    },
    /// It handed a frame to the wire.
    FrameOut {
        /// Bytes, FCS included.
        bytes: u32,
    },
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceEvent {
    /// Which device.
    pub device: u8,
    /// The hart by whose instructions the moment is told.
    pub hart: u16,
    /// How many instructions this hart had executed before it.
    pub after: u64,
    /// The time since the last of them committed.
    pub since: Ps,
    /// What happened.
    pub what: Happening,
}

impl Happening {
    /// Which instruction stored, of a store to a register of which that is told.
    pub fn stored(&self) -> Option<Stored> {
        match self {
            Happening::Register { stored, .. } => *stored,
            _ => None,
        }
    }
}

impl DeviceEvent {
    /// The moments that it is told by, and speaks of: harts, and how many instructions they had executed.
    pub fn moments(&self) -> impl Iterator<Item = (u16, u64)> + use<> {
        let stored = self.what.stored().map(|stored| (stored.hart, stored.after));
        [(self.hart, self.after)].into_iter().chain(stored)
    }

    /// Whether a machine can have recorded it: no request is larger than one can be, and no write is seen before it happens.
    pub(super) fn is_possible(&self) -> bool {
        match self.what {
            Happening::Dma(dma) => dma.len <= DMA_BYTES_MAX && (!dma.write || dma.visible >= self.after),
            _ => true,
        }
    }
}

const REGISTER: u64 = 0;
const LOWERED: u64 = 1;
const RAISED: u64 = 2;
const FRAME_IN: u64 = 3;
const FRAME_OUT: u64 = 4;
/// DMA: twice the number of its kind more, and one for a write.
const DMA: u64 = 5;
/// The version of the format that has stores to registers whose instructions are told.
pub(super) const STORES_SINCE: u32 = 2;
/// One of these.
const STORED: u64 = DMA + 2 * DmaKind::ALL.len() as u64;

/// What both sides know of the stream so far.
#[derive(Default)]
struct Known {
    after: u64,
    /// By DMA kind and direction; the last place is that of registers.
    next: [u64; 13],
    frames: [u64; 13],
}

/// Writes devices' events.
#[derive(Default)]
pub struct DeviceEncoder {
    columns: [Vec<u8>; COLUMNS],
    known: Known,
}

impl DeviceEncoder {
    /// Bytes so far.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(Vec::len).sum()
    }

    /// The columns; the next event begins a new chunk.
    pub fn take(&mut self) -> [Vec<u8>; COLUMNS] {
        std::mem::take(self).columns
    }

    /// Writes an event.
    pub fn event(&mut self, event: &DeviceEvent) {
        let [kinds, anchors, times, addresses, sizes, values] = &mut self.columns;
        let kind = match event.what {
            Happening::Register { stored: None, .. } => REGISTER,
            Happening::Register { .. } => STORED,
            Happening::Interrupt { raised } => LOWERED + u64::from(raised),
            Happening::FrameIn { .. } => FRAME_IN,
            Happening::FrameOut { .. } => FRAME_OUT,
            Happening::Dma(dma) => DMA + dma_number(&dma),
        };
        put(kinds, kind);
        put(kinds, event.device.into());
        put(anchors, event.hart.into());
        put_difference(anchors, event.after, self.known.after);
        self.known.after = event.after;
        put(times, event.since.0);
        match event.what {
            Happening::Interrupt { .. } => {}
            Happening::FrameIn { bytes } | Happening::FrameOut { bytes } => put(sizes, bytes.into()),
            Happening::Register { addr, size, value, stored } => {
                put_difference(addresses, addr.0, self.known.next[12]);
                self.known.next[12] = addr.0;
                put(sizes, size.into());
                put(values, value);
                if let Some(Stored { hart, after }) = stored {
                    put(values, hart.into());
                    put_difference(anchors, after, event.after);
                }
            }
            Happening::Dma(dma) => {
                let number = dma_number(&dma) as usize;
                put_difference(addresses, dma.addr.0, self.known.next[number]);
                self.known.next[number] = dma.addr.0.wrapping_add(dma.len.into());
                put(sizes, dma.len.into());
                put_difference(values, dma.frame, self.known.frames[number]);
                self.known.frames[number] = dma.frame;
                put(values, dma.offset.into());
                put(times, dma.took.0);
                if dma.write {
                    put_difference(anchors, dma.visible, event.after);
                }
            }
        }
    }
}

fn dma_number(dma: &Dma) -> u64 {
    (dma.kind as u64) << 1 | u64::from(dma.write)
}

/// Reads devices' events.
pub struct DeviceDecoder {
    columns: [Column; COLUMNS],
    known: Known,
}

impl DeviceDecoder {
    /// Of a chunk's columns.
    pub fn new(columns: [Vec<u8>; COLUMNS]) -> DeviceDecoder {
        DeviceDecoder { columns: columns.map(Column::new), known: Known::default() }
    }

    /// The next event; `None` at the chunk's end.
    pub fn next(&mut self) -> Result<Option<DeviceEvent>, Malformed> {
        if self.columns[KINDS].is_empty() {
            return if self.columns.iter().all(Column::is_empty) { Ok(None) } else { Err(Malformed) };
        }
        let kind = self.columns[KINDS].take()?;
        let device = self.columns[KINDS].take()?.try_into().map_err(|_| Malformed)?;
        let hart = self.columns[ANCHORS].take()?.try_into().map_err(|_| Malformed)?;
        let after = self.columns[ANCHORS].take_difference(self.known.after)?;
        self.known.after = after;
        let since = Ps(self.columns[TIMES].take()?);
        let what = match kind {
            LOWERED | RAISED => Happening::Interrupt { raised: kind == RAISED },
            FRAME_IN => Happening::FrameIn { bytes: self.size()? },
            FRAME_OUT => Happening::FrameOut { bytes: self.size()? },
            REGISTER | STORED => {
                let addr = self.columns[ADDRESSES].take_difference(self.known.next[12])?;
                self.known.next[12] = addr;
                let size = self.size()?.try_into().map_err(|_| Malformed)?;
                let value = self.columns[VALUES].take()?;
                let stored = if kind == STORED { Some(self.stored(after)?) } else { None };
                Happening::Register { addr: PhysAddr(addr), size, value, stored }
            }
            dma => Happening::Dma(self.dma(dma - DMA, after)?),
        };
        Ok(Some(DeviceEvent { device, hart, after, since, what }))
    }

    fn size(&mut self) -> Result<u32, Malformed> {
        self.columns[SIZES].take()?.try_into().map_err(|_| Malformed)
    }

    fn stored(&mut self, after: u64) -> Result<Stored, Malformed> {
        let hart = self.columns[VALUES].take()?.try_into().map_err(|_| Malformed)?;
        Ok(Stored { hart, after: self.columns[ANCHORS].take_difference(after)? })
    }

    fn dma(&mut self, number: u64, after: u64) -> Result<Dma, Malformed> {
        let kind = *DmaKind::ALL.get((number >> 1) as usize).ok_or(Malformed)?;
        let (number, write) = (number as usize, number & 1 != 0);
        let addr = self.columns[ADDRESSES].take_difference(self.known.next[number])?;
        let len = self.size()?;
        self.known.next[number] = addr.wrapping_add(len.into());
        let frame = self.columns[VALUES].take_difference(self.known.frames[number])?;
        self.known.frames[number] = frame;
        let offset = self.columns[VALUES].take()?.try_into().map_err(|_| Malformed)?;
        let took = Ps(self.columns[TIMES].take()?);
        let visible = if write { self.columns[ANCHORS].take_difference(after)? } else { 0 };
        Ok(Dma { kind, write, addr: PhysAddr(addr), len, frame, offset, took, visible })
    }
}
