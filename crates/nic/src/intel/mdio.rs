//! Indirect accesses: PHY registers through MDIC, EEPROM or NVM words through EERD, and the address register
//! of the I/O window. A PHY access takes `mdio_time`; MDIC writes during an access are ignored.

use doorbell_pcie::FunctionPorts;
use doorbell_sim::Ps;
use serde::{Deserialize, Serialize};

use super::bits::{cause, eerd, mdic};
use super::link::LinkChange;
use super::{Chip, Controller, Event, wake};
use crate::parts::phy::{self, LinkAction, ManagedPhy as _};
use crate::parts::registers::RegisterId as _;
use crate::parts::timer::{Timer, Wake};

/// Indirect accesses in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Indirect {
    mdio: Timer,
    /// Time at which the word requested through EERD is available.
    eerd_ready: Option<Ps>,
    /// IOADDR, the address register of the I/O window.
    pub io_address: u32,
}

impl Indirect {
    pub fn reset(&mut self) {
        self.mdio.cancel();
        self.eerd_ready = None;
        self.io_address = 0;
    }
}

impl<C: Chip> Controller<C> {
    /// Handles a write to MDIC: starts a PHY access.
    pub(super) fn write_mdic(&mut self, now: Ps, value: u32, ports: &mut dyn FunctionPorts) {
        if self.indirect.mdio.is_armed() {
            return;
        }
        self.regs.set(C::REG.mdic, value & C::REG.mdic.mask());
        let over = now.saturating_add(self.config.mdio_time);
        if let Some(at) = self.indirect.mdio.arm(over) {
            wake(ports, at, Event::Mdio);
        }
    }

    pub(super) fn on_mdio_wake(&mut self, now: Ps, ports: &mut dyn FunctionPorts) {
        match self.indirect.mdio.wake(now) {
            Wake::Ignore => return,
            Wake::Again(at) => return wake(ports, at, Event::Mdio),
            Wake::Expired => {}
        }
        let (value, partner_pauses) = (self.regs.get(C::REG.mdic), self.config.pause_frames);
        let (register, address, operation) = (value >> 16 & 31, value >> 21 & 31, value >> 26 & 3);
        let mut done = value | mdic::READY;
        let mut action = LinkAction::Keep;
        match operation {
            _ if address != phy::ADDRESS => done |= mdic::ERROR,
            mdic::READ => done = done & !0xffff | u32::from(self.phy.read(register, partner_pauses)),
            mdic::WRITE => action = self.phy.write(register, value as u16),
            _ => done |= mdic::ERROR,
        }
        self.regs.set(C::REG.mdic, done);
        match action {
            LinkAction::Keep => {}
            LinkAction::Restart => self.restart_link(now, ports),
            LinkAction::Down => self.change_link(now, LinkChange::Down, ports),
        }
        if value & mdic::INTERRUPT != 0 {
            C::raise_cause(self, now, cause::MDAC, ports);
        }
    }

    /// Handles a write to EERD: requests an EEPROM or NVM word.
    pub(super) fn write_eerd(&mut self, now: Ps, value: u32) {
        let (address_shift, _) = C::EERD;
        self.regs.set(C::REG.eerd, value & 0xffff & !0 << address_shift);
        if value & eerd::START != 0 {
            self.indirect.eerd_ready = Some(now.saturating_add(self.config.eerd_time));
        }
    }

    /// Reads EERD: contains the word and the done bit once it is available.
    pub(super) fn read_eerd(&self, now: Ps) -> u32 {
        let value = self.regs.get(C::REG.eerd);
        let (address_shift, done) = C::EERD;
        match self.indirect.eerd_ready {
            Some(ready) if ready <= now => {
                u32::from(self.chip.memory_word(value >> address_shift)) << 16 | value | done
            }
            _ => value,
        }
    }
}
