//! The transmit DMA engine: descriptor fetch, buffer reads, and write-back of descriptors or heads (§7.2).
//!
//! With TXDCTL.WTHRESH zero, a descriptor with RS is written back as soon as it is done, together with done
//! neighbours. With a threshold, done descriptors gather, and the burst also contains those without RS in
//! between. It is written when the threshold is reached or the queue has no more work, so that a polling
//! driver never waits. With head write-back, one write of the head replaces each burst.

use doorbell_pcie::FunctionPorts;
use doorbell_sim::ports::{DmaDirection, PhysAddr};
use doorbell_sim::{Ps, TxStamps, log};

use super::{Done, Tx, TxQueue};
use crate::intel::bits::txd;
use crate::intel::{Chip, Controller, Event, Queue, wake};
use crate::parts::dma::{Piece, Read, TransferClass};
use crate::parts::engine::Ready;
use crate::parts::jobs::{Fetched, Job};
use crate::parts::ring::Run;

/// Result of requesting a queue's next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    /// The queue has no buffers to read.
    Nothing,
    /// All buffers of a packet were requested.
    Packet,
    /// The packet buffer has no room.
    NoRoom,
    /// The engine is busy, or the limit of reads in flight is reached.
    Busy,
}

impl<C: Chip> Controller<C> {
    /// Makes all progress possible at `now`. The work is bounded by the descriptors on the chip and the reads
    /// in flight.
    pub(in crate::intel) fn tx_advance(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        self.tx.outlet.release(now);
        let blocked = self.transmitter_on() && self.tx_request(now, ports);
        let malformed = self.stats.tx_malformed;
        for queue in self.on.transmitting() {
            self.tx_retire(queue);
        }
        if self.stats.tx_malformed != malformed {
            log!(now, Nic, Warn, "{}: malformed transmit descriptor or packet", self.name);
        }
        self.send_frames(now, ports);
        if blocked && let Some(at) = self.tx.outlet.next() {
            self.wake_for_wire(at, ports);
        }
        for queue in self.on.transmitting() {
            self.tx_write_back(now, queue, ports);
            self.fetch(now, Queue::transmit(queue), ports);
        }
    }

    /// Requests buffer reads, round robin over the queues, within the limits of reads in flight and packet
    /// buffer space. Returns true if the packet buffer is the limit.
    fn tx_request(&mut self, now: Ps, ports: &mut dyn FunctionPorts) -> bool {
        let on = self.on.transmit;
        let mut idle = 0;
        while idle < on.count_ones() {
            // The next enabled queue, starting at `turn`.
            let from_turn = on & (!0 << self.tx.turn);
            self.tx.turn = (if from_turn != 0 { from_turn } else { on }).trailing_zeros() as usize;
            match self.tx_request_packet(now, self.tx.turn, ports) {
                Request::NoRoom => return true,
                Request::Busy => return false,
                Request::Nothing => idle += 1,
                Request::Packet => idle = 0,
            }
            self.tx.turn = (self.tx.turn + 1) % C::QUEUES;
        }
        false
    }

    /// Requests the buffers of a queue's next packet.
    fn tx_request_packet(&mut self, now: Ps, queue: usize, ports: &mut dyn FunctionPorts) -> Request {
        loop {
            let of = &mut self.tx.queues[queue];
            let Some(job) = of.jobs.get(of.requested).copied() else {
                let Some(fetched) = of.ring.begin() else { return Request::Nothing };
                self.stats.tx_descriptors += 1;
                self.queue_stats[queue].tx_descriptors += 1;
                of.jobs.push_back(Job::new(fetched, C::descriptor(fetched.words).buffer_len()));
                continue;
            };
            if job.to_request == 0 {
                of.requested += 1;
                if C::descriptor(job.words).ends_packet() {
                    return Request::Packet;
                }
                continue;
            }
            let len = job.to_request.min(self.config.tx_read_max.0 as u32);
            if self.tx.reads_in_flight >= self.config.reads_in_flight.into() {
                return Request::Busy;
            }
            if !self.tx_has_room(len) {
                return Request::NoRoom;
            }
            match self.tx.engine.ready(now) {
                Ready::Now => {}
                Ready::Later => return Request::Busy,
                Ready::WakeAt(at) => {
                    wake(ports, at, Event::Sender);
                    return Request::Busy;
                }
            }
            self.tx_request_piece(now, queue, job, len, ports);
        }
    }

    /// Requests the next `len` bytes of a job's buffer.
    fn tx_request_piece(&mut self, now: Ps, queue: usize, job: Job, len: u32, ports: &mut dyn FunctionPorts) {
        let offset = u64::from(job.len - job.to_request);
        let frame_offset = self.tx_frame_offset(queue);
        let tag = self.tag(Queue::transmit(queue), TransferClass::Read);
        let piece = Piece { addr: job.words[0].wrapping_add(offset), len, offset: frame_offset, tag };
        let at = self.tx.queues[queue].requested;
        self.tx.queues[queue].jobs[at].to_request -= len;
        self.tx.reads_in_flight += 1;
        self.tx.reserved += u64::from(len);
        let read = Read::Data { queue: Queue::transmit(queue), addr: piece.addr, len };
        let start = self.issue_read(now, piece, read, ports);
        if job.to_request == job.len {
            self.tx.queues[queue].jobs[at].stamps.0.dma_started = start;
        }
        let busy = self.config.tx_buffer_time;
        if busy != Ps::ZERO {
            self.tx.engine.busy_until(self.path_end(now, DmaDirection::Read).saturating_add(busy));
        }
    }

    /// Returns the offset in its packet of the next byte to request. It sums the packet's earlier buffers. If
    /// the first of them have retired, it counts the bytes arrived and in flight instead.
    fn tx_frame_offset(&self, queue: usize) -> u32 {
        let of = &self.tx.queues[queue];
        let job = &of.jobs[of.requested];
        let (mut from_start, mut in_flight) = (job.len - job.to_request, job.to_arrive - job.to_request);
        for before in of.jobs.range(..of.requested).rev() {
            if C::descriptor(before.words).ends_packet() {
                return from_start;
            }
            from_start = from_start.saturating_add(before.len);
            in_flight = in_flight.saturating_add(before.to_arrive);
        }
        let arrived = (of.packet.bytes.len() as u32).saturating_add(of.packet.cut_bytes);
        arrived.saturating_add(in_flight)
    }

    /// Whether the packet buffer has room for `len` more bytes.
    fn tx_has_room(&self, len: u32) -> bool {
        let frames = self.tx.fifo.used() + self.tx.outlet.room();
        let is_empty = frames == 0 && self.tx.reads_in_flight == 0;
        let used = frames + self.tx.reserved;
        used + u64::from(len) <= self.tx_fifo_capacity() || is_empty
    }

    /// Retires a queue's jobs in order, as far as all their bytes have arrived.
    pub(super) fn tx_retire(&mut self, queue: usize) {
        let arrived = |job: &Job| job.to_request == 0 && job.to_arrive == 0;
        while self.tx.queues[queue].jobs.front().is_some_and(arrived) {
            let of = &mut self.tx.queues[queue];
            let Some(job) = of.jobs.pop_front() else { return };
            of.requested = of.requested.saturating_sub(1);
            let descriptor = C::descriptor(job.words);
            self.tx_record_stamps(queue, job.stamps.0);
            self.tx_process(queue, descriptor);
            let report = descriptor.command() & txd::RS != 0;
            let delayed = descriptor.command() & C::DELAYED != 0;
            let words = [job.words[0], job.words[1] | txd::STATUS_DD];
            self.tx.queues[queue].ring.finish(Done { words, report, interrupts: report, delayed });
        }
    }

    /// Records the stamps of the descriptor processed next; the last descriptor's stamps become the frame's.
    /// A descriptor without a buffer counts as read when fetched. `read` is the latest of the packet's
    /// descriptors.
    pub(super) fn tx_record_stamps(&mut self, queue: usize, stamps: TxStamps) {
        let of = &mut self.tx.queues[queue];
        let dma_started = stamps.dma_started.max(stamps.fetched);
        let read = stamps.read.max(dma_started).max(of.stamps.read);
        of.stamps = TxStamps { dma_started, read, ..stamps };
    }

    /// Writes back descriptors according to the threshold, and advances the head past those that need no
    /// report.
    fn tx_write_back(&mut self, now: Ps, queue: usize, ports: &mut dyn FunctionPorts) {
        let of = Queue::transmit(queue);
        let threshold = C::thresholds(&self.regs, of).write_back as usize;
        if threshold == 0 {
            if self.write_back_is_due(now, of, ports) {
                self.write_back(now, of, ports);
            }
            return self.tx_skip_unreported(now, queue, ports);
        }
        // Gathering starts at the first descriptor with RS.
        let pending = &self.tx.queues[queue];
        let mut waiting = pending.ring.waiting().skip_while(|done| !done.report);
        let (first, gathered) = (waiting.next(), 1 + waiting.count());
        let idle = pending.jobs.is_empty() && pending.ring.is_empty();
        if first.is_none() {
            self.tx_skip_unreported(now, queue, ports);
        } else if (gathered >= threshold || idle) && self.write_back_is_due(now, of, ports) {
            self.tx_flush(now, queue, ports);
        }
    }

    /// Writes back all gathered descriptors in one burst, including those without RS in between.
    pub(in crate::intel) fn tx_flush(&mut self, now: Ps, queue: usize, ports: &mut dyn FunctionPorts) {
        let of = Queue::transmit(queue);
        let burst = C::thresholds(&self.regs, of).write_back != 0;
        let ring = &mut self.tx.queues[queue].ring;
        if let Some(last) = ring.used().rposition(|done| done.report).filter(|_| burst) {
            ring.waiting_up_to(last).skip_while(|done| !done.report).for_each(|done| done.report = true);
        }
        self.write_back(now, of, ports);
        self.tx_skip_unreported(now, queue, ports);
    }

    /// Advances the head past descriptors at the front that need no report.
    fn tx_skip_unreported(&mut self, now: Ps, queue: usize, ports: &mut dyn FunctionPorts) {
        let unreported = self.tx.queues[queue].ring.retire_unreported();
        self.tx_move_head(now, queue, unreported, ports);
    }

    fn tx_move_head(&mut self, now: Ps, queue: usize, steps: u32, ports: &mut dyn FunctionPorts) {
        if steps == 0 {
            return;
        }
        let of = Queue::transmit(queue);
        let before = self.regs.ring_owned::<C>(of);
        self.advance_head(of, steps);
        let left = [before, self.regs.ring_owned::<C>(of)];
        C::head_moved(self, now, left, ports);
    }

    pub(in crate::intel) fn tx_written_back(
        &mut self,
        now: Ps,
        queue: usize,
        run: Run,
        ports: &mut dyn FunctionPorts,
    ) {
        let (mut at_once, mut later) = (false, false);
        let head = C::head_address(&self.regs, queue);
        let bytes = self.tx.queues[queue].ring.written_back(run.count, |done| {
            at_once |= done.interrupts && !done.delayed;
            later |= done.interrupts && done.delayed;
        });
        if head.is_none() {
            ports.write(PhysAddr(run.addr), bytes);
        }
        self.tx_move_head(now, queue, run.count, ports);
        self.tx_skip_unreported(now, queue, ports);
        if let Some(address) = head {
            let head = self.regs.ring_head::<C>(Queue::transmit(queue));
            ports.write(PhysAddr(address), &head.to_le_bytes());
        }
        if at_once || later {
            C::descriptors_sent(self, now, queue, at_once, later, ports);
        }
    }

    pub(in crate::intel) fn tx_fetched(
        &mut self,
        now: Ps,
        queue: usize,
        run: Run,
        ports: &mut dyn FunctionPorts,
    ) {
        let registers = self.ring(Queue::transmit(queue));
        let first = registers.map_or(0, |registers| registers.index_of(run.addr));
        let TxQueue { ring, doorbells, doorbell_hart, .. } = &mut self.tx.queues[queue];
        let (queue, hart) = (queue as u8, *doorbell_hart);
        ring.fetched(run, ports, |_, index, words| {
            let doorbell = doorbells.time_of(first + index);
            let stamps = TxStamps { doorbell, fetched: now, queue, hart, ..TxStamps::default() };
            Fetched { words, stamps }
        });
        if registers.is_some_and(|registers| ring.has_fetched_all(&registers)) {
            doorbells.clear();
        }
    }

    /// Called when software rewrites a ring register other than the tail, or enables or disables the queue.
    /// Descriptors, jobs and the partial packet are discarded; complete frames stay in the packet buffer.
    pub(in crate::intel) fn tx_ring_rewritten(&mut self, queue: usize) {
        self.dma.cancel(Queue::transmit(queue));
        let head = self.regs.ring_head::<C>(Queue::transmit(queue));
        let of = &mut self.tx.queues[queue];
        of.ring.rewind(head);
        of.jobs.clear();
        of.requested = 0;
        of.packet.clear();
        of.doorbells.clear();
        self.tx_recount_reads();
    }

    /// Recomputes the data reads in flight, and the packet buffer space reserved for them and for packets
    /// being assembled.
    pub(in crate::intel) fn tx_recount_reads(&mut self) {
        let (mut count, mut bytes) = (0, 0);
        for read in self.dma.reads.kinds() {
            if let Read::Data { len, .. } = read {
                (count, bytes) = (count + 1, bytes + u64::from(*len));
            }
        }
        let packets: u64 = self.tx.queues.iter().map(|queue| queue.packet.bytes.len() as u64).sum();
        (self.tx.reads_in_flight, self.tx.reserved) = (count, bytes + packets);
    }

    /// Device reset: discards the packet buffer too.
    pub(in crate::intel) fn tx_reset(&mut self) {
        self.stats.tx_drop_reset += self.tx.frames();
        for (_, stamps) in self.tx.fifo.iter() {
            self.queue_stats[usize::from(stamps.queue)].tx_drop_reset += 1;
        }
        let mut outlet = std::mem::take(&mut self.tx.outlet);
        outlet.reset();
        self.tx = Tx { outlet, ..Tx::new(C::QUEUES) };
    }
}
