//! Steady-state detection: automatic warm-up reaches a steady state, and a measurement that starts too early
//! has a warning.

use std::fs;

use doorbell_acceptance::{doorbell, places, quiet, repository, run_point, scratch};
use doorbell_bench::{PointSummary, Session, Source, benchmark, resolve};
use doorbell_sim::Bytes;
use serde_json::Value;

/// testpmd at a low rate, at which the rings of 512 descriptors wrap around every 10 ms.
fn slow(warmup: &[&str]) -> PointSummary {
    let others = ["dpdk.rxd=512", "dpdk.txd=512", "run.duration=2ms", "run.drain=1ms"];
    let set: Vec<String> = others.iter().chain(warmup).map(|word| (*word).to_owned()).collect();
    let config = resolve("server", &set).expect("the check's configuration is valid");
    let testpmd = benchmark("testpmd").expect("testpmd is a benchmark");
    let session = quiet(|control| Session::prepare(&config, testpmd, &places(), &Source::Cache, control));
    let session = session.expect("testpmd becomes ready");
    let rate = "50kpps".parse().expect("a rate");
    quiet(|control| run_point(&session, rate, Bytes(64), control)).expect("testpmd runs").summary
}

fn figure(point: &PointSummary, group: &str, name: &str) -> f64 {
    let figures = point.timing.as_ref().expect("the run was timed");
    figures.named(group, name).unwrap_or_else(|| panic!("no {group}.{name}"))
}

/// A warm-up of 10 ms, the former default, would be too short: the ring is in its second round, so that each
/// packet still uses a new buffer.
#[test]
#[ignore = "long: make test-long runs it"]
fn automatic_warm_up_of_a_low_rate_waits_until_the_rings_have_wrapped_around() {
    let (auto, long) = (slow(&[]), slow(&["run.warmup=60ms"]));
    let steady = auto.steady.as_ref().expect("the summary has the steady-state criteria");
    assert_eq!(steady.unmet_before().collect::<Vec<_>>(), Vec::<&_>::new());
    let warmup = steady.warmup.as_ref().expect("there was a warm-up").seconds;
    assert!(
        (0.020..0.060).contains(&warmup),
        "a warm-up of {warmup} s, expected two rounds of 10.24 ms and the intervals after them"
    );
    let cycles = [&auto, &long].map(|point| figure(point, "packet cost", "busy_cycles"));
    assert!((cycles[0] / cycles[1] - 1.0).abs() < 0.02, "{cycles:?} cycles per packet");
    let misses = [&auto, &long].map(|point| figure(point, "LLC", "misses_per_packet"));
    assert!(misses.iter().all(|misses| *misses < 0.05), "{misses:?} LLC misses per packet");
}

#[test]
fn a_measurement_that_starts_too_early_has_a_warning_in_the_output_and_the_page() {
    let folder = scratch();
    let out = folder.path().join("out");
    let load = ["run", "testpmd", "--preset", "server", "--rate", "1Mpps", "--duration", "50us"];
    let early = ["--warmup", "700us", "--set", "run.settle=10us", "--out", out.to_str().unwrap()];
    let printed = doorbell(&[&load[..], &early].concat()).success();
    for line in [
        "At 1.000 Mpps the measurement began before its state was confirmed to be steady:",
        "  warm-up of 700 µs, rings: 0.68 rounds.",
        "  warm-up of 700 µs, caches: too short to tell.",
        "  settling of 10.0 µs, queues: too short to tell.",
    ] {
        assert!(printed.contains(line), "{line}\n{printed}");
        let page = fs::read_to_string(out.join("report.html")).expect("a page was written");
        assert!(page.contains(line.trim()), "the page lacks: {line}");
    }
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(out.join("summary.json")).unwrap()).unwrap();
    let rings = &summary["points"][0]["steady"]["warmup"]["criteria"][0];
    assert_eq!(
        (&rings["name"], &rings["met"], &rings["seconds"]),
        (&"rings".into(), &false.into(), &Value::Null)
    );
    assert_eq!(summary["points"][0]["steady"]["warmup"]["asked"], "700us");
}

#[test]
fn the_length_of_an_automatic_warm_up_does_not_depend_on_the_number_of_threads() {
    let network = repository().join("experiments/networks/incast.toml");
    let run = |threads: &str| {
        let folder = scratch();
        let out = folder.path().join("out");
        let words = ["run", "--network", network.to_str().unwrap(), "--preset", "fast", "--json", "-q"];
        let auto = ["--warmup", "auto", "--duration", "200us", "--threads", threads, "--out"];
        let printed = doorbell(&[&words[..], &auto, &[out.to_str().unwrap()]].concat()).success();
        let point: Value = serde_json::from_str(&printed).expect("the summary is JSON and nothing else");
        (point["steady"].clone(), point["state_hash"].clone())
    };
    let one = run("1");
    assert_eq!(one, run("2"));
    assert_eq!(one.0["warmup"]["asked"], "auto");
    assert_eq!(one.0["warmup"]["criteria"][0]["name"], "queues");
}
