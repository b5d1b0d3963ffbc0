//! File operations; each is first requested from the controller.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::control::{Answer, request, step};
use crate::lock::Lock;

/// Part of the names of files being written.
const PART: &str = "tmp";

/// Type of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link (to anything), device, pipe or socket.
    Other,
}

/// Type of the entry itself, without following links; `None` if there is none.
pub fn kind(path: &Path) -> io::Result<Option<Kind>> {
    request("look", path)?;
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_file() => Ok(Some(Kind::File)),
        Ok(there) if there.is_dir() => Ok(Some(Kind::Folder)),
        Ok(_) => Ok(Some(Kind::Other)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    request("read", path)?;
    fs::read(path)
}

/// Names in a folder, sorted.
pub fn list(folder: &Path) -> io::Result<Vec<OsString>> {
    request("list", folder)?;
    let mut names =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Creates a folder, which must not exist.
pub fn create_folder(path: &Path) -> io::Result<()> {
    request("create-folder", path)?;
    fs::create_dir(path)
}

/// Creates a folder and its missing parents.
pub fn create_folders(path: &Path) -> io::Result<()> {
    request("create-folder", path)?;
    fs::create_dir_all(path)
}

/// Writes and syncs a file. An existing file is overwritten in place, so other processes must not see it yet.
pub fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    let answer = step("write", path);
    let mut file = File::create(path)?;
    if let Answer::Full(bytes) = answer {
        file.write_all(&contents[..bytes.min(contents.len())])?;
        return Err(io::ErrorKind::StorageFull.into());
    }
    file.write_all(contents)?;
    request("sync", path)?;
    file.sync_all()
}

/// Renames a file or folder, replacing an existing file.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    request("rename", to)?;
    fs::rename(from, to)
}

/// Exchanges the names of two files or folders atomically.
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    request("exchange", other)?;
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

/// Creates a hard link.
fn hard_link(from: &Path, to: &Path) -> io::Result<()> {
    request("link", to)?;
    fs::hard_link(from, to)
}

/// Removes a file, link or folder with its contents. A missing path is not an error.
pub fn remove(path: &Path) -> io::Result<()> {
    request("remove", path)?;
    let removed = match fs::symlink_metadata(path) {
        Ok(there) if there.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Syncs a folder's entries.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    request("sync", folder)?;
    File::open(folder)?.sync_all()
}

/// Syncs all files and folders in a folder, recursively.
pub fn sync_tree(folder: &Path) -> io::Result<()> {
    for name in list(folder)? {
        let path = folder.join(name);
        match kind(&path)? {
            Some(Kind::Folder) => sync_tree(&path)?,
            Some(Kind::File) => {
                request("sync", &path)?;
                File::open(&path)?.sync_all()?;
            }
            Some(Kind::Other) | None => {}
        }
    }
    sync_folder(folder)
}

/// Copies a folder, with hard links to its files if the file system supports them.
pub fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    create_folder(to)?;
    for name in list(from)? {
        let (old, new) = (from.join(&name), to.join(&name));
        match kind(&old)? {
            Some(Kind::Folder) => copy_tree(&old, &new)?,
            Some(Kind::File) => hard_link(&old, &new).or_else(|_| write(&new, &read(&old)?))?,
            Some(Kind::Other) | None => {}
        }
    }
    Ok(())
}

/// Moves a complete and synced folder to `target`, atomically if the file system can exchange two names. The
/// old folder is removed.
pub fn put_in_place(folder: &Path, target: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    if kind(target)?.is_none() {
        rename(folder, target)?;
    } else {
        match exchange(folder, target) {
            Ok(()) => {}
            Err(error)
                if [Some(rustix::io::Errno::INVAL), Some(rustix::io::Errno::NOSYS)]
                    .contains(&rustix::io::Errno::from_io_error(&error)) =>
            {
                remove(target)?;
                rename(folder, target)?;
            }
            Err(error) => return Err(error),
        }
    }
    sync_folder(parent(target))?;
    // After an exchange, this name has the old folder.
    remove(folder)
}

/// The path to write for `path`: the target, if it is a link to a file. Anything that a file must not replace
/// (a folder, device, or link to no file) is an error, and so is a missing folder.
pub fn written_at(path: &Path) -> io::Result<PathBuf> {
    let path = match kind(path)? {
        Some(Kind::File) | None => path.to_owned(),
        Some(Kind::Other) if fs::metadata(path).is_ok_and(|there| there.is_file()) => fs::canonicalize(path)?,
        Some(_) => return Err(io::Error::other("it exists and is not a regular file")),
    };
    let folder = parent(&path);
    match fs::metadata(folder) {
        Ok(there) if there.is_dir() => Ok(path),
        Ok(_) => Err(io::Error::other(format!("{} is not a folder", folder.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(io::Error::new(error.kind(), format!("there is no folder {}", folder.display())))
        }
        Err(error) => Err(error),
    }
}

/// Replaces a file atomically and durably. Concurrent calls are serialised, and the next call removes what a
/// killed one has left. A link to a file is kept.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let path = &written_at(path)?;
    let _lock = Lock::wait_always(&Lock::path_for(path), || {})?;
    remove_left_behind(path, PART)?;
    let temporary = temporary_name(path, PART);
    let done = write(&temporary, contents)
        .and_then(|()| fs::set_permissions(&temporary, fs::Permissions::from_mode(0o644)))
        .and_then(|()| rename(&temporary, path))
        .and_then(|()| sync_folder(parent(path)));
    if done.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    done
}

/// A unique hidden name next to `path` that contains `word`.
pub fn temporary_name(path: &Path, word: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    hidden(path, &format!(".{word}-{}-{count}", std::process::id()))
}

/// A hidden name next to `path`: a dot, its name, and `ending`.
pub(crate) fn hidden(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or(OsStr::new("unnamed")));
    name.push(ending);
    path.with_file_name(name)
}

/// Removes files with names from [`temporary_name`] that killed processes have left. The caller must know
/// that no process is using `path`. Returns their number.
pub fn remove_left_behind(path: &Path, word: &str) -> io::Result<usize> {
    let prefix = hidden(path, &format!(".{word}-"));
    let mut removed = 0;
    for name in list(parent(path))? {
        let found = path.with_file_name(name);
        if found.as_os_str().as_encoded_bytes().starts_with(prefix.as_os_str().as_encoded_bytes()) {
            remove(&found)?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Removes what killed calls of [`replace`] have left in a folder, except for files being written. It is
/// meant for folders whose files are not written again. Checking the folder is not a controlled step.
pub fn remove_parts_in(folder: &Path) -> io::Result<()> {
    let word = format!(".{PART}-");
    let of = |name: OsString| -> Option<PathBuf> {
        let (of, _) = name.to_str()?.strip_prefix('.')?.rsplit_once(&word)?;
        Some(folder.join(of))
    };
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    for path in names.into_iter().filter_map(of) {
        if let Some(_lock) = Lock::try_take(&Lock::path_for(&path))? {
            remove_left_behind(&path, PART)?;
        }
    }
    Ok(())
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
