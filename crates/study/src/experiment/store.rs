//! The result folder of an experiment. A point is done when its folder, named by its identity, is there: it is written under another
//! name, made durable, and renamed. A process that is killed leaves only a folder of that other name, which is swept away when
//! nobody holds its lock any more.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use doorbell_bench::{ResultFolder, RunError};
use rustix::fs::{FlockOperation, flock};

use super::plan::Identity;

const POINTS: &str = "points";
const PARTIAL: &str = ".partial-";
const LOCK: &str = ".lock";

/// An experiment's result folder.
#[derive(Clone, Debug)]
pub struct Store {
    folder: ResultFolder,
    points: PathBuf,
}

impl Store {
    /// Opens the folder, makes it if need be, and checks that it can be written.
    pub fn open(path: &Path) -> Result<Store, RunError> {
        let folder = ResultFolder::create(path)?;
        let points = path.join(POINTS);
        fs::create_dir_all(&points).map_err(RunError::io("create the points' folder", &points))?;
        Ok(Store { folder, points })
    }

    /// A folder that is only read, and need not be there.
    pub fn at(path: &Path) -> PathBuf {
        path.join(POINTS)
    }

    /// The whole experiment's folder.
    pub fn folder(&self) -> &ResultFolder {
        &self.folder
    }

    /// Where a point's results are, or will be.
    pub fn point(&self, identity: &Identity) -> PathBuf {
        self.points.join(&identity.0)
    }

    /// Whether a point is done.
    pub fn is_done(&self, identity: &Identity) -> bool {
        self.point(identity).is_dir()
    }

    /// Removes what killed processes have left.
    pub fn sweep_away_partial(&self) -> Result<usize, RunError> {
        let io = |error| RunError::Io { action: "read", path: self.points.clone(), error };
        let mut swept = 0;
        for entry in fs::read_dir(&self.points).map_err(io)? {
            let entry = entry.map_err(io)?;
            if !entry.file_name().to_string_lossy().starts_with(PARTIAL) {
                continue;
            }
            // Whoever is still writing there holds the lock. Without a lock file the process was killed at once, or is just
            // about to make one; the latter will find its folder gone, and says so.
            let lock = File::open(entry.path().join(LOCK));
            let abandoned =
                lock.map_or(true, |lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok());
            if abandoned && fs::remove_dir_all(entry.path()).is_ok() {
                swept += 1;
            }
        }
        Ok(swept)
    }

    /// Makes a point done by what `write` puts into a folder.
    pub fn complete<E: From<RunError>>(
        &self,
        identity: &Identity,
        write: impl FnOnce(&ResultFolder) -> Result<(), E>,
    ) -> Result<(), E> {
        let prefix = format!("{PARTIAL}{}-", identity.0);
        let partial = tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(&self.points)
            .map_err(RunError::io("create a folder in", &self.points))?;
        let failed = |action| RunError::io(action, partial.path());
        let lock = File::create(partial.path().join(LOCK)).map_err(failed("create"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| failed("lock")(io::Error::from(error)))?;
        // On an error the folder is removed when `partial` is dropped.
        write(&ResultFolder::create(partial.path())?)?;
        fs::remove_file(partial.path().join(LOCK)).map_err(failed("remove the lock of"))?;
        make_durable(partial.path()).map_err(failed("write"))?;
        readable(partial.path()).map_err(failed("open up"))?;
        let target = self.point(identity);
        match fs::rename(partial.path(), &target) {
            Ok(()) => {
                // It is no temporary folder any more.
                let _ = partial.keep();
            }
            // Somebody else was quicker, with the same result.
            Err(_) if target.is_dir() => {}
            Err(error) => return Err(RunError::Io { action: "rename to", path: target, error }.into()),
        }
        File::open(&self.points)
            .and_then(|folder| folder.sync_all())
            .map_err(RunError::io("write", &self.points))?;
        Ok(())
    }
}

/// Everything in the folder, and its list of names, is on the disk.
fn make_durable(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_durable(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(folder)?.sync_all()
}

/// Temporary folders are private; results are for everyone whom the folder above admits.
fn readable(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_point_is_there_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (good, bad) = (Identity("good".into()), Identity("bad".into()));
        store.complete::<RunError>(&good, |folder| folder.write("summary.json", "{}")).unwrap();
        let error = store.complete::<RunError>(&bad, |folder| {
            folder.write("summary.json", "{}")?;
            Err(RunError::Interrupted)
        });
        assert!(matches!(error, Err(RunError::Interrupted)));
        assert!(store.is_done(&good) && !store.is_done(&bad));
        assert_eq!(names(&folder.path().join(POINTS)), ["good"]);
        assert_eq!(names(&store.point(&good)), ["summary.json"]);
        // Once more is no error, and changes nothing.
        store.complete::<RunError>(&good, |folder| folder.write("summary.json", "[]")).unwrap();
        assert_eq!(fs::read_to_string(store.point(&good).join("summary.json")).unwrap(), "{}");
        assert_eq!(names(&folder.path().join(POINTS)), ["good"]);
    }

    #[test]
    fn what_a_killed_process_left_is_swept_away_and_what_a_living_one_writes_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let left = folder.path().join(POINTS).join(".partial-left-1");
        fs::create_dir_all(&left).unwrap();
        File::create(left.join(LOCK)).unwrap();
        store
            .complete::<RunError>(&Identity("alive".into()), |_| {
                assert_eq!(store.sweep_away_partial().unwrap(), 1);
                Ok(())
            })
            .unwrap();
        assert_eq!(names(&folder.path().join(POINTS)), ["alive"]);
    }
}
