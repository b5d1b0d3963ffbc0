//! How cores reach a chip's registers: through a window in memory, and through one of I/O ports with an address and a data register.
//!
//! Registers are 32 bits wide. Other accesses are counted and have this result: a 64-bit access is two of 32 bits, the low one first;
//! a narrower one uses the byte lanes of the word that its first byte lies in. A narrow read has the word's read effects; a narrow
//! write keeps the word's other bytes as they are stored, and presents zeros there to a register on whose bits writing acts.

use std::fmt;

use doorbell_sim::{AccessSize, Ps, log};

use super::queues::{QueueId, Queues};
use super::registers::RegisterId;

/// Offsets in the I/O window.
const IO_ADDRESS: u64 = 0;
const IO_DATA: u64 = 4;

/// A register as the manual calls it, for the log.
struct Named<R>(R, usize);

impl<R: RegisterId> fmt::Display for Named<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = &R::TABLE[self.0.row()];
        if info.count == 1 { f.write_str(info.name) } else { write!(f, "{}[{}]", info.name, self.1) }
    }
}

/// A chip's register, and which of an array.
type At<C> = (<<C as Queues>::Queue as QueueId>::Reg, usize);

/// A chip with such windows. `P` is what it meets.
pub(crate) trait Windows<P>: Queues {
    /// The register at a byte offset that is a multiple of four.
    fn lookup(offset: u64) -> Option<At<Self>>;
    /// The bytes of a register that a narrow write leaves alone.
    fn stored(&self, register: At<Self>) -> u32;
    /// A core reads a register.
    fn read_register(&mut self, now: Ps, register: At<Self>, ports: &mut P) -> u32;
    /// A core writes a register.
    fn write_register(&mut self, now: Ps, register: At<Self>, value: u32, ports: &mut P);
    /// The I/O window's address register.
    fn io_address(&mut self) -> &mut u32;

    /// A core reads from the memory window.
    fn mmio_read(&mut self, now: Ps, offset: u64, size: AccessSize, ports: &mut P) -> u64 {
        self.counters().register_accesses += 1;
        if size == AccessSize::B4 && offset.is_multiple_of(4) {
            return self.read_word(now, offset, ports).into();
        }
        self.counters().odd_accesses += 1;
        let word = offset & !3;
        let shift = 8 * (offset & 3);
        let low = u64::from(self.read_word(now, word, ports)) >> shift;
        if size != AccessSize::B8 {
            return low & size.mask();
        }
        low | u64::from(self.read_word(now, word.wrapping_add(4), ports)) << (32 - shift)
    }

    /// A core writes to the memory window.
    fn mmio_write(&mut self, now: Ps, offset: u64, size: AccessSize, value: u64, ports: &mut P) {
        self.counters().register_accesses += 1;
        if size == AccessSize::B4 && offset.is_multiple_of(4) {
            return self.write_word(now, offset, value as u32, ports);
        }
        self.counters().odd_accesses += 1;
        let word = offset & !3;
        let shift = 8 * (offset & 3);
        if size == AccessSize::B8 && shift == 0 {
            self.write_word(now, word, value as u32, ports);
            return self.write_word(now, word.wrapping_add(4), (value >> 32) as u32, ports);
        }
        let lanes = (size.mask().min(u64::from(u32::MAX)) << shift) as u32;
        let stored = Self::lookup(word).map_or(0, |register| self.stored(register));
        self.write_word(now, word, stored & !lanes | (value << shift) as u32 & lanes, ports);
    }

    /// A core reads from the I/O window.
    fn io_read(&mut self, now: Ps, offset: u64, size: AccessSize, ports: &mut P) -> u64 {
        let address = *self.io_address();
        match (offset, size) {
            (IO_ADDRESS, AccessSize::B4) => address.into(),
            (IO_DATA, AccessSize::B4) => self.mmio_read(now, address.into(), AccessSize::B4, ports),
            _ => {
                self.counters().odd_accesses += 1;
                0
            }
        }
    }

    /// A core writes to the I/O window.
    fn io_write(&mut self, now: Ps, offset: u64, size: AccessSize, value: u64, ports: &mut P) {
        match (offset, size) {
            // The window reaches the registers; the low bits of the address do not exist.
            (IO_ADDRESS, AccessSize::B4) => *self.io_address() = value as u32 & 0x000f_fffc,
            (IO_DATA, AccessSize::B4) => {
                let address = *self.io_address();
                self.mmio_write(now, address.into(), AccessSize::B4, value, ports);
            }
            _ => self.counters().odd_accesses += 1,
        }
    }

    /// A core reads a whole word.
    fn read_word(&mut self, now: Ps, offset: u64, ports: &mut P) -> u32 {
        let Some(register) = Self::lookup(offset) else {
            self.counters().unknown_reads += 1;
            log!(now, Nic, Warn, "{}: read of no register at {offset:#x}", self.called());
            return 0;
        };
        let value = self.read_register(now, register, ports);
        log!(now, Nic, Trace, "{}: read {} = {value:#010x}", self.called(), Named(register.0, register.1));
        value
    }

    /// A core writes a whole word.
    fn write_word(&mut self, now: Ps, offset: u64, value: u32, ports: &mut P) {
        let Some(register) = Self::lookup(offset) else {
            self.counters().unknown_writes += 1;
            log!(now, Nic, Warn, "{}: write of {value:#x} to no register at {offset:#x}", self.called());
            return;
        };
        log!(now, Nic, Trace, "{}: write {} = {value:#010x}", self.called(), Named(register.0, register.1));
        self.write_register(now, register, value, ports);
    }
}

/// What parts do for a chip at its outside as the chip's own methods, for whoever is outside of this crate.
macro_rules! entrances {
    ($chip:ty, $ports:ident) => {
        impl $chip {
            /// A core reads from the memory window, BAR 0.
            pub fn mmio_read(
                &mut self,
                now: Ps,
                offset: u64,
                size: AccessSize,
                ports: &mut impl $ports,
            ) -> u64 {
                Windows::mmio_read(self, now, offset, size, ports)
            }

            /// A core writes to the memory window.
            pub fn mmio_write(
                &mut self,
                now: Ps,
                offset: u64,
                size: AccessSize,
                value: u64,
                ports: &mut impl $ports,
            ) {
                Windows::mmio_write(self, now, offset, size, value, ports);
            }

            /// A core reads from the I/O window, BAR 2.
            pub fn io_read(
                &mut self,
                now: Ps,
                offset: u64,
                size: AccessSize,
                ports: &mut impl $ports,
            ) -> u64 {
                Windows::io_read(self, now, offset, size, ports)
            }

            /// A core writes to the I/O window.
            pub fn io_write(
                &mut self,
                now: Ps,
                offset: u64,
                size: AccessSize,
                value: u64,
                ports: &mut impl $ports,
            ) {
                Windows::io_write(self, now, offset, size, value, ports);
            }

            /// A request that the port answered with [`Done::Later`](doorbell_sim::Done::Later) is done.
            pub fn dma_done(&mut self, now: Ps, token: u64, ports: &mut impl $ports) {
                $crate::parts::requests::Requests::dma_done(self, now, token, ports);
            }
        }
    };
}
pub(crate) use entrances;
