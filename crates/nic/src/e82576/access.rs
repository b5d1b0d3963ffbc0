//! The cores' accesses: registers in BAR 0 (§8.1) and the I/O window in BAR 2. The table of MSI-X in BAR 3 is the machine's.
//!
//! Registers are 32 bits wide. Other accesses are counted and have this result: a 64-bit access is two of 32 bits, the low one
//! first; a narrower one uses the byte lanes of the word that its first byte lies in. A narrow read has the word's read effects;
//! a narrow write keeps the word's other bytes as they are stored, and presents zeros there to a register on whose bits writing
//! acts.

use std::fmt;

use doorbell_sim::{AccessSize, Ps, log};

use super::bits::{ctrl_ext, dctl, tctl};
use super::regs::{self, Access, Reg};
use super::{Igb, IgbPorts, Queue};

/// Offsets in the I/O window.
const IO_ADDRESS: u64 = 0;
const IO_DATA: u64 = 4;

/// A register as the manual calls it, for the log.
struct Named(Reg, usize);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.0.info();
        if info.count == 1 { f.write_str(info.name) } else { write!(f, "{}[{}]", info.name, self.1) }
    }
}

fn lookup(offset: u64) -> Option<(Reg, usize)> {
    regs::lookup(regs::canonical(offset))
}

impl Igb {
    /// A core reads from BAR 0.
    pub fn mmio_read(&mut self, now: Ps, offset: u64, size: AccessSize, ports: &mut impl IgbPorts) -> u64 {
        self.stats.register_accesses += 1;
        if size == AccessSize::B4 && offset.is_multiple_of(4) {
            return self.read_register(now, offset, ports).into();
        }
        self.stats.odd_accesses += 1;
        let word = offset & !3;
        let shift = 8 * (offset & 3);
        let low = u64::from(self.read_register(now, word, ports)) >> shift;
        if size != AccessSize::B8 {
            return low & size.mask();
        }
        low | u64::from(self.read_register(now, word.wrapping_add(4), ports)) << (32 - shift)
    }

    /// A core writes to BAR 0.
    pub fn mmio_write(
        &mut self,
        now: Ps,
        offset: u64,
        size: AccessSize,
        value: u64,
        ports: &mut impl IgbPorts,
    ) {
        self.stats.register_accesses += 1;
        if size == AccessSize::B4 && offset.is_multiple_of(4) {
            return self.write_register(now, offset, value as u32, ports);
        }
        self.stats.odd_accesses += 1;
        let word = offset & !3;
        let shift = 8 * (offset & 3);
        if size == AccessSize::B8 && shift == 0 {
            self.write_register(now, word, value as u32, ports);
            return self.write_register(now, word.wrapping_add(4), (value >> 32) as u32, ports);
        }
        let lanes = (size.mask().min(u64::from(u32::MAX)) << shift) as u32;
        let merged = self.stored_word(word) & !lanes | (value << shift) as u32 & lanes;
        self.write_register(now, word, merged, ports);
    }

    /// The bytes that a narrow write leaves alone.
    fn stored_word(&self, offset: u64) -> u32 {
        match lookup(offset) {
            Some((Reg::CtrlDup, _)) => self.regs.get(Reg::Ctrl),
            Some((Reg::Eec, _)) => self.nvm.read_eec(),
            Some((Reg::Ims | Reg::Eims, _)) => 0,
            Some((reg, index)) if reg.info().access == Access::Rw => self.regs.at(reg, index),
            _ => 0,
        }
    }

    /// A core reads from BAR 2.
    pub fn io_read(&mut self, now: Ps, offset: u64, size: AccessSize, ports: &mut impl IgbPorts) -> u64 {
        match (offset, size) {
            (IO_ADDRESS, AccessSize::B4) => self.control.io_address.into(),
            (IO_DATA, AccessSize::B4) => {
                self.mmio_read(now, u64::from(self.control.io_address), AccessSize::B4, ports)
            }
            _ => {
                self.stats.odd_accesses += 1;
                0
            }
        }
    }

    /// A core writes to BAR 2.
    pub fn io_write(
        &mut self,
        now: Ps,
        offset: u64,
        size: AccessSize,
        value: u64,
        ports: &mut impl IgbPorts,
    ) {
        match (offset, size) {
            // The window reaches the registers; the low bits of the address do not exist.
            (IO_ADDRESS, AccessSize::B4) => self.control.io_address = value as u32 & 0x000f_fffc,
            (IO_DATA, AccessSize::B4) => {
                self.mmio_write(now, u64::from(self.control.io_address), AccessSize::B4, value, ports);
            }
            _ => self.stats.odd_accesses += 1,
        }
    }

    fn read_register(&mut self, now: Ps, offset: u64, ports: &mut impl IgbPorts) -> u32 {
        let Some((reg, index)) = lookup(offset) else {
            self.stats.unknown_reads += 1;
            log!(now, Nic, Warn, "{}: read of no register at {offset:#x}", self.name);
            return 0;
        };
        let value = self.read_known(now, reg, index, ports);
        log!(now, Nic, Trace, "{}: read {} = {value:#010x}", self.name, Named(reg, index));
        value
    }

    fn read_known(&mut self, now: Ps, reg: Reg, index: usize, ports: &mut impl IgbPorts) -> u32 {
        match reg {
            Reg::CtrlDup => self.regs.get(Reg::Ctrl),
            Reg::Status => self.read_status(),
            Reg::Eec => self.nvm.read_eec(),
            Reg::Eerd => self.read_eerd(now),
            Reg::Swsm => self.read_swsm(),
            Reg::Icr => self.read_icr(now, ports),
            Reg::Eicr => self.read_eicr(now, ports),
            Reg::Rdfpc => self.rx.fifo.len() as u32,
            Reg::Tdfpc => self.tx.fifo.len() as u32,
            _ => match reg.info().access {
                Access::Rc => self.regs.take_counter(reg, index),
                Access::Wo | Access::Absent => 0,
                _ => self.regs.at(reg, index),
            },
        }
    }

    fn write_register(&mut self, now: Ps, offset: u64, value: u32, ports: &mut impl IgbPorts) {
        let Some((reg, index)) = lookup(offset) else {
            self.stats.unknown_writes += 1;
            log!(now, Nic, Warn, "{}: write of {value:#x} to no register at {offset:#x}", self.name);
            return;
        };
        log!(now, Nic, Trace, "{}: write {} = {value:#010x}", self.name, Named(reg, index));
        let info = reg.info();
        let masked = value & info.mask;
        match reg {
            Reg::Ctrl | Reg::CtrlDup => self.write_ctrl(now, value, ports),
            Reg::CtrlExt => self.write_ctrl_ext(masked, value),
            Reg::Eec => self.nvm.write_eec(value),
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

    fn write_interrupts(&mut self, now: Ps, reg: Reg, masked: u32, ports: &mut impl IgbPorts) {
        let held = |of: Reg| self.regs.get(of);
        let (to, value) = match reg {
            Reg::Ics => return self.set_cause(now, masked, ports),
            Reg::Eics => return self.write_eics(now, masked, ports),
            Reg::Ims => return self.write_ims(now, masked, ports),
            Reg::Imc => (Reg::Ims, held(Reg::Ims) & !masked),
            Reg::Eims => (Reg::Eims, held(Reg::Eims) | masked),
            Reg::Eimc => (Reg::Eims, held(Reg::Eims) & !masked),
            Reg::Icr | Reg::Eicr => (reg, held(reg) & !masked),
            _ => (reg, masked),
        };
        self.write_interrupt_register(now, to, value, ports);
    }

    /// What a plain register's new value sets in motion.
    fn register_written(&mut self, now: Ps, reg: Reg, index: usize, ports: &mut impl IgbPorts) {
        match reg {
            Reg::Rdbal | Reg::Rdbah | Reg::Rdlen | Reg::Rdh => self.rx_ring_rewritten(index),
            Reg::Tdbal | Reg::Tdbah | Reg::Tdlen | Reg::Tdh => self.tx_ring_rewritten(index),
            Reg::Rdt | Reg::Srrctl => self.rx_advance(now, ports),
            Reg::Rctl => {
                self.rx_advance(now, ports);
                self.tx_advance(now, ports);
            }
            Reg::Tctl => self.tx_advance(now, ports),
            Reg::Tdt => {
                self.tx.queues[index].doorbells.rung(now, self.regs.at(Reg::Tdt, index));
                self.tx_advance(now, ports);
            }
            Reg::Eitr => self.update_irq(now, ports),
            Reg::Rssrk => self.rx.hash.forget(),
            _ => {}
        }
    }

    /// RXDCTL or TXDCTL: a queue that is switched on or off begins at its head, and what it held is lost.
    fn write_queue_control(
        &mut self,
        now: Ps,
        reg: Reg,
        queue: usize,
        masked: u32,
        ports: &mut impl IgbPorts,
    ) {
        let before = self.regs.at(reg, queue);
        self.regs.set_at(reg, queue, masked & !dctl::FLUSH);
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
        self.advance(now, of, ports);
    }

    fn write_ctrl_ext(&mut self, masked: u32, value: u32) {
        self.regs.set(Reg::CtrlExt, masked & !ctrl_ext::EE_RST);
        if value & ctrl_ext::EE_RST != 0 {
            let (low, high) = crate::parts::filter::station_entry(self.nvm.mac());
            self.regs.set_at(Reg::Ral, 0, low);
            self.regs.set_at(Reg::Rah, 0, high);
        }
    }

    /// Whether the transmitter is on and DMA allowed.
    pub(super) fn transmitter_on(&self) -> bool {
        self.bus_master && self.regs.has(Reg::Tctl, tctl::EN)
    }
}
