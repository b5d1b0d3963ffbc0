//! Advanced Interrupt Architecture of a hart: the incoming MSI controller (IMSIC), with an interrupt file for
//! machine and one for supervisor mode, and the registers of Smaia and Ssaia.
//!
//! Document: The RISC-V Advanced Interrupt Architecture 1.0, chapters "Control and Status Registers",
//! "Incoming MSI Controller (IMSIC)" and "Interrupts for Machine and Supervisor Levels". Modelled: the
//! windows `miselect`/`mireg` and `siselect`/`sireg`, `mtopei` and `stopei`, `mtopi` and `stopi`, and the
//! minimum of `mvien` (zero) and `mvip` (aliases of `mip`) that the document permits. Priorities of major
//! interrupts are read-only zero, which it also permits: their order is the default one. There are no local
//! interrupts from 13 on.

use doorbell_sim::snapshot::SnapshotError;
use serde::{Deserialize, Serialize};

use crate::csr::{Effect, Illegal};
use crate::hart::{Hart, Interrupt};
use crate::interrupt_file::InterruptFile;
pub use crate::interrupt_file::{FileLevel, IDENTITIES};
use crate::trap::BY_PRIORITY;

/// Width of the select registers: nine bits, the recommended minimum.
const SELECT_BITS: u64 = 0x1ff;
/// Priority registers of major interrupts; on RV64 only the even ones exist.
const PRIORITIES: std::ops::RangeInclusive<u64> = 0x30..=0x3f;
/// Position of the identity field in `xtopei` and `xtopi`.
const IDENTITY_SHIFT: u32 = 16;
/// The lowest representable priority.
const LOWEST: u64 = 255;

/// AIA state of a hart, which is also its saved form.
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

    /// `xireg`: the selected register.
    fn selected(&self, level: FileLevel) -> Result<u64, Illegal> {
        match self.select(level) {
            select if PRIORITIES.contains(&select) && select.is_multiple_of(2) => Ok(0),
            select => self.file(level).register(select).ok_or(Illegal),
        }
    }

    /// `xtopei`: the top external interrupt.
    fn top_external(&self, level: FileLevel) -> u64 {
        let identity = u64::from(self.file(level).top());
        identity << IDENTITY_SHIFT | identity
    }
}

impl Hart {
    /// Delivers an MSI to one of the hart's interrupt files; `false` if the identity does not exist or the
    /// hart has no files.
    pub fn receive_message(&mut self, level: FileLevel, identity: u32) -> bool {
        let received = self.aia.as_mut().is_some_and(|aia| aia.file_mut(level).receive(identity));
        self.update_external_interrupts();
        received
    }

    /// Drives the external interrupt inputs from the interrupt files.
    fn update_external_interrupts(&mut self) {
        let Some(aia) = &self.aia else { return };
        let (machine, supervisor) = (aia.machine.signals(), aia.supervisor.signals());
        self.set_interrupt(Interrupt::MachineExternal, machine);
        self.set_interrupt(Interrupt::SupervisorExternal, supervisor);
    }

    /// Reads an AIA register; illegal without AIA.
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

    /// Writes an AIA register.
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
        self.update_external_interrupts();
        Effect::Context
    }

    /// `xtopi`: the highest-priority pending and enabled interrupt of a level, whether or not it can be taken
    /// now.
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
            // An external interrupt raised only by software ranks below all identities of the file.
            LOWEST
        } else {
            0
        };
        cause << IDENTITY_SHIFT | priority
    }

    /// Returns the state to save; none without interrupt files.
    pub fn save_aia(&self) -> Option<AiaState> {
        self.aia.as_deref().cloned()
    }

    /// Restores a saved state, after [`Hart::restore`]. Rejects invalid state, or if the hart has no
    /// interrupt files.
    pub fn restore_aia(&mut self, state: AiaState) -> Result<(), SnapshotError> {
        let valid = state.machine.is_valid()
            && state.supervisor.is_valid()
            && (state.miselect | state.siselect) & !SELECT_BITS == 0;
        let Some(aia) = self.aia.as_deref_mut().filter(|_| valid) else {
            let problem = "the state of its interrupt files is invalid".to_owned();
            return Err(SnapshotError::Inconsistent { name: "hart".into(), problem });
        };
        *aia = state;
        self.update_external_interrupts();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use doorbell_sim::{Clock, Hertz};

    use super::*;
    use crate::hart::HartConfig;

    #[test]
    fn an_invalid_state_is_rejected() {
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
