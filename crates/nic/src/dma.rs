//! The DMA engine's books: what has been asked of the bus and not been done yet. Reads and writes
//! are a queue each, because the port does the requests of one direction in the order made. A
//! request's sequence number is its token; one that a reset has forgotten is ignored when it comes.

use std::collections::VecDeque;
use std::fmt;

use doorbell_sim::ports::{DmaKind, DmaRequest};
use doorbell_sim::{Done, PhysAddr, Ps, log};
use serde::{Deserialize, Serialize};

use crate::ring::Direction;
use crate::{Event, Nic, NicPorts};

/// A read in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Read {
    /// Its purpose is gone.
    Cancelled,
    RxFetch {
        addr: u64,
        count: u32,
    },
    TxFetch {
        addr: u64,
        count: u32,
    },
    TxData {
        addr: u64,
        len: u32,
    },
}

/// A write in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Write {
    /// Its purpose is gone.
    Cancelled,
    /// Bytes of the frame at the front of the receive FIFO; the last ones free it.
    RxData {
        addr: u64,
        offset: u32,
        len: u32,
        last: bool,
    },
    RxWriteback {
        addr: u64,
        count: u32,
    },
    TxWriteback {
        addr: u64,
        count: u32,
    },
}

/// As the log tells it.
impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Read::Cancelled => f.write_str("for nothing, the ring or the device was reset"),
            Read::RxFetch { addr, count } => write!(f, "{count} receive descriptors fetched from {addr:#x}"),
            Read::TxFetch { addr, count } => write!(f, "{count} transmit descriptors fetched from {addr:#x}"),
            Read::TxData { addr, len } => write!(f, "{len} bytes to transmit from {addr:#x}"),
        }
    }
}

/// As the log tells it.
impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Write::Cancelled => f.write_str("for nothing, the ring or the device was reset"),
            Write::RxData { addr, offset, len, last } => {
                let end = if *last { ", the frame's last" } else { "" };
                write!(f, "{len} received bytes to {addr:#x}, from the frame's byte {offset}{end}")
            }
            Write::RxWriteback { addr, count } => {
                write!(f, "{count} receive descriptors written back to {addr:#x}")
            }
            Write::TxWriteback { addr, count } => {
                write!(f, "{count} transmit descriptors written back to {addr:#x}")
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Op<K> {
    kind: K,
    done: bool,
    /// When its bytes have gone through the engine: it is not done before.
    through: Ps,
    /// It has no completion of its own, and counts as done when the next one is.
    rides: bool,
}

/// The requests of one direction in flight, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Channel<K> {
    ops: VecDeque<Op<K>>,
    next: u64,
}

impl<K> Default for Channel<K> {
    fn default() -> Self {
        Channel { ops: VecDeque::new(), next: 0 }
    }
}

impl<K: Copy> Channel<K> {
    fn push(&mut self, kind: K, through: Ps) -> u64 {
        self.ops.push_back(Op { kind, done: false, through, rides: false });
        self.next += 1;
        self.next - 1
    }

    fn index(&self, sequence: u64) -> Option<usize> {
        let first = self.next.checked_sub(self.ops.len() as u64)?;
        let index = usize::try_from(sequence.checked_sub(first)?).ok()?;
        (index < self.ops.len()).then_some(index)
    }

    /// Request `sequence` is done, and one that rides on it; unknown ones are ignored, and so are completions of riders.
    fn mark(&mut self, sequence: u64) {
        let Some(index) = self.index(sequence).filter(|index| !self.ops[*index].rides) else { return };
        self.ops[index].done = true;
        if let Some(before) = index.checked_sub(1).map(|before| &mut self.ops[before]) {
            before.done |= before.rides;
        }
    }

    /// Whether a request still has bytes to go through the engine, and until when.
    fn busy_until(&self, sequence: u64, now: Ps) -> Option<Ps> {
        self.index(sequence).map(|index| self.ops[index].through).filter(|through| *through > now)
    }

    /// Request `sequence` needs no completion of its own: the next one's will do.
    fn ride(&mut self, sequence: u64) {
        if let Some(index) = self.index(sequence) {
            self.ops[index].rides = true;
        }
    }

    fn pop_done(&mut self) -> Option<K> {
        match self.ops.front() {
            Some(op) if op.done => self.ops.pop_front().map(|op| op.kind),
            _ => None,
        }
    }

    /// Forgets everything in flight.
    pub fn clear(&mut self) {
        self.ops.clear();
    }

    /// What is in flight, oldest first.
    pub fn kinds(&self) -> impl Iterator<Item = &K> {
        self.ops.iter().map(|op| &op.kind)
    }

    /// The same, to be changed.
    pub fn kinds_mut(&mut self) -> impl Iterator<Item = &mut K> {
        self.ops.iter_mut().map(|op| &mut op.kind)
    }

    /// Whether a saved channel is one that can exist.
    pub fn is_consistent(&self) -> bool {
        let known = self.ops.iter().all(|op| op.through.0 < u64::MAX / 4);
        known && self.ops.len() as u64 <= self.next && self.next < u64::MAX / 4
    }
}

/// Both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Dma {
    pub reads: Channel<Read>,
    pub writes: Channel<Write>,
    /// When all bytes asked for have gone through the engine: those read, and those written.
    pub path_free: [Ps; 2],
}

/// Indices of `path_free`.
const READS: usize = 0;
const WRITES: usize = 1;

/// What one request moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub addr: u64,
    pub len: u32,
    /// Which byte of its frame the first one is.
    pub offset: u32,
}

impl Piece {
    /// Descriptors side by side.
    pub fn descriptors(addr: u64, count: u32) -> Piece {
        Piece { addr, len: count * DESCRIPTOR_BYTES, offset: 0 }
    }

    fn request(self, kind: DmaKind, token: u64) -> DmaRequest {
        DmaRequest { addr: PhysAddr(self.addr), len: self.len, kind, offset: self.offset, token }
    }
}

/// A write whose wake-up is held back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldWrite {
    sequence: u64,
    /// When its first byte goes.
    pub start: Ps,
    /// When it is done; none if the port completes it by a call.
    pub done: Option<Ps>,
}

/// Bytes of a descriptor.
pub(crate) const DESCRIPTOR_BYTES: u32 = 16;

impl Nic {
    /// Takes the engine's path for `len` bytes, first come, first served: from when to when they go through it.
    fn take_path(&mut self, now: Ps, direction: usize, len: u32) -> (Ps, Ps) {
        let Some(rate) = self.config.dma_rate else { return (now, now) };
        let lane = if self.config.dma_shared { READS } else { direction };
        let start = self.dma.path_free[lane].max(now);
        let end = start.saturating_add(rate.time_for_bits(8 * u64::from(len)));
        self.dma.path_free[lane] = end;
        (start, end)
    }

    /// When everything that was asked for in a direction has gone through the engine, not before `now`.
    pub(crate) fn path_end(&self, now: Ps, direction: Direction) -> Ps {
        let lane = if self.config.dma_shared || direction == Direction::Transmit { READS } else { WRITES };
        self.dma.path_free[lane].max(now)
    }

    /// Asks for a read at `at`; the completion comes back as an event or through [`Nic::dma_done`]. Returns when it begins.
    pub(crate) fn issue_read(
        &mut self,
        at: Ps,
        piece: Piece,
        kind: DmaKind,
        read: Read,
        ports: &mut impl NicPorts,
    ) -> Ps {
        let (start, end) = self.take_path(at, READS, piece.len);
        let sequence = self.dma.reads.push(read, end);
        if let Done::At(done) = ports.request_read(start, piece.request(kind, sequence << 1)) {
            ports.wake_at(done.max(end), Event::ReadDone(sequence));
        }
        start
    }

    /// Asks for a write at `at`.
    pub(crate) fn issue_write(
        &mut self,
        at: Ps,
        piece: Piece,
        kind: DmaKind,
        write: Write,
        ports: &mut impl NicPorts,
    ) {
        let held = self.request_write(at, piece, kind, write, ports);
        self.wake_for_write(Some(held), false, ports);
    }

    /// Asks for a write, but not yet for the wake-up at its end.
    pub(crate) fn request_write(
        &mut self,
        at: Ps,
        piece: Piece,
        kind: DmaKind,
        write: Write,
        ports: &mut impl NicPorts,
    ) -> HeldWrite {
        let (start, end) = self.take_path(at, WRITES, piece.len);
        let sequence = self.dma.writes.push(write, end);
        let done = match ports.request_write(start, piece.request(kind, sequence << 1 | 1)) {
            Done::At(done) => Some(done.max(end)),
            Done::Later => None,
        };
        HeldWrite { sequence, start, done }
    }

    /// Asks for the wake-up that was held back, unless another write was asked for right behind it: that one's will do
    /// for both, as the port does writes in order. This saves an event a frame.
    pub(crate) fn wake_for_write(
        &mut self,
        held: Option<HeldWrite>,
        followed: bool,
        ports: &mut impl NicPorts,
    ) {
        match held {
            Some(write) if followed => self.dma.writes.ride(write.sequence),
            Some(HeldWrite { sequence, done: Some(done), .. }) => {
                ports.wake_at(done, Event::WriteDone(sequence))
            }
            _ => {}
        }
    }

    /// A request that the port answered with [`Done::Later`] is done.
    pub fn dma_done(&mut self, now: Ps, token: u64, ports: &mut impl NicPorts) {
        let sequence = token >> 1;
        match token & 1 {
            0 => match self.dma.reads.busy_until(sequence, now) {
                Some(through) => ports.wake_at(through, Event::ReadDone(sequence)),
                None => self.read_done(now, sequence, ports),
            },
            _ => match self.dma.writes.busy_until(sequence, now) {
                Some(through) => ports.wake_at(through, Event::WriteDone(sequence)),
                None => self.write_done(now, sequence, ports),
            },
        }
    }

    pub(crate) fn read_done(&mut self, now: Ps, sequence: u64, ports: &mut impl NicPorts) {
        self.dma.reads.mark(sequence);
        let (mut receive, mut transmit) = (false, false);
        while let Some(read) = self.dma.reads.pop_done() {
            log!(now, Nic, Trace, "{}: DMA read done: {read}", self.name);
            match read {
                Read::Cancelled => {}
                Read::RxFetch { addr, count } => {
                    self.rx_fetched(addr, count, ports);
                    receive = true;
                }
                Read::TxFetch { addr, count } => {
                    self.tx_fetched(now, addr, count, ports);
                    transmit = true;
                }
                Read::TxData { addr, len } => {
                    self.tx_data_arrived(now, addr, len, ports);
                    transmit = true;
                }
            }
        }
        if receive {
            self.rx_advance(now, ports);
        }
        if transmit {
            self.tx_advance(now, ports);
        }
    }

    pub(crate) fn write_done(&mut self, now: Ps, sequence: u64, ports: &mut impl NicPorts) {
        self.dma.writes.mark(sequence);
        let (mut receive, mut transmit) = (false, false);
        while let Some(write) = self.dma.writes.pop_done() {
            log!(now, Nic, Trace, "{}: DMA write done: {write}", self.name);
            match write {
                Write::Cancelled => {}
                Write::RxData { addr, offset, len, last } => {
                    self.rx_data_written(addr, offset, len, last, ports);
                    receive = true;
                }
                Write::RxWriteback { addr, count } => {
                    self.rx_written_back(now, addr, count, ports);
                    receive = true;
                }
                Write::TxWriteback { addr, count } => {
                    self.tx_written_back(now, addr, count, ports);
                    transmit = true;
                }
            }
        }
        if receive {
            self.rx_advance(now, ports);
        }
        if transmit {
            self.tx_advance(now, ports);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_end_in_order_and_forgotten_ones_are_ignored() {
        let mut channel = Channel::default();
        let [a, b, c] = [10, 20, 30].map(|kind| channel.push(kind, Ps::ZERO));
        channel.mark(b);
        assert_eq!(channel.pop_done(), None);
        channel.mark(a);
        assert_eq!([channel.pop_done(), channel.pop_done(), channel.pop_done()], [Some(10), Some(20), None]);
        channel.clear();
        channel.mark(c);
        let d = channel.push(40, Ps::ZERO);
        assert_eq!(channel.pop_done(), None);
        channel.mark(d);
        assert_eq!(channel.pop_done(), Some(40));
        channel.mark(u64::MAX);
        let [e, f] = [50, 60].map(|kind| channel.push(kind, Ps::ZERO));
        channel.ride(e);
        channel.mark(e);
        assert_eq!(channel.pop_done(), None);
        channel.mark(f);
        assert_eq!([channel.pop_done(), channel.pop_done()], [Some(50), Some(60)]);
    }
}
