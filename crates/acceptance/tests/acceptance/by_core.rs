//! Per-queue latency stages and per-core CPU time of a timed multi-core run sum to the totals.

use doorbell_acceptance::{quiet, run_point_observed, timed_session};
use doorbell_bench::Observe;
use doorbell_sim::Bytes;

#[test]
#[ignore = "long: make test-long runs it"]
fn latency_stages_per_queue_and_cpu_time_per_core_sum_to_the_totals() {
    let flows = "loadgen.traffic.streams=[{rate=\"4Mpps\", sweeps=[{field=\"source-port\", count=100}]}]";
    let guest = ["nic.model=82576", "testpmd.cores=2", "platform.harts=2", "platform.ram=256MiB"];
    let session = timed_session(&guest, &[flows, "run.warmup=200us", "run.duration=50us"]);
    let observe = Observe { profile: true, ..Observe::default() };
    let rate = "4Mpps".parse().expect("a rate");
    let point = quiet(|control| run_point_observed(&session, rate, Bytes(64), &observe, control))
        .expect("the point can be measured");
    let summary = &point.summary;
    let ways = &summary.latency_stages_by_queue;
    let places: Vec<_> = ways.iter().map(|way| (way.port, way.queue, way.hart)).collect();
    assert_eq!(places, [(0, 0, Some(0)), (0, 1, Some(1))], "each core serves its own queue");
    assert_eq!(ways.iter().map(|way| way.frames).sum::<u64>(), summary.frames_delivered);
    let all = summary.latency_stages_ns.as_ref().expect("frames have stages");
    for (at, (name, stage)) in all.0.iter().enumerate() {
        let sum: f64 = ways.iter().map(|way| way.stages_ns[at].mean * way.frames as f64).sum();
        let mean = sum / summary.frames_delivered as f64;
        assert!((mean - stage.mean).abs() < 1e-6 * stage.mean.max(1.0), "{name}: {mean} and {}", stage.mean);
    }
    let kinds = summary.kinds.as_ref().expect("a profile was requested");
    assert_eq!(kinds.harts.iter().map(|of| of.hart).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(kinds.harts.iter().map(|of| of.cycles).sum::<u64>(), kinds.cycles);
    for kind in &kinds.kinds {
        let own = kinds.harts.iter().flat_map(|of| &of.kinds).filter(|own| own.kind == kind.kind);
        let (cycles, instructions) = own.fold((0, 0), |(c, i), own| (c + own.cycles, i + own.instructions));
        assert_eq!((cycles, instructions), (kind.cycles, kind.instructions), "{}", kind.kind);
    }
    for of in &kinds.harts {
        assert!(of.kinds.iter().any(|own| own.kind == "receive" && own.share > 0.2), "{of:?}");
    }
    let file =
        |name: &str| point.observed.files.iter().find(|(of, _)| *of == name).expect(name).1.lines().count();
    assert!(file("functions-by-hart.csv") >= file("functions.csv") && file("kinds-by-hart.csv") > 2);
}
