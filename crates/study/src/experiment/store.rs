//! The result folder of an experiment. A point is done when its folder, named by its identity, is there, whole and unchanged: it
//! is written under another name, sealed, made durable, and renamed. Whoever measures a point holds its lock, which lies
//! beside the folder, until the folder is in place: another sweep of the same experiment waits for the point instead of
//! measuring it too. A process that is killed leaves only a folder of that other name, which is swept away when nobody holds the
//! point's lock any more.

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

/// What is known of a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is still to be measured.
    Missing,
    /// It is measured, and its results are as they were written.
    Done,
    /// Something is in its place that is no whole result; it is measured again.
    Damaged(String),
}

impl Store {
    /// Opens the folder, makes it if need be, and checks that it can be written, and that there is nothing of others' in it that the sweep's
    /// own files would take the place of.
    pub fn open(path: &Path) -> Result<Store, RunError> {
        refuse_foreign(path)?;
        let folder = ResultFolder::create(path)?;
        let points = path.join(POINTS);
        create_folders(&points).map_err(RunError::io("create the points' folder", &points))?;
        Ok(Store { folder, points })
    }

    /// The whole experiment's folder.
    pub fn folder(&self) -> &ResultFolder {
        &self.folder
    }

    /// Where a point's results are, or will be.
    pub fn point(&self, identity: &Identity) -> PathBuf {
        self.points.join(&identity.0)
    }

    /// What is known of a point, from every file of it.
    pub fn state(&self, identity: &Identity) -> State {
        let path = self.point(identity);
        match kind(&path) {
            Ok(None) => State::Missing,
            Ok(Some(Kind::Folder)) => verify(&path).map_or_else(State::Damaged, |()| State::Done),
            Ok(Some(_)) => State::Damaged("it is not a folder".to_owned()),
            Err(error) => State::Damaged(error.to_string()),
        }
    }

    /// Whether a point is done.
    pub fn is_done(&self, identity: &Identity) -> bool {
        self.state(identity) == State::Done
    }

    /// A file of a point that is done.
    pub fn read(&self, identity: &Identity, name: &str) -> Result<Vec<u8>, String> {
        read_verified(&self.point(identity), name)
    }

    /// Removes what killed processes have left: parts of points, and locks that nobody holds.
    pub fn sweep_away_partial(&self) -> Result<usize, RunError> {
        let io = |error| RunError::Io { action: "clean up", path: self.points.clone(), error };
        let mut swept = 0;
        for name in list(&self.points).map_err(io)? {
            let name = name.to_string_lossy().into_owned();
            let Some(hidden) = name.strip_prefix('.') else { continue };
            let part = hidden.split_once(".partial-").map(|(identity, _)| identity);
            let Some(identity) = part.or_else(|| hidden.strip_suffix(".lock")) else { continue };
            let identity = Identity(identity.to_owned());
            // Whoever is still writing there holds the lock. One that is free goes with its file.
            let point = self.point(&identity);
            if let Some(_lock) = Lock::try_take(&Lock::beside(&point)).map_err(io)? {
                swept += remove_left_behind(&point, PARTIAL).map_err(io)?;
            }
        }
        Ok(swept)
    }

    /// Makes a point done by what `write` puts into a folder, unless another process does. `busy` is called each time that one
    /// is found at it, and may end the wait. Both are given `context`.
    pub fn complete<C, E: From<RunError>>(
        &self,
        identity: &Identity,
        context: &mut C,
        mut busy: impl FnMut(&mut C) -> Result<(), E>,
        write: impl FnOnce(&ResultFolder, &mut C) -> Result<(), E>,
    ) -> Result<(), E> {
        let target = self.point(identity);
        let lock = Lock::wait(&Lock::beside(&target), || busy(context));
        let _lock = lock.map_err(RunError::io("lock", &target))??;
        match self.state(identity) {
            State::Done => return Ok(()),
            State::Missing => {}
            State::Damaged(_) => {
                remove(&target).map_err(RunError::io("remove the damaged point", &target))?
            }
        }
        remove_left_behind(&target, PARTIAL).map_err(RunError::io("clean up beside", &target))?;
        let partial = temporary_name(&target, PARTIAL);
        let written = self.write_point(&partial, &target, |folder| write(folder, context));
        if written.is_err() {
            // What is not whole counts for nothing; the next one to measure the point removes it otherwise.
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

/// What a sweep writes into its folder, or a command that has one swept before there are points.
const OURS: [&str; 7] =
    [POINTS, "cluster", "config.toml", "report.html", "search.toml", "table.csv", "table.parquet"];

/// A folder that holds anything but a sweep is left alone: the sweep's page and table would take the place of others'.
fn refuse_foreign(path: &Path) -> Result<(), RunError> {
    let foreign = |problem: String| Err(RunError::ResultsForeign { path: path.to_owned(), problem });
    match kind(path).map_err(RunError::io("look at", path))? {
        Some(Kind::Folder) => {}
        // What is no folder is told where it is opened; a link may lead to one.
        _ if path.is_dir() => {}
        _ => return Ok(()),
    }
    let names = list(path).map_err(RunError::io("read", path))?;
    let names: Vec<String> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    if names.iter().any(|name| name == SEAL || name == "summary.json") {
        return foreign("it holds the results of a command that is no sweep".into());
    }
    let is_sweeps = names.iter().any(|name| name == POINTS);
    let is_ours = |name: &String| name.starts_with('.') || OURS.contains(&name.as_str());
    match names.iter().find(|name| !is_sweeps && !is_ours(name)) {
        Some(name) => foreign(format!("it holds {name}, which no sweep wrote")),
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
    fn a_folder_of_something_else_is_left_as_it_is() {
        let scratch = tempfile::tempdir().unwrap();
        let make = |name: &str, files: &[&str]| {
            let path = scratch.path().join(name);
            fs::create_dir_all(&path).unwrap();
            files.iter().for_each(|file| fs::write(path.join(file), "own").unwrap());
            path
        };
        for (name, files, problem) in [
            ("run", &["report.html", "summary.json", "files.sha256"][..], "no sweep"),
            ("papers", &["table.csv", "thesis.tex"], "thesis.tex"),
        ] {
            let path = make(name, files);
            let said = Store::open(&path).unwrap_err().to_string();
            assert!(said.contains(problem), "{said}");
            assert_eq!(list(&path).unwrap().len(), files.len(), "nothing was added");
        }
        let own = make("own", &[]);
        Store::open(&own).unwrap();
        // A sweep's folder may hold notes.
        fs::write(own.join("notes.txt"), "own").unwrap();
        Store::open(&own).unwrap();
        std::os::unix::fs::symlink(&own, scratch.path().join("link")).unwrap();
        Store::open(&scratch.path().join("link")).unwrap();
        std::os::unix::fs::symlink(scratch.path().join("papers"), scratch.path().join("other")).unwrap();
        Store::open(&scratch.path().join("other")).unwrap_err();
    }

    #[test]
    fn a_point_is_there_whole_or_not_at_all() {
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
        // Once more is no error, and changes nothing.
        complete(&store, "good", "[]").unwrap();
        assert_eq!(store.read(&identity("good"), "summary.json").unwrap(), b"{}");
        assert_eq!(names(&folder.path().join(POINTS)), ["good"]);
    }

    #[test]
    fn what_a_killed_process_left_is_swept_away_and_what_a_living_one_writes_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        fs::create_dir_all(folder.path().join("points/.left.partial-1-0")).unwrap();
        fs::write(folder.path().join("points/.left.lock"), "").unwrap();
        let write = |own: &ResultFolder, _: &mut ()| {
            assert_eq!(store.sweep_away_partial().unwrap(), 1);
            assert!(own.path().is_dir());
            own.write("summary.json", "{}")
        };
        store.complete::<_, RunError>(&identity("alive"), &mut (), |()| Ok(()), write).unwrap();
        assert_eq!(names(&folder.path().join(POINTS)), ["alive"]);
    }

    #[test]
    fn who_finds_another_at_a_point_waits_for_its_result() {
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
    fn a_point_that_was_changed_or_is_something_else_is_measured_again() {
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
