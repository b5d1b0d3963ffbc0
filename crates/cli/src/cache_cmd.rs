//! `doorbell cache`: disk usage of images, checkpoints, packages and debugging symbols, and their removal.

use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use doorbell_bench::{CachePaths, Cached, CachedKind};
use doorbell_files::Removal;
use serde_json::json;

use crate::exit::OrUsageError;
use crate::out::{errln, out, outln};

#[derive(Subcommand)]
pub enum CacheCommand {
    /// List the contents of the cache: size on disk, last use, and whether a process is using it
    List {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove unused images, checkpoints, packages or debugging symbols; they are recreated when needed
    Clean(CleanArgs),
}

#[derive(Args)]
pub struct CleanArgs {
    /// Entries to remove: images, checkpoints, packages, symbols, all, or a name listed by `doorbell cache
    /// list`
    #[arg(required = true, value_name = "WHAT")]
    what: Vec<String>,
    /// Only entries unused for this time, such as 30d or 12h
    #[arg(long, value_name = "TIME")]
    unused_for: Option<Age>,
    /// Only show what would be removed
    #[arg(long)]
    dry_run: bool,
}

/// A duration of host time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Age(Duration);

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Age, String> {
        const UNITS: [(&str, u64); 4] = [("min", 60), ("h", 3600), ("d", 86_400), ("s", 1)];
        let found = UNITS.iter().find_map(|(unit, seconds)| {
            text.strip_suffix(unit)?.parse::<u32>().ok().map(|count| u64::from(count) * seconds)
        });
        let seconds = found
            .ok_or_else(|| format!("\"{text}\" is not a time; write, for example, 30d, 12h, 10min or 5s"))?;
        Ok(Age(Duration::from_secs(seconds)))
    }
}

/// Runs a subcommand on the cache.
pub fn cache(command: &CacheCommand, places: &CachePaths) -> anyhow::Result<ExitCode> {
    let read = || format!("cannot read the cache in {}", places.cache.display());
    let all = places.cached().with_context(read)?;
    match command {
        CacheCommand::List { json: true } => {
            let entries: Vec<_> = all.iter().map(entry).collect();
            out!("{}\n", serde_json::to_string_pretty(&entries)?);
        }
        CacheCommand::List { json: false } => print_list(&all, places),
        CacheCommand::Clean(args) => clean(args, &all)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn entry(cached: &Cached) -> serde_json::Value {
    let used = cached.used.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let Cached { kind, name, path, bytes, in_use, .. } = cached;
    json!({ "kind": kind.name(), "name": name, "path": path, "bytes": bytes, "used_unix_seconds": used, "in_use": in_use })
}

fn print_list(all: &[Cached], places: &CachePaths) {
    let width = all.iter().map(|cached| cached.name.chars().count()).max().unwrap_or(0).max(4);
    if !all.is_empty() {
        outln!("{:<11} {:<width$} {:>11}  last used", "kind", "name", "size");
    }
    for cached in all {
        let in_use = if cached.in_use { ", in use" } else { "" };
        let (kind, name) = (cached.kind.name(), &cached.name);
        outln!("{kind:<11} {name:<width$} {:>11}  {}{in_use}", size(cached.bytes), ago(cached.used));
    }
    let bytes = all.iter().map(|cached| cached.bytes).sum();
    outln!("{} in {}", size(bytes), places.cache.display());
}

fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

fn ago(used: SystemTime) -> String {
    let seconds = SystemTime::now().duration_since(used).map_or(0, |age| age.as_secs());
    match seconds {
        0..60 => "just now".to_owned(),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

fn clean(args: &CleanArgs, all: &[Cached]) -> anyhow::Result<()> {
    let is = |cached: &Cached, what: &str| match what {
        "images" => cached.kind == CachedKind::Image,
        "checkpoints" => cached.kind == CachedKind::Checkpoint,
        "packages" => cached.kind == CachedKind::Packages,
        "symbols" => cached.kind == CachedKind::Symbols,
        "all" => cached.kind != CachedKind::Other,
        name => cached.name == name && cached.kind != CachedKind::Other,
    };
    check_names(args, all, &is).or_usage_error()?;
    let old_enough = |cached: &Cached| {
        let age = SystemTime::now().duration_since(cached.used).unwrap_or_default();
        args.unused_for.is_none_or(|Age(least)| age >= least)
    };
    let mut freed = 0;
    for cached in
        all.iter().filter(|cached| args.what.iter().any(|what| is(cached, what)) && old_enough(cached))
    {
        let (kind, name, bytes) = (cached.kind.name(), &cached.name, size(cached.bytes));
        let removal = match args.dry_run {
            true if cached.in_use => Removal::InUse,
            true => Removal::Removed,
            false => cached.remove().with_context(|| format!("cannot remove {}", cached.path.display()))?,
        };
        match removal {
            Removal::Removed => {
                outln!("{} {kind} {name} ({bytes})", if args.dry_run { "would remove" } else { "removed" });
                freed += cached.bytes;
            }
            Removal::InUse => errln!("kept {kind} {name} ({bytes}): in use by a process"),
            Removal::Missing => {}
        }
    }
    outln!("{} {}", size(freed), if args.dry_run { "would be free" } else { "are free" });
    Ok(())
}

/// Whether every word names something.
fn check_names(args: &CleanArgs, all: &[Cached], is: &dyn Fn(&Cached, &str) -> bool) -> anyhow::Result<()> {
    for what in &args.what {
        let is_kind = ["images", "checkpoints", "packages", "symbols", "all"].contains(&what.as_str());
        if !is_kind && !all.iter().any(|cached| is(cached, what)) {
            bail!(
                "\"{what}\" is none of images, checkpoints, packages, symbols and all, and not a name in `doorbell cache list`"
            );
        }
    }
    Ok(())
}
