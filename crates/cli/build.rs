//! Passes the commit to the program, for use in results, and embeds the files named in the documentation's
//! commands.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders of the repository with files named in the documentation's commands.
const FOLDERS: [&str; 3] = ["examples", "experiments", "guest/examples"];

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// The text files below a folder, in order. Compiled programs, hidden files and editors' backups (`x~`, `#x#`)
/// are skipped.
fn texts(folder: &Path) -> Vec<PathBuf> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder can be read").path()).collect();
    paths.sort();
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !name.starts_with(['.', '#']) && !name.ends_with('~')
    });
    let found = paths.into_iter().flat_map(|path| match path.is_dir() {
        true => texts(&path),
        false if fs::read_to_string(&path).is_ok() => vec![path],
        false => Vec::new(),
    });
    found.collect()
}

/// Writes the list of those files, with their texts and whether they are executable.
fn write_examples() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().expect("the repository has a folder");
    let mut list = String::from("&[\n");
    for path in FOLDERS.iter().flat_map(|folder| texts(&root.join(folder))) {
        let name = path.strip_prefix(&root).expect("it is below the repository's folder");
        let mode = fs::metadata(&path).expect("it was found").permissions().mode();
        println!("cargo::rerun-if-changed={}", path.display());
        list += &format!("({:?}, include_str!({:?}), {}),\n", name, path, mode & 0o100 != 0);
    }
    let out = std::env::var_os("OUT_DIR").expect("Cargo names a folder");
    fs::write(Path::new(&out).join("examples.rs"), list + "]").expect("Cargo's folder can be written to");
}

fn main() {
    write_examples();
    let commit = git(&["rev-parse", "HEAD"]).map(|commit| {
        let changed =
            git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|text| !text.is_empty());
        if changed { commit + "-dirty" } else { commit }
    });
    println!("cargo::rustc-env=DOORBELL_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    // A commit, a change of branch and a change in the index trigger a rebuild; edits are noticed only when
    // something here is built.
    for name in ["HEAD", "index", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-changed=src");
}
