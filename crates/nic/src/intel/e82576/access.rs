//! Effects of register accesses (§8). The machine implements the MSI-X table in BAR 3.

use doorbell_pcie::FunctionPorts;
use doorbell_sim::Ps;

use super::bits::{ctrl, ctrl_ext, dctl, status, swsm};
use super::regs::{Access, Reg};
use super::{E82576, Igb};
use crate::intel::Queue;
use crate::intel::chip::{At, Chip as _};
use crate::intel::counters::halves;

impl Igb {
    /// Returns the bits that a narrow write preserves.
    pub(super) fn stored(&self, (reg, index): At<E82576>) -> u32 {
        match reg {
            Reg::CtrlDup => self.regs.get(Reg::Ctrl),
            Reg::Eec => self.chip.nvm.read_eec(),
            Reg::Ims | Reg::Eims => 0,
            _ if reg.info().access == Access::Rw => self.regs.at(reg, index),
            _ => 0,
        }
    }

    pub(super) fn read_register(
        &mut self,
        now: Ps,
        (reg, index): At<E82576>,
        ports: &mut dyn FunctionPorts,
    ) -> u32 {
        match reg {
            Reg::CtrlDup => self.regs.get(Reg::Ctrl),
            Reg::Status => self.read_status(),
            Reg::Eec => self.chip.nvm.read_eec(),
            Reg::Eerd => self.read_eerd(now),
            Reg::Swsm => self.read_swsm(),
            Reg::Icr => self.read_icr(now, ports),
            Reg::Imc => self.regs.get(Reg::Ims),
            Reg::Eicr => self.read_eicr(now, ports),
            Reg::Rdfpc => self.rx.fifo.len() as u32,
            Reg::Tdfpc => self.tx.fifo.len() as u32,
            Reg::DcaId => self.requester.into(),
            _ => match reg.info().access {
                Access::Rc => {
                    let [a, b, c, d] = halves(&E82576::REG);
                    let own = [(Reg::Hgorch, Reg::Hgorcl), (Reg::Hgotch, Reg::Hgotcl)];
                    self.regs.take_counter(reg, index, &[a, b, c, d, own[0], own[1]])
                }
                Access::Wo | Access::Absent => 0,
                _ => self.regs.at(reg, index),
            },
        }
    }

    pub(super) fn write_register(
        &mut self,
        now: Ps,
        (reg, index): At<E82576>,
        value: u32,
        ports: &mut dyn FunctionPorts,
    ) {
        let info = reg.info();
        let masked = value & info.mask;
        match reg {
            Reg::Ctrl | Reg::CtrlDup => self.write_ctrl(now, value, ports),
            Reg::CtrlExt => self.write_ctrl_ext(now, masked, value),
            Reg::Eec => self.chip.nvm.write_eec(value),
            Reg::Eerd => self.write_eerd(now, value),
            Reg::Mdic => self.write_mdic(now, value, ports),
            Reg::Ics
            | Reg::Icr
            | Reg::Ims
            | Reg::Imc
            | Reg::Eics
            | Reg::Eicr
            | Reg::Eims
            | Reg::Eimc
            | Reg::Gpie => {
                self.write_interrupts(now, reg, masked, ports);
            }
            Reg::Rxdctl | Reg::Txdctl => self.write_queue_control(now, reg, index, masked, ports),
            _ => {
                match info.access {
                    Access::Rw => self.regs.set_at(reg, index, masked),
                    Access::W1c => self.regs.set_at(reg, index, self.regs.at(reg, index) & !masked),
                    Access::Ro | Access::Rc | Access::RcW1c | Access::Wo | Access::Absent => return,
                }
                self.register_written(now, reg, index, ports);
            }
        }
    }

    /// Reads STATUS. In the model no master requests are pending once software has disabled them.
    fn read_status(&self) -> u32 {
        let may_start = self.regs.get(Reg::Ctrl) & ctrl::GIO_MASTER_DISABLE == 0;
        self.link_status() | if may_start { status::GIO_MASTER_ENABLE } else { 0 }
    }

    /// Reads SWSM, the software semaphore: sets SMBI and returns its previous value.
    fn read_swsm(&mut self) -> u32 {
        let value = self.regs.get(Reg::Swsm);
        self.regs.set(Reg::Swsm, value | swsm::SMBI);
        value
    }

    fn write_interrupts(&mut self, now: Ps, reg: Reg, masked: u32, ports: &mut dyn FunctionPorts) {
        if reg == Reg::Eicr {
            self.acknowledge_extended(masked);
        }
        let current = |of: Reg| self.regs.get(of);
        let (target, value) = match reg {
            Reg::Ics => return self.set_cause(now, masked, ports),
            Reg::Eics => return self.write_eics(now, masked, ports),
            Reg::Ims => return self.write_ims(now, masked, ports),
            Reg::Imc => (Reg::Ims, current(Reg::Ims) & !masked),
            Reg::Eims => (Reg::Eims, current(Reg::Eims) | masked & self.extended_causes()),
            Reg::Eimc => (Reg::Eims, current(Reg::Eims) & !masked),
            Reg::Icr | Reg::Eicr => (reg, current(reg) & !masked),
            _ => (reg, masked),
        };
        self.write_interrupt_register(now, target, value, ports);
    }

    /// Applies the side effects of a new value in a plain register.
    fn register_written(&mut self, now: Ps, reg: Reg, index: usize, ports: &mut dyn FunctionPorts) {
        match reg {
            Reg::Rdbal | Reg::Rdbah | Reg::Rdlen | Reg::Rdh => self.rx_ring_rewritten(index),
            Reg::Tdbal | Reg::Tdbah | Reg::Tdlen | Reg::Tdh => self.tx_ring_rewritten(index),
            Reg::Rdt | Reg::Srrctl => self.rx_advance(now, ports),
            Reg::Rctl => {
                self.rx_advance(now, ports);
                self.tx_advance(now, ports);
            }
            Reg::Tctl => {
                self.software_xoff(now, ports);
                self.tx_advance(now, ports);
            }
            Reg::Tdt => {
                self.tx.queues[index].doorbells.record(now, self.regs.at(Reg::Tdt, index));
                self.tx.queues[index].doorbell_hart = self.writer;
                self.tx_advance(now, ports);
            }
            Reg::Eitr => self.update_irq(now, ports),
            Reg::Rssrk => self.chip.hash.invalidate(),
            _ => self.warn_unsupported(now, reg, index),
        }
    }

    /// Handles a write to RXDCTL or TXDCTL. Enabling or disabling a queue discards its descriptors and
    /// restarts it at its head.
    fn write_queue_control(
        &mut self,
        now: Ps,
        reg: Reg,
        queue: usize,
        masked: u32,
        ports: &mut dyn FunctionPorts,
    ) {
        let before = self.regs.at(reg, queue);
        self.regs.set_at(reg, queue, masked & !dctl::FLUSH);
        self.on = E82576::queues_on(&self.regs);
        let switched = (before ^ masked) & dctl::ENABLE != 0;
        let flushed = masked & dctl::FLUSH != 0;
        let of = if reg == Reg::Rxdctl { Queue::receive(queue) } else { Queue::transmit(queue) };
        if switched {
            match of {
                Queue::Receive(_) => self.rx_ring_rewritten(queue),
                Queue::Transmit(_) => self.tx_ring_rewritten(queue),
            }
        } else if flushed {
            self.flush(now, of, ports);
        }
        match of {
            Queue::Receive(_) => self.rx_advance(now, ports),
            Queue::Transmit(_) => self.tx_advance(now, ports),
        }
    }

    fn write_ctrl_ext(&mut self, now: Ps, masked: u32, value: u32) {
        self.regs.set(Reg::CtrlExt, masked & !ctrl_ext::EE_RST);
        self.warn_unsupported(now, Reg::CtrlExt, 0);
        if value & ctrl_ext::EE_RST != 0 {
            self.load_station();
        }
    }
}
