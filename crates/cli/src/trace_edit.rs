//! `doorbell trace cut` and `merge`: traces made of traces.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use doorbell_bench::RecordedNames;
use doorbell_files::replace;
use doorbell_trace::system::{self, Extent, TraceError, Window};

use crate::exit::Asked as _;
use crate::inputs::leave_nothing_of;
use crate::out::outln;
use crate::trace_cmd::{open, words};

#[derive(Args)]
pub struct CutArgs {
    /// The trace
    file: PathBuf,
    /// What is written
    output: PathBuf,
    /// From this instruction on, counted from 0
    #[arg(long, value_name = "N")]
    from: u64,
    /// So many instructions
    #[arg(long, value_name = "N")]
    count: u64,
    /// Whose instructions are counted; of the others the same share is kept
    #[arg(long, value_name = "N", default_value_t = 0)]
    hart: u16,
    /// Leave the other harts out, and what devices did by their instructions
    #[arg(long)]
    alone: bool,
}

#[derive(Args)]
pub struct MergeArgs {
    /// The traces, and last the file that is written
    #[arg(required = true, num_args = 3.., value_names = ["FILE", "FILE", "OUT"])]
    files: Vec<PathBuf>,
}

pub fn cut(args: &CutArgs) -> anyhow::Result<()> {
    let CutArgs { file, output, from, count, hart, alone } = args;
    let both = || format!("cannot cut {} into {}", file.display(), output.display());
    let trace = open(file)?;
    can_be_cut(args).asked()?;
    leave_nothing_of(output)?;
    let names = names_of(file)?;
    let window = Window { hart: *hart, from: *from, count: *count, single_hart: *alone };
    let cut = whole(output, names.as_deref(), |to| match system::cut(&trace, to, window) {
        Err(error @ TraceError::NoInstruction { .. }) => Err(error).with_context(both).asked(),
        // Another one than was asked for is the file's fault.
        Err(error @ TraceError::NoHart { hart: none, .. }) if none == *hart => {
            Err(error).with_context(both).asked()
        }
        other => other.with_context(both),
    })?;
    outln!("{}: {}", output.display(), words(&cut.counts));
    for (number, (was, from, to)) in cut.harts.iter().enumerate() {
        outln!("  hart {number}: instructions {from} to {to} of hart {was}");
    }
    if cut.events_dropped > 0 {
        outln!("  {} events are left out: they are told by harts that are left out", cut.events_dropped);
    }
    Ok(())
}

/// The file with the names of a trace's functions is in the same folder.
fn names_of(trace: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let path = RecordedNames::beside(trace);
    if !path.is_file() {
        return Ok(None);
    }
    let names = doorbell_files::read_bounded(&path, doorbell_files::TEXT_BYTES_MAX);
    names.map(Some).with_context(|| format!("cannot read {}", path.display()))
}

/// Writes a trace under another name, then the names of its functions, and then gives it its own name: where this ends at any moment,
/// there is no new trace, or it is whole and has its names.
pub fn whole<T>(
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
                let path = RecordedNames::beside(output);
                replace(&path, names).with_context(|| format!("cannot write {}", path.display()))?;
            }
            None => forget_names(output)?,
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

/// What can be told to be wrong before the trace is looked into.
fn can_be_cut(CutArgs { file, output, count, .. }: &CutArgs) -> anyhow::Result<()> {
    if is_same(file, output) {
        bail!("{}: a trace is not cut in its own place; give another file to write", file.display());
    }
    if *count == 0 {
        bail!("--count: a part has at least one instruction; give 1 or more");
    }
    Ok(())
}

/// A trace without names was written: those of one that it took the place of are no longer beside it.
fn forget_names(output: &Path) -> anyhow::Result<()> {
    let path = RecordedNames::beside(output);
    doorbell_files::remove(&path)
        .with_context(|| format!("cannot remove {}, the names of another trace", path.display()))
}

/// Whether two paths lead to one file.
pub fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

pub fn merge(args: &MergeArgs) -> anyhow::Result<()> {
    let (output, inputs) = args.files.split_last().expect("three files at least are given");
    if output.exists() {
        let problem =
            "is there already; the last file is the one that is written, so give it a new name, or remove it";
        return Err(anyhow!("{} {problem}", output.display())).asked();
    }
    leave_nothing_of(output)?;
    let traces = inputs.iter().map(|path| open(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let of = |error: TraceError| match error {
        TraceError::Input { number, error } => {
            anyhow::Error::new(*error).context(inputs[number].display().to_string())
        }
        error => anyhow::Error::new(error).context(output.display().to_string()),
    };
    let (counts, placed) = whole(output, None, |to| system::merge(&traces, to).map_err(of))?;
    outln!("{}: {}", output.display(), words(&counts));
    for ((path, trace), placed) in inputs.iter().zip(&traces).zip(&placed) {
        outln!("  {}", path.display());
        let (first, count) = placed.harts;
        match count {
            1 => outln!("    hart 0 is hart {first} now"),
            _ => outln!("    harts 0 to {} are harts {first} to {} now", count - 1, first + count - 1),
        }
        for (before, now) in &placed.devices {
            outln!("    device {before} is device {now} now");
        }
        let Extent { low, high } = placed.memory;
        if !placed.memory.is_empty() {
            let moved = match placed.moved {
                0 => "where it was".to_owned(),
                by => format!("moved up by {} MiB", by >> 20),
            };
            outln!("    memory is {low:#x} to {high:#x}, {moved}");
        }
        if !trace.description().physical {
            outln!("    it has virtual addresses alone: they are physical ones now");
        }
    }
    Ok(())
}
