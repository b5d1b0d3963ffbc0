//! Use locks: a user of a cached file or folder holds a lock on it, and only unlocked ones may be removed. It
//! is a shared lock (`flock`) on the file or folder itself. It needs no lock file, ends with the process in
//! any case, and does not prevent replacing the file.

use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};

use crate::control::request;
use crate::operations::{remove, rename, temporary_name};

/// Part of the temporary name during removal.
pub(crate) const REMOVED: &str = "removed";
/// Polling interval while a checker or remover holds the exclusive lock briefly.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const ATTEMPTS_MAX: usize = 2000;

/// Use lock of a file or folder, until it is dropped or the process ends.
#[derive(Debug)]
pub struct UseLock {
    _file: File,
}

/// Outcome of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Removed.
    Removed,
    /// In use.
    InUse,
    /// Did not exist.
    Missing,
}

/// Takes a use lock and records the time of use (a file's access time, a folder's modification time). `None`
/// if the path does not exist. On a file system without locks, the file is used without one.
pub fn hold(path: &Path) -> io::Result<Option<UseLock>> {
    for _ in 0..ATTEMPTS_MAX {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // Any other error means a file system without locks.
        if let Err(rustix::io::Errno::WOULDBLOCK) = flock(&file, FlockOperation::NonBlockingLockShared) {
            std::thread::sleep(POLL_INTERVAL);
            continue;
        }
        // It may have been removed or replaced before it was locked.
        if is_at(&file, path)? {
            // Failure is ignored: a user without permission to set the time is not the one who cleans the
            // cache.
            let now = SystemTime::now();
            // Listing a folder already changes its access time.
            let times = match file.metadata()?.is_dir() {
                true => FileTimes::new().set_modified(now),
                false => FileTimes::new().set_accessed(now),
            };
            let _ = file.set_times(times);
            return Ok(Some(UseLock { _file: file }));
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// Whether the path still leads to the open file.
pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::symlink_metadata(path) {
        // The path is a link to the file.
        Ok(there) if there.is_symlink() => Ok(true),
        Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens the file at `path` with an exclusive lock, if it is not in use.
fn lock_exclusively(path: &Path) -> io::Result<Result<File, Removal>> {
    loop {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err(Removal::Missing)),
            Err(error) => return Err(error),
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if is_at(&file, path)? => return Ok(Ok(file)),
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Err(Removal::InUse)),
            // If use cannot be determined, nothing is removed.
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns whether the path is in use.
pub fn is_held(path: &Path) -> io::Result<bool> {
    Ok(matches!(lock_exclusively(path)?, Err(Removal::InUse)))
}

/// Removes a file or folder that is not in use. It is renamed first, so that other processes find it complete
/// or not at all.
pub fn remove_unheld(path: &Path) -> io::Result<Removal> {
    request("remove-unheld", path)?;
    let _file = match lock_exclusively(path)? {
        Ok(file) => file,
        Err(removal) => return Ok(removal),
    };
    let name = temporary_name(path, REMOVED);
    rename(path, &name)?;
    remove(&name)?;
    Ok(Removal::Removed)
}
