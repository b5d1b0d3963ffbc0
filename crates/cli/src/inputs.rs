//! What a command reads is not lost by what it writes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, anyhow, bail};
use doorbell_bench::{Results, RunConfig, check_captures};
use doorbell_files::written_at;
use doorbell_image::Recipe;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::{Asked, INTERRUPTED};
use crate::run_args::GuestArgs;
use crate::signals;

/// The folder that is written is replaced as a whole: none of these is there, nor around it.
pub fn keep(out: &Path, inputs: &[PathBuf]) -> anyhow::Result<()> {
    let Ok(out_is) = out.canonicalize() else { return Ok(()) };
    let lost = |input: &&PathBuf| input.canonicalize().is_ok_and(|input| input.starts_with(&out_is));
    match inputs.iter().find(lost) {
        Some(input) => bail!(
            "--out: {} would take the place of {}, which is read; give another, such as --out results/other",
            out.display(),
            input.display()
        ),
        None => Ok(()),
    }
}

/// Begins the result folder of a command that may write a checkpoint, too, which must be elsewhere: it is written before the folder is put
/// in place.
pub fn begin(out: &Path, guest: &GuestArgs) -> anyhow::Result<Results> {
    let checkpoint = guest.save_checkpoint.as_deref();
    if let Some(path) = checkpoint.filter(|path| is_to_be(path).starts_with(is_to_be(out))) {
        return Err(anyhow!(
            "--save-checkpoint: {} would be lost when the results are put in place of {}; write it elsewhere, such as to {}",
            path.display(),
            out.display(),
            Path::new(path.file_name().unwrap_or_default()).display()
        ))
        .asked();
    }
    let results = Results::begin(out)?;
    checkpoint.map_or(Ok(()), |path| can_be_written("--save-checkpoint", path))?;
    Ok(results)
}

/// Whether what an option names can become a file: found out before it costs a simulation.
pub fn can_be_written(option: &str, path: &Path) -> anyhow::Result<()> {
    written_at(path).with_context(|| format!("{option}: cannot write {}", path.display())).map(drop)
}

/// Where a file or folder is, or will be once it is made.
fn is_to_be(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = whole.ancestors().find_map(|there| Some((there.canonicalize().ok()?, there)));
    match found.and_then(|(is, there)| Some((is, whole.strip_prefix(there).ok()?))) {
        Some((is, rest)) if rest.as_os_str().is_empty() => is,
        Some((is, rest)) => is.join(rest),
        None => whole,
    }
}

/// The same of all files that a configuration names: captures, traces, disks, an image's recipe.
pub fn keep_named(out: &Path, config: &RunConfig) -> anyhow::Result<()> {
    let mut named = Vec::new();
    words(&toml::Value::try_from(config)?, &mut named);
    // All of these are files; a folder may only have a benchmark's or a policy's name.
    named.retain(|path| path.is_file());
    keep(out, &named)
}

/// The recipe of an image of the user's own is one, and captures can be sent, which is found before anything is begun.
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

/// From now on, SIGINT and SIGTERM end the process at once, without what it has begun to write for this file, which can be written. That the
/// terminal goes away ends nothing, as of measurements.
pub fn leave_nothing_of(output: &Path) -> anyhow::Result<()> {
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

/// Files beside this one that writers of traces begin, and rename when they are whole.
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
        assert!(keep(&out, std::slice::from_ref(&trace)).is_ok(), "there is nothing yet");
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
    fn a_result_folder_that_has_the_name_of_a_configurations_word_is_no_input() {
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
        let begun = |path: &str| {
            let save_checkpoint = Some(folder.path().join(path));
            begin(&out, &GuestArgs { save_checkpoint, ..GuestArgs::default() }).map(drop)
        };
        let lost =
            ["results/latest/a.ckpt", "results/latest", "results/./latest/deeper/a.ckpt", "link/a.ckpt"];
        std::os::unix::fs::symlink(&out, folder.path().join("link")).unwrap();
        for there in [false, true] {
            for path in &lost[..if there { 4 } else { 3 }] {
                let error = begun(path).unwrap_err().to_string();
                assert!(error.starts_with("--save-checkpoint: ") && error.contains("elsewhere"), "{error}");
            }
            assert_eq!(out.exists(), there, "nothing was begun");
            fs::create_dir_all(&out).unwrap();
        }
        begun("results/a.ckpt").unwrap();
        assert!(format!("{:#}", begun("nowhere/a.ckpt").unwrap_err()).contains("there is no folder"));
    }

    #[test]
    fn what_writers_have_begun_for_a_file_is_known_and_nobody_elses() {
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
        assert!(unfinished(&output).is_empty(), "they remove it themselves");
    }
}
