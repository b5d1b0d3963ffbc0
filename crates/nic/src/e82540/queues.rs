//! The chip's two queues, and what it does with either's descriptors: fetching them (§3.2.4, §3.4.1), writing them
//! back (§3.2.6, §3.4.3), moving the head.

use std::fmt;

use doorbell_sim::ports::DmaKind;
use doorbell_sim::{Ps, log};
use serde::{Deserialize, Serialize};

use super::bits::{dctl, rctl};
use super::regs::{Reg, Regs};
use super::{Event, Nic, NicPorts};
use crate::parts::dma::{Piece, Read, Write};
use crate::parts::engine::{Engine, Ready};
use crate::parts::ring::{DESCRIPTOR_BYTES, Limits, Ring, RingEngine, Thresholds};
use crate::parts::timer::Wake;
use crate::stats::RingLevel;

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

/// The registers of a queue's ring.
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
    const fn registers(self) -> &'static RingRegisters {
        match self {
            Queue::Receive => &RECEIVE,
            Queue::Transmit => &TRANSMIT,
        }
    }
}

impl Regs {
    /// The queue's ring as its registers say, or none if it makes no sense. Asked of one named queue it is six loads.
    #[inline(always)]
    pub fn ring(&self, queue: Queue) -> Option<Ring> {
        let of = queue.registers();
        let base = u64::from(self.get(of.base_high)) << 32 | u64::from(self.get(of.base_low));
        Ring::new(base, self.get(of.length), self.get(of.head), self.get(of.tail))
    }

    /// Descriptors in the queue's ring.
    pub fn ring_count(&self, queue: Queue) -> u32 {
        self.get(queue.registers().length) / DESCRIPTOR_BYTES
    }

    /// The head of the queue's ring.
    pub fn ring_head(&self, queue: Queue) -> u32 {
        self.get(queue.registers().head)
    }

    /// Descriptors of the queue's ring that software has given and the head has not passed; none if it makes no sense.
    pub fn ring_given(&self, queue: Queue) -> u32 {
        self.ring(queue).map_or(0, |ring| ring.given())
    }

    /// RXDCTL or TXDCTL. A cache line is taken as 64 bytes, four descriptors.
    pub fn thresholds(&self, queue: Queue) -> Thresholds {
        let value = self.get(queue.registers().control);
        let unit = if value & dctl::GRAN != 0 { 1 } else { 4 };
        let field = |shift: u32| (value >> shift & 0x3f) * unit;
        Thresholds { prefetch: field(0), host: field(8), write_back: field(16) }
    }
}

impl Nic {
    /// The receive ring and the transmit ring.
    pub fn ring_levels(&self) -> [RingLevel; 2] {
        let level = |queue, consumed| match self.regs.ring(queue) {
            Some(ring) => {
                let given = u64::from(ring.given());
                let descriptors = u64::from(ring.count);
                let waiting = match queue {
                    // One descriptor always stays with software, so that a full ring is told from an empty one.
                    Queue::Receive => (descriptors - 1).saturating_sub(given),
                    Queue::Transmit => given,
                };
                RingLevel { descriptors, waiting, consumed }
            }
            None => RingLevel { descriptors: 0, waiting: 0, consumed },
        };
        [level(Queue::Receive, self.stats.rx_descriptors), level(Queue::Transmit, self.stats.tx_descriptors)]
    }

    /// The queue's descriptors on the chip, and the engine that works on them.
    fn queue_mut(&mut self, queue: Queue) -> (&mut dyn RingEngine, &mut Engine) {
        match queue {
            Queue::Receive => (&mut self.rx.queue.ring, &mut self.rx.engine),
            Queue::Transmit => (&mut self.tx.queue.ring, &mut self.tx.engine),
        }
    }

    fn limits(&self, queue: Queue) -> Limits {
        let cache = match queue {
            Queue::Receive => self.config.rx_descriptor_cache,
            Queue::Transmit => self.config.tx_descriptor_cache,
        };
        Limits {
            cache: cache.into(),
            fetch_max: self.config.descriptor_fetch_max.into(),
            prefetch: self.config.descriptor_prefetch,
            fetches: self.config.descriptor_fetches_in_flight.into(),
            batch: self.config.write_back_batch.into(),
            wait: self.config.write_back_wait,
            // Transmit descriptors that are reported are too far apart to share lines.
            lines: queue == Queue::Receive && self.config.write_back_lines,
        }
    }

    /// Whether the queue works: it is on, and DMA is allowed.
    fn fetches(&self, queue: Queue) -> bool {
        match queue {
            Queue::Receive => self.bus_master && self.regs.has(Reg::Rctl, rctl::EN),
            Queue::Transmit => self.transmitter_on(),
        }
    }

    /// Fetches descriptors as often as the thresholds say so and more fetches may be in flight.
    pub(super) fn fetch(&mut self, now: Ps, queue: Queue, ports: &mut impl NicPorts) {
        let limits = self.limits(queue);
        while self.queue_mut(queue).0.may_fetch(limits)
            && self.fetches(queue)
            && self.fetch_once(now, queue, limits, ports)
        {}
    }

    /// One fetch, if the thresholds say so.
    fn fetch_once(&mut self, now: Ps, queue: Queue, limits: Limits, ports: &mut impl NicPorts) -> bool {
        let descriptor_time = self.config.descriptor_time;
        let Some(ring) = self.regs.ring(queue) else {
            self.stats.ring_nonsense += u64::from(self.regs.get(queue.registers().length) != 0);
            return false;
        };
        let thresholds = self.regs.thresholds(queue);
        let begun = match queue {
            Queue::Receive => 0,
            Queue::Transmit => self.tx.queue.jobs.len() as u32,
        };
        let (descriptors, engine) = self.queue_mut(queue);
        let Some(run) = descriptors.fetch(&ring, thresholds, limits, begun) else { return false };
        engine.busy_for(now, Ps(descriptor_time.0 * u64::from(run.count)));
        let kind = match queue {
            Queue::Receive => {
                self.stats.rx_fetches += 1;
                DmaKind::RxDescriptorFetch
            }
            Queue::Transmit => {
                self.stats.tx_fetches += 1;
                DmaKind::TxDescriptorFetch
            }
        };
        self.issue_read(now, Piece::descriptors(run), kind, Read::Descriptors { queue, run }, ports);
        true
    }

    /// Whether a write-back that is called for goes now. If not, it goes when its wait is over.
    pub(super) fn write_back_is_due(&mut self, now: Ps, queue: Queue, ports: &mut impl NicPorts) -> bool {
        let limits = self.limits(queue);
        if limits.wait == Ps::ZERO {
            // A card that waits for no more looks at no ring.
            return true;
        }
        let ring = self.regs.ring(queue);
        match self.queue_mut(queue).0.write_back_is_due(now, ring.as_ref(), limits) {
            Ready::Now => return true,
            Ready::Later => {}
            Ready::WakeAt(at) => ports.wake_at(at, Event::WriteBack(queue)),
        }
        false
    }

    /// A write-back may have waited long enough.
    pub(super) fn write_back_woken(&mut self, now: Ps, queue: Queue, ports: &mut impl NicPorts) {
        match self.queue_mut(queue).0.write_back_woken(now) {
            Wake::Ignore => {}
            Wake::Again(at) => ports.wake_at(at, Event::WriteBack(queue)),
            Wake::Expired => self.flush(now, queue, ports),
        }
    }

    /// Writes back everything that waits for more.
    pub(super) fn flush(&mut self, now: Ps, queue: Queue, ports: &mut impl NicPorts) {
        match queue {
            Queue::Receive => {
                self.write_back(now, queue, ports);
            }
            Queue::Transmit => self.tx_flush(now, ports),
        }
    }

    /// A write-back that is called for, now or when its wait is over: of all descriptors, or of those whose lines are complete
    /// while the rest waits for its line. True if any goes now.
    pub(super) fn write_back_called_for(&mut self, now: Ps, queue: Queue, ports: &mut impl NicPorts) -> bool {
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
    pub(super) fn write_back(&mut self, now: Ps, queue: Queue, ports: &mut impl NicPorts) -> bool {
        self.write_back_some(now, queue, false, ports)
    }

    fn write_back_some(
        &mut self,
        now: Ps,
        queue: Queue,
        whole_lines: bool,
        ports: &mut impl NicPorts,
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
            let kind = match queue {
                Queue::Receive => {
                    self.stats.rx_write_backs += 1;
                    DmaKind::RxDescriptorWriteback
                }
                Queue::Transmit => {
                    self.stats.tx_write_backs += 1;
                    DmaKind::TxDescriptorWriteback
                }
            };
            self.issue_write(now, Piece::descriptors(run), kind, Write::Descriptors { queue, run }, ports);
        }
        any
    }

    /// The head moves on; the ring's length is not zero, or nothing would have been on its way.
    pub(super) fn advance_head(&mut self, queue: Queue, steps: u32) {
        let count = self.regs.ring_count(queue);
        if count != 0 {
            let head = queue.registers().head;
            self.regs.set(head, (self.regs.get(head) + steps) % count);
        }
    }

    /// Does for a queue whatever can be done now.
    pub(super) fn advance(&mut self, now: Ps, queue: Queue, ports: &mut impl NicPorts) {
        match queue {
            Queue::Receive => self.rx_advance(now, ports),
            Queue::Transmit => self.tx_advance(now, ports),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
