//! What waits behind slow doors: an access to the PHY (MDIC, §13.4.7), EEPROM words through EERD (§13.4.4), and the I/O window's address
//! register (§13.2).

use doorbell_sim::Ps;
use serde::{Deserialize, Serialize};

use super::Nic;
use super::bits::eerd;
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

impl Nic {
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
