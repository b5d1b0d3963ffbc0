//! PAUSE (IEEE 802.3's annex 31B): received pauses stop the transmitter if CTRL.RFCE says so, and a filling receive FIFO sends XOFF and XON if CTRL.TFCE
//! does. The FIFO is one for all queues, and so are the marks.
//!
//! Not modelled: the repetition of XOFF (FCRTV), without which a partner goes on when the time of the last XOFF is over.

use doorbell_sim::{Ps, log};

use super::bits::{ctrl, fcrtl, rctl, tctl};
use super::link::LinkView as _;
use super::{MacWork, WayOut};
use crate::NicPorts;
use crate::parts::pause::{self, Heard, Mark};
use crate::parts::requests::Wakeup;
use crate::parts::timer::Wake;

/// PAUSE frames that wait at most.
pub(crate) const PAUSES_KEPT: usize = 4;

/// What PAUSE does.
pub(crate) trait FlowWork<P: NicPorts>: MacWork<P> {
    /// A MAC control frame has arrived. True if the host gets to see it (RCTL.PMCF, RCTL.DPF).
    fn take_control_frame(&mut self, now: Ps, (opcode, time): (u16, u16), ports: &mut P) -> bool {
        let [xon, xoff, unknown] = Self::MAC.heard;
        if opcode != pause::OPCODE {
            self.registers().count(unknown);
            return self.regs().has(Self::MAC.receive, rctl::PMCF);
        }
        self.registers().count(if time == 0 { xon } else { xoff });
        if self.control_has(ctrl::RFCE) {
            let span = pause::span(time, self.link_rate());
            log!(now, Nic, Debug, "{}: PAUSE received for {span}", self.called());
            match self.link_mut().pause.hear(now, span) {
                Heard::Over => self.advance_direction(now, false, ports),
                Heard::Wake(at) => Self::wake(ports, at, Wakeup::PauseOver),
                Heard::Known => {}
            }
        }
        self.regs().has(Self::MAC.receive, rctl::PMCF) && !self.regs().has(Self::MAC.receive, rctl::DPF)
    }

    fn pause_woken(&mut self, now: Ps, ports: &mut P) {
        match self.link_mut().pause.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => Self::wake(ports, at, Wakeup::PauseOver),
            Wake::Expired => self.advance_direction(now, false, ports),
        }
    }

    /// The receive FIFO's level has changed: XOFF at the high mark, XON at the low one.
    fn watch_fifo_level(&mut self, now: Ps, ports: &mut P) {
        if !self.control_has(ctrl::TFCE) || !self.link_up() {
            return;
        }
        let [low, high] = Self::MAC.marks.map(|register| self.regs().get(register));
        let (used, sends_xon) = (self.received(), low & fcrtl::XONE != 0);
        match self.link_mut().pause.level(used, high.into(), (low & Self::MAC.low_mark).into()) {
            Some(Mark::High) => self.send_xoff(now, ports),
            Some(Mark::Low) if sends_xon => {
                self.registers().count(Self::MAC.sent[0]);
                self.send_pause(now, 0, ports);
            }
            _ => {}
        }
    }

    /// TCTL.SWXOFF sends one XOFF and clears itself.
    fn software_xoff(&mut self, now: Ps, ports: &mut P) {
        let tctl = self.regs().get(Self::MAC.transmit);
        if tctl & tctl::SWXOFF != 0 {
            self.registers().set(Self::MAC.transmit, tctl & !tctl::SWXOFF);
            self.send_xoff(now, ports);
        }
    }

    fn send_xoff(&mut self, now: Ps, ports: &mut P) {
        self.registers().count(Self::MAC.sent[1]);
        self.send_pause(now, self.regs().get(Self::MAC.pause_time) as u16, ports);
    }

    /// A PAUSE frame goes before all others. Without a link few are kept.
    fn send_pause(&mut self, now: Ps, time: u16, ports: &mut P) {
        let of_type = self.regs().get(Self::MAC.control_type) as u16;
        let frame = pause::frame(self.station_address(), of_type, time);
        let WayOut { pauses, .. } = self.way_out();
        if pauses.len() < PAUSES_KEPT {
            pauses.push_back(frame);
        }
        self.advance_direction(now, false, ports);
    }
}

impl<P: NicPorts, C: MacWork<P> + ?Sized> FlowWork<P> for C {}
