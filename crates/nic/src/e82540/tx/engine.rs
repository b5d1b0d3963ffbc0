//! The transmit DMA engine: fetching descriptors, reading buffers, writing descriptors back
//! (§3.4.1 to §3.4.3).
//!
//! With TXDCTL.WTHRESH zero a descriptor with RS is written back as soon as it is done, alone or
//! with neighbours that are done too. With a threshold they gather, descriptors without RS in
//! between are written too, and the burst goes when the threshold is reached, a delay timer
//! expires, or the chip has nothing more to do: a polling driver never waits.

use doorbell_sim::ports::{DmaKind, DmaTag, PhysAddr};
use doorbell_sim::{Ps, TxStamps, log};

use super::Done;
use super::descriptor::Descriptor;
use crate::e82540::bits::{cause, dctl, txd};
use crate::e82540::dma::Read;
use crate::e82540::regs::Reg;
use crate::e82540::{Event, Nic, NicPorts, Queue};
use crate::parts::dma::{Lane, Piece};
use crate::parts::engine::Ready;
use crate::parts::jobs::{Fetched, Job};
use crate::parts::mac::WireWork as _;
use crate::parts::queues::{QueueWork as _, Queues as _};
use crate::parts::requests::Requests as _;
use crate::parts::ring::Run;

impl Nic {
    /// Does whatever can be done now. Work is bounded by the descriptors on the chip and the reads in flight.
    pub(crate) fn tx_advance(&mut self, now: Ps, ports: &mut impl NicPorts) {
        self.tx.outlet.release(now);
        let blocked = self.transmitter_on() && self.tx_request(now, ports);
        let malformed = self.stats.tx_malformed;
        self.tx_retire();
        if self.stats.tx_malformed != malformed {
            log!(now, Nic, Warn, "{}: a transmit descriptor or packet makes no sense", self.name);
        }
        self.send_frames(now, ports);
        if blocked && let Some(at) = self.tx.outlet.next() {
            self.wake_for_wire(at, ports);
        }
        self.tx_write_back(now, ports);
        self.fetch(now, Queue::Transmit, ports);
    }

    /// Asks for buffers, as far as the reads in flight and the FIFO allow. True if it is the FIFO that has no room.
    fn tx_request(&mut self, now: Ps, ports: &mut impl NicPorts) -> bool {
        loop {
            let Some(job) = self.tx.queue.jobs.get(self.tx.queue.requested).copied() else {
                let Some(fetched) = self.tx.queue.ring.begin() else { return false };
                self.stats.tx_descriptors += 1;
                let len = Descriptor::buffer_len(fetched.words);
                self.tx.queue.jobs.push_back(Job::new(fetched, len));
                continue;
            };
            if job.to_request == 0 {
                self.tx.queue.requested += 1;
                continue;
            }
            let len = job.to_request.min(self.config.tx_read_max.0 as u32);
            if self.tx.queue.reads_in_flight >= self.config.reads_in_flight.into() {
                return false;
            }
            if !self.tx_has_room(len) {
                return true;
            }
            match self.tx.engine.ready(now) {
                Ready::Now => {}
                Ready::Later => return false,
                Ready::WakeAt(at) => {
                    ports.wake_at(at, Event::Engine(Queue::Transmit));
                    return false;
                }
            }
            let offset = u64::from(job.len - job.to_request);
            let piece = Piece {
                addr: job.words[0].wrapping_add(offset),
                len,
                offset: self.tx_frame_offset(),
                tag: DmaTag::default(),
            };
            self.tx.queue.jobs[self.tx.queue.requested].to_request -= len;
            self.tx.queue.reads_in_flight += 1;
            self.tx.queue.reserved += u64::from(len);
            let read = Read::Data { queue: Queue::Transmit, addr: piece.addr, len };
            let start = self.issue_read(now, piece, DmaKind::TxData, read, ports);
            if job.to_request == job.len {
                self.tx.queue.jobs[self.tx.queue.requested].stamps.0.dma_started = start;
            }
            let busy = self.config.tx_buffer_time;
            if busy != Ps::ZERO {
                self.tx.engine.busy_until(self.path_end(now, Lane::Reads).saturating_add(busy));
            }
        }
    }

    /// Which byte of its packet the next one to be asked for is: behind the buffers before, or, if the packet's first
    /// ones have retired, behind what has arrived and what is on its way.
    fn tx_frame_offset(&self) -> u32 {
        let job = &self.tx.queue.jobs[self.tx.queue.requested];
        let (mut from_start, mut on_the_way) = (job.len - job.to_request, job.to_arrive - job.to_request);
        for before in self.tx.queue.jobs.range(..self.tx.queue.requested).rev() {
            if Descriptor::parse(before.words).ends_packet() {
                return from_start;
            }
            from_start = from_start.saturating_add(before.len);
            on_the_way = on_the_way.saturating_add(before.to_arrive);
        }
        let arrived =
            (self.tx.queue.packet.bytes.len() as u32).saturating_add(self.tx.queue.packet.cut_bytes);
        arrived.saturating_add(on_the_way)
    }

    /// Whether the FIFO takes `len` more bytes.
    fn tx_has_room(&self, len: u32) -> bool {
        let frames = self.tx.fifo.used() + self.tx.outlet.room();
        let nothing_leaves = frames == 0 && self.tx.queue.reads_in_flight == 0;
        let used = frames + self.tx.queue.reserved;
        used + u64::from(len) <= self.tx_fifo_capacity() || nothing_leaves
    }

    /// Jobs whose bytes are all here leave in order.
    pub(super) fn tx_retire(&mut self) {
        while self.tx.queue.jobs.front().is_some_and(|job| job.to_request == 0 && job.to_arrive == 0) {
            let Some(job) = self.tx.queue.jobs.pop_front() else { return };
            self.tx.queue.requested = self.tx.queue.requested.saturating_sub(1);
            let descriptor = Descriptor::parse(job.words);
            self.tx_note_stamps(job.stamps.0);
            self.tx_process(descriptor);
            let report = descriptor.command() & txd::RS != 0;
            let delayed = descriptor.command() & txd::IDE != 0;
            let words = [job.words[0], job.words[1] | txd::STATUS_DD];
            self.tx.queue.ring.finish(Done { words, report, interrupts: report, delayed });
        }
    }

    /// The descriptor that is processed next: its stamps are those of the frame that it ends. One without a buffer has
    /// been read when it was fetched, and no frame is there before all its descriptors are.
    pub(super) fn tx_note_stamps(&mut self, stamps: TxStamps) {
        let dma_started = stamps.dma_started.max(stamps.fetched);
        let read = stamps.read.max(dma_started).max(self.tx.queue.stamps.read);
        self.tx.queue.stamps = TxStamps { dma_started, read, ..stamps };
    }

    /// Write-backs as the threshold says, and the head past what needs none.
    fn tx_write_back(&mut self, now: Ps, ports: &mut impl NicPorts) {
        let threshold = self.regs.thresholds(Queue::Transmit).write_back as usize;
        if threshold == 0 {
            if self.write_back_is_due(now, Queue::Transmit, ports) {
                self.write_back(now, Queue::Transmit, ports);
            }
            self.tx_pass_silent(now, ports);
            return;
        }
        // Descriptors gather from the first with RS on.
        let mut waiting = self.tx.queue.ring.waiting().skip_while(|done| !done.report);
        let (first, gathered) = (waiting.next(), 1 + waiting.count());
        let idle = self.tx.queue.jobs.is_empty() && self.tx.queue.ring.is_empty();
        if first.is_none() {
            self.tx_pass_silent(now, ports);
        } else if (gathered >= threshold || idle) && self.write_back_is_due(now, Queue::Transmit, ports) {
            self.tx_flush(now, ports);
        }
    }

    /// Writes back everything that has gathered, in one burst with what lies between.
    pub(crate) fn tx_flush(&mut self, now: Ps, ports: &mut impl NicPorts) {
        let burst = self.regs.thresholds(Queue::Transmit).write_back != 0;
        let ring = &mut self.tx.queue.ring;
        if let Some(last) = ring.used().rposition(|done| done.report).filter(|_| burst) {
            ring.waiting_up_to(last).skip_while(|done| !done.report).for_each(|done| done.report = true);
        }
        self.write_back(now, Queue::Transmit, ports);
        self.tx_pass_silent(now, ports);
    }

    /// The head passes descriptors at the front that need no report.
    fn tx_pass_silent(&mut self, now: Ps, ports: &mut impl NicPorts) {
        let silent = self.tx.queue.ring.pass_silent();
        self.tx_move_head(now, silent, ports);
    }

    pub(crate) fn tx_written_back(&mut self, now: Ps, run: Run, ports: &mut impl NicPorts) {
        let (mut at_once, mut delayed) = (false, false);
        let bytes = self.tx.queue.ring.written_back(run.count, |done| {
            at_once |= done.interrupts && !done.delayed;
            delayed |= done.interrupts && done.delayed;
        });
        ports.write(PhysAddr(run.addr), bytes);
        self.tx_move_head(now, run.count, ports);
        self.tx_pass_silent(now, ports);
        if delayed {
            self.descriptor_sent_interrupt(now, true, ports);
        }
        if at_once {
            self.descriptor_sent_interrupt(now, false, ports);
        }
    }

    /// The head moves on: perhaps few descriptors are left (TXD_LOW), or none (TXQE).
    fn tx_move_head(&mut self, now: Ps, steps: u32, ports: &mut impl NicPorts) {
        if steps == 0 {
            return;
        }
        let before = self.regs.ring_given(Queue::Transmit);
        self.regs.advance_head(Queue::Transmit, steps);
        let after = self.regs.ring_given(Queue::Transmit);
        let low = 8 * (self.regs.get(Reg::Txdctl) >> dctl::LWTHRESH_SHIFT);
        let mut causes = 0;
        if before > low && after <= low {
            causes |= cause::TXD_LOW;
        }
        if after == 0 {
            causes |= cause::TXQE;
        }
        if causes != 0 {
            self.set_cause(now, causes, ports);
        }
    }

    pub(crate) fn tx_fetched(&mut self, now: Ps, run: Run, ports: &mut impl NicPorts) {
        let place = self.regs.ring(Queue::Transmit);
        let first = place.map_or(0, |place| place.index_of(run.addr));
        let super::TxQueue { ring, doorbells, .. } = &mut self.tx.queue;
        ring.fetched(run, ports, |_, index, words| {
            let doorbell = doorbells.of(first + index);
            Fetched { words, stamps: TxStamps { doorbell, fetched: now, ..TxStamps::default() } }
        });
        if place.is_some_and(|place| ring.has_fetched_all(&place)) {
            doorbells.clear();
        }
    }

    /// Software has moved the ring away: what hangs on it is lost, whole frames stay.
    pub(crate) fn tx_ring_rewritten(&mut self) {
        self.dma.cancel(Queue::Transmit);
        let head = self.regs.ring_head(Queue::Transmit);
        let queue = &mut self.tx.queue;
        queue.ring.rewind(head);
        queue.jobs.clear();
        (queue.requested, queue.reads_in_flight, queue.reserved) = (0, 0, 0);
        queue.packet.clear();
        queue.doorbells.clear();
    }

    /// A device reset: the FIFO is lost too.
    pub(crate) fn tx_reset(&mut self) {
        self.tx_ring_rewritten();
        self.stats.tx_drop_reset += self.tx.frames();
        let mut outlet = std::mem::take(&mut self.tx.outlet);
        outlet.reset();
        self.tx = super::Tx { outlet, ..super::Tx::default() };
    }
}
