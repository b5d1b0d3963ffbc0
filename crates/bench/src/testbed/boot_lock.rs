//! Boot lock: concurrent runs of one guest boot it once. The lock file is in the checkpoint's folder. The
//! lock is released when the process that holds it ends, for whatever reason.

use std::path::Path;

use doorbell_files::{Lock, create_folders};

use crate::error::RunError;
use crate::testbed::control::Control;

/// Version of the boot procedure and of the checkpoint contents, part of the checkpoint's file name. Two
/// versions of Doorbell that share a cache therefore do not replace each other's checkpoints.
pub(crate) const BOOT_VERSION: u32 = 13;

/// The lock on the boot of a checkpoint's guest; dropping it releases the lock.
pub(crate) struct BootLock {
    _lock: Option<Lock>,
}

impl BootLock {
    /// Waits for the lock. If there can be no lock file, as in a read-only cache, all runs boot.
    pub fn wait(checkpoint: &Path, control: &mut Control) -> Result<BootLock, RunError> {
        let name = checkpoint.with_extension("lock");
        let folder = checkpoint.parent().expect("the checkpoint folder has a name");
        if create_folders(folder).is_err() {
            return Ok(BootLock { _lock: None });
        }
        let mut reported = false;
        let waited = Lock::wait(&name, || {
            if !std::mem::replace(&mut reported, true) {
                (control.say)("waiting for another run that boots this guest");
            }
            control.check()
        });
        Ok(BootLock { _lock: waited.ok().transpose()? })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::testbed::control::Stage;

    #[test]
    fn lock_is_exclusive_and_waiting_can_be_interrupted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deeper/guest.ckpt");
        let interrupted = AtomicBool::new(true);
        let mut messages = Vec::new();
        let mut say = |line: &str| messages.push(line.to_owned());
        let mut control = Control {
            interrupted: &interrupted,
            say: &mut say,
            progress: &mut |_| {},
            stage: Stage::default(),
            m5: None,
        };
        let first = BootLock::wait(&path, &mut control).unwrap();
        assert!(matches!(BootLock::wait(&path, &mut control), Err(RunError::Interrupted)));
        drop(first);
        assert!(BootLock::wait(&path, &mut control).is_ok());
        assert_eq!(messages, ["waiting for another run that boots this guest"]);
    }
}
