//! Interrupts (§13.4.17 to §13.4.21) and their moderation: the throttle ITR (§13.4.18), the receive
//! timers RDTR, RADV and RSRPD (§13.4.30 to §13.4.32), the transmit timers TIDV and TADV (§13.4.41,
//! §13.4.44). The line is high while ICR & IMS is not zero; ITR only delays its next rise, and so does `interrupt_delay`, which no
//! register knows.

use doorbell_sim::{Ps, log};
use serde::{Deserialize, Serialize};

use crate::e82540::bits::{cause, rdtr};
use crate::e82540::regs::Reg;
use crate::e82540::{Event, Nic, NicPorts, Queue};
use crate::parts::queues::QueueWork as _;
use crate::parts::timer::{Timer, Wake};

/// The delay timers' unit, 1.024 µs.
const DELAY_UNIT_PS: u64 = 1_024_000;
/// The throttle's unit, 256 ns.
const THROTTLE_UNIT_PS: u64 = 256_000;

/// The line and the timers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Interrupts {
    level: bool,
    /// When the line last rose.
    last_rise: Option<Ps>,
    /// Since when it has been due to rise, if it is and has not.
    due: Option<Ps>,
    throttle: Timer,
    receive: Delay,
    transmit: Delay,
}

/// What holds back the interrupts of one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Delay {
    /// Begins again with each frame.
    relative: Timer,
    /// Begins with the first.
    absolute: Timer,
}

impl Delay {
    fn cancel(&mut self) {
        self.relative.cancel();
        self.absolute.cancel();
    }
}

impl Interrupts {
    /// Everything is quiet. The line itself is driven low by the next [`Nic::update_irq`].
    pub fn reset(&mut self) {
        self.last_rise = None;
        self.due = None;
        self.throttle.cancel();
        self.receive.cancel();
        self.transmit.cancel();
    }

    fn delay_mut(&mut self, queue: Queue) -> &mut Delay {
        match queue {
            Queue::Receive => &mut self.receive,
            Queue::Transmit => &mut self.transmit,
        }
    }
}

/// What software's delay value says: a span, or none for "at once".
fn delay(value: u32) -> Option<Ps> {
    (value != 0).then(|| Ps(u64::from(value) * DELAY_UNIT_PS))
}

impl Nic {
    /// Raises causes.
    pub(crate) fn set_cause(&mut self, now: Ps, bits: u32, ports: &mut impl NicPorts) {
        let causes = self.regs.get(Reg::Icr) | bits & Reg::Icr.info().mask;
        self.regs.set(Reg::Icr, causes);
        self.update_irq(now, ports);
    }

    /// Reading ICR clears it.
    pub(crate) fn read_icr(&mut self, now: Ps, ports: &mut impl NicPorts) -> u32 {
        let causes = self.regs.get(Reg::Icr);
        self.regs.set(Reg::Icr, 0);
        self.update_irq(now, ports);
        causes
    }

    /// Drives the line as ICR, IMS, ITR and the configured delay say.
    pub(crate) fn update_irq(&mut self, now: Ps, ports: &mut impl NicPorts) {
        let wanted = self.regs.get(Reg::Icr) & self.regs.get(Reg::Ims) != 0;
        if !wanted {
            self.irq.throttle.cancel();
            self.irq.due = None;
            if self.irq.level {
                self.irq.level = false;
                log!(now, Nic, Debug, "{}: interrupt line low", self.name);
                ports.set_irq(false);
            }
            return;
        }
        if self.irq.level {
            return;
        }
        let interval = Ps(u64::from(self.regs.get(Reg::Itr)) * THROTTLE_UNIT_PS);
        let ready = self.irq.last_rise.map_or(Ps::ZERO, |last| last.saturating_add(interval));
        let due = *self.irq.due.get_or_insert(now);
        let ready = ready.max(due.saturating_add(self.config.interrupt_delay));
        if now >= ready {
            self.irq.throttle.cancel();
            self.irq.due = None;
            self.irq.level = true;
            self.irq.last_rise = Some(now);
            self.stats.interrupts += 1;
            let causes = self.regs.get(Reg::Icr);
            log!(now, Nic, Debug, "{}: interrupt line high, ICR = {causes:#x}", self.name);
            ports.set_irq(true);
        } else if let Some(at) = self.irq.throttle.arm(ready) {
            log!(now, Nic, Debug, "{}: interrupt held back until {ready}", self.name);
            ports.wake_at(at, Event::Throttle);
        }
    }

    /// A frame of `bytes` is visible to the host: interrupt now, or start the timers.
    pub(crate) fn frame_received_interrupt(&mut self, now: Ps, bytes: u32, ports: &mut impl NicPorts) {
        if bytes <= self.regs.get(Reg::Rsrpd) {
            self.set_cause(now, cause::SRPD, ports);
        }
        match delay(self.regs.get(Reg::Rdtr)) {
            None => self.set_cause(now, cause::RXT0, ports),
            Some(wait) => self.delay_interrupt(now, Queue::Receive, wait, ports),
        }
    }

    /// A transmit descriptor with RS is written back; `delayed` is its IDE bit.
    pub(crate) fn descriptor_sent_interrupt(&mut self, now: Ps, delayed: bool, ports: &mut impl NicPorts) {
        match delay(self.regs.get(Reg::Tidv)).filter(|_| delayed) {
            None => self.set_cause(now, cause::TXDW, ports),
            Some(wait) => self.delay_interrupt(now, Queue::Transmit, wait, ports),
        }
    }

    /// The queue's interrupt comes after `wait` without another reason for it, or when the first reason is as old as
    /// RADV or TADV says.
    fn delay_interrupt(&mut self, now: Ps, queue: Queue, wait: Ps, ports: &mut impl NicPorts) {
        let absolute = match queue {
            Queue::Receive => Reg::Radv,
            Queue::Transmit => Reg::Tadv,
        };
        let absolute = delay(self.regs.get(absolute));
        let timers = self.irq.delay_mut(queue);
        if let Some(at) = timers.relative.arm(now.saturating_add(wait)) {
            ports.wake_at(at, Event::InterruptDelay(queue));
        }
        let absolute = absolute.filter(|_| !timers.absolute.is_armed());
        if let Some(at) = absolute.and_then(|wait| timers.absolute.arm(now.saturating_add(wait))) {
            ports.wake_at(at, Event::InterruptDelayMax(queue));
        }
    }

    /// RDTR is written. FPD flushes what waits for write-back, and the interrupt with it.
    pub(crate) fn write_rdtr(&mut self, now: Ps, value: u32, ports: &mut impl NicPorts) {
        self.regs.set(Reg::Rdtr, value & Reg::Rdtr.info().mask);
        if value & rdtr::FPD != 0 {
            self.write_back(now, Queue::Receive, ports);
            if self.irq.receive.relative.is_armed() {
                self.interrupt_delay_over(now, Queue::Receive, ports);
            }
        }
    }

    fn interrupt_delay_over(&mut self, now: Ps, queue: Queue, ports: &mut impl NicPorts) {
        self.irq.delay_mut(queue).cancel();
        self.flush(now, queue, ports);
        let cause = match queue {
            Queue::Receive => cause::RXT0,
            Queue::Transmit => cause::TXDW,
        };
        self.set_cause(now, cause, ports);
    }

    pub(crate) fn throttle_woken(&mut self, now: Ps, ports: &mut impl NicPorts) {
        match self.irq.throttle.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => ports.wake_at(at, Event::Throttle),
            Wake::Expired => self.update_irq(now, ports),
        }
    }

    pub(crate) fn interrupt_delay_woken(&mut self, now: Ps, queue: Queue, ports: &mut impl NicPorts) {
        match self.irq.delay_mut(queue).relative.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => ports.wake_at(at, Event::InterruptDelay(queue)),
            Wake::Expired => self.interrupt_delay_over(now, queue, ports),
        }
    }

    pub(crate) fn interrupt_delay_max_woken(&mut self, now: Ps, queue: Queue, ports: &mut impl NicPorts) {
        match self.irq.delay_mut(queue).absolute.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => ports.wake_at(at, Event::InterruptDelayMax(queue)),
            Wake::Expired => self.interrupt_delay_over(now, queue, ports),
        }
    }
}
