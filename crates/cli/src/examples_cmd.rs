//! `doorbell examples`: the files named in the documentation's commands. They are part of the program, so
//! that the commands also work without a copy of the repository.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use doorbell_files::replace;

use crate::out::outln;

/// Path in the repository, text, and whether the file is executable.
const FILES: &[(&str, &str, bool)] = include!(concat!(env!("OUT_DIR"), "/examples.rs"));

/// Write the files that the documentation's commands name: examples, experiments, and programs of guests.
#[derive(Args, Debug)]
pub struct ExamplesArgs {
    /// Folder in which examples/, experiments/ and guest/examples/ are created
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
}

/// Writes all files, unless one exists with different contents.
pub fn run(args: &ExamplesArgs) -> anyhow::Result<ExitCode> {
    let path = |name: &str| args.folder.join(name);
    let is_another = |(name, text, _): &&(&str, &str, bool)| {
        fs::read(path(name)).is_ok_and(|existing| existing != text.as_bytes())
    };
    if let Some((name, ..)) = FILES.iter().find(is_another) {
        bail!(
            "{} exists with different contents; nothing was written. Choose another folder, or move that file",
            path(name).display()
        );
    }
    for (name, text, is_program) in FILES {
        write(&path(name), text, *is_program)?;
    }
    outln!("{} files in {}: examples/, experiments/, guest/examples/", FILES.len(), args.folder.display());
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, text: &str, is_program: bool) -> anyhow::Result<()> {
    let folder = path.parent().expect("it has a folder");
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let written = replace(path, text.as_bytes()).and_then(|()| match is_program {
        true => fs::set_permissions(path, fs::Permissions::from_mode(0o755)),
        false => Ok(()),
    });
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Hint for a command that failed because it names one of these files and the file does not exist.
pub fn hint(mut words: impl Iterator<Item = String>) -> Option<String> {
    let is_one = |word: &str| {
        let below = format!("{}/", word.trim_end_matches('/'));
        FILES.iter().any(|(name, ..)| *name == word || name.starts_with(&below))
    };
    let missing = words.find(|word| word.contains('/') && is_one(word) && !Path::new(word).exists())?;
    Some(format!("`doorbell examples` writes {missing} here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_example_file_is_hinted_at() {
        let hint = |words: &[&str]| hint(words.iter().map(|word| (*word).to_owned()));
        assert_eq!(
            hint(&["sweep", "examples/frequency.toml"]).as_deref(),
            Some("`doorbell examples` writes examples/frequency.toml here")
        );
        assert!(hint(&["reproduce", "experiments/placement/"]).is_some());
        for none in
            [&["sweep", "own/sweep.toml"][..], &["run", "examples"], &["sweep", "examples/nothing.toml"]]
        {
            assert_eq!(hint(none), None, "{none:?}");
        }
    }
}
