//! A chip's queues, whatever the chip: where their rings' registers are, fetching descriptors, writing them back, moving heads. What a
//! chip's own registers say, and what it has of each queue, it says as [`Queues`]; the work, which asks the bus for something, is
//! [`QueueWork`].

use std::fmt::Display;

use doorbell_sim::ports::{DmaKind, DmaPort, DmaTag};
use doorbell_sim::{Ps, log};

use super::dma::{Dma, Lane, Moved, Pace, Piece, Read, Write};
use super::engine::{Engine, Ready};
use super::registers::{RegisterFile, RegisterId};
use super::requests::{Requests, Wakeup};
use super::ring::{DESCRIPTOR_BYTES, Limits, Ring, RingEngine, Run, Thresholds};
use super::timer::Wake;
use crate::config::NicConfig;
use crate::stats::{NicStats, RingLevel};

/// The registers of a direction's rings.
pub(crate) struct RingRegisters<R> {
    pub base_low: R,
    pub base_high: R,
    pub length: R,
    pub head: R,
    pub tail: R,
    /// RXDCTL or TXDCTL.
    pub control: R,
}

/// How a chip names its queues.
pub(crate) trait QueueId: Copy + PartialEq + Display + 'static {
    /// The chip's registers.
    type Reg: RegisterId;
    /// Whether frames go from the wire to memory by it.
    fn receives(self) -> bool;
    /// The registers of its direction, and which of each array is its own.
    fn registers(self) -> (&'static RingRegisters<Self::Reg>, usize);
}

impl<R: RegisterId> RegisterFile<R> {
    /// A queue's ring as its registers say, or none if it makes no sense. Asked of one named queue it is six loads.
    #[inline(always)]
    pub fn ring(&self, queue: impl QueueId<Reg = R>) -> Option<Ring> {
        let (of, index) = queue.registers();
        let base = u64::from(self.at(of.base_high, index)) << 32 | u64::from(self.at(of.base_low, index));
        Ring::new(base, self.at(of.length, index), self.at(of.head, index), self.at(of.tail, index))
    }

    /// Descriptors in a queue's ring.
    pub fn ring_count(&self, queue: impl QueueId<Reg = R>) -> u32 {
        let (of, index) = queue.registers();
        self.at(of.length, index) / DESCRIPTOR_BYTES
    }

    /// The head of a queue's ring.
    pub fn ring_head(&self, queue: impl QueueId<Reg = R>) -> u32 {
        let (of, index) = queue.registers();
        self.at(of.head, index)
    }

    /// Its head and tail, whether or not they make sense.
    pub fn ring_ends(&self, queue: impl QueueId<Reg = R>) -> [u32; 2] {
        let (of, index) = queue.registers();
        [self.at(of.head, index), self.at(of.tail, index)]
    }

    /// Descriptors of a queue's ring that software has given and the head has not passed; none if it makes no sense.
    pub fn ring_given(&self, queue: impl QueueId<Reg = R>) -> u32 {
        self.ring(queue).map_or(0, |ring| ring.given())
    }

    /// The head moves on; the ring's length is not zero, or nothing would have been on its way.
    pub fn advance_head(&mut self, queue: impl QueueId<Reg = R>, steps: u32) {
        let (of, index) = queue.registers();
        let count = self.ring_count(queue);
        if count != 0 {
            self.set_at(of.head, index, (self.at(of.head, index) + steps) % count);
        }
    }
}

impl RingLevel {
    /// What a ring holds, if it works, and what has gone through it.
    pub(crate) fn of(ring: Option<Ring>, receives: bool, consumed: u64) -> RingLevel {
        let Some(ring) = ring else { return RingLevel { descriptors: 0, waiting: 0, consumed } };
        let (descriptors, given) = (u64::from(ring.count), u64::from(ring.given()));
        // One descriptor always stays with software, so that a full ring is told from an empty one.
        let waiting = if receives { (descriptors - 1).saturating_sub(given) } else { given };
        RingLevel { descriptors, waiting, consumed }
    }
}

/// What a chip has of its queues, and what its registers say of them.
pub(crate) trait Queues {
    /// How it names them.
    type Queue: QueueId;

    /// Its parameters.
    fn parameters(&self) -> &NicConfig;
    /// Its counters.
    fn counters(&mut self) -> &mut NicStats;
    /// What it is called in the log.
    fn called(&self) -> &str;
    /// The registers.
    fn regs(&self) -> &RegisterFile<<Self::Queue as QueueId>::Reg>;
    /// What is in flight.
    fn dma(&mut self) -> &mut Dma<Self::Queue>;
    /// The same, to look at.
    fn dma_books(&self) -> &Dma<Self::Queue>;
    /// Whether it may start DMA.
    fn is_bus_master(&self) -> bool;
    /// Whether a queue works: it is on, and DMA is allowed.
    fn fetches(&self, queue: Self::Queue) -> bool;
    /// When software wants a queue's descriptors fetched and written back.
    fn thresholds(&self, queue: Self::Queue) -> Thresholds;
    /// A queue's descriptors on the chip, and the engine that works on them.
    fn on_chip(&mut self, queue: Self::Queue) -> (&mut dyn RingEngine, &mut Engine);
    /// Descriptors of a queue that are neither unused nor used.
    fn begun(&self, queue: Self::Queue) -> u32;
    /// What is written to memory when these descriptors are reported.
    fn report(&self, queue: Self::Queue, run: Run) -> Piece {
        Piece::descriptors(run, self.tag(queue, Moved::Report))
    }
    /// What a request says of its queue, and of the core that it is for.
    fn tag(&self, _: Self::Queue, _: Moved) -> DmaTag {
        DmaTag::default()
    }

    /// How fast the engine moves bytes.
    fn pace(&self) -> Pace {
        let config = self.parameters();
        Pace { rate: config.dma_rate, shared: config.dma_shared }
    }

    /// When everything that was asked for in a direction has gone through the engine, not before `now`.
    fn path_end(&self, now: Ps, lane: Lane) -> Ps {
        self.dma_books().path_end(now, self.pace(), lane)
    }

    /// What the chip does with a queue's descriptors, whatever software wants.
    fn limits(&self, queue: Self::Queue) -> Limits {
        let config = self.parameters();
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
}

/// What a chip does with its queues' descriptors.
pub(crate) trait QueueWork<P: DmaPort>: Requests<P> {
    /// Writes back all transmit descriptors that wait for more.
    fn flush_transmit(&mut self, now: Ps, queue: Self::Queue, ports: &mut P);

    /// Fetches descriptors as often as the thresholds say so and more fetches may be in flight.
    fn fetch(&mut self, now: Ps, queue: Self::Queue, ports: &mut P) {
        let limits = self.limits(queue);
        while self.on_chip(queue).0.may_fetch(limits)
            && self.fetches(queue)
            && self.fetch_once(now, queue, limits, ports)
        {}
    }

    /// One fetch, if the thresholds say so.
    fn fetch_once(&mut self, now: Ps, queue: Self::Queue, limits: Limits, ports: &mut P) -> bool {
        let descriptor_time = self.parameters().descriptor_time;
        let Some(ring) = self.regs().ring(queue) else {
            let count = self.regs().ring_count(queue);
            if count != 0 {
                self.counters().ring_nonsense += 1;
                let [head, tail] = self.regs().ring_ends(queue);
                log!(
                    now,
                    Nic,
                    Warn,
                    "{}: head {head} or tail {tail} lies outside the {queue} ring of {count} descriptors",
                    self.called()
                );
            }
            return false;
        };
        let (thresholds, begun) = (self.thresholds(queue), self.begun(queue));
        let (descriptors, engine) = self.on_chip(queue);
        let Some(run) = descriptors.fetch(&ring, thresholds, limits, begun) else { return false };
        engine.busy_for(now, Ps(descriptor_time.0 * u64::from(run.count)));
        let counters = self.counters();
        let kind = match queue.receives() {
            true => {
                counters.rx_fetches += 1;
                DmaKind::RxDescriptorFetch
            }
            false => {
                counters.tx_fetches += 1;
                DmaKind::TxDescriptorFetch
            }
        };
        let piece = Piece::descriptors(run, self.tag(queue, Moved::Read));
        self.issue_read(now, piece, kind, Read::Descriptors { queue, run }, ports);
        true
    }

    /// Whether a write-back that is called for goes now. If not, it goes when its wait is over.
    fn write_back_is_due(&mut self, now: Ps, queue: Self::Queue, ports: &mut P) -> bool {
        let limits = self.limits(queue);
        if limits.wait == Ps::ZERO {
            // A card that waits for no more looks at no ring.
            return true;
        }
        let ring = self.regs().ring(queue);
        match self.on_chip(queue).0.write_back_is_due(now, ring.as_ref(), limits) {
            Ready::Now => return true,
            Ready::Later => {}
            Ready::WakeAt(at) => Self::wake(ports, at, Wakeup::WriteBack(queue)),
        }
        false
    }

    /// A write-back may have waited long enough.
    fn write_back_woken(&mut self, now: Ps, queue: Self::Queue, ports: &mut P) {
        match self.on_chip(queue).0.write_back_woken(now) {
            Wake::Ignore => {}
            Wake::Again(at) => Self::wake(ports, at, Wakeup::WriteBack(queue)),
            Wake::Expired => self.flush(now, queue, ports),
        }
    }

    /// Writes back everything that waits for more.
    fn flush(&mut self, now: Ps, queue: Self::Queue, ports: &mut P) {
        match queue.receives() {
            true => _ = self.write_back(now, queue, ports),
            false => self.flush_transmit(now, queue, ports),
        }
    }

    /// A write-back that is called for, now or when its wait is over: of all descriptors, or of those whose lines are complete
    /// while the rest waits for its line. True if any goes now.
    fn write_back_called_for(&mut self, now: Ps, queue: Self::Queue, ports: &mut P) -> bool {
        if !self.write_back_is_due(now, queue, ports) {
            return false;
        }
        let Limits { lines, wait, .. } = self.limits(queue);
        let leaves_rest = lines && wait != Ps::ZERO;
        let any = self.write_back_some(now, queue, leaves_rest, ports);
        if leaves_rest && self.is_bus_master() && self.on_chip(queue).0.has_write_back() {
            // The wait is counted from the first descriptor of a line.
            self.write_back_is_due(now, queue, ports);
        }
        any
    }

    /// Asks for the write-back of every used descriptor that has to be reported. True if there was any.
    fn write_back(&mut self, now: Ps, queue: Self::Queue, ports: &mut P) -> bool {
        self.write_back_some(now, queue, false, ports)
    }

    /// The same, or only of those whose lines are complete.
    fn write_back_some(&mut self, now: Ps, queue: Self::Queue, whole_lines: bool, ports: &mut P) -> bool {
        let limits = self.limits(queue);
        let mut any = false;
        self.on_chip(queue).0.cancel_wait();
        while self.is_bus_master() && self.on_chip(queue).0.has_write_back() {
            let Some(ring) = self.regs().ring(queue) else {
                self.counters().ring_nonsense += 1;
                log!(now, Nic, Warn, "{}: head or tail lies outside the {queue} ring", self.called());
                break;
            };
            if whole_lines && !self.on_chip(queue).0.fills_write_back(&ring, limits) {
                break;
            }
            any = true;
            let run = self.on_chip(queue).0.write_back(&ring, limits);
            let counters = self.counters();
            let kind = match queue.receives() {
                true => {
                    counters.rx_write_backs += 1;
                    DmaKind::RxDescriptorWriteback
                }
                false => {
                    counters.tx_write_backs += 1;
                    DmaKind::TxDescriptorWriteback
                }
            };
            let piece = self.report(queue, run);
            self.issue_write(now, piece, kind, Write::Descriptors { queue, run }, ports);
        }
        any
    }
}
