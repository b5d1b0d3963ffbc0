//! Programs on several cores with one queue each: RSS spreads the flows evenly over the cores, and no frame
//! is lost.

use doorbell_acceptance::programs::{flows, measured, prepared, received_by_queue};
use doorbell_acceptance::{doorbell, scratch, session};
use doorbell_bench::Point;
use serde_json::Value;

const MODEL: &str = "nic.model=82576";

fn assert_even(point: &Point, cores: usize, what: &str) {
    let shares = received_by_queue(point);
    assert_eq!(shares.len(), cores, "{what}: {shares:?}");
    let mean = shares.iter().sum::<u64>() / cores as u64;
    assert!(shares.iter().all(|share| (mean / 2..2 * mean).contains(share)), "{what}: {shares:?}");
}

#[test]
fn testpmd_cores_have_one_queue_each_and_share_the_flows() {
    let guest = [MODEL, "platform.harts=2", "testpmd.cores=2"];
    let session = session(&guest, &["run.warmup=100us", "run.duration=500us", &flows("source-port")]);
    assert_even(&measured(&session, 64), 2, "testpmd");
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
    for set in [&["platform.harts=2", MODEL, "testpmd.cores=2"], traffic].concat() {
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
        let mut own = vec![MODEL, machine[0], machine[1], key, &flows];
        if name == "pipeline" {
            own.push("stages.division=run-to-completion");
        }
        assert_even(&measured(&prepared(name, &own), 64), 3, name);
    }
}

#[test]
#[ignore = "long: make test-long runs it"]
fn memcached_dpdk_cores_receive_the_requests_for_their_shard_of_the_keys() {
    let own = [
        MODEL,
        "platform.harts=3",
        "platform.ram=512MiB",
        "memcached_dpdk.cores=3",
        "loadgen.traffic.memcached.shards=3",
        "loadgen.traffic.memcached.sets=0.2",
        "loadgen.traffic.memcached.clients=8",
    ];
    let point = measured(&prepared("memcached-dpdk", &own), 64);
    assert_eq!(point.summary.frames_corrupt, 0);
    assert_even(&point, 3, "memcached-dpdk");
}
