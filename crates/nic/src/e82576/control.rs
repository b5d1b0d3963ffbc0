//! What waits behind slow doors: an access to the PHY (MDIC, §8.2), NVM words through EERD (§8.4), the software semaphore (§8.7), and the I/O
//! window's address register.

use doorbell_sim::Ps;
use serde::{Deserialize, Serialize};

use super::Igb;
use super::bits::{eerd, swsm};
use super::regs::Reg;
use crate::parts::timer::Timer;

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
