//! Queues: ring registers, descriptor fetch and write-back, and head updates.

use std::fmt;

use doorbell_pcie::{FunctionPorts, StatusRing};
use doorbell_sim::ports::DmaTag;
use doorbell_sim::{PhysAddr, Ps, log};
use serde::{Deserialize, Serialize};

use super::bits::{rctl, rxd, tctl};
use super::rx::DescriptorType;
use super::{Chip, Controller, Event, wake};
use crate::parts::dma::{Piece, Read, TransferClass, Write};
use crate::parts::engine::{Engine, Ready};
use crate::parts::registers::{RegisterFile, RegisterId};
use crate::parts::ring::{DESCRIPTOR_BYTES, Limits, Ring, RingEngine, Run};
use crate::parts::timer::Wake;
use crate::stats::RingLevel;

/// Size of a head write-back in bytes.
const HEAD_BYTES: u32 = 4;

/// A queue, by direction and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Queue {
    /// A receive queue: from the wire to memory.
    Receive(u8),
    /// A transmit queue: from memory to the wire.
    Transmit(u8),
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Queue::Receive(queue) => write!(f, "receive {queue}"),
            Queue::Transmit(queue) => write!(f, "transmit {queue}"),
        }
    }
}

impl Queue {
    pub(crate) fn receive(queue: usize) -> Queue {
        Queue::Receive(queue as u8)
    }

    pub(crate) fn transmit(queue: usize) -> Queue {
        Queue::Transmit(queue as u8)
    }

    /// Returns its number in its direction.
    pub(crate) fn index(self) -> usize {
        match self {
            Queue::Receive(queue) | Queue::Transmit(queue) => queue.into(),
        }
    }

    /// Whether it is a receive queue.
    pub(crate) fn receives(self) -> bool {
        matches!(self, Queue::Receive(_))
    }
}

/// Enabled queues, one bit per queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuesOn {
    pub receive: u32,
    pub transmit: u32,
}

impl QueuesOn {
    /// Whether a queue is enabled.
    pub fn has(self, queue: Queue) -> bool {
        let of = if queue.receives() { self.receive } else { self.transmit };
        of >> queue.index() & 1 != 0
    }

    /// Numbers of the enabled receive queues.
    pub fn receiving(self) -> impl Iterator<Item = usize> {
        bits_of(self.receive)
    }

    /// Numbers of the enabled transmit queues.
    pub fn transmitting(self) -> impl Iterator<Item = usize> {
        bits_of(self.transmit)
    }
}

/// Iterates over the numbers of the set bits.
pub(crate) fn bits_of(mut bits: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(lowest)
    })
}

/// Ring registers of one direction.
struct RingRegisters<R> {
    base_low: R,
    base_high: R,
    length: R,
    head: R,
    tail: R,
}

fn ring_registers<C: Chip>(queue: Queue) -> RingRegisters<C::Reg> {
    let reg = &C::REG;
    let [base_low, base_high, length, head, tail] = match queue {
        Queue::Receive(_) => [reg.rdbal, reg.rdbah, reg.rdlen, reg.rdh, reg.rdt],
        Queue::Transmit(_) => [reg.tdbal, reg.tdbah, reg.tdlen, reg.tdh, reg.tdt],
    };
    RingRegisters { base_low, base_high, length, head, tail }
}

impl<R: RegisterId> RegisterFile<R> {
    /// Returns a queue's ring; `None` if its registers are invalid. With a constant direction this compiles
    /// to six loads.
    #[inline(always)]
    pub fn ring<C: Chip<Reg = R>>(&self, queue: Queue) -> Option<Ring> {
        let (of, index) = (ring_registers::<C>(queue), queue.index());
        let base = u64::from(self.at(of.base_high, index)) << 32 | u64::from(self.at(of.base_low, index));
        Ring::new(base, self.at(of.length, index), self.at(of.head, index), self.at(of.tail, index))
    }

    /// Size of a queue's ring in descriptors.
    pub fn ring_count<C: Chip<Reg = R>>(&self, queue: Queue) -> u32 {
        self.at(ring_registers::<C>(queue).length, queue.index()) / DESCRIPTOR_BYTES
    }

    /// Head of a queue's ring.
    pub fn ring_head<C: Chip<Reg = R>>(&self, queue: Queue) -> u32 {
        self.at(ring_registers::<C>(queue).head, queue.index())
    }

    /// Number of descriptors owned by hardware, from head to tail; zero if the ring registers are invalid.
    pub fn ring_owned<C: Chip<Reg = R>>(&self, queue: Queue) -> u32 {
        self.ring::<C>(queue).map_or(0, |ring| ring.hardware_owned())
    }
}

/// Returns the fill level of a ring (zero without a valid ring) and the descriptors consumed.
fn level(ring: Option<Ring>, receives: bool, consumed: u64) -> RingLevel {
    let Some(ring) = ring else { return RingLevel { descriptors: 0, waiting: 0, consumed } };
    let (descriptors, owned) = (u64::from(ring.count), u64::from(ring.hardware_owned()));
    // Software always keeps one descriptor, to distinguish a full ring from an empty one.
    let waiting = if receives { (descriptors - 1).saturating_sub(owned) } else { owned };
    RingLevel { descriptors, waiting, consumed }
}

impl<C: Chip> Controller<C> {
    /// Returns a queue's ring; `None` if its registers are invalid.
    pub(super) fn ring(&self, queue: Queue) -> Option<Ring> {
        self.regs.ring::<C>(queue)
    }

    /// Advances the head of a queue's ring. No-op for a ring of length zero.
    pub(super) fn advance_head(&mut self, queue: Queue, steps: u32) {
        let (head, count) = (ring_registers::<C>(queue).head, self.regs.ring_count::<C>(queue));
        if count != 0 {
            let index = queue.index();
            self.regs.set_at(head, index, (self.regs.at(head, index) + steps) % count);
        }
    }

    /// Returns the fill levels of both rings of queue 0 and of each queue that is enabled in either
    /// direction.
    pub(super) fn levels(&self) -> Vec<[RingLevel; 2]> {
        let enabled_ring = |of: Queue| self.ring(of).filter(|_| self.on.has(of));
        let levels = |queue: usize| {
            let counted = &self.queue_stats[queue];
            [
                level(enabled_ring(Queue::receive(queue)), true, counted.rx_descriptors),
                level(enabled_ring(Queue::transmit(queue)), false, counted.tx_descriptors),
            ]
        };
        bits_of(1 | self.on.receive | self.on.transmit).map(levels).collect()
    }

    /// Whether this queue is enabled in either direction.
    pub(super) fn is_queue_pair_on(&self, queue: usize) -> bool {
        self.on.has(Queue::receive(queue)) || self.on.has(Queue::transmit(queue))
    }

    /// Describes a receive queue's ring for detecting polling by software.
    pub(super) fn polled_ring(&self, queue: usize) -> Option<StatusRing> {
        let ring = self.ring(Queue::receive(queue))?;
        let descriptor_bytes = u64::from(DESCRIPTOR_BYTES);
        let status_at = match C::descriptor_type(&self.regs, queue) {
            DescriptorType::Legacy => rxd::LEGACY_STATUS_AT,
            _ => rxd::ADVANCED_STATUS_AT,
        };
        let bytes = u64::from(ring.count) * descriptor_bytes;
        Some(StatusRing {
            base: PhysAddr(ring.base),
            bytes,
            descriptor_bytes,
            status_at,
            done: rxd::DD as u8,
        })
    }

    /// Whether the transmitter (TCTL.EN) and DMA are enabled.
    pub(super) fn transmitter_on(&self) -> bool {
        self.bus_master && self.regs.has(C::REG.tctl, tctl::EN)
    }

    /// Whether a queue may fetch descriptors: the queue, its direction (RCTL.EN, TCTL.EN) and DMA are
    /// enabled.
    fn fetch_enabled(&self, queue: Queue) -> bool {
        let direction = match queue {
            Queue::Receive(_) => self.bus_master && self.regs.has(C::REG.rctl, rctl::EN),
            Queue::Transmit(_) => self.transmitter_on(),
        };
        direction && self.on.has(queue)
    }

    /// Returns a queue's on-chip descriptors and the engine of its direction.
    fn on_chip(&mut self, queue: Queue) -> (&mut dyn RingEngine, &mut Engine) {
        let index = queue.index();
        match queue {
            Queue::Receive(_) => (&mut self.rx.queues[index].ring, &mut self.rx.engine),
            Queue::Transmit(_) => (&mut self.tx.queues[index].ring, &mut self.tx.engine),
        }
    }

    /// Returns the tag of a DMA request: its queue and the DCA target core.
    pub(super) fn tag(&self, queue: Queue, class: TransferClass) -> DmaTag {
        DmaTag { queue: queue.index() as u8, core: C::dca_core(&self.regs, queue, class) }
    }

    /// Configured limits of descriptor fetch and write-back, independent of the thresholds that software
    /// sets.
    fn limits(&self, queue: Queue) -> Limits {
        let config = &self.config;
        let receives = queue.receives();
        let cache = if receives { config.rx_descriptor_cache } else { config.tx_descriptor_cache };
        Limits {
            cache: cache.into(),
            fetch_max: config.descriptor_fetch_max.into(),
            prefetch: config.descriptor_prefetch,
            fetches: config.descriptor_fetches_in_flight.into(),
            batch: config.write_back_batch.into(),
            wait: config.write_back_wait,
            // Reported transmit descriptors are too far apart to share cache lines.
            lines: receives && config.write_back_lines,
        }
    }

    /// Issues descriptor fetches until the thresholds or the limit of fetches in flight stop it.
    pub(super) fn fetch(&mut self, now: Ps, queue: Queue, ports: &mut dyn FunctionPorts) {
        let limits = self.limits(queue);
        while self.on_chip(queue).0.may_fetch(limits)
            && self.fetch_enabled(queue)
            && self.fetch_once(now, queue, limits, ports)
        {}
    }

    /// Issues one fetch if the thresholds require it. Returns true if it did.
    fn fetch_once(&mut self, now: Ps, queue: Queue, limits: Limits, ports: &mut dyn FunctionPorts) -> bool {
        let Some(ring) = self.ring(queue) else {
            self.report_invalid_ring(now, queue);
            return false;
        };
        let thresholds = C::thresholds(&self.regs, queue);
        // Transmit descriptors whose buffers are being read occupy cache entries, too.
        let in_progress = if queue.receives() { 0 } else { self.tx.queues[queue.index()].jobs.len() as u32 };
        let descriptor_time = self.config.descriptor_time;
        let (descriptors, engine) = self.on_chip(queue);
        let Some(run) = descriptors.fetch(&ring, thresholds, limits, in_progress) else { return false };
        engine.busy_for(now, Ps(descriptor_time.0 * u64::from(run.count)));
        match queue.receives() {
            true => self.stats.rx_fetches += 1,
            false => self.stats.tx_fetches += 1,
        }
        let piece = Piece::descriptors(run, self.tag(queue, TransferClass::Read));
        self.issue_read(now, piece, Read::Descriptors { queue, run }, ports);
        true
    }

    /// Counts and logs a ring with invalid registers. A ring of length zero is not set up yet and not
    /// counted.
    fn report_invalid_ring(&mut self, now: Ps, queue: Queue) {
        let count = self.regs.ring_count::<C>(queue);
        if count == 0 {
            return;
        }
        self.stats.ring_nonsense += 1;
        let (of, index) = (ring_registers::<C>(queue), queue.index());
        let [head, tail] = [of.head, of.tail].map(|register| self.regs.at(register, index));
        let name = &self.name;
        log!(
            now,
            Nic,
            Warn,
            "{name}: head {head} or tail {tail} is outside the {queue} ring of {count} descriptors"
        );
    }

    /// Whether a write-back may be issued now. If not, a wake-up is scheduled for the end of
    /// `write_back_wait`.
    pub(super) fn write_back_is_due(&mut self, now: Ps, queue: Queue, ports: &mut dyn FunctionPorts) -> bool {
        let limits = self.limits(queue);
        if limits.wait == Ps::ZERO {
            // Skips reading the ring, which only matters with a wait.
            return true;
        }
        let ring = self.ring(queue);
        match self.on_chip(queue).0.write_back_is_due(now, ring.as_ref(), limits) {
            Ready::Now => return true,
            Ready::Later => {}
            Ready::WakeAt(at) => wake(ports, at, Event::WriteBack(queue)),
        }
        false
    }

    /// Handles the timer of `write_back_wait`.
    pub(super) fn on_write_back_wake(&mut self, now: Ps, queue: Queue, ports: &mut dyn FunctionPorts) {
        match self.on_chip(queue).0.on_wait_wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => wake(ports, at, Event::WriteBack(queue)),
            Wake::Expired => self.flush(now, queue, ports),
        }
    }

    /// Writes back all used descriptors that are being gathered.
    pub(super) fn flush(&mut self, now: Ps, queue: Queue, ports: &mut dyn FunctionPorts) {
        match queue.receives() {
            true => _ = self.write_back(now, queue, ports),
            false => self.tx_flush(now, queue.index(), ports),
        }
    }

    /// Requests a write-back, now or after `write_back_wait`. With `write_back_lines`, only complete cache
    /// lines are written now and the rest waits for its line. Returns true if a write was issued.
    pub(super) fn request_write_back(
        &mut self,
        now: Ps,
        queue: Queue,
        ports: &mut dyn FunctionPorts,
    ) -> bool {
        if !self.write_back_is_due(now, queue, ports) {
            return false;
        }
        let Limits { lines, wait, .. } = self.limits(queue);
        let whole_lines = lines && wait != Ps::ZERO;
        let any = self.issue_write_backs(now, queue, whole_lines, ports);
        if whole_lines && self.bus_master && self.on_chip(queue).0.has_write_back() {
            // Arm the wait for the remaining descriptors of an incomplete line.
            self.write_back_is_due(now, queue, ports);
        }
        any
    }

    /// Issues the write-backs of all used descriptors that must be reported. Returns true if there were any.
    pub(super) fn write_back(&mut self, now: Ps, queue: Queue, ports: &mut dyn FunctionPorts) -> bool {
        self.issue_write_backs(now, queue, false, ports)
    }

    /// As [`write_back`](Controller::write_back), optionally restricted to complete cache lines.
    fn issue_write_backs(
        &mut self,
        now: Ps,
        queue: Queue,
        whole_lines: bool,
        ports: &mut dyn FunctionPorts,
    ) -> bool {
        let limits = self.limits(queue);
        let mut any = false;
        self.on_chip(queue).0.cancel_wait();
        while self.bus_master && self.on_chip(queue).0.has_write_back() {
            let Some(ring) = self.ring(queue) else {
                self.stats.ring_nonsense += 1;
                log!(now, Nic, Warn, "{}: head or tail is outside the {queue} ring", self.name);
                break;
            };
            if whole_lines && !self.on_chip(queue).0.fills_write_back(&ring, limits) {
                break;
            }
            any = true;
            let run = self.on_chip(queue).0.write_back(&ring, limits);
            match queue.receives() {
                true => self.stats.rx_write_backs += 1,
                false => self.stats.tx_write_backs += 1,
            }
            let piece = self.write_back_piece(queue, run);
            self.issue_write(now, piece, Write::Descriptors { queue, run }, ports);
        }
        any
    }

    /// Returns the write that reports used descriptors: the descriptors themselves, or the head (head
    /// write-back).
    fn write_back_piece(&self, queue: Queue, run: Run) -> Piece {
        let head = if queue.receives() { None } else { C::head_address(&self.regs, queue.index()) };
        let tag = self.tag(queue, TransferClass::WriteBack);
        head.map_or(Piece::descriptors(run, tag), |addr| Piece { addr, len: HEAD_BYTES, offset: 0, tag })
    }
}
