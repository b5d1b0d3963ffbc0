//! Tells the program which commit it is built from, so that results can say so.

use std::path::Path;
use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn main() {
    let commit = git(&["rev-parse", "HEAD"]).map(|commit| {
        let changed =
            git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|text| !text.is_empty());
        if changed { commit + "-dirty" } else { commit }
    });
    println!("cargo::rustc-env=DOORBELL_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    // A commit, a change of branch and a change in the index are seen; an edit since then only when something here is built.
    for name in ["HEAD", "index", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-changed=src");
}
