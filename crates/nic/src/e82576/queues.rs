//! The chip's queues, and what it does with their descriptors: fetching them, writing them back (§7.1, §7.2), moving
//! the head.

use std::fmt;

use doorbell_sim::ports::DmaKind;
use doorbell_sim::{Ps, log};
use serde::{Deserialize, Serialize};

use super::bits::{dctl, rctl, tdwbal};
use super::regs::{Reg, Regs};
use super::{Event, Igb, IgbPorts, QUEUES};
use crate::parts::dma::{Piece, Read, Write};
use crate::parts::engine::{Engine, Ready};
use crate::parts::ring::{DESCRIPTOR_BYTES, Limits, Ring, RingEngine, Thresholds};
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

/// The registers of the rings of a direction.
struct RingRegisters {
    base_low: Reg,
    base_high: Reg,
    length: Reg,
    head: Reg,
    tail: Reg,
    control: Reg,
}

const RECEIVE: RingRegisters = RingRegisters {
    base_low: Reg::Rdbal,
    base_high: Reg::Rdbah,
    length: Reg::Rdlen,
    head: Reg::Rdh,
    tail: Reg::Rdt,
    control: Reg::Rxdctl,
};

const TRANSMIT: RingRegisters = RingRegisters {
    base_low: Reg::Tdbal,
    base_high: Reg::Tdbah,
    length: Reg::Tdlen,
    head: Reg::Tdh,
    tail: Reg::Tdt,
    control: Reg::Txdctl,
};

impl Queue {
    pub(super) fn receive(queue: usize) -> Queue {
        Queue::Receive(queue as u8)
    }

    pub(super) fn transmit(queue: usize) -> Queue {
        Queue::Transmit(queue as u8)
    }

    /// Its number in its direction.
    pub(super) fn index(self) -> usize {
        match self {
            Queue::Receive(queue) | Queue::Transmit(queue) => queue.into(),
        }
    }

    /// All queues.
    pub(super) fn all() -> impl Iterator<Item = Queue> {
        (0..QUEUES).flat_map(|queue| [Queue::receive(queue), Queue::transmit(queue)])
    }

    const fn registers(self) -> &'static RingRegisters {
        match self {
            Queue::Receive(_) => &RECEIVE,
            Queue::Transmit(_) => &TRANSMIT,
        }
    }
}

impl Regs {
    /// The queue's ring as its registers say, or none if it makes no sense.
    #[inline(always)]
    pub fn ring(&self, queue: Queue) -> Option<Ring> {
        let (of, index) = (queue.registers(), queue.index());
        let base = u64::from(self.at(of.base_high, index)) << 32 | u64::from(self.at(of.base_low, index));
        Ring::new(base, self.at(of.length, index), self.at(of.head, index), self.at(of.tail, index))
    }

    /// Descriptors in the queue's ring.
    pub fn ring_count(&self, queue: Queue) -> u32 {
        self.at(queue.registers().length, queue.index()) / DESCRIPTOR_BYTES
    }

    /// The head of the queue's ring.
    pub fn ring_head(&self, queue: Queue) -> u32 {
        self.at(queue.registers().head, queue.index())
    }

    /// Descriptors of the queue's ring that software has given and the head has not passed; none if it makes no sense.
    pub fn ring_given(&self, queue: Queue) -> u32 {
        self.ring(queue).map_or(0, |ring| ring.given())
    }

    /// RXDCTL or TXDCTL, in descriptors.
    pub fn thresholds(&self, queue: Queue) -> Thresholds {
        let value = self.at(queue.registers().control, queue.index());
        let field = |shift: u32| value >> shift & 0x1f;
        Thresholds { prefetch: field(0), host: field(8), write_back: field(16) }
    }

    /// Whether RXDCTL or TXDCTL has the queue on.
    pub fn is_on(&self, queue: Queue) -> bool {
        self.at(queue.registers().control, queue.index()) & dctl::ENABLE != 0
    }

    /// Where the queue's head is written back to, if that is asked for.
    pub fn head_address(&self, queue: usize) -> Option<u64> {
        let low = self.at(Reg::Tdwbal, queue);
        let address = u64::from(self.at(Reg::Tdwbah, queue)) << 32 | u64::from(low & !3);
        (low & tdwbal::ENABLE != 0).then_some(address)
    }
}

impl Igb {
    /// What a queue's two rings hold.
    pub(super) fn ring_level(&self, queue: usize) -> [RingLevel; 2] {
        let level = |of: Queue, consumed| match self.regs.ring(of).filter(|_| self.regs.is_on(of)) {
            Some(ring) => {
                let given = u64::from(ring.given());
                let descriptors = u64::from(ring.count);
                let waiting = match of {
                    // One descriptor always stays with software, so that a full ring is told from an empty one.
                    Queue::Receive(_) => (descriptors - 1).saturating_sub(given),
                    Queue::Transmit(_) => given,
                };
                RingLevel { descriptors, waiting, consumed }
            }
            None => RingLevel { descriptors: 0, waiting: 0, consumed },
        };
        let counted = &self.queue_stats[queue];
        [
            level(Queue::receive(queue), counted.rx_descriptors),
            level(Queue::transmit(queue), counted.tx_descriptors),
        ]
    }

    /// The queue's descriptors on the chip, and the engine that works on them.
    fn queue_mut(&mut self, queue: Queue) -> (&mut dyn RingEngine, &mut Engine) {
        match queue {
            Queue::Receive(queue) => (&mut self.rx.queues[usize::from(queue)].ring, &mut self.rx.engine),
            Queue::Transmit(queue) => (&mut self.tx.queues[usize::from(queue)].ring, &mut self.tx.engine),
        }
    }

    fn limits(&self, queue: Queue) -> Limits {
        let receives = matches!(queue, Queue::Receive(_));
        let cache = if receives { self.config.rx_descriptor_cache } else { self.config.tx_descriptor_cache };
        Limits {
            cache: cache.into(),
            fetch_max: self.config.descriptor_fetch_max.into(),
            prefetch: self.config.descriptor_prefetch,
            fetches: self.config.descriptor_fetches_in_flight.into(),
            batch: self.config.write_back_batch.into(),
            wait: self.config.write_back_wait,
            // Transmit descriptors that are reported are too far apart to share lines.
            lines: receives && self.config.write_back_lines,
        }
    }

    /// Whether the queue works: it is on, its direction is, and DMA is allowed.
    fn fetches(&self, queue: Queue) -> bool {
        let direction = match queue {
            Queue::Receive(_) => self.bus_master && self.regs.has(Reg::Rctl, rctl::EN),
            Queue::Transmit(_) => self.transmitter_on(),
        };
        direction && self.regs.is_on(queue)
    }

    /// Fetches descriptors as often as the thresholds say so and more fetches may be in flight.
    pub(super) fn fetch(&mut self, now: Ps, queue: Queue, ports: &mut impl IgbPorts) {
        let limits = self.limits(queue);
        while self.queue_mut(queue).0.may_fetch(limits)
            && self.fetches(queue)
            && self.fetch_once(now, queue, limits, ports)
        {}
    }

    /// One fetch, if the thresholds say so.
    fn fetch_once(&mut self, now: Ps, queue: Queue, limits: Limits, ports: &mut impl IgbPorts) -> bool {
        let descriptor_time = self.config.descriptor_time;
        let Some(ring) = self.regs.ring(queue) else {
            self.stats.ring_nonsense += u64::from(self.regs.ring_count(queue) != 0);
            return false;
        };
        let thresholds = self.regs.thresholds(queue);
        let begun = match queue {
            Queue::Receive(_) => 0,
            Queue::Transmit(queue) => self.tx.queues[usize::from(queue)].jobs.len() as u32,
        };
        let (descriptors, engine) = self.queue_mut(queue);
        let Some(run) = descriptors.fetch(&ring, thresholds, limits, begun) else { return false };
        engine.busy_for(now, Ps(descriptor_time.0 * u64::from(run.count)));
        let kind = match queue {
            Queue::Receive(_) => {
                self.stats.rx_fetches += 1;
                DmaKind::RxDescriptorFetch
            }
            Queue::Transmit(_) => {
                self.stats.tx_fetches += 1;
                DmaKind::TxDescriptorFetch
            }
        };
        self.issue_read(now, Piece::descriptors(run), kind, Read::Descriptors { queue, run }, ports);
        true
    }

    /// Whether a write-back that is called for goes now. If not, it goes when its wait is over.
    pub(super) fn write_back_is_due(&mut self, now: Ps, queue: Queue, ports: &mut impl IgbPorts) -> bool {
        let limits = self.limits(queue);
        if limits.wait == Ps::ZERO {
            return true;
        }
        let ring = self.regs.ring(queue);
        match self.queue_mut(queue).0.write_back_is_due(now, ring.as_ref(), limits) {
            Ready::Now => return true,
            Ready::Later => {}
            Ready::WakeAt(at) => ports.wake(at, Event::WriteBack(queue)),
        }
        false
    }

    /// A write-back may have waited long enough.
    pub(super) fn write_back_woken(&mut self, now: Ps, queue: Queue, ports: &mut impl IgbPorts) {
        if queue.index() >= QUEUES {
            return;
        }
        match self.queue_mut(queue).0.write_back_woken(now) {
            Wake::Ignore => {}
            Wake::Again(at) => ports.wake(at, Event::WriteBack(queue)),
            Wake::Expired => self.flush(now, queue, ports),
        }
    }

    /// Writes back everything that waits for more.
    pub(super) fn flush(&mut self, now: Ps, queue: Queue, ports: &mut impl IgbPorts) {
        match queue {
            Queue::Receive(_) => {
                self.write_back(now, queue, ports);
            }
            Queue::Transmit(queue) => self.tx_flush(now, queue.into(), ports),
        }
    }

    /// A write-back that is called for, now or when its wait is over: of all descriptors, or of those whose lines are complete
    /// while the rest waits for its line. True if any goes now.
    pub(super) fn write_back_called_for(&mut self, now: Ps, queue: Queue, ports: &mut impl IgbPorts) -> bool {
        if !self.write_back_is_due(now, queue, ports) {
            return false;
        }
        let Limits { lines, wait, .. } = self.limits(queue);
        let leaves_rest = lines && wait != Ps::ZERO;
        let any = self.write_back_some(now, queue, leaves_rest, ports);
        if leaves_rest && self.bus_master && self.queue_mut(queue).0.has_write_back() {
            // The wait is counted from the first descriptor of a line.
            self.write_back_is_due(now, queue, ports);
        }
        any
    }

    /// Asks for the write-back of every used descriptor that has to be reported. True if there was any.
    pub(super) fn write_back(&mut self, now: Ps, queue: Queue, ports: &mut impl IgbPorts) -> bool {
        self.write_back_some(now, queue, false, ports)
    }

    fn write_back_some(
        &mut self,
        now: Ps,
        queue: Queue,
        whole_lines: bool,
        ports: &mut impl IgbPorts,
    ) -> bool {
        let limits = self.limits(queue);
        let mut any = false;
        self.queue_mut(queue).0.cancel_wait();
        while self.bus_master && self.queue_mut(queue).0.has_write_back() {
            let Some(ring) = self.regs.ring(queue) else {
                self.stats.ring_nonsense += 1;
                log!(now, Nic, Warn, "{}: head or tail lies outside the {queue} ring", self.name);
                break;
            };
            if whole_lines && !self.queue_mut(queue).0.fills_write_back(&ring, limits) {
                break;
            }
            any = true;
            let run = self.queue_mut(queue).0.write_back(&ring, limits);
            let (kind, head) = match queue {
                Queue::Receive(_) => {
                    self.stats.rx_write_backs += 1;
                    (DmaKind::RxDescriptorWriteback, None)
                }
                Queue::Transmit(queue) => {
                    self.stats.tx_write_backs += 1;
                    (DmaKind::TxDescriptorWriteback, self.regs.head_address(queue.into()))
                }
            };
            // The head instead of the descriptors before it (§7.2).
            let piece = match head {
                Some(addr) => Piece { addr, len: HEAD_BYTES, offset: 0 },
                None => Piece::descriptors(run),
            };
            self.issue_write(now, piece, kind, Write::Descriptors { queue, run }, ports);
        }
        any
    }

    /// The head moves on; the ring's length is not zero, or nothing would have been on its way.
    pub(super) fn advance_head(&mut self, queue: Queue, steps: u32) {
        let count = self.regs.ring_count(queue);
        if count != 0 {
            let (head, index) = (queue.registers().head, queue.index());
            self.regs.set_at(head, index, (self.regs.at(head, index) + steps) % count);
        }
    }

    /// Does for a queue's direction whatever can be done now.
    pub(super) fn advance(&mut self, now: Ps, queue: Queue, ports: &mut impl IgbPorts) {
        match queue {
            Queue::Receive(_) => self.rx_advance(now, ports),
            Queue::Transmit(_) => self.tx_advance(now, ports),
        }
    }
}
