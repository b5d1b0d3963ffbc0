//! Linux as a NAT gateway between two nodes: compares captures of both cables, read with tshark, with the
//! summary. Only in the long run, as it boots its own image. Needs tshark.

use std::collections::BTreeSet;
use std::path::Path;

use doorbell_acceptance::{doorbell, number, scratch, tshark};
use serde_json::Value;

const CLIENT: &str = "10.0.0.3";
const GATEWAY: &str = "10.0.1.2";
const SERVER: &str = "10.0.1.3";

/// Runs `nat` with captures; returns its summary.
fn nat(out: &Path, options: &str) -> Value {
    let common = ["run", "nat", "--pcap", "--json", "-q", "--out", out.to_str().expect("a path in UTF-8")];
    let words: Vec<&str> = common.into_iter().chain(options.split_whitespace()).collect();
    serde_json::from_str(&doorbell(&words).success()).expect("the summary is JSON and nothing else")
}

/// Pairs of source and destination addresses with TCP traffic in a capture.
fn pairs(pcap: &Path) -> BTreeSet<[String; 2]> {
    let pairs = tshark::fields(pcap, "tcp", &["ip.src", "ip.dst"]);
    pairs.into_iter().map(|pair| pair.try_into().expect("two addresses")).collect()
}

fn both_ways(one: &str, other: &str) -> BTreeSet<[String; 2]> {
    [[one, other], [other, one]].map(|pair| pair.map(str::to_owned)).into()
}

/// TCP payload bytes to the server in a capture.
fn payload(pcap: &Path) -> f64 {
    let lengths = tshark::fields(pcap, &format!("tcp && ip.dst == {SERVER}"), &["tcp.len"]);
    lengths.concat().iter().map(|length| length.parse::<f64>().expect("a number")).sum()
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_nat_gateway_translates_addresses_and_keeps_the_payload() {
    let folder = scratch();
    for (translate, source) in [("masquerade", GATEWAY), ("none", CLIENT)] {
        let out = folder.path().join(translate);
        let options = format!("--preset fast --warmup 2ms --duration 10ms --set nat.translate={translate}");
        let found = nat(&out, &options);
        let [inside, outside] = ["wire.pcap", "wire-behind.pcap"].map(|name| out.join(name));
        assert_eq!(pairs(&inside), both_ways(CLIENT, SERVER), "{translate}");
        assert_eq!(pairs(&outside), both_ways(source, SERVER), "{translate}");
        for pcap in [&inside, &outside] {
            // TCP's checksum covers the addresses.
            assert_eq!(tshark::count(pcap, "tcp.checksum.status != 1 || ip.checksum.status != 1"), 0);
        }
        // The captures differ by the data in the gateway's rings and queues at their start and end.
        let (first, second) = (payload(&inside), payload(&outside));
        assert!((first - second).abs() < 0.1 * first && first > 1e6, "{translate}: {first} {second}");
        // Captures and `over_time` both include the warm-up. Gbit/s times ns are bits.
        let parts = found.pointer("/transfer/over_time").and_then(Value::as_array).expect("parts");
        let bytes = |part: &Value| number(part, "/gbps") * number(part, "/length_ns") / 8.0;
        let counted: f64 = parts.iter().map(bytes).sum();
        assert!((counted - first).abs() < 0.1 * first, "{translate}: {counted} of {first}");
        let [to_gateway, to_server] =
            ["/transfer/wire_to_server/frames", "/transfer/behind/wire_to_server/frames"];
        let (to_gateway, to_server) = (number(&found, to_gateway), number(&found, to_server));
        assert!((to_gateway - to_server).abs() < 0.1 * to_gateway, "{found}");
        for idle in ["/transfer/drive_idle", "/transfer/behind/idle"] {
            assert!(number(&found, idle) > 0.05, "{translate}: {found}");
        }
    }
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_gateway_with_two_different_cards_has_each_on_its_own_cable() {
    let folder = scratch();
    for port in ["port.0", "port.1"] {
        let out = folder.path().join(port);
        nat(&out, &format!("--preset fast --warmup 2ms --duration 5ms --set {port}.nic.model=82576"));
        let [inside, outside] = ["wire.pcap", "wire-behind.pcap"].map(|name| out.join(name));
        assert_eq!(pairs(&inside), both_ways(CLIENT, SERVER), "{port}");
        assert_eq!(pairs(&outside), both_ways(GATEWAY, SERVER), "{port}");
        assert!(payload(&outside) > 1e6, "{port}");
    }
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_timed_gateway_forwards_web_requests_and_has_a_profile_by_kind() {
    let folder = scratch();
    let out = folder.path().join("out");
    let found = nat(&out, "--preset server --set nat.through=web --warmup 2ms --duration 5ms --profile");
    assert!(number(&found, "/transfer/transactions_per_second") > 1000.0, "{found}");
    let share = |kind: &str| {
        let kinds = found.pointer("/kinds/kinds").and_then(Value::as_array).expect("time by kind");
        // Kinds without time are not listed.
        kinds.iter().find(|own| own["kind"] == kind).map_or(0.0, |own| number(own, "/share"))
    };
    // A gateway runs no user programs: its time is spent in the kernel.
    assert!(share("netfilter") > 0.0 && share("driver") > share("user"), "{}", found["kinds"]);
}
