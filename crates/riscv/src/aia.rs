//! What the Advanced Interrupt Architecture adds to a hart: its incoming message signalled interrupt controller (IMSIC), with a file for
//! machine and one for supervisor mode, and the registers of Smaia and Ssaia.
//!
//! Document: The RISC-V Advanced Interrupt Architecture 1.0, chapters "Control and Status Registers", "Incoming MSI Controller (IMSIC)"
//! and "Interrupts for Machine and Supervisor Levels". Modelled: the windows `miselect`/`mireg` and `siselect`/`sireg`, `mtopei` and
//! `stopei`, `mtopi` and `stopi`, and the least of `mvien` (zero) and `mvip` (aliases of `mip`) that the document allows. The
//! priorities of major interrupts are read-only zeros, as it allows too: their order is the default one. There are no local interrupts
//! from 13 on.

use doorbell_sim::snapshot::SnapshotError;
use serde::{Deserialize, Serialize};

use crate::csr::{Effect, Illegal};
use crate::hart::{Hart, Interrupt};
use crate::interrupt_file::InterruptFile;
pub use crate::interrupt_file::{FileLevel, IDENTITIES};
use crate::trap::BY_PRIORITY;

/// What selects hold: nine bits, the recommended least.
const SELECT_BITS: u64 = 0x1ff;
/// Priorities of major interrupts, of which only the even ones exist for a hart of 64 bits.
const PRIORITIES: std::ops::RangeInclusive<u64> = 0x30..=0x3f;
/// The field of an identity in `xtopei` and `xtopi`.
const IDENTITY_SHIFT: u32 = 16;
/// The lowest priority that a register can tell.
const LOWEST: u64 = 255;

/// What a hart has of the architecture, and what a snapshot keeps of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AiaState {
    machine: InterruptFile,
    supervisor: InterruptFile,
    miselect: u64,
    siselect: u64,
}

impl AiaState {
    /// The version of this layout.
    pub const VERSION: u32 = 1;

    fn file(&self, level: FileLevel) -> &InterruptFile {
        match level {
            FileLevel::Machine => &self.machine,
            FileLevel::Supervisor => &self.supervisor,
        }
    }

    fn file_mut(&mut self, level: FileLevel) -> &mut InterruptFile {
        match level {
            FileLevel::Machine => &mut self.machine,
            FileLevel::Supervisor => &mut self.supervisor,
        }
    }

    fn select(&self, level: FileLevel) -> u64 {
        match level {
            FileLevel::Machine => self.miselect,
            FileLevel::Supervisor => self.siselect,
        }
    }

    /// `xireg`.
    fn selected(&self, level: FileLevel) -> Result<u64, Illegal> {
        match self.select(level) {
            select if PRIORITIES.contains(&select) && select.is_multiple_of(2) => Ok(0),
            select => self.file(level).register(select).ok_or(Illegal),
        }
    }

    /// `xtopei`.
    fn top_external(&self, level: FileLevel) -> u64 {
        let identity = u64::from(self.file(level).top());
        identity << IDENTITY_SHIFT | identity
    }
}

impl Hart {
    /// A message arrives in one of the hart's interrupt files; `false` if it names no identity that there is, or the hart has no files.
    pub fn receive_message(&mut self, level: FileLevel, identity: u32) -> bool {
        let received = self.aia.as_mut().is_some_and(|aia| aia.file_mut(level).receive(identity));
        self.follow_files();
        received
    }

    /// Whether the hart has interrupt files.
    pub fn has_interrupt_files(&self) -> bool {
        self.aia.is_some()
    }

    /// Drives the external interrupts as the files say.
    fn follow_files(&mut self) {
        let Some(aia) = &self.aia else { return };
        let (machine, supervisor) = (aia.machine.signals(), aia.supervisor.signals());
        self.set_interrupt(Interrupt::MachineExternal, machine);
        self.set_interrupt(Interrupt::SupervisorExternal, supervisor);
    }

    /// A register of the architecture; there is none without it.
    pub(crate) fn aia_csr(&self, number: u16) -> Result<u64, Illegal> {
        let aia = self.aia.as_ref().ok_or(Illegal)?;
        Ok(match number {
            0x150 => aia.siselect,
            0x151 => aia.selected(FileLevel::Supervisor)?,
            0x15c => aia.top_external(FileLevel::Supervisor),
            0xdb0 => self.top_interrupt(FileLevel::Supervisor),
            0x308 => 0,
            0x309 => self.csr.mip & self.mip_writable(),
            0x350 => aia.miselect,
            0x351 => aia.selected(FileLevel::Machine)?,
            0x35c => aia.top_external(FileLevel::Machine),
            0xfb0 => self.top_interrupt(FileLevel::Machine),
            _ => return Err(Illegal),
        })
    }

    /// Writes one of them.
    pub(crate) fn write_aia_csr(&mut self, number: u16, value: u64) -> Effect {
        let writable = self.mip_writable();
        let Some(aia) = &mut self.aia else { return Effect::None };
        match number {
            0x150 => aia.siselect = value & SELECT_BITS,
            0x350 => aia.miselect = value & SELECT_BITS,
            0x151 => aia.supervisor.set_register(aia.siselect, value),
            0x351 => aia.machine.set_register(aia.miselect, value),
            0x15c => aia.supervisor.claim(),
            0x35c => aia.machine.claim(),
            0x309 => self.csr.mip = self.csr.mip & !writable | value & writable,
            _ => return Effect::None,
        }
        self.follow_files();
        Effect::Context
    }

    /// `xtopi`: the most urgent interrupt that is pending and enabled for a level, whether or not it can be taken now.
    fn top_interrupt(&self, level: FileLevel) -> u64 {
        let own = if level == FileLevel::Machine { !self.csr.mideleg } else { self.csr.mideleg };
        let candidates = self.mip() & self.csr.mie & own;
        let Some(cause) = BY_PRIORITY.into_iter().find(|cause| candidates >> cause & 1 != 0) else {
            return 0;
        };
        let external = match level {
            FileLevel::Machine => Interrupt::MachineExternal,
            FileLevel::Supervisor => Interrupt::SupervisorExternal,
        } as u64;
        let place = |cause: u64| BY_PRIORITY.iter().position(|other| *other == cause);
        let priority = if cause == external && self.irq_inputs >> external & 1 != 0 {
            let top = self.aia.as_ref().map_or(0, |aia| aia.file(level).top());
            u64::from(top).min(LOWEST)
        } else if place(cause) >= place(external) {
            // An external interrupt that only software has raised comes behind all that the file can tell.
            LOWEST
        } else {
            0
        };
        cause << IDENTITY_SHIFT | priority
    }

    /// The state to keep, of a hart that has interrupt files.
    pub fn save_aia(&self) -> Option<AiaState> {
        self.aia.as_deref().cloned()
    }

    /// Puts a saved state back, behind [`Hart::restore`]. It is refused if it cannot be one, or if the hart has no files.
    pub fn restore_aia(&mut self, state: AiaState) -> Result<(), SnapshotError> {
        let possible = state.machine.is_possible()
            && state.supervisor.is_possible()
            && (state.miselect | state.siselect) & !SELECT_BITS == 0;
        let Some(aia) = self.aia.as_deref_mut().filter(|_| possible) else {
            let problem = "its interrupt files are impossible".to_owned();
            return Err(SnapshotError::Inconsistent { name: "hart".into(), problem });
        };
        *aia = state;
        self.follow_files();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use doorbell_sim::{Clock, Hertz};

    use super::*;
    use crate::hart::HartConfig;

    #[test]
    fn a_state_that_cannot_be_is_refused() {
        let clock = Clock::new(Hertz(1_000_000_000));
        let mut hart = Hart::new(HartConfig {
            id: 0,
            slot_clock: clock,
            cycle_clock: clock,
            timebase: clock,
            sstc: true,
            aia: true,
            sv48: true,
            reset_pc: 0,
        });
        let mut change = |change: fn(&mut AiaState)| {
            let mut state = AiaState::default();
            change(&mut state);
            hart.restore_aia(state).is_ok()
        };
        assert!(change(|state| state.siselect = SELECT_BITS));
        assert!(!change(|state| state.siselect = SELECT_BITS + 1));
        assert!(!change(|state| state.miselect = 1 << 63));
    }
}
