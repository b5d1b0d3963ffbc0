//! The link: up or down as the PHY and CTRL.SLU say, speed and duplex as told, and loopback (RCTL.LBM and the PHY's). Speed is what software is told, no
//! more: frames go at the link's configured rate. While the cable is out there is nobody to negotiate with and the link stays down.

use doorbell_pcie::FunctionPorts;
use doorbell_sim::{Ps, log};
use serde::{Deserialize, Serialize};

use super::bits::{cause, ctrl, rctl, status, tctl};
use super::{Chip, Controller, Event, wake};
use crate::parts::pause::Pause;
use crate::parts::phy::ManagedPhy as _;
use crate::parts::registers::RegisterId as _;
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

impl<C: Chip> Controller<C> {
    /// STATUS, as far as it is the link's.
    pub(super) fn link_status(&self) -> u32 {
        let up = if self.link_up() { status::LU } else { 0 };
        let paused = if self.link.pause.holds() { status::TXOFF } else { 0 };
        let mode = self.phy.inner().mode();
        let ctrl = self.regs.get(C::REG.ctrl);
        // Software may force the MAC's idea of speed and duplex; otherwise the PHY says.
        let speed = if ctrl & ctrl::FRCSPD != 0 { ctrl >> ctrl::SPEED_SHIFT & 3 } else { mode.speed.into() };
        let full = if ctrl & ctrl::FRCDPLX != 0 { ctrl & ctrl::FD != 0 } else { mode.full_duplex };
        let duplex = if full { status::FD } else { 0 };
        duplex | speed << status::SPEED_SHIFT | u32::from(mode.speed) << status::ASDV_SHIFT | up | paused
    }

    /// Whether bits of CTRL are set.
    pub(super) fn ctrl_has(&self, bits: u32) -> bool {
        self.regs.get(C::REG.ctrl) & bits != 0
    }

    pub(super) fn link_up(&self) -> bool {
        self.link.up
    }

    /// Whether what is sent comes back.
    pub(super) fn loops_back(&self) -> bool {
        self.phy.inner().loopback() || self.regs.has(C::REG.rctl, rctl::LBM)
    }

    /// Whether frames but those of PAUSE may leave now.
    pub(super) fn may_send(&self) -> bool {
        let on = self.regs.has(C::REG.tctl, tctl::EN);
        on && (self.loops_back() || self.link_up() && !self.link.pause.holds())
    }
}

impl<C: Chip> Controller<C> {
    /// CTRL is written. RST wins over everything else.
    pub(super) fn write_ctrl(&mut self, now: Ps, value: u32, ports: &mut dyn FunctionPorts) {
        if value & ctrl::RST != 0 {
            return self.device_reset(now, ports);
        }
        let before = self.regs.get(C::REG.ctrl);
        self.regs.set(C::REG.ctrl, value & C::REG.ctrl.mask());
        if (before ^ value) & ctrl::PHY_RST != 0 {
            self.phy.hardware_reset();
            self.restart_link(now, ports);
        } else {
            self.change_link(now, LinkChange::Look, ports);
        }
    }

    /// The link goes down and autonegotiation starts.
    pub(super) fn restart_link(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        self.change_link(now, LinkChange::Down, ports);
        let negotiated = now.saturating_add(self.config.autonegotiation);
        if let Some(at) = self.link.timer.arm(negotiated) {
            wake(ports, at, Event::Link);
        }
    }

    /// The cable is unplugged or plugged in: then autonegotiation starts.
    pub(super) fn plug_cable(&mut self, now: Ps, plugged: bool, ports: &mut dyn FunctionPorts) {
        if self.link.unplugged == plugged {
            self.link.unplugged = !plugged;
            self.restart_link(now, ports);
        }
    }

    pub(super) fn link_woken(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        match self.link.timer.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => wake(ports, at, Event::Link),
            Wake::Expired => {
                let held =
                    self.link.unplugged || self.ctrl_has(ctrl::PHY_RST) || self.phy.inner().powered_down();
                if !held {
                    self.change_link(now, LinkChange::Up, ports);
                }
            }
        }
    }

    /// The link changes, and software learns of it if STATUS.LU does.
    pub(super) fn change_link(&mut self, now: Ps, change: LinkChange, ports: &mut dyn FunctionPorts) {
        match change {
            LinkChange::Up => self.phy.inner_mut().set_link(true),
            LinkChange::Down => {
                self.phy.inner_mut().set_link(false);
                self.link.timer.cancel();
            }
            LinkChange::Look => {}
        }
        let up = self.phy.inner().link() && self.ctrl_has(ctrl::SLU);
        if up != self.link_up() {
            self.link.up = up;
            log!(now, Nic, Info, "{}: link {}", self.name, if up { "up" } else { "down" });
            C::raise_cause(self, now, cause::LSC, ports);
        }
        self.tx_advance(now, ports);
    }
}
