//! The cores' accesses: registers in BAR 0 (§13.1) and the I/O window in BAR 2 (§13.2).

use doorbell_sim::{AccessSize, Ps};

use crate::e82540::bits::{ctrl_ext, tctl};
use crate::e82540::regs::{self, Access, Reg};
use crate::e82540::{Nic, NicPorts, PACKET_BUFFER};
use crate::parts::access::{Windows, entrances};
use crate::parts::mac::{FlowWork as _, LinkWork as _, MdioWork as _};

impl<P: NicPorts> Windows<P> for Nic {
    fn lookup(offset: u64) -> Option<(Reg, usize)> {
        regs::lookup(offset)
    }

    fn stored(&self, (reg, index): (Reg, usize)) -> u32 {
        match reg {
            Reg::CtrlDup => self.regs.get(Reg::Ctrl),
            Reg::Eecd => self.eeprom.read_eecd(),
            Reg::Ims => 0,
            _ if reg.info().access == Access::Rw => self.regs.at(reg, index),
            _ => 0,
        }
    }

    fn read_register(&mut self, now: Ps, (reg, index): (Reg, usize), ports: &mut P) -> u32 {
        match reg {
            Reg::CtrlDup => self.regs.get(Reg::Ctrl),
            Reg::Status => self.read_status(),
            Reg::Eecd => self.eeprom.read_eecd(),
            Reg::Eerd => self.read_eerd(now),
            Reg::Icr => self.read_icr(now, ports),
            Reg::Rdfpc => self.rx.fifo.len() as u32,
            Reg::Tdfpc => self.tx.fifo.len() as u32,
            _ => match reg.info().access {
                Access::Rc => self.regs.take(reg),
                Access::Wo | Access::Absent => 0,
                _ => self.regs.at(reg, index),
            },
        }
    }

    fn write_register(&mut self, now: Ps, (reg, index): (Reg, usize), value: u32, ports: &mut P) {
        let info = reg.info();
        let masked = value & info.mask;
        match reg {
            Reg::Ctrl | Reg::CtrlDup => self.write_ctrl(now, value, ports),
            Reg::CtrlExt => self.write_ctrl_ext(masked, value),
            Reg::Eecd => self.eeprom.write_eecd(value),
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
                self.register_written(now, reg, ports);
            }
        }
    }

    fn io_address(&mut self) -> &mut u32 {
        &mut self.control.io_address
    }
}

entrances!(Nic, NicPorts);

impl Nic {
    /// What a plain register's new value sets in motion.
    fn register_written(&mut self, now: Ps, reg: Reg, ports: &mut impl NicPorts) {
        match reg {
            Reg::Rdbal | Reg::Rdbah | Reg::Rdlen | Reg::Rdh => self.rx_ring_rewritten(),
            Reg::Tdbal | Reg::Tdbah | Reg::Tdlen | Reg::Tdh => self.tx_ring_rewritten(),
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
                self.tx.queue.doorbells.rung(now, self.regs.get(Reg::Tdt));
                self.tx_advance(now, ports);
            }
            Reg::Txdctl => self.tx_advance(now, ports),
            _ => {}
        }
    }

    fn write_ctrl_ext(&mut self, masked: u32, value: u32) {
        self.regs.set(Reg::CtrlExt, masked & !ctrl_ext::EE_RST);
        if value & ctrl_ext::EE_RST != 0 {
            self.load_eeprom();
        }
    }

    /// Software names the receive part in KiB; the transmit part is what is left.
    fn write_pba(&mut self, receive_kib: u32) {
        let total = (PACKET_BUFFER.0 >> 10) as u32;
        let receive = receive_kib.min(total);
        self.regs.set(Reg::Pba, (total - receive) << 16 | receive);
    }

    /// Whether the transmitter is on and DMA allowed.
    pub(crate) fn transmitter_on(&self) -> bool {
        self.bus_master && self.regs.has(Reg::Tctl, tctl::EN)
    }
}
