//! Result folder of an experiment. A point is finished when its folder, named by its identity, exists and
//! passes verification. The folder is written under a temporary name, sealed, synced to disk, and renamed. A
//! process that measures a point holds the point's lock file, next to the folder, until the rename. Another
//! sweep of the same experiment then waits for the result instead of measuring the point too. A killed
//! process leaves only a folder with a temporary name, which is removed once the point's lock is free.

use std::path::{Path, PathBuf};

use doorbell_bench::{ResultFolder, RunError, SEAL, read_verified, seal, verify};
use doorbell_files::{
    Kind, Lock, create_folder, create_folders, kind, list, put_in_place, remove, remove_left_behind,
    sync_tree, temporary_name,
};

use super::plan::Identity;

const POINTS: &str = "points";
const PARTIAL: &str = "partial";

/// An experiment's result folder.
#[derive(Clone, Debug)]
pub struct Store {
    folder: ResultFolder,
    points: PathBuf,
}

/// Status of a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Not yet measured.
    Missing,
    /// Measured, and its results are unmodified.
    Done,
    /// Its path exists but is not a complete result; it will be measured again.
    Damaged(String),
}

impl Store {
    /// Opens the folder, creates it if it does not exist, and checks that it is writable. Fails if it
    /// contains other files that the sweep's files could overwrite.
    pub fn open(path: &Path) -> Result<Store, RunError> {
        refuse_foreign(path)?;
        let folder = ResultFolder::create(path)?;
        let points = path.join(POINTS);
        create_folders(&points).map_err(RunError::io("create the points' folder", &points))?;
        Ok(Store { folder, points })
    }

    /// The experiment's folder.
    pub fn folder(&self) -> &ResultFolder {
        &self.folder
    }

    /// Path of a point's results.
    pub fn point(&self, identity: &Identity) -> PathBuf {
        self.points.join(&identity.0)
    }

    /// Status of a point, verified over all its files.
    pub fn state(&self, identity: &Identity) -> State {
        let path = self.point(identity);
        match kind(&path) {
            Ok(None) => State::Missing,
            Ok(Some(Kind::Folder)) => verify(&path).map_or_else(State::Damaged, |()| State::Done),
            Ok(Some(_)) => State::Damaged("it is not a folder".to_owned()),
            Err(error) => State::Damaged(error.to_string()),
        }
    }

    /// Whether a point is finished.
    pub fn is_done(&self, identity: &Identity) -> bool {
        self.state(identity) == State::Done
    }

    /// Reads a file of a finished point.
    pub fn read(&self, identity: &Identity, name: &str) -> Result<Vec<u8>, String> {
        read_verified(&self.point(identity), name)
    }

    /// Removes leftovers of killed processes: partial points, and lock files that no process holds. Returns
    /// their number.
    pub fn remove_partial(&self) -> Result<usize, RunError> {
        let io = |error| RunError::Io { action: "clean up", path: self.points.clone(), error };
        let mut removed = 0;
        for name in list(&self.points).map_err(io)? {
            let name = name.to_string_lossy().into_owned();
            let Some(hidden) = name.strip_prefix('.') else { continue };
            let part = hidden.split_once(".partial-").map(|(identity, _)| identity);
            let Some(identity) = part.or_else(|| hidden.strip_suffix(".lock")) else { continue };
            let identity = Identity(identity.to_owned());
            // A process that is still writing holds the lock. If the lock is free, it is removed together
            // with its file.
            let point = self.point(&identity);
            if let Some(_lock) = Lock::try_take(&Lock::path_for(&point)).map_err(io)? {
                removed += remove_left_behind(&point, PARTIAL).map_err(io)?;
            }
        }
        Ok(removed)
    }

    /// Completes a point with the files that `write` creates, unless another process completes it first.
    /// `busy` is called repeatedly while another process holds the lock, and may end the wait. Both receive
    /// `context`.
    pub fn complete<C, E: From<RunError>>(
        &self,
        identity: &Identity,
        context: &mut C,
        mut busy: impl FnMut(&mut C) -> Result<(), E>,
        write: impl FnOnce(&ResultFolder, &mut C) -> Result<(), E>,
    ) -> Result<(), E> {
        let target = self.point(identity);
        let lock = Lock::wait(&Lock::path_for(&target), || busy(context));
        let _lock = lock.map_err(RunError::io("lock", &target))??;
        match self.state(identity) {
            State::Done => return Ok(()),
            State::Missing => {}
            State::Damaged(_) => {
                remove(&target).map_err(RunError::io("remove the damaged point", &target))?
            }
        }
        remove_left_behind(&target, PARTIAL).map_err(RunError::io("clean up next to", &target))?;
        let partial = temporary_name(&target, PARTIAL);
        let written = self.write_point(&partial, &target, |folder| write(folder, context));
        if written.is_err() {
            // A partial folder is never used; if this fails, the next process that measures the point removes
            // it.
            let _ = remove(&partial);
        }
        written
    }

    fn write_point<E: From<RunError>>(
        &self,
        partial: &Path,
        target: &Path,
        write: impl FnOnce(&ResultFolder) -> Result<(), E>,
    ) -> Result<(), E> {
        create_folder(partial).map_err(RunError::io("create a folder in", &self.points))?;
        let folder = ResultFolder::create(partial)?;
        write(&folder)?;
        seal(&folder)?;
        sync_tree(partial).map_err(RunError::io("write", partial))?;
        Ok(put_in_place(partial, target).map_err(RunError::io("put the point's results into", target))?)
    }
}

/// Files in a sweep's folder, written by the sweep or by a command that uses one, before there are points.
const OURS: [&str; 7] =
    [POINTS, "cluster", "config.toml", "report.html", "search.toml", "table.csv", "table.parquet"];

/// Rejects a folder that contains anything other than a sweep, because the sweep's page and table could
/// overwrite its files.
fn refuse_foreign(path: &Path) -> Result<(), RunError> {
    let foreign = |problem: String| Err(RunError::ResultsForeign { path: path.to_owned(), problem });
    match kind(path).map_err(RunError::io("look at", path))? {
        Some(Kind::Folder) => {}
        // A path that is not a folder is reported when it is opened; a link may lead to a folder.
        _ if path.is_dir() => {}
        _ => return Ok(()),
    }
    let names = list(path).map_err(RunError::io("read", path))?;
    let names: Vec<String> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    if names.iter().any(|name| name == SEAL || name == "summary.json") {
        return foreign("it contains the results of a command other than a sweep".into());
    }
    let is_sweeps = names.iter().any(|name| name == POINTS);
    let is_ours = |name: &String| name.starts_with('.') || OURS.contains(&name.as_str());
    match names.iter().find(|name| !is_sweeps && !is_ours(name)) {
        Some(name) => foreign(format!("it contains {name}, which was not written by a sweep")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(path: &Path) -> Vec<String> {
        list(path).unwrap().into_iter().map(|name| name.into_string().unwrap()).collect()
    }

    fn identity(name: &str) -> Identity {
        Identity(name.into())
    }

    fn complete(store: &Store, name: &str, contents: &str) -> Result<(), RunError> {
        let write = |folder: &ResultFolder, _: &mut ()| folder.write("summary.json", contents);
        store.complete(&identity(name), &mut (), |()| Err(RunError::Interrupted), write)
    }

    #[test]
    fn a_folder_with_foreign_files_is_rejected_and_unchanged() {
        let scratch = tempfile::tempdir().unwrap();
        let make = |name: &str, files: &[&str]| {
            let path = scratch.path().join(name);
            fs::create_dir_all(&path).unwrap();
            files.iter().for_each(|file| fs::write(path.join(file), "own").unwrap());
            path
        };
        for (name, files, problem) in [
            ("run", &["report.html", "summary.json", "files.sha256"][..], "other than a sweep"),
            ("papers", &["table.csv", "thesis.tex"], "thesis.tex"),
        ] {
            let path = make(name, files);
            let message = Store::open(&path).unwrap_err().to_string();
            assert!(message.contains(problem), "{message}");
            assert_eq!(list(&path).unwrap().len(), files.len(), "nothing was added");
        }
        let own = make("own", &[]);
        Store::open(&own).unwrap();
        // A sweep's folder may contain the user's notes.
        fs::write(own.join("notes.txt"), "own").unwrap();
        Store::open(&own).unwrap();
        std::os::unix::fs::symlink(&own, scratch.path().join("link")).unwrap();
        Store::open(&scratch.path().join("link")).unwrap();
        std::os::unix::fs::symlink(scratch.path().join("papers"), scratch.path().join("other")).unwrap();
        Store::open(&scratch.path().join("other")).unwrap_err();
    }

    #[test]
    fn a_point_is_stored_completely_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        complete(&store, "good", "{}").unwrap();
        let error = store.complete(
            &identity("bad"),
            &mut (),
            |()| Ok(()),
            |folder, ()| {
                folder.write("summary.json", "{}")?;
                Err(RunError::Interrupted)
            },
        );
        assert!(matches!(error, Err(RunError::Interrupted)));
        assert_eq!(store.state(&identity("good")), State::Done);
        assert_eq!(store.state(&identity("bad")), State::Missing);
        assert_eq!(names(&folder.path().join(POINTS)), ["good"]);
        assert_eq!(names(&store.point(&identity("good"))), [SEAL, "summary.json"]);
        // Repeating is not an error, and changes nothing.
        complete(&store, "good", "[]").unwrap();
        assert_eq!(store.read(&identity("good"), "summary.json").unwrap(), b"{}");
        assert_eq!(names(&folder.path().join(POINTS)), ["good"]);
    }

    #[test]
    fn leftovers_of_killed_processes_are_removed_and_running_ones_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        fs::create_dir_all(folder.path().join("points/.left.partial-1-0")).unwrap();
        fs::write(folder.path().join("points/.left.lock"), "").unwrap();
        let write = |own: &ResultFolder, _: &mut ()| {
            assert_eq!(store.remove_partial().unwrap(), 1);
            assert!(own.path().is_dir());
            own.write("summary.json", "{}")
        };
        store.complete::<_, RunError>(&identity("alive"), &mut (), |()| Ok(()), write).unwrap();
        assert_eq!(names(&folder.path().join(POINTS)), ["alive"]);
    }

    #[test]
    fn a_process_waits_for_a_point_that_another_is_measuring() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let write = |own: &ResultFolder, _: &mut ()| {
            assert!(matches!(complete(&store, "one", "other"), Err(RunError::Interrupted)));
            own.write("summary.json", "first")
        };
        store.complete::<_, RunError>(&identity("one"), &mut (), |()| Ok(()), write).unwrap();
        complete(&store, "one", "other").unwrap();
        assert_eq!(store.read(&identity("one"), "summary.json").unwrap(), b"first");
    }

    #[test]
    fn a_damaged_point_is_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let path = store.point(&identity("one"));
        for damage in 0..5 {
            complete(&store, "one", "{}").unwrap();
            let summary = path.join("summary.json");
            match damage {
                0 => fs::write(&summary, "[]").unwrap(),
                1 => fs::remove_file(&summary).unwrap(),
                2 => fs::remove_file(path.join(SEAL)).unwrap(),
                _ => fs::remove_dir_all(&path).unwrap(),
            }
            match damage {
                3 => fs::write(&path, "a file").unwrap(),
                4 => std::os::unix::fs::symlink("nowhere", &path).unwrap(),
                _ => {}
            }
            assert!(matches!(store.state(&identity("one")), State::Damaged(_)), "damage {damage}");
            complete(&store, "one", "{}").unwrap();
            assert_eq!(store.state(&identity("one")), State::Done, "damage {damage}");
        }
    }
}
