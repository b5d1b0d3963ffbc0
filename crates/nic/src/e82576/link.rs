//! The link: up or down as the PHY and CTRL.SLU say, speed and duplex as told (§8.2), and loopback (RCTL.LBM and the PHY's). Speed is what
//! software is told, no more: frames go at the link's configured rate. While the cable is out there is nobody to negotiate with
//! and the link stays down. What PAUSE does is in [`pause`](super::pause).

use doorbell_sim::{Ps, log};
use serde::{Deserialize, Serialize};

use super::bits::{cause, ctrl, rctl, status, tctl};
use super::regs::Reg;
use super::{Event, Igb, IgbPorts};
use crate::parts::pause::Pause;
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
    pub pause: Pause,
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

impl Igb {
    /// STATUS. A function that software has told to start no more requests has none pending.
    pub(super) fn read_status(&self) -> u32 {
        let ctrl = self.regs.get(Reg::Ctrl);
        let up = if self.link.up { status::LU } else { 0 };
        let master = if ctrl & ctrl::GIO_MASTER_DISABLE == 0 { status::GIO_MASTER_ENABLE } else { 0 };
        let mode = self.phy.mode();
        // Software may force the MAC's idea of speed and duplex; otherwise the PHY says.
        let speed = if ctrl & ctrl::FRCSPD != 0 { ctrl >> ctrl::SPEED_SHIFT & 3 } else { mode.speed.into() };
        let full = if ctrl & ctrl::FRCDPLX != 0 { ctrl & ctrl::FD != 0 } else { mode.full_duplex };
        let duplex = if full { status::FD } else { 0 };
        let paused = if self.link.pause.holds() { status::TXOFF } else { 0 };
        let detected = u32::from(mode.speed) << status::ASDV_SHIFT;
        duplex | speed << status::SPEED_SHIFT | detected | up | paused | master
    }

    pub(super) fn link_up(&self) -> bool {
        self.link.up
    }

    /// Whether what is sent comes back.
    pub(super) fn loops_back(&self) -> bool {
        self.phy.loopback() || self.regs.has(Reg::Rctl, rctl::LBM)
    }

    /// Whether frames but those of PAUSE may leave now.
    pub(super) fn may_send(&self) -> bool {
        self.regs.has(Reg::Tctl, tctl::EN) && (self.loops_back() || self.link.up && !self.link.pause.holds())
    }

    /// CTRL is written. RST wins over everything else.
    pub(super) fn write_ctrl(&mut self, now: Ps, value: u32, ports: &mut impl IgbPorts) {
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
    pub(super) fn restart_link(&mut self, now: Ps, ports: &mut impl IgbPorts) {
        self.change_link(now, LinkChange::Down, ports);
        if let Some(at) = self.link.timer.arm(now.saturating_add(self.config.autonegotiation)) {
            ports.wake(at, Event::Link);
        }
    }

    /// Somebody pulls the cable, or puts it back: then autonegotiation starts.
    pub fn set_cable(&mut self, now: Ps, plugged: bool, ports: &mut impl IgbPorts) {
        if self.link.unplugged == plugged {
            self.link.unplugged = !plugged;
            self.restart_link(now, ports);
        }
    }

    pub(super) fn link_woken(&mut self, now: Ps, ports: &mut impl IgbPorts) {
        match self.link.timer.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => ports.wake(at, Event::Link),
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
    pub(super) fn change_link(&mut self, now: Ps, change: LinkChange, ports: &mut impl IgbPorts) {
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
}
