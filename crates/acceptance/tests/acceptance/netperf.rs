//! netperf between two nodes: its transactions and streams are what crosses the cable, the driver's interrupts are what they wait for, and a
//! test that goes on begins at its checkpoint, the same for the same seed. All are left to the long run: they boot images of their own.

use doorbell_acceptance::{doorbell, number, scratch};
use serde_json::Value;

/// A run of netperf; its summary.
fn netperf(options: &str) -> Value {
    let folder = scratch();
    let out = folder.path().join("out");
    let common = ["run", "netperf", "--out", out.to_str().expect("a path in UTF-8"), "--json", "-q"];
    let words: Vec<&str> = common.into_iter().chain(options.split_whitespace()).collect();
    serde_json::from_str(&doorbell(&words).success()).expect("the summary is JSON and nothing else")
}

/// Interrupts and transactions of a timed server, whose driver is told this.
fn transactions(options: &str) -> (f64, f64) {
    let found =
        netperf(&format!("--preset server --set netperf.test=TCP_RR --warmup 5ms --duration 10ms {options}"));
    (number(&found, "/transfer/transactions_per_second"), number(&found, "/interrupts_per_second"))
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_transaction_waits_for_the_drivers_next_interrupt() {
    // Linux' e1000 allows itself 20,000 interrupts a second where latency counts; and as many transactions.
    let (usual, interrupts) = transactions("");
    assert!(
        (interrupts - 20_000.0).abs() < 600.0 && (usual - interrupts).abs() < 600.0,
        "{usual} {interrupts}"
    );
    let (fewer, interrupts) = transactions("--set kernel.interrupt_throttle_rate=8000");
    assert!((fewer - 8000.0).abs() < 300.0 && (fewer - interrupts).abs() < 300.0, "{fewer} {interrupts}");
    let (free, interrupts) = transactions("--set kernel.interrupt_throttle_rate=0");
    assert!(free > 1.5 * usual && interrupts > free, "{free} {interrupts}");
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_test_that_goes_on_is_the_same_for_the_same_seed_and_another_for_another() {
    let hash = |options: &str| {
        let common = "--preset fast --warmup 2ms --set link.frame_loss=0.002";
        netperf(&format!("{common} {options}"))["state_hash"].clone()
    };
    let whole = "--duration 5ms --seed";
    let (first, again, other) =
        (hash(&format!("{whole} 1")), hash(&format!("{whole} 1")), hash(&format!("{whole} 2")));
    assert!(first == again && first != other, "{first} {again} {other}");
    // With a boot of its own, and in samples, too.
    assert_eq!(hash(&format!("{whole} 1 --boot")), first);
    assert_eq!(hash("--seed 1 --duration 1ms --samples 5"), first);
}

#[test]
#[ignore = "long: make test-long runs it"]
fn netperf_finds_what_crosses_the_cable() {
    // Slow cores: the shortest test that netperf knows, a second, is soon simulated.
    let slow =
        "--preset fast --set core.frequency=300MHz --set drive.frequency=300MHz --set netperf.seconds=1";
    let stream = netperf(slow);
    let (goodput, seconds) =
        (number(&stream, "/transfer/goodput_gbps"), number(&stream, "/transfer/seconds"));
    let sent = number(&stream, "/transfer/bytes_sent") * 8e-9 / seconds;
    assert!((0.9..1.2).contains(&seconds) && (goodput / sent - 1.0).abs() < 0.05, "{stream}");
    let requests = netperf(&format!("{slow} --set netperf.test=UDP_RR --set netperf.response=100"));
    let (rate, frames) = (
        number(&requests, "/transfer/transactions_per_second"),
        number(&requests, "/transfer/wire_to_client/frames"),
    );
    // What it says of a second, and what crossed the cable in that and the talk around it.
    assert!((frames / rate - 1.0).abs() < 0.05, "{requests}");
    let mean: f64 = requests["transfer"]["said"]["MEAN_LATENCY"].as_str().unwrap().parse().unwrap();
    assert!((mean / number(&requests, "/transfer/round_trip_us") - 1.0).abs() < 0.05, "{requests}");
}

#[test]
#[ignore = "long: make test-long runs it"]
fn several_streams_and_long_frames_reach_their_pace_and_the_drive_node_has_rest() {
    let short = "--preset server --warmup 2ms --duration 1ms --set run.settle=1ms --samples 4";
    for (options, frame) in [
        ("", 1400.0..1519.0),
        ("--set netperf.streams=4 --set kernel.mtu=9000", 8000.0..9019.0),
        ("--set netperf.test=TCP_MAERTS", 1400.0..1519.0),
    ] {
        let found = netperf(&format!("{short} {options}"));
        assert!(frame.contains(&number(&found, "/frame_size")), "{options}: {found}");
        let (mean, goodput) =
            (number(&found, "/transfer/samples/mean"), number(&found, "/transfer/goodput_gbps"));
        assert!((mean / goodput - 1.0).abs() < 1e-3, "{options}: {mean} {goodput}");
        assert!(number(&found, "/transfer/drive_idle") > 0.05, "{options}: {found}");
        let parts = found["transfer"]["over_time"].as_array().expect("parts");
        assert_eq!(parts.iter().filter(|part| part["phase"] == "measured").count(), 40, "{parts:?}");
    }
}

/// What suricata says that it has seen and lost of a server's port is what crossed the cable meanwhile, both ways, but for what was on its way
/// at both edges; and the server, which has the core to share, gets less done.
#[test]
#[ignore = "long: make test-long runs it"]
fn suricata_beside_a_server_sees_or_loses_each_frame_of_its_port() {
    let plain = netperf("--preset fast --warmup 2ms --duration 20ms --set platform.ram=384MiB");
    for set in [
        &[][..],
        &["suricata.depth=1MiB", "suricata.tpacket_v3=false"],
        &["nic.model=82576", "netperf.test=TCP_RR"],
    ] {
        let set: String = set.iter().map(|set| format!(" --set {set}")).collect();
        let options =
            "--preset fast --warmup 2ms --duration 20ms --set platform.ram=384MiB --set netperf.ids=suricata";
        let found = netperf(&format!("{options}{set}"));
        let groups = found["ports"][0]["groups"].as_array().expect("a port's figures");
        let counted =
            groups.iter().find(|group| group["title"] == "What suricata has counted").expect("it counts");
        let figure = |name: &str| {
            let figures = counted["figures"].as_array().expect("a group's figures");
            let found = figures.iter().find(|figure| figure["name"] == name).expect("it is told");
            found["value"].as_u64().expect("a count")
        };
        let (seen, lost) = (figure("decoder.pkts"), figure("capture.kernel_drops"));
        assert!(seen > 100 && figure("decoder.tcp") == seen && figure("decoder.invalid") == 0, "{seen}");
        assert_eq!(figure("capture.kernel_packets"), seen + lost);
        let crossed = number(&found, "/transfer/wire_to_server/frames")
            + number(&found, "/transfer/wire_to_client/frames");
        assert!(((seen + lost) as f64 - crossed).abs() < 300.0, "{seen} and {lost} of {crossed}");
        let goodput = |of: &Value| of.pointer("/transfer/goodput_gbps").and_then(Value::as_f64);
        if let (Some(watched), Some(alone)) = (goodput(&found), goodput(&plain)) {
            assert!(watched < 0.9 * alone, "{watched} {alone}");
        }
    }
}

#[test]
fn what_netperf_cannot_do_is_refused() {
    doorbell(&["run", "netperf", "--rate", "1Mpps"]).refused_with(&["--rate", "netperf has none"]);
    doorbell(&["run", "netperf", "--set", "netperf.test=TCP_CRR"]).refused_with(&["netperf.test", "TCP_RR"]);
    doorbell(&["run", "netperf", "--set", "netperf.request=64"]).refused_with(&["netperf.request", "TCP_RR"]);
    doorbell(&["run", "netperf", "--set", "run.frames=9"]).refused_with(&["run.frames", "run.duration"]);
    doorbell(&["run", "netperf", "--samples", "0"]).refused_with(&["transfer.samples", "from 1 to 1000"]);
    doorbell(&["run", "testpmd", "--samples", "4"]).refused_with(&["--samples", "netperf"]);
    doorbell(&["run", "--network", "its.toml", "--samples", "4"]).refused_with(&["--samples", "netperf"]);
    doorbell(&["run", "--image", "net", "--script", "its.sh", "--samples", "4"])
        .refused_with(&["--samples", "netperf"]);
}
