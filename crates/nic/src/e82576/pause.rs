//! PAUSE (§3.5.5 and §8.5; IEEE 802.3's annex 31B): received pauses stop the transmitter if CTRL.RFCE says so, and a filling packet
//! buffer sends XOFF and XON if CTRL.TFCE does. The packet buffer is one for all queues, and so are the marks.
//!
//! Not modelled: the repetition of XOFF (FCRTV), without which a partner goes on when the time of the last XOFF is over.

use doorbell_sim::{Ps, log};

use super::bits::{ctrl, fcrtl, rctl, tctl};
use super::regs::Reg;
use super::{Event, Igb, IgbPorts};
use crate::parts::pause::{self, Heard, Mark};
use crate::parts::timer::Wake;

impl Igb {
    /// Whether a frame is a MAC control frame for this station, and its opcode and first parameter.
    pub(super) fn control_frame(&self, bytes: &[u8]) -> Option<(u16, u16)> {
        let of_type = self.regs.get(Reg::Fct);
        if of_type == 0 {
            return None;
        }
        let own = pause::address(self.regs.get(Reg::Fcal), self.regs.get(Reg::Fcah));
        pause::control_frame(bytes, of_type, [own, self.station_address()])
    }

    /// A MAC control frame has arrived. True if the host gets to see it (RCTL.PMCF, RCTL.DPF).
    pub(super) fn take_control_frame(
        &mut self,
        now: Ps,
        (opcode, time): (u16, u16),
        ports: &mut impl IgbPorts,
    ) -> bool {
        if opcode != pause::OPCODE {
            self.regs.count(Reg::Fcruc);
            return self.regs.has(Reg::Rctl, rctl::PMCF);
        }
        self.regs.count(if time == 0 { Reg::Xonrxc } else { Reg::Xoffrxc });
        if self.regs.has(Reg::Ctrl, ctrl::RFCE) {
            let span = pause::span(time, self.link_rate);
            log!(now, Nic, Debug, "{}: PAUSE received for {span}", self.name);
            match self.link.pause.hear(now, span) {
                Heard::Over => self.tx_advance(now, ports),
                Heard::Wake(at) => ports.wake(at, Event::PauseOver),
                Heard::Known => {}
            }
        }
        self.regs.has(Reg::Rctl, rctl::PMCF) && !self.regs.has(Reg::Rctl, rctl::DPF)
    }

    pub(super) fn pause_woken(&mut self, now: Ps, ports: &mut impl IgbPorts) {
        match self.link.pause.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => ports.wake(at, Event::PauseOver),
            Wake::Expired => self.tx_advance(now, ports),
        }
    }

    /// The packet buffer's level has changed: XOFF at the high mark, XON at the low one.
    pub(super) fn watch_fifo_level(&mut self, now: Ps, ports: &mut impl IgbPorts) {
        if !self.regs.has(Reg::Ctrl, ctrl::TFCE) || !self.link_up() {
            return;
        }
        let high = u64::from(self.regs.get(Reg::Fcrth));
        let low = u64::from(self.regs.get(Reg::Fcrtl) & fcrtl::RTL);
        match self.link.pause.level(self.rx.fifo.used(), high, low) {
            Some(Mark::High) => self.send_xoff(now, ports),
            Some(Mark::Low) if self.regs.has(Reg::Fcrtl, fcrtl::XONE) => {
                self.regs.count(Reg::Xontxc);
                self.send_pause(now, 0, ports);
            }
            _ => {}
        }
    }

    /// TCTL.SWXOFF sends one XOFF and clears itself.
    pub(super) fn software_xoff(&mut self, now: Ps, ports: &mut impl IgbPorts) {
        let tctl = self.regs.get(Reg::Tctl);
        if tctl & tctl::SWXOFF != 0 {
            self.regs.set(Reg::Tctl, tctl & !tctl::SWXOFF);
            self.send_xoff(now, ports);
        }
    }

    fn send_xoff(&mut self, now: Ps, ports: &mut impl IgbPorts) {
        self.regs.count(Reg::Xofftxc);
        self.send_pause(now, self.regs.get(Reg::Fcttv) as u16, ports);
    }

    fn send_pause(&mut self, now: Ps, time: u16, ports: &mut impl IgbPorts) {
        let frame = pause::frame(self.station_address(), self.regs.get(Reg::Fct) as u16, time);
        self.tx_queue_pause(frame);
        self.tx_advance(now, ports);
    }

    /// The first station address.
    fn station_address(&self) -> [u8; 6] {
        pause::address(self.regs.at(Reg::Ral, 0), self.regs.at(Reg::Rah, 0))
    }
}
