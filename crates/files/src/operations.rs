//! The operations. Each is what its name says, after the controller's leave.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::control::{Answer, allowed, step};
use crate::lock::Lock;

/// What the names of files say that are being written.
const PART: &str = "tmp";

/// What is found under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, wherever it leads, or a device, pipe or socket.
    Other,
}

/// What is under this name itself: links are not followed. `None` if there is nothing.
pub fn kind(path: &Path) -> io::Result<Option<Kind>> {
    allowed("look", path)?;
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_file() => Ok(Some(Kind::File)),
        Ok(there) if there.is_dir() => Ok(Some(Kind::Folder)),
        Ok(_) => Ok(Some(Kind::Other)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A file's contents.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    allowed("read", path)?;
    fs::read(path)
}

/// The names in a folder, in alphabetical order.
pub fn list(folder: &Path) -> io::Result<Vec<OsString>> {
    allowed("list", folder)?;
    let mut names =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Makes a folder that is not there yet.
pub fn create_folder(path: &Path) -> io::Result<()> {
    allowed("create-folder", path)?;
    fs::create_dir(path)
}

/// Makes a folder and those that it is in, as far as they are not there.
pub fn create_folders(path: &Path) -> io::Result<()> {
    allowed("create-folder", path)?;
    fs::create_dir_all(path)
}

/// Writes a file and makes its contents durable. A file that is there is overwritten: for one that nobody else sees yet.
pub fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    let answer = step("write", path);
    let mut file = File::create(path)?;
    if let Answer::Full(bytes) = answer {
        file.write_all(&contents[..bytes.min(contents.len())])?;
        return Err(io::ErrorKind::StorageFull.into());
    }
    file.write_all(contents)?;
    allowed("sync", path)?;
    file.sync_all()
}

/// Gives a file or folder another name; what has that name already is replaced, if it is a file.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    allowed("rename", to)?;
    fs::rename(from, to)
}

/// Gives two files or folders each the other's name, in one step.
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    allowed("exchange", other)?;
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

/// Gives a file a second name.
fn hard_link(from: &Path, to: &Path) -> io::Result<()> {
    allowed("link", to)?;
    fs::hard_link(from, to)
}

/// Removes a file, a link or a folder with all that is in it. If there is nothing, nothing is done.
pub fn remove(path: &Path) -> io::Result<()> {
    allowed("remove", path)?;
    let removed = match fs::symlink_metadata(path) {
        Ok(there) if there.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Makes a folder's list of names durable.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    allowed("sync", folder)?;
    File::open(folder)?.sync_all()
}

/// Makes all files in a folder, those in its folders, and all lists of names durable.
pub fn sync_tree(folder: &Path) -> io::Result<()> {
    for name in list(folder)? {
        let path = folder.join(name);
        match kind(&path)? {
            Some(Kind::Folder) => sync_tree(&path)?,
            Some(Kind::File) => {
                allowed("sync", &path)?;
                File::open(&path)?.sync_all()?;
            }
            Some(Kind::Other) | None => {}
        }
    }
    sync_folder(folder)
}

/// A folder like another, whose files are second names of the other's where the file system has such, and else copies.
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

/// Puts a folder that is whole and durable in the place of `target`, in one step where the file system can exchange two
/// names. What was at `target` is removed.
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
    // After an exchange the other name holds what was replaced.
    remove(folder)
}

/// The file that is written where `path` is to be: that which a link leads to, if it leads to one. What a file must not take the
/// place of (a folder, a device, a link to no file) is an error, and so is a folder that is not there.
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

/// Replaces a file as a whole, durably: the old contents or the new ones are there at any time. Several processes may do so at
/// once, and what one that was killed has left of it goes with the next one. A link to a file stays one.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let path = &written_at(path)?;
    let _lock = Lock::wait_always(&Lock::beside(path), || {})?;
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

/// A name beside `path` that no other call gives: hidden, and with a word that says what it is.
pub fn temporary_name(path: &Path, word: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    hidden(path, &format!(".{word}-{}-{count}", std::process::id()))
}

/// A hidden name beside `path`: a dot, its name, and `ending`.
pub(crate) fn hidden(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or(OsStr::new("unnamed")));
    name.push(ending);
    path.with_file_name(name)
}

/// Removes what calls of [`temporary_name`] for `path` and `word` named, and killed processes have left: for whoever knows that
/// nobody else is at work on `path`. Tells how many there were.
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

/// Removes what killed calls of [`replace`] have left of any file in a folder, unless somebody is at work on it: for who finds a file there that
/// nobody will write again. Looking whether there is something is no step of a process.
pub fn remove_parts_in(folder: &Path) -> io::Result<()> {
    let word = format!(".{PART}-");
    let of = |name: OsString| -> Option<PathBuf> {
        let (of, _) = name.to_str()?.strip_prefix('.')?.rsplit_once(&word)?;
        Some(folder.join(of))
    };
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    for path in names.into_iter().filter_map(of) {
        if let Some(_lock) = Lock::try_take(&Lock::beside(&path))? {
            remove_left_behind(&path, PART)?;
        }
    }
    Ok(())
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
