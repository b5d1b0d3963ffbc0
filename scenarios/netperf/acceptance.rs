//! netperf between two nodes: its figures match the traffic on the cable, transactions wait for the driver's
//! interrupts, and a test continued from a checkpoint depends on the seed only. Most are in the long run, as
//! they boot their own images.

use doorbell_acceptance::{doorbell, number, scratch};
use serde_json::Value;

/// Runs netperf; returns its summary.
fn netperf(options: &str) -> Value {
    let folder = scratch();
    let out = folder.path().join("out");
    let common = ["run", "netperf", "--out", out.to_str().expect("a path in UTF-8"), "--json", "-q"];
    let words: Vec<&str> = common.into_iter().chain(options.split_whitespace()).collect();
    serde_json::from_str(&doorbell(&words).success()).expect("the summary is JSON and nothing else")
}

/// Transactions and interrupts per second of a timed server, with these options.
fn transactions(options: &str) -> (f64, f64) {
    let found =
        netperf(&format!("--preset server --set netperf.test=TCP_RR --warmup 5ms --duration 10ms {options}"));
    (number(&found, "/transfer/transactions_per_second"), number(&found, "/interrupts_per_second"))
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_transaction_waits_for_the_drivers_next_interrupt() {
    // Linux's e1000 allows 20,000 interrupts per second for latency-sensitive traffic, hence as many
    // transactions.
    let (default, interrupts) = transactions("");
    assert!(
        (interrupts - 20_000.0).abs() < 600.0 && (default - interrupts).abs() < 600.0,
        "{default} {interrupts}"
    );
    let (fewer, interrupts) = transactions("--set kernel.interrupt_throttle_rate=8000");
    assert!((fewer - 8000.0).abs() < 300.0 && (fewer - interrupts).abs() < 300.0, "{fewer} {interrupts}");
    let (free, interrupts) = transactions("--set kernel.interrupt_throttle_rate=0");
    assert!(free > 1.5 * default && interrupts > free, "{free} {interrupts}");
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_run_from_the_checkpoint_depends_on_the_seed_only() {
    let hash = |options: &str| {
        let common = "--preset fast --warmup 2ms --set link.frame_loss=0.002";
        netperf(&format!("{common} {options}"))["state_hash"].clone()
    };
    let whole = "--duration 5ms --seed";
    let (first, again, other) =
        (hash(&format!("{whole} 1")), hash(&format!("{whole} 1")), hash(&format!("{whole} 2")));
    assert!(first == again && first != other, "{first} {again} {other}");
    // The result is the same with a new boot, and when divided into samples.
    assert_eq!(hash(&format!("{whole} 1 --boot")), first);
    assert_eq!(hash("--seed 1 --duration 1ms --samples 5"), first);
}

#[test]
#[ignore = "long: make test-long runs it"]
fn netperf_reports_the_traffic_on_the_cable() {
    // Slow cores, so that netperf's shortest test of one second is simulated quickly.
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
    // The frame count also includes netperf's control connection.
    assert!((frames / rate - 1.0).abs() < 0.05, "{requests}");
    let mean: f64 = requests["transfer"]["said"]["MEAN_LATENCY"].as_str().unwrap().parse().unwrap();
    assert!((mean / number(&requests, "/transfer/round_trip_us") - 1.0).abs() < 0.05, "{requests}");
}

#[test]
#[ignore = "long: make test-long runs it"]
fn several_streams_and_jumbo_frames_reach_a_steady_rate_with_an_idle_drive_node() {
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

/// Suricata's counts of decoded and dropped packets sum to the frames on the cable, except for frames in
/// flight at the edges of the window. The server shares its core with Suricata and has a lower goodput.
#[test]
#[ignore = "long: make test-long runs it"]
fn suricata_on_a_server_counts_every_frame_of_the_port_as_decoded_or_dropped() {
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
        let counted = groups
            .iter()
            .find(|group| group["title"] == "Counters of suricata")
            .expect("Suricata's counters are in the summary");
        let figure = |name: &str| {
            let figures = counted["figures"].as_array().expect("a group's figures");
            let found = figures.iter().find(|figure| figure["name"] == name).expect("the counter is listed");
            found["value"].as_u64().expect("a count")
        };
        let (decoded, dropped) = (figure("decoder.pkts"), figure("capture.kernel_drops"));
        let all_valid = figure("decoder.tcp") == decoded && figure("decoder.invalid") == 0;
        assert!(decoded > 100 && all_valid, "{decoded}");
        assert_eq!(figure("capture.kernel_packets"), decoded + dropped);
        let crossed = number(&found, "/transfer/wire_to_server/frames")
            + number(&found, "/transfer/wire_to_client/frames");
        assert!(((decoded + dropped) as f64 - crossed).abs() < 300.0, "{decoded} and {dropped} of {crossed}");
        let goodput = |of: &Value| of.pointer("/transfer/goodput_gbps").and_then(Value::as_f64);
        if let (Some(with), Some(without)) = (goodput(&found), goodput(&plain)) {
            assert!(with < 0.9 * without, "{with} Gbps with Suricata, {without} without");
        }
    }
}

#[test]
fn options_that_netperf_does_not_support_are_rejected() {
    doorbell(&["run", "netperf", "--rate", "1Mpps"]).assert_failure(&["--rate", "netperf has none"]);
    doorbell(&["run", "netperf", "--set", "netperf.test=TCP_CRR"])
        .assert_failure(&["netperf.test", "TCP_RR"]);
    doorbell(&["run", "netperf", "--set", "netperf.request=64"])
        .assert_failure(&["netperf.request", "TCP_RR"]);
    doorbell(&["run", "netperf", "--set", "run.frames=9"]).assert_failure(&["run.frames", "run.duration"]);
    doorbell(&["run", "netperf", "--samples", "0"]).assert_failure(&["transfer.samples", "from 1 to 1000"]);
    doorbell(&["run", "testpmd", "--samples", "4"]).assert_failure(&["--samples", "netperf"]);
    doorbell(&["run", "--network", "its.toml", "--samples", "4"]).assert_failure(&["--samples", "netperf"]);
    doorbell(&["run", "--image", "net", "--script", "its.sh", "--samples", "4"])
        .assert_failure(&["--samples", "netperf"]);
}
