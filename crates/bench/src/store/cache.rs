//! Contents of the cache folder, and their removal. Images, checkpoints, packages and debugging symbols are
//! recreated on demand. Entries that a process is using (`doorbell_files::hold`), building or booting (locks)
//! are not removed.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use doorbell_files::{Kind, Lock, Removal, is_held, kind, list, remove, remove_unheld};

use crate::store::paths::CachePaths;

/// Lock file of builds, in the packages folder.
const BUILDS: &str = ".lock";
/// File extensions of checkpoints: of one machine, and of several.
const CHECKPOINTS: [&str; 2] = ["ckpt", "net"];
const PACKAGES: &str = "packages";

/// Kinds of cache entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CachedKind {
    /// A guest image; it is rebuilt on demand.
    Image,
    /// A checkpoint of a booted guest; the guest is booted again on demand.
    Checkpoint,
    /// Packages for building images; they are downloaded again on demand.
    Packages,
    /// Debugging symbols of an image's programs; they are downloaded again on demand.
    Symbols,
    /// Other entries, such as recorded traces. They are never removed.
    Other,
}

impl CachedKind {
    /// The kind's name.
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

/// A cache entry.
#[derive(Clone, Debug)]
pub struct Cached {
    /// Its kind.
    pub kind: CachedKind,
    /// Its name.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
    /// Its size on the disk.
    pub bytes: u64,
    /// Time of its last use, from the file system's timestamps.
    pub used: SystemTime,
    /// Whether a process is using it.
    pub in_use: bool,
}

impl CachePaths {
    /// All entries of the cache, sorted by kind and name.
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
                    let is_checkpoint =
                        |name: &String| CHECKPOINTS.iter().any(|end| name.ends_with(&format!(".{end}")));
                    for name in own.into_iter().filter(is_checkpoint) {
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

/// Names in a folder, without hidden ones; empty if the folder does not exist.
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

/// The entry at `path`, unless it has been removed in the meantime.
fn entry(kind: CachedKind, path: PathBuf, name: String) -> io::Result<Option<Cached>> {
    let (mut bytes, mut used) = (0, SystemTime::UNIX_EPOCH);
    match measure(&path, &mut bytes, &mut used) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut cached = Cached { kind, name, path, bytes, used, in_use: false };
    // A read-only cache has no locks.
    let locked = cached.lock().is_ok_and(|permission| permission.is_none());
    cached.in_use = locked || kind != CachedKind::Other && is_held(&cached.path).unwrap_or(false);
    Ok(Some(cached))
}

/// Adds the sizes of all files at `path` to `bytes`, and raises `used` to their latest time of use.
fn measure(path: &Path, bytes: &mut u64, used: &mut SystemTime) -> io::Result<()> {
    let found = path.symlink_metadata()?;
    *bytes += found.blocks() * 512;
    // Listing a folder updates its access time. `hold` therefore records the use of a folder in its
    // modification time.
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

/// Permission to remove an entry: no build or boot is creating it.
enum Permission {
    Locked(#[expect(dead_code, reason = "the lock is released when dropped")] Lock),
    NotNeeded,
}

impl Cached {
    /// Takes the lock of the processes that create the entry. `None` if one of them holds it.
    fn lock(&self) -> io::Result<Option<Permission>> {
        let name = match self.kind {
            CachedKind::Image | CachedKind::Symbols => Lock::path_for(&self.path),
            CachedKind::Checkpoint => self.path.with_extension("lock"),
            CachedKind::Packages => self.path.join(BUILDS),
            CachedKind::Other => return Ok(Some(Permission::NotNeeded)),
        };
        Ok(Lock::try_take(&name)?.map(Permission::Locked))
    }

    /// Removes the entry, unless a process is using it.
    pub fn remove(&self) -> io::Result<Removal> {
        let Some(_permission) = self.lock()? else { return Ok(Removal::InUse) };
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
