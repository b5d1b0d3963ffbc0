//! The chip's two queues: their names, their registers, and what it has of each on the chip (§3.2, §3.4).

use std::fmt;

use doorbell_sim::Ps;
use serde::{Deserialize, Serialize};

use super::bits::{dctl, rctl};
use super::dma::Dma;
use super::regs::{Reg, Regs};
use super::{Nic, NicPorts};
use crate::config::NicConfig;
use crate::parts::engine::Engine;
use crate::parts::queues::{QueueId, QueueWork, Queues, RingRegisters};
use crate::parts::requests::Requests as _;
use crate::parts::ring::{RingEngine, Thresholds};
use crate::stats::{NicStats, RingLevel};

/// A queue: a ring of descriptors and the frames that go through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Queue {
    /// From the wire to memory.
    Receive,
    /// From memory to the wire.
    Transmit,
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Queue::Receive => "receive",
            Queue::Transmit => "transmit",
        })
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

impl QueueId for Queue {
    type Reg = Reg;

    fn receives(self) -> bool {
        self == Queue::Receive
    }

    fn registers(self) -> (&'static RingRegisters<Reg>, usize) {
        let of = match self {
            Queue::Receive => &RECEIVE,
            Queue::Transmit => &TRANSMIT,
        };
        (of, 0)
    }
}

impl Regs {
    /// RXDCTL or TXDCTL. A cache line is taken as 64 bytes, four descriptors.
    pub fn thresholds(&self, queue: Queue) -> Thresholds {
        let value = self.get(queue.registers().0.control);
        let unit = if value & dctl::GRAN != 0 { 1 } else { 4 };
        let field = |shift: u32| (value >> shift & 0x3f) * unit;
        Thresholds { prefetch: field(0), host: field(8), write_back: field(16) }
    }
}

impl Queues for Nic {
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

    fn fetches(&self, queue: Queue) -> bool {
        match queue {
            Queue::Receive => self.bus_master && self.regs.has(Reg::Rctl, rctl::EN),
            Queue::Transmit => self.transmitter_on(),
        }
    }

    fn thresholds(&self, queue: Queue) -> Thresholds {
        self.regs.thresholds(queue)
    }

    fn on_chip(&mut self, queue: Queue) -> (&mut dyn RingEngine, &mut Engine) {
        match queue {
            Queue::Receive => (&mut self.rx.queue.ring, &mut self.rx.engine),
            Queue::Transmit => (&mut self.tx.queue.ring, &mut self.tx.engine),
        }
    }

    fn begun(&self, queue: Queue) -> u32 {
        if queue.receives() { 0 } else { self.tx.queue.jobs.len() as u32 }
    }
}

impl<P: NicPorts> QueueWork<P> for Nic {
    fn flush_transmit(&mut self, now: Ps, _: Queue, ports: &mut P) {
        self.tx_flush(now, ports);
    }
}

impl Nic {
    /// The receive ring and the transmit ring.
    pub fn ring_levels(&self) -> [RingLevel; 2] {
        let consumed = [self.stats.rx_descriptors, self.stats.tx_descriptors];
        let queues = [(Queue::Receive, consumed[0]), (Queue::Transmit, consumed[1])];
        queues.map(|(queue, consumed)| RingLevel::of(self.regs.ring(queue), queue.receives(), consumed))
    }

    /// Does for a queue whatever can be done now.
    pub(super) fn advance(&mut self, now: Ps, queue: Queue, ports: &mut impl NicPorts) {
        self.advance_direction(now, queue.receives(), ports);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::ring::Ring;

    #[test]
    fn a_queue_s_registers_are_its_own() {
        let mut regs = Regs::new();
        for (reg, value) in
            [(Reg::Tdbah, 1), (Reg::Tdbal, 0x1000), (Reg::Tdlen, 128), (Reg::Tdh, 7), (Reg::Tdt, 2)]
        {
            regs.set(reg, value);
        }
        let ring = Ring { base: 0x1_0000_1000, count: 8, head: 7, tail: 2 };
        assert_eq!((regs.ring(Queue::Transmit), regs.ring(Queue::Receive)), (Some(ring), None));
        assert_eq!((regs.ring_given(Queue::Transmit), regs.ring_given(Queue::Receive)), (3, 0));
        regs.set(Reg::Tdh, 8);
        assert_eq!((regs.ring(Queue::Transmit), regs.ring_given(Queue::Transmit)), (None, 0));
    }

    #[test]
    fn thresholds_count_lines_or_descriptors() {
        let mut regs = Regs::new();
        assert_eq!(regs.thresholds(Queue::Receive).write_back, 4, "as after reset");
        regs.set(Reg::Txdctl, 0x0103_0408);
        let thresholds = regs.thresholds(Queue::Transmit);
        assert_eq!((thresholds.prefetch, thresholds.host, thresholds.write_back), (8, 4, 3));
    }
}
