//! The folders of a build, used by one build at a time, and removal of an interrupted build's leftovers.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use doorbell_files::{self as files, Lock};

use crate::builder::BuildOptions;
use crate::confine::{Bounds, Limits};
use crate::error::ImageError;
use crate::interrupt;
use crate::manifest::MANIFEST_FILE;

/// Refuses an output folder that is not an image, because the build would replace it.
pub(crate) fn refuse_foreign(out_dir: &Path) -> Result<(), ImageError> {
    let Ok(mut entries) = fs::read_dir(out_dir) else {
        let in_the_way = out_dir.symlink_metadata().is_ok();
        return if in_the_way { Err(ImageError::NotAnImage { dir: out_dir.to_owned() }) } else { Ok(()) };
    };
    if entries.next().is_some() && !out_dir.join(MANIFEST_FILE).is_file() {
        return Err(ImageError::NotAnImage { dir: out_dir.to_owned() });
    }
    Ok(())
}

/// Prefix of the cache's folders in which packages are unpacked and programs compiled.
pub(crate) const UNPACK_PREFIX: &str = ".unpack-";

/// The folders of a build, locked against other builds while this value lives.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub cache: PathBuf,
    /// The folder that contains the image's folder: temporary files must be on the same file system.
    pub parent: PathBuf,
    name: String,
    locks: [Lock; 2],
}

impl Workspace {
    pub(crate) fn prepare(
        options: &BuildOptions,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, ImageError> {
        let create = |dir: &Path| {
            files::create_folders(dir).map_err(ImageError::io("create", dir))?;
            dir.canonicalize().map_err(ImageError::io("open", dir))
        };
        let cache = create(&options.cache_dir)?;
        let Some(name) = options.out_dir.file_name().map(|name| name.to_string_lossy().into_owned()) else {
            let reason =
                io::Error::new(io::ErrorKind::InvalidInput, "the image's folder needs a name of its own");
            return Err(ImageError::io("use", &options.out_dir)(reason));
        };
        let parent = options.out_dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = create(parent.unwrap_or(Path::new(".")))?;
        // Always locks the cache first, so that two builds cannot deadlock.
        let locks =
            [lock(&cache.join(".lock"), progress)?, lock(&Lock::path_for(&parent.join(&name)), progress)?];
        let workspace = Self { cache, parent, name, locks };
        remove_leftovers(&workspace.cache, UNPACK_PREFIX);
        remove_leftovers(&workspace.cache.join("debs"), ".incoming-");
        remove_leftovers(&workspace.parent, &workspace.building_prefix());
        Ok(workspace)
    }

    pub(crate) fn cache_lock(&self) -> &File {
        self.locks[0].file()
    }

    /// Bounds for a program that works in one folder. It keeps other builds out while it runs.
    pub(crate) fn bounds<'a>(&'a self, folder: &'a Path) -> Bounds<'a> {
        let limits = Limits::default();
        Bounds { reads: None, writes: vec![folder], network: false, limits, lock: Some(self.cache_lock()) }
    }

    pub(crate) fn building_prefix(&self) -> String {
        format!(".{}.building-", self.name)
    }
}

fn lock(path: &Path, progress: &mut dyn FnMut(&str)) -> Result<Lock, ImageError> {
    let mut reported = false;
    let busy = || {
        if !std::mem::replace(&mut reported, true) {
            progress("waiting for another build to finish");
        }
        interrupt::check()
    };
    Lock::wait(path, busy).map_err(ImageError::io("lock", path))?
}

/// Ignores errors: leftovers only use disk space, and the next build tries again.
fn remove_leftovers(dir: &Path, prefix: &str) {
    for name in files::list(dir).unwrap_or_default() {
        if name.to_string_lossy().starts_with(prefix) {
            let _ = files::remove(&dir.join(name));
        }
    }
}

/// A folder that only its owner can enter, removed when the value is dropped.
pub(crate) fn temporary(dir: &Path, prefix: &str) -> Result<tempfile::TempDir, ImageError> {
    tempfile::Builder::new().prefix(prefix).tempdir_in(dir).map_err(ImageError::io("create a folder in", dir))
}
