//! Whose turn it is to boot a guest: runs at the same time that want the same guest boot it once. The lock lies beside the
//! checkpoint, and goes with the process that holds it, however that ends.

use std::path::Path;

use doorbell_files::{Lock, create_folders};

use crate::error::RunError;
use crate::testbed::control::Control;

/// Counts changes in how guests are booted and in what checkpoints hold: one of another count has another name, so that two versions of
/// Doorbell with one cache do not boot in turns.
pub(crate) const BOOT_VERSION: u32 = 13;

/// The right to boot the guest of a checkpoint, until it is dropped.
pub(crate) struct BootTurn {
    _lock: Option<Lock>,
}

impl BootTurn {
    /// Waits for the turn. Where no lock can be had, as in a cache that cannot be written, everybody may boot.
    pub fn wait(checkpoint: &Path, control: &mut Control) -> Result<BootTurn, RunError> {
        let name = checkpoint.with_extension("lock");
        let folder = checkpoint.parent().expect("the checkpoint folder has a name");
        if create_folders(folder).is_err() {
            return Ok(BootTurn { _lock: None });
        }
        let mut told = false;
        let waited = Lock::wait(&name, || {
            if !std::mem::replace(&mut told, true) {
                (control.say)("waiting for another run that boots this guest");
            }
            control.check()
        });
        Ok(BootTurn { _lock: waited.ok().transpose()? })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::testbed::control::Stage;

    #[test]
    fn only_one_at_a_time_has_the_turn_and_who_waits_can_be_interrupted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deeper/guest.ckpt");
        let interrupted = AtomicBool::new(true);
        let mut said = Vec::new();
        let mut say = |line: &str| said.push(line.to_owned());
        let mut control = Control {
            interrupted: &interrupted,
            say: &mut say,
            progress: &mut |_| {},
            stage: Stage::default(),
            m5: None,
        };
        let first = BootTurn::wait(&path, &mut control).unwrap();
        assert!(matches!(BootTurn::wait(&path, &mut control), Err(RunError::Interrupted)));
        drop(first);
        assert!(BootTurn::wait(&path, &mut control).is_ok());
        assert_eq!(said, ["waiting for another run that boots this guest"]);
    }
}
