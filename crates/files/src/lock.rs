//! Locks between processes. The file that carries a lock is beside what it protects, never inside, and goes with it.

use std::convert::Infallible;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::control::{allowed, pause, step};
use crate::operations::hidden;

const LOOK: Duration = Duration::from_millis(50);

/// A lock that is held until this is dropped, or the process ends.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// Takes the lock of this name, unless somebody has it. The folder that it is in must be there.
    pub fn try_take(path: &Path) -> io::Result<Option<Lock>> {
        loop {
            allowed("lock", path)?;
            let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            // Whoever had it before removed the file with the lock; a lock on a file that has gone protects nothing.
            let ours = file.metadata()?;
            match fs::symlink_metadata(path) {
                Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => {
                    return Ok(Some(Lock { path: path.to_owned(), file }));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes the lock as soon as nobody has it. `busy` is called each time that somebody has; its error ends the wait, and is
    /// told apart from a lock that cannot be had at all.
    pub fn wait<E>(path: &Path, mut busy: impl FnMut() -> Result<(), E>) -> io::Result<Result<Lock, E>> {
        loop {
            if let Some(lock) = Lock::try_take(path)? {
                return Ok(Ok(lock));
            }
            if let Err(enough) = busy() {
                return Ok(Err(enough));
            }
            pause(LOOK);
        }
    }

    /// Takes the lock as soon as nobody has it, however long that takes. `busy` is called each time that somebody has.
    pub fn wait_always(path: &Path, mut busy: impl FnMut()) -> io::Result<Lock> {
        let waited: Result<Lock, Infallible> = Lock::wait(path, || {
            busy();
            Ok(())
        })?;
        Ok(waited.unwrap_or_else(|never| match never {}))
    }

    /// Where the lock of a file or folder is: beside it, hidden.
    pub fn beside(path: &Path) -> PathBuf {
        hidden(path, ".lock")
    }

    /// The empty file that carries the lock. A process that inherits it, such as by a clone of it as its standard input,
    /// has the lock as well: if this process is killed, until that one ends.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        step("unlock", &self.path);
        // While it is held: nobody else can have taken a lock on this file, so it is ours to remove. If that fails, an empty
        // file is left, which does no harm.
        let _ = fs::remove_file(&self.path);
    }
}
