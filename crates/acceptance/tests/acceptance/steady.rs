//! Measurements begin in a steady state, and those that do not say so.

use std::fs;

use doorbell_acceptance::{doorbell, places, quiet, repository, scratch};
use doorbell_bench::{PointSummary, Session, Source, benchmark, resolve, run_point};
use doorbell_sim::Bytes;
use serde_json::Value;

/// A slow load of testpmd, whose rings of 512 descriptors take 10 ms to go round.
fn slow(warmup: &[&str]) -> PointSummary {
    let others = ["dpdk.rxd=512", "dpdk.txd=512", "run.duration=2ms", "run.drain=1ms"];
    let set: Vec<String> = others.iter().chain(warmup).map(|word| (*word).to_owned()).collect();
    let config = resolve("server", &set).expect("the check's configuration is right");
    let testpmd = benchmark("testpmd").expect("testpmd is a benchmark");
    let session = quiet(|control| Session::prepare(&config, testpmd, &places(), &Source::Cache, control));
    let session = session.expect("testpmd gets ready");
    let rate = "50kpps".parse().expect("a rate");
    quiet(|control| run_point(&session, rate, Bytes(64), None, control)).expect("testpmd runs").summary
}

fn figure(point: &PointSummary, group: &str, name: &str) -> f64 {
    let figures = point.timing.as_ref().expect("the run was timed");
    figures.get(group, name).unwrap_or_else(|| panic!("no {group}.{name}"))
}

/// After 10 ms, as long as every warm-up once was, the ring is in its second round: each packet comes to a new buffer.
#[test]
#[ignore = "long: make test-long runs it"]
fn a_load_that_is_slow_is_measured_when_its_rings_have_gone_round() {
    let (auto, long) = (slow(&[]), slow(&["run.warmup=60ms"]));
    let steady = auto.steady.as_ref().expect("it is known how it came to its pace");
    assert_eq!(steady.unmet_before().collect::<Vec<_>>(), Vec::<&_>::new());
    let warmup = steady.warmup.as_ref().expect("there was a warm-up").seconds;
    assert!(
        (0.020..0.060).contains(&warmup),
        "{warmup} s for two rounds of 10.24 ms and the stretches after them"
    );
    let cycles = [&auto, &long].map(|point| figure(point, "packet cost", "busy_cycles"));
    assert!((cycles[0] / cycles[1] - 1.0).abs() < 0.02, "{cycles:?} cycles a packet");
    let misses = [&auto, &long].map(|point| figure(point, "LLC", "misses_per_packet"));
    assert!(misses.iter().all(|misses| *misses < 0.05), "{misses:?} misses of the last level a packet");
}

#[test]
fn a_measurement_that_begins_too_early_says_so_everywhere() {
    let folder = scratch();
    let out = folder.path().join("out");
    let load = ["run", "testpmd", "--preset", "server", "--rate", "1Mpps", "--duration", "50us"];
    let early = ["--warmup", "700us", "--set", "run.settle=10us", "--out", out.to_str().unwrap()];
    let printed = doorbell(&[&load[..], &early].concat()).success();
    for said in [
        "At 1.000 Mpps the measurement began before its state was known to be steady:",
        "  warm-up of 700 µs, rings: 0.68 rounds.",
        "  warm-up of 700 µs, caches: too short to tell.",
        "  settling of 10.0 µs, queues: too short to tell.",
    ] {
        assert!(printed.contains(said), "{said}\n{printed}");
        let page = fs::read_to_string(out.join("report.html")).expect("a page was written");
        assert!(page.contains(said.trim()), "the page does not say: {said}");
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
fn how_long_a_warm_up_takes_depends_on_nothing_but_the_simulation() {
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
