//! A command's result folder (`--out`). It has the complete results of one run, and never a mixture of two
//! runs.
//!
//! A run writes to a temporary folder next to it. Finished results (all, or the load points finished so far)
//! are synced, and then replace the result folder atomically. The run holds a lock until its end, so that a
//! second run with the same folder is rejected at its start.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use doorbell_files::{
    Kind, Lock, copy_tree, create_folder, create_folders, kind, list, put_in_place, remove,
    remove_left_behind, sync_tree, temporary_name,
};

use crate::error::RunError;
use crate::store::folder::ResultFolder;
use crate::store::sealed::{SEAL, files, listed, seal};

/// Word in the names of temporary folders.
const PARTIAL: &str = "partial";
/// Suffix of the folder with a failed run's files, if the result folder has an earlier run's results.
const FAILED: &str = ".failed";
/// Prefixes of file names in result folders without a checksum list, from old versions. Other files in such a
/// folder are foreign.
const UNSEALED_FILES: [&str; 20] = [
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

/// A result folder under construction.
pub struct Results {
    target: PathBuf,
    /// The target as given by the user.
    shown: PathBuf,
    staging: ResultFolder,
    /// Whether the target already has results of this run.
    is_published: Cell<bool>,
    _lock: Lock,
}

impl Results {
    /// Locks a result folder, checks that it is writable and may be replaced, and creates the temporary
    /// folder.
    pub fn begin(out: &Path) -> Result<Results, RunError> {
        let target = resolved(out)?;
        let parent = target.parent().expect("a path with a name has a parent");
        create_folders(parent).map_err(RunError::io("create the folder", parent))?;
        let lock = Lock::try_take(&Lock::path_for(&target))
            .map_err(RunError::io("write next to the result folder", &target))?;
        let Some(lock) = lock else { return Err(RunError::ResultsBusy { path: out.to_owned() }) };
        refuse_foreign(out, &target)?;
        let failed = |action| RunError::io(action, &target);
        remove_left_behind(&target, PARTIAL).map_err(failed("clean up next to the result folder"))?;
        let staging = temporary_name(&target, PARTIAL);
        create_folder(&staging).map_err(failed("write next to the result folder"))?;
        let staging = ResultFolder::create(&staging)?.shown_as(out);
        let (shown, is_published) = (out.to_owned(), Cell::new(false));
        Ok(Results { target, shown, staging, is_published, _lock: lock })
    }

    /// The temporary folder, to which the run writes.
    pub fn folder(&self) -> &ResultFolder {
        &self.staging
    }

    /// Replaces the target with the folder, still empty, and returns the target. For commands that publish
    /// each file as soon as it is complete. The lock keeps other runs out until this is dropped.
    pub fn in_place(&self) -> Result<ResultFolder, RunError> {
        self.copy_in_place()?;
        Ok(ResultFolder::create(&self.target)?.shown_as(self.staging.shown("").as_path()))
    }

    /// Publishes the files written so far. The run continues.
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

    /// Publishes all files, and returns their names.
    pub fn publish(self) -> Result<Vec<String>, RunError> {
        let failed = || RunError::io("put the results into", &self.target);
        seal(&self.staging)?;
        sync_tree(self.staging.path()).map_err(failed())?;
        put_in_place(self.staging.path(), &self.target).map_err(failed())?;
        let names = list(&self.target).map_err(failed())?;
        Ok(names.iter().map(|name| name.to_string_lossy().into_owned()).collect())
    }

    /// Publishes the files of a failed run, and returns their folder: the target or, if that has an earlier
    /// run's results, a folder next to it.
    pub fn publish_failed(self) -> Result<PathBuf, RunError> {
        if self.is_published.get() || !holds_results(&self.target)? {
            let shown = self.shown.clone();
            return self.publish().map(|_| shown);
        }
        let name =
            self.target.file_name().expect("a result folder has a name").to_string_lossy().into_owned();
        // If the user gave a link, the folder is next to the link's target.
        let is_link = kind(&self.shown).map_err(RunError::io("access", &self.shown))? == Some(Kind::Other);
        let named = if is_link || self.shown.file_name().is_none() { &self.target } else { &self.shown };
        let shown = named.with_file_name(format!("{name}{FAILED}"));
        let failed_results = Results::begin(&shown)?;
        // Replace its empty temporary folder with a copy of this one.
        let failed = RunError::io("copy the files of the failed run to", &shown);
        remove(failed_results.staging.path())
            .and_then(|()| copy_tree(self.staging.path(), failed_results.staging.path()))
            .map_err(failed)?;
        failed_results.publish().map(|_| shown)
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        // Unpublished files are discarded. If the removal fails, the next run repeats it.
        let _ = remove(self.staging.path());
    }
}

/// File names for the closing line of a command; several points are shown as a range.
pub fn list_names(names: &[String]) -> String {
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

/// The absolute path of the folder, with links resolved.
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

/// Whether a folder has files other than consoles, which are the only files of a failed run.
fn holds_results(target: &Path) -> Result<bool, RunError> {
    if kind(target).map_err(RunError::io("access", target))?.is_none() {
        return Ok(false);
    }
    let is_console = |name: &String| name.rsplit('/').next().is_some_and(|name| name.starts_with("console"));
    let names = files(target).map_err(RunError::io("read", target))?;
    Ok(!names.iter().all(is_console))
}

/// Rejects a folder with files that are not results, since replacing the folder would delete them.
fn refuse_foreign(out: &Path, target: &Path) -> Result<(), RunError> {
    let foreign = |problem: String| Err(RunError::ResultsForeign { path: out.to_owned(), problem });
    match kind(target).map_err(RunError::io("access", target))? {
        None => return Ok(()),
        Some(Kind::Folder) => {}
        Some(_) => return foreign("it is not a folder".into()),
    }
    let names = list(target).map_err(RunError::io("read", target))?;
    let names: Vec<String> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    let sealed: Vec<String> =
        listed(target).map_or_else(|_| Vec::new(), |listed| listed.into_keys().collect());
    let is_ours = |name: &String| match sealed.is_empty() {
        true => UNSEALED_FILES.iter().any(|ours| name.starts_with(ours)) || name == SEAL,
        false => name == SEAL || sealed.iter().any(|k| k == name || k.starts_with(&format!("{name}/"))),
    };
    // Foreign files in the folder of a load point would be deleted as well.
    let nested =
        if sealed.is_empty() { Vec::new() } else { files(target).map_err(RunError::io("read", target))? };
    let is_foreign = |name: &&String| !sealed.contains(name);
    match names.iter().find(|name| !is_ours(name)).or_else(|| nested.iter().find(is_foreign)) {
        Some(name) => foreign(format!("it contains {name}, which is not from a run and would be deleted")),
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
    fn second_run_removes_all_files_of_the_first() {
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("results/latest");
        assert_eq!(run(&out, "wire.pcap").unwrap(), [SEAL, "wire.pcap"]);
        assert_eq!(run(&out, "stats.json").unwrap(), [SEAL, "stats.json"]);
        assert_eq!(names(&out), [SEAL, "stats.json"]);
        assert_eq!(names(&scratch.path().join("results")), ["latest"]);
        assert_eq!(verify(&out), Ok(()));
    }

    #[test]
    fn dropped_run_keeps_the_earlier_results() {
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
    fn files_of_a_failed_run_do_not_replace_earlier_results() {
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("latest");
        let failed = scratch.path().join("latest.failed");
        let fail = |text: &str| {
            let results = Results::begin(&out).unwrap();
            results.folder().write("console.log", text).unwrap();
            results.publish_failed().unwrap()
        };
        let console = |folder: &Path| fs::read_to_string(folder.join("console.log")).unwrap();
        assert_eq!((fail("one"), fail("two")), (out.clone(), out.clone()), "there are no results");
        assert_eq!((console(&out), verify(&out)), ("two".to_owned(), Ok(())));
        run(&out, "summary.json").unwrap();
        assert_eq!((fail("three"), fail("four")), (failed.clone(), failed.clone()));
        assert_eq!((console(&failed), verify(&failed)), ("four".to_owned(), Ok(())));
        assert_eq!((names(&out), verify(&out)), (vec![SEAL.to_owned(), "summary.json".to_owned()], Ok(())));
        // Results that this run published for earlier load points are replaced.
        let results = Results::begin(&out).unwrap();
        results.folder().write("summary.json", "of one load").unwrap();
        results.publish_so_far().unwrap();
        results.folder().write("console.log", "of the next").unwrap();
        assert_eq!(results.publish_failed().unwrap(), out);
        assert_eq!(names(&out), ["console.log", SEAL, "summary.json"]);
        assert_eq!(names(scratch.path()), ["latest", "latest.failed"]);
    }

    #[test]
    fn finished_points_are_published_while_the_run_continues() {
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("latest");
        let results = Results::begin(&out).unwrap();
        results.folder().sub("point-00").unwrap().write("stats.json", "0").unwrap();
        results.folder().write("summary.json", "one").unwrap();
        results.publish_so_far().unwrap();
        assert_eq!(verify(&out), Ok(()));
        results.folder().write("summary.json", "two").unwrap();
        // Writing to the temporary folder does not change the published files.
        assert_eq!(fs::read_to_string(out.join("summary.json")).unwrap(), "one");
        drop(results);
        assert_eq!((verify(&out), names(scratch.path())), (Ok(()), vec!["latest".to_owned()]));
    }

    #[test]
    fn concurrent_runs_and_folders_with_foreign_files_are_rejected() {
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
    fn foreign_file_in_the_folder_of_a_point_is_not_deleted() {
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
        assert!(error.contains("it contains point-00/notes.txt, which is not from a run"), "{error}");
        assert_eq!(fs::read_to_string(&notes).unwrap(), "seen by hand");
        fs::remove_file(&notes).unwrap();
        with_load().unwrap();
    }

    #[test]
    fn folder_without_checksum_list_is_replaced_and_a_link_is_followed() {
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
    fn closing_line_shows_points_as_a_range() {
        let names = ["config.toml", "point-00", "point-01", "point-02", "report.html"].map(str::to_owned);
        assert_eq!(list_names(&names), "config.toml, report.html, point-00/ to point-02/");
        assert_eq!(list_names(&names[..2]), "config.toml, point-00/");
    }
}
