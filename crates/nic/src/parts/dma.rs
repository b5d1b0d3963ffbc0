//! DMA requests in flight. Reads and writes have a channel each, because the port completes the requests of
//! one direction in order. Completions of requests that a reset has discarded are ignored. Every request
//! belongs to a queue, named by the chip's type `Q`.

use std::collections::VecDeque;
use std::fmt;

use doorbell_sim::ports::{DmaDirection, DmaPort, DmaPurpose, DmaRequest, DmaTag};
use doorbell_sim::{BitsPerSec, PhysAddr, Ps};
use serde::{Deserialize, Serialize};

use super::ring::{DESCRIPTOR_BYTES, Run};

/// A read in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
// A 64-bit discriminant: loads then have the same width as the stores before them (store forwarding).
#[repr(u64)]
pub(crate) enum Read<Q> {
    /// Cancelled by a reset of the ring or device; the completion is ignored.
    Cancelled,
    /// Descriptors.
    Descriptors { queue: Q, run: Run },
    /// Bytes to transmit.
    Data { queue: Q, addr: u64, len: u32 },
}

/// A write in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
// A 64-bit discriminant, as in `Read`.
#[repr(u64)]
pub(crate) enum Write<Q> {
    /// Cancelled, as in `Read`.
    Cancelled,
    /// Bytes of the frame at the front of the receive FIFO; the last write frees the frame's space.
    Data { queue: Q, addr: u64, offset: u32, len: u32, last: bool },
    /// Used descriptors.
    Descriptors { queue: Q, run: Run },
}

/// A request in flight.
pub(crate) trait Operation<Q>: Copy {
    /// A cancelled request.
    const CANCELLED: Self;
    /// Queue that it belongs to; `None` if cancelled.
    fn queue(&self) -> Option<Q>;
    /// Number of descriptors that it moves.
    fn descriptors(&self) -> u32;
}

impl<Q: Copy> Operation<Q> for Read<Q> {
    const CANCELLED: Self = Read::Cancelled;

    fn queue(&self) -> Option<Q> {
        match self {
            Read::Cancelled => None,
            Read::Descriptors { queue, .. } | Read::Data { queue, .. } => Some(*queue),
        }
    }

    fn descriptors(&self) -> u32 {
        if let Read::Descriptors { run, .. } = self { run.count } else { 0 }
    }
}

impl<Q: Copy> Operation<Q> for Write<Q> {
    const CANCELLED: Self = Write::Cancelled;

    fn queue(&self) -> Option<Q> {
        match self {
            Write::Cancelled => None,
            Write::Data { queue, .. } | Write::Descriptors { queue, .. } => Some(*queue),
        }
    }

    fn descriptors(&self) -> u32 {
        if let Write::Descriptors { run, .. } = self { run.count } else { 0 }
    }
}

/// Formats the request for the log.
impl<Q: fmt::Display> fmt::Display for Read<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Read::Cancelled => f.write_str("cancelled, because the ring or the device was reset"),
            Read::Descriptors { queue, run: Run { addr, count } } => {
                write!(f, "{count} {queue} descriptors fetched from {addr:#x}")
            }
            Read::Data { addr, len, .. } => write!(f, "{len} bytes to transmit from {addr:#x}"),
        }
    }
}

/// Formats the request for the log.
impl<Q: fmt::Display> fmt::Display for Write<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Write::Cancelled => f.write_str("cancelled, because the ring or the device was reset"),
            Write::Data { addr, offset, len, last, .. } => {
                let end = if *last { ", the frame's last" } else { "" };
                write!(f, "{len} received bytes to {addr:#x}, from the frame's byte {offset}{end}")
            }
            Write::Descriptors { queue, run: Run { addr, count } } => {
                write!(f, "{count} {queue} descriptors written back to {addr:#x}")
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Transfer<K> {
    kind: K,
    done: bool,
    /// Time at which its bytes have passed the engine; it completes no earlier.
    through: Ps,
    /// It has no completion of its own and completes with the next request.
    rides: bool,
}

/// The requests of one direction in flight, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Channel<K> {
    ops: VecDeque<Transfer<K>>,
    next: u64,
}

impl<K> Default for Channel<K> {
    fn default() -> Self {
        Channel { ops: VecDeque::new(), next: 0 }
    }
}

impl<K: Copy> Channel<K> {
    fn push(&mut self, kind: K, through: Ps) -> u64 {
        self.ops.push_back(Transfer { kind, done: false, through, rides: false });
        self.next += 1;
        self.next - 1
    }

    fn index(&self, sequence: u64) -> Option<usize> {
        let first = self.next.checked_sub(self.ops.len() as u64)?;
        let index = usize::try_from(sequence.checked_sub(first)?).ok()?;
        (index < self.ops.len()).then_some(index)
    }

    /// Marks request `sequence` as done, and the request before it if that has no completion of its own.
    /// Unknown requests, and completions of requests that should have none, are ignored.
    pub fn mark(&mut self, sequence: u64) {
        let Some(index) = self.index(sequence).filter(|index| !self.ops[*index].rides) else { return };
        self.ops[index].done = true;
        if let Some(before) = index.checked_sub(1).map(|before| &mut self.ops[before]) {
            before.done |= before.rides;
        }
    }

    /// Request `sequence` gets no completion of its own; it completes with the next one.
    pub fn complete_with_next(&mut self, sequence: u64) {
        if let Some(index) = self.index(sequence) {
            self.ops[index].rides = true;
        }
    }

    pub fn pop_done(&mut self) -> Option<K> {
        match self.ops.front() {
            Some(op) if op.done => self.ops.pop_front().map(|op| op.kind),
            _ => None,
        }
    }

    /// Requests in flight, oldest first.
    pub fn kinds(&self) -> impl Iterator<Item = &K> {
        self.ops.iter().map(|op| &op.kind)
    }

    fn cancel<Q: PartialEq>(&mut self, queue: Q)
    where
        K: Operation<Q>,
    {
        for op in self.ops.iter_mut().filter(|op| op.kind.queue().is_some_and(|of| of == queue)) {
            op.kind = K::CANCELLED;
        }
    }

    fn descriptors<Q: PartialEq>(&self, queue: Q) -> u64
    where
        K: Operation<Q>,
    {
        let of_queue = self.kinds().filter(|kind| kind.queue().is_some_and(|of| of == queue));
        of_queue.map(|kind| u64::from(kind.descriptors())).sum()
    }

    fn is_consistent(&self, latest: Ps) -> bool {
        let in_range = self.ops.iter().all(|op| op.through < latest);
        in_range && self.ops.len() as u64 <= self.next && self.next < u64::MAX / 4
    }
}

/// Requests in flight in both directions, and the engine's occupancy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Dma<Q> {
    pub reads: Channel<Read<Q>>,
    pub writes: Channel<Write<Q>>,
    /// Times at which all bytes requested so far have passed the engine: read bytes and written bytes.
    path_free: [Ps; 2],
}

impl<Q> Default for Dma<Q> {
    fn default() -> Self {
        Dma { reads: Channel::default(), writes: Channel::default(), path_free: [Ps::ZERO; 2] }
    }
}

/// Bandwidth limit of the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DmaRate {
    /// Maximum bits per second; `None` if only the path to memory limits the rate.
    pub limit: Option<BitsPerSec>,
    /// Reads and writes share the limit.
    pub shared: bool,
}

/// Memory range of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub addr: u64,
    pub len: u32,
    /// Offset of the first byte in its frame.
    pub offset: u32,
    /// Queue, and target core for direct cache access.
    pub tag: DmaTag,
}

/// Classes of transfers that chips distinguish for direct cache access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferClass {
    /// Written-back descriptors.
    WriteBack,
    /// Headers of received frames in separate buffers.
    Header,
    /// Other data of received frames.
    Payload,
    /// Reads. They never have a target core.
    Read,
}

impl Piece {
    /// Returns the memory range of contiguous descriptors.
    pub fn descriptors(run: Run, tag: DmaTag) -> Piece {
        Piece { addr: run.addr, len: run.count * DESCRIPTOR_BYTES, offset: 0, tag }
    }

    fn request(self, purpose: DmaPurpose) -> DmaRequest {
        let Piece { addr, len, offset, tag } = self;
        DmaRequest { addr: PhysAddr(addr), len, purpose, offset, tag }
    }
}

/// An issued request whose wake-up is not scheduled yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IssuedRequest {
    pub sequence: u64,
    /// Time at which its first byte is transferred.
    pub start: Ps,
    /// Completion time.
    pub done: Ps,
}

impl<Q: Copy + PartialEq> Dma<Q> {
    fn path_index(rate: DmaRate, direction: DmaDirection) -> usize {
        if rate.shared { DmaDirection::Read as usize } else { direction as usize }
    }

    /// Reserves the engine for `len` bytes, first come, first served. Returns when their transfer starts and
    /// ends.
    fn take_path(&mut self, now: Ps, rate: DmaRate, direction: DmaDirection, len: u32) -> (Ps, Ps) {
        let Some(limit) = rate.limit else { return (now, now) };
        let free = &mut self.path_free[Self::path_index(rate, direction)];
        let start = (*free).max(now);
        *free = start.saturating_add(limit.time_for_bits(8 * u64::from(len)));
        (start, *free)
    }

    /// Time at which all bytes requested in a direction have passed the engine; at least `now`.
    pub fn path_end(&self, now: Ps, rate: DmaRate, direction: DmaDirection) -> Ps {
        self.path_free[Self::path_index(rate, direction)].max(now)
    }

    /// Issues a read at `at`.
    pub fn request_read(
        &mut self,
        at: Ps,
        rate: DmaRate,
        piece: Piece,
        purpose: DmaPurpose,
        read: Read<Q>,
        port: &mut (impl DmaPort + ?Sized),
    ) -> IssuedRequest {
        let (start, end) = self.take_path(at, rate, DmaDirection::Read, piece.len);
        let sequence = self.reads.push(read, end);
        let done = port.request_read(start, piece.request(purpose)).max(end);
        IssuedRequest { sequence, start, done }
    }

    /// Issues a write at `at`.
    pub fn request_write(
        &mut self,
        at: Ps,
        rate: DmaRate,
        piece: Piece,
        purpose: DmaPurpose,
        write: Write<Q>,
        port: &mut (impl DmaPort + ?Sized),
    ) -> IssuedRequest {
        let (start, end) = self.take_path(at, rate, DmaDirection::Write, piece.len);
        let sequence = self.writes.push(write, end);
        let done = port.request_write(start, piece.request(purpose)).max(end);
        IssuedRequest { sequence, start, done }
    }

    /// Cancels a queue's requests in flight.
    pub fn cancel(&mut self, queue: Q) {
        self.reads.cancel(queue);
        self.writes.cancel(queue);
    }

    /// Discards all requests in flight. The engine stays busy with bytes already requested.
    pub fn clear(&mut self) {
        self.reads.ops.clear();
        self.writes.ops.clear();
    }

    /// Number of a queue's descriptor fetches in flight.
    pub fn fetches(&self, queue: Q) -> u32 {
        let of_queue = |read: &&Read<Q>| matches!(read, Read::Descriptors { queue: of, .. } if *of == queue);
        self.reads.kinds().filter(of_queue).count() as u32
    }

    /// Numbers of a queue's descriptors that are being fetched and written back.
    pub fn descriptors(&self, queue: Q) -> (u64, u64) {
        (self.reads.descriptors(queue), self.writes.descriptors(queue))
    }

    /// Whether a restored state is valid and has no time after `latest`.
    pub fn is_consistent(&self, latest: Ps) -> bool {
        self.path_free.iter().all(|free| *free <= latest)
            && self.reads.is_consistent(latest)
            && self.writes.is_consistent(latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_complete_in_order_and_discarded_ones_are_ignored() {
        let mut channel = Channel::default();
        let [a, b, c] = [10, 20, 30].map(|kind| channel.push(kind, Ps::ZERO));
        channel.mark(b);
        assert_eq!(channel.pop_done(), None);
        channel.mark(a);
        assert_eq!([channel.pop_done(), channel.pop_done(), channel.pop_done()], [Some(10), Some(20), None]);
        channel.ops.clear();
        channel.mark(c);
        let d = channel.push(40, Ps::ZERO);
        assert_eq!(channel.pop_done(), None);
        channel.mark(d);
        assert_eq!(channel.pop_done(), Some(40));
        channel.mark(u64::MAX);
        let [e, f] = [50, 60].map(|kind| channel.push(kind, Ps::ZERO));
        channel.complete_with_next(e);
        channel.mark(e);
        assert_eq!(channel.pop_done(), None);
        channel.mark(f);
        assert_eq!([channel.pop_done(), channel.pop_done()], [Some(50), Some(60)]);
    }

    #[test]
    fn cancel_affects_only_its_queue() {
        let run = |addr| Run { addr, count: 2 };
        let mut dma = Dma::<u8>::default();
        for queue in [3, 5] {
            dma.reads.push(Read::Descriptors { queue, run: run(u64::from(queue)) }, Ps::ZERO);
            dma.reads.push(Read::Data { queue, addr: 0, len: 64 }, Ps::ZERO);
            dma.writes.push(Write::Descriptors { queue, run: run(0) }, Ps::ZERO);
        }
        assert_eq!([3, 5, 4].map(|queue| dma.descriptors(queue)), [(2, 2), (2, 2), (0, 0)]);
        dma.cancel(3);
        assert_eq!([3, 5].map(|queue| dma.descriptors(queue)), [(0, 0), (2, 2)]);
        for sequence in 0..4 {
            dma.reads.mark(sequence);
        }
        let done: Vec<_> = std::iter::from_fn(|| dma.reads.pop_done()).collect();
        let rest = [Read::Descriptors { queue: 5, run: run(5) }, Read::Data { queue: 5, addr: 0, len: 64 }];
        assert_eq!(done, [[Read::Cancelled; 2], rest].concat());
    }

    #[test]
    fn transfers_pass_the_engine_one_after_another() {
        let mut dma = Dma::<u8>::default();
        let limit = Some(BitsPerSec(8_000_000_000_000));
        let separate = DmaRate { limit, shared: false };
        assert_eq!(dma.take_path(Ps(5), separate, DmaDirection::Read, 10), (Ps(5), Ps(15)));
        assert_eq!(dma.take_path(Ps(7), separate, DmaDirection::Read, 10), (Ps(15), Ps(25)));
        assert_eq!(dma.take_path(Ps(7), separate, DmaDirection::Write, 10), (Ps(7), Ps(17)));
        let shared = DmaRate { limit, shared: true };
        assert_eq!(dma.take_path(Ps(7), shared, DmaDirection::Write, 10), (Ps(25), Ps(35)));
        assert_eq!(dma.path_end(Ps(0), shared, DmaDirection::Write), Ps(35));
        assert_eq!(
            dma.take_path(Ps(7), DmaRate { limit: None, shared: true }, DmaDirection::Read, 10),
            (Ps(7), Ps(7))
        );
    }
}
