//! Message signalled interrupts: MSI, with all registers in configuration space, and MSI-X, with its message
//! table and pending bits behind a base address register.
//!
//! Document: PCI Local Bus Specification 3.0, section 6.8. Modelled: 32- and 64-bit addresses, multiple
//! messages, per-vector masks and pending bits, MSI-X's function mask. While either is enabled, the
//! function's interrupt pin is deasserted; if software enables both, which it must not, MSI-X is used. A
//! vector beyond the messages that software has allocated uses the one with its low bits. The table is memory
//! at any access width, including its reserved bits; the pending bits are read-only.
//!
//! A message is a four-byte write by the function on its path to memory; the owner sends it. A masked message
//! stays pending until it is unmasked or the function withdraws it.

use std::ops::Range;

use doorbell_sim::AccessSize;
use doorbell_sim::snapshot::SnapshotError;
use serde::{Deserialize, Serialize};

use crate::config_space::{CONFIG_BYTES, ConfigSpace};
use crate::identity::{Capability, FunctionIdentity};

pub(crate) const MSI_ID: u8 = 0x05;
pub(crate) const MSIX_ID: u8 = 0x11;
/// Offset of the control register of both capabilities.
const CONTROL: usize = 2;
const MSI_ENABLE: u16 = 1 << 0;
/// Messages requested by the function, and messages allocated by software, as powers of two.
const MSI_REQUESTED: u16 = 7 << 1;
const MSI_GRANTED: u16 = 7 << 4;
const MSI_64_BIT: u16 = 1 << 7;
const MSI_MASKS: u16 = 1 << 8;
const MSIX_MASK: u16 = 1 << 14;
const MSIX_ENABLE: u16 = 1 << 15;
/// Bytes per entry of MSI-X's table: address, data, vector control.
pub(crate) const ENTRY_BYTES: u64 = 16;
/// Mask bit in an entry's vector control.
const VECTOR_MASK: u8 = 1 << 0;
const VECTOR_CONTROL: usize = 12;
const PENDING_BITS: u64 = 64;
/// Messages are written as aligned doublewords.
const ADDRESS_MASK: u64 = !3;

/// A message signalled interrupt: a write of data to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The address written to, a multiple of four.
    pub address: u64,
    /// The four bytes written.
    pub data: u32,
}

/// Message state of a function that is not in its configuration space's bytes; also the saved state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagesState {
    /// MSI's pending bits.
    msi: u32,
    /// MSI-X's table, as bytes.
    table: Vec<u8>,
    /// MSI-X's pending bits.
    pending: Vec<u64>,
}

impl MessagesState {
    /// Version of this layout.
    pub const VERSION: u32 = 1;

    /// State after reset: all MSI-X vectors are masked.
    pub(crate) fn new(identity: &FunctionIdentity) -> MessagesState {
        let vectors = identity.msix().map_or(0, |msix| usize::from(msix.vectors));
        let mut entry = [0; ENTRY_BYTES as usize];
        entry[VECTOR_CONTROL] = VECTOR_MASK;
        let pending = vec![0; vectors.div_ceil(PENDING_BITS as usize)];
        MessagesState { msi: 0, table: entry.repeat(vectors), pending }
    }

    fn entry(&self, vector: usize) -> &[u8] {
        let at = vector * ENTRY_BYTES as usize;
        &self.table[at..at + ENTRY_BYTES as usize]
    }

    fn is_pending(&self, vector: usize) -> bool {
        self.pending[vector / PENDING_BITS as usize] >> (vector % PENDING_BITS as usize) & 1 != 0
    }

    fn set_pending(&mut self, vector: usize, pending: bool) {
        let bit = 1 << (vector % PENDING_BITS as usize);
        let bits = &mut self.pending[vector / PENDING_BITS as usize];
        *bits = if pending { *bits | bit } else { *bits & !bit };
    }
}

/// Positions of MSI's registers in configuration space (section 6.8.1).
struct Msi {
    at: usize,
    control: u16,
    data: usize,
    masks: usize,
}

impl Msi {
    fn enabled(&self) -> bool {
        self.control & MSI_ENABLE != 0
    }

    /// Number of messages allocated by software.
    fn granted(&self) -> u32 {
        1 << ((self.control & MSI_GRANTED) >> MSI_GRANTED.trailing_zeros())
    }
}

/// Initializes a capability's registers: reset values and writable bits.
pub(crate) fn lay_out(
    capability: &Capability,
    bytes: &mut [u8; CONFIG_BYTES],
    writable: &mut [u8; CONFIG_BYTES],
) {
    let at = usize::from(capability.offset());
    let put = |bytes: &mut [u8; CONFIG_BYTES], offset: usize, value: u32, len: usize| {
        bytes[at + offset..at + offset + len].copy_from_slice(&value.to_le_bytes()[..len]);
    };
    match *capability {
        Capability::PowerManagement { .. } | Capability::Vendor { .. } => {}
        Capability::Msi { messages, wide, masks, .. } => {
            let requested = (messages.trailing_zeros() as u16) << MSI_REQUESTED.trailing_zeros();
            let shape = if wide { MSI_64_BIT } else { 0 } | if masks { MSI_MASKS } else { 0 };
            let data = if wide { 12 } else { 8 };
            put(bytes, 0, MSI_ID.into(), 1);
            put(bytes, CONTROL, (requested | shape).into(), 2);
            put(writable, CONTROL, (MSI_ENABLE | MSI_GRANTED).into(), 2);
            put(writable, 4, ADDRESS_MASK as u32, 4);
            put(writable, data, 0xffff, 2);
            if wide {
                put(writable, 8, u32::MAX, 4);
            }
            if masks {
                put(writable, data + 4, u32::MAX >> (32 - u32::from(messages)), 4);
            }
        }
        Capability::MsiX(msix) => {
            put(bytes, 0, MSIX_ID.into(), 1);
            put(bytes, CONTROL, u32::from(msix.vectors) - 1, 2);
            put(writable, CONTROL, (MSIX_ENABLE | MSIX_MASK).into(), 2);
            put(bytes, 4, msix.table.1 | u32::from(msix.table.0), 4);
            put(bytes, 8, msix.pending.1 | u32::from(msix.pending.0), 4);
        }
    }
}

impl ConfigSpace {
    fn msi(&self) -> Option<Msi> {
        let is_msi = |capability: &&Capability| matches!(capability, Capability::Msi { .. });
        let at = usize::from(self.identity().capabilities.iter().find(is_msi)?.offset());
        let control = self.half(at + CONTROL);
        let data = if control & MSI_64_BIT != 0 { at + 12 } else { at + 8 };
        Some(Msi { at, control, data, masks: data + 4 })
    }

    /// MSI-X's control register, if the function has MSI-X.
    fn msix_control(&self) -> Option<u16> {
        let at = usize::from(self.identity().msix()?.offset);
        Some(self.half(at + CONTROL))
    }

    fn msix_enabled(&self) -> bool {
        self.msix_control().is_some_and(|control| control & MSIX_ENABLE != 0)
    }

    /// Whether software has enabled messages instead of the interrupt pin.
    pub fn sends_messages(&self) -> bool {
        self.msix_enabled() || self.msi().is_some_and(|msi| msi.enabled())
    }

    /// Raises the function's interrupt `vector`. Returns the message to send now, if messages are enabled; a
    /// masked one becomes pending.
    pub fn raise(&mut self, vector: u16) -> Option<Message> {
        if self.msix_enabled() {
            let vectors = self.identity().msix()?.vectors;
            let vector = usize::from(vector % vectors);
            self.messages.set_pending(vector, true);
            return self.take_msix(vector);
        }
        let msi = self.msi().filter(Msi::enabled)?;
        let vector = u32::from(vector) % msi.granted();
        self.messages.msi |= 1 << vector;
        self.take_msi(&msi, vector)
    }

    /// Withdraws the interrupt of `vector`: a message still pending is not sent (section 6.8.3.4).
    pub fn withdraw(&mut self, vector: u16) {
        if let Some(msix) = self.identity().msix() {
            let vector = usize::from(vector % msix.vectors);
            self.messages.set_pending(vector, false);
        }
        if let Some(msi) = self.msi() {
            self.messages.msi &= !(1 << (u32::from(vector) % msi.granted()));
        }
    }

    /// Returns a pending message that is no longer masked, and clears its pending bit. Call until there is
    /// none.
    pub fn due_message(&mut self) -> Option<Message> {
        if self.msix_enabled() {
            let vectors = usize::from(self.identity().msix()?.vectors);
            return (0..vectors).find_map(|vector| self.take_msix(vector));
        }
        let msi = self.msi().filter(Msi::enabled)?;
        (0..msi.granted()).find_map(|vector| self.take_msi(&msi, vector))
    }

    fn take_msix(&mut self, vector: usize) -> Option<Message> {
        let entry = self.messages.entry(vector);
        let masked = entry[VECTOR_CONTROL] & VECTOR_MASK != 0
            || self.msix_control().is_some_and(|control| control & MSIX_MASK != 0);
        if masked || !self.messages.is_pending(vector) {
            return None;
        }
        let number = |bytes: Range<usize>| {
            entry[bytes].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        let message = Message { address: number(0..8) & ADDRESS_MASK, data: number(8..12) as u32 };
        self.messages.set_pending(vector, false);
        Some(message)
    }

    fn take_msi(&mut self, msi: &Msi, vector: u32) -> Option<Message> {
        let masked = msi.control & MSI_MASKS != 0 && self.word(msi.masks) >> vector & 1 != 0;
        if masked || self.messages.msi >> vector & 1 == 0 {
            return None;
        }
        self.messages.msi &= !(1 << vector);
        let upper = if msi.control & MSI_64_BIT != 0 { self.word(msi.at + 8) } else { 0 };
        let address = u64::from(upper) << 32 | u64::from(self.word(msi.at + 4));
        // The vector number replaces the low bits of the data.
        Some(Message { address, data: u32::from(self.half(msi.data)) & !(msi.granted() - 1) | vector })
    }

    /// A byte of MSI's pending bits, if `at` is one.
    pub(crate) fn msi_pending_byte(&self, at: usize) -> Option<u8> {
        let msi = self.msi().filter(|msi| msi.control & MSI_MASKS != 0)?;
        let index = at.checked_sub(msi.masks + 4)?;
        self.messages.msi.to_le_bytes().get(index).copied()
    }

    /// Limits the allocated messages to the requested number, if software allocates more.
    pub(crate) fn settle_messages(&mut self) {
        let Some(msi) = self.msi().filter(Msi::enabled) else { return };
        let requested = (msi.control & MSI_REQUESTED) >> MSI_REQUESTED.trailing_zeros();
        let granted = (msi.control & MSI_GRANTED) >> MSI_GRANTED.trailing_zeros();
        if granted > requested {
            let control = msi.control & !MSI_GRANTED | requested << MSI_GRANTED.trailing_zeros();
            self.set_half(msi.at + CONTROL, control);
        }
    }

    /// Position of an access in MSI-X's table or pending bits, if it hits them.
    fn vectors_at(&self, bar: u8, offset: u64) -> Option<(Structure, usize)> {
        let msix = self.identity().msix()?;
        let inside = |(own, first): (u8, u32), bytes: u64| {
            let at = offset.checked_sub(first.into()).filter(|at| own == bar && *at < bytes)?;
            Some(at as usize)
        };
        let table = inside(msix.table, msix.table_bytes()).map(|at| (Structure::Table, at));
        table.or_else(|| inside(msix.pending, msix.pending_bytes()).map(|at| (Structure::Pending, at)))
    }

    /// Reads MSI-X's table or pending bits; `None` if the access hits neither.
    pub fn read_vectors(&self, bar: u8, offset: u64, size: AccessSize) -> Option<u64> {
        let (structure, at) = self.vectors_at(bar, offset)?;
        let byte = |at: usize| match structure {
            Structure::Table => self.messages.table.get(at).copied(),
            Structure::Pending => self.messages.pending.get(at / 8).map(|bits| bits.to_le_bytes()[at % 8]),
        };
        let bytes = at..at + size.bytes() as usize;
        Some(bytes.rev().fold(0, |value, at| value << 8 | u64::from(byte(at).unwrap_or(0))))
    }

    /// Writes MSI-X's table; returns whether the access hits the table or the pending bits. The caller must
    /// then send messages that are due.
    pub fn write_vectors(&mut self, bar: u8, offset: u64, size: AccessSize, value: u64) -> bool {
        let Some((structure, at)) = self.vectors_at(bar, offset) else { return false };
        if let Structure::Table = structure {
            let bytes = value.to_le_bytes().into_iter().take(size.bytes() as usize);
            self.messages.table.iter_mut().skip(at).zip(bytes).for_each(|(own, byte)| *own = byte);
        }
        true
    }

    /// Returns the state to save, for functions with messages.
    pub fn save_messages(&self) -> Option<MessagesState> {
        self.identity().has_messages().then(|| self.messages.clone())
    }

    /// Restores a saved state of a function with the same number of vectors.
    pub fn restore_messages(&mut self, state: MessagesState) -> Result<(), SnapshotError> {
        let fresh = MessagesState::new(self.identity());
        let requested = self.msi().map_or(0, |msi| 1 << ((msi.control & MSI_REQUESTED) >> 1));
        let beyond = |state: &MessagesState| u64::from(state.msi) >> requested != 0;
        let vectors = fresh.table.len() / ENTRY_BYTES as usize;
        let spare = |state: &MessagesState| {
            (vectors..64 * state.pending.len()).any(|vector| state.is_pending(vector))
        };
        if state.table.len() != fresh.table.len()
            || state.pending.len() != fresh.pending.len()
            || beyond(&state)
            || spare(&state)
        {
            let problem = "the saved state has different interrupt vectors".to_owned();
            return Err(SnapshotError::Inconsistent { name: "pci function".into(), problem });
        }
        self.messages = state;
        Ok(())
    }
}

/// The structures of MSI-X behind a base address register.
#[derive(Clone, Copy)]
enum Structure {
    Table,
    Pending,
}

#[cfg(test)]
#[path = "messages_tests.rs"]
mod tests;
