//! The transmit DMA engine: fetching descriptors, reading buffers, writing descriptors back
//! (§3.4.1 to §3.4.3).
//!
//! With TXDCTL.WTHRESH zero a descriptor with RS is written back as soon as it is done, alone or
//! with neighbours that are done too. With a threshold they gather, descriptors without RS in
//! between are written too, and the burst goes when the threshold is reached, a delay timer
//! expires, or the chip has nothing more to do: a polling driver never waits.

use doorbell_sim::ports::{DmaKind, PhysAddr};
use doorbell_sim::{Observed, Ps, TxStamps, log};

use super::descriptor::Descriptor;
use super::{Done, Fetched, Job};
use crate::bits::{cause, dctl, txd};
use crate::dma::{DESCRIPTOR_BYTES, Piece, Read, Write};
use crate::regs::Reg;
use crate::ring::{Direction, LINE_DESCRIPTORS, Ring, Thresholds};
use crate::timer::Wake;
use crate::{Event, Nic, NicPorts};

impl Nic {
    /// Does whatever can be done now. Work is bounded by the descriptors on the chip and the reads in flight.
    pub(crate) fn tx_advance(&mut self, now: Ps, ports: &mut impl NicPorts) {
        self.tx_release_room(now);
        let blocked = self.transmitter_on() && self.tx_request(now, ports);
        let malformed = self.stats.tx_malformed;
        self.tx_retire();
        if self.stats.tx_malformed != malformed {
            log!(now, Nic, Warn, "{}: a transmit descriptor or packet makes no sense", self.name);
        }
        self.tx_send(now, ports);
        if blocked && let Some((at, _)) = self.tx.leaving.front().copied() {
            self.wake_for_wire(at, ports);
        }
        self.tx_write_back(now, ports);
        if self.transmitter_on() {
            self.tx_fetch(now, ports);
        }
    }

    /// Asks for buffers, as far as the reads in flight and the FIFO allow. True if it is the FIFO that has no room.
    fn tx_request(&mut self, now: Ps, ports: &mut impl NicPorts) -> bool {
        loop {
            let Some(job) = self.tx.jobs.get(self.tx.requested).copied() else {
                let Some(Fetched { words, stamps }) = self.tx.cache.pop_front() else { return false };
                self.stats.tx_descriptors += 1;
                let len = Descriptor::buffer_len(words);
                self.tx.jobs.push_back(Job {
                    words,
                    len,
                    to_request: len,
                    to_arrive: len,
                    stamps: Observed(stamps),
                });
                continue;
            };
            if job.to_request == 0 {
                self.tx.requested += 1;
                continue;
            }
            let len = job.to_request.min(self.config.tx_read_max.0 as u32);
            if self.tx.reads_in_flight >= self.config.reads_in_flight.into() {
                return false;
            }
            if !self.tx_has_room(len) {
                return true;
            }
            if self.tx.engine_free > now {
                if self.tx.engine_wake != self.tx.engine_free {
                    self.tx.engine_wake = self.tx.engine_free;
                    ports.wake_at(self.tx.engine_free, Event::TxEngine);
                }
                return false;
            }
            let offset = u64::from(job.len - job.to_request);
            let piece =
                Piece { addr: job.words[0].wrapping_add(offset), len, offset: self.tx_frame_offset() };
            self.tx.jobs[self.tx.requested].to_request -= len;
            self.tx.reads_in_flight += 1;
            self.tx.reserved += u64::from(len);
            let read = Read::TxData { addr: piece.addr, len };
            let start = self.issue_read(now, piece, DmaKind::TxData, read, ports);
            if job.to_request == job.len {
                self.tx.jobs[self.tx.requested].stamps.0.dma_begun = start;
            }
            let busy = self.config.tx_buffer_time;
            if busy != Ps::ZERO {
                self.tx.engine_free = self.path_end(now, Direction::Transmit).saturating_add(busy);
            }
        }
    }

    /// Which byte of its packet the next one to be asked for is: behind the buffers before, or, if the packet's first
    /// ones have retired, behind what has arrived and what is on its way.
    fn tx_frame_offset(&self) -> u32 {
        let job = &self.tx.jobs[self.tx.requested];
        let (mut from_start, mut on_the_way) = (job.len - job.to_request, job.to_arrive - job.to_request);
        for before in self.tx.jobs.range(..self.tx.requested).rev() {
            if Descriptor::parse(before.words).ends_packet() {
                return from_start;
            }
            from_start = from_start.saturating_add(before.len);
            on_the_way = on_the_way.saturating_add(before.to_arrive);
        }
        let arrived = (self.tx.packet.bytes.len() as u32).saturating_add(self.tx.packet.cut_bytes);
        arrived.saturating_add(on_the_way)
    }

    /// Whether the FIFO takes `len` more bytes.
    fn tx_has_room(&self, len: u32) -> bool {
        let frames = self.tx.queued + self.tx.leaving_room;
        let nothing_leaves = frames == 0 && self.tx.reads_in_flight == 0;
        let used = frames + self.tx.reserved;
        used + u64::from(len) <= self.tx_fifo_capacity() || nothing_leaves
    }

    /// Jobs whose bytes are all here leave in order.
    pub(super) fn tx_retire(&mut self) {
        while self.tx.jobs.front().is_some_and(|job| job.to_request == 0 && job.to_arrive == 0) {
            let Some(job) = self.tx.jobs.pop_front() else { return };
            self.tx.requested = self.tx.requested.saturating_sub(1);
            let descriptor = Descriptor::parse(job.words);
            self.tx_note_stamps(job.stamps.0);
            self.tx_process(descriptor);
            let report = descriptor.command() & txd::RS != 0;
            let delayed = descriptor.command() & txd::IDE != 0;
            let words = [job.words[0], job.words[1] | txd::STATUS_DD];
            self.tx.done.push_back(Done { words, report, interrupts: report, delayed });
        }
    }

    /// The descriptor that is processed next: its stamps are those of the frame that it ends. One without a buffer has
    /// been read when it was fetched, and no frame is there before all its descriptors are.
    pub(super) fn tx_note_stamps(&mut self, stamps: TxStamps) {
        let dma_begun = stamps.dma_begun.max(stamps.fetched);
        let read = stamps.read.max(dma_begun).max(self.tx.stamps.read);
        self.tx.stamps = TxStamps { dma_begun, read, ..stamps };
    }

    /// Write-backs as the threshold says, and the head past what needs none.
    fn tx_write_back(&mut self, now: Ps, ports: &mut impl NicPorts) {
        let threshold = Thresholds::read(self.regs.get(Reg::Txdctl)).write_back as usize;
        if threshold == 0 {
            if self.tx_write_back_is_due(now, ports) {
                self.tx_issue_write_backs(now, ports);
            } else {
                self.tx_pass_silent(now, ports);
            }
            return;
        }
        // Descriptors gather from the first with RS on.
        let mut waiting = self.tx.done.range(self.tx.issued..).skip_while(|done| !done.report);
        let (first, gathered) = (waiting.next(), 1 + waiting.count());
        let idle = self.tx.jobs.is_empty() && self.tx.cache.is_empty();
        if first.is_none() {
            self.tx_pass_silent(now, ports);
        } else if (gathered >= threshold || idle) && self.tx_write_back_is_due(now, ports) {
            self.tx_flush(now, ports);
        }
    }

    /// Whether a write-back that is called for goes now. If not, it goes when its wait is over.
    fn tx_write_back_is_due(&mut self, now: Ps, ports: &mut impl NicPorts) -> bool {
        let wait = self.config.write_back_wait;
        if wait == Ps::ZERO {
            return true;
        }
        let waiting = self.tx.done.range(self.tx.issued..).filter(|done| done.report).count();
        if waiting == 0 || waiting >= usize::from(self.config.write_back_batch) {
            return true;
        }
        if !self.tx.write_back.is_armed()
            && let Some(at) = self.tx.write_back.arm(now.saturating_add(wait))
        {
            ports.wake_at(at, Event::TxWriteBack);
        }
        false
    }

    pub(crate) fn tx_write_back_woken(&mut self, now: Ps, ports: &mut impl NicPorts) {
        match self.tx.write_back.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => ports.wake_at(at, Event::TxWriteBack),
            Wake::Expired => self.tx_flush(now, ports),
        }
    }

    /// Writes back everything that has gathered, in one burst with what lies between.
    pub(crate) fn tx_flush(&mut self, now: Ps, ports: &mut impl NicPorts) {
        let burst = Thresholds::read(self.regs.get(Reg::Txdctl)).write_back != 0;
        let last = self.tx.done.iter().rposition(|done| done.report);
        if let Some(last) = last.filter(|_| burst) {
            let range = self.tx.issued.min(last)..=last;
            self.tx.done.range_mut(range).skip_while(|done| !done.report).for_each(|done| done.report = true);
        }
        self.tx_issue_write_backs(now, ports);
    }

    /// Asks for the write-back of each run of descriptors to be reported.
    fn tx_issue_write_backs(&mut self, now: Ps, ports: &mut impl NicPorts) {
        self.tx.write_back.cancel();
        while self.bus_master && self.tx.issued < self.tx.done.len() {
            if !self.tx.done[self.tx.issued].report {
                self.tx.issued += 1;
                continue;
            }
            let Some(ring) = Ring::read(&self.regs, Direction::Transmit) else {
                self.stats.ring_nonsense += 1;
                log!(now, Nic, Warn, "{}: TDH or TDT lies outside the transmit ring", self.name);
                break;
            };
            let first = ring.after(ring.head, self.tx.issued as u32);
            let most = (ring.count - first).min(self.config.write_back_batch.into()) as usize;
            let count =
                self.tx.done.range(self.tx.issued..).take(most).take_while(|done| done.report).count() as u32;
            self.tx.issued += count as usize;
            self.stats.tx_write_backs += 1;
            let addr = ring.address(first);
            let write = Write::TxWriteback { addr, count };
            let piece = Piece::descriptors(addr, count);
            self.issue_write(now, piece, DmaKind::TxDescriptorWriteback, write, ports);
        }
        self.tx_pass_silent(now, ports);
    }

    /// The head passes descriptors at the front that need no report.
    fn tx_pass_silent(&mut self, now: Ps, ports: &mut impl NicPorts) {
        let silent = self.tx.done.iter().take_while(|done| !done.report).count();
        self.tx.done.drain(..silent);
        self.tx.issued = self.tx.issued.saturating_sub(silent);
        self.tx_move_head(now, silent as u32, ports);
    }

    pub(crate) fn tx_written_back(&mut self, now: Ps, addr: u64, count: u32, ports: &mut impl NicPorts) {
        let mut bytes = std::mem::take(&mut self.tx.scratch);
        bytes.clear();
        let (mut at_once, mut delayed) = (false, false);
        for done in self.tx.done.drain(..count as usize) {
            bytes.extend_from_slice(&done.words[0].to_le_bytes());
            bytes.extend_from_slice(&done.words[1].to_le_bytes());
            at_once |= done.interrupts && !done.delayed;
            delayed |= done.interrupts && done.delayed;
        }
        self.tx.issued -= count as usize;
        ports.write(PhysAddr(addr), &bytes);
        self.tx.scratch = bytes;
        self.tx_move_head(now, count, ports);
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
        let left = |nic: &Nic| {
            Ring::read(&nic.regs, Direction::Transmit).map_or(0, |ring| ring.distance(ring.head, ring.tail))
        };
        let before = left(self);
        self.advance_head(Reg::Tdh, Reg::Tdlen, steps);
        let after = left(self);
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

    /// Fetches descriptors if the thresholds say so; one fetch at a time, never across the ring's end.
    fn tx_fetch(&mut self, now: Ps, ports: &mut impl NicPorts) {
        if self.tx.fetching != 0 {
            return;
        }
        let Some(ring) = Ring::read(&self.regs, Direction::Transmit) else {
            self.stats.ring_nonsense += u64::from(self.regs.get(Reg::Tdlen) != 0);
            return;
        };
        let available = ring.distance(self.tx.fetched, ring.tail);
        let cached = self.tx.cache.len();
        let needed = Thresholds::read(self.regs.get(Reg::Txdctl)).fetch(cached as u32, available);
        let prefetch = self.config.descriptor_prefetch.is_some_and(|level| cached <= level.into());
        if !needed && !prefetch {
            return;
        }
        let on_chip = (cached + self.tx.jobs.len() + self.tx.done.len()) as u32;
        let cache = u32::from(self.config.tx_descriptor_cache);
        // A tail that software has moved back must not make the engine overtake the head.
        let room = cache.min(ring.count - 1).saturating_sub(on_chip);
        let count = available
            .min(room)
            .min(self.config.descriptor_fetch_max.into())
            .min(ring.count - self.tx.fetched);
        if count == 0 || !needed && count < LINE_DESCRIPTORS {
            return;
        }
        let addr = ring.address(self.tx.fetched);
        self.tx.fetched = ring.after(self.tx.fetched, count);
        self.tx.fetching = count;
        self.stats.tx_fetches += 1;
        let busy = Ps(self.config.descriptor_time.0 * u64::from(count));
        self.tx.engine_free = self.tx.engine_free.max(now).saturating_add(busy);
        let read = Read::TxFetch { addr, count };
        self.issue_read(now, Piece::descriptors(addr, count), DmaKind::TxDescriptorFetch, read, ports);
    }

    pub(crate) fn tx_fetched(&mut self, now: Ps, addr: u64, count: u32, ports: &mut impl NicPorts) {
        self.tx.fetching = 0;
        let ring = Ring::read(&self.regs, Direction::Transmit);
        let first = ring.map_or(0, |ring| (addr.wrapping_sub(ring.base) / 16) as u32);
        let mut bytes = std::mem::take(&mut self.tx.scratch);
        bytes.resize((count * DESCRIPTOR_BYTES) as usize, 0);
        ports.read(PhysAddr(addr), &mut bytes);
        let (descriptors, _) = bytes.as_chunks::<16>();
        for (index, descriptor) in (first..).zip(descriptors) {
            let (words, _) = descriptor.as_chunks::<8>();
            let words = [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])];
            let doorbell = self.tx.doorbells.of(index);
            let stamps = TxStamps { doorbell, fetched: now, ..TxStamps::default() };
            self.tx.cache.push_back(Fetched { words, stamps });
        }
        self.tx.scratch = bytes;
        if ring.is_some_and(|ring| self.tx.fetched == ring.tail) {
            self.tx.doorbells.clear();
        }
    }

    /// Software has moved the ring away: what hangs on it is lost, whole frames stay.
    pub(crate) fn tx_ring_rewritten(&mut self) {
        for write in self.dma.writes.kinds_mut() {
            if matches!(write, Write::TxWriteback { .. }) {
                *write = Write::Cancelled;
            }
        }
        for read in self.dma.reads.kinds_mut() {
            if matches!(read, Read::TxFetch { .. } | Read::TxData { .. }) {
                *read = Read::Cancelled;
            }
        }
        let tx = &mut self.tx;
        tx.cache.clear();
        tx.jobs.clear();
        tx.done.clear();
        (tx.requested, tx.issued, tx.fetching, tx.reads_in_flight) = (0, 0, 0, 0);
        tx.packet.clear();
        tx.doorbells.clear();
        tx.reserved = 0;
        tx.fetched = self.regs.get(Reg::Tdh);
    }

    /// A device reset: the FIFO is lost too.
    pub(crate) fn tx_reset(&mut self) {
        self.tx_ring_rewritten();
        self.stats.tx_drop_reset += self.tx.frames();
        // The frame on the wire goes on, and so does the wake-up that may be on its way.
        let (wire_free, wire, looped) =
            (self.tx.wire_free, self.tx.wire, std::mem::take(&mut self.tx.looped));
        self.tx = super::Tx { wire_free, wire, looped, ..super::Tx::default() };
    }
}
