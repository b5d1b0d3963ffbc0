//! Effects of register accesses (§13.4).

use doorbell_pcie::FunctionPorts;
use doorbell_sim::Ps;

use super::regs::{Access, Reg};
use super::{E82540, Nic, PACKET_BUFFER};
use crate::intel::bits::ctrl_ext;
use crate::intel::chip::{At, Chip as _};
use crate::intel::counters::halves;

impl Nic {
    /// Returns the bits that a narrow write preserves.
    pub(super) fn stored(&self, (reg, index): At<E82540>) -> u32 {
        match reg {
            Reg::CtrlDup => self.regs.get(Reg::Ctrl),
            Reg::Eecd => self.chip.eeprom.read_eecd(),
            Reg::Ims => 0,
            _ if reg.info().access == Access::Rw => self.regs.at(reg, index),
            _ => 0,
        }
    }

    pub(super) fn read_register(
        &mut self,
        now: Ps,
        (reg, index): At<E82540>,
        ports: &mut dyn FunctionPorts,
    ) -> u32 {
        match reg {
            Reg::CtrlDup => self.regs.get(Reg::Ctrl),
            Reg::Status => self.link_status(),
            Reg::Eecd => self.chip.eeprom.read_eecd(),
            Reg::Eerd => self.read_eerd(now),
            Reg::Icr => self.read_icr(now, ports),
            Reg::Rdfpc => self.rx.fifo.len() as u32,
            Reg::Tdfpc => self.tx.fifo.len() as u32,
            _ => match reg.info().access {
                Access::Rc => self.regs.take_counter(reg, 0, &halves(&E82540::REG)),
                Access::Wo | Access::Absent => 0,
                _ => self.regs.at(reg, index),
            },
        }
    }

    pub(super) fn write_register(
        &mut self,
        now: Ps,
        (reg, index): At<E82540>,
        value: u32,
        ports: &mut dyn FunctionPorts,
    ) {
        let info = reg.info();
        let masked = value & info.mask;
        match reg {
            Reg::Ctrl | Reg::CtrlDup => self.write_ctrl(now, value, ports),
            Reg::CtrlExt => self.write_ctrl_ext(masked, value),
            Reg::Eecd => self.chip.eeprom.write_eecd(value),
            Reg::Eerd => self.write_eerd(now, value),
            Reg::Mdic => self.write_mdic(now, value, ports),
            Reg::Ics => self.set_cause(now, masked, ports),
            Reg::Icr => {
                self.regs.set(reg, self.regs.get(reg) & !value);
                self.update_irq(now, ports);
            }
            Reg::Ims => {
                self.regs.set(reg, self.regs.get(reg) | masked);
                self.update_irq(now, ports);
            }
            Reg::Imc => {
                self.regs.set(Reg::Ims, self.regs.get(Reg::Ims) & !masked);
                self.update_irq(now, ports);
            }
            Reg::Itr => {
                self.regs.set(reg, masked);
                self.update_irq(now, ports);
            }
            Reg::Pba => self.write_pba(masked),
            Reg::Rdtr => self.write_rdtr(now, value, ports),
            _ => {
                match info.access {
                    Access::Rw => self.regs.set_at(reg, index, masked),
                    Access::W1c => self.regs.set_at(reg, index, self.regs.at(reg, index) & !masked),
                    Access::Ro | Access::Rc | Access::RcW1c | Access::Wo | Access::Absent => return,
                }
                self.register_written(now, (reg, index), ports);
            }
        }
    }

    /// Applies the side effects of a new value in a plain register.
    fn register_written(&mut self, now: Ps, (reg, index): At<E82540>, ports: &mut dyn FunctionPorts) {
        match reg {
            Reg::Rdbal | Reg::Rdbah | Reg::Rdlen | Reg::Rdh => self.rx_ring_rewritten(index),
            Reg::Tdbal | Reg::Tdbah | Reg::Tdlen | Reg::Tdh => self.tx_ring_rewritten(index),
            Reg::Rdt | Reg::Rxdctl => self.rx_advance(now, ports),
            Reg::Rctl => {
                self.rx_advance(now, ports);
                self.tx_advance(now, ports);
            }
            Reg::Tctl => {
                self.software_xoff(now, ports);
                self.tx_advance(now, ports);
            }
            Reg::Tdt => {
                self.tx.queues[index].doorbells.record(now, self.regs.get(Reg::Tdt));
                self.tx_advance(now, ports);
            }
            Reg::Txdctl => self.tx_advance(now, ports),
            _ => {}
        }
    }

    fn write_ctrl_ext(&mut self, masked: u32, value: u32) {
        self.regs.set(Reg::CtrlExt, masked & !ctrl_ext::EE_RST);
        if value & ctrl_ext::EE_RST != 0 {
            self.load_station();
        }
    }

    /// Writes PBA: software sets the receive part in KiB, and the transmit part gets the rest.
    fn write_pba(&mut self, receive_kib: u32) {
        let total = (PACKET_BUFFER.0 >> 10) as u32;
        let receive = receive_kib.min(total);
        self.regs.set(Reg::Pba, (total - receive) << 16 | receive);
    }
}
