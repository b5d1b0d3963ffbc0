//! Two nodes on one cable: a file arrives intact, also over a lossy link, a run does not depend on where it
//! is stopped, and a drive node sends what the load generator would. Needs tshark.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use doorbell_acceptance::{doorbell, dropped, number, places, scratch};
use doorbell_bench::{read_guest, resolve};
use doorbell_image::{GuestFile, overlay};
use doorbell_machine::{
    Guest, Limits, Mode, Network, NetworkCheckpoint, NetworkConfig, NetworkOutcome, Outcome,
};
use doorbell_sim::Ps;
use doorbell_wire::PcapFile;
use doorbell_wire::pcap::WHOLE_FRAMES;
use serde_json::Value;

/// Limit of simulated time; most of it is idle.
const PATIENCE: Ps = Ps(600 * Ps::PER_SECOND);
/// Size of the file in bytes, not a multiple of a segment or a page.
const FILE_BYTES: u64 = 4_000_001;

/// Script of node 0: creates a file of random bytes and serves it by HTTP.
const SERVER: &str = "\
head -c 4000001 /dev/urandom > /srv/file
echo \"sent $(sha256sum < /srv/file)\"
ethtool -K eth0 rx on
ethtool -k eth0 | grep -E '^(tcp-segmentation-offload|tx-checksumming|rx-checksumming):'
busybox httpd -f -p 80 -h /srv
";

/// Script of node 1: fetches the file after a line of console input.
const CLIENT: &str = "\
ethtool -K eth0 rx on
echo 'client: waiting'
read -r go
busybox wget -q -O /tmp/file http://10.0.0.2/file
echo \"got $(sha256sum < /tmp/file)\"
";

fn guest(script: &str, address: &str) -> Guest {
    let image = places().build_image("net", &mut |_| {}).expect("the net image can be built");
    let words = format!("{} doorbell.app=ours doorbell.ip={address}", image.command_line());
    let mut guest = read_guest(&image, words).expect("an image can be read");
    let content = script.as_bytes().to_vec();
    let ours = GuestFile { path: "scripts/ours".into(), executable: false, content };
    guest.initramfs.extend(overlay(&[ours]).expect("a script can be added to an image"));
    guest
}

fn built(overrides: &[&str]) -> Network {
    built_from("fast", overrides)
}

fn built_from(preset: &str, overrides: &[&str]) -> Network {
    let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    let config = resolve(preset, &overrides).expect("the check's configuration is valid");
    let cable = NetworkConfig::two_nodes(config.nodes()).expect("a cable connects the nodes");
    Network::new(cable, config.run.seed).expect("two nodes can be built")
}

const GUESTS: [&str; 2] = ["server", "client"];

/// Checkpoint of both nodes when ready, booted once for all checks, and the server's console output until
/// then.
fn ready() -> &'static (NetworkCheckpoint, String) {
    static READY: OnceLock<(NetworkCheckpoint, String)> = OnceLock::new();
    READY.get_or_init(|| {
        let mut pair = built(&[]);
        pair.load(&[guest(SERVER, "10.0.0.2/24"), guest(CLIENT, "10.0.0.3/24")]).expect("the guests fit");
        make_ready(&mut pair);
        (pair.checkpoint(&GUESTS, "ready"), pair.node(0).console.text())
    })
}

/// Both nodes restored from a checkpoint, with overrides that are invisible to the guests.
fn restored(overrides: &[&str], checkpoint: &NetworkCheckpoint) -> Network {
    let mut pair = built(overrides);
    pair.restore(checkpoint, &GUESTS).expect("the checkpoint fits");
    pair
}

fn consoles(pair: &Network) -> String {
    let [server, client] = [0, 1].map(|node| pair.node(node).console.last_lines(20));
    format!("server:\n{server}\nclient:\n{client}")
}

/// Runs until both nodes are ready, and long enough for the server to listen, which it does right after its
/// last line.
fn make_ready(pair: &mut Network) {
    pair.node_mut(0).console.watch(Some("rx-checksumming"));
    pair.node_mut(1).console.watch(Some("client: waiting"));
    let on_marker = Limits { on_marker: true, ..Limits::until(PATIENCE) };
    let mut ready = 0;
    while ready < 2 {
        match pair.run(&on_marker) {
            NetworkOutcome::Nodes(nodes) if nodes.iter().all(|(_, outcome)| *outcome == Outcome::Marker) => {
                ready += nodes.len();
            }
            outcome => panic!("{outcome:?}\n{}", consoles(pair)),
        }
    }
    let listening = pair.now() + Ps::from_ms(200);
    assert_eq!(pair.run(&Limits::until(listening)), NetworkOutcome::Time, "{}", consoles(pair));
}

fn client_off() -> NetworkOutcome {
    NetworkOutcome::Nodes(vec![(1, Outcome::PowerOff { code: 0 })])
}

/// Lets the client fetch the file, and runs until it powers off.
fn fetch(pair: &mut Network) {
    pair.node_mut(1).type_input(b"go\n");
    let outcome = pair.run(&Limits::until(PATIENCE));
    assert_eq!(outcome, client_off(), "{}", consoles(pair));
    pair.check_conservation();
}

/// Frames that reached either end of the cable, including those at a powered-off node.
fn arrived(pair: &Network) -> u64 {
    pair.wires().iter().map(|wire| wire.stats().delivered + wire.stats().unreceived).sum()
}

/// The hash after this word in a console's output.
fn hash<'a>(console: &'a str, word: &str) -> &'a str {
    let at = console.find(&format!("\n{word} ")).unwrap_or_else(|| panic!("no \"{word}\":\n{console}"));
    let hash = &console[at + word.len() + 2..][..64];
    assert!(hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
    hash
}

/// Transfers the file, compares both ends, and checks a capture of the cable. Returns the nodes and the
/// number of TCP retransmissions that tshark counts.
fn transfer(overrides: &[&str]) -> (Network, u64) {
    let folder = scratch();
    let pcap = folder.path().join("wire.pcap");
    let (checkpoint, server) = ready();
    let mut pair = restored(overrides, checkpoint);
    let before = arrived(&pair);
    pair.follow_flows(0);
    pair.capture(0, PcapFile::create(&pcap, WHOLE_FRAMES).expect("a capture can be made"));
    fetch(&mut pair);
    let client = pair.node(1).console.text();
    assert_eq!(hash(server, "sent"), hash(&client, "got"));
    for on in ["tcp-segmentation-offload: on", "tx-checksumming: on", "rx-checksumming: on"] {
        assert!(server.contains(on), "{server}");
    }
    let nic = pair.node(0).nic(0).stats();
    // At least half of the file's segments were created by the NIC's segmentation offload.
    assert!(nic.tx_segments > FILE_BYTES / 1460 / 2, "{nic:?}");
    // The client acknowledged the file and the HTTP header, each byte once.
    let carried = &pair.carried(0).expect("flows are tracked")[0];
    assert!((FILE_BYTES..FILE_BYTES + 2_000).contains(&carried.tcp_acknowledged), "{carried:?}");
    // The FIN is acknowledged like one byte.
    assert!(carried.tcp_payload + 1 >= carried.tcp_acknowledged, "{carried:?}");
    let captured = pair.finish_captures().expect("the capture can be finished")[0].1;
    let delivered = arrived(&pair) - before;
    assert!((delivered..=delivered + 2).contains(&captured), "{captured} captured, {delivered} delivered");
    (pair, check_with_tshark(&pcap, captured))
}

/// Checks with tshark that all checksums are correct and times do not decrease; returns the number of
/// retransmissions.
fn check_with_tshark(pcap: &Path, captured: u64) -> u64 {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(pcap).args(["-n", "-T", "fields", "-E", "separator=,", "-E", "occurrence=f"]);
    command.args(["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"]);
    for field in [
        "frame.time_delta",
        "frame.len",
        "ip.checksum.status",
        "tcp.checksum.status",
        "tcp.analysis.retransmission",
        "_ws.malformed",
    ] {
        command.args(["-e", field]);
    }
    let output = command.output().expect("this check needs tshark (package tshark)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("tshark writes text");
    let (mut frames, mut tcp, mut retransmitted) = (0, 0, 0);
    for line in text.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        let [delta, length, ip_sum, tcp_sum, retransmission, malformed] = fields[..] else {
            panic!("frame {frames}: wrong number of fields: {line}");
        };
        frames += 1;
        assert!(!delta.starts_with('-'), "frame {frames} is older than the one before it: {line}");
        assert!((60..=1514).contains(&length.parse::<u32>().expect("a number")), "frame {frames}: {line}");
        for sum in [ip_sum, tcp_sum] {
            assert!(sum.is_empty() || sum == "1", "frame {frames} has a wrong checksum: {line}");
        }
        assert!(malformed.is_empty(), "frame {frames} is malformed: {line}");
        tcp += u64::from(tcp_sum == "1");
        retransmitted += u64::from(!retransmission.is_empty());
    }
    assert_eq!(frames, captured);
    assert!(tcp > FILE_BYTES / 1460, "{tcp} TCP segments");
    retransmitted
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_file_is_transferred_intact_with_segmentation_and_checksum_offload() {
    let (pair, retransmitted) = transfer(&[]);
    assert_eq!(retransmitted, 0, "this cable loses no frames");
    let lost: u64 = pair.nodes().map(|node| node.ports()[0].link_out.stats().lost).sum();
    assert_eq!(lost, 0);
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_file_is_transferred_intact_over_a_lossy_link() {
    let (pair, retransmitted) = transfer(&["link.frame_loss=0.01"]);
    let lost: u64 = pair.nodes().map(|node| node.ports()[0].link_out.stats().lost).sum();
    assert!(lost > 10 && retransmitted > 10, "{lost} lost, {retransmitted} retransmitted");
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_run_does_not_depend_on_stops_and_checkpoints() {
    let (checkpoint, _) = ready();
    // With a lossy link, retransmissions and their timers are part of the saved state.
    let overrides = &["link.frame_loss=0.01", "link.latency=3us"];
    let later = |pair: &mut Network| {
        let off_at = pair.node(1).now();
        assert_eq!(pair.run(&Limits::until(off_at + Ps::from_ms(5))), NetworkOutcome::Time);
        (off_at, pair.instructions(), pair.state_hash())
    };
    let mut straight = restored(overrides, checkpoint);
    fetch(&mut straight);
    let expected = later(&mut straight);
    drop(straight);

    let mut first = restored(overrides, checkpoint);
    first.node_mut(1).type_input(b"go\n");
    let middle = first.now() + Ps(7_300_000_001);
    assert_eq!(first.run(&Limits::until(middle)), NetworkOutcome::Time);
    let frames = arrived(&first);
    assert!(frames > 100, "the stop must be during the transfer, not after {frames} frames");
    let saved = NetworkCheckpoint::from_bytes(first.checkpoint(&GUESTS, "middle").bytes().to_vec());
    drop(first);
    let mut second = restored(overrides, &saved.expect("the checkpoint is complete"));
    let mut outcome = NetworkOutcome::Time;
    while outcome == NetworkOutcome::Time {
        let slice = second.now() + Ps(1_777_777_777);
        outcome = second.run(&Limits::until(slice));
    }
    assert_eq!(outcome, client_off(), "{}", consoles(&second));
    assert_eq!(later(&mut second), expected);
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_network_of_a_timed_and_a_functional_node_continues_exactly_from_a_checkpoint() {
    let (checkpoint, _) = ready();
    let mut pair = built_from("server", &[]);
    pair.restore(checkpoint, &GUESTS).expect("any microarchitecture can restore it");
    assert_eq!([0, 1].map(|node| pair.node(node).timing().is_some()), [true, false]);
    pair.node_mut(1).type_input(b"go\n");
    pair.follow_flows(0);
    while pair.carried(0).expect("flows are tracked")[0].tcp_payload < 500_000 {
        let next = pair.now() + Ps::from_us(100);
        assert_eq!(pair.run(&Limits::until(next)), NetworkOutcome::Time, "{}", consoles(&pair));
    }
    for (mode, time) in [(Mode::Warming, Ps::from_us(300)), (Mode::Detailed, Ps(412_345_677))] {
        pair.node_mut(0).set_mode(mode);
        let next = pair.now() + time;
        assert_eq!(pair.run(&Limits::until(next)), NetworkOutcome::Time, "{}", consoles(&pair));
    }
    let saved = pair.checkpoint(&GUESTS, "timed");
    let mut second = built_from("server", &[]);
    second.restore(&saved, &GUESTS).expect("the same microarchitecture can restore it");
    assert_eq!(second.node(0).mode(), Mode::Detailed);
    let end = pair.now() + Ps::from_us(700);
    // Run one network in one piece, and the other in slices that end within look-ahead windows.
    assert_eq!(pair.run(&Limits::until(end)), NetworkOutcome::Time);
    while second.now() < end {
        let slice = (second.now() + Ps(177_777_777)).min(end);
        assert_eq!(second.run(&Limits::until(slice)), NetworkOutcome::Time);
    }
    assert_eq!(second.state_hash(), pair.state_hash());
    assert_eq!(second.instructions(), pair.instructions());
    pair.check_conservation();
    // Another microarchitecture, also with another look-ahead window, restores the guest-visible state and
    // starts cold.
    let mut other = built_from("server", &["pipeline.rob=64", "pipeline.iq=40"]);
    other.restore(&saved, &GUESTS).expect("another microarchitecture can restore it");
    assert_eq!(other.node(0).mode(), Mode::Functional);
    let mut longer = built(&["link.latency=2us"]);
    longer.restore(&saved, &GUESTS).expect("both nodes were saved at the same time");
    let end = longer.now() + Ps::from_us(100);
    assert_eq!(longer.run(&Limits::until(end)), NetworkOutcome::Time);
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_damaged_or_incompatible_checkpoint_of_two_nodes_is_rejected() {
    let (checkpoint, _) = ready();
    let whole = checkpoint.bytes();
    for wrong in [&whole[..10], &whole[..whole.len() - 1], b"something else"] {
        assert!(NetworkCheckpoint::from_bytes(wrong.to_vec()).is_err());
    }
    let mut damaged = whole.to_vec();
    damaged[whole.len() / 2] ^= 1;
    assert!(NetworkCheckpoint::from_bytes(damaged).is_err());
    let other = built(&["platform.ram=512MiB"]).restore(checkpoint, &GUESTS);
    assert!(other.unwrap_err().to_string().contains("another machine"));
}

/// Runs testpmd with traffic from a node or the generator; returns its points.
fn driven(drive: &str, options: &[&str]) -> Vec<Value> {
    let folder = scratch();
    let common =
        ["run", "testpmd", "--drive", drive, "--out", folder.path().to_str().unwrap(), "--json", "-q"];
    let printed = doorbell(&[&common[..], options].concat()).success();
    let summary: Value = serde_json::from_str(&printed).expect("the summary is JSON and nothing else");
    summary["points"].as_array().expect("points").clone()
}

#[test]
fn a_drive_node_measures_the_same_throughput_as_the_load_generator() {
    let short = ["--warmup", "300us", "--duration", "500us", "--set", "run.drain=2ms", "--rate"];
    let points = driven("node", &[&short[..], &["1Mpps,1Mpps,60Mpps"]].concat());
    let [one, again, beyond] = &points[..] else { panic!("three points") };
    let generated = &driven("generator", &[&short[..], &["1Mpps"]].concat())[0];
    assert_eq!(one["state_hash"], again["state_hash"]);
    for path in ["/frames_offered", "/frames_delivered", "/offered_gbps", "/drop_rate"] {
        let (by_node, by_generator) = (number(one, path), number(generated, path));
        assert!((by_node - by_generator).abs() <= 0.002 * by_generator, "{path}: {by_node}, {by_generator}");
    }
    // The drive node's own rings and polls add to the round trip.
    let (by_node, by_generator) = (number(one, "/latency_ns/p50"), number(generated, "/latency_ns/min"));
    assert!((1.0..3.0).contains(&(by_node / by_generator)), "{by_node} ns, {by_generator} ns");
    let order =
        ["min", "p50", "p90", "p99", "p99_9", "max"].map(|name| number(one, &format!("/latency_ns/{name}")));
    assert!(order.is_sorted(), "{order:?}");
    // The rate is above the drive node's capacity: the offered rate is the sent one, not the configured one.
    let (offered, delivered) = (number(beyond, "/offered_mpps"), number(beyond, "/delivered_mpps"));
    assert!((2.0..55.0).contains(&offered) && delivered <= offered, "{offered} Mpps, {delivered} Mpps");
    let named = dropped(&beyond["drops"]);
    let lost = number(beyond, "/frames_offered") - number(beyond, "/frames_delivered");
    assert!(named as f64 >= lost, "{named} of {lost} lost frames have a cause");
}

#[test]
#[ignore = "long: make test-long runs it"]
fn the_test_nodes_timing_does_not_depend_on_the_traffic_source() {
    // Caches need a full warm-up, or the sources' different first frames would matter.
    let short = "--preset server --rate 1Mpps --warmup 1ms --duration 500us --set run.settle=50us";
    let options: Vec<&str> = short.split(' ').collect();
    let [by_node, by_generator] = ["node", "generator"].map(|drive| driven(drive, &options).remove(0));
    for path in ["/timing/packet cost/busy_instructions", "/timing/packet cost/busy_cycles"] {
        let (node, generator) = (number(&by_node, path), number(&by_generator, path));
        assert!((node / generator - 1.0).abs() < 0.03, "{path}: {node}, {generator}");
    }
}

#[test]
fn invalid_options_for_two_nodes_are_rejected() {
    doorbell(&["run", "iperf", "--timeline"]).assert_failure(&["--timeline", "benchmarks of one machine"]);
    doorbell(&["run", "iperf", "--preset", "fast", "--profile"])
        .assert_failure(&["--profile", "no node is timed"]);
    doorbell(&["run", "iperf", "--profile", "--kinds", "absent.toml"])
        .assert_failure(&["cannot read absent.toml"]);
    doorbell(&["run", "iperf", "--rate", "1Gbps"]).assert_failure(&["--rate", "iperf.rate"]);
    doorbell(&["run", "iperf", "--set", "platform.nics=2"]).assert_failure(&["platform.nics"]);
    doorbell(&["run", "iperf", "--set", "link.latency=1ns"]).assert_failure(&["link.latency", "look-ahead"]);
    doorbell(&["run", "iperf", "--set", "drive.ipc=0"]).assert_failure(&["drive.ipc", "from 0.01 to 16"]);
    doorbell(&["run", "iperf", "--set", "iperf.seconds=61"])
        .assert_failure(&["iperf.seconds", "from 1 to 60"]);
    for (kind, options, why) in [
        ("iperf", "--trace --node server", "node0, node1"),
        ("iperf", "--node node1", "--trace"),
        ("testpmd", "--trace --node node0", "one machine"),
        ("iperf", "--drive node", "--drive"),
        ("ping", "--drive node", "drive.kind"),
        ("testpmd", "--drive node --frames 100", "run.frames"),
        ("testpmd", "--drive node --set loadgen.traffic.outstanding=4", "loadgen.traffic"),
        ("testpmd", "--drive node --frame-size 4096", "frame_size"),
        ("testpmd", "--drive node --set platform.nics=2", "platform.nics"),
        ("testpmd", "--drive cart", "generator"),
    ] {
        let words: Vec<&str> = ["run", kind].into_iter().chain(options.split(' ')).collect();
        doorbell(&words).assert_failure(&[why]);
    }
    doorbell(&["search", "testpmd", "--set", "drive.kind=node"])
        .assert_failure(&["drive.kind", "a search and a script have no drive node"]);
}
