//! Programs on several cores with one queue each: RSS spreads the flows evenly over the cores, and no frame
//! is lost. Both run-to-completion and pipelined programs are checked.

use doorbell_acceptance::{doorbell, places, quiet, run_point, scratch, session};
use doorbell_bench::{Point, Session, Source, benchmark, resolve};
use doorbell_sim::Bytes;
use serde_json::Value;

const FRAMES: u64 = 500;
const COMMON: [&str; 4] = ["run.warmup=100us", "run.duration=500us", "run.drain=1ms", "nic.model=82576"];

fn flows(field: &str) -> String {
    format!("loadgen.traffic.streams=[{{rate=\"1Mpps\",sweeps=[{{field=\"{field}\",count=64}}]}}]")
}

fn measured(session: &Session) -> Point {
    let rate = "1Mpps".parse().expect("a rate");
    let point = quiet(|control| run_point(session, rate, Bytes(64), control)).expect("the program runs");
    point.machine.check_conservation();
    point
}

/// Frames received by each queue. Asserts that no frame was lost.
fn shares(point: &Point) -> Vec<u64> {
    let whole = (point.summary.frames_offered, point.summary.frames_delivered);
    assert!(whole.0 == whole.1 && whole.0.abs_diff(FRAMES) <= 1, "{whole:?}");
    let queues = point.summary.ports[0].queues.iter();
    let received = queues.map(|of| of.figures.iter().find(|figure| figure.name == "rx_frames"));
    received.map(|figure| figure.map_or(0, |figure| figure.value)).collect()
}

fn assert_even(point: &Point, cores: usize, what: &str) {
    let shares = shares(point);
    assert_eq!(shares.len(), cores, "{what}: {shares:?}");
    let mean = shares.iter().sum::<u64>() / cores as u64;
    assert!(shares.iter().all(|share| (mean / 2..2 * mean).contains(share)), "{what}: {shares:?}");
}

#[test]
fn testpmd_cores_have_one_queue_each_and_share_the_flows() {
    let guest = ["nic.model=82576", "platform.harts=2", "testpmd.cores=2"];
    let session = session(&guest, &["run.warmup=100us", "run.duration=500us", &flows("source-port")]);
    assert_even(&measured(&session), 2, "testpmd");
}

/// Runs testpmd on two cores; returns the RSS warning, if any, and the number of queues in the summary.
fn rss_warning(traffic: &[&str]) -> (Option<String>, usize) {
    let folder = scratch();
    let out = folder.path().join("out");
    let mut words = vec!["run", "testpmd", "-q", "--preset", "fast", "--rate", "1Mpps"];
    words.extend([
        "--warmup",
        "100us",
        "--duration",
        "500us",
        "--out",
        out.to_str().expect("a path in UTF-8"),
    ]);
    for set in [&["platform.harts=2", "nic.model=82576", "testpmd.cores=2"], traffic].concat() {
        words.extend(["--set", set]);
    }
    let text = doorbell(&words).success();
    let line = text.lines().find_map(|line| line.find("RSS spreads").map(|at| line[at..].to_owned()));
    let read = |name: &str| std::fs::read_to_string(out.join(name)).expect("a file of results");
    assert_eq!(
        line.is_some(),
        read("report.html").contains("RSS spreads"),
        "the page has the warning exactly if the table has it"
    );
    let summary: Value = serde_json::from_str(&read("summary.json")).expect("the summary is JSON");
    let queues = summary.pointer("/points/0/ports/0/queues").and_then(Value::as_array).expect("queues");
    assert!(queues.iter().all(|queue| queue["rss"] == true), "{queues:?}");
    (line, queues.len())
}

#[test]
fn a_warning_is_printed_if_rss_sends_all_frames_to_one_queue() {
    let same = r#"loadgen.traffic.streams=[{rate="1Mpps"},{rate="1Mpps",size="128B"}]"#;
    let two_tags = r#"loadgen.traffic.streams=[{rate="1Mpps",sweeps=[{field="source-port",count=64}],size="80B",vlans=[{id=5},{id=6}]}]"#;
    for traffic in [&[][..], &[same], &[two_tags]] {
        let (line, queues) = rss_warning(traffic);
        let line = line.unwrap_or_else(|| panic!("no warning for {traffic:?}"));
        assert!(line.starts_with("RSS spreads flows over 2 queues of port 0, and all "), "{line}");
        assert_eq!(queues, 2, "the unused queue is listed too");
    }
    assert_eq!(rss_warning(&[&flows("source-port")]), (None, 2));
}

fn prepared(name: &str, own: &[&str]) -> Session {
    let chosen = benchmark(name).expect("a benchmark");
    let all = chosen.defaults.iter().chain(&COMMON).chain(own).map(|&text| text.to_owned());
    let config = resolve("fast", &all.collect::<Vec<_>>()).expect("a configuration");
    quiet(|control| Session::prepare(&config, chosen, &places(), &Source::Boot, control))
        .unwrap_or_else(|error| panic!("{name} does not become ready: {error}"))
}

#[test]
#[ignore = "long: make test-long runs it"]
fn cores_of_the_other_dpdk_programs_have_one_queue_each_and_share_the_flows() {
    let machine = ["platform.harts=3", "platform.ram=768MiB"];
    for (name, key, field) in [
        ("l3fwd", "l3fwd.cores=3", "source-ip"),
        ("touchfwd", "touch.cores=3", "source-port"),
        ("touchdrop", "touch.cores=3", "source-port"),
        ("rxptx", "rxptx.cores=3", "source-port"),
        ("pipeline", "stages.cores=3", "source-port"),
    ] {
        let flows = flows(field);
        let mut own = vec![machine[0], machine[1], key, &flows];
        if name == "pipeline" {
            own.push("stages.division=run-to-completion");
        }
        assert_even(&measured(&prepared(name, &own)), 3, name);
    }
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_pipeline_passes_packets_between_cores_without_loss() {
    for work in ["stages.work=macswap", "stages.work=touchfwd"] {
        let session = prepared("pipeline", &[work, &flows("source-port")]);
        let one = measured(&session);
        assert_eq!(shares(&one).len(), 1, "a pipeline receives on one core from one queue");
        assert_eq!(one.summary.state_hash, measured(&session).summary.state_hash);
    }
}

#[test]
#[ignore = "long: make test-long runs it"]
fn memcached_dpdk_cores_receive_the_requests_for_their_shard_of_the_keys() {
    let own = [
        "platform.harts=3",
        "platform.ram=512MiB",
        "memcached_dpdk.cores=3",
        "loadgen.traffic.memcached.shards=3",
        "loadgen.traffic.memcached.sets=0.2",
        "loadgen.traffic.memcached.clients=8",
    ];
    let point = measured(&prepared("memcached-dpdk", &own));
    assert_eq!(point.summary.frames_corrupt, 0);
    assert_even(&point, 3, "memcached-dpdk");
}

#[test]
#[ignore = "long: make test-long runs it"]
fn memcached_kernel_uses_one_queue_per_thread() {
    let own = [
        "platform.harts=4",
        "platform.interrupts=aia",
        "memcached_kernel.cores=4",
        "loadgen.traffic.memcached.clients=64",
        "run.warmup=2ms",
        "run.duration=5ms",
        "run.drain=5ms",
    ];
    let session = prepared("memcached-kernel", &own);
    let rate = "200kpps".parse().expect("a rate");
    let point = quiet(|control| run_point(&session, rate, Bytes(64), control)).expect("memcached runs");
    let summary = &point.summary;
    assert_eq!((summary.frames_delivered, summary.frames_corrupt), (summary.frames_offered, 0));
    let mut queues = point.machine.nic(0).queue_stats().iter().map(|queue| queue.rx_frames);
    assert!(queues.by_ref().take(4).all(|frames| frames > 100) && queues.all(|frames| frames == 0));
}
