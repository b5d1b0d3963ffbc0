//! Whose turn it is to boot a guest: runs at the same time that want the same guest boot it once. The lock is the operating
//! system's, on a file beside the checkpoint, so that it goes with the process that holds it, however that ends.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::error::RunError;
use crate::session::Control;

const LOOK: Duration = Duration::from_millis(50);

/// The right to boot the guest of a checkpoint, until it is dropped.
pub(crate) struct BootTurn {
    _lock: Option<File>,
}

impl BootTurn {
    /// Waits for the turn. Where no lock can be had, as in a cache that cannot be written, everybody may boot.
    pub fn wait(checkpoint: &Path, control: &mut Control) -> Result<BootTurn, RunError> {
        let name = checkpoint.with_extension("lock");
        let folder = checkpoint.parent().expect("the checkpoint folder has a name");
        let Ok(lock) = fs::create_dir_all(folder).and_then(|()| File::create(name)) else {
            return Ok(BootTurn { _lock: None });
        };
        let mut told = false;
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(BootTurn { _lock: Some(lock) }),
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                Err(_) => return Ok(BootTurn { _lock: None }),
            }
            if !std::mem::replace(&mut told, true) {
                (control.say)("waiting for another run that boots this guest");
            }
            control.check()?;
            std::thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn only_one_at_a_time_has_the_turn_and_who_waits_can_be_interrupted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deeper/guest.ckpt");
        let interrupted = AtomicBool::new(true);
        let mut said = Vec::new();
        let mut say = |line: &str| said.push(line.to_owned());
        let mut control =
            Control { interrupted: &interrupted, say: &mut say, progress: &mut |_, _| {}, m5: None };
        let first = BootTurn::wait(&path, &mut control).unwrap();
        assert!(matches!(BootTurn::wait(&path, &mut control), Err(RunError::Interrupted)));
        drop(first);
        assert!(BootTurn::wait(&path, &mut control).is_ok());
        assert_eq!(said, ["waiting for another run that boots this guest"]);
    }
}
