//! Checksum list of a folder: `files.sha256` lists every file with its SHA-256, in the format of `sha256sum
//! --check`. It is written last. A folder without the list is incomplete, and one that does not match it has
//! been changed.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use doorbell_files::{Kind, kind, list, read, sha256, sha256_of};

use crate::error::RunError;
use crate::store::folder::ResultFolder;

/// SHA-256 of each file, by file name.
type Sums = BTreeMap<String, String>;

/// File name of the list.
pub const SEAL: &str = "files.sha256";

/// Writes the list of all files in the folder.
pub fn seal(folder: &ResultFolder) -> Result<(), RunError> {
    let mut sums = BTreeMap::new();
    walk(folder.path(), &mut sums).map_err(RunError::io("read back", folder.path()))?;
    write_list(folder, &sums)
}

/// Writes a file to a folder, and updates its entry in the list if there is a list.
pub fn write_sealed(folder: &ResultFolder, name: &str, contents: &str) -> Result<(), RunError> {
    folder.write(name, contents)?;
    let Ok(mut sums) = listed(folder.path()) else { return Ok(()) };
    sums.insert(name.to_owned(), sha256(contents.as_bytes()));
    write_list(folder, &sums)
}

fn write_list(folder: &ResultFolder, sums: &BTreeMap<String, String>) -> Result<(), RunError> {
    let lines: String = sums.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
    folder.write(SEAL, &lines)
}

/// Checks that the folder has all listed files, unchanged, and no others. The error describes the first
/// difference.
pub fn verify(folder: &Path) -> Result<(), String> {
    let (listed, present) = compared(folder)?;
    match present.keys().find(|name| !listed.contains_key(*name)) {
        Some(foreign) => Err(format!("{foreign} does not belong to it")),
        None => Ok(()),
    }
}

/// Checks that the folder has all listed files, unchanged. Other files are ignored.
pub fn verify_listed(folder: &Path) -> Result<(), String> {
    compared(folder).map(drop)
}

/// Compares a folder with its list. Returns the listed and the present files if each listed file is present
/// and unchanged.
fn compared(folder: &Path) -> Result<(Sums, Sums), String> {
    let listed = listed(folder)?;
    let mut present = BTreeMap::new();
    walk(folder, &mut present).map_err(|error| format!("it cannot be read: {error}"))?;
    for (name, sum) in &listed {
        match present.get(name) {
            None => return Err(format!("{name} is missing")),
            Some(found) if found != sum => return Err(format!("{name} was changed")),
            Some(_) => {}
        }
    }
    Ok((listed, present))
}

/// Reads a file of the folder, and checks its contents against the list.
pub fn read_verified(folder: &Path, name: &str) -> Result<Vec<u8>, String> {
    let contents = read(&folder.join(name)).map_err(|error| format!("{name} cannot be read: {error}"))?;
    match listed(folder)?.get(name) {
        Some(sum) if *sum == sha256(&contents) => Ok(contents),
        _ => Err(format!("{name} was changed")),
    }
}

/// The files in a folder's list, with their checksums.
pub(crate) fn listed(folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let text = read(&folder.join(SEAL)).map_err(|_| format!("it has no {SEAL}, so it is incomplete"))?;
    let text = String::from_utf8(text).map_err(|_| format!("{SEAL} is not text"))?;
    text.lines()
        .map(|line| line.split_once("  ").map(|(sum, name)| (name.to_owned(), sum.to_owned())))
        .collect::<Option<_>>()
        .ok_or_else(|| format!("{SEAL} has a line without checksum and name"))
}

/// Names of the files in a folder and its subfolders, without the list itself. Contents are not read.
pub(crate) fn files(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    each(folder, "", &mut |name, _, _| {
        names.push(name);
        Ok(())
    })?;
    Ok(names)
}

fn walk(folder: &Path, sums: &mut BTreeMap<String, String>) -> io::Result<()> {
    each(folder, "", &mut |name, path, is_file| {
        // Results contain only regular files, so any other entry is foreign and needs no checksum.
        let sum = if is_file { sha256_of(path)?.0 } else { String::new() };
        sums.insert(name, sum);
        Ok(())
    })
}

/// Calls `visit` for every entry in a folder and its subfolders that is not a folder: with its name, which
/// begins with `prefix`, its path, and whether it is a regular file.
fn each(
    folder: &Path,
    prefix: &str,
    visit: &mut dyn FnMut(String, &Path, bool) -> io::Result<()>,
) -> io::Result<()> {
    for name in list(folder)? {
        let path = folder.join(&name);
        let shown = format!("{prefix}{}", name.to_string_lossy());
        match kind(&path)? {
            Some(Kind::Folder) => each(&path, &format!("{shown}/"), visit)?,
            Some(_) if prefix.is_empty() && shown == SEAL => {}
            found => visit(shown, &path, found == Some(Kind::File))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn sealed() -> (tempfile::TempDir, ResultFolder) {
        let scratch = tempfile::tempdir().unwrap();
        let folder = ResultFolder::create(&scratch.path().join("result")).unwrap();
        folder.write("summary.json", "{}").unwrap();
        folder.sub("point-00").unwrap().write("stats.json", "[]").unwrap();
        seal(&folder).unwrap();
        (scratch, folder)
    }

    #[test]
    fn sealed_folder_verifies_and_sha256sum_accepts_its_list() {
        let (_scratch, folder) = sealed();
        assert_eq!(verify(folder.path()), Ok(()));
        let mut command = std::process::Command::new("sha256sum");
        let checked =
            command.args(["--check", "--strict", SEAL]).current_dir(folder.path()).output().unwrap();
        assert!(checked.status.success(), "{checked:?}");
        assert_eq!(read_verified(folder.path(), "summary.json").unwrap(), b"{}");
        write_sealed(&folder, "report.html", "<p>").unwrap();
        assert_eq!(verify(folder.path()), Ok(()));
    }

    #[test]
    fn changed_missing_and_added_files_are_detected() {
        let (_scratch, folder) = sealed();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("summary.json"), "{ }").unwrap();
        assert_eq!(verify(folder.path()), Err("summary.json was changed".into()));
        assert!(read_verified(folder.path(), "summary.json").is_err());
        fs::remove_file(path("summary.json")).unwrap();
        assert_eq!(verify(folder.path()), Err("summary.json is missing".into()));
        fs::write(path("summary.json"), "{}").unwrap();
        fs::write(path("point-00/own.txt"), "").unwrap();
        assert_eq!(verify(folder.path()), Err("point-00/own.txt does not belong to it".into()));
        fs::remove_file(path("point-00/own.txt")).unwrap();
        std::os::unix::fs::symlink("nowhere", path("link")).unwrap();
        assert_eq!(verify(folder.path()), Err("link does not belong to it".into()));
        fs::remove_file(path("link")).unwrap();
        assert_eq!(verify(folder.path()), Ok(()));
        fs::remove_file(path(SEAL)).unwrap();
        assert!(verify(folder.path()).unwrap_err().contains("incomplete"));
    }
}
