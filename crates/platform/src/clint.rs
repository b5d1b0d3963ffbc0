//! The core-local interruptor: software interrupts (IPIs) and the machine timer, in the layout of
//! SiFive's CLINT and of QEMU's `virt`.
//!
//! Document: SiFive FU540-C000 manual, chapter 9 (memory map, MSIP, timer registers); RISC-V privileged
//! architecture, "Machine timer registers". Modelled: all registers, for up to 4095 harts. The caller counts
//! time and passes it as an argument; a write to mtime sets an offset. mtimecmp, undefined at reset, starts
//! at the largest value, so that no timer interrupt is pending before firmware sets one.

use doorbell_sim::AccessSize;
use doorbell_sim::snapshot::SnapshotError;
use serde::{Deserialize, Serialize};

use crate::registers::{Access, Register, find};

/// Number of harts for which the layout has room.
pub const MAX_HARTS: u32 = 4095;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ClintRegister {
    Msip,
    MtimeCmp,
    Mtime,
}

use ClintRegister as R;

/// Offset of the compare values, eight bytes per hart.
pub const MTIMECMP_OFFSET: u64 = 0x4000;

/// The register table.
pub const REGISTERS: [Register<ClintRegister>; 3] = [
    Register::one(R::Msip, "msip", 0x0, 4, 0, Access::ReadWrite, "FU540 9.2").array(MAX_HARTS as u64, 4),
    Register::one(R::MtimeCmp, "mtimecmp", MTIMECMP_OFFSET, 8, u64::MAX, Access::ReadWrite, "FU540 9.3")
        .array(MAX_HARTS as u64, 8),
    Register::one(R::Mtime, "mtime", 0xbff8, 8, 0, Access::ReadWrite, "FU540 9.3"),
];

doorbell_sim::stats! {
    /// CLINT counters.
    pub struct ClintStats {
        /// Accesses to no register, of a width that is not defined, or to a hart that does not exist.
        undefined_accesses,
    }
}

/// The effect of a write, for the machine to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClintEffect {
    /// No effect outside the CLINT.
    None,
    /// The software interrupt of this hart may have changed.
    Software(u32),
    /// This hart's timer must be rescheduled.
    Timer(u32),
    /// mtime has changed: all timers must be rescheduled.
    AllTimers,
}

/// The device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clint {
    msip: Vec<bool>,
    mtimecmp: Vec<u64>,
    /// mtime minus the machine's count of ticks, wrapping.
    mtime_offset: u64,
    /// The counters.
    pub stats: ClintStats,
}

impl Clint {
    /// Version of the saved state, which is the device itself.
    pub const VERSION: u32 = 1;

    /// A CLINT after reset for 1 to [`MAX_HARTS`] harts.
    pub fn new(harts: u32) -> Clint {
        assert!((1..=MAX_HARTS).contains(&harts), "a CLINT serves 1 to {MAX_HARTS} harts");
        Clint {
            msip: vec![false; harts as usize],
            mtimecmp: vec![u64::MAX; harts as usize],
            mtime_offset: 0,
            stats: ClintStats::default(),
        }
    }

    /// Whether a hart's software interrupt is pending.
    pub fn msip(&self, hart: u32) -> bool {
        self.msip[hart as usize]
    }

    /// A hart's timer compare value, in mtime.
    pub fn mtimecmp(&self, hart: u32) -> u64 {
        self.mtimecmp[hart as usize]
    }

    /// mtime (also the value of the `time` CSR) when the machine has counted `ticks`.
    pub fn mtime(&self, ticks: u64) -> u64 {
        ticks.wrapping_add(self.mtime_offset)
    }

    /// The count of ticks, at or after `ticks`, at which mtime reaches `target` (a timer compare value of
    /// this block or of `stimecmp`); the largest value means never.
    pub fn ticks_when_mtime_reaches(&self, target: u64, ticks: u64) -> u64 {
        ticks.saturating_add(target.saturating_sub(self.mtime(ticks)))
    }

    /// Reads a register. `ticks` is the machine's count of timebase ticks.
    pub fn read(&mut self, offset: u64, size: AccessSize, ticks: u64) -> u64 {
        let hit = find(&REGISTERS, offset, size).filter(|_| size.bytes() >= 4);
        let value = hit.and_then(|hit| {
            let value = match hit.id {
                R::Msip => u64::from(*self.msip.get(hit.index)?),
                R::MtimeCmp => *self.mtimecmp.get(hit.index)?,
                R::Mtime => self.mtime(ticks),
            };
            Some(hit.extract(value))
        });
        value.unwrap_or_else(|| {
            self.stats.undefined_accesses += 1;
            0
        })
    }

    /// Writes a register and returns the effect.
    pub fn write(&mut self, offset: u64, size: AccessSize, value: u64, ticks: u64) -> ClintEffect {
        let hit = find(&REGISTERS, offset, size).filter(|_| size.bytes() >= 4);
        let Some(hit) = hit.filter(|hit| hit.id == R::Mtime || hit.index < self.msip.len()) else {
            self.stats.undefined_accesses += 1;
            return ClintEffect::None;
        };
        match hit.id {
            R::Msip => {
                self.msip[hit.index] = value & 1 != 0;
                ClintEffect::Software(hit.index as u32)
            }
            R::MtimeCmp => {
                self.mtimecmp[hit.index] = hit.merge(self.mtimecmp[hit.index], value);
                ClintEffect::Timer(hit.index as u32)
            }
            R::Mtime => {
                self.mtime_offset = hit.merge(self.mtime(ticks), value).wrapping_sub(ticks);
                ClintEffect::AllTimers
            }
        }
    }

    /// Restores a saved state if its number of harts matches.
    pub fn restore(&mut self, state: Clint) -> Result<(), SnapshotError> {
        if state.msip.len() != self.msip.len() || state.mtimecmp.len() != self.msip.len() {
            return Err(SnapshotError::Inconsistent {
                name: "clint".into(),
                problem: format!("it is for {} harts, not {}", state.msip.len(), self.msip.len()),
            });
        }
        *self = state;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AccessSize::{B1, B2, B4, B8};

    fn is_pending(clint: &Clint, hart: u32, ticks: u64) -> bool {
        clint.mtime(ticks) >= clint.mtimecmp(hart)
    }

    #[test]
    fn a_timer_is_pending_from_exactly_its_compare_value_on() {
        let mut clint = Clint::new(2);
        assert!(!is_pending(&clint, 1, u64::MAX - 1), "no timer is set after reset");
        assert_eq!(clint.write(0x4008, B8, 1000, 5), ClintEffect::Timer(1));
        assert!(!is_pending(&clint, 1, 999) && is_pending(&clint, 1, 1000));
        assert!(!is_pending(&clint, 0, 1000));
        assert_eq!(clint.ticks_when_mtime_reaches(clint.mtimecmp(1), 5), 1000);
        assert_eq!(clint.ticks_when_mtime_reaches(clint.mtimecmp(1), 1200), 1200);
    }

    #[test]
    fn a_compare_value_can_be_written_in_halves_and_writes_to_mtime_move_the_expiry() {
        let mut clint = Clint::new(1);
        clint.write(0x4004, B4, 0x1, 0);
        clint.write(0x4000, B4, 0x2, 0);
        assert_eq!(clint.mtimecmp(0), 0x1_0000_0002);
        assert_eq!(clint.read(0x4004, B4, 0), 1);
        assert_eq!(clint.write(0xbff8, B8, 0x1_0000_0000, 70), ClintEffect::AllTimers);
        assert_eq!(clint.read(0xbff8, B8, 71), 0x1_0000_0001);
        assert_eq!(clint.ticks_when_mtime_reaches(clint.mtimecmp(0), 70), 72);
        clint.write(0xbffc, B4, 0, 71);
        assert_eq!(clint.mtime(71), 1, "only the upper half was replaced");
    }

    #[test]
    fn a_software_interrupt_is_one_bit_wide() {
        let mut clint = Clint::new(3);
        assert_eq!(clint.write(8, B4, 0xffff_ffff, 0), ClintEffect::Software(2));
        assert_eq!((clint.msip(2), clint.msip(1), clint.read(8, B4, 0)), (true, false, 1));
        clint.write(8, B4, 0xffff_fffe, 0);
        assert!(!clint.msip(2));
    }

    #[test]
    fn undefined_accesses_read_zero_change_nothing_and_are_counted() {
        let mut clint = Clint::new(1);
        let before = clint.clone();
        for (offset, size) in
            [(4, B4), (0x4008, B8), (0x8000, B4), (0, B1), (0x4000, B2), (0, B8), (0xbff9, B4)]
        {
            assert_eq!(clint.read(offset, size, 9), 0);
            assert_eq!(clint.write(offset, size, u64::MAX, 9), ClintEffect::None);
        }
        assert_eq!(clint.stats.undefined_accesses, 14);
        let mut after = clint.clone();
        after.stats = before.stats.clone();
        assert_eq!(after, before);
    }

    #[test]
    fn a_state_with_another_number_of_harts_is_refused() {
        let mut one = Clint::new(1);
        one.write(0, B4, 1, 0);
        let bytes = postcard::to_stdvec(&one).unwrap();
        let state: Clint = postcard::from_bytes(&bytes).unwrap();
        assert!(Clint::new(2).restore(state.clone()).is_err());
        let mut copy = Clint::new(1);
        copy.restore(state).unwrap();
        assert!(copy.msip(0));
    }
}
