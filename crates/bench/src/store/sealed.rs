//! A folder that is whole says so itself: `files.sha256` lists every file in it with its SHA-256, in the form that
//! `sha256sum --check` reads. It is written last. A folder without it is not finished; one that does not fit it was changed.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use doorbell_files::{Kind, kind, list, read, sha256, sha256_of};

use crate::error::RunError;
use crate::store::folder::ResultFolder;

/// Files by their names, with their sums.
type Sums = BTreeMap<String, String>;

/// The list's name.
pub const SEAL: &str = "files.sha256";

/// Writes the list of all that is in the folder now.
pub fn seal(folder: &ResultFolder) -> Result<(), RunError> {
    let mut sums = BTreeMap::new();
    walk(folder.path(), &mut sums).map_err(RunError::io("read back", folder.path()))?;
    write_list(folder, &sums)
}

/// Writes a file into a folder that may be sealed, and what the list says of this file alone.
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

/// Whether everything is in the folder that it lists, unchanged, and nothing else; or what is wrong.
pub fn verify(folder: &Path) -> Result<(), String> {
    let (listed, there) = compared(folder)?;
    match there.keys().find(|name| !listed.contains_key(*name)) {
        Some(foreign) => Err(format!("{foreign} does not belong to it")),
        None => Ok(()),
    }
}

/// Whether everything is in the folder that it lists, unchanged, whatever somebody has put beside it; or what is wrong.
pub fn verify_listed(folder: &Path) -> Result<(), String> {
    compared(folder).map(drop)
}

/// The names and sums of a folder's list, and those of what is there, if that is all of the list.
fn compared(folder: &Path) -> Result<(Sums, Sums), String> {
    let listed = listed(folder)?;
    let mut there = BTreeMap::new();
    walk(folder, &mut there).map_err(|error| format!("it cannot be read: {error}"))?;
    for (name, sum) in &listed {
        match there.get(name) {
            None => return Err(format!("{name} is missing")),
            Some(found) if found != sum => return Err(format!("{name} was changed")),
            Some(_) => {}
        }
    }
    Ok((listed, there))
}

/// A file of the folder, if its contents are those that the list vouches for.
pub fn read_verified(folder: &Path, name: &str) -> Result<Vec<u8>, String> {
    let contents = read(&folder.join(name)).map_err(|error| format!("{name} cannot be read: {error}"))?;
    match listed(folder)?.get(name) {
        Some(sum) if *sum == sha256(&contents) => Ok(contents),
        _ => Err(format!("{name} was changed")),
    }
}

/// The names that a folder's list has, with their sums.
pub(crate) fn listed(folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let text = read(&folder.join(SEAL)).map_err(|_| format!("it has no {SEAL}, so it is not whole"))?;
    let text = String::from_utf8(text).map_err(|_| format!("{SEAL} is no text"))?;
    text.lines()
        .map(|line| line.split_once("  ").map(|(sum, name)| (name.to_owned(), sum.to_owned())))
        .collect::<Option<_>>()
        .ok_or_else(|| format!("{SEAL} has a line that is none of its own"))
}

/// The files in a folder and in its folders, by their names, but for the list itself; contents are not looked at.
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
        // No result holds anything but files, so the name alone of something else tells that it is foreign.
        let sum = if is_file { sha256_of(path)?.0 } else { String::new() };
        sums.insert(name, sum);
        Ok(())
    })
}

/// Everything in a folder that is none itself, with its name and whether it is a file.
fn each(
    folder: &Path,
    below: &str,
    see: &mut dyn FnMut(String, &Path, bool) -> io::Result<()>,
) -> io::Result<()> {
    for name in list(folder)? {
        let path = folder.join(&name);
        let shown = format!("{below}{}", name.to_string_lossy());
        match kind(&path)? {
            Some(Kind::Folder) => each(&path, &format!("{shown}/"), see)?,
            Some(_) if below.is_empty() && shown == SEAL => {}
            found => see(shown, &path, found == Some(Kind::File))?,
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
    fn a_sealed_folder_verifies_and_sha256sum_reads_its_list() {
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
    fn whatever_is_changed_missing_or_added_is_noticed() {
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
        assert!(verify(folder.path()).unwrap_err().contains("not whole"));
    }
}
