//! Control and status registers (privileged manual, chapter "Control and Status Registers"): existing
//! registers, access permissions, and writable bits.

use crate::event_counters::INHIBITABLE;
use crate::hart::{Hart, Privilege};
use crate::pmp::PmpEntry;

/// Bits of `mstatus`.
#[allow(missing_docs)]
pub(crate) mod mstatus {
    pub const SIE: u64 = 1 << 1;
    pub const MIE: u64 = 1 << 3;
    pub const SPIE: u64 = 1 << 5;
    pub const MPIE: u64 = 1 << 7;
    pub const SPP: u64 = 1 << 8;
    pub const MPP: u64 = 3 << 11;
    pub const FS: u64 = 3 << 13;
    pub const MPRV: u64 = 1 << 17;
    pub const SUM: u64 = 1 << 18;
    pub const MXR: u64 = 1 << 19;
    pub const TVM: u64 = 1 << 20;
    pub const TW: u64 = 1 << 21;
    pub const TSR: u64 = 1 << 22;
    pub const UXL: u64 = 3 << 32;
    pub const SD: u64 = 1 << 63;
}
use mstatus as ms;

pub(crate) const MSTATUS_MPP_SHIFT: u32 = 11;
/// UXL = SXL = 64 bits.
pub(crate) const MSTATUS_FIXED: u64 = 2 << 32 | 2 << 34;
const MSTATUS_WRITABLE: u64 = ms::SIE
    | ms::MIE
    | ms::SPIE
    | ms::MPIE
    | ms::SPP
    | ms::FS
    | ms::MPRV
    | ms::SUM
    | ms::MXR
    | ms::TVM
    | ms::TW
    | ms::TSR;
const SSTATUS_WRITABLE: u64 = ms::SIE | ms::SPIE | ms::SPP | ms::FS | ms::SUM | ms::MXR;
const SSTATUS_READABLE: u64 = SSTATUS_WRITABLE | ms::UXL | ms::SD;

const SSIP: u64 = 1 << 1;
const STIP: u64 = 1 << 5;
const SEIP: u64 = 1 << 9;
const S_INTERRUPTS: u64 = SSIP | STIP | SEIP;
const ALL_INTERRUPTS: u64 = S_INTERRUPTS | 1 << 3 | 1 << 7 | 1 << 11;
/// Exceptions that can be delegated: all implemented ones except ECALL from M.
const MEDELEG_WRITABLE: u64 = 0xb3ff;
const ENVCFG_FIOM: u64 = 1;
const MENVCFG_STCE: u64 = 1 << 63;
/// RV64 with I, M, A, F, D, C, S and U.
const MISA: u64 = 2 << 62 | 1 << 8 | 1 << 12 | 1 << 0 | 1 << 5 | 1 << 3 | 1 << 2 | 1 << 18 | 1 << 20;
const COUNTER_CYCLE: u64 = 1;
const COUNTER_TIME: u64 = 2;
const COUNTER_INSTRET: u64 = 4;

/// The access raises an illegal-instruction exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Illegal;

/// Effect of a CSR write beyond the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    /// Interrupt enables, translation or privilege changed.
    Context,
    /// The supervisor timer must be reprogrammed.
    Timer,
}

impl Hart {
    /// Checks whether the hart may access the CSR, by its number and the enables of higher levels.
    fn check_csr(&self, number: u16, write: bool) -> Result<(), Illegal> {
        let lowest = number >> 8 & 3;
        let level = self.privilege as u16;
        let read_only = number >> 10 == 3;
        if level < lowest || (write && read_only) {
            return Err(Illegal);
        }
        let supervisor = self.privilege == Privilege::Supervisor;
        match number {
            0x001..=0x003 if !self.fp_enabled => Err(Illegal),
            0xc00..=0xc1f if self.privilege < Privilege::Machine => {
                let bit = 1u64 << (number & 0x1f);
                let user_blocked = !supervisor && self.csr.scounteren & bit == 0;
                if self.csr.mcounteren & bit == 0 || user_blocked { Err(Illegal) } else { Ok(()) }
            }
            0x14d => {
                let below = self.privilege < Privilege::Machine;
                let open = self.stimecmp_enabled() && self.csr.mcounteren & COUNTER_TIME != 0;
                if !self.config.sstc || (below && !open) { Err(Illegal) } else { Ok(()) }
            }
            0x180 if supervisor && self.csr.mstatus & ms::TVM != 0 => Err(Illegal),
            _ => Ok(()),
        }
    }

    /// Reads a CSR for an instruction that may also write it.
    pub(crate) fn read_csr(&self, number: u16, write: bool) -> Result<u64, Illegal> {
        self.check_csr(number, write)?;
        self.csr_value(number)
    }

    /// A CSR's value, without access checks.
    pub(crate) fn csr_value(&self, number: u16) -> Result<u64, Illegal> {
        let csr = &self.csr;
        Ok(match number {
            0x001 => u64::from(self.fflags),
            0x002 => u64::from(self.frm),
            0x003 => u64::from(self.frm) << 5 | u64::from(self.fflags),
            0x100 => self.mstatus() & SSTATUS_READABLE,
            0x104 => csr.mie & csr.mideleg & S_INTERRUPTS,
            0x105 => csr.stvec,
            0x106 => csr.scounteren,
            0x10a => csr.senvcfg,
            0x140 => csr.sscratch,
            0x141 => csr.sepc,
            0x142 => csr.scause,
            0x143 => csr.stval,
            0x144 => self.mip() & csr.mideleg & S_INTERRUPTS,
            0x14d => csr.stimecmp,
            0x150 | 0x151 | 0x15c | 0x308 | 0x309 | 0x350 | 0x351 | 0x35c | 0xdb0 | 0xfb0 => {
                self.aia_csr(number)?
            }
            0x180 => csr.satp,
            0x300 => self.mstatus(),
            0x301 => MISA,
            0x302 => csr.medeleg,
            0x303 => csr.mideleg,
            0x304 => csr.mie,
            0x305 => csr.mtvec,
            0x306 => csr.mcounteren,
            0x30a => csr.menvcfg,
            0x320 => csr.mcountinhibit,
            0x323..=0x33f | 0xb03..=0xb1f | 0xc03..=0xc1f => self.event_csr(number),
            0x340 => csr.mscratch,
            0x341 => csr.mepc,
            0x342 => csr.mcause,
            0x343 => csr.mtval,
            0x344 => self.mip(),
            0x3a0 | 0x3a2 => self.pmp_config_register(number),
            0x3a4..=0x3ae if number & 1 == 0 => 0,
            0x3b0..=0x3bf => self.pmp[usize::from(number - 0x3b0)].addr,
            0x3c0..=0x3ef => 0,
            0xb00 | 0xc00 => self.counter(COUNTER_CYCLE),
            0xb02 | 0xc02 => self.counter(COUNTER_INSTRET),
            0xc01 => self.time_ticks(self.config.slot_clock.edge(self.slots.wrapping_sub(1))),
            0xf11..=0xf13 | 0xf15 => 0,
            0xf14 => self.config.id as u64,
            _ => return Err(Illegal),
        })
    }

    /// Writes a CSR after [`read_csr`](Hart::read_csr) has permitted the write.
    pub(crate) fn write_csr(&mut self, number: u16, value: u64) -> Effect {
        let csr = &mut self.csr;
        let merge = |old: u64, mask: u64| old & !mask | value & mask;
        match number {
            0x001..=0x003 => {
                match number {
                    0x001 => self.fflags = value as u8 & 0x1f,
                    0x002 => self.frm = value as u8 & 7,
                    _ => (self.fflags, self.frm) = (value as u8 & 0x1f, (value >> 5) as u8 & 7),
                }
                self.dirty_fp();
            }
            0x100 => return self.write_mstatus(SSTATUS_WRITABLE, value),
            0x300 => return self.write_mstatus(MSTATUS_WRITABLE, value),
            0x104 => {
                csr.mie = merge(csr.mie, csr.mideleg & S_INTERRUPTS);
                return Effect::Context;
            }
            0x304 => {
                csr.mie = merge(csr.mie, ALL_INTERRUPTS);
                return Effect::Context;
            }
            0x144 => {
                csr.mip = merge(csr.mip, csr.mideleg & SSIP);
                return Effect::Context;
            }
            0x344 => {
                let writable = self.mip_writable();
                self.csr.mip = self.csr.mip & !writable | value & writable;
                return Effect::Context;
            }
            0x105 => csr.stvec = if value & 2 == 0 { value } else { csr.stvec },
            0x305 => csr.mtvec = if value & 2 == 0 { value } else { csr.mtvec },
            0x106 => csr.scounteren = value & 0xffff_ffff,
            0x306 => csr.mcounteren = value & 0xffff_ffff,
            0x10a => csr.senvcfg = value & ENVCFG_FIOM,
            0x30a => {
                csr.menvcfg = value & (ENVCFG_FIOM | if self.config.sstc { MENVCFG_STCE } else { 0 });
                csr.mip &= !if csr.menvcfg & MENVCFG_STCE != 0 { STIP } else { 0 };
                return Effect::Timer;
            }
            0x140 => csr.sscratch = value,
            0x141 => csr.sepc = value & !1,
            0x142 => csr.scause = value,
            0x143 => csr.stval = value,
            0x14d => {
                csr.stimecmp = value;
                return Effect::Timer;
            }
            0x150 | 0x151 | 0x15c | 0x309 | 0x350 | 0x351 | 0x35c => {
                return self.write_aia_csr(number, value);
            }
            0x180 => return self.write_satp(value),
            0x302 => csr.medeleg = value & MEDELEG_WRITABLE,
            0x303 => {
                csr.mideleg = value & S_INTERRUPTS;
                return Effect::Context;
            }
            0x320 => {
                self.write_mcountinhibit(value & (COUNTER_CYCLE | COUNTER_INSTRET | INHIBITABLE));
            }
            0x323..=0x33f | 0xb03..=0xb1f => self.write_event_csr(number, value),
            0x340 => csr.mscratch = value,
            0x341 => csr.mepc = value & !1,
            0x342 => csr.mcause = value,
            0x343 => csr.mtval = value,
            0x3a0 | 0x3a2 => {
                self.write_pmp_config(number, value);
                return Effect::Context;
            }
            0x3b0..=0x3bf => {
                self.write_pmp_addr(usize::from(number - 0x3b0), value);
                return Effect::Context;
            }
            0xb00 => self.csr.cycle_offset = self.counter_offset(COUNTER_CYCLE, value),
            0xb02 => self.csr.instret_offset = self.counter_offset(COUNTER_INSTRET, value),
            _ => {}
        }
        Effect::None
    }

    /// The bits of `mip` that machine mode can write. With Sstc enabled, STIP is the comparator's output and
    /// read-only.
    pub(crate) fn mip_writable(&self) -> u64 {
        let timer = if self.config.sstc && self.csr.menvcfg & MENVCFG_STCE != 0 { 0 } else { STIP };
        SSIP | timer | SEIP
    }

    /// The full `mstatus`, with SD derived from FS.
    pub(crate) fn mstatus(&self) -> u64 {
        let dirty = if self.csr.mstatus & ms::FS == ms::FS { ms::SD } else { 0 };
        self.csr.mstatus | dirty
    }

    fn write_mstatus(&mut self, mask: u64, value: u64) -> Effect {
        let old = self.csr.mstatus;
        let mut new = old & !mask | value & mask;
        // MPP holds 0, 1 or 3; a write of the reserved 2 keeps the old value.
        if mask & ms::MIE != 0 && Privilege::from_bits(value >> MSTATUS_MPP_SHIFT).is_some() {
            new = new & !ms::MPP | value & ms::MPP;
        }
        self.csr.mstatus = new;
        if (old ^ new) & ms::MXR != 0 {
            self.tlb.flush();
        }
        self.context_changed();
        Effect::Context
    }

    fn write_satp(&mut self, value: u64) -> Effect {
        let supported = match value >> 60 {
            0 | 8 => true,
            9 => self.config.sv48,
            _ => false,
        };
        if !supported || value == self.csr.satp {
            return Effect::None;
        }
        self.csr.satp = value;
        self.tlb.flush();
        Effect::Context
    }

    /// The count that a counter's offset is added to; 0 while the counter is inhibited.
    fn counter_base(&self, which: u64) -> u64 {
        match which {
            _ if self.csr.mcountinhibit & which != 0 => 0,
            COUNTER_CYCLE => self.cycles(),
            _ => self.retired_before(),
        }
    }

    fn counter(&self, which: u64) -> u64 {
        let offset = if which == COUNTER_CYCLE { self.csr.cycle_offset } else { self.csr.instret_offset };
        self.counter_base(which).wrapping_add(offset)
    }

    /// The offset with which a written counter reads `value` at the next instruction: the write replaces the
    /// writing instruction's own increment.
    fn counter_offset(&self, which: u64, value: u64) -> u64 {
        let increment = u64::from(self.csr.mcountinhibit & which == 0);
        value.wrapping_sub(self.counter_base(which)).wrapping_sub(increment)
    }

    /// Stops or resumes counters; their values stay.
    fn write_mcountinhibit(&mut self, inhibit: u64) {
        let [cycles, retired] = [COUNTER_CYCLE, COUNTER_INSTRET].map(|which| self.counter(which));
        self.events.inhibit(self.csr.mcountinhibit, inhibit);
        self.csr.mcountinhibit = inhibit;
        self.csr.cycle_offset = cycles.wrapping_sub(self.counter_base(COUNTER_CYCLE));
        self.csr.instret_offset = retired.wrapping_sub(self.counter_base(COUNTER_INSTRET));
    }

    /// Cycles before the running CSR instruction.
    fn cycles(&self) -> u64 {
        self.config.cycle_clock.edge_at_or_before(self.config.slot_clock.edge(self.slots.wrapping_sub(1)))
    }

    /// Instructions retired before the running CSR instruction, which the block has already counted.
    pub(crate) fn retired_before(&self) -> u64 {
        self.instret.wrapping_sub(1)
    }

    /// Marks the floating-point state as dirty.
    #[inline(always)]
    pub(crate) fn dirty_fp(&mut self) {
        self.csr.mstatus |= ms::FS;
    }

    fn pmp_config_register(&self, number: u16) -> u64 {
        let first = usize::from(number - 0x3a0) * 4;
        (0..8).fold(0, |value, i| value | u64::from(self.pmp[first + i].config) << (8 * i))
    }

    fn write_pmp_config(&mut self, number: u16, value: u64) {
        let first = usize::from(number - 0x3a0) * 4;
        for i in 0..8 {
            let config = (value >> (8 * i)) as u8 & PmpEntry::CONFIG_WRITABLE;
            let entry = &mut self.pmp[first + i];
            // Write without read permission is reserved; a locked entry keeps its value until reset.
            if !entry.locked() && config & 3 != 2 {
                entry.config = config;
            }
        }
        self.pmp_changed();
    }

    fn write_pmp_addr(&mut self, index: usize, value: u64) {
        let locked_by_next =
            self.pmp.get(index + 1).is_some_and(|next| next.locked() && next.is_top_of_range());
        if !self.pmp[index].locked() && !locked_by_next {
            self.pmp[index].addr = value & PmpEntry::ADDR_WRITABLE;
        }
        self.pmp_changed();
    }
}
