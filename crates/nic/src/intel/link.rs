//! Link state (PHY and CTRL.SLU), reported speed and duplex, and loopback (RCTL.LBM or PHY loopback). The
//! negotiated or forced speed is only reported to software; frames use the link's configured rate. With the
//! cable unplugged, autonegotiation finds no partner and the link stays down.

use doorbell_pcie::FunctionPorts;
use doorbell_sim::{Ps, log};
use serde::{Deserialize, Serialize};

use super::bits::{cause, ctrl, rctl, status, tctl};
use super::{Chip, Controller, Event, wake};
use crate::parts::pause::Pause;
use crate::parts::phy::ManagedPhy as _;
use crate::parts::registers::RegisterId as _;
use crate::parts::timer::{Timer, Wake};

/// A change of the link state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkChange {
    Up,
    Down,
    /// The PHY did not change, but CTRL may have: re-evaluate STATUS.LU.
    Recheck,
}

/// Link state of the MAC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkStatus {
    /// End of autonegotiation.
    timer: Timer,
    /// Previous STATUS.LU, to detect changes.
    up: bool,
    pub pause: Pause,
    /// The cable is unplugged.
    unplugged: bool,
}

impl LinkStatus {
    /// Device reset. The PHY continues, including a running autonegotiation.
    pub fn reset(&mut self) {
        self.up = false;
        self.pause.reset();
    }
}

impl<C: Chip> Controller<C> {
    /// Returns the link bits of STATUS.
    pub(super) fn link_status(&self) -> u32 {
        let up = if self.link_up() { status::LU } else { 0 };
        let paused = if self.link.pause.is_paused() { status::TXOFF } else { 0 };
        let mode = self.phy.inner().mode();
        let ctrl = self.regs.get(C::REG.ctrl);
        // Software may force the MAC's speed and duplex; otherwise they come from the PHY.
        let speed = if ctrl & ctrl::FRCSPD != 0 { ctrl >> ctrl::SPEED_SHIFT & 3 } else { mode.speed.into() };
        let full = if ctrl & ctrl::FRCDPLX != 0 { ctrl & ctrl::FD != 0 } else { mode.full_duplex };
        let duplex = if full { status::FD } else { 0 };
        duplex | speed << status::SPEED_SHIFT | u32::from(mode.speed) << status::ASDV_SHIFT | up | paused
    }

    /// Whether any of these bits of CTRL is set.
    pub(super) fn ctrl_has(&self, bits: u32) -> bool {
        self.regs.get(C::REG.ctrl) & bits != 0
    }

    pub(super) fn link_up(&self) -> bool {
        self.link.up
    }

    /// Whether the MAC or the PHY is in loopback.
    pub(super) fn loops_back(&self) -> bool {
        self.phy.inner().loopback() || self.regs.has(C::REG.rctl, rctl::LBM)
    }

    /// Whether frames other than PAUSE may be sent now.
    pub(super) fn may_send(&self) -> bool {
        let on = self.regs.has(C::REG.tctl, tctl::EN);
        on && (self.loops_back() || self.link_up() && !self.link.pause.is_paused())
    }
}

impl<C: Chip> Controller<C> {
    /// Handles a write to CTRL. RST overrides all other bits.
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
            self.change_link(now, LinkChange::Recheck, ports);
        }
    }

    /// Takes the link down and starts autonegotiation.
    pub(super) fn restart_link(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        self.change_link(now, LinkChange::Down, ports);
        let negotiated = now.saturating_add(self.config.autonegotiation);
        if let Some(at) = self.link.timer.arm(negotiated) {
            wake(ports, at, Event::Link);
        }
    }

    /// Handles unplugging or plugging of the cable: the link goes down and autonegotiation restarts.
    pub(super) fn plug_cable(&mut self, now: Ps, plugged: bool, ports: &mut dyn FunctionPorts) {
        if self.link.unplugged == plugged {
            self.link.unplugged = !plugged;
            self.restart_link(now, ports);
        }
    }

    pub(super) fn on_link_wake(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        match self.link.timer.wake(now) {
            Wake::Ignore => {}
            Wake::Again(at) => wake(ports, at, Event::Link),
            Wake::Expired => {
                let kept_down =
                    self.link.unplugged || self.ctrl_has(ctrl::PHY_RST) || self.phy.inner().powered_down();
                if !kept_down {
                    self.change_link(now, LinkChange::Up, ports);
                }
            }
        }
    }

    /// Updates the link state; raises LSC if STATUS.LU changes.
    pub(super) fn change_link(&mut self, now: Ps, change: LinkChange, ports: &mut dyn FunctionPorts) {
        match change {
            LinkChange::Up => self.phy.inner_mut().set_link(true),
            LinkChange::Down => {
                self.phy.inner_mut().set_link(false);
                self.link.timer.cancel();
            }
            LinkChange::Recheck => {}
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
