//! Interrupts (§13.4.17 to §13.4.21) and their moderation: the throttle ITR (§13.4.18), the receive
//! timers RDTR, RADV and RSRPD (§13.4.30 to §13.4.32), the transmit timers TIDV and TADV (§13.4.41,
//! §13.4.44). The line is high while ICR & IMS is not zero; ITR only delays its next rise.

use doorbell_sim::{Ps, log};
use serde::{Deserialize, Serialize};

use crate::bits::{cause, rdtr};
use crate::regs::Reg;
use crate::timer::{Timer, Wake};
use crate::{Event, Nic, NicPorts};

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
    throttle: Timer,
    rx_delay: Timer,
    rx_absolute: Timer,
    tx_delay: Timer,
    tx_absolute: Timer,
}

impl Interrupts {
    /// Everything is quiet. The line itself is driven low by the next [`Nic::update_irq`].
    pub fn reset(&mut self) {
        self.last_rise = None;
        for timer in [
            &mut self.throttle,
            &mut self.rx_delay,
            &mut self.rx_absolute,
            &mut self.tx_delay,
            &mut self.tx_absolute,
        ] {
            timer.cancel();
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

    /// Drives the line as ICR, IMS and ITR say.
    pub(crate) fn update_irq(&mut self, now: Ps, ports: &mut impl NicPorts) {
        let wanted = self.regs.get(Reg::Icr) & self.regs.get(Reg::Ims) != 0;
        if !wanted {
            self.irq.throttle.cancel();
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
        if now >= ready {
            self.irq.throttle.cancel();
            self.irq.level = true;
            self.irq.last_rise = Some(now);
            self.stats.interrupts += 1;
            let causes = self.regs.get(Reg::Icr);
            log!(now, Nic, Debug, "{}: interrupt line high, ICR = {causes:#x}", self.name);
            ports.set_irq(true);
        } else if let Some(at) = self.irq.throttle.arm(ready) {
            log!(now, Nic, Debug, "{}: interrupt held back by ITR until {ready}", self.name);
            ports.wake_at(at, Event::Throttle);
        }
    }

    /// A frame of `bytes` is visible to the host: interrupt now, or start the timers.
    pub(crate) fn frame_received_interrupt(&mut self, now: Ps, bytes: u32, ports: &mut impl NicPorts) {
        if bytes <= self.regs.get(Reg::Rsrpd) {
            self.set_cause(now, cause::SRPD, ports);
        }
        let Some(wait) = delay(self.regs.get(Reg::Rdtr)) else {
            return self.set_cause(now, cause::RXT0, ports);
        };
        if let Some(at) = self.irq.rx_delay.arm(now.saturating_add(wait)) {
            ports.wake_at(at, Event::RxDelay);
        }
        let absolute = delay(self.regs.get(Reg::Radv)).filter(|_| !self.irq.rx_absolute.is_armed());
        if let Some(at) = absolute.and_then(|wait| self.irq.rx_absolute.arm(now.saturating_add(wait))) {
            ports.wake_at(at, Event::RxAbsolute);
        }
    }

    /// A transmit descriptor with RS is written back; `delayed` is its IDE bit.
    pub(crate) fn descriptor_sent_interrupt(&mut self, now: Ps, delayed: bool, ports: &mut impl NicPorts) {
        let Some(wait) = delay(self.regs.get(Reg::Tidv)).filter(|_| delayed) else {
            return self.set_cause(now, cause::TXDW, ports);
        };
        if let Some(at) = self.irq.tx_delay.arm(now.saturating_add(wait)) {
            ports.wake_at(at, Event::TxDelay);
        }
        let absolute = delay(self.regs.get(Reg::Tadv)).filter(|_| !self.irq.tx_absolute.is_armed());
        if let Some(at) = absolute.and_then(|wait| self.irq.tx_absolute.arm(now.saturating_add(wait))) {
            ports.wake_at(at, Event::TxAbsolute);
        }
    }

    /// RDTR is written. FPD flushes what waits for write-back, and the interrupt with it.
    pub(crate) fn write_rdtr(&mut self, now: Ps, value: u32, ports: &mut impl NicPorts) {
        self.regs.set(Reg::Rdtr, value & Reg::Rdtr.info().mask);
        if value & rdtr::FPD != 0 {
            self.rx_flush(now, ports);
            if self.irq.rx_delay.is_armed() {
                self.rx_timers_expired(now, ports);
            }
        }
    }

    fn rx_timers_expired(&mut self, now: Ps, ports: &mut impl NicPorts) {
        self.irq.rx_delay.cancel();
        self.irq.rx_absolute.cancel();
        self.rx_flush(now, ports);
        self.set_cause(now, cause::RXT0, ports);
    }

    fn tx_timers_expired(&mut self, now: Ps, ports: &mut impl NicPorts) {
        self.irq.tx_delay.cancel();
        self.irq.tx_absolute.cancel();
        self.tx_flush(now, ports);
        self.set_cause(now, cause::TXDW, ports);
    }

    /// One of this file's wake-ups.
    pub(crate) fn interrupt_timer_woken(&mut self, now: Ps, event: Event, ports: &mut impl NicPorts) {
        let timer = match event {
            Event::Throttle => &mut self.irq.throttle,
            Event::RxDelay => &mut self.irq.rx_delay,
            Event::RxAbsolute => &mut self.irq.rx_absolute,
            Event::TxDelay => &mut self.irq.tx_delay,
            _ => &mut self.irq.tx_absolute,
        };
        match timer.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => ports.wake_at(at, event),
            Wake::Expired => match event {
                Event::Throttle => self.update_irq(now, ports),
                Event::RxDelay | Event::RxAbsolute => self.rx_timers_expired(now, ports),
                _ => self.tx_timers_expired(now, ports),
            },
        }
    }
}
