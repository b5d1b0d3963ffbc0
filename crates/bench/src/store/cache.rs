//! What the cache folder holds, and how it is removed: images, checkpoints, packages and debugging symbols come again when they are wanted. What a process
//! uses is held by it (`doorbell_files::hold`) or locked (builds, boots), and stays.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use doorbell_files::{Kind, Lock, Removal, is_held, kind, list, remove, remove_unheld};

use crate::store::paths::Places;

/// The file that carries the lock of builds.
const BUILDS: &str = ".lock";
/// The endings of checkpoints, of one machine and of several.
const CHECKPOINTS: [&str; 2] = ["ckpt", "net"];
const PACKAGES: &str = "packages";

/// What something in the cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CachedKind {
    /// A guest image; it is built again when it is wanted.
    Image,
    /// A guest that has booted; it boots again when it is wanted.
    Checkpoint,
    /// Packages of which images are built; they are downloaded again when they are wanted.
    Packages,
    /// Debugging symbols of an image's programs; they are downloaded again when they are wanted.
    Symbols,
    /// Anything else, such as recorded traces, which is not removed.
    Other,
}

impl CachedKind {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            CachedKind::Image => "image",
            CachedKind::Checkpoint => "checkpoint",
            CachedKind::Packages => "packages",
            CachedKind::Symbols => "symbols",
            CachedKind::Other => "other",
        }
    }
}

/// Something in the cache.
#[derive(Clone, Debug)]
pub struct Cached {
    /// What it is.
    pub kind: CachedKind,
    /// Its name.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// What it takes on the disk.
    pub bytes: u64,
    /// When it was used last, as far as the file system says.
    pub used: SystemTime,
    /// Whether a process uses it now.
    pub in_use: bool,
}

impl Places {
    /// All that is in the cache.
    pub fn cached(&self) -> io::Result<Vec<Cached>> {
        let mut all = Vec::new();
        for name in names(&self.cache)? {
            let path = self.cache.join(&name);
            match name.as_str() {
                "images" => {
                    for name in names(&path)? {
                        all.extend(entry(CachedKind::Image, path.join(&name), name)?);
                    }
                }
                "symbols" => {
                    for name in names(&path)? {
                        all.extend(entry(CachedKind::Symbols, path.join(&name), name)?);
                    }
                }
                "checkpoints" => {
                    let own = names(&path)?;
                    let is = |name: &String| CHECKPOINTS.iter().any(|end| name.ends_with(&format!(".{end}")));
                    for name in own.into_iter().filter(is) {
                        all.extend(entry(CachedKind::Checkpoint, path.join(&name), name)?);
                    }
                }
                PACKAGES => all.extend(entry(CachedKind::Packages, path, name)?),
                _ => all.extend(entry(CachedKind::Other, path, name)?),
            }
        }
        all.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
        Ok(all)
    }
}

/// The names in a folder that are not hidden; none if there is no folder.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let all = match list(folder) {
        Ok(all) => all,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    Ok(all
        .iter()
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.'))
        .collect())
}

/// An entry, unless it has gone meanwhile.
fn entry(kind: CachedKind, path: PathBuf, name: String) -> io::Result<Option<Cached>> {
    let (mut bytes, mut used) = (0, SystemTime::UNIX_EPOCH);
    match measure(&path, &mut bytes, &mut used) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut cached = Cached { kind, name, path, bytes, used, in_use: false };
    // In a cache that cannot be written there are no locks.
    let locked = cached.lock().is_ok_and(|right| right.is_none());
    cached.in_use = locked || kind != CachedKind::Other && is_held(&cached.path).unwrap_or(false);
    Ok(Some(cached))
}

/// Adds up what is there, on the disk and in time.
fn measure(path: &Path, bytes: &mut u64, used: &mut SystemTime) -> io::Result<()> {
    let found = path.symlink_metadata()?;
    *bytes += found.blocks() * 512;
    // To list a folder is to access it; who holds one says so by its time of change.
    let accessed = found.accessed().ok().filter(|_| !found.is_dir());
    for time in [accessed, found.modified().ok()].into_iter().flatten() {
        *used = (*used).max(time);
    }
    if kind(path)? == Some(Kind::Folder) {
        for name in list(path)? {
            measure(&path.join(name), bytes, used)?;
        }
    }
    Ok(())
}

/// The right to take something away from builds and boots.
enum Right {
    Locked(#[expect(dead_code, reason = "it is held")] Lock),
    NotNeeded,
}

impl Cached {
    /// The lock of those who make it, unless one of them is at work.
    fn lock(&self) -> io::Result<Option<Right>> {
        let name = match self.kind {
            CachedKind::Image | CachedKind::Symbols => Lock::path_for(&self.path),
            CachedKind::Checkpoint => self.path.with_extension("lock"),
            CachedKind::Packages => self.path.join(BUILDS),
            CachedKind::Other => return Ok(Some(Right::NotNeeded)),
        };
        Ok(Lock::try_take(&name)?.map(Right::Locked))
    }

    /// Removes it, unless somebody uses it.
    pub fn remove(&self) -> io::Result<Removal> {
        let Some(_right) = self.lock()? else { return Ok(Removal::InUse) };
        match self.kind {
            CachedKind::Image | CachedKind::Checkpoint | CachedKind::Symbols => remove_unheld(&self.path),
            CachedKind::Packages => {
                for name in list(&self.path)?.into_iter().filter(|name| name != BUILDS) {
                    remove(&self.path.join(name))?;
                }
                Ok(Removal::Removed)
            }
            CachedKind::Other => Ok(Removal::InUse),
        }
    }
}
