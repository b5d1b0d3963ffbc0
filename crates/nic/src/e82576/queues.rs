//! The chip's queues: their names, their registers, and what it has of each on the chip (§7.1, §7.2).

use std::fmt;

use doorbell_sim::Ps;
use doorbell_sim::ports::DmaTag;
use serde::{Deserialize, Serialize};

use super::bits::{dctl, rctl, tdwbal};
use super::dma::Dma;
use super::regs::{Reg, Regs};
use super::{Igb, IgbPorts, QUEUES};
use crate::config::NicConfig;
use crate::parts::dma::{Moved, Piece};
use crate::parts::engine::Engine;
use crate::parts::queues::{QueueId, QueueWork, Queues, RingRegisters};
use crate::parts::requests::Requests as _;
use crate::parts::ring::{Ring, RingEngine, Run, Thresholds};
use crate::stats::{NicStats, RingLevel};

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

const RECEIVE: RingRegisters<Reg> = RingRegisters {
    base_low: Reg::Rdbal,
    base_high: Reg::Rdbah,
    length: Reg::Rdlen,
    head: Reg::Rdh,
    tail: Reg::Rdt,
    control: Reg::Rxdctl,
};

const TRANSMIT: RingRegisters<Reg> = RingRegisters {
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
}

impl QueueId for Queue {
    type Reg = Reg;

    fn receives(self) -> bool {
        matches!(self, Queue::Receive(_))
    }

    fn registers(self) -> (&'static RingRegisters<Reg>, usize) {
        (if self.receives() { &RECEIVE } else { &TRANSMIT }, self.index())
    }
}

impl Regs {
    /// RXDCTL or TXDCTL, in descriptors.
    pub fn thresholds(&self, queue: Queue) -> Thresholds {
        let (of, index) = queue.registers();
        let value = self.at(of.control, index);
        let field = |shift: u32| value >> shift & 0x1f;
        Thresholds { prefetch: field(0), host: field(8), write_back: field(16) }
    }

    /// Where the queue's head is written back to, if that is asked for.
    pub fn head_address(&self, queue: usize) -> Option<u64> {
        let low = self.at(Reg::Tdwbal, queue);
        let address = u64::from(self.at(Reg::Tdwbah, queue)) << 32 | u64::from(low & !3);
        (low & tdwbal::ENABLE != 0).then_some(address)
    }
}

/// The queues that are on, a bit each: RXDCTL.ENABLE and TXDCTL.ENABLE, gathered because every event asks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueuesOn {
    pub receive: u32,
    pub transmit: u32,
}

impl QueuesOn {
    /// As the registers say.
    pub fn of(regs: &Regs) -> QueuesOn {
        let on = |control: Reg| {
            let enabled =
                regs.array(control).iter().enumerate().filter(|(_, value)| *value & dctl::ENABLE != 0);
            enabled.fold(0, |bits, (queue, _)| bits | 1 << queue)
        };
        QueuesOn { receive: on(Reg::Rxdctl), transmit: on(Reg::Txdctl) }
    }

    /// Whether a queue is.
    pub fn has(self, queue: Queue) -> bool {
        let of = if queue.receives() { self.receive } else { self.transmit };
        of >> queue.index() & 1 != 0
    }
}

/// The numbers of the bits that are set.
pub(super) fn bits_of(mut bits: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(lowest)
    })
}

impl Queues for Igb {
    type Queue = Queue;

    fn parameters(&self) -> &NicConfig {
        &self.config
    }

    fn counters(&mut self) -> &mut NicStats {
        &mut self.stats
    }

    fn called(&self) -> &str {
        &self.name
    }

    fn regs(&self) -> &Regs {
        &self.regs
    }

    fn dma(&mut self) -> &mut Dma {
        &mut self.dma
    }

    fn dma_books(&self) -> &Dma {
        &self.dma
    }

    fn is_bus_master(&self) -> bool {
        self.bus_master
    }

    /// The queue is on, and so is its direction.
    fn fetches(&self, queue: Queue) -> bool {
        let direction = match queue {
            Queue::Receive(_) => self.bus_master && self.regs.has(Reg::Rctl, rctl::EN),
            Queue::Transmit(_) => self.transmitter_on(),
        };
        direction && self.on.has(queue)
    }

    fn thresholds(&self, queue: Queue) -> Thresholds {
        self.regs.thresholds(queue)
    }

    fn on_chip(&mut self, queue: Queue) -> (&mut dyn RingEngine, &mut Engine) {
        let index = queue.index();
        match queue {
            Queue::Receive(_) => (&mut self.rx.queues[index].ring, &mut self.rx.engine),
            Queue::Transmit(_) => (&mut self.tx.queues[index].ring, &mut self.tx.engine),
        }
    }

    fn begun(&self, queue: Queue) -> u32 {
        if queue.receives() { 0 } else { self.tx.queues[queue.index()].jobs.len() as u32 }
    }

    /// The head may be written instead of the descriptors before it (§7.2).
    fn report(&self, queue: Queue, run: Run) -> Piece {
        let head = if queue.receives() { None } else { self.regs.head_address(queue.index()) };
        let tag = self.tag(queue, Moved::Report);
        head.map_or(Piece::descriptors(run, tag), |addr| Piece { addr, len: HEAD_BYTES, offset: 0, tag })
    }

    fn tag(&self, queue: Queue, moved: Moved) -> DmaTag {
        DmaTag { queue: queue.index() as u8, core: self.regs.dca_core(queue, moved) }
    }
}

impl<P: IgbPorts> QueueWork<P> for Igb {
    fn flush_transmit(&mut self, now: Ps, queue: Queue, ports: &mut P) {
        self.tx_flush(now, queue.index(), ports);
    }
}

impl Igb {
    /// What a queue's two rings hold.
    pub(super) fn ring_level(&self, queue: usize) -> [RingLevel; 2] {
        let counted = &self.queue_stats[queue];
        let works = |of: Queue| -> Option<Ring> { self.regs.ring(of).filter(|_| self.on.has(of)) };
        [
            RingLevel::of(works(Queue::receive(queue)), true, counted.rx_descriptors),
            RingLevel::of(works(Queue::transmit(queue)), false, counted.tx_descriptors),
        ]
    }

    /// Does for a queue's direction whatever can be done now.
    pub(super) fn advance(&mut self, now: Ps, queue: Queue, ports: &mut impl IgbPorts) {
        self.advance_direction(now, queue.receives(), ports);
    }
}
