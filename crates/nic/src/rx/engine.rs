//! The receive DMA engine: descriptors are fetched ahead, frames written to their buffers, used
//! descriptors written back (§3.2.4 to §3.2.6). Several frames are in DMA at once. A write-back is
//! asked for right behind the data, and posted writes keep their order, so data is always visible
//! first.
//!
//! Write-back happens as soon as RXDCTL.WTHRESH used descriptors wait, and also when the FIFO holds
//! nothing more to dispatch or the chip has no unused descriptor left: a polling driver never waits.

use doorbell_sim::ports::{DmaKind, PhysAddr};
use doorbell_sim::{Observed, Ps, log};

use super::{Completed, Watched};
use crate::bits::{cause, rctl, rxd};
use crate::dma::{DESCRIPTOR_BYTES, HeldWrite, Piece, Read, Write};
use crate::regs::Reg;
use crate::ring::{Direction, LINE_DESCRIPTORS, Ring, Thresholds};
use crate::timer::Wake;
use crate::{Event, Nic, NicPorts};

/// Bytes of a receive buffer by RCTL.BSIZE, without and with RCTL.BSEX. The reserved code counts as the smallest of its row.
const BUFFER_BYTES: [[usize; 4]; 2] = [[2048, 1024, 512, 256], [4096, 16384, 8192, 4096]];

impl Nic {
    /// Does whatever can be done now. Work is bounded by the descriptors on the chip.
    pub(crate) fn rx_advance(&mut self, now: Ps, ports: &mut impl NicPorts) {
        if !self.bus_master {
            return;
        }
        let held = self.rx_dispatch(now, ports);
        let thresholds = Thresholds::read(self.regs.get(Reg::Rxdctl));
        let waiting = self.rx.completed.len() - self.rx.issued;
        let drained = self.rx.dispatched == self.rx.fifo.len() || self.rx.cache.is_empty();
        let flush = drained || waiting >= thresholds.write_back as usize;
        let followed = flush && self.rx_write_back_is_due(now, waiting, ports) && self.rx_flush(now, ports);
        self.wake_for_write(held, followed, ports);
        self.rx_fetch(now, thresholds, ports);
    }

    /// Whether the write-back of `waiting` descriptors that is called for goes now. If not, it goes when its wait is over.
    fn rx_write_back_is_due(&mut self, now: Ps, waiting: usize, ports: &mut impl NicPorts) -> bool {
        let wait = self.config.write_back_wait;
        if waiting == 0 || wait == Ps::ZERO || waiting >= usize::from(self.config.write_back_batch) {
            return true;
        }
        if !self.rx.write_back.is_armed()
            && let Some(at) = self.rx.write_back.arm(now.saturating_add(wait))
        {
            ports.wake_at(at, Event::RxWriteBack);
        }
        false
    }

    pub(crate) fn rx_write_back_woken(&mut self, now: Ps, ports: &mut impl NicPorts) {
        match self.rx.write_back.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => ports.wake_at(at, Event::RxWriteBack),
            Wake::Expired => {
                self.rx_flush(now, ports);
            }
        }
    }

    /// Frames from the FIFO to the buffers of cached descriptors. The last write's wake-up is held back.
    fn rx_dispatch(&mut self, now: Ps, ports: &mut impl NicPorts) -> Option<HeldWrite> {
        let mut held = None;
        let rctl = self.regs.get(Reg::Rctl);
        let buffer =
            BUFFER_BYTES[usize::from(rctl & rctl::BSEX != 0)][(rctl >> rctl::BSIZE_SHIFT & 3) as usize];
        while self.rx.writes_in_flight < self.config.writes_in_flight.into() {
            let Some(frame) = self.rx.fifo.get(self.rx.dispatched) else { break };
            let Some(&addr) = self.rx.cache.front() else { break };
            let offset = self.rx.cursor;
            let len = buffer.min(frame.bytes.len() - offset);
            if addr != 0 && !self.rx_engine_takes(now, len, ports) {
                break;
            }
            let Some(frame) = self.rx.fifo.get(self.rx.dispatched) else { break };
            self.rx.cache.pop_front();
            self.stats.rx_descriptors += 1;
            if addr == 0 {
                self.stats.rx_null_descriptors += 1;
                let words = [0, u64::from(rxd::DD) << 32];
                self.rx.completed.push_back(Completed {
                    words,
                    frame_bytes: 0,
                    watched: Observed::default(),
                });
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
            self.rx.engine_free = now.saturating_add(busy);
            let piece = Piece { addr, len: len as u32, offset: offset as u32 };
            let write = Write::RxData { addr, offset: piece.offset, len: piece.len, last };
            self.wake_for_write(held, false, ports);
            let request = self.request_write(now, piece, DmaKind::RxData, write, ports);
            held = Some(request);
            if offset == 0 {
                watched.0.stamps.dma_begun = request.start;
                self.rx.fifo[front].watched = watched;
            }
            // What the port completes by a call is there when the descriptor is, at the latest.
            watched.0.stamps.in_memory = request.done.unwrap_or(Ps::MAX);
            self.rx.completed.push_back(Completed { words: [addr, second], frame_bytes, watched });
            if busy != Ps::ZERO {
                self.rx.engine_free = self.path_end(now, Direction::Receive).saturating_add(busy);
            }
        }
        held
    }

    /// Whether the engine can write `len` bytes now. If it is busy it is woken when it is not; room for
    /// bytes comes with the completion of a write.
    fn rx_engine_takes(&mut self, now: Ps, len: usize, ports: &mut impl NicPorts) -> bool {
        if self.rx.engine_free > now {
            if self.rx.engine_wake != self.rx.engine_free {
                self.rx.engine_wake = self.rx.engine_free;
                ports.wake_at(self.rx.engine_free, Event::RxEngine);
            }
            return false;
        }
        let bytes = self.rx.write_bytes_in_flight;
        bytes == 0 || bytes + len as u64 <= self.config.write_bytes_in_flight.0
    }

    /// Asks for the write-back of every used descriptor. True if there was any.
    pub(crate) fn rx_flush(&mut self, now: Ps, ports: &mut impl NicPorts) -> bool {
        let mut any = false;
        let batch = u32::from(self.config.write_back_batch);
        self.rx.write_back.cancel();
        while self.bus_master && self.rx.issued < self.rx.completed.len() {
            let Some(ring) = Ring::read(&self.regs, Direction::Receive) else {
                self.stats.ring_nonsense += 1;
                log!(now, Nic, Warn, "{}: RDH or RDT lies outside the receive ring", self.name);
                return any;
            };
            any = true;
            let first = ring.after(ring.head, self.rx.issued as u32);
            let count =
                ((self.rx.completed.len() - self.rx.issued) as u32).min(ring.count - first).min(batch);
            self.rx.issued += count as usize;
            self.stats.rx_write_backs += 1;
            let addr = ring.address(first);
            let write = Write::RxWriteback { addr, count };
            let piece = Piece::descriptors(addr, count);
            self.issue_write(now, piece, DmaKind::RxDescriptorWriteback, write, ports);
        }
        any
    }

    /// Fetches descriptors if the thresholds say so; one fetch at a time, never across the ring's end.
    fn rx_fetch(&mut self, now: Ps, thresholds: Thresholds, ports: &mut impl NicPorts) {
        if self.rx.fetching != 0 || !self.regs.has(Reg::Rctl, rctl::EN) {
            return;
        }
        let Some(ring) = Ring::read(&self.regs, Direction::Receive) else {
            self.stats.ring_nonsense += u64::from(self.regs.get(Reg::Rdlen) != 0);
            return;
        };
        let available = ring.distance(self.rx.fetched, ring.tail);
        let cached = self.rx.cache.len() as u32;
        let needed = thresholds.fetch(cached, available);
        let prefetch = self.config.descriptor_prefetch.is_some_and(|level| cached <= level.into());
        if !needed && !prefetch {
            return;
        }
        let on_chip = cached + self.rx.completed.len() as u32;
        let cache = u32::from(self.config.rx_descriptor_cache);
        // A tail that software has moved back must not make the engine overtake the head.
        let room = cache.min(ring.count - 1).saturating_sub(on_chip);
        let count = available
            .min(room)
            .min(self.config.descriptor_fetch_max.into())
            .min(ring.count - self.rx.fetched);
        if count == 0 || !needed && count < LINE_DESCRIPTORS {
            return;
        }
        let addr = ring.address(self.rx.fetched);
        self.rx.fetched = ring.after(self.rx.fetched, count);
        self.rx.fetching = count;
        self.stats.rx_fetches += 1;
        let busy = Ps(self.config.descriptor_time.0 * u64::from(count));
        self.rx.engine_free = self.rx.engine_free.max(now).saturating_add(busy);
        let read = Read::RxFetch { addr, count };
        self.issue_read(now, Piece::descriptors(addr, count), DmaKind::RxDescriptorFetch, read, ports);
    }

    pub(crate) fn rx_fetched(&mut self, addr: u64, count: u32, ports: &mut impl NicPorts) {
        self.rx.fetching = 0;
        let mut bytes = std::mem::take(&mut self.tx.scratch);
        bytes.resize((count * DESCRIPTOR_BYTES) as usize, 0);
        ports.read(PhysAddr(addr), &mut bytes);
        let (descriptors, _) = bytes.as_chunks::<16>();
        for descriptor in descriptors {
            let (words, _) = descriptor.as_chunks::<8>();
            self.rx.cache.push_back(u64::from_le_bytes(words[0]));
        }
        self.tx.scratch = bytes;
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
        if last && let Some(frame) = self.rx.fifo.pop_front() {
            self.rx.fifo_used -= u64::from(frame.stored);
            self.rx.dispatched -= 1;
            self.tx.recycle(frame.bytes);
        }
    }

    /// Descriptors have been written back: the head moves, and software is told.
    pub(crate) fn rx_written_back(&mut self, now: Ps, addr: u64, count: u32, ports: &mut impl NicPorts) {
        let free_before = self.rx_free_descriptors();
        let mut bytes = std::mem::take(&mut self.tx.scratch);
        bytes.clear();
        self.rx.issued -= count as usize;
        let mut frames = std::mem::take(&mut self.tx.frame_sizes);
        frames.clear();
        for completed in self.rx.completed.drain(..count as usize) {
            bytes.extend_from_slice(&completed.words[0].to_le_bytes());
            bytes.extend_from_slice(&completed.words[1].to_le_bytes());
            // A descriptor without a buffer holds nothing of a frame.
            if completed.words[0] != 0 {
                self.rx.begun.push((PhysAddr(completed.words[0]), completed.words[1] as u32 & 0xffff));
            }
            if completed.frame_bytes != 0 {
                ports.frame_in_memory(now, &self.rx.begun, completed.frame_bytes);
                self.rx.begun.clear();
                frames.push(completed.frame_bytes);
                let Watched { id, mut stamps } = completed.watched.0;
                if let Some(id) = id {
                    (stamps.in_memory, stamps.visible) = (stamps.in_memory.min(now), now);
                    ports.frame_received(id, stamps);
                }
            }
        }
        ports.write(PhysAddr(addr), &bytes);
        self.tx.scratch = bytes;
        self.advance_head(Reg::Rdh, Reg::Rdlen, count);
        for bytes in &frames {
            self.stats.rx_delivered += 1;
            self.stats.rx_delivered_bytes += u64::from(*bytes);
            self.frame_received_interrupt(now, *bytes, ports);
        }
        self.tx.frame_sizes = frames;
        let free_after = self.rx_free_descriptors();
        let fraction = 1 + (self.regs.get(Reg::Rctl) >> rctl::RDMTS_SHIFT & 3).min(2);
        let minimum = (self.regs.get(Reg::Rdlen) / DESCRIPTOR_BYTES) >> fraction;
        if free_before > minimum && free_after <= minimum {
            self.set_cause(now, cause::RXDMT0, ports);
        }
        self.watch_fifo_level(now, ports);
    }

    fn rx_free_descriptors(&self) -> u32 {
        Ring::read(&self.regs, Direction::Receive).map_or(0, |ring| ring.distance(ring.head, ring.tail))
    }

    /// Moves a head register on; the ring's length is not zero, or nothing would have been on its way.
    pub(crate) fn advance_head(&mut self, head: Reg, length: Reg, steps: u32) {
        let count = self.regs.get(length) / DESCRIPTOR_BYTES;
        if count != 0 {
            self.regs.set(head, (self.regs.get(head) + steps) % count);
        }
    }

    /// Software has moved the ring away: what hangs on it is lost, the rest of the FIFO stays.
    pub(crate) fn rx_ring_rewritten(&mut self) {
        for write in self.dma.writes.kinds_mut() {
            if matches!(write, Write::RxData { .. } | Write::RxWriteback { .. }) {
                *write = Write::Cancelled;
            }
        }
        for read in self.dma.reads.kinds_mut() {
            if matches!(read, Read::RxFetch { .. }) {
                *read = Read::Cancelled;
            }
        }
        let torn = usize::from(self.rx.cursor != 0);
        let untouched = (self.rx.fifo.len() - self.rx.dispatched - torn) as u64;
        self.stats.rx_drop_reset += self.rx.frames() - untouched;
        let freed: u64 =
            self.rx.fifo.drain(..self.rx.dispatched + torn).map(|frame| u64::from(frame.stored)).sum();
        self.rx.fifo_used -= freed;
        (self.rx.dispatched, self.rx.cursor, self.rx.issued) = (0, 0, 0);
        (self.rx.fetching, self.rx.writes_in_flight, self.rx.write_bytes_in_flight) = (0, 0, 0);
        self.rx.cache.clear();
        self.rx.completed.clear();
        self.rx.begun.clear();
        self.rx.fetched = self.regs.get(Reg::Rdh);
    }

    /// A device reset: the FIFO is lost too.
    pub(crate) fn rx_reset(&mut self) {
        self.rx_ring_rewritten();
        self.stats.rx_drop_reset += self.rx.frames();
        self.rx = super::Rx::default();
    }
}
