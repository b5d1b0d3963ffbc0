//! Interrupt controllers between device lines and harts: a PLIC, or an APLIC in front of the harts' interrupt
//! files.

use doorbell_platform::imsic::{self, ImsicStats};
use doorbell_platform::{Aplic, InterruptsKind, Plic};
use doorbell_riscv::{AiaState, Hart};
use doorbell_sim::snapshot::{Snapshot, SnapshotError};

/// A machine's interrupt controller.
pub(crate) enum InterruptController {
    Plic(Plic),
    Aia { aplic: Box<Aplic>, stats: ImsicStats },
}

/// The device tree gives the number of interrupt identities that harts implement.
const _: () = assert!(imsic::IDENTITIES == doorbell_riscv::IDENTITIES);

fn files_of(hart: usize) -> String {
    format!("hart{hart}.imsic")
}

impl InterruptController {
    /// The controller's state after reset.
    pub fn new(kind: InterruptsKind, harts: u32) -> InterruptController {
        match kind {
            InterruptsKind::Plic => InterruptController::Plic(Plic::new(harts)),
            InterruptsKind::Aia => {
                InterruptController::Aia { aplic: Box::default(), stats: ImsicStats::default() }
            }
        }
    }

    /// Sets the level of a device's line.
    pub fn set_level(&mut self, source: u32, level: bool) {
        match self {
            InterruptController::Plic(plic) => {
                plic.set_level(source, level);
            }
            InterruptController::Aia { aplic, .. } => aplic.set_level(source, level),
        }
    }

    /// Saves its sections, including those of the harts' interrupt files.
    pub fn save(&self, harts: &[Hart], snapshot: &mut Snapshot) {
        match self {
            InterruptController::Plic(plic) => snapshot.put("plic", Plic::VERSION, plic),
            InterruptController::Aia { aplic, stats } => {
                snapshot.put("aplic", Aplic::VERSION, &**aplic);
                snapshot.put("imsic", imsic::VERSION, stats);
                for (index, hart) in harts.iter().enumerate() {
                    let files = hart.save_aia().expect("each hart has interrupt files");
                    snapshot.put(&files_of(index), AiaState::VERSION, &files);
                }
            }
        }
    }

    /// Restores the sections, after the harts have restored theirs.
    pub fn restore(&mut self, harts: &mut [Hart], snapshot: &Snapshot) -> Result<(), SnapshotError> {
        match self {
            InterruptController::Plic(plic) => plic.restore(snapshot.get("plic", Plic::VERSION)?),
            InterruptController::Aia { aplic, stats } => {
                aplic.restore(snapshot.get("aplic", Aplic::VERSION)?)?;
                *stats = snapshot.get("imsic", imsic::VERSION)?;
                for (index, hart) in harts.iter_mut().enumerate() {
                    hart.restore_aia(snapshot.get(&files_of(index), AiaState::VERSION)?)?;
                }
                Ok(())
            }
        }
    }
}
