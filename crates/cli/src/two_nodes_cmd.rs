//! `doorbell run iperf`, `netperf`, `redis`, `web`, `nfs` and `nat`: benchmarks between nodes on cables.

use anyhow::bail;
use doorbell_bench::{BENCHMARKS, Benchmark, Nodes};

use crate::run_args::RunArgs;
use crate::run_cmd::{Load, RunRequest};

/// Resolves the request, if the options apply to the benchmark.
pub fn request(args: &RunArgs, chosen: &'static Benchmark) -> anyhow::Result<RunRequest> {
    args.observe.reject_for_nodes("two nodes")?;
    reject_inapplicable_options(args, chosen.name)?;
    let config = args.configs(chosen.defaults)?.remove(0);
    if config.run.frames.is_some() {
        bail!("run.frames: {} has no load generator that counts frames; set run.duration", chosen.name);
    }
    let load = Load { config: config.clone(), rate: config.loadgen.traffic.requested_rate(), message: None };
    Ok(RunRequest::new(chosen, config, vec![load]))
}

/// Rejects `--samples` for other benchmarks.
pub fn check_samples(args: &RunArgs) -> anyhow::Result<()> {
    let between_nodes = BENCHMARKS.iter().filter(|benchmark| matches!(benchmark.nodes, Nodes::Joined { .. }));
    let names: Vec<&str> = between_nodes.map(|benchmark| benchmark.name).collect();
    let is_one = args.benchmark.as_deref().is_some_and(|name| names.contains(&name));
    if args.samples.is_some() && !is_one {
        bail!("--samples is for benchmarks between nodes: {}", names.join(", "));
    }
    Ok(())
}

/// Rejects options for load generators: the load comes from the client.
fn reject_inapplicable_options(args: &RunArgs, name: &str) -> anyhow::Result<()> {
    let rate =
        if name == "iperf" { "use --set iperf.rate=1Gbps (UDP)" } else { "its client generates the load" };
    let given = [
        ("--rate", !args.rate.is_empty(), rate),
        ("--frame-size", args.frame_size.is_some(), "the kernel chooses the size"),
        ("--drive", args.drive.is_some(), "its client is already a node"),
        ("--frames", args.frames.is_some(), "use --duration 20ms"),
        (
            args.traffic.given().unwrap_or("--traffic"),
            args.traffic.given().is_some(),
            "its client generates the load",
        ),
    ];
    for (option, given, why) in given {
        if given {
            bail!("{option} applies to load generators, and {name} has none: {why}");
        }
    }
    Ok(())
}
