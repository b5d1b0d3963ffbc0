//! Device event stream of a chunk: events of all devices in time order.

use doorbell_sim::Ps;
use doorbell_sim::ports::{DmaDirection, DmaPurpose, PhysAddr};

use super::bytes::{Column, Malformed, put, put_difference};

/// Columns of an event chunk.
pub const COLUMNS: usize = 6;
const KINDS: usize = 0;
const ANCHORS: usize = 1;
const TIMES: usize = 2;
const ADDRESSES: usize = 3;
const SIZES: usize = 4;
const VALUES: usize = 5;

/// Largest DMA request.
pub const DMA_BYTES_MAX: u32 = 1 << 20;

/// A DMA request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dma {
    /// Purpose of the transfer.
    pub purpose: DmaPurpose,
    /// Read or write.
    pub direction: DmaDirection,
    /// Address of the first byte.
    pub addr: PhysAddr,
    /// Bytes.
    pub len: u32,
    /// Frame data only: frame number, from 0, per device and direction since recording began.
    pub frame: u64,
    /// Frame data only: offset of the first byte in the frame.
    pub offset: u32,
    /// Latency on the recorded machine; zero if unknown.
    pub took: Ps,
    /// Writes only: the first instruction of the anchor's hart that can read the data.
    pub visible: u64,
}

impl Dma {
    /// Whether the device writes memory.
    pub fn is_write(&self) -> bool {
        self.direction == DmaDirection::Write
    }
}

/// Instruction that stored to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreOrigin {
    /// Hart of the instruction.
    pub hart: u16,
    /// Instructions of the hart up to and including the store.
    pub after: u64,
}

/// Kind of a device event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// DMA request of the device.
    Dma(Dma),
    /// A store to a register of the device arrived, such as a doorbell.
    Register {
        /// Physical address of the register.
        addr: PhysAddr,
        /// Bytes stored.
        size: u8,
        /// Value stored.
        value: u64,
        /// The instruction that issued the store, if it was recorded and is in the trace; the store arrives
        /// later.
        stored: Option<StoreOrigin>,
    },
    /// The interrupt line changed, or the device sent a message-signalled interrupt.
    Interrupt {
        /// Level of the line; a message counts as raised.
        raised: bool,
    },
    /// The last bit of a received frame arrived.
    FrameIn {
        /// Bytes, including FCS.
        bytes: u32,
    },
    /// The device passed a frame to the wire.
    FrameOut {
        /// Bytes, including FCS.
        bytes: u32,
    },
}

/// A device event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceEvent {
    /// Device number.
    pub device: u8,
    /// Anchor hart.
    pub hart: u16,
    /// Instructions that the anchor hart had executed before the event.
    pub after: u64,
    /// Time since the last of these instructions committed.
    pub since: Ps,
    /// Kind of event.
    pub what: EventKind,
}

impl EventKind {
    /// The instruction that stored to the register, if this is recorded.
    pub fn stored(&self) -> Option<StoreOrigin> {
        match self {
            EventKind::Register { stored, .. } => *stored,
            _ => None,
        }
    }
}

impl DeviceEvent {
    /// All positions that the event refers to: hart, and number of instructions executed.
    pub fn anchors(&self) -> impl Iterator<Item = (u16, u64)> + use<> {
        let stored = self.what.stored().map(|stored| (stored.hart, stored.after));
        [(self.hart, self.after)].into_iter().chain(stored)
    }

    /// Returns whether a machine can have recorded the event: request size within the limit, and no write
    /// visible before its event.
    pub(super) fn is_valid(&self) -> bool {
        match self.what {
            EventKind::Dma(dma) => dma.len <= DMA_BYTES_MAX && (!dma.is_write() || dma.visible >= self.after),
            _ => true,
        }
    }
}

const REGISTER: u64 = 0;
const LOWERED: u64 = 1;
const RAISED: u64 = 2;
const FRAME_IN: u64 = 3;
const FRAME_OUT: u64 = 4;
/// DMA of a NIC: plus twice the position in [`NIC_DMA`], plus one for a write.
const DMA: u64 = 5;
/// Purposes of a NIC's DMA. Descriptors have one position for fetches and one for write-backs.
const NIC_DMA: [DmaPurpose; 6] = [
    DmaPurpose::RxDescriptor,
    DmaPurpose::RxDescriptor,
    DmaPurpose::RxData,
    DmaPurpose::TxDescriptor,
    DmaPurpose::TxDescriptor,
    DmaPurpose::TxData,
];
/// Register event with [`StoreOrigin`].
const STORED: u64 = DMA + 2 * NIC_DMA.len() as u64;
/// Other DMA: plus twice the position in [`OTHER_DMA`], plus one for a write.
const OTHER: u64 = STORED + 1;
const OTHER_DMA: [DmaPurpose; 3] = [DmaPurpose::Ring, DmaPurpose::Data, DmaPurpose::Interrupt];
/// Number of event numbers.
const NUMBERS: usize = OTHER as usize + 2 * OTHER_DMA.len();

/// Number of an event in the stream.
pub(super) fn number(what: &EventKind) -> u64 {
    let dma = match what {
        EventKind::Register { stored: None, .. } => return REGISTER,
        EventKind::Register { .. } => return STORED,
        EventKind::Interrupt { raised } => return LOWERED + u64::from(*raised),
        EventKind::FrameIn { .. } => return FRAME_IN,
        EventKind::FrameOut { .. } => return FRAME_OUT,
        EventKind::Dma(dma) => dma,
    };
    let write = u64::from(dma.is_write());
    write
        + match dma.purpose {
            DmaPurpose::RxDescriptor => DMA + 2 * write,
            DmaPurpose::RxData => DMA + 4,
            DmaPurpose::TxDescriptor => DMA + 6 + 2 * write,
            DmaPurpose::TxData => DMA + 10,
            DmaPurpose::Ring => OTHER,
            DmaPurpose::Data => OTHER + 2,
            DmaPurpose::Interrupt => OTHER + 4,
        }
}

/// The first format version that defines an event number.
pub(super) fn first_version(number: u64) -> u32 {
    match number {
        ..STORED => 1,
        STORED => 2,
        _ => 3,
    }
}

/// Delta-coding state of the stream, the same in encoder and decoder.
#[derive(Default)]
struct StreamState {
    after: u64,
    /// By event number; registers have that of [`REGISTER`].
    next: [u64; NUMBERS],
    frames: [u64; NUMBERS],
}

/// Encoder of device events.
#[derive(Default)]
pub struct DeviceEncoder {
    columns: [Vec<u8>; COLUMNS],
    state: StreamState,
}

impl DeviceEncoder {
    /// Bytes encoded so far.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(Vec::len).sum()
    }

    /// Takes the columns; the next event begins a new chunk.
    pub fn take(&mut self) -> [Vec<u8>; COLUMNS] {
        std::mem::take(self).columns
    }

    /// Encodes an event.
    pub fn event(&mut self, event: &DeviceEvent) {
        let [kinds, anchors, times, addresses, sizes, values] = &mut self.columns;
        let number = number(&event.what);
        put(kinds, number);
        put(kinds, event.device.into());
        put(anchors, event.hart.into());
        put_difference(anchors, event.after, self.state.after);
        self.state.after = event.after;
        put(times, event.since.0);
        match event.what {
            EventKind::Interrupt { .. } => {}
            EventKind::FrameIn { bytes } | EventKind::FrameOut { bytes } => put(sizes, bytes.into()),
            EventKind::Register { addr, size, value, stored } => {
                let next = &mut self.state.next[REGISTER as usize];
                put_difference(addresses, addr.0, *next);
                *next = addr.0;
                put(sizes, size.into());
                put(values, value);
                if let Some(StoreOrigin { hart, after }) = stored {
                    put(values, hart.into());
                    put_difference(anchors, after, event.after);
                }
            }
            EventKind::Dma(dma) => {
                let number = number as usize;
                put_difference(addresses, dma.addr.0, self.state.next[number]);
                self.state.next[number] = dma.addr.0.wrapping_add(dma.len.into());
                put(sizes, dma.len.into());
                put_difference(values, dma.frame, self.state.frames[number]);
                self.state.frames[number] = dma.frame;
                put(values, dma.offset.into());
                put(times, dma.took.0);
                if dma.is_write() {
                    put_difference(anchors, dma.visible, event.after);
                }
            }
        }
    }
}

/// Decoder of device events.
pub struct DeviceDecoder {
    columns: [Column; COLUMNS],
    state: StreamState,
}

impl DeviceDecoder {
    /// Decodes a chunk's columns.
    pub fn new(columns: [Vec<u8>; COLUMNS]) -> DeviceDecoder {
        DeviceDecoder { columns: columns.map(Column::new), state: StreamState::default() }
    }

    /// The next event; `None` at the chunk's end.
    pub fn next(&mut self) -> Result<Option<DeviceEvent>, Malformed> {
        if self.columns[KINDS].is_empty() {
            return if self.columns.iter().all(Column::is_empty) { Ok(None) } else { Err(Malformed) };
        }
        let number = self.columns[KINDS].take()?;
        let device = self.columns[KINDS].take()?.try_into().map_err(|_| Malformed)?;
        let hart = self.columns[ANCHORS].take()?.try_into().map_err(|_| Malformed)?;
        let after = self.columns[ANCHORS].take_difference(self.state.after)?;
        self.state.after = after;
        let since = Ps(self.columns[TIMES].take()?);
        let what = match number {
            LOWERED | RAISED => EventKind::Interrupt { raised: number == RAISED },
            FRAME_IN => EventKind::FrameIn { bytes: self.size()? },
            FRAME_OUT => EventKind::FrameOut { bytes: self.size()? },
            REGISTER | STORED => {
                let addr = self.columns[ADDRESSES].take_difference(self.state.next[REGISTER as usize])?;
                self.state.next[REGISTER as usize] = addr;
                let size = self.size()?.try_into().map_err(|_| Malformed)?;
                let value = self.columns[VALUES].take()?;
                let stored = if number == STORED { Some(self.stored(after)?) } else { None };
                EventKind::Register { addr: PhysAddr(addr), size, value, stored }
            }
            _ => EventKind::Dma(self.dma(number, after)?),
        };
        Ok(Some(DeviceEvent { device, hart, after, since, what }))
    }

    fn size(&mut self) -> Result<u32, Malformed> {
        self.columns[SIZES].take()?.try_into().map_err(|_| Malformed)
    }

    fn stored(&mut self, after: u64) -> Result<StoreOrigin, Malformed> {
        let hart = self.columns[VALUES].take()?.try_into().map_err(|_| Malformed)?;
        Ok(StoreOrigin { hart, after: self.columns[ANCHORS].take_difference(after)? })
    }

    fn dma(&mut self, number: u64, after: u64) -> Result<Dma, Malformed> {
        let (purposes, position) = match number {
            ..STORED => (&NIC_DMA[..], number - DMA),
            _ => (&OTHER_DMA[..], number - OTHER),
        };
        let purpose = *purposes.get((position >> 1) as usize).ok_or(Malformed)?;
        let direction = if position & 1 == 0 { DmaDirection::Read } else { DmaDirection::Write };
        let number = number as usize;
        let addr = self.columns[ADDRESSES].take_difference(self.state.next[number])?;
        let len = self.size()?;
        self.state.next[number] = addr.wrapping_add(len.into());
        let frame = self.columns[VALUES].take_difference(self.state.frames[number])?;
        self.state.frames[number] = frame;
        let offset = self.columns[VALUES].take()?.try_into().map_err(|_| Malformed)?;
        let took = Ps(self.columns[TIMES].take()?);
        let dma = Dma { purpose, direction, addr: PhysAddr(addr), len, frame, offset, took, visible: 0 };
        let visible = if dma.is_write() { self.columns[ANCHORS].take_difference(after)? } else { 0 };
        Ok(Dma { visible, ..dma })
    }
}
