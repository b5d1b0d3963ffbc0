//! A run without traffic shows the caches.

use doorbell_acceptance::{places, quiet, run_point};
use doorbell_bench::{Session, Source, benchmark, resolve};
use doorbell_sim::Bytes;

#[test]
#[ignore = "long: make test-long runs it"]
fn compute_runs_without_traffic_and_is_slower_with_a_table_larger_than_the_caches() {
    let chosen = benchmark("compute").expect("a benchmark");
    let at = |table: &str| {
        let all = [table, "run.warmup=2ms", "run.duration=1ms", "run.settle=200us"].map(str::to_owned);
        let config = resolve("server", &all).expect("a configuration");
        let session = quiet(|control| Session::prepare(&config, chosen, &places(), &Source::Boot, control))
            .expect("ready");
        let rate = config.loadgen.traffic.requested_rate();
        quiet(|control| run_point(&session, rate, Bytes(64), control)).expect("the program runs").summary
    };
    let (small, large) = (at("compute.table=16KiB"), at("compute.table=16MiB"));
    assert_eq!((small.rate.as_str(), small.frames_offered), ("none", 0));
    assert!(small.simulated_seconds >= 1e-3);
    assert!(small.ipc > 2.0 * large.ipc, "{} and {} instructions per cycle", small.ipc, large.ipc);
}
