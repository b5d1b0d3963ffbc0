//! `doorbell trace cut` and `merge`: traces derived from traces.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use doorbell_bench::RecordedNames;
use doorbell_files::replace;
use doorbell_trace::system::{self, Extent, TraceError, Window};

use crate::exit::OrUsageError as _;
use crate::inputs::remove_output_on_signal;
use crate::out::outln;
use crate::trace_cmd::{open, words};

#[derive(Args)]
pub struct CutArgs {
    /// The input trace
    file: PathBuf,
    /// The output trace
    output: PathBuf,
    /// First instruction, counted from 0
    #[arg(long, value_name = "N")]
    from: u64,
    /// Number of instructions
    #[arg(long, value_name = "N")]
    count: u64,
    /// The hart whose instructions are counted; the other harts are cut at the same share
    #[arg(long, value_name = "N", default_value_t = 0)]
    hart: u16,
    /// Omit the other harts, and the device events caused by their instructions
    #[arg(long)]
    alone: bool,
}

#[derive(Args)]
pub struct MergeArgs {
    /// The input traces, followed by the output file
    #[arg(required = true, num_args = 3.., value_names = ["FILE", "FILE", "OUT"])]
    files: Vec<PathBuf>,
}

pub fn cut(args: &CutArgs) -> anyhow::Result<()> {
    let CutArgs { file, output, from, count, hart, alone } = args;
    let both = || format!("cannot cut {} into {}", file.display(), output.display());
    let trace = open(file)?;
    check_cut(args).or_usage_error()?;
    remove_output_on_signal(output)?;
    let names = names_of(file)?;
    let window = Window { hart: *hart, from: *from, count: *count, single_hart: *alone };
    let cut = write_complete(output, names.as_deref(), |to| match system::cut(&trace, to, window) {
        Err(error @ TraceError::NoInstruction { .. }) => Err(error).with_context(both).or_usage_error(),
        // If a hart other than the requested one is missing, the file is at fault.
        Err(error @ TraceError::NoHart { hart: none, .. }) if none == *hart => {
            Err(error).with_context(both).or_usage_error()
        }
        other => other.with_context(both),
    })?;
    outln!("{}: {}", output.display(), words(&cut.counts));
    for (number, (was, from, to)) in cut.harts.iter().enumerate() {
        outln!("  hart {number}: instructions {from} to {to} of hart {was}");
    }
    if cut.events_dropped > 0 {
        outln!("  {} events are omitted, because they refer to omitted harts", cut.events_dropped);
    }
    Ok(())
}

/// Reads the file with a trace's function names, in the same folder.
fn names_of(trace: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let path = RecordedNames::path_for(trace);
    if !path.is_file() {
        return Ok(None);
    }
    let names = doorbell_files::read_bounded(&path, doorbell_files::TEXT_BYTES_MAX);
    names.map(Some).with_context(|| format!("cannot read {}", path.display()))
}

/// Writes a trace under a temporary name, then its function names, and renames it last. If this is
/// interrupted, there is either no new trace, or a complete one with its names.
pub fn write_complete<T>(
    output: &Path,
    names: Option<&[u8]>,
    write: impl FnOnce(&Path) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut name = output.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.partial", std::process::id()));
    let to = output.with_file_name(name);
    let written = write(&to)?;
    let put = || {
        match names {
            Some(names) => {
                let path = RecordedNames::path_for(output);
                replace(&path, names).with_context(|| format!("cannot write {}", path.display()))?;
            }
            None => remove_names(output)?,
        }
        let rename = doorbell_files::rename(&to, output);
        rename.with_context(|| format!("cannot write {}", output.display()))
    };
    let done = put();
    if done.is_err() {
        let _ = std::fs::remove_file(&to);
    }
    done?;
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    doorbell_files::sync_folder(folder).with_context(|| format!("cannot write {}", output.display()))?;
    Ok(written)
}

/// Checks that can be made before the trace is read.
fn check_cut(CutArgs { file, output, count, .. }: &CutArgs) -> anyhow::Result<()> {
    if is_same(file, output) {
        bail!("{}: the output would overwrite the input; choose another output file", file.display());
    }
    if *count == 0 {
        bail!("--count must be at least 1");
    }
    Ok(())
}

/// Removes the names file of a previous trace that this one replaces, if this one has no names.
fn remove_names(output: &Path) -> anyhow::Result<()> {
    let path = RecordedNames::path_for(output);
    doorbell_files::remove(&path)
        .with_context(|| format!("cannot remove {}, the names of another trace", path.display()))
}

/// Whether two paths refer to the same file.
pub fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

pub fn merge(args: &MergeArgs) -> anyhow::Result<()> {
    let (output, inputs) = args.files.split_last().expect("three files at least are given");
    if output.exists() {
        let problem = "exists already; the last file is the output, so choose a new name, or remove the file";
        return Err(anyhow!("{} {problem}", output.display())).or_usage_error();
    }
    remove_output_on_signal(output)?;
    let traces = inputs.iter().map(|path| open(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let of = |error: TraceError| match error {
        TraceError::Input { number, error } => {
            anyhow::Error::new(*error).context(inputs[number].display().to_string())
        }
        error => anyhow::Error::new(error).context(output.display().to_string()),
    };
    let (counts, placed) = write_complete(output, None, |to| system::merge(&traces, to).map_err(of))?;
    outln!("{}: {}", output.display(), words(&counts));
    for ((path, trace), placed) in inputs.iter().zip(&traces).zip(&placed) {
        outln!("  {}", path.display());
        let (first, count) = placed.harts;
        match count {
            1 => outln!("    hart 0 becomes hart {first}"),
            _ => outln!("    harts 0 to {} become harts {first} to {}", count - 1, first + count - 1),
        }
        for (before, now) in &placed.devices {
            outln!("    device {before} becomes device {now}");
        }
        let Extent { low, high } = placed.memory;
        if !placed.memory.is_empty() {
            let moved = match placed.moved {
                0 => "not moved".to_owned(),
                by => format!("moved up by {} MiB", by >> 20),
            };
            outln!("    memory is {low:#x} to {high:#x}, {moved}");
        }
        if !trace.description().physical {
            outln!("    it has only virtual addresses, which become physical ones");
        }
    }
    Ok(())
}
