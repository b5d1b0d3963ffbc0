//! `doorbell run --network FILE`: nodes, switches and load generators on cables.

use std::path::Path;

use anyhow::{Context, bail};
use doorbell_bench::{NETWORK, NetworkFile, Resolved};
use doorbell_loadgen::Rate;

use crate::frame_sizes::FrameSizes;
use crate::run_args::{RunArgs, frame_size};
use crate::run_cmd::{Load, RunRequest};
use crate::search_cmd::jobs_or_cores;

/// Resolves the network at each rate, if the options apply to it.
pub fn request(args: &RunArgs, path: &Path) -> anyhow::Result<RunRequest> {
    reject_inapplicable_options(args)?;
    args.observe.reject_for_nodes("a network")?;
    let file = NetworkFile::read(path)?;
    let load = |size: Option<&str>, rate: Option<Rate>| -> anyhow::Result<Load> {
        let config = configuration(args, &file, size, rate)?;
        Ok(Load { config, rate: rate.unwrap_or(Rate::Times(Rate::ONCE)), message: None })
    };
    let sizes: Vec<Option<&str>> = match &args.frame_size {
        None => vec![None],
        Some(FrameSizes(all)) => all.iter().map(|size| Some(size.as_str())).collect(),
    };
    let mut loads: Vec<Load> = Vec::new();
    for size in &sizes {
        let as_written = load(*size, None)?;
        let rates = args.rates_given(&as_written.config)?;
        if rates.is_empty() {
            loads.push(as_written);
        }
        for rate in rates {
            loads.push(load(*size, Some(rate))?);
        }
    }
    let config = configuration(args, &file, sizes[0], None)?;
    // The boot depends on the guests, not on the file's name.
    let network = (NETWORK.name.to_owned(), jobs_or_cores(args.threads));
    Ok(RunRequest { network, ..RunRequest::new(&NETWORK, config, loads) })
}

/// Configuration from the options and the file, with this rate for every generator if one is given.
fn configuration(
    args: &RunArgs,
    file: &NetworkFile,
    size: Option<&str>,
    rate: Option<Rate>,
) -> anyhow::Result<Resolved> {
    let mut extra = Vec::new();
    for (key, value) in [("run.duration", &args.duration), ("run.warmup", &args.warmup)] {
        extra.extend(value.as_ref().map(|value| format!("{key}={value}")));
    }
    if let Some(size) = size {
        extra.push(format!("loadgen.traffic.frame_size={}", frame_size(size)?));
    }
    let overrides = args.common.overrides(&extra);
    let base = args.common.base()?;
    match rate {
        None => Ok(file.resolve(base, &overrides)?),
        Some(rate) => file.resolve_at(base, &overrides, rate).context("--rate"),
    }
}

fn reject_inapplicable_options(args: &RunArgs) -> anyhow::Result<()> {
    let given = [
        ("--frames", args.frames.is_some(), "--duration 1ms"),
        ("--drive", args.drive.is_some(), "a drive node in the network's file"),
        (
            "--disk",
            !args.common.disks.is_empty(),
            "disks of a node in the network's file, or --set node.NAME.disks=[\"FILE\"]",
        ),
        (
            args.traffic.given().unwrap_or("--traffic"),
            args.traffic.given().is_some(),
            "[generator.NAME.traffic] in the network's file",
        ),
    ];
    for (option, given, instead) in given {
        if given {
            bail!("{option} does not apply to a network; instead: {instead}");
        }
    }
    if let Some(benchmark) = &args.benchmark {
        bail!(
            "a network's file names the benchmarks of its nodes; remove \"{benchmark}\", or write benchmark = \"{benchmark}\" under a node"
        );
    }
    Ok(())
}
