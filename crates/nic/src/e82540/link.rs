//! The link: up or down as the PHY and CTRL.SLU say, speed and duplex as told (§13.4.1, §13.4.2), loopback (RCTL.LBM and the
//! PHY's), and PAUSE (§8.7 and IEEE 802.3 annex 31B): received pauses stop the transmitter if
//! CTRL.RFCE says so, and a filling FIFO sends XOFF and XON if CTRL.TFCE does.
//! While the cable is out there is nobody to negotiate with and the link stays down.

use doorbell_sim::{Ps, log};
use serde::{Deserialize, Serialize};

use crate::e82540::bits::{cause, ctrl, fcrtl, rctl, status, tctl};
use crate::e82540::regs::Reg;
use crate::e82540::{Event, Nic, NicPorts};
use crate::parts::pause::{self, Heard, Mark, Pause};
use crate::parts::timer::{Timer, Wake};

/// What happens to the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkChange {
    Up,
    Down,
    /// The PHY did not change, but what software sees of it may have.
    Look,
}

/// The link as the MAC sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkStatus {
    /// Autonegotiation.
    timer: Timer,
    /// STATUS.LU, to notice its change.
    up: bool,
    pause: Pause,
    /// There is nobody to negotiate with.
    unplugged: bool,
}

impl LinkStatus {
    /// A device reset; the PHY goes on, and with it autonegotiation.
    pub fn reset(&mut self) {
        self.up = false;
        self.pause.reset();
    }
}

impl Nic {
    /// STATUS.
    pub(crate) fn read_status(&self) -> u32 {
        let up = if self.link.up { status::LU } else { 0 };
        let paused = if self.link.pause.holds() { status::TXOFF } else { 0 };
        let mode = self.phy.mode();
        let ctrl = self.regs.get(Reg::Ctrl);
        // Software may force the MAC's idea of speed and duplex; otherwise the PHY says.
        let speed = if ctrl & ctrl::FRCSPD != 0 { ctrl >> ctrl::SPEED_SHIFT & 3 } else { mode.speed.into() };
        let full = if ctrl & ctrl::FRCDPLX != 0 { ctrl & ctrl::FD != 0 } else { mode.full_duplex };
        let duplex = if full { status::FD } else { 0 };
        duplex | speed << status::SPEED_SHIFT | u32::from(mode.speed) << status::ASDV_SHIFT | up | paused
    }

    pub(crate) fn link_up(&self) -> bool {
        self.link.up
    }

    /// Whether what is sent comes back.
    pub(crate) fn loops_back(&self) -> bool {
        self.phy.loopback() || self.regs.has(Reg::Rctl, rctl::LBM)
    }

    /// Whether frames (but PAUSE frames) may leave now.
    pub(crate) fn may_send(&self) -> bool {
        let on = self.regs.has(Reg::Tctl, tctl::EN);
        on && (self.loops_back() || self.link.up && !self.link.pause.holds())
    }

    /// CTRL is written. RST wins over everything else.
    pub(crate) fn write_ctrl(&mut self, now: Ps, value: u32, ports: &mut impl NicPorts) {
        if value & ctrl::RST != 0 {
            return self.reset(now, ports);
        }
        let before = self.regs.get(Reg::Ctrl);
        self.regs.set(Reg::Ctrl, value & Reg::Ctrl.info().mask);
        if (before ^ value) & ctrl::PHY_RST != 0 {
            self.phy.hardware_reset();
            self.restart_link(now, ports);
        } else {
            self.change_link(now, LinkChange::Look, ports);
        }
    }

    /// The link goes down and autonegotiation starts.
    pub(crate) fn restart_link(&mut self, now: Ps, ports: &mut impl NicPorts) {
        self.change_link(now, LinkChange::Down, ports);
        if let Some(at) = self.link.timer.arm(now.saturating_add(self.config.autonegotiation)) {
            ports.wake_at(at, Event::Link);
        }
    }

    /// Somebody pulls the cable, or puts it back: then autonegotiation starts.
    pub fn set_cable(&mut self, now: Ps, plugged: bool, ports: &mut impl NicPorts) {
        if self.link.unplugged == plugged {
            self.link.unplugged = !plugged;
            self.restart_link(now, ports);
        }
    }

    pub(crate) fn link_woken(&mut self, now: Ps, ports: &mut impl NicPorts) {
        match self.link.timer.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => ports.wake_at(at, Event::Link),
            Wake::Expired => {
                let held =
                    self.link.unplugged || self.regs.has(Reg::Ctrl, ctrl::PHY_RST) || self.phy.powered_down();
                if !held {
                    self.change_link(now, LinkChange::Up, ports);
                }
            }
        }
    }

    /// The link changes, and software learns of it if STATUS.LU does.
    pub(crate) fn change_link(&mut self, now: Ps, change: LinkChange, ports: &mut impl NicPorts) {
        match change {
            LinkChange::Up => self.phy.set_link(true),
            LinkChange::Down => {
                self.phy.set_link(false);
                self.link.timer.cancel();
            }
            LinkChange::Look => {}
        }
        let up = self.phy.link() && self.regs.has(Reg::Ctrl, ctrl::SLU);
        if up != self.link.up {
            self.link.up = up;
            log!(now, Nic, Info, "{}: link {}", self.name, if up { "up" } else { "down" });
            self.set_cause(now, cause::LSC, ports);
        }
        self.tx_advance(now, ports);
    }

    /// Whether a frame is a MAC control frame for this station, and its opcode and first parameter.
    pub(crate) fn control_frame(&self, bytes: &[u8]) -> Option<(u16, u16)> {
        let own = pause::address(self.regs.get(Reg::Fcal), self.regs.get(Reg::Fcah));
        pause::control_frame(bytes, self.regs.get(Reg::Fct), [own, self.station_address()])
    }

    /// A MAC control frame has arrived. True if the host gets to see it (RCTL.PMCF, RCTL.DPF; §8.7.4).
    pub(crate) fn take_control_frame(
        &mut self,
        now: Ps,
        (opcode, time): (u16, u16),
        ports: &mut impl NicPorts,
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
                Heard::Wake(at) => ports.wake_at(at, Event::PauseOver),
                Heard::Known => {}
            }
        }
        self.regs.has(Reg::Rctl, rctl::PMCF) && !self.regs.has(Reg::Rctl, rctl::DPF)
    }

    pub(crate) fn pause_woken(&mut self, now: Ps, ports: &mut impl NicPorts) {
        match self.link.pause.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => ports.wake_at(at, Event::PauseOver),
            Wake::Expired => self.tx_advance(now, ports),
        }
    }

    /// The receive FIFO's level has changed: XOFF at the high mark, XON below the low one.
    pub(crate) fn watch_fifo_level(&mut self, now: Ps, ports: &mut impl NicPorts) {
        if !self.regs.has(Reg::Ctrl, ctrl::TFCE) || !self.link.up {
            return;
        }
        let high = u64::from(self.regs.get(Reg::Fcrth));
        let low = u64::from(self.regs.get(Reg::Fcrtl) & 0xfff8);
        match self.link.pause.level(self.rx.fifo.used(), high, low) {
            Some(Mark::High) => self.send_xoff(now, ports),
            Some(Mark::Low) if self.regs.has(Reg::Fcrtl, fcrtl::XONE) => {
                self.regs.count(Reg::Xontxc);
                self.send_pause(now, 0, ports);
            }
            _ => {}
        }
    }

    /// TCTL.SWXOFF (§13.4.33) sends one XOFF and clears itself.
    pub(crate) fn software_xoff(&mut self, now: Ps, ports: &mut impl NicPorts) {
        let tctl = self.regs.get(Reg::Tctl);
        if tctl & tctl::SWXOFF != 0 {
            self.regs.set(Reg::Tctl, tctl & !tctl::SWXOFF);
            self.send_xoff(now, ports);
        }
    }

    fn send_xoff(&mut self, now: Ps, ports: &mut impl NicPorts) {
        self.regs.count(Reg::Xofftxc);
        self.send_pause(now, self.regs.get(Reg::Fcttv) as u16, ports);
    }

    fn send_pause(&mut self, now: Ps, time: u16, ports: &mut impl NicPorts) {
        let frame = pause::frame(self.station_address(), self.regs.get(Reg::Fct) as u16, time);
        self.tx_queue_pause(frame);
        self.tx_advance(now, ports);
    }

    /// The first station address.
    pub(crate) fn station_address(&self) -> [u8; 6] {
        pause::address(self.regs.at(Reg::Ral, 0), self.regs.at(Reg::Rah, 0))
    }
}
