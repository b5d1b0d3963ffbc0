//! Debian's servers on several cores, and options that servers reject.

use doorbell_acceptance::{doorbell, number, summary};
use serde_json::Value;

#[test]
#[ignore = "long: make test-long runs it"]
fn each_core_of_a_server_receives_its_requests_through_its_own_queue() {
    let machine = "--preset fast --set platform.harts=2 --set nic.model=82576 --set platform.interrupts=aia --duration 5ms";
    for load in [
        "redis --set redis.cores=2 --set redis.clients=8",
        "web --set web.cores=2 --set web.file=100",
        "netperf --set netperf.cores=2 --set netperf.streams=4 --set netperf.test=TCP_RR",
        "netperf --set netperf.cores=2 --set netperf.streams=2 --set netperf.test=UDP_RR",
        "iperf --set iperf.cores=2 --set iperf.streams=4",
    ] {
        let found = summary(&format!("{load} {machine}"));
        let cores = found.pointer("/transfer/cores").and_then(Value::as_array).expect("figures per core");
        assert_eq!(cores.len(), 2, "{load}: {found}");
        let frames = number(&found, "/transfer/wire_to_server/frames");
        let received: f64 = cores.iter().map(|core| number(core, "/queue_received")).sum();
        assert!((received - frames).abs() <= 0.05 * frames + 4.0, "{load}: {received} of {frames}: {found}");
        for core in cores {
            // Each request is one frame. Random steering would send half of them through the other queue.
            let own = match core.get("transactions_per_second").and_then(Value::as_f64) {
                Some(rate) => rate * number(&found, "/transfer/seconds") / number(core, "/queue_received"),
                None => number(core, "/goodput_gbps").clamp(0.0, 1.0),
            };
            assert!((0.85..1.15).contains(&own), "{load}: {core}");
        }
    }
}

#[test]
fn options_that_servers_do_not_support_are_rejected() {
    doorbell(&["run", "redis", "--set", "redis.cores=2", "--harts", "1"])
        .assert_failure(&["redis.cores", "platform.harts=2"]);
    let two = ["platform.interrupts=plic", "netperf.streams=2", "netperf.cores=2"];
    let words = two.iter().flat_map(|set| ["--set", set]);
    let words: Vec<&str> = ["run", "netperf"].into_iter().chain(words).collect();
    doorbell(&words).assert_failure(&["netperf.cores", "platform.interrupts=aia"]);
    doorbell(&["run", "redis", "--set", "redis.pipeline=0"])
        .assert_failure(&["redis.pipeline", "from 1 to 128"]);
    doorbell(&["run", "web", "--set", "web.file=5"]).assert_failure(&["web.file", "100, 1000, 10000"]);
    doorbell(&["run", "web", "--set", "web.dynamic=10"])
        .assert_failure(&["web.dynamic", "set web.mix=specweb99"]);
    doorbell(&["run", "web", "--set", "web.mix=specweb99", "--set", "web.file=100"])
        .assert_failure(&["web.file", "web.mix"]);
    doorbell(&["run", "testpmd", "--set", "redis.value=9"])
        .assert_failure(&["redis.value", "testpmd has no"]);
    doorbell(&["run", "nfs", "--set", "nfs.writers=4"])
        .assert_failure(&["nfs.file", "set platform.ram=512MiB"]);
    doorbell(&["run", "web", "--rate", "1Mpps"]).assert_failure(&["--rate", "web has none"]);
}
