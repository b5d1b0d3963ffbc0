//! The receive DMA engine: descriptors are fetched ahead, frames written to their buffers, used
//! descriptors written back (§3.2.4 to §3.2.6). Several frames are in DMA at once. A write-back is
//! asked for right behind the data, and posted writes keep their order, so data is always visible
//! first.
//!
//! Write-back happens as soon as RXDCTL.WTHRESH used descriptors wait, and also when the FIFO holds
//! nothing more to dispatch or the chip has no unused descriptor left: a polling driver never waits, unless `write_back_wait`
//! says that descriptors gather, by number or by cache line.

use doorbell_sim::memory::LINE_BYTES;
use doorbell_sim::ports::{DmaKind, DmaTag, PhysAddr};
use doorbell_sim::{Observed, Ps};

use super::{Completed, RxQueue, Watched};
use crate::e82540::bits::{cause, rctl, rxd};
use crate::e82540::dma::Write;
use crate::e82540::regs::Reg;
use crate::e82540::{Event, Nic, NicPorts, Queue};
use crate::parts::dma::{Lane, Piece, Requested};
use crate::parts::engine::Ready;
use crate::parts::mac::FlowWork as _;
use crate::parts::queues::{QueueWork as _, Queues as _};
use crate::parts::requests::Requests as _;
use crate::parts::ring::Run;

/// Bytes of a receive buffer by RCTL.BSIZE, without and with RCTL.BSEX. The reserved code counts as the smallest of its row.
const BUFFER_BYTES: [[usize; 4]; 2] = [[2048, 1024, 512, 256], [4096, 16384, 8192, 4096]];

/// Bytes from the end of `len` bytes at `addr` to the end of their cache line, if the buffer has them.
fn padding(addr: u64, len: u32, buffer: usize) -> u32 {
    let end = addr.wrapping_add(len.into());
    let padding = (end.wrapping_neg() % LINE_BYTES) as u32;
    if (len + padding) as usize <= buffer { padding } else { 0 }
}

impl Nic {
    /// Does whatever can be done now. Work is bounded by the descriptors on the chip.
    pub(crate) fn rx_advance(&mut self, now: Ps, ports: &mut impl NicPorts) {
        if !self.bus_master {
            return;
        }
        let held = self.rx_dispatch(now, ports);
        let waiting = self.rx.queue.ring.waiting().len();
        let drained = self.rx.dispatched == self.rx.fifo.len() || self.rx.queue.ring.is_empty();
        let flush = drained || waiting >= self.regs.thresholds(Queue::Receive).write_back as usize;
        let followed = flush && self.write_back_called_for(now, Queue::Receive, ports);
        self.wake_for_write(held, followed, ports);
        self.fetch(now, Queue::Receive, ports);
        self.rx_note_wait(now);
    }

    /// Bytes of a receive buffer.
    fn rx_buffer_bytes(&self) -> usize {
        let rctl = self.regs.get(Reg::Rctl);
        BUFFER_BYTES[usize::from(rctl & rctl::BSEX != 0)][(rctl >> rctl::BSIZE_SHIFT & 3) as usize]
    }

    /// Descriptors have come that software has given: the buffers are the device's.
    pub(crate) fn rx_fetched(&mut self, run: Run, ports: &mut impl NicPorts) {
        let bytes = self.rx_buffer_bytes() as u64;
        self.rx.queue.ring.fetched(run, ports, |ports, _, [buffer, _]| {
            if buffer != 0 {
                ports.buffer_returned(PhysAddr(buffer), bytes);
            }
            buffer
        });
    }

    /// Frames from the FIFO to the buffers of cached descriptors. The last write's wake-up is held back.
    fn rx_dispatch(&mut self, now: Ps, ports: &mut impl NicPorts) -> Option<Requested> {
        let mut held = None;
        let buffer = self.rx_buffer_bytes();
        while self.rx.writes_in_flight < self.config.writes_in_flight.into() {
            let Some(frame) = self.rx.fifo.get(self.rx.dispatched) else { break };
            let Some(&addr) = self.rx.queue.ring.front() else { break };
            let offset = self.rx.cursor;
            let len = buffer.min(frame.bytes.len() - offset);
            if addr != 0 && !self.rx_engine_takes(now, len, ports) {
                break;
            }
            let Some(frame) = self.rx.fifo.get(self.rx.dispatched) else { break };
            self.rx.queue.ring.begin();
            self.stats.rx_descriptors += 1;
            if addr == 0 {
                self.stats.rx_null_descriptors += 1;
                let words = [0, u64::from(rxd::DD) << 32];
                let watched = Observed::default();
                self.rx.queue.ring.finish(Completed { words, frame_bytes: 0, watched });
                continue;
            }
            let front = self.rx.dispatched;
            let last = offset + len == frame.bytes.len();
            let (notes, mut watched) = (frame.notes, frame.watched);
            let mut second = len as u64 | u64::from(rxd::DD) << 32;
            if offset == 0 {
                // The packet checksum stands in the first descriptor, everything else in the last.
                second |= u64::from(notes.checksum) << 16;
            }
            if last {
                second |= u64::from(notes.status | rxd::EOP) << 32
                    | u64::from(notes.errors) << 40
                    | u64::from(notes.special) << 48;
            }
            let frame_bytes = if last { frame.wire_bytes } else { 0 };
            if last {
                self.rx.dispatched += 1;
                self.rx.cursor = 0;
                self.stats.rx_multi_descriptor += u64::from(offset != 0);
            } else {
                self.rx.cursor += len;
            }
            self.rx.writes_in_flight += 1;
            self.rx.write_bytes_in_flight += len as u64;
            let busy = if offset == 0 { self.config.rx_frame_time } else { Ps::ZERO };
            let (offset, len) = (offset as u32, len as u32);
            let padding = if last && self.config.full_line_writes { padding(addr, len, buffer) } else { 0 };
            let piece = Piece { addr, len: len + padding, offset, tag: DmaTag::default() };
            let write = Write::Data { queue: Queue::Receive, addr, offset, len, last };
            self.wake_for_write(held, false, ports);
            let request = self.request_write(now, piece, DmaKind::RxData, write, ports);
            held = Some(request);
            if offset == 0 {
                watched.0.stamps.dma_started = request.start;
                if let Some(frame) = self.rx.fifo.get_mut(front) {
                    frame.watched = watched;
                }
            }
            // What the port completes by a call is there when the descriptor is, at the latest.
            watched.0.stamps.in_memory = request.done.unwrap_or(Ps::MAX);
            self.rx.queue.ring.finish(Completed { words: [addr, second], frame_bytes, watched });
            if busy != Ps::ZERO {
                self.rx.engine.busy_until(self.path_end(now, Lane::Writes).saturating_add(busy));
            }
        }
        held
    }

    /// Whether the engine can write `len` bytes now. If it is busy it is woken when it is not; room for
    /// bytes comes with the completion of a write.
    fn rx_engine_takes(&mut self, now: Ps, len: usize, ports: &mut impl NicPorts) -> bool {
        match self.rx.engine.ready(now) {
            Ready::Now => {}
            Ready::Later => return false,
            Ready::WakeAt(at) => {
                ports.wake_at(at, Event::Engine(Queue::Receive));
                return false;
            }
        }
        let bytes = self.rx.write_bytes_in_flight;
        bytes == 0 || bytes + len as u64 <= self.config.write_bytes_in_flight.0
    }

    /// Bytes of the frame at the front have reached memory.
    pub(crate) fn rx_data_written(
        &mut self,
        addr: u64,
        offset: u32,
        len: u32,
        last: bool,
        ports: &mut impl NicPorts,
    ) {
        self.rx.writes_in_flight -= 1;
        self.rx.write_bytes_in_flight -= u64::from(len);
        let Some(frame) = self.rx.fifo.front() else { return };
        let (from, to) = (offset as usize, (offset + len) as usize);
        ports.write(PhysAddr(addr), frame.bytes.get(from..to).unwrap_or(&[]));
        if last && let Some(frame) = self.rx.fifo.pop() {
            self.rx.dispatched -= 1;
            self.rx.waits.left();
            self.buffers.recycle(frame.bytes);
        }
    }

    /// Descriptors have been written back: the head moves, and software is told.
    pub(crate) fn rx_written_back(&mut self, now: Ps, run: Run, ports: &mut impl NicPorts) {
        let free_before = self.regs.ring_given(Queue::Receive);
        let mut frames = std::mem::take(&mut self.rx.queue.frame_sizes);
        let RxQueue { ring, begun, .. } = &mut self.rx.queue;
        let bytes = ring.written_back(run.count, |completed| {
            // A descriptor without a buffer holds nothing of a frame.
            if completed.words[0] != 0 {
                begun.push((PhysAddr(completed.words[0]), completed.words[1] as u32 & 0xffff));
            }
            if completed.frame_bytes != 0 {
                ports.frame_in_memory(now, begun, completed.frame_bytes);
                begun.clear();
                frames.push(completed.frame_bytes);
                let Watched { id, mut stamps, .. } = completed.watched.0;
                if let Some(id) = id {
                    (stamps.in_memory, stamps.visible) = (stamps.in_memory.min(now), now);
                    ports.frame_received(id, stamps);
                }
            }
        });
        ports.write(PhysAddr(run.addr), bytes);
        self.regs.advance_head(Queue::Receive, run.count);
        for bytes in frames.drain(..) {
            self.stats.rx_delivered += 1;
            self.stats.rx_delivered_bytes += u64::from(bytes);
            self.frame_received_interrupt(now, bytes, ports);
        }
        self.rx.queue.frame_sizes = frames;
        let free_after = self.regs.ring_given(Queue::Receive);
        let fraction = 1 + (self.regs.get(Reg::Rctl) >> rctl::RDMTS_SHIFT & 3).min(2);
        let minimum = self.regs.ring_count(Queue::Receive) >> fraction;
        if free_before > minimum && free_after <= minimum {
            self.set_cause(now, cause::RXDMT0, ports);
        }
        self.watch_fifo_level(now, ports);
    }

    /// Software has moved the ring away: what hangs on it is lost, the rest of the FIFO stays.
    pub(crate) fn rx_ring_rewritten(&mut self) {
        let measured = self.rx.measured_frames();
        self.dma.cancel(Queue::Receive);
        let torn = usize::from(self.rx.cursor != 0);
        let lost = self.rx.dispatched + torn;
        let untouched = (self.rx.fifo.len() - lost) as u64;
        self.stats.rx_drop_reset += self.rx.frames() - untouched;
        for _ in 0..lost {
            self.rx.fifo.pop();
        }
        (self.rx.dispatched, self.rx.cursor) = (0, 0);
        (self.rx.writes_in_flight, self.rx.write_bytes_in_flight) = (0, 0);
        self.rx.queue.begun.clear();
        self.rx.queue.ring.rewind(self.regs.ring_head(Queue::Receive));
        self.measured.drops.reset += measured - self.rx.measured_frames();
    }

    /// A device reset: the FIFO is lost too.
    pub(crate) fn rx_reset(&mut self) {
        self.rx_ring_rewritten();
        self.measured.drops.reset += self.rx.measured_frames();
        self.stats.rx_drop_reset += self.rx.frames();
        let drops = self.rx.waits.drops;
        self.rx = super::Rx::default();
        self.rx.waits.drops = drops;
    }
}
