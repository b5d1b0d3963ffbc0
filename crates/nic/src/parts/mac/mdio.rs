//! The PHY through MDIC: an access takes its time, and while one is under way another is ignored.

use doorbell_sim::Ps;

use super::MacWork;
use super::bits::{cause, mdic};
use super::link::{LinkChange, LinkWork as _};
use crate::NicPorts;
use crate::parts::phy::{self, LinkAction, ManagedPhy as _};
use crate::parts::registers::RegisterId as _;
use crate::parts::requests::Wakeup;
use crate::parts::timer::Wake;

/// Accesses to the PHY.
pub(crate) trait MdioWork<P: NicPorts>: MacWork<P> {
    /// Software starts an access.
    fn write_mdic(&mut self, now: Ps, value: u32, ports: &mut P) {
        if self.mdio().is_armed() {
            return;
        }
        self.registers().set(Self::MAC.phy, value & Self::MAC.phy.mask());
        let over = now.saturating_add(self.parameters().mdio_time);
        if let Some(at) = self.mdio().arm(over) {
            Self::wake(ports, at, Wakeup::Mdio);
        }
    }

    fn mdio_woken(&mut self, now: Ps, ports: &mut P) {
        match self.mdio().wake(now) {
            Wake::Ignore => return,
            Wake::Again(at) => return Self::wake(ports, at, Wakeup::Mdio),
            Wake::Expired => {}
        }
        let (value, partner_pauses) = (self.regs().get(Self::MAC.phy), self.parameters().pause_frames);
        let (register, address, operation) = (value >> 16 & 31, value >> 21 & 31, value >> 26 & 3);
        let mut done = value | mdic::READY;
        let mut action = LinkAction::Keep;
        match operation {
            _ if address != phy::ADDRESS => done |= mdic::ERROR,
            mdic::READ => {
                done = done & !0xffff | u32::from(self.phy_mut().read(register, partner_pauses));
            }
            mdic::WRITE => action = self.phy_mut().write(register, value as u16),
            _ => done |= mdic::ERROR,
        }
        self.registers().set(Self::MAC.phy, done);
        match action {
            LinkAction::Keep => {}
            LinkAction::Restart => self.restart_link(now, ports),
            LinkAction::Down => self.change_link(now, LinkChange::Down, ports),
        }
        if value & mdic::INTERRUPT != 0 {
            self.cause(now, cause::MDAC, ports);
        }
    }
}

impl<P: NicPorts, C: MacWork<P> + ?Sized> MdioWork<P> for C {}
