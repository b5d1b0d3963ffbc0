//! The MAC: its registers and parts, for what the family does with them ([`crate::parts::mac`]). Link: §13.4.1 and §13.4.2; PAUSE: §8.7; PHY: §13.4.7.

use doorbell_sim::{BitsPerSec, Frame, Ps};

use super::regs::{Reg, Regs};
use super::{Nic, NicPorts};
use crate::parts::mac::{LinkStatus, LinkView as _, LinkWork as _, Mac, MacRegisters, MacWork, WayOut};
use crate::parts::phy::Phy;
use crate::parts::timer::Timer;

impl Mac for Nic {
    type Phy = Phy;
    const MAC: MacRegisters<Reg> = MacRegisters {
        control: Reg::Ctrl,
        receive: Reg::Rctl,
        transmit: Reg::Tctl,
        phy: Reg::Mdic,
        station: [Reg::Ral, Reg::Rah],
        control_type: Reg::Fct,
        control_address: [Reg::Fcal, Reg::Fcah],
        marks: [Reg::Fcrtl, Reg::Fcrth],
        low_mark: 0xfff8,
        pause_time: Reg::Fcttv,
        heard: [Reg::Xonrxc, Reg::Xoffrxc, Reg::Fcruc],
        sent: [Reg::Xontxc, Reg::Xofftxc],
    };

    fn registers(&mut self) -> &mut Regs {
        &mut self.regs
    }

    fn link(&self) -> &LinkStatus {
        &self.link
    }

    fn link_mut(&mut self) -> &mut LinkStatus {
        &mut self.link
    }

    fn phy(&self) -> &Phy {
        &self.phy
    }

    fn phy_mut(&mut self) -> &mut Phy {
        &mut self.phy
    }

    fn mdio(&mut self) -> &mut Timer {
        &mut self.control.mdio
    }

    fn way_out(&mut self) -> WayOut<'_> {
        let tx = &mut self.tx;
        WayOut { fifo: &mut tx.fifo, outlet: &mut tx.outlet, pauses: &mut tx.pauses }
    }

    fn received(&self) -> u64 {
        self.rx.fifo.used()
    }

    fn link_rate(&self) -> BitsPerSec {
        self.link_rate
    }

    fn count_sent(&mut self, frame: &Frame, queue: Option<u8>) {
        self.count_sent_frame(frame, queue.is_none());
    }
}

impl<P: NicPorts> MacWork<P> for Nic {
    fn reset_device(&mut self, now: Ps, ports: &mut P) {
        self.reset(now, ports);
    }

    fn cause(&mut self, now: Ps, bits: u32, ports: &mut P) {
        self.set_cause(now, bits, ports);
    }

    fn take_frame(&mut self, now: Ps, frame: Frame, looped: bool, ports: &mut P) {
        self.arrive(now, frame, looped, ports);
    }
}

impl Nic {
    /// STATUS.
    pub(crate) fn read_status(&self) -> u32 {
        self.link_status()
    }

    /// Somebody pulls the cable, or puts it back: then autonegotiation starts.
    pub fn set_cable(&mut self, now: Ps, plugged: bool, ports: &mut impl NicPorts) {
        self.plug_cable(now, plugged, ports);
    }
}
