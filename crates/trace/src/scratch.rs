//! Temporary files and folders, and removal of those left by killed processes. The next writer in the same
//! folder, or the next user of a scratch folder, removes them. A file or folder is abandoned if the process
//! in its name does not exist and no other process (of another container or host) holds its lock.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use tempfile::{NamedTempFile, TempDir};

const FOLDER: &str = "doorbell-trace-";
const TEMPORARY: &str = ".tmp-";
/// Random characters that `tempfile` puts into a name.
const RANDOM_CHARS: usize = 6;

/// A private folder of a process in the system's temporary folder; removed on drop.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    _lock: Option<File>,
}

impl Scratch {
    /// Creates a folder, and removes those of killed processes.
    pub fn new() -> io::Result<Scratch> {
        Scratch::within(&std::env::temp_dir())
    }

    fn within(parent: &Path) -> io::Result<Scratch> {
        remove_left_behind(parent, user_of);
        let folder =
            tempfile::Builder::new().prefix(&format!("{FOLDER}{}-", std::process::id())).tempdir_in(parent);
        let folder = folder.map_err(|error| {
            let why = match fs::metadata(parent) {
                Ok(there) if there.is_dir() => error.to_string(),
                Ok(_) => "it is not a folder".to_owned(),
                Err(_) => "there is no such folder".to_owned(),
            };
            let problem = format!(
                "cannot create a folder for temporary files in {}: {why}; set TMPDIR to another folder",
                parent.display()
            );
            io::Error::new(error.kind(), problem)
        })?;
        // Not every file system supports locks; the process number then has to do.
        let lock = File::open(folder.path()).ok().filter(lock);
        Ok(Scratch { folder, _lock: lock })
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a temporary file in the target's folder, which is removed on drop. Its name identifies it if the
/// process is killed.
pub(crate) fn temporary(target: &Path) -> io::Result<NamedTempFile> {
    let mut prefix = OsString::from(".");
    prefix.push(target.file_name().ok_or(io::ErrorKind::InvalidFilename)?);
    prefix.push(format!("{TEMPORARY}{}-", std::process::id()));
    remove_left_behind(folder_of(target), writer_of);
    let mut builder = tempfile::Builder::new();
    let file = builder.prefix(&prefix).make_in(folder_of(target), |path| File::create_new(path))?;
    lock(file.as_file());
    Ok(file)
}

/// Gives a temporary file its target's name, durably.
pub(crate) fn persist(file: NamedTempFile, target: &Path) -> io::Result<()> {
    file.as_file().sync_all()?;
    file.persist(target).map_err(|error| error.error)?;
    File::open(folder_of(target))?.sync_all()
}

/// Locks a file that is being written, as long as it is open.
fn lock(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Returns whether the process is running on this system; `true` if that cannot be determined.
fn is_alive(process: u32) -> bool {
    !Path::new("/proc/self").exists() || Path::new(&format!("/proc/{process}")).exists()
}

/// Removes files and folders of killed processes, whose names have their numbers. Failures are ignored.
fn remove_left_behind(folder: &Path, process_of: fn(&str) -> Option<u32>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(process_of) else { continue };
        let (path, kind) = (entry.path(), entry.file_type());
        let _ = match kind {
            Ok(kind) if kind.is_file() && is_abandoned(&path, process) => fs::remove_file(&path),
            Ok(kind) if kind.is_dir() && is_abandoned(&path, process) => fs::remove_dir_all(&path),
            _ => Ok(()),
        };
    }
}

/// Process number in the name of a scratch folder.
fn user_of(name: &str) -> Option<u32> {
    name.strip_prefix(FOLDER)?.split_once('-')?.0.parse().ok()
}

fn is_abandoned(path: &Path, process: u32) -> bool {
    !is_alive(process) && File::open(path).is_ok_and(|file| lock(&file))
}

/// Process number in the name of a temporary trace: `.NAME.tmp-PROCESS-RANDOM`.
fn writer_of(name: &str) -> Option<u32> {
    let (_, tail) = name.strip_prefix('.')?.rsplit_once(TEMPORARY)?;
    let (process, random) = tail.split_once('-')?;
    // A number here means another program's temporary file.
    let is_random = random.len() == RANDOM_CHARS && !random.bytes().all(|char| char.is_ascii_digit());
    process.parse().ok().filter(|_| is_random)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of a process that has ended.
    fn dead() -> u32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    #[test]
    fn only_files_of_killed_writers_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (dead, alive) = (dead(), std::process::id());
        let abandoned = [format!(".a.dbt.tmp-{dead}-Zz9aB3"), format!(".c.xz.tmp-{dead}-aB3dE6")];
        let others = [
            format!(".a.dbt.tmp-{alive}-aB3dE6"),
            format!(".d.tmp-{dead}-3"),
            format!(".e.tmp-{dead}-123456"),
            "a.dbt".to_owned(),
        ];
        for name in abandoned.iter().chain(&others) {
            fs::write(folder.path().join(name), b"any").unwrap();
        }
        // A process of another container may have the number of a dead one here; it holds the lock.
        let locked = folder.path().join(format!(".f.dbt.tmp-{dead}-aB3dE6"));
        let open = File::create(&locked).unwrap();
        assert!(lock(&open));
        remove_left_behind(folder.path(), writer_of);
        assert!(locked.exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), others.len() + 1);
        assert!(others.iter().all(|name| folder.path().join(name).exists()));
        drop(open);
        remove_left_behind(folder.path(), writer_of);
        assert!(!locked.exists());
    }

    #[test]
    fn scratch_folders_of_killed_processes_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let left = parent.path().join(format!("{FOLDER}{}-x", dead()));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("converted.dbt"), b"large").unwrap();
        let other = Scratch::within(parent.path()).unwrap();
        assert!(!left.exists());
        let scratch = Scratch::within(parent.path()).unwrap();
        assert!(other.path().is_dir() && scratch.path().is_dir());
        drop((other, scratch));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn missing_temporary_folder_is_reported() {
        let parent = tempfile::tempdir().unwrap();
        let error = Scratch::within(&parent.path().join("gone")).unwrap_err().to_string();
        assert!(error.contains("gone: there is no such folder; set TMPDIR"), "{error}");
    }
}
