//! The two slow side doors: the PHY through MDIC (§13.4.7) and EEPROM words through EERD (§13.4.4),
//! and the I/O window's address register (§13.2).

use doorbell_sim::Ps;
use serde::{Deserialize, Serialize};

use crate::e82540::bits::{cause, eerd, mdic};
use crate::e82540::link::LinkChange;
use crate::e82540::regs::Reg;
use crate::e82540::{Event, Nic, NicPorts};
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

impl Nic {
    /// Software starts an access to the PHY. While one is under way another is ignored.
    pub(crate) fn write_mdic(&mut self, now: Ps, value: u32, ports: &mut impl NicPorts) {
        if self.control.mdio.is_armed() {
            return;
        }
        self.regs.set(Reg::Mdic, value & Reg::Mdic.info().mask);
        if let Some(at) = self.control.mdio.arm(now.saturating_add(self.config.mdio_time)) {
            ports.wake_at(at, Event::Mdio);
        }
    }

    pub(crate) fn mdio_woken(&mut self, now: Ps, ports: &mut impl NicPorts) {
        match self.control.mdio.wake(now) {
            Wake::Ignore => return,
            Wake::Again(at) => return ports.wake_at(at, Event::Mdio),
            Wake::Expired => {}
        }
        let value = self.regs.get(Reg::Mdic);
        let (register, address, operation) = (value >> 16 & 31, value >> 21 & 31, value >> 26 & 3);
        let mut done = value | mdic::READY;
        let mut action = LinkAction::Keep;
        match operation {
            _ if address != phy::ADDRESS => done |= mdic::ERROR,
            mdic::READ => {
                let data = self.phy.read(register, self.config.pause_frames);
                done = done & !0xffff | u32::from(data);
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

    /// Software asks for an EEPROM word; EECD's grant to software keeps the hardware out.
    pub(crate) fn write_eerd(&mut self, now: Ps, value: u32) {
        self.regs.set(Reg::Eerd, value & 0xff00);
        if value & eerd::START != 0 {
            self.control.eerd_ready = Some(now.saturating_add(self.config.eerd_time));
        }
    }

    pub(crate) fn read_eerd(&mut self, now: Ps) -> u32 {
        let value = self.regs.get(Reg::Eerd);
        match self.control.eerd_ready {
            Some(ready) if ready <= now => {
                let word = self.eeprom.word(value >> 8 & 0xff);
                u32::from(word) << 16 | value | eerd::DONE
            }
            _ => value,
        }
    }
}
