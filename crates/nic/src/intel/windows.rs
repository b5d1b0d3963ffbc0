//! Register access by cores: the memory window (BAR 0), and the I/O window with an address and a data
//! register (BAR 2).
//!
//! Registers are 32 bits wide. Accesses of other widths, or not aligned to 4 bytes, are counted. A 64-bit
//! access becomes two 32-bit accesses, low word first. A narrower access uses the byte lanes of the word that
//! contains its first byte. A narrow read has the read side effects of the whole word. A narrow write
//! preserves the stored values of the other bytes; registers that act on written ones receive zeros there.

use doorbell_pcie::FunctionPorts;
use std::fmt;

use doorbell_sim::{AccessSize, Ps, log};

use super::{Chip, Controller};
use crate::parts::registers::RegisterId;

/// Offsets in the I/O window.
const IO_ADDRESS: u64 = 0;
const IO_DATA: u64 = 4;

/// Formats the manual's name of a register for the log.
struct RegisterName<R>(R, usize);

impl<R: RegisterId> fmt::Display for RegisterName<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = &R::TABLE[self.0.row()];
        if info.count == 1 { f.write_str(info.name) } else { write!(f, "{}[{}]", info.name, self.1) }
    }
}

impl<C: Chip> Controller<C> {
    /// Handles a core's read from the memory window.
    pub fn mmio_read(
        &mut self,
        now: Ps,
        offset: u64,
        size: AccessSize,
        ports: &mut dyn FunctionPorts,
    ) -> u64 {
        self.stats.register_accesses += 1;
        if size == AccessSize::B4 && offset.is_multiple_of(4) {
            return self.read_word(now, offset, ports).into();
        }
        self.stats.odd_accesses += 1;
        let word = offset & !3;
        let shift = 8 * (offset & 3);
        let low = u64::from(self.read_word(now, word, ports)) >> shift;
        if size != AccessSize::B8 {
            return low & size.mask();
        }
        low | u64::from(self.read_word(now, word.wrapping_add(4), ports)) << (32 - shift)
    }

    /// Handles a core's write to the memory window.
    pub fn mmio_write(
        &mut self,
        now: Ps,
        offset: u64,
        size: AccessSize,
        value: u64,
        ports: &mut dyn FunctionPorts,
    ) {
        self.stats.register_accesses += 1;
        if size == AccessSize::B4 && offset.is_multiple_of(4) {
            return self.write_word(now, offset, value as u32, ports);
        }
        self.stats.odd_accesses += 1;
        let word = offset & !3;
        let shift = 8 * (offset & 3);
        if size == AccessSize::B8 && shift == 0 {
            self.write_word(now, word, value as u32, ports);
            return self.write_word(now, word.wrapping_add(4), (value >> 32) as u32, ports);
        }
        let lanes = (size.mask().min(u64::from(u32::MAX)) << shift) as u32;
        let stored = C::lookup(word).map_or(0, |register| C::stored(self, register));
        self.write_word(now, word, stored & !lanes | (value << shift) as u32 & lanes, ports);
    }

    /// Handles a core's read from the I/O window.
    pub fn io_read(&mut self, now: Ps, offset: u64, size: AccessSize, ports: &mut dyn FunctionPorts) -> u64 {
        let address = self.indirect.io_address;
        match (offset, size) {
            (IO_ADDRESS, AccessSize::B4) => address.into(),
            (IO_DATA, AccessSize::B4) => self.mmio_read(now, address.into(), AccessSize::B4, ports),
            _ => {
                self.stats.odd_accesses += 1;
                0
            }
        }
    }

    /// Handles a core's write to the I/O window.
    pub fn io_write(
        &mut self,
        now: Ps,
        offset: u64,
        size: AccessSize,
        value: u64,
        ports: &mut dyn FunctionPorts,
    ) {
        match (offset, size) {
            // The address covers the register range; its two low bits are hard-wired to zero.
            (IO_ADDRESS, AccessSize::B4) => self.indirect.io_address = value as u32 & 0x000f_fffc,
            (IO_DATA, AccessSize::B4) => {
                let address = self.indirect.io_address;
                self.mmio_write(now, address.into(), AccessSize::B4, value, ports);
            }
            _ => self.stats.odd_accesses += 1,
        }
    }

    /// Reads a 32-bit register with its side effects.
    fn read_word(&mut self, now: Ps, offset: u64, ports: &mut dyn FunctionPorts) -> u32 {
        let Some(register) = C::lookup(offset) else {
            self.stats.unknown_reads += 1;
            log!(now, Nic, Warn, "{}: read from unknown register offset {offset:#x}", self.name);
            return 0;
        };
        let value = C::read(self, now, register, ports);
        log!(now, Nic, Trace, "{}: read {} = {value:#010x}", self.name, RegisterName(register.0, register.1));
        value
    }

    /// Writes a 32-bit register with its side effects.
    fn write_word(&mut self, now: Ps, offset: u64, value: u32, ports: &mut dyn FunctionPorts) {
        let Some(register) = C::lookup(offset) else {
            self.stats.unknown_writes += 1;
            log!(now, Nic, Warn, "{}: write of {value:#x} to unknown register offset {offset:#x}", self.name);
            return;
        };
        log!(
            now,
            Nic,
            Trace,
            "{}: write {} = {value:#010x}",
            self.name,
            RegisterName(register.0, register.1)
        );
        C::write(self, now, register, value, ports);
    }
}
