//! The internal PHY (§3.5.8, §8.25): an IEEE 802.3 clause 22 PHY with paged vendor registers, which drivers
//! detect by its identifier. Control, status and negotiation are those of the family's PHY
//! ([`crate::parts::phy`]); identity, port status and pages are specific to this PHY. Not modelled: cable
//! diagnosis, except for a fixed cable length.

use serde::{Deserialize, Serialize};

use crate::parts::phy::{LinkAction, ManagedPhy, Phy};

mod reg {
    pub const ID1: u32 = 2;
    pub const ID2: u32 = 3;
    pub const PORT_STATUS: u32 = 17;
    pub const PAGE: u32 = 31;
    /// First register that depends on the page.
    pub const FIRST_PAGED: u32 = 16;
}

const ID: [u16; 2] = [0x02a8, 0x0391];
/// Value of the gain registers in other pages: about 50 m of cable.
const GAIN: u16 = 0x0e00;

/// Bits of the port status.
mod port_status {
    /// Speed (15:14): 1 is 10 Mb/s, 2 is 100, 3 is 1000.
    pub const SPEED_SHIFT: u32 = 14;
    pub const LINK: u16 = 1 << 10;
    pub const FULL_DUPLEX: u16 = 1 << 9;
}

/// The PHY, and the page that software has selected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IgpPhy {
    phy: Phy,
    page: u16,
}

impl IgpPhy {
    /// Whether a register belongs to a selected vendor page. The page number is above the five bits of the
    /// register number.
    fn is_paged(&self, register: u32) -> bool {
        self.page >> 5 != 0 && register >= reg::FIRST_PAGED
    }
}

impl ManagedPhy for IgpPhy {
    fn new() -> IgpPhy {
        IgpPhy { phy: Phy::new(), page: 0 }
    }

    fn inner(&self) -> &Phy {
        &self.phy
    }

    fn inner_mut(&mut self) -> &mut Phy {
        &mut self.phy
    }

    fn hardware_reset(&mut self) {
        self.phy.hardware_reset();
        self.page = 0;
    }

    fn read(&mut self, register: u32, pause: bool) -> u16 {
        match register {
            reg::PAGE => self.page,
            _ if self.is_paged(register) => GAIN,
            reg::ID1 => ID[0],
            reg::ID2 => ID[1],
            reg::PORT_STATUS if !self.phy.link() => 0,
            reg::PORT_STATUS => {
                let mode = self.phy.mode();
                let duplex = if mode.full_duplex { port_status::FULL_DUPLEX } else { 0 };
                (u16::from(mode.speed) + 1) << port_status::SPEED_SHIFT | duplex | port_status::LINK
            }
            _ => self.phy.read(register, pause),
        }
    }

    fn write(&mut self, register: u32, value: u16) -> LinkAction {
        match register {
            reg::PAGE => self.page = value,
            _ if self.is_paged(register) => {}
            _ => return self.phy.write(register, value),
        }
        LinkAction::Keep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_port_status_and_pages_match_drivers_expectations() {
        let mut phy = IgpPhy::new();
        assert_eq!(
            (phy.read(2, false), phy.read(3, false) & 0xfff0, phy.read(17, false)),
            (0x02a8, 0x0390, 0)
        );
        phy.inner_mut().set_link(true);
        assert_eq!(phy.read(17, false), 0xc600);
        assert_eq!(phy.write(31, 0x11b1), LinkAction::Keep);
        assert_eq!((phy.read(17, false) >> 9 & 0x7f, phy.read(2, false)), (7, 0x02a8));
        phy.write(31, 0x11);
        assert_eq!((phy.read(17, false), phy.read(31, false)), (0xc600, 0x11));
    }
}
