//! A command's result folder (`--out`): one run's, whole, or not there.
//!
//! A run writes into a folder of another name beside it. What is finished (everything, or the loads that are done so far) is
//! made durable and put in place at once, so that nothing of an earlier run stays beside it. While a run is under way it holds
//! a lock: a second one into the same folder is refused before any time is spent.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use doorbell_files::{
    Kind, Lock, copy_tree, create_folder, create_folders, kind, list, put_in_place, remove,
    remove_left_behind, sync_tree, temporary_name,
};

use crate::error::RunError;
use crate::store::folder::ResultFolder;
use crate::store::sealed::{SEAL, files, listed, seal};

/// What the temporary folders' names say.
const PARTIAL: &str = "partial";
/// How the name of a folder ends that has what a failed run left, beside that of an earlier run's results.
const FAILED: &str = ".failed";
/// What result folders held before they had a list: in such a folder, only files of these names are Doorbell's.
const BEFORE_SEALS: [&str; 20] = [
    "batches.csv",
    "config.toml",
    "console.log",
    "console-node0.txt",
    "console-node1.txt",
    "flows.csv",
    "functions.folded",
    "iperf3.json",
    "latency.csv",
    "latency.hgrm",
    "m5checkpoint-",
    "m5stats-",
    "pipeline.konata",
    "point-",
    "report.html",
    "stats.json",
    "streams.csv",
    "summary.json",
    "timeline.perfetto",
    "wire.pcap",
];

/// A result folder that is being made.
pub struct Results {
    target: PathBuf,
    /// The same as the user named it.
    shown: PathBuf,
    staging: ResultFolder,
    /// Whether what is in place is this run's.
    is_published: Cell<bool>,
    _lock: Lock,
}

impl Results {
    /// Begins a result folder: checks that it may be replaced and can be written, and keeps others out.
    pub fn begin(out: &Path) -> Result<Results, RunError> {
        let target = resolved(out)?;
        let parent = target.parent().expect("a path with a name has a parent");
        create_folders(parent).map_err(RunError::io("create the folder", parent))?;
        let lock = Lock::try_take(&Lock::path_for(&target))
            .map_err(RunError::io("write beside the result folder", &target))?;
        let Some(lock) = lock else { return Err(RunError::ResultsBusy { path: out.to_owned() }) };
        refuse_foreign(out, &target)?;
        let failed = |action| RunError::io(action, &target);
        remove_left_behind(&target, PARTIAL).map_err(failed("clean up beside the result folder"))?;
        let staging = temporary_name(&target, PARTIAL);
        create_folder(&staging).map_err(failed("write beside the result folder"))?;
        let staging = ResultFolder::create(&staging)?.shown_as(out);
        let (shown, is_published) = (out.to_owned(), Cell::new(false));
        Ok(Results { target, shown, staging, is_published, _lock: lock })
    }

    /// Where to write.
    pub fn folder(&self) -> &ResultFolder {
        &self.staging
    }

    /// Puts the empty folder in place: for files that are there as soon as each of them is whole. Nobody else writes there while
    /// this lives.
    pub fn in_place(&self) -> Result<ResultFolder, RunError> {
        self.copy_in_place()?;
        Ok(ResultFolder::create(&self.target)?.shown_as(self.staging.shown("").as_path()))
    }

    /// Puts what is written so far in place, and goes on.
    pub fn publish_so_far(&self) -> Result<(), RunError> {
        seal(&self.staging)?;
        self.copy_in_place()
    }

    fn copy_in_place(&self) -> Result<(), RunError> {
        let failed = || RunError::io("put the results into", &self.target);
        let copy = temporary_name(&self.target, PARTIAL);
        copy_tree(self.staging.path(), &copy).map_err(failed())?;
        sync_tree(&copy).map_err(failed())?;
        put_in_place(&copy, &self.target).map_err(failed())?;
        self.is_published.set(true);
        Ok(())
    }

    /// Puts everything in place, and tells the names of what was written.
    pub fn publish(self) -> Result<Vec<String>, RunError> {
        let failed = || RunError::io("put the results into", &self.target);
        seal(&self.staging)?;
        sync_tree(self.staging.path()).map_err(failed())?;
        put_in_place(self.staging.path(), &self.target).map_err(failed())?;
        let names = list(&self.target).map_err(failed())?;
        Ok(names.iter().map(|name| name.to_string_lossy().into_owned()).collect())
    }

    /// Leaves what a run has written that failed, and tells where: in place, unless an earlier run's results are there, which it does not
    /// make up for; beside them then.
    pub fn publish_failed(self) -> Result<PathBuf, RunError> {
        if self.is_published.get() || !holds_results(&self.target)? {
            let shown = self.shown.clone();
            return self.publish().map(|_| shown);
        }
        let name =
            self.target.file_name().expect("a result folder has a name").to_string_lossy().into_owned();
        // Where the user's name is a link, beside what it leads to.
        let is_link = kind(&self.shown).map_err(RunError::io("look at", &self.shown))? == Some(Kind::Other);
        let named = if is_link || self.shown.file_name().is_none() { &self.target } else { &self.shown };
        let shown = named.with_file_name(format!("{name}{FAILED}"));
        let beside = Results::begin(&shown)?;
        // The folder that it began is taken for what is here already.
        let failed = RunError::io("put what is there into", &shown);
        remove(beside.staging.path())
            .and_then(|()| copy_tree(self.staging.path(), beside.staging.path()))
            .map_err(failed)?;
        beside.publish().map(|_| shown)
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        // What was not put in place counts for nothing. What cannot be removed now is by the next run.
        let _ = remove(self.staging.path());
    }
}

/// Names as a closing line tells them: many points as a range.
pub fn named(names: &[String]) -> String {
    let (points, others): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|name| name.starts_with("point-"));
    let mut all: Vec<String> = others.into_iter().cloned().collect();
    match points.as_slice() {
        [] => {}
        [only] => all.push(format!("{only}/")),
        [first, .., last] => all.push(format!("{first}/ to {last}/")),
    }
    all.join(", ")
}

/// The folder itself, where `out` is a link to it.
fn resolved(out: &Path) -> Result<PathBuf, RunError> {
    match out.canonicalize() {
        Ok(path) if path.parent().is_some() => Ok(path),
        Ok(_) => {
            Err(RunError::ResultsForeign { path: out.to_owned(), problem: "it is the root folder".into() })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let name = out.file_name().filter(|_| out.symlink_metadata().is_err());
            let parent =
                out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            match name {
                Some(name) => {
                    create_folders(parent).map_err(RunError::io("create the folder", parent))?;
                    let parent = parent.canonicalize().map_err(RunError::io("open", parent))?;
                    Ok(parent.join(name))
                }
                None => Err(RunError::Io { action: "open the result folder", path: out.to_owned(), error }),
            }
        }
        Err(error) => Err(RunError::Io { action: "open the result folder", path: out.to_owned(), error }),
    }
}

/// Whether a folder has more in it than consoles, which are all that a run leaves that failed.
fn holds_results(target: &Path) -> Result<bool, RunError> {
    if kind(target).map_err(RunError::io("look at", target))?.is_none() {
        return Ok(false);
    }
    let is_console = |name: &String| name.rsplit('/').next().is_some_and(|name| name.starts_with("console"));
    let names = files(target).map_err(RunError::io("read", target))?;
    Ok(!names.iter().all(is_console))
}

/// The folder is replaced as a whole, so what is there must be a result's and nothing else.
fn refuse_foreign(out: &Path, target: &Path) -> Result<(), RunError> {
    let foreign = |problem: String| Err(RunError::ResultsForeign { path: out.to_owned(), problem });
    match kind(target).map_err(RunError::io("look at", target))? {
        None => return Ok(()),
        Some(Kind::Folder) => {}
        Some(_) => return foreign("it is not a folder".into()),
    }
    let names = list(target).map_err(RunError::io("read", target))?;
    let names: Vec<String> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    let known: Vec<String> =
        listed(target).map_or_else(|_| Vec::new(), |listed| listed.into_keys().collect());
    let is_ours = |name: &String| match known.is_empty() {
        true => BEFORE_SEALS.iter().any(|ours| name.starts_with(ours)) || name == SEAL,
        false => name == SEAL || known.iter().any(|k| k == name || k.starts_with(&format!("{name}/"))),
    };
    // What somebody has put into a load's folder would be lost just as well.
    let deeper =
        if known.is_empty() { Vec::new() } else { files(target).map_err(RunError::io("read", target))? };
    let is_foreign = |name: &&String| !known.contains(name);
    match names.iter().find(|name| !is_ours(name)).or_else(|| deeper.iter().find(is_foreign)) {
        Some(name) => foreign(format!("it holds {name}, which no run wrote and which would be lost")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::store::sealed::verify;

    fn names(folder: &Path) -> Vec<String> {
        list(folder).unwrap().into_iter().map(|name| name.into_string().unwrap()).collect()
    }

    fn run(out: &Path, file: &str) -> Result<Vec<String>, RunError> {
        let results = Results::begin(out)?;
        results.folder().write(file, file)?;
        results.publish()
    }

    #[test]
    fn a_second_run_leaves_nothing_of_the_first() {
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("results/latest");
        assert_eq!(run(&out, "wire.pcap").unwrap(), [SEAL, "wire.pcap"]);
        assert_eq!(run(&out, "stats.json").unwrap(), [SEAL, "stats.json"]);
        assert_eq!(names(&out), [SEAL, "stats.json"]);
        assert_eq!(names(&scratch.path().join("results")), ["latest"]);
        assert_eq!(verify(&out), Ok(()));
    }

    #[test]
    fn a_run_that_fails_leaves_what_was_there() {
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("latest");
        run(&out, "stats.json").unwrap();
        let results = Results::begin(&out).unwrap();
        results.folder().write("summary.json", "").unwrap();
        drop(results);
        assert_eq!(names(&out), [SEAL, "stats.json"]);
        assert_eq!(names(scratch.path()), ["latest"]);
    }

    #[test]
    fn what_a_failed_run_leaves_takes_no_results_place() {
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("latest");
        let beside = scratch.path().join("latest.failed");
        let fail = |text: &str| {
            let results = Results::begin(&out).unwrap();
            results.folder().write("console.log", text).unwrap();
            results.publish_failed().unwrap()
        };
        let console = |folder: &Path| fs::read_to_string(folder.join("console.log")).unwrap();
        assert_eq!((fail("one"), fail("two")), (out.clone(), out.clone()), "there are no results");
        assert_eq!((console(&out), verify(&out)), ("two".to_owned(), Ok(())));
        run(&out, "summary.json").unwrap();
        assert_eq!((fail("three"), fail("four")), (beside.clone(), beside.clone()));
        assert_eq!((console(&beside), verify(&beside)), ("four".to_owned(), Ok(())));
        assert_eq!((names(&out), verify(&out)), (vec![SEAL.to_owned(), "summary.json".to_owned()], Ok(())));
        // What this run itself has put in place, of the loads before, is no other run's.
        let results = Results::begin(&out).unwrap();
        results.folder().write("summary.json", "of one load").unwrap();
        results.publish_so_far().unwrap();
        results.folder().write("console.log", "of the next").unwrap();
        assert_eq!(results.publish_failed().unwrap(), out);
        assert_eq!(names(&out), ["console.log", SEAL, "summary.json"]);
        assert_eq!(names(scratch.path()), ["latest", "latest.failed"]);
    }

    #[test]
    fn what_is_done_is_there_while_the_rest_is_under_way() {
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("latest");
        let results = Results::begin(&out).unwrap();
        results.folder().sub("point-00").unwrap().write("stats.json", "0").unwrap();
        results.folder().write("summary.json", "one").unwrap();
        results.publish_so_far().unwrap();
        assert_eq!(verify(&out), Ok(()));
        results.folder().write("summary.json", "two").unwrap();
        // What is in place does not change with what is being written.
        assert_eq!(fs::read_to_string(out.join("summary.json")).unwrap(), "one");
        drop(results);
        assert_eq!((verify(&out), names(scratch.path())), (Ok(()), vec!["latest".to_owned()]));
    }

    #[test]
    fn two_at_once_are_refused_and_a_folder_with_anything_else_is_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("latest");
        let first = Results::begin(&out).unwrap();
        assert!(matches!(Results::begin(&out), Err(RunError::ResultsBusy { .. })));
        first.folder().write("stats.json", "").unwrap();
        first.publish().unwrap();
        fs::write(out.join("thesis.tex"), "years of work").unwrap();
        let error = run(&out, "stats.json").unwrap_err().to_string();
        assert!(error.contains("thesis.tex"), "{error}");
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("letter"), "").unwrap();
        assert!(matches!(run(home.path(), "stats.json"), Err(RunError::ResultsForeign { .. })));
        assert_eq!(names(home.path()), ["letter"]);
        assert!(matches!(run(Path::new("/"), "stats.json"), Err(RunError::ResultsForeign { .. })));
        let file = home.path().join("letter");
        assert!(run(&file, "stats.json").is_err());
    }

    #[test]
    fn what_somebody_has_put_into_the_folder_of_a_load_is_not_lost() {
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("latest");
        let with_load = || {
            let results = Results::begin(&out)?;
            results.folder().sub("point-00")?.write("stats.json", "")?;
            results.publish()
        };
        with_load().unwrap();
        with_load().unwrap();
        let notes = out.join("point-00/notes.txt");
        fs::write(&notes, "seen by hand").unwrap();
        let error = with_load().unwrap_err().to_string();
        assert!(error.contains("it holds point-00/notes.txt, which no run wrote"), "{error}");
        assert_eq!(fs::read_to_string(&notes).unwrap(), "seen by hand");
        fs::remove_file(&notes).unwrap();
        with_load().unwrap();
    }

    #[test]
    fn a_folder_from_before_there_were_lists_is_replaced_and_a_link_is_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let (old, link) = (scratch.path().join("old"), scratch.path().join("link"));
        fs::create_dir(&old).unwrap();
        fs::write(old.join("summary.json"), "").unwrap();
        std::os::unix::fs::symlink(&old, &link).unwrap();
        run(&link, "stats.json").unwrap();
        assert_eq!(names(&old), [SEAL, "stats.json"]);
        assert!(link.symlink_metadata().unwrap().is_symlink());
        let dangling = scratch.path().join("dangling");
        std::os::unix::fs::symlink("nowhere", &dangling).unwrap();
        assert!(run(&dangling, "stats.json").is_err());
    }

    #[test]
    fn the_closing_line_names_what_was_written() {
        let names = ["config.toml", "point-00", "point-01", "point-02", "report.html"].map(str::to_owned);
        assert_eq!(named(&names), "config.toml, report.html, point-00/ to point-02/");
        assert_eq!(named(&names[..2]), "config.toml, point-00/");
    }
}
