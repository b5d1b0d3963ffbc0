//! Addresses of the harts' interrupt files: one page per hart for machine mode, and another for supervisor
//! mode. The hart model implements the files themselves.
//!
//! Document: The RISC-V Advanced Interrupt Architecture 1.0, chapter "Incoming MSI Controller (IMSIC)",
//! "Memory region for an interrupt file"; the addresses are those of QEMU's `virt` with `aia=aplic-imsic`.
//! Only aligned words are accepted. There is no `seteipnum_be`, which is optional for little-endian systems.

use doorbell_sim::AccessSize;

use crate::registers::{Access, Register, find};

/// The highest identity of a file; the lowest is 1. Defined by the harts, repeated here for the device tree.
pub const IDENTITIES: u32 = 255;
/// Distance between the files of adjacent harts.
pub const FILE_BYTES: u64 = 0x1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ImsicRegister {
    SetPendingNumber,
}

use ImsicRegister as R;

/// The register table of a file's page.
pub const REGISTERS: [Register<ImsicRegister>; 1] =
    [Register::one(R::SetPendingNumber, "seteipnum_le", 0, 4, 0, Access::WriteOnly, "AIA, IMSIC")];

doorbell_sim::stats! {
    /// IMSIC counters.
    pub struct ImsicStats {
        /// Messages that set an interrupt pending.
        messages,
        /// Messages with an identity that does not exist.
        unknown_identities,
        /// Messages of the APLIC to addresses that are neither an interrupt file nor RAM.
        stray_messages,
        /// Accesses to no register, or of a width other than four bytes.
        undefined_accesses,
    }
}

/// The hart whose file is at an offset, and the offset in the file's page; `None` beyond the last hart.
pub fn file_at(offset: u64, harts: u32) -> Option<(u32, u64)> {
    let hart = offset / FILE_BYTES;
    (hart < u64::from(harts)).then_some((hart as u32, offset % FILE_BYTES))
}

/// Whether a store at this offset of a file's page is a message.
pub fn is_message(offset: u64, size: AccessSize) -> bool {
    size == AccessSize::B4 && find(&REGISTERS, offset, size).is_some()
}

/// Version of the saved state: [`ImsicStats`].
pub const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hart_has_a_page_whose_first_word_accepts_messages() {
        assert_eq!(file_at(0, 1), Some((0, 0)));
        assert_eq!(file_at(0x1fff, 2), Some((1, 0xfff)));
        assert_eq!(file_at(0x2000, 2), None);
        let taken = |offset, size| is_message(offset, size);
        assert!(taken(0, AccessSize::B4));
        for (offset, size) in [
            (0, AccessSize::B8),
            (0, AccessSize::B2),
            (4, AccessSize::B4),
            (2, AccessSize::B4),
            (8, AccessSize::B4),
        ] {
            assert!(!taken(offset, size), "{offset} {size:?}");
        }
    }
}
