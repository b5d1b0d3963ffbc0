//! The receive DMA engine: prefetches descriptors, writes frames to their buffers, and writes back used
//! descriptors (§7.1). Several frames are in DMA at once. The write-back is issued right after the data, and
//! posted writes stay in order, so the data is always visible first.
//!
//! Used descriptors are written back as soon as RXDCTL.WTHRESH of them wait. They are also written back when
//! the frame at the packet buffer's front is for another queue (or there is none), or the queue's descriptor
//! cache is empty. So a polling driver never waits, unless `write_back_wait` makes descriptors gather, by
//! number or by cache line.

use doorbell_pcie::FunctionPorts;
use doorbell_sim::memory::LINE_BYTES;
use doorbell_sim::ports::{DmaDirection, PhysAddr};
use doorbell_sim::{Observed, Ps, log};

use super::layout::Layout;
use super::{Completed, DescriptorType, FrameTrace, RxQueue};
use crate::intel::bits::rxd;
use crate::intel::{Chip, Controller, Event, Queue, wake};
use crate::parts::dma::{IssuedRequest, Piece, TransferClass, Write};
use crate::parts::engine::Ready;
use crate::parts::ring::Run;

/// Returns the padding that extends `len` bytes at `addr` to the end of the cache line; zero if the buffer is
/// too short.
fn padding(addr: u64, len: u32, buffer: usize) -> u32 {
    let end = addr.wrapping_add(len.into());
    let padding = (end.wrapping_neg() % LINE_BYTES) as u32;
    if (len + padding) as usize <= buffer { padding } else { 0 }
}

impl<C: Chip> Controller<C> {
    /// Makes all progress possible at `now`. The work is bounded by the descriptors on the chip.
    pub(in crate::intel) fn rx_advance(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        if !self.bus_master {
            return;
        }
        let deferred = self.rx_dispatch(now, ports);
        let front = self.rx.fifo.get(self.rx.dispatched).map(|frame| usize::from(frame.queue));
        let mut followed = false;
        for queue in self.on.receiving() {
            let of = Queue::receive(queue);
            let ring = &self.rx.queues[queue].ring;
            let waiting = ring.waiting().len();
            let drained = front != Some(queue) || ring.is_empty();
            if waiting != 0 && (drained || waiting >= C::thresholds(&self.regs, of).write_back as usize) {
                followed |= self.request_write_back(now, of, ports);
            }
        }
        self.wake_for_write(deferred, followed, ports);
        for queue in self.on.receiving() {
            self.fetch(now, Queue::receive(queue), ports);
        }
        self.rx_account_wait(now);
        self.watch_fifo_level(now, ports);
    }

    /// Handles fetched descriptors and reports their buffers as returned by software.
    pub(in crate::intel) fn rx_fetched(&mut self, queue: usize, run: Run, ports: &mut dyn FunctionPorts) {
        let bytes = C::buffer_bytes(&self.regs, queue)[0] as u64;
        self.rx.queues[queue].ring.fetched(run, ports, |ports, _, buffers| {
            if buffers[0] != 0 {
                ports.buffer_returned(PhysAddr(buffers[0]), bytes);
            }
            buffers
        });
    }

    /// Writes frames from the packet buffer to the buffers of cached descriptors. Returns the last write,
    /// whose wake-up is deferred.
    fn rx_dispatch(&mut self, now: Ps, ports: &mut dyn FunctionPorts) -> Option<IssuedRequest> {
        let mut deferred = None;
        while self.rx.writes_in_flight < self.config.writes_in_flight.into() {
            let Some(frame) = self.rx.fifo.get(self.rx.dispatched) else { break };
            let queue = usize::from(frame.queue);
            let Some(&buffers) = self.rx.queues[queue].ring.front() else {
                if self.rx_must_drop(queue) {
                    self.rx_drop_front(now, queue);
                    continue;
                }
                break;
            };
            let layout = self.lay_out(frame, self.rx.cursor, buffers);
            let bytes = layout.header.len + layout.data.len;
            if buffers[0] != 0 && !self.rx_engine_accepts(now, bytes, ports) {
                break;
            }
            self.rx.queues[queue].ring.begin();
            self.stats.rx_descriptors += 1;
            self.queue_stats[queue].rx_descriptors += 1;
            if buffers[0] == 0 {
                self.complete_null_descriptor(queue);
                continue;
            }
            deferred = self.rx_write(now, queue, &layout, deferred, ports);
        }
        deferred
    }

    /// Completes a descriptor whose buffer address is zero, without data.
    fn complete_null_descriptor(&mut self, queue: usize) {
        self.stats.rx_null_descriptors += 1;
        let done = u64::from(rxd::DD);
        let second =
            if C::descriptor_type(&self.regs, queue) == DescriptorType::Legacy { done << 32 } else { done };
        let empty =
            Completed { words: [0, second], pieces: [(0, 0); 2], frame_bytes: 0, trace: Observed::default() };
        self.rx.queues[queue].ring.finish(empty);
    }

    /// Writes the part of the front frame that fits one descriptor. Returns the last write, whose wake-up is
    /// deferred.
    fn rx_write(
        &mut self,
        now: Ps,
        queue: usize,
        layout: &Layout,
        mut deferred: Option<IssuedRequest>,
        ports: &mut dyn FunctionPorts,
    ) -> Option<IssuedRequest> {
        let front = self.rx.dispatched;
        let [room, _] = C::buffer_bytes(&self.regs, queue);
        let of = C::descriptor_type(&self.regs, queue);
        let frame = self.rx.fifo.get(front)?;
        let (first, last) = (self.rx.cursor == 0, layout.end() == frame.bytes.len());
        let (notes, mut trace, wire_bytes) = (frame.notes, frame.trace, frame.wire_bytes);
        let mut words = layout.words(of, layout.data.addr, &notes, first, last);
        let status = u64::from(rxd::DD | if last { rxd::EOP } else { 0 });
        words[1] |= if of == DescriptorType::Legacy { status << 32 } else { status };
        if last {
            self.rx.dispatched += 1;
            self.rx.cursor = 0;
            self.stats.rx_multi_descriptor += u64::from(!first);
        } else {
            self.rx.cursor = layout.end();
        }
        let parts = [layout.header, layout.data];
        let ends = |index: usize| last && (index == 1 || parts[1].len == 0);
        let mut started = false;
        for (index, part) in parts.iter().enumerate().filter(|(_, part)| part.len != 0) {
            let (addr, offset, len) = (part.addr, part.offset as u32, part.len as u32);
            self.rx.writes_in_flight += 1;
            self.rx.write_bytes_in_flight += u64::from(len);
            let full = ends(index) && index == 1 && self.config.full_line_writes;
            let tag = self.tag(
                Queue::receive(queue),
                if index == 0 { TransferClass::Header } else { TransferClass::Payload },
            );
            let piece =
                Piece { addr, len: len + if full { padding(addr, len, room) } else { 0 }, offset, tag };
            let write = Write::Data { queue: Queue::receive(queue), addr, offset, len, last: ends(index) };
            self.wake_for_write(deferred, false, ports);
            let request = self.request_write(now, piece, write, ports);
            if first && !started {
                trace.0.stamps.dma_started = request.start;
                started = true;
            }
            // If the completion time is unknown, it is bounded later by the descriptor's write-back.
            trace.0.stamps.in_memory = request.done;
            deferred = Some(request);
        }
        if let Some(frame) = self.rx.fifo.get_mut(front) {
            frame.trace = trace;
        }
        let pieces = parts.map(|part| (part.addr, part.len as u32));
        let frame_bytes = if last { wire_bytes } else { 0 };
        self.rx.queues[queue].ring.finish(Completed { words, pieces, frame_bytes, trace });
        let busy = if first { self.config.rx_frame_time } else { Ps::ZERO };
        if busy != Ps::ZERO {
            self.rx.engine.busy_until(self.path_end(now, DmaDirection::Write).saturating_add(busy));
        }
        deferred
    }

    /// Whether the frame at the front, which is for this queue, must be dropped rather than wait for a
    /// descriptor.
    fn rx_must_drop(&self, queue: usize) -> bool {
        let ring = self.ring(Queue::receive(queue));
        C::drops_without_descriptors(&self.regs, queue)
            && self.rx.cursor == 0
            && self.rx.queues[queue].ring.is_exhausted(ring.as_ref())
    }

    fn rx_drop_front(&mut self, now: Ps, queue: usize) {
        let Some(frame) = self.rx.fifo.remove(self.rx.dispatched) else { return };
        let (all, own) = (&mut self.stats, &mut self.queue_stats[queue]);
        let counters = match frame.looped {
            true => [&mut all.rx_looped_drop_full, &mut own.rx_looped_drop_no_descriptor],
            false => [&mut all.rx_drop_core, &mut own.rx_drop_core],
        };
        counters.into_iter().for_each(|counter| *counter += 1);
        own.rx_drop_no_descriptor += u64::from(!frame.looped);
        self.measured.drops.core += u64::from(frame.trace.0.measured);
        C::count_dropped(&mut self.regs, queue);
        self.rx.waits.frame_left();
        let name = &self.name;
        log!(now, Nic, Debug, "{name}: frame dropped: receive queue {queue} has no descriptors");
        self.buffers.recycle(frame.bytes);
    }

    /// Whether the engine can write `len` bytes now. If it is busy, a wake-up is scheduled. If the limit of
    /// bytes in flight is reached, the completion of a write resumes the engine.
    fn rx_engine_accepts(&mut self, now: Ps, len: usize, ports: &mut dyn FunctionPorts) -> bool {
        match self.rx.engine.ready(now) {
            Ready::Now => {}
            Ready::Later => return false,
            Ready::WakeAt(at) => {
                wake(ports, at, Event::Receiver);
                return false;
            }
        }
        let bytes = self.rx.write_bytes_in_flight;
        bytes == 0 || bytes + len as u64 <= self.config.write_bytes_in_flight.0
    }

    /// Handles the completion of a data write for the frame at the front.
    pub(in crate::intel) fn rx_data_written(
        &mut self,
        addr: u64,
        offset: u32,
        len: u32,
        last: bool,
        ports: &mut dyn FunctionPorts,
    ) {
        self.rx.writes_in_flight -= 1;
        self.rx.write_bytes_in_flight -= u64::from(len);
        let Some(frame) = self.rx.fifo.front() else { return };
        let (from, to) = (offset as usize, (offset + len) as usize);
        ports.write(PhysAddr(addr), frame.bytes.get(from..to).unwrap_or(&[]));
        if last && let Some(frame) = self.rx.fifo.pop() {
            self.rx.dispatched -= 1;
            self.rx.waits.frame_left();
            self.buffers.recycle(frame.bytes);
        }
    }

    /// Handles a completed descriptor write-back: advances the head and reports the delivered frames.
    pub(in crate::intel) fn rx_written_back(
        &mut self,
        now: Ps,
        queue: usize,
        run: Run,
        ports: &mut dyn FunctionPorts,
    ) {
        let of = Queue::receive(queue);
        let owned_before = self.regs.ring_owned::<C>(of);
        let mut frames = std::mem::take(&mut self.rx.frame_sizes);
        let RxQueue { ring, partial_frame } = &mut self.rx.queues[queue];
        let bytes = ring.written_back(run.count, |completed| {
            let pieces = completed.pieces.iter().filter(|(_, len)| *len != 0);
            partial_frame.extend(pieces.map(|(addr, len)| (PhysAddr(*addr), *len)));
            if completed.frame_bytes != 0 {
                ports.frame_in_memory(now, partial_frame, completed.frame_bytes);
                partial_frame.clear();
                frames.push(completed.frame_bytes);
                let FrameTrace { id, mut stamps, .. } = completed.trace.0;
                if let Some(id) = id {
                    (stamps.in_memory, stamps.visible) = (stamps.in_memory.min(now), now);
                    ports.frame_received(id, stamps);
                }
            }
        });
        ports.write(PhysAddr(run.addr), bytes);
        self.advance_head(of, run.count);
        for bytes in &frames {
            self.stats.rx_delivered += 1;
            self.stats.rx_delivered_bytes += u64::from(*bytes);
            self.queue_stats[queue].rx_delivered += 1;
            self.queue_stats[queue].rx_delivered_bytes += u64::from(*bytes);
        }
        let left = [owned_before, self.regs.ring_owned::<C>(of)];
        C::frames_delivered(self, now, queue, &frames, left, ports);
        frames.clear();
        self.rx.frame_sizes = frames;
    }

    /// Called when software rewrites a ring register other than the tail, or enables or disables the queue.
    /// Its descriptors and frames in DMA are discarded; the rest of the packet buffer stays.
    pub(in crate::intel) fn rx_ring_rewritten(&mut self, queue: usize) {
        let (before, measured) = (self.rx.frames_of(queue), self.rx.measured_of(queue));
        self.dma.cancel(Queue::receive(queue));
        let partial = usize::from(self.rx.cursor != 0);
        let mut index = 0;
        let mut in_dma = self.rx.dispatched + partial;
        while index < in_dma {
            if self.rx.fifo.get(index).is_none_or(|frame| usize::from(frame.queue) != queue) {
                index += 1;
                continue;
            }
            self.rx.fifo.remove(index);
            in_dma -= 1;
            if index < self.rx.dispatched {
                self.rx.dispatched -= 1;
            } else {
                self.rx.cursor = 0;
            }
        }
        self.rx_recount_writes();
        self.rx.queues[queue].partial_frame.clear();
        self.rx.queues[queue].ring.rewind(self.regs.ring_head::<C>(Queue::receive(queue)));
        // A disabled queue gets no descriptors, so its frames would block the packet buffer.
        if !self.on.has(Queue::receive(queue)) {
            self.rx_drop_queued(queue);
        }
        let lost = before - self.rx.frames_of(queue);
        self.measured.drops.reset += measured - self.rx.measured_of(queue);
        self.stats.rx_drop_reset += lost;
        self.queue_stats[queue].rx_drop_reset += lost;
    }

    /// Removes a queue's frames that are not in DMA from the packet buffer.
    fn rx_drop_queued(&mut self, queue: usize) {
        let mut index = self.rx.dispatched + usize::from(self.rx.cursor != 0);
        while let Some(frame) = self.rx.fifo.get(index) {
            if usize::from(frame.queue) == queue {
                self.rx.fifo.remove(index);
            } else {
                index += 1;
            }
        }
    }

    /// Recomputes the number and bytes of the data writes in flight.
    pub(in crate::intel) fn rx_recount_writes(&mut self) {
        let (mut count, mut bytes) = (0, 0);
        for write in self.dma.writes.kinds() {
            if let Write::Data { len, .. } = write {
                (count, bytes) = (count + 1, bytes + u64::from(*len));
            }
        }
        (self.rx.writes_in_flight, self.rx.write_bytes_in_flight) = (count, bytes);
    }

    /// Device reset: discards the packet buffer too.
    pub(in crate::intel) fn rx_reset(&mut self) {
        for queue in 0..C::QUEUES {
            let lost = self.rx.frames_of(queue);
            self.measured.drops.reset += self.rx.measured_of(queue);
            self.stats.rx_drop_reset += lost;
            self.queue_stats[queue].rx_drop_reset += lost;
        }
        let drops = self.rx.waits.drops;
        self.rx = super::Rx::new(C::QUEUES);
        self.rx.waits.drops = drops;
    }
}
