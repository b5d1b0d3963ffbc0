//! The slow side doors: the PHY through MDIC (§8.2), NVM words through EERD (§8.4), the software semaphore (§8.7), and the I/O
//! window's address register.

use doorbell_sim::Ps;
use serde::{Deserialize, Serialize};

use super::bits::{cause, eerd, mdic, swsm};
use super::link::LinkChange;
use super::regs::Reg;
use super::{Event, Igb, IgbPorts};
use crate::parts::phy::{self, LinkAction};
use crate::parts::timer::{Timer, Wake};

/// Transactions under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Control {
    pub mdio: Timer,
    /// When the word asked for through EERD is there.
    pub eerd_ready: Option<Ps>,
    /// IOADDR.
    pub io_address: u32,
}

impl Control {
    pub fn reset(&mut self) {
        self.mdio.cancel();
        self.eerd_ready = None;
        self.io_address = 0;
    }
}

impl Igb {
    /// Software starts an access to the PHY. While one is under way another is ignored.
    pub(super) fn write_mdic(&mut self, now: Ps, value: u32, ports: &mut impl IgbPorts) {
        if self.control.mdio.is_armed() {
            return;
        }
        self.regs.set(Reg::Mdic, value & Reg::Mdic.info().mask);
        if let Some(at) = self.control.mdio.arm(now.saturating_add(self.config.mdio_time)) {
            ports.wake(at, Event::Mdio);
        }
    }

    pub(super) fn mdio_woken(&mut self, now: Ps, ports: &mut impl IgbPorts) {
        match self.control.mdio.wake(now) {
            Wake::Ignore => return,
            Wake::Again(at) => return ports.wake(at, Event::Mdio),
            Wake::Expired => {}
        }
        let value = self.regs.get(Reg::Mdic);
        let (register, address, operation) = (value >> 16 & 31, value >> 21 & 31, value >> 26 & 3);
        let mut done = value | mdic::READY;
        let mut action = LinkAction::Keep;
        match operation {
            _ if address != phy::ADDRESS => done |= mdic::ERROR,
            mdic::READ => {
                done = done & !0xffff | u32::from(self.phy.read(register, self.config.pause_frames))
            }
            mdic::WRITE => action = self.phy.write(register, value as u16),
            _ => done |= mdic::ERROR,
        }
        self.regs.set(Reg::Mdic, done);
        match action {
            LinkAction::Keep => {}
            LinkAction::Restart => self.restart_link(now, ports),
            LinkAction::Down => self.change_link(now, LinkChange::Down, ports),
        }
        if value & mdic::INTERRUPT != 0 {
            self.set_cause(now, cause::MDAC, ports);
        }
    }

    /// Software asks for an NVM word.
    pub(super) fn write_eerd(&mut self, now: Ps, value: u32) {
        self.regs.set(Reg::Eerd, value & 0xfffc);
        if value & eerd::START != 0 {
            self.control.eerd_ready = Some(now.saturating_add(self.config.eerd_time));
        }
    }

    pub(super) fn read_eerd(&mut self, now: Ps) -> u32 {
        let value = self.regs.get(Reg::Eerd);
        match self.control.eerd_ready {
            Some(ready) if ready <= now => {
                let word = self.nvm.word(value >> eerd::ADDRESS_SHIFT);
                u32::from(word) << 16 | value | eerd::DONE
            }
            _ => value,
        }
    }

    /// Who reads SWSM takes SMBI, and sees whether it was taken before.
    pub(super) fn read_swsm(&mut self) -> u32 {
        let value = self.regs.get(Reg::Swsm);
        self.regs.set(Reg::Swsm, value | swsm::SMBI);
        value
    }
}
