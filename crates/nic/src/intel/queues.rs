//! Queues: their rings' registers, fetches and write-backs of their descriptors, their heads.

use doorbell_pcie::FunctionPorts;
use std::fmt;

use doorbell_sim::ports::{DmaKind, DmaTag, PolledRing};
use doorbell_sim::{PhysAddr, Ps, log};
use serde::{Deserialize, Serialize};

use super::bits::{rctl, rxd, tctl};
use super::rx::DescriptorType;
use super::{Chip, Controller, Event, wake};
use crate::parts::dma::{Moved, Piece, Read, Write};
use crate::parts::engine::{Engine, Ready};
use crate::parts::registers::{RegisterFile, RegisterId};
use crate::parts::ring::{DESCRIPTOR_BYTES, Limits, Ring, RingEngine, Run};
use crate::parts::timer::Wake;
use crate::stats::RingLevel;

/// Bytes of a head that is written back.
const HEAD_BYTES: u32 = 4;

/// A queue of one direction, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Queue {
    /// From the wire to memory.
    Receive(u8),
    /// From memory to the wire.
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

    /// Its number in its direction.
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

/// The queues that are on, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuesOn {
    pub receive: u32,
    pub transmit: u32,
}

impl QueuesOn {
    /// Whether a queue is on.
    pub fn has(self, queue: Queue) -> bool {
        let of = if queue.receives() { self.receive } else { self.transmit };
        of >> queue.index() & 1 != 0
    }

    /// The receive queues that are on, by number.
    pub fn receiving(self) -> impl Iterator<Item = usize> {
        bits_of(self.receive)
    }

    /// The transmit queues that are on, by number.
    pub fn transmitting(self) -> impl Iterator<Item = usize> {
        bits_of(self.transmit)
    }
}

/// The numbers of the bits that are set.
pub(crate) fn bits_of(mut bits: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(lowest)
    })
}

/// The registers of one direction's rings.
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
    /// The ring of a queue of chip `C`; `None` if its registers make no sense. For a constant direction it is six loads.
    #[inline(always)]
    pub fn ring<C: Chip<Reg = R>>(&self, queue: Queue) -> Option<Ring> {
        let (of, index) = (ring_registers::<C>(queue), queue.index());
        let base = u64::from(self.at(of.base_high, index)) << 32 | u64::from(self.at(of.base_low, index));
        Ring::new(base, self.at(of.length, index), self.at(of.head, index), self.at(of.tail, index))
    }

    /// Descriptors in a queue's ring.
    pub fn ring_count<C: Chip<Reg = R>>(&self, queue: Queue) -> u32 {
        self.at(ring_registers::<C>(queue).length, queue.index()) / DESCRIPTOR_BYTES
    }

    /// The head of a queue's ring.
    pub fn ring_head<C: Chip<Reg = R>>(&self, queue: Queue) -> u32 {
        self.at(ring_registers::<C>(queue).head, queue.index())
    }

    /// Descriptors that software has given to a queue and the head has not passed; none if its ring makes no sense.
    pub fn ring_given<C: Chip<Reg = R>>(&self, queue: Queue) -> u32 {
        self.ring::<C>(queue).map_or(0, |ring| ring.given())
    }
}

/// The level of a ring, if it works, and the descriptors consumed.
fn level(ring: Option<Ring>, receives: bool, consumed: u64) -> RingLevel {
    let Some(ring) = ring else { return RingLevel { descriptors: 0, waiting: 0, consumed } };
    let (descriptors, given) = (u64::from(ring.count), u64::from(ring.given()));
    // One descriptor always stays with software, which tells a full ring from an empty one.
    let waiting = if receives { (descriptors - 1).saturating_sub(given) } else { given };
    RingLevel { descriptors, waiting, consumed }
}

impl<C: Chip> Controller<C> {
    /// A queue's ring, if its registers make sense.
    pub(super) fn ring(&self, queue: Queue) -> Option<Ring> {
        self.regs.ring::<C>(queue)
    }

    /// Moves the head of a queue's ring. Its length is not zero, or no descriptor would have been in use.
    pub(super) fn advance_head(&mut self, queue: Queue, steps: u32) {
        let (head, count) = (ring_registers::<C>(queue).head, self.regs.ring_count::<C>(queue));
        if count != 0 {
            let index = queue.index();
            self.regs.set_at(head, index, (self.regs.at(head, index) + steps) % count);
        }
    }

    /// The levels of both rings, for each queue that is on in either direction; for a chip with none on, of the first.
    pub(super) fn levels(&self) -> Vec<[RingLevel; 2]> {
        let works = |of: Queue| self.ring(of).filter(|_| self.on.has(of));
        let levels = |queue: usize| {
            let counted = &self.queue_stats[queue];
            [
                level(works(Queue::receive(queue)), true, counted.rx_descriptors),
                level(works(Queue::transmit(queue)), false, counted.tx_descriptors),
            ]
        };
        bits_of(1 | self.on.receive | self.on.transmit).map(levels).collect()
    }

    /// Whether a pair of queues is on, in either direction.
    pub(super) fn has_queue_on(&self, queue: usize) -> bool {
        self.on.has(Queue::receive(queue)) || self.on.has(Queue::transmit(queue))
    }

    /// A receive queue's ring as software polls it.
    pub(super) fn polled_ring(&self, queue: usize) -> Option<PolledRing> {
        let ring = self.ring(Queue::receive(queue))?;
        let descriptor_bytes = u64::from(DESCRIPTOR_BYTES);
        let status_at = match C::descriptor_type(&self.regs, queue) {
            DescriptorType::Legacy => rxd::LEGACY_STATUS_AT,
            _ => rxd::ADVANCED_STATUS_AT,
        };
        let bytes = u64::from(ring.count) * descriptor_bytes;
        Some(PolledRing {
            base: PhysAddr(ring.base),
            bytes,
            descriptor_bytes,
            status_at,
            done: rxd::DD as u8,
        })
    }

    /// Whether the transmitter is on and DMA allowed.
    pub(super) fn transmitter_on(&self) -> bool {
        self.bus_master && self.regs.has(C::REG.tctl, tctl::EN)
    }

    /// Whether a queue works: it is on, its direction is on, and DMA is allowed.
    fn fetches(&self, queue: Queue) -> bool {
        let direction = match queue {
            Queue::Receive(_) => self.bus_master && self.regs.has(C::REG.rctl, rctl::EN),
            Queue::Transmit(_) => self.transmitter_on(),
        };
        direction && self.on.has(queue)
    }

    /// A queue's descriptors on the chip, and the engine of its direction.
    fn on_chip(&mut self, queue: Queue) -> (&mut dyn RingEngine, &mut Engine) {
        let index = queue.index();
        match queue {
            Queue::Receive(_) => (&mut self.rx.queues[index].ring, &mut self.rx.engine),
            Queue::Transmit(_) => (&mut self.tx.queues[index].ring, &mut self.tx.engine),
        }
    }

    /// Queue and requested cache of a request.
    pub(super) fn tag(&self, queue: Queue, moved: Moved) -> DmaTag {
        DmaTag { queue: queue.index() as u8, core: C::dca_core(&self.regs, queue, moved) }
    }

    /// What the chip does with a queue's descriptors, whatever software wants.
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
            // Transmit descriptors that are reported are too far apart to share lines.
            lines: receives && config.write_back_lines,
        }
    }

    /// Fetches descriptors as often as thresholds and the number of fetches in flight allow.
    pub(super) fn fetch(&mut self, now: Ps, queue: Queue, ports: &mut dyn FunctionPorts) {
        let limits = self.limits(queue);
        while self.on_chip(queue).0.may_fetch(limits)
            && self.fetches(queue)
            && self.fetch_once(now, queue, limits, ports)
        {}
    }

    /// One fetch, if the thresholds call for it.
    fn fetch_once(&mut self, now: Ps, queue: Queue, limits: Limits, ports: &mut dyn FunctionPorts) -> bool {
        let Some(ring) = self.ring(queue) else {
            self.report_nonsense(now, queue);
            return false;
        };
        let thresholds = C::thresholds(&self.regs, queue);
        // Transmit descriptors whose buffers are being read are neither unused nor used.
        let begun = if queue.receives() { 0 } else { self.tx.queues[queue.index()].jobs.len() as u32 };
        let descriptor_time = self.config.descriptor_time;
        let (descriptors, engine) = self.on_chip(queue);
        let Some(run) = descriptors.fetch(&ring, thresholds, limits, begun) else { return false };
        engine.busy_for(now, Ps(descriptor_time.0 * u64::from(run.count)));
        let kind = match queue.receives() {
            true => {
                self.stats.rx_fetches += 1;
                DmaKind::RxDescriptorFetch
            }
            false => {
                self.stats.tx_fetches += 1;
                DmaKind::TxDescriptorFetch
            }
        };
        let piece = Piece::descriptors(run, self.tag(queue, Moved::Read));
        self.issue_read(now, piece, kind, Read::Descriptors { queue, run }, ports);
        true
    }

    /// Counts a ring that cannot work. One with a length of zero is not set up yet.
    fn report_nonsense(&mut self, now: Ps, queue: Queue) {
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
            "{name}: head {head} or tail {tail} lies outside the {queue} ring of {count} descriptors"
        );
    }

    /// Whether a write-back that is due goes now; otherwise it goes when its wait is over.
    pub(super) fn write_back_is_due(&mut self, now: Ps, queue: Queue, ports: &mut dyn FunctionPorts) -> bool {
        let limits = self.limits(queue);
        if limits.wait == Ps::ZERO {
            // Without a wait the ring does not matter.
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

    /// A write-back may have waited long enough.
    pub(super) fn write_back_woken(&mut self, now: Ps, queue: Queue, ports: &mut dyn FunctionPorts) {
        match self.on_chip(queue).0.write_back_woken(now) {
            Wake::Ignore => {}
            Wake::Again(at) => wake(ports, at, Event::WriteBack(queue)),
            Wake::Expired => self.flush(now, queue, ports),
        }
    }

    /// Writes back all descriptors that wait for more.
    pub(super) fn flush(&mut self, now: Ps, queue: Queue, ports: &mut dyn FunctionPorts) {
        match queue.receives() {
            true => _ = self.write_back(now, queue, ports),
            false => self.tx_flush(now, queue.index(), ports),
        }
    }

    /// A write-back is due, now or when its wait is over: of all descriptors, or of those whose cache lines are complete while the
    /// rest waits for its line. True if any goes now.
    pub(super) fn write_back_called_for(
        &mut self,
        now: Ps,
        queue: Queue,
        ports: &mut dyn FunctionPorts,
    ) -> bool {
        if !self.write_back_is_due(now, queue, ports) {
            return false;
        }
        let Limits { lines, wait, .. } = self.limits(queue);
        let leaves_rest = lines && wait != Ps::ZERO;
        let any = self.write_back_some(now, queue, leaves_rest, ports);
        if leaves_rest && self.bus_master && self.on_chip(queue).0.has_write_back() {
            // The wait counts from the first descriptor of a line.
            self.write_back_is_due(now, queue, ports);
        }
        any
    }

    /// Issues the write-back of every used descriptor that has to be reported. True if there was any.
    pub(super) fn write_back(&mut self, now: Ps, queue: Queue, ports: &mut dyn FunctionPorts) -> bool {
        self.write_back_some(now, queue, false, ports)
    }

    /// The same, optionally only of those whose cache lines are complete.
    fn write_back_some(
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
                log!(now, Nic, Warn, "{}: head or tail lies outside the {queue} ring", self.name);
                break;
            };
            if whole_lines && !self.on_chip(queue).0.fills_write_back(&ring, limits) {
                break;
            }
            any = true;
            let run = self.on_chip(queue).0.write_back(&ring, limits);
            let kind = match queue.receives() {
                true => {
                    self.stats.rx_write_backs += 1;
                    DmaKind::RxDescriptorWriteback
                }
                false => {
                    self.stats.tx_write_backs += 1;
                    DmaKind::TxDescriptorWriteback
                }
            };
            let piece = self.report(queue, run);
            self.issue_write(now, piece, kind, Write::Descriptors { queue, run }, ports);
        }
        any
    }

    /// The write that reports descriptors: the descriptors, or the head in their place.
    fn report(&self, queue: Queue, run: Run) -> Piece {
        let head = if queue.receives() { None } else { C::head_address(&self.regs, queue.index()) };
        let tag = self.tag(queue, Moved::Report);
        head.map_or(Piece::descriptors(run, tag), |addr| Piece { addr, len: HEAD_BYTES, offset: 0, tag })
    }
}
