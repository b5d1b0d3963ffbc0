//! Journal of submitted arrays, kept in the result folder, so that a process on another login node can
//! continue. An array is recorded before it is submitted, under a unique name by which the queue is queried.
//! A kill at any moment therefore leaves no unknown job.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use doorbell_files::{Lock, create_folders, list, read, remove, replace};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::ClusterError;

/// Name of the folder within the result folder.
const FOLDER: &str = "cluster";
const STATE: &str = "state.json";
const VERSION: u32 = 1;
/// Maximum length of a task's log that is reported.
const TAIL_BYTES: usize = 1500;

/// A task of an array: a point, or only its boot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Task {
    /// Path of the experiment file.
    pub file: PathBuf,
    /// Path of the result folder.
    pub out: PathBuf,
    /// Identity of the point.
    pub point: String,
    /// Whether only the boot checkpoint is created.
    #[serde(default)]
    pub boot: bool,
}

/// The tasks of an array, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskList {
    /// The tasks; the first is task 0.
    pub tasks: Vec<Task>,
}

impl TaskList {
    /// Reads a task list, as a task does.
    pub fn read(path: &Path) -> Result<TaskList, ClusterError> {
        let io = |error| ClusterError::Io { action: "read", path: path.into(), error };
        let bytes = read(path).map_err(io)?;
        serde_json::from_slice(&bytes).map_err(|error| io(std::io::Error::new(ErrorKind::InvalidData, error)))
    }
}

/// Path of the file in which a task leaves the reason of its failure, next to its list.
pub fn failure_file(list: &Path, number: usize) -> PathBuf {
    list.with_extension(format!("{number}.failed"))
}

/// An array that was submitted or was about to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Submission {
    /// Name of the job and of its task list.
    pub name: String,
    /// Job ID, once sbatch has returned it.
    pub job: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct JournalState {
    version: u32,
    /// Process that holds the lock, shown to processes that wait.
    holder: String,
    submissions: Vec<Submission>,
}

/// The locked journal: no other process submits for this result folder.
pub(super) struct Journal {
    folder: PathBuf,
    lock: Lock,
    state: JournalState,
}

impl Journal {
    /// Locks the journal of a result folder, waiting until it is free. `busy` receives the name of the
    /// current holder.
    pub fn take<E: From<ClusterError>>(
        results: &Path,
        mut busy: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<Journal, E> {
        let folder = results.join(FOLDER);
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |error| ClusterError::Io { action, path, error }
        };
        create_folders(&folder.join("logs")).map_err(io("make", &folder))?;
        let path = folder.join(STATE);
        let holder =
            || match read(&path).ok().and_then(|bytes| serde_json::from_slice::<JournalState>(&bytes).ok()) {
                Some(state) => state.holder,
                None => "another process".to_owned(),
            };
        let lock = Lock::wait(&Lock::path_for(&folder), || busy(&holder()));
        let lock = lock.map_err(|error| ClusterError::Lock { path: folder.clone(), error })??;
        let mut state = match read(&path) {
            Ok(bytes) => serde_json::from_slice::<JournalState>(&bytes).ok().filter(|state| state.version == VERSION).ok_or_else(|| {
                ClusterError::Settings(format!(
                    "{} is damaged or was written by another version of Doorbell. Check with squeue that no job of this experiment is left, \
                     and remove {}",
                    path.display(),
                    folder.display()
                ))
            })?,
            Err(error) if error.kind() == ErrorKind::NotFound => JournalState { version: VERSION, ..JournalState::default() },
            Err(error) => return Err(io("read", &path)(error).into()),
        };
        state.holder = format!("process {} on {}", std::process::id(), host());
        let journal = Journal { folder, lock, state };
        journal.write()?;
        Ok(journal)
    }

    fn write(&self) -> Result<(), ClusterError> {
        let path = self.folder.join(STATE);
        let mut text = serde_json::to_vec_pretty(&self.state).expect("a state serialises");
        text.push(b'\n');
        replace(&path, &text).map_err(|error| ClusterError::Io { action: "write", path, error })
    }

    pub fn lock(&self) -> &File {
        self.lock.file()
    }

    pub fn submissions(&self) -> &[Submission] {
        &self.state.submissions
    }

    pub fn list(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }

    fn script(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.sh"))
    }

    /// Path pattern of the tasks' output, for sbatch.
    pub fn log_pattern(&self, name: &str) -> String {
        // sbatch interprets %.
        format!("{}/logs/{name}.%a.log", self.folder.display().to_string().replace('%', "%%"))
    }

    fn log(&self, name: &str, task: usize) -> PathBuf {
        self.folder.join(format!("logs/{name}.{task}.log"))
    }

    /// Records that an array is about to be submitted. Writes its task list and its script.
    pub fn record(
        &mut self,
        experiment: &str,
        tasks: TaskList,
        script: impl FnOnce(&Path) -> String,
    ) -> Result<(String, PathBuf), ClusterError> {
        let name = self.fresh_name(experiment);
        let (list, file) = (self.list(&name), self.script(&name));
        let bytes = serde_json::to_vec(&tasks).expect("tasks serialise");
        for (path, bytes) in [(&list, &bytes[..]), (&file, script(&list).as_bytes())] {
            replace(path, bytes).map_err(|error| ClusterError::Io {
                action: "write",
                path: path.clone(),
                error,
            })?;
        }
        self.state.submissions.push(Submission { name: name.clone(), job: None });
        self.write()?;
        Ok((name, file))
    }

    /// A name that no array has had, in this folder or any other.
    fn fresh_name(&self, experiment: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let experiment: String = experiment.chars().map(plain).take(40).collect();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let own = format!("{:?} {} {}", now, self.state.holder, self.folder.display());
        format!("{experiment}-{:08x}", xxh3_64(own.as_bytes()) as u32)
    }

    /// Records that it was submitted.
    pub fn submitted(&mut self, name: &str, job: String) -> Result<(), ClusterError> {
        if let Some(own) = self.state.submissions.iter_mut().find(|own| own.name == name) {
            own.job = Some(job);
        }
        self.write()
    }

    /// Removes finished arrays, with their files.
    pub fn forget(&mut self, names: &BTreeSet<String>) -> Result<(), ClusterError> {
        if names.is_empty() {
            return Ok(());
        }
        self.state.submissions.retain(|own| !names.contains(&own.name));
        self.write()?;
        for name in names {
            let _ = remove(&self.list(name));
            let _ = remove(&self.script(name));
            for folder in [self.folder.clone(), self.folder.join("logs")] {
                for left in list(&folder).unwrap_or_default() {
                    if left.to_string_lossy().starts_with(&format!("{name}.")) {
                        let _ = remove(&folder.join(left));
                    }
                }
            }
        }
        Ok(())
    }

    /// Exit status and error message that a task left, with the end of its log.
    pub fn task_output(&self, name: &str, task: usize) -> (Option<u8>, String) {
        let left = read(&failure_file(&self.list(name), task)).unwrap_or_default();
        let left = String::from_utf8_lossy(&left).into_owned();
        let (status, reason) = left.split_once('\n').unwrap_or(("", &left));
        let log = read(&self.log(name, task)).unwrap_or_default();
        let tail = String::from_utf8_lossy(&log[log.len().saturating_sub(TAIL_BYTES)..]).trim().to_owned();
        let reason = reason.trim();
        let output =
            if reason.is_empty() || tail.contains(reason) { tail } else { format!("{reason}\n{tail}") };
        (status.parse().ok(), output.trim().to_owned())
    }
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Busy(String);

    impl From<ClusterError> for Busy {
        fn from(error: ClusterError) -> Busy {
            panic!("{error}")
        }
    }

    fn task(point: &str) -> Task {
        Task { file: "/x.toml".into(), out: "/x".into(), point: point.to_owned(), boot: false }
    }

    #[test]
    fn an_array_is_recorded_from_before_its_submission_until_it_is_removed() {
        let results = tempfile::tempdir().unwrap();
        let take = || Journal::take(results.path(), |holder| Err(Busy(holder.to_owned())));
        let mut journal = take().unwrap();
        let list = TaskList { tasks: vec![task("a"), task("b")] };
        let (name, script) =
            journal.record("x,y %1", list.clone(), |list| list.display().to_string()).unwrap();
        assert!(
            name.starts_with("x_y__1-") && journal.log_pattern(&name).ends_with(&format!("{name}.%a.log"))
        );
        assert_eq!(std::fs::read_to_string(script).unwrap(), journal.list(&name).display().to_string());
        // A second process gets the name of the holder, and gets the lock when the holder has ended.
        let Err(Busy(holder)) = take() else { panic!("both hold the lock") };
        assert!(holder.contains(&std::process::id().to_string()), "{holder}");
        drop(journal);
        let mut journal = take().unwrap();
        assert_eq!(journal.submissions(), [Submission { name: name.clone(), job: None }]);
        assert_eq!(TaskList::read(&journal.list(&name)).unwrap(), list);
        journal.submitted(&name, "12".to_owned()).unwrap();
        std::fs::write(failure_file(&journal.list(&name), 1), "2\nno such key").unwrap();
        std::fs::write(journal.log(&name, 1), "doorbell: no such key\n").unwrap();
        assert_eq!(journal.task_output(&name, 1), (Some(2), "doorbell: no such key".to_owned()));
        assert_eq!(journal.task_output(&name, 0), (None, String::new()));
        journal.forget(&BTreeSet::from([name])).unwrap();
        drop(journal);
        assert_eq!(take().unwrap().submissions(), []);
        let left: Vec<_> = list_names(&results.path().join("cluster"));
        assert_eq!(left, ["logs", "state.json"]);
    }

    fn list_names(folder: &Path) -> Vec<String> {
        list(folder).unwrap().into_iter().map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn a_damaged_journal_is_reported_with_a_remedy() {
        let results = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(results.path().join("cluster")).unwrap();
        std::fs::write(results.path().join("cluster/state.json"), "{").unwrap();
        let taken: Result<Journal, ClusterError> = Journal::take(results.path(), |_| Ok(()));
        let problem = taken.err().unwrap().to_string();
        assert!(problem.contains("squeue") && problem.contains("remove"), "{problem}");
    }
}
