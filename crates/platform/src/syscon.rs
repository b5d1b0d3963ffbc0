//! The power switch of QEMU's `virt`: SiFive's "test finisher", which the device tree also describes as a
//! syscon with poweroff and reboot values.
//!
//! Modelled: one 32-bit register. The low half of a written value is the command, the high half the exit code
//! of a failure. It reads as zero. Writes of 2 and 4 bytes take effect, as on QEMU.

use doorbell_sim::AccessSize;
use serde::{Deserialize, Serialize};

use crate::registers::{Access, Register, find};

/// The command that powers off with success.
pub const PASS: u32 = 0x5555;
/// The command that powers off with a failure code in the high half.
pub const FAIL: u32 = 0x3333;
/// The command that resets the machine.
pub const RESET: u32 = 0x7777;

/// The register table.
pub const REGISTERS: [Register<()>; 1] =
    [Register::one((), "finisher", 0, 4, 0, Access::WriteOnly, "SiFive test finisher")];

/// A power action requested by the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Power off; code 0 is success.
    PowerOff {
        /// The guest's exit code.
        code: u16,
    },
    /// Reset.
    Reset,
}

doorbell_sim::stats! {
    /// Power switch counters.
    pub struct SysconStats {
        /// Writes of an unknown command.
        unknown_commands,
        /// Accesses outside the register or of an undefined width.
        undefined_accesses,
    }
}

/// The device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Syscon {
    /// The counters.
    pub stats: SysconStats,
}

impl Syscon {
    /// Version of the saved state, which is the device itself.
    pub const VERSION: u32 = 1;

    /// Reads as zero everywhere.
    pub fn read(&mut self, offset: u64, size: AccessSize) -> u64 {
        if find(&REGISTERS, offset, size).is_none() {
            self.stats.undefined_accesses += 1;
        }
        0
    }

    /// Decodes a command; the machine performs the action.
    pub fn write(&mut self, offset: u64, size: AccessSize, value: u64) -> Option<Action> {
        if offset != 0 || !matches!(size, AccessSize::B2 | AccessSize::B4) {
            self.stats.undefined_accesses += 1;
            return None;
        }
        let value = (value & size.mask()) as u32;
        let code = (value >> 16) as u16;
        match value & 0xffff {
            PASS => Some(Action::PowerOff { code: 0 }),
            FAIL => Some(Action::PowerOff { code }),
            RESET => Some(Action::Reset),
            _ => {
                self.stats.unknown_commands += 1;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AccessSize::{B1, B2, B4, B8};

    #[test]
    fn the_three_commands_work_and_a_failure_has_its_code() {
        let mut syscon = Syscon::default();
        assert_eq!(syscon.write(0, B4, 0x5555), Some(Action::PowerOff { code: 0 }));
        assert_eq!(syscon.write(0, B4, 0x0007_3333), Some(Action::PowerOff { code: 7 }));
        assert_eq!(syscon.write(0, B2, 0x7777), Some(Action::Reset));
        assert_eq!(syscon.read(0, B4), 0);
        assert_eq!(syscon.stats, SysconStats::default());
    }

    #[test]
    fn unknown_commands_and_accesses_are_counted_and_ignored() {
        let mut syscon = Syscon::default();
        assert_eq!(syscon.write(0, B4, 0x1234), None);
        for (offset, size) in [(4, B4), (0, B8), (0, B1), (2, B2), (0xffc, B4)] {
            assert_eq!(syscon.write(offset, size, 0x5555), None);
        }
        assert_eq!((syscon.stats.unknown_commands, syscon.stats.undefined_accesses), (1, 5));
    }
}
