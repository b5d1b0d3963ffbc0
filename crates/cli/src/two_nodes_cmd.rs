//! `doorbell run iperf`, `netperf`, `redis`, `web`, `nfs` and `nat`: between nodes on cables.

use anyhow::bail;
use doorbell_bench::{BENCHMARKS, Benchmark, Nodes};

use crate::run_args::RunArgs;
use crate::run_cmd::{Asked, Load};

/// What is run, if the options have a meaning here.
pub fn asked(args: &RunArgs, chosen: &'static Benchmark) -> anyhow::Result<Asked> {
    args.observe.refuse_for_nodes("two nodes")?;
    refuse_what_has_no_meaning(args, chosen.name)?;
    let config = args.configs(chosen.defaults)?.remove(0);
    if config.run.frames.is_some() {
        bail!("run.frames: {} has no load generator that would send so many; set run.duration", chosen.name);
    }
    let load = Load { config: config.clone(), rate: config.loadgen.traffic.requested_rate(), said: None };
    Ok(Asked::new(chosen, config, vec![load]))
}

/// Refuses samples of anything else.
pub fn refuse_samples_of_others(args: &RunArgs) -> anyhow::Result<()> {
    let between_nodes = BENCHMARKS.iter().filter(|known| matches!(known.nodes, Nodes::Joined { .. }));
    let names: Vec<&str> = between_nodes.map(|known| known.name).collect();
    let is_one = args.benchmark.as_deref().is_some_and(|name| names.contains(&name));
    if args.samples.is_some() && !is_one {
        bail!("--samples is for benchmarks between nodes: {}", names.join(", "));
    }
    Ok(())
}

/// The load comes from the client, not from a load generator.
fn refuse_what_has_no_meaning(args: &RunArgs, name: &str) -> anyhow::Result<()> {
    let rate = if name == "iperf" { "say --set iperf.rate=1Gbps (UDP)" } else { "its client sends" };
    let given = [
        ("--rate", !args.rate.is_empty(), rate),
        ("--frame-size", args.frame_size.is_some(), "the kernel decides"),
        ("--drive", args.drive.is_some(), "its client is a node already"),
        ("--frames", args.frames.is_some(), "say --duration 20ms"),
        (args.traffic.given().unwrap_or("--traffic"), args.traffic.given().is_some(), "its client sends"),
    ];
    for (option, given, why) in given {
        if given {
            bail!("{option} is for load generators, and {name} has none: {why}");
        }
    }
    Ok(())
}
