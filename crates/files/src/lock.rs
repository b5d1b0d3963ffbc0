//! Locks between processes. The lock file is next to what it protects, never inside, and is removed with the
//! lock.

use std::convert::Infallible;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::control::{pause, request, step};
use crate::operations::hidden;
use crate::use_lock::is_at;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A lock, held until it is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// Takes a lock unless it is taken. Its folder must exist.
    pub fn try_take(path: &Path) -> io::Result<Option<Lock>> {
        loop {
            request("lock", path)?;
            let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            // The previous owner removed the file with the lock; a lock on a removed file protects nothing.
            if is_at(&file, path)? {
                return Ok(Some(Lock { path: path.to_owned(), file }));
            }
        }
    }

    /// Takes a lock as soon as it is free. `busy` is called at each attempt that finds it taken; its error
    /// ends the wait, and is distinct from an error of locking.
    pub fn wait<E>(path: &Path, mut busy: impl FnMut() -> Result<(), E>) -> io::Result<Result<Lock, E>> {
        loop {
            if let Some(lock) = Lock::try_take(path)? {
                return Ok(Ok(lock));
            }
            if let Err(enough) = busy() {
                return Ok(Err(enough));
            }
            pause(POLL_INTERVAL);
        }
    }

    /// Takes a lock as soon as it is free, without a time limit. `busy` is called at each attempt that finds
    /// it taken.
    pub fn wait_always(path: &Path, mut busy: impl FnMut()) -> io::Result<Lock> {
        let waited: Result<Lock, Infallible> = Lock::wait(path, || {
            busy();
            Ok(())
        })?;
        Ok(waited.unwrap_or_else(|never| match never {}))
    }

    /// Path of the lock of a file or folder: next to it, hidden.
    pub fn path_for(path: &Path) -> PathBuf {
        hidden(path, ".lock")
    }

    /// The lock file. A process that inherits it, for example as its standard input, also owns the lock, even
    /// after this process is killed.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        step("unlock", &self.path);
        // The lock is still held, so the file is ours to remove. If that fails, an empty file is left, which
        // is harmless.
        let _ = fs::remove_file(&self.path);
    }
}
