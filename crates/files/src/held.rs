//! Who uses a file or folder of a cache holds it, and what nobody holds may be removed. A hold is a shared lock (`flock`) on the file or
//! folder itself: it leaves no file behind, goes with the process however that ends, and does not keep anybody from putting
//! another file in its place.

use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};

use crate::control::allowed;
use crate::operations::{remove, rename, temporary_name};

/// What the names say of what is being removed.
pub(crate) const REMOVED: &str = "removed";
/// Who looks whether something is held, or removes it, has its lock for a moment.
const MOMENT: Duration = Duration::from_millis(5);
const MOMENTS: usize = 2000;

/// A file or folder in use, until this is dropped or the process ends.
#[derive(Debug)]
pub struct Held {
    _file: File,
}

/// What became of something that was to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It is gone.
    Removed,
    /// Somebody uses it.
    InUse,
    /// There was nothing.
    Missing,
}

/// Holds a file or folder, and marks it as used now (a file's time of access, a folder's of change). `None` if it is not there. Where the file system has no locks, it is
/// used without.
pub fn hold(path: &Path) -> io::Result<Option<Held>> {
    for _ in 0..MOMENTS {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // Any other error is a file system without locks, on which it is used all the same.
        if let Err(rustix::io::Errno::WOULDBLOCK) = flock(&file, FlockOperation::NonBlockingLockShared) {
            std::thread::sleep(MOMENT);
            continue;
        }
        // It may have been removed or replaced before it was held.
        if is_at(&file, path)? {
            // Who may not set it is not the one who cleans up.
            let now = SystemTime::now();
            // To list a folder is to access it.
            let times = match file.metadata()?.is_dir() {
                true => FileTimes::new().set_modified(now),
                false => FileTimes::new().set_accessed(now),
            };
            let _ = file.set_times(times);
            return Ok(Some(Held { _file: file }));
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::symlink_metadata(path) {
        // A link that leads to it.
        Ok(there) if there.is_symlink() => Ok(true),
        Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The file at `path`, if nobody holds it; held by us alone as long as it lives.
fn alone(path: &Path) -> io::Result<Result<File, Removal>> {
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
            // Where it cannot be known whether somebody uses it, nothing is removed.
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether somebody holds it.
pub fn is_held(path: &Path) -> io::Result<bool> {
    Ok(matches!(alone(path)?, Err(Removal::InUse)))
}

/// Removes a file or folder that nobody holds: first its name, so that who comes finds it whole or not at all.
pub fn remove_unheld(path: &Path) -> io::Result<Removal> {
    allowed("remove-unheld", path)?;
    let _file = match alone(path)? {
        Ok(file) => file,
        Err(removal) => return Ok(removal),
    };
    let name = temporary_name(path, REMOVED);
    rename(path, &name)?;
    remove(&name)?;
    Ok(Removal::Removed)
}
