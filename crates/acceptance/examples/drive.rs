//! Host time with a second node as traffic source instead of the load generator, for the same simulated time
//! and load, as in figure 20 of "Userspace Networking in gem5" (ISPASS 2024). A benchmark, not a test:
//! results depend on the host.
//!
//!     cargo run --release -p doorbell-acceptance --example drive [-- --preset server --benchmark testpmd --rate 5Mpps --runs 3]
//!
//! Runs of both alternate, from checkpoints of their applications. A ratio above 1 is the generator's
//! speed-up. The simulated results are printed too and should agree.

use std::time::Instant;

use doorbell_acceptance::baseline::median;
use doorbell_acceptance::{places, quiet, run_point, scratch};
use doorbell_bench::{
    BenchmarkPlan, Observe, PointSummary, ResultFolder, Session, Source, benchmark, resolve,
};
use doorbell_loadgen::Rate;

fn option(words: &[String], name: &str, otherwise: &str) -> String {
    let given = words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    given.map_or_else(|| otherwise.to_owned(), Clone::clone)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let preset = option(&words, "--preset", "server");
    let chosen = benchmark(&option(&words, "--benchmark", "testpmd")).expect("a benchmark");
    let rate: Rate = option(&words, "--rate", "5Mpps").parse().expect("a rate");
    let runs: usize = option(&words, "--runs", "3").parse().expect("a number of runs");
    let own: Vec<String> = chosen.defaults.iter().map(|&set| set.to_owned()).collect();
    let config = resolve(&preset, &own).expect("a configuration");
    let size = config.loadgen.traffic.frame_size;
    let session = quiet(|control| Session::prepare(&config, chosen, &places(), &Source::Cache, control))
        .expect("the application becomes ready");
    let own = [&own[..], &["drive.kind=node".to_owned()]].concat();
    let driven = resolve(&preset, &own).expect("a configuration");
    let plan = BenchmarkPlan::new(chosen, &driven, chosen.name, 1).expect("a benchmark with test frames");
    let nodes =
        quiet(|control| plan.prepare(&places(), &Source::Cache, control)).expect("both nodes become ready");
    let results = scratch();
    let folder = ResultFolder::create(results.path()).expect("a folder for results");
    let timed = |run: &dyn Fn() -> PointSummary| {
        let started = Instant::now();
        let point = run();
        (started.elapsed().as_secs_f64(), point)
    };
    let (mut by_generator, mut by_node) = (Vec::new(), Vec::new());
    for _ in 0..runs.max(1) {
        by_generator.push(timed(&|| {
            quiet(|control| run_point(&session, rate, size, control)).expect("a point").summary
        }));
        by_node.push(timed(&|| {
            quiet(|control| nodes.measure(&driven, rate, &Observe::default(), &folder, control))
                .expect("a point")
                .summary
        }));
    }
    println!("{} at {rate} of {size} frames, preset {preset}: median of {} runs", chosen.name, runs.max(1));
    println!("{:<10} {:>8} {:>9} {:>10} {:>7} {:>9}", "", "host s", "offered", "delivered", "IPC", "p50, µs");
    for (name, all) in [("generator", &by_generator), ("node", &by_node)] {
        let (host, point) = (median(all.iter().map(|one| one.0)), &all[0].1);
        let p50 = point.latency_ns.as_ref().map_or(f64::NAN, |latency| latency.p50 / 1e3);
        println!(
            "{name:<10} {host:>8.2} {:>9.3} {:>10.3} {:>7.3} {p50:>9.2}",
            point.offered_mpps, point.delivered_mpps, point.ipc
        );
    }
    let ratios = by_generator.iter().zip(&by_node).map(|(generator, node)| node.0 / generator.0);
    println!("a second node takes {:.2} times as long as the generator", median(ratios));
}
