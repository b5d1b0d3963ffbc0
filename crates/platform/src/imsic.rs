//! Where harts' interrupt files are in memory: a page for each hart's file of machine mode, and elsewhere one for each of supervisor mode.
//! What a message does there is the hart's affair.
//!
//! Document: The RISC-V Advanced Interrupt Architecture 1.0, chapter "Incoming MSI Controller (IMSIC)", "Memory region for an interrupt
//! file"; the addresses are those of QEMU's `virt` with `aia=aplic-imsic`. Only aligned words are accepted; `seteipnum_be` is not there,
//! as a little-endian system may leave it out.

use doorbell_sim::AccessSize;
use serde::{Deserialize, Serialize};

use crate::registers::{Access, Register, find};

/// The highest identity that a file has; the lowest is 1. The harts' own; here for the device tree.
pub const IDENTITIES: u32 = 255;
/// Bytes from one hart's file to the next.
pub const FILE_BYTES: u64 = 0x1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ImsicRegister {
    SetPendingNumber,
}

/// The register table of a file's page.
pub const REGISTERS: [Register<ImsicRegister>; 1] = [Register::one(
    ImsicRegister::SetPendingNumber,
    "seteipnum_le",
    0,
    4,
    0,
    Access::WriteOnly,
    "AIA, IMSIC",
)];

doorbell_sim::stats! {
    /// What interrupt files' pages count.
    pub struct ImsicStats {
        /// Messages that made an interrupt pending.
        messages,
        /// Messages that named an identity that does not exist.
        unknown_identities,
        /// Messages of the APLIC's to where neither an interrupt file nor RAM is.
        stray_messages,
        /// Accesses to no register, or of a width other than four bytes.
        undefined_accesses,
    }
}

/// A file's place: which hart's, and the register within its page that is accessed; `None` beyond the last hart's.
pub fn file_at(offset: u64, harts: u32) -> Option<(u32, u64)> {
    let hart = offset / FILE_BYTES;
    (hart < u64::from(harts)).then_some((hart as u32, offset % FILE_BYTES))
}

/// Whether a store at this offset of a file's page is a message.
pub fn is_message(offset: u64, size: AccessSize) -> bool {
    size == AccessSize::B4 && find(&REGISTERS, offset, size).is_some()
}

/// What a snapshot keeps beside the harts' own files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImsicState {
    /// The counters.
    pub stats: ImsicStats,
}

impl ImsicState {
    /// The version of this layout.
    pub const VERSION: u32 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_a_harts_and_its_first_word_takes_messages() {
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
