//! The family's internal PHY, an M88E1011 as drivers expect it (manual chapter 8 and §11.3; IEEE 802.3 clause
//! 22). Modelled: identity, control with reset, power-down, loopback and autonegotiation, latched link
//! status, the partner's abilities, and the speed and duplex that software advertises or forces. Vendor
//! registers (16 and above) hold their values. Speed and duplex are only reported to software: frames use the
//! link's configured rate and never collide. Not modelled: cable diagnosis.

use serde::{Deserialize, Serialize};

/// The PHY's address on the management bus.
pub const ADDRESS: u32 = 1;

mod reg {
    pub const CONTROL: usize = 0;
    pub const STATUS: usize = 1;
    pub const ID1: usize = 2;
    pub const ID2: usize = 3;
    pub const ADVERTISE: usize = 4;
    pub const PARTNER: usize = 5;
    pub const EXPANSION: usize = 6;
    pub const NEXT_PAGE: usize = 7;
    pub const GIGABIT_CONTROL: usize = 9;
    pub const GIGABIT_STATUS: usize = 10;
    pub const EXTENDED_STATUS: usize = 15;
    pub const SPECIFIC_CONTROL: usize = 16;
    pub const SPECIFIC_STATUS: usize = 17;
    pub const EXTENDED_CONTROL: usize = 20;
}

mod control {
    pub const RESET: u16 = 1 << 15;
    pub const LOOPBACK: u16 = 1 << 14;
    pub const AUTONEGOTIATE: u16 = 1 << 12;
    pub const POWER_DOWN: u16 = 1 << 11;
    pub const RESTART: u16 = 1 << 9;
    pub const SPEED_LOW: u16 = 1 << 13;
    pub const FULL_DUPLEX: u16 = 1 << 8;
    pub const SPEED_HIGH: u16 = 1 << 6;
    /// 1000 Mb/s, full duplex, autonegotiation.
    pub const DEFAULT: u16 = 0x1140;
    /// Bits whose change restarts the link.
    pub const LINK_BITS: u16 = LOOPBACK | AUTONEGOTIATE | POWER_DOWN | SPEED_LOW | FULL_DUPLEX | SPEED_HIGH;
}

const STATUS_CAPABILITIES: u16 = 0x7949;
const STATUS_LINK: u16 = 1 << 2;
const STATUS_NEGOTIATED: u16 = 1 << 5;
const PAUSE: u16 = 1 << 10;

/// Speed and duplex. The speed is encoded as in the MAC's STATUS and in the PHY's status register 17.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkMode {
    /// 0: 10 Mb/s, 1: 100 Mb/s, 2: 1000 Mb/s.
    pub speed: u8,
    /// Full duplex.
    pub full_duplex: bool,
}

/// Modes that can be advertised, best first (IEEE 802.3 §28.3 and annex 28B.3): register, bit, and mode. The
/// partner supports all of them except 1000 Mb/s half duplex.
const MODES: [(usize, u16, LinkMode); 5] = [
    (reg::GIGABIT_CONTROL, 1 << 9, LinkMode { speed: 2, full_duplex: true }),
    (reg::ADVERTISE, 1 << 8, LinkMode { speed: 1, full_duplex: true }),
    (reg::ADVERTISE, 1 << 7, LinkMode { speed: 1, full_duplex: false }),
    (reg::ADVERTISE, 1 << 6, LinkMode { speed: 0, full_duplex: true }),
    (reg::ADVERTISE, 1 << 5, LinkMode { speed: 0, full_duplex: false }),
];

/// Effect of a register write on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkAction {
    /// None.
    Keep,
    /// The link goes down, and comes up after autonegotiation.
    Restart,
    /// The link goes down and stays down.
    Down,
}

/// The PHY's registers and link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phy {
    registers: [u16; 32],
    link: bool,
    /// The link has been down since the last read of the status register, at least temporarily.
    link_lost: bool,
}

/// A PHY that software accesses through MDIC. A chip's PHY may add its own registers to those of the family's
/// PHY.
pub trait ManagedPhy {
    /// Creates a PHY in its power-on state, with the link down.
    fn new() -> Self;
    /// The family's PHY.
    fn inner(&self) -> &Phy;
    /// The family's PHY, mutable.
    fn inner_mut(&mut self) -> &mut Phy;
    /// Asserts the reset pin: all registers take their defaults.
    fn hardware_reset(&mut self);
    /// Reads a register. `pause` is whether the partner advertises PAUSE.
    fn read(&mut self, register: u32, pause: bool) -> u16;
    /// Writes a register.
    fn write(&mut self, register: u32, value: u16) -> LinkAction;
}

impl Phy {
    /// Creates a PHY in its power-on state, with the link down.
    pub fn new() -> Phy {
        let mut phy = Phy { registers: [0; 32], link: false, link_lost: true };
        phy.set_defaults();
        phy
    }

    fn set_defaults(&mut self) {
        self.registers = [0; 32];
        for (register, value) in [
            (reg::CONTROL, control::DEFAULT),
            (reg::ID1, 0x0141),
            (reg::ID2, 0x0c20),
            (reg::ADVERTISE, 0x0de1),
            (reg::NEXT_PAGE, 0x2001),
            (reg::GIGABIT_CONTROL, 0x0f00),
            (reg::EXTENDED_STATUS, 0x3000),
            (reg::SPECIFIC_CONTROL, 0x0068),
            (reg::EXTENDED_CONTROL, 0x0d60),
        ] {
            self.registers[register] = value;
        }
    }

    /// Whether the link is up.
    pub fn link(&self) -> bool {
        self.link
    }

    /// Takes the link up or down.
    pub fn set_link(&mut self, up: bool) {
        self.link = up;
        self.link_lost |= !up;
    }

    /// Whether transmitted frames are looped back.
    pub fn loopback(&self) -> bool {
        self.registers[reg::CONTROL] & control::LOOPBACK != 0
    }

    /// Speed and duplex: the best mode that both ends advertise, or the mode that software forces. Without a
    /// common mode it is 10 Mb/s half duplex.
    pub fn mode(&self) -> LinkMode {
        let control = self.registers[reg::CONTROL];
        if control & control::AUTONEGOTIATE != 0 {
            let common = MODES.iter().find(|(register, bit, _)| self.registers[*register] & bit != 0);
            return common.map_or(LinkMode { speed: 0, full_duplex: false }, |(_, _, mode)| *mode);
        }
        let speed = match (control & control::SPEED_HIGH != 0, control & control::SPEED_LOW != 0) {
            (true, _) => 2,
            (false, true) => 1,
            (false, false) => 0,
        };
        LinkMode { speed, full_duplex: control & control::FULL_DUPLEX != 0 }
    }

    /// Whether software has powered the PHY down.
    pub fn powered_down(&self) -> bool {
        self.registers[reg::CONTROL] & control::POWER_DOWN != 0
    }

    /// Writes the control register. RESET and RESTART clear themselves. A software reset preserves the vendor
    /// registers.
    fn write_control(&mut self, value: u16) -> LinkAction {
        let before = self.registers[reg::CONTROL];
        let after = value & !(control::RESET | control::RESTART);
        self.registers[reg::CONTROL] = after;
        let restarted = value & (control::RESET | control::RESTART) != 0;
        if after & control::POWER_DOWN != 0 {
            LinkAction::Down
        } else if restarted || (before ^ after) & control::LINK_BITS != 0 {
            LinkAction::Restart
        } else {
            LinkAction::Keep
        }
    }
}

impl ManagedPhy for Phy {
    fn new() -> Phy {
        Phy::new()
    }

    fn inner(&self) -> &Phy {
        self
    }

    fn inner_mut(&mut self) -> &mut Phy {
        self
    }

    fn hardware_reset(&mut self) {
        self.set_defaults();
    }

    fn read(&mut self, register: u32, pause: bool) -> u16 {
        let register = register as usize % 32;
        let linked = |value: u16| if self.link { value } else { 0 };
        match register {
            reg::STATUS => {
                let up = self.link && !self.link_lost;
                self.link_lost = !self.link;
                let negotiating = self.registers[reg::CONTROL] & control::AUTONEGOTIATE != 0;
                let negotiated = if self.link && negotiating { STATUS_NEGOTIATED } else { 0 };
                STATUS_CAPABILITIES | negotiated | if up { STATUS_LINK } else { 0 }
            }
            reg::PARTNER => linked(0x41e1 | if pause { PAUSE } else { 0 }),
            reg::EXPANSION => linked(0x0001),
            reg::GIGABIT_STATUS => linked(0x7c00),
            // Speed, duplex, resolved, link, 50 to 80 m of cable.
            reg::SPECIFIC_STATUS => {
                let mode = self.mode();
                linked(u16::from(mode.speed) << 14 | u16::from(mode.full_duplex) << 13 | 0x0c80)
            }
            _ => self.registers[register],
        }
    }

    fn write(&mut self, register: u32, value: u16) -> LinkAction {
        let register = register as usize % 32;
        match register {
            reg::CONTROL => self.write_control(value),
            reg::STATUS
            | reg::ID1
            | reg::ID2
            | reg::PARTNER
            | reg::EXPANSION
            | reg::GIGABIT_STATUS
            | reg::EXTENDED_STATUS
            | reg::SPECIFIC_STATUS => LinkAction::Keep,
            _ => {
                self.registers[register] = value;
                LinkAction::Keep
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_accept_the_identity_for_an_82540() {
        let mut phy = Phy::new();
        assert_eq!((phy.read(2, false), phy.read(3, false) & 0xfff0), (0x0141, 0x0c20));
    }

    #[test]
    fn the_link_bit_is_latched_low_until_read() {
        let mut phy = Phy::new();
        phy.set_link(true);
        assert_eq!(phy.read(1, false) & 0x0024, 0x0020);
        assert_eq!(phy.read(1, false) & 0x0024, 0x0024);
        phy.set_link(false);
        phy.set_link(true);
        assert_eq!(phy.read(1, false) & 4, 0);
        assert_eq!(phy.read(1, false) & 4, 4);
    }

    #[test]
    fn reset_and_restart_clear_themselves_and_restart_the_link() {
        let mut phy = Phy::new();
        assert_eq!(phy.write(0, 0x9140), LinkAction::Restart);
        assert_eq!(phy.read(0, false), 0x1140);
        assert_eq!(phy.write(0, 0x1340), LinkAction::Restart);
        assert_eq!(phy.read(0, false), 0x1140);
        assert_eq!(phy.write(0, 0x1940), LinkAction::Down);
        assert!(phy.powered_down());
        assert_eq!(phy.write(0, 0x4140), LinkAction::Restart);
        assert!(phy.loopback());
        assert_eq!(phy.write(0, 0x4140), LinkAction::Keep);
    }

    #[test]
    fn speed_and_duplex_follow_the_advertised_or_forced_mode() {
        let mut phy = Phy::new();
        phy.set_link(true);
        let mut status_after = |writes: &[(u32, u16)]| {
            for (register, value) in writes {
                phy.write(*register, *value);
            }
            phy.read(17, false) & 0xec00
        };
        assert_eq!(status_after(&[]), 0xac00, "1000 Mb/s, full duplex");
        assert_eq!(status_after(&[(9, 0x0100)]), 0x6c00, "without 1000 Mb/s full duplex: 100");
        assert_eq!(status_after(&[(4, 0x0081)]), 0x4c00, "100, half");
        assert_eq!(status_after(&[(4, 0x0061)]), 0x2c00, "10, full");
        assert_eq!(status_after(&[(4, 0x0021)]), 0x0c00, "10, half");
        assert_eq!(status_after(&[(4, 0x0001)]), 0x0c00, "no common mode");
        assert_eq!(status_after(&[(0, 0x2100)]), 0x6c00, "forced to 100, full");
        assert_eq!(status_after(&[(0, 0x0000)]), 0x0c00, "forced to 10, half");
        assert_eq!(status_after(&[(0, 0x0140)]), 0xac00, "forced to 1000, full");
        phy.set_link(false);
        assert_eq!(phy.read(17, false), 0);
    }

    #[test]
    fn the_partner_advertises_pause_only_if_configured() {
        let mut phy = Phy::new();
        phy.set_link(true);
        assert_eq!(phy.read(5, false) & 0x0c00, 0);
        assert_eq!(phy.read(5, true) & 0x0c00, 0x0400);
    }
}
