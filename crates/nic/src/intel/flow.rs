//! PAUSE flow control (IEEE 802.3, annex 31B). With CTRL.RFCE, a received pause stops the transmitter. With
//! CTRL.TFCE, the fill level of the receive FIFO triggers XOFF and XON. All queues share the FIFO and its
//! watermarks.
//!
//! Not modelled: the repetition of XOFF (FCRTV). The partner therefore resumes when the pause time of the
//! last XOFF expires.

use doorbell_pcie::FunctionPorts;
use doorbell_sim::{Ps, log};

use super::bits::{ctrl, fcrtl, rctl, tctl};
use super::{Chip, Controller, Event, wake};
use crate::parts::pause::{self, PauseEffect, Watermark};
use crate::parts::timer::Wake;

/// Maximum number of PAUSE frames waiting to be sent.
pub(crate) const PAUSE_QUEUE_MAX: usize = 4;

impl<C: Chip> Controller<C> {
    /// The first station address.
    fn station_address(&self) -> [u8; 6] {
        pause::address(self.regs.at(C::REG.ral, 0), self.regs.at(C::REG.rah, 0))
    }

    /// Opcode and first parameter of a MAC control frame for this station; `None` for other frames.
    pub(super) fn control_frame(&self, bytes: &[u8]) -> Option<(u16, u16)> {
        let of_type = self.regs.get(C::REG.fct);
        // Fast path, taken for every frame: few drivers enable control frames.
        if of_type == 0 {
            return None;
        }
        let [low, high] = [C::REG.fcal, C::REG.fcah].map(|register| self.regs.get(register));
        pause::control_frame(bytes, of_type, [pause::address(low, high), self.station_address()])
    }

    /// Handles a received MAC control frame. Returns true if it is also passed to the host (RCTL.PMCF,
    /// RCTL.DPF).
    pub(super) fn receive_control_frame(
        &mut self,
        now: Ps,
        opcode: u16,
        time: u16,
        ports: &mut dyn FunctionPorts,
    ) -> bool {
        if opcode != pause::OPCODE {
            self.regs.count(C::REG.fcruc);
            return self.regs.has(C::REG.rctl, rctl::PMCF);
        }
        self.regs.count(if time == 0 { C::REG.xonrxc } else { C::REG.xoffrxc });
        if self.ctrl_has(ctrl::RFCE) {
            let duration = pause::duration(time, self.link_rate);
            log!(now, Nic, Debug, "{}: PAUSE received for {duration}", self.name);
            match self.link.pause.receive(now, duration) {
                PauseEffect::Resume => self.tx_advance(now, ports),
                PauseEffect::WakeAt(at) => wake(ports, at, Event::PauseOver),
                PauseEffect::WakePending => {}
            }
        }
        self.regs.has(C::REG.rctl, rctl::PMCF) && !self.regs.has(C::REG.rctl, rctl::DPF)
    }

    pub(super) fn on_pause_wake(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        match self.link.pause.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => wake(ports, at, Event::PauseOver),
            Wake::Expired => self.tx_advance(now, ports),
        }
    }

    /// Called when the receive FIFO's level changes: sends XOFF at the high watermark, XON at the low one.
    pub(super) fn watch_fifo_level(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        if !self.ctrl_has(ctrl::TFCE) || !self.link_up() {
            return;
        }
        let [low, high] = [C::REG.fcrtl, C::REG.fcrth].map(|register| self.regs.get(register));
        let (used, sends_xon) = (self.rx.fifo.used(), low & fcrtl::XONE != 0);
        match self.link.pause.level(used, high.into(), (low & C::LOW_MARK).into()) {
            Some(Watermark::High) => self.send_xoff(now, ports),
            Some(Watermark::Low) if sends_xon => {
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

    /// Queues a PAUSE frame, which precedes all other frames. The queue is bounded: while the link is down,
    /// it does not drain.
    pub(super) fn send_pause(&mut self, now: Ps, time: u16, ports: &mut dyn FunctionPorts) {
        let of_type = self.regs.get(C::REG.fct) as u16;
        let frame = pause::frame(self.station_address(), of_type, time);
        if self.tx.outlet.pauses.len() < PAUSE_QUEUE_MAX {
            self.tx.outlet.pauses.push_back(frame);
        }
        self.tx_advance(now, ports);
    }
}
