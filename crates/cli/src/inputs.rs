//! Protects a command's input files from being overwritten by its output.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, anyhow, bail};
use doorbell_bench::{Results, RunConfig, check_captures};
use doorbell_files::written_at;
use doorbell_image::Recipe;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::{INTERRUPTED, OrUsageError};
use crate::run_args::GuestArgs;
use crate::signals;

/// Rejects an output folder that is or contains an input, because the folder is replaced as a whole.
pub fn keep(out: &Path, inputs: &[PathBuf]) -> anyhow::Result<()> {
    let Ok(out_is) = out.canonicalize() else { return Ok(()) };
    let lost = |input: &&PathBuf| input.canonicalize().is_ok_and(|input| input.starts_with(&out_is));
    match inputs.iter().find(lost) {
        Some(input) => bail!(
            "--out: {} would overwrite the input {}; choose another folder, such as --out results/other",
            out.display(),
            input.display()
        ),
        None => Ok(()),
    }
}

/// Begins the result folder of a command that may also write a checkpoint. The checkpoint must be outside the
/// folder, because it is written before the folder is replaced.
pub fn begin(out: &Path, guest: &GuestArgs) -> anyhow::Result<Results> {
    let checkpoint = guest.save_checkpoint.as_deref();
    if let Some(path) = checkpoint.filter(|path| future_path(path).starts_with(future_path(out))) {
        return Err(anyhow!(
            "--save-checkpoint: {} would be lost when the results replace {}; write it elsewhere, such as to {}",
            path.display(),
            out.display(),
            Path::new(path.file_name().unwrap_or_default()).display()
        ))
        .or_usage_error();
    }
    let results = Results::begin(out)?;
    checkpoint.map_or(Ok(()), |path| can_be_written("--save-checkpoint", path))?;
    Ok(results)
}

/// Checks that a file named by an option can be written, before a simulation is spent on it.
pub fn can_be_written(option: &str, path: &Path) -> anyhow::Result<()> {
    written_at(path).with_context(|| format!("{option}: cannot write {}", path.display())).map(drop)
}

/// Absolute path of a file or folder that may not exist yet.
fn future_path(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = whole.ancestors().find_map(|there| Some((there.canonicalize().ok()?, there)));
    match found.and_then(|(is, there)| Some((is, whole.strip_prefix(there).ok()?))) {
        Some((is, rest)) if rest.as_os_str().is_empty() => is,
        Some((is, rest)) => is.join(rest),
        None => whole,
    }
}

/// The same for all files named in a configuration: captures, traces, disks, an image's recipe.
pub fn keep_named(out: &Path, config: &RunConfig) -> anyhow::Result<()> {
    let mut named = Vec::new();
    words(&toml::Value::try_from(config)?, &mut named);
    // All of these are files; a folder may have the same name as a benchmark or a policy.
    named.retain(|path| path.is_file());
    keep(out, &named)
}

/// Checks a user's image recipe and the captures, before anything is started.
pub fn check(config: &RunConfig) -> anyhow::Result<()> {
    config.run.image.as_deref().map(Recipe::load).transpose()?;
    Ok(check_captures(config)?)
}

fn words(value: &toml::Value, into: &mut Vec<PathBuf>) {
    match value {
        toml::Value::String(word) => into.push(word.into()),
        toml::Value::Array(all) => all.iter().for_each(|one| words(one, into)),
        toml::Value::Table(all) => all.values().for_each(|one| words(one, into)),
        _ => {}
    }
}

/// From now on, SIGINT and SIGTERM end the process at once and remove its unfinished output for this file.
/// SIGHUP is ignored, as for measurements. Fails if the file cannot be written.
pub fn remove_output_on_signal(output: &Path) -> anyhow::Result<()> {
    written_at(output).with_context(|| format!("cannot write {}", output.display()))?;
    signal_hook::flag::register(SIGHUP, Arc::new(AtomicBool::new(false)))?;
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    signals::handled();
    let output = output.to_owned();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            unfinished(&output).iter().for_each(|path| drop(std::fs::remove_file(path)));
            std::process::exit(INTERRUPTED.into());
        }
    });
    Ok(())
}

/// Temporary files that trace writers create next to this file and rename when they are complete.
fn unfinished(output: &Path) -> Vec<PathBuf> {
    let name = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // Other processes may write the same file.
    let process = std::process::id();
    let (own, champsim) = (format!("{name}.{process}.partial"), format!(".{name}.tmp-{process}-"));
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_one = |path: &PathBuf| {
        let is = path.file_name().unwrap_or_default().to_string_lossy();
        is.starts_with(&own) || is.starts_with(&champsim)
    };
    let all = std::fs::read_dir(folder).into_iter().flatten().flatten();
    all.map(|entry| entry.path()).filter(is_one).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use doorbell_trace::champsim::{self, Variant};
    use doorbell_trace::system::{Description, TraceWriter};

    use super::*;

    #[test]
    fn inputs_in_the_result_folder_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (out, trace) = (folder.path().join("latest"), folder.path().join("latest/trace.dbt"));
        let other = folder.path().join("other.dbt");
        assert!(keep(&out, std::slice::from_ref(&trace)).is_ok(), "the folder does not exist yet");
        fs::create_dir(&out).unwrap();
        fs::write(&trace, "").unwrap();
        fs::write(&other, "").unwrap();
        assert!(keep(&out, std::slice::from_ref(&other)).is_ok());
        let error = keep(&out, &[other, trace.clone()]).unwrap_err().to_string();
        assert!(error.contains("trace.dbt") && error.contains("--out"), "{error}");
        let by_link = folder.path().join("link");
        std::os::unix::fs::symlink(&out, &by_link).unwrap();
        assert!(keep(&by_link, &[trace]).is_err());
    }

    #[test]
    fn a_folder_named_like_a_configuration_value_is_not_an_input() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("ping");
        fs::create_dir(&out).unwrap();
        let named = |path: &Path| {
            let mut config = doorbell_bench::defaults();
            config.run.image = Some(path.display().to_string());
            keep_named(&out, &config)
        };
        assert!(named(&out).is_ok());
        let recipe = out.join("recipe.toml");
        fs::write(&recipe, "").unwrap();
        assert!(named(&recipe).is_err());
    }

    #[test]
    fn a_checkpoint_is_not_written_into_the_folder_that_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("results/latest");
        let try_begin = |path: &str| {
            let save_checkpoint = Some(folder.path().join(path));
            begin(&out, &GuestArgs { save_checkpoint, ..GuestArgs::default() }).map(drop)
        };
        let lost =
            ["results/latest/a.ckpt", "results/latest", "results/./latest/deeper/a.ckpt", "link/a.ckpt"];
        std::os::unix::fs::symlink(&out, folder.path().join("link")).unwrap();
        for there in [false, true] {
            for path in &lost[..if there { 4 } else { 3 }] {
                let error = try_begin(path).unwrap_err().to_string();
                assert!(error.starts_with("--save-checkpoint: ") && error.contains("elsewhere"), "{error}");
            }
            assert_eq!(out.exists(), there, "no folder was created");
            fs::create_dir_all(&out).unwrap();
        }
        try_begin("results/a.ckpt").unwrap();
        assert!(format!("{:#}", try_begin("nowhere/a.ckpt").unwrap_err()).contains("there is no folder"));
    }

    #[test]
    fn unfinished_output_of_this_process_only_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("a.dbt");
        for name in ["a.dbt", "a.dbt.1.partial", ".a.dbt.tmp-1-x", ".b.dbt.tmp-x"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert!(unfinished(&output).is_empty());
        let ours = TraceWriter::create(&output, &Description { harts: 1, ..Description::default() }).unwrap();
        let champsim = champsim::Writer::create(&output, Variant::Standard).unwrap();
        assert_eq!(unfinished(&output).len(), 2);
        drop((ours, champsim));
        assert!(unfinished(&output).is_empty(), "the writers remove their files");
    }
}
