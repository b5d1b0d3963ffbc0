//! Interrupts (§13.4.17 to §13.4.21) and interrupt moderation: the throttle ITR (§13.4.18), the receive
//! timers RDTR, RADV and RSRPD (§13.4.30 to §13.4.32), and the transmit timers TIDV and TADV (§13.4.41,
//! §13.4.44). The line is asserted while ICR & IMS is not zero. ITR only delays its assertion, as does
//! `nic.interrupt_delay`, a parameter of the model that has no register.

use doorbell_pcie::FunctionPorts;
use doorbell_sim::{Ps, log};
use serde::{Deserialize, Serialize};

use super::Nic;
use super::bits::{cause, rdtr};
use super::regs::Reg;
use crate::intel::{Event, Queue, wake};
use crate::parts::engine::Ready;
use crate::parts::moderation::Moderation;
use crate::parts::timer::{Timer, Wake};

/// The chip's two queues.
const RECEIVE: Queue = Queue::Receive(0);
const TRANSMIT: Queue = Queue::Transmit(0);
/// Timer numbers: the throttle, and for each queue the relative delay (restarted by each frame) and the
/// absolute delay (started by the first frame).
const THROTTLE: u8 = 0;
const DELAY: [u8; 2] = [1, 2];
const DELAY_MAX: [u8; 2] = [3, 4];
/// Unit of the delay timers: 1.024 µs.
const DELAY_UNIT_PS: u64 = 1_024_000;
/// Unit of the throttle: 256 ns.
const THROTTLE_UNIT_PS: u64 = 256_000;

/// State of the interrupt line and the moderation timers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Interrupts {
    level: bool,
    line: Moderation,
    receive: Delay,
    transmit: Delay,
}

/// Interrupt delay timers of one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Delay {
    /// Restarted by each frame.
    relative: Timer,
    /// Started by the first frame.
    absolute: Timer,
}

impl Delay {
    fn cancel(&mut self) {
        self.relative.cancel();
        self.absolute.cancel();
    }
}

impl Interrupts {
    /// Clears all timers. The next [`Nic::update_irq`] deasserts the line.
    pub fn reset(&mut self) {
        self.line.reset();
        self.receive.cancel();
        self.transmit.cancel();
    }

    fn delay_mut(&mut self, queue: Queue) -> &mut Delay {
        match queue {
            Queue::Receive(_) => &mut self.receive,
            Queue::Transmit(_) => &mut self.transmit,
        }
    }
}

/// Converts a delay register value to a time; `None` for an immediate interrupt.
fn delay(value: u32) -> Option<Ps> {
    (value != 0).then(|| Ps(u64::from(value) * DELAY_UNIT_PS))
}

impl Nic {
    /// Sets interrupt causes.
    pub(super) fn set_cause(&mut self, now: Ps, bits: u32, ports: &mut dyn FunctionPorts) {
        let causes = self.regs.get(Reg::Icr) | bits & Reg::Icr.info().mask;
        self.regs.set(Reg::Icr, causes);
        self.update_irq(now, ports);
    }

    /// Reads ICR, which clears it.
    pub(super) fn read_icr(&mut self, now: Ps, ports: &mut dyn FunctionPorts) -> u32 {
        let causes = self.regs.get(Reg::Icr);
        self.regs.set(Reg::Icr, 0);
        self.update_irq(now, ports);
        causes
    }

    /// Drives the line according to ICR, IMS, ITR and the configured delay.
    pub(super) fn update_irq(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        let active = self.regs.get(Reg::Icr) & self.regs.get(Reg::Ims) != 0;
        if !active {
            self.chip.irq.line.cancel();
            if self.chip.irq.level {
                self.chip.irq.level = false;
                log!(now, Nic, Debug, "{}: interrupt line low", self.name);
                ports.set_irq(false);
            }
            return;
        }
        if self.chip.irq.level {
            return;
        }
        let interval = Ps(u64::from(self.regs.get(Reg::Itr)) * THROTTLE_UNIT_PS);
        match self.chip.irq.line.deliver(now, interval, self.config.interrupt_delay) {
            Ready::Now => {
                self.chip.irq.level = true;
                self.stats.interrupts += 1;
                let causes = self.regs.get(Reg::Icr);
                log!(now, Nic, Debug, "{}: interrupt line high, ICR = {causes:#x}", self.name);
                ports.set_irq(true);
            }
            Ready::Later => {}
            Ready::WakeAt(at) => {
                log!(now, Nic, Debug, "{}: interrupt delayed until {at}", self.name);
                wake(ports, at, Event::Chip(THROTTLE));
            }
        }
    }

    /// Called when a frame of `bytes` becomes visible to the host: raises the interrupt or starts the timers.
    pub(super) fn frame_received_interrupt(&mut self, now: Ps, bytes: u32, ports: &mut dyn FunctionPorts) {
        if bytes <= self.regs.get(Reg::Rsrpd) {
            self.set_cause(now, cause::SRPD, ports);
        }
        match delay(self.regs.get(Reg::Rdtr)) {
            None => self.set_cause(now, cause::RXT0, ports),
            Some(wait) => self.delay_interrupt(now, RECEIVE, wait, ports),
        }
    }

    /// Called when a transmit descriptor with RS is written back; `delayed` is its IDE bit.
    pub(super) fn descriptor_sent_interrupt(
        &mut self,
        now: Ps,
        delayed: bool,
        ports: &mut dyn FunctionPorts,
    ) {
        match delay(self.regs.get(Reg::Tidv)).filter(|_| delayed) {
            None => self.set_cause(now, cause::TXDW, ports),
            Some(wait) => self.delay_interrupt(now, TRANSMIT, wait, ports),
        }
    }

    /// Delays a queue's interrupt: it is raised `wait` after the last event, but no later than RADV or TADV
    /// after the first.
    fn delay_interrupt(&mut self, now: Ps, queue: Queue, wait: Ps, ports: &mut dyn FunctionPorts) {
        let absolute = match queue {
            Queue::Receive(_) => Reg::Radv,
            Queue::Transmit(_) => Reg::Tadv,
        };
        let absolute = delay(self.regs.get(absolute));
        let timers = self.chip.irq.delay_mut(queue);
        if let Some(at) = timers.relative.arm(now.saturating_add(wait)) {
            wake(ports, at, Event::Chip(DELAY[usize::from(!queue.receives())]));
        }
        let absolute = absolute.filter(|_| !timers.absolute.is_armed());
        if let Some(at) = absolute.and_then(|wait| timers.absolute.arm(now.saturating_add(wait))) {
            wake(ports, at, Event::Chip(DELAY_MAX[usize::from(!queue.receives())]));
        }
    }

    /// Handles a write to RDTR. FPD writes back gathered descriptors and raises a delayed interrupt at once.
    pub(super) fn write_rdtr(&mut self, now: Ps, value: u32, ports: &mut dyn FunctionPorts) {
        self.regs.set(Reg::Rdtr, value & Reg::Rdtr.info().mask);
        if value & rdtr::FPD != 0 {
            self.write_back(now, RECEIVE, ports);
            if self.chip.irq.receive.relative.is_armed() {
                self.on_delay_expired(now, RECEIVE, ports);
            }
        }
    }

    fn on_delay_expired(&mut self, now: Ps, queue: Queue, ports: &mut dyn FunctionPorts) {
        self.chip.irq.delay_mut(queue).cancel();
        self.flush(now, queue, ports);
        let cause = match queue {
            Queue::Receive(_) => cause::RXT0,
            Queue::Transmit(_) => cause::TXDW,
        };
        self.set_cause(now, cause, ports);
    }

    /// Handles the wake-up of a timer.
    pub(super) fn interrupt_timer(&mut self, now: Ps, number: u8, ports: &mut dyn FunctionPorts) {
        let irq = &mut self.chip.irq;
        let (timer, queue) = match number {
            THROTTLE => (&mut irq.line.timer, None),
            1 => (&mut irq.receive.relative, Some(RECEIVE)),
            2 => (&mut irq.transmit.relative, Some(TRANSMIT)),
            3 => (&mut irq.receive.absolute, Some(RECEIVE)),
            4 => (&mut irq.transmit.absolute, Some(TRANSMIT)),
            // Only from a damaged checkpoint.
            _ => return,
        };
        match (timer.wake(now), queue) {
            (Wake::Ignore, _) => {}
            (Wake::Again(at), _) => wake(ports, at, Event::Chip(number)),
            (Wake::Expired, None) => self.update_irq(now, ports),
            (Wake::Expired, Some(queue)) => self.on_delay_expired(now, queue, ports),
        }
    }
}
