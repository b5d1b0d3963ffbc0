//! PAUSE (IEEE 802.3's annex 31B): received pauses stop the transmitter if CTRL.RFCE says so, and a filling receive FIFO sends XOFF and XON if CTRL.TFCE
//! does. The FIFO is one for all queues, and so are the marks.
//!
//! Not modelled: the repetition of XOFF (FCRTV), without which a partner goes on when the time of the last XOFF is over.

use doorbell_pcie::FunctionPorts;
use doorbell_sim::{Ps, log};

use super::bits::{ctrl, fcrtl, rctl, tctl};
use super::{Chip, Controller, Event, wake};
use crate::parts::pause::{self, Heard, Mark};
use crate::parts::timer::Wake;

/// PAUSE frames that wait at most.
pub(crate) const PAUSES_KEPT: usize = 4;

impl<C: Chip> Controller<C> {
    /// The first station address.
    fn station_address(&self) -> [u8; 6] {
        pause::address(self.regs.at(C::REG.ral, 0), self.regs.at(C::REG.rah, 0))
    }

    /// Opcode and first parameter of a MAC control frame for this station; `None` for other frames.
    pub(super) fn control_frame(&self, bytes: &[u8]) -> Option<(u16, u16)> {
        let of_type = self.regs.get(C::REG.fct);
        // Every frame is examined, and few drivers enable this.
        if of_type == 0 {
            return None;
        }
        let [low, high] = [C::REG.fcal, C::REG.fcah].map(|register| self.regs.get(register));
        pause::control_frame(bytes, of_type, [pause::address(low, high), self.station_address()])
    }

    /// A MAC control frame has arrived. True if the host gets to see it (RCTL.PMCF, RCTL.DPF).
    pub(super) fn take_control_frame(
        &mut self,
        now: Ps,
        (opcode, time): (u16, u16),
        ports: &mut dyn FunctionPorts,
    ) -> bool {
        if opcode != pause::OPCODE {
            self.regs.count(C::REG.fcruc);
            return self.regs.has(C::REG.rctl, rctl::PMCF);
        }
        self.regs.count(if time == 0 { C::REG.xonrxc } else { C::REG.xoffrxc });
        if self.ctrl_has(ctrl::RFCE) {
            let span = pause::span(time, self.link_rate);
            log!(now, Nic, Debug, "{}: PAUSE received for {span}", self.name);
            match self.link.pause.hear(now, span) {
                Heard::Over => self.tx_advance(now, ports),
                Heard::Wake(at) => wake(ports, at, Event::PauseOver),
                Heard::Known => {}
            }
        }
        self.regs.has(C::REG.rctl, rctl::PMCF) && !self.regs.has(C::REG.rctl, rctl::DPF)
    }

    pub(super) fn pause_woken(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        match self.link.pause.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => wake(ports, at, Event::PauseOver),
            Wake::Expired => self.tx_advance(now, ports),
        }
    }

    /// The receive FIFO's level has changed: XOFF at the high mark, XON at the low one.
    pub(super) fn watch_fifo_level(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        if !self.ctrl_has(ctrl::TFCE) || !self.link_up() {
            return;
        }
        let [low, high] = [C::REG.fcrtl, C::REG.fcrth].map(|register| self.regs.get(register));
        let (used, sends_xon) = (self.rx.fifo.used(), low & fcrtl::XONE != 0);
        match self.link.pause.level(used, high.into(), (low & C::LOW_MARK).into()) {
            Some(Mark::High) => self.send_xoff(now, ports),
            Some(Mark::Low) if sends_xon => {
                self.regs.count(C::REG.xontxc);
                self.send_pause(now, 0, ports);
            }
            _ => {}
        }
    }

    /// TCTL.SWXOFF sends one XOFF and clears itself.
    pub(super) fn software_xoff(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        let tctl = self.regs.get(C::REG.tctl);
        if tctl & tctl::SWXOFF != 0 {
            self.regs.set(C::REG.tctl, tctl & !tctl::SWXOFF);
            self.send_xoff(now, ports);
        }
    }

    pub(super) fn send_xoff(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        self.regs.count(C::REG.xofftxc);
        self.send_pause(now, self.regs.get(C::REG.fcttv) as u16, ports);
    }

    /// A PAUSE frame goes before all others. Without a link few are kept.
    pub(super) fn send_pause(&mut self, now: Ps, time: u16, ports: &mut dyn FunctionPorts) {
        let of_type = self.regs.get(C::REG.fct) as u16;
        let frame = pause::frame(self.station_address(), of_type, time);
        if self.tx.pauses.len() < PAUSES_KEPT {
            self.tx.pauses.push_back(frame);
        }
        self.tx_advance(now, ports);
    }
}
