//! Two nodes on one cable: what one sends the other gets, byte for byte, also when frames are lost on the way; the course
//! of things does not depend on where a run is stopped; and iperf3 measures between them. Needs tshark.

#![forbid(unsafe_code)]

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use doorbell_acceptance::{doorbell, places, scratch};
use doorbell_bench::{read_guest, resolve};
use doorbell_image::{GuestFile, overlay};
use doorbell_machine::{Guest, Limits, Outcome, Pair, PairCheckpoint, PairOutcome};
use doorbell_sim::Ps;
use doorbell_wire::PcapFile;
use doorbell_wire::pcap::WHOLE_FRAMES;

/// Of simulated time, nearly all of it idle.
const PATIENCE: Ps = Ps(600 * Ps::PER_SECOND);
/// What is sent, in bytes: not a multiple of a segment or a page.
const FILE_BYTES: u64 = 4_000_001;

/// Node 0 makes a file of random bytes and serves it. `busybox httpd` takes its own copy of the standard streams.
const SERVER: &str = "\
head -c 4000001 /dev/urandom > /srv/file
echo \"sent $(sha256sum < /srv/file)\"
ethtool -K eth0 rx on
ethtool -k eth0 | grep -E '^(tcp-segmentation-offload|tx-checksumming|rx-checksumming):'
busybox httpd -f -p 80 -h /srv
";

/// Node 1 fetches it when it is told to.
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
    guest.initramfs.extend(overlay(&[ours]).expect("a script can be laid over an image"));
    guest
}

fn built(overrides: &[&str]) -> Pair {
    let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    let config = resolve("fast", &overrides).expect("the check's configuration is right");
    Pair::new(&config.machine(), config.run.seed).expect("two nodes can be built")
}

const GUESTS: [&str; 2] = ["server", "client"];

/// Both nodes ready, booted once for all checks, and what the server's console had shown by then.
fn ready() -> &'static (PairCheckpoint, String) {
    static READY: OnceLock<(PairCheckpoint, String)> = OnceLock::new();
    READY.get_or_init(|| {
        let mut pair = built(&[]);
        pair.load([&guest(SERVER, "10.0.0.2/24"), &guest(CLIENT, "10.0.0.3/24")]).expect("the guests fit");
        make_ready(&mut pair);
        (pair.checkpoint(GUESTS, "ready"), pair.nodes()[0].console.text())
    })
}

/// Both nodes taken up where they were ready, under these overrides, which no guest can see.
fn restored(overrides: &[&str], checkpoint: &PairCheckpoint) -> Pair {
    let mut pair = built(overrides);
    pair.restore(checkpoint, GUESTS).expect("the checkpoint fits");
    pair
}

fn consoles(pair: &Pair) -> String {
    let [server, client] = pair.nodes().each_ref().map(|node| node.console.last_lines(20));
    format!("server:\n{server}\nclient:\n{client}")
}

/// Runs until both nodes are ready, the server's listening included: it comes right after its last line.
fn make_ready(pair: &mut Pair) {
    pair.node_mut(0).console.watch(Some("rx-checksumming"));
    pair.node_mut(1).console.watch(Some("client: waiting"));
    let on_marker = Limits { on_marker: true, ..Limits::until(PATIENCE) };
    for _ in 0..2 {
        let outcome = pair.run(&on_marker);
        assert!(
            matches!(outcome, PairOutcome::Node { outcome: Outcome::Marker, .. }),
            "{outcome:?}\n{}",
            consoles(pair)
        );
    }
    let listening = pair.now() + Ps::from_ms(200);
    assert_eq!(pair.run(&Limits::until(listening)), PairOutcome::Time, "{}", consoles(pair));
}

const CLIENT_OFF: PairOutcome = PairOutcome::Node { node: 1, outcome: Outcome::PowerOff { code: 0 } };

/// Lets the client fetch the file, to its power-off.
fn fetch(pair: &mut Pair) {
    pair.node_mut(1).type_input(b"go\n");
    let outcome = pair.run(&Limits::until(PATIENCE));
    assert_eq!(outcome, CLIENT_OFF, "{}", consoles(pair));
    pair.check_conservation();
}

/// The hash that a console shows behind this word.
fn hash<'a>(console: &'a str, word: &str) -> &'a str {
    let at = console.find(&format!("\n{word} ")).unwrap_or_else(|| panic!("no \"{word}\":\n{console}"));
    let hash = &console[at + word.len() + 2..][..64];
    assert!(hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
    hash
}

/// Boots, transfers, compares both ends, and checks all that crossed the cable. Returns the nodes and how many TCP
/// segments tshark saw sent again.
fn transfer(overrides: &[&str]) -> (Pair, u64) {
    let folder = scratch();
    let pcap = folder.path().join("wire.pcap");
    let (checkpoint, server) = ready();
    let mut pair = restored(overrides, checkpoint);
    let before = pair.stats().delivered;
    pair.capture(PcapFile::create(&pcap, WHOLE_FRAMES).expect("a capture can be made"));
    fetch(&mut pair);
    let client = pair.nodes()[1].console.text();
    assert_eq!(hash(server, "sent"), hash(&client, "got"));
    for on in ["tcp-segmentation-offload: on", "tx-checksumming: on", "rx-checksumming: on"] {
        assert!(server.contains(on), "{server}");
    }
    let nic = pair.nodes()[0].ports()[0].nic.stats();
    // A file of so many bytes has so many segments; most of them the NIC has cut.
    assert!(nic.tx_segments > FILE_BYTES / 1460 / 2, "{nic:?}");
    let captured = pair.finish_capture().expect("the capture is whole").expect("there is one");
    let delivered = pair.stats().delivered + pair.stats().unreceived - before;
    assert!((delivered..=delivered + 2).contains(&captured), "{captured} captured, {delivered} delivered");
    (pair, look_with_tshark(&pcap, captured))
}

/// Every checksum is right as tshark computes it, times never go back, and so many segments were sent again.
fn look_with_tshark(pcap: &Path, captured: u64) -> u64 {
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
    let (mut frames, mut tcp, mut again) = (0, 0, 0);
    for line in text.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        let [delta, length, ip_sum, tcp_sum, retransmission, malformed] = fields[..] else {
            panic!("frame {frames}: not as many fields as asked for: {line}");
        };
        frames += 1;
        assert!(!delta.starts_with('-'), "frame {frames} goes back in time: {line}");
        assert!((60..=1514).contains(&length.parse::<u32>().expect("a number")), "frame {frames}: {line}");
        for sum in [ip_sum, tcp_sum] {
            assert!(sum.is_empty() || sum == "1", "frame {frames} has a wrong checksum: {line}");
        }
        assert!(malformed.is_empty(), "frame {frames} is malformed: {line}");
        tcp += u64::from(tcp_sum == "1");
        again += u64::from(!retransmission.is_empty());
    }
    assert_eq!(frames, captured);
    assert!(tcp > FILE_BYTES / 1460, "{tcp} TCP segments");
    again
}

#[test]
fn a_file_goes_from_node_to_node_through_segmentation_and_checksum_offload_unharmed() {
    let (pair, again) = transfer(&[]);
    assert_eq!(again, 0, "nothing is lost on this cable");
    let lost: u64 = pair.nodes().iter().map(|node| node.ports()[0].link_out.stats().lost).sum();
    assert_eq!(lost, 0);
}

#[test]
fn a_file_arrives_unharmed_although_frames_are_lost_on_the_way() {
    let (pair, again) = transfer(&["link.frame_loss=0.01"]);
    let lost: u64 = pair.nodes().iter().map(|node| node.ports()[0].link_out.stats().lost).sum();
    assert!(lost > 10 && again > 10, "{lost} lost, {again} sent again");
}

#[test]
fn it_does_not_matter_where_a_run_is_stopped_saved_and_gone_on_with() {
    let (checkpoint, _) = ready();
    // Frames are lost, so that retransmissions and their timers are on their way too.
    let overrides = &["link.frame_loss=0.01", "link.latency=3us"];
    let later = |pair: &mut Pair| {
        let off_at = pair.nodes()[1].now();
        assert_eq!(pair.run(&Limits::until(off_at + Ps::from_ms(5))), PairOutcome::Time);
        (off_at, pair.instructions(), pair.state_hash())
    };
    let mut straight = restored(overrides, checkpoint);
    fetch(&mut straight);
    let expected = later(&mut straight);
    drop(straight);

    let mut first = restored(overrides, checkpoint);
    first.node_mut(1).type_input(b"go\n");
    let middle = first.now() + Ps(7_300_000_001);
    assert_eq!(first.run(&Limits::until(middle)), PairOutcome::Time);
    let frames = first.stats().delivered;
    assert!(frames > 100, "in the middle of the transfer: {frames}");
    let saved = PairCheckpoint::from_bytes(first.checkpoint(GUESTS, "middle").bytes().to_vec());
    drop(first);
    let mut second = restored(overrides, &saved.expect("it is whole"));
    let mut outcome = PairOutcome::Time;
    while outcome == PairOutcome::Time {
        let slice = second.now() + Ps(1_777_777_777);
        outcome = second.run(&Limits::until(slice));
    }
    assert_eq!(outcome, CLIENT_OFF, "{}", consoles(&second));
    assert_eq!(later(&mut second), expected);
}

#[test]
fn a_damaged_checkpoint_of_two_nodes_is_refused() {
    let (checkpoint, _) = ready();
    let whole = checkpoint.bytes();
    for wrong in [&whole[..10], &whole[..whole.len() - 1], b"something else"] {
        assert!(PairCheckpoint::from_bytes(wrong.to_vec()).is_err());
    }
    let mut damaged = whole.to_vec();
    damaged[whole.len() / 2] ^= 1;
    assert!(PairCheckpoint::from_bytes(damaged).is_err());
    let other = built(&["platform.ram=512MiB"]).restore(checkpoint, GUESTS);
    assert!(other.unwrap_err().to_string().contains("another machine"));
}

#[test]
fn iperf3_measures_between_the_nodes_and_the_same_twice() {
    let folder = scratch();
    // A slow core: a second of it is soon simulated.
    let run = |name: &str| -> serde_json::Value {
        let out = folder.path().join(name);
        let slow = ["--set", "core.frequency=300MHz", "--out", out.to_str().unwrap(), "--json", "-q"];
        let printed = doorbell(&[&["run", "iperf"], &slow[..]].concat()).success();
        serde_json::from_str(&printed).expect("the summary is JSON and nothing else")
    };
    let first = run("one");
    let number = |name: &str| first[name].as_f64().unwrap_or_else(|| panic!("no {name}: {first}"));
    let (goodput, seconds) = (number("goodput_gbps"), number("seconds"));
    assert!((0.9..1.2).contains(&seconds) && (0.02..10.0).contains(&goodput), "{first}");
    assert!((goodput - number("bytes_received") * 8e-9 / seconds).abs() < 1e-6, "{first}");
    // What iperf3 says it sent went over the cable, and acknowledgements came back.
    let wire = |direction: &str, what: &str| first[direction][what].as_f64().expect("a number");
    assert!(wire("wire_to_server", "bytes") > number("bytes_received"));
    assert!(wire("wire_to_server", "bytes") < 1.1 * number("bytes_sent") + 100_000.0, "{first}");
    assert!(wire("wire_to_client", "frames") > 10.0);
    let second = run("two");
    assert_eq!(first["state_hash"], second["state_hash"]);
    doorbell(&["run", "iperf", "--rate", "1Gbps"]).refused_with(&["--rate", "iperf.rate"]);
    doorbell(&["run", "iperf", "--set", "platform.nics=2"]).refused_with(&["platform.nics"]);
    doorbell(&["run", "iperf", "--set", "link.latency=1ns"]).refused_with(&["link.latency", "look-ahead"]);
}
