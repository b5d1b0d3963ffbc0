//! Suricata monitors the load generator's traffic: alerts match the traffic, and every frame is decoded or
//! has a drop cause. Only in the long run, as it boots its own image.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use doorbell_acceptance::{doorbell, scratch};
use doorbell_sim::{Frame, Ps};
use doorbell_wire::checksum::Sum;
use doorbell_wire::pcap::WHOLE_FRAMES;
use doorbell_wire::{PcapFile, tcp};
use etherparse::{EtherType, Ethernet2Header, IpNumber, Ipv4Header};
use serde_json::Value;

/// Runs `suricata` into a folder; returns its summary.
fn suricata(out: &Path, options: &[&str]) -> Value {
    let common = [
        "run",
        "suricata",
        "--preset",
        "fast",
        "--json",
        "-q",
        "--out",
        out.to_str().expect("a path in UTF-8"),
    ];
    let words: Vec<&str> = common.iter().chain(options).copied().collect();
    serde_json::from_str(&doorbell(&words).success()).expect("the summary is JSON and nothing else")
}

/// A figure of the point's port.
fn figure(point: &Value, name: &str) -> u64 {
    let groups = point["ports"][0]["groups"].as_array().expect("a port's figures");
    let mut figures = groups.iter().flat_map(|group| group["figures"].as_array().expect("a group's figures"));
    let found = figures.find(|figure| figure["name"] == name).unwrap_or_else(|| panic!("no figure {name}"));
    found["value"].as_u64().expect("a count")
}

fn stream<'a>(point: &'a Value, name: &str) -> &'a Value {
    let streams = point["streams"].as_array().expect("streams have figures");
    streams.iter().find(|stream| stream["name"] == name).expect("the stream exists")
}

fn count(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("no count {key}"))
}

/// Asserts that the offered frames are those dropped by the NIC, those dropped by the kernel because
/// Suricata's ring was full, and those decoded by Suricata.
fn assert_conservation(point: &Value) {
    let drops = &point["drops"];
    let at_nic: u64 =
        ["dma", "core", "tx", "nic_other", "link"].iter().map(|cause| count(drops, cause)).sum();
    let (decoded, dropped) = (figure(point, "decoder.pkts"), figure(point, "capture.kernel_drops"));
    assert_eq!(count(point, "frames_offered"), at_nic + dropped + decoded, "{point}");
    assert_eq!((count(point, "frames_delivered"), count(drops, "guest")), (decoded, dropped), "{point}");
    assert_eq!(figure(point, "capture.kernel_packets"), decoded + dropped);
}

/// Traffic with two streams that match rules of the image: by payload (port 7777) and by port only (7778).
/// The latter alerts once per flow, and each frame starts a flow. No rule matches the other streams.
const MIX: &str = r#"
[[streams]]
name = "found"
rate = "7kpps"
arrivals = "poisson"
destination_port = 7777
[[streams]]
name = "named"
rate = "3kpps"
size = "512B"
destination_port = 7778
sweeps = [{ field = "source-port", count = 10000 }]
[[streams]]
name = "other"
rate = "9kpps"
size = ["64B", "1518B"]
sweeps = [{ field = "source-port", count = 50 }]
[[streams]]
name = "segments"
rate = "1kpps"
transport = "tcp"
size = "1518B"
destination_port = 7778
"#;

#[test]
#[ignore = "long: make test-long runs it"]
fn suricata_alerts_on_every_matching_frame_and_no_other() {
    let folder = scratch();
    let file = folder.path().join("mix.toml");
    fs::write(&file, MIX).unwrap();
    let run = |name: &str, set: &[&str]| {
        let options = ["--traffic", file.to_str().unwrap(), "--warmup", "5ms", "--duration", "100ms"];
        suricata(&folder.path().join(name), &[&options[..], set].concat())
    };
    for (name, set) in [
        ("workers", &[][..]),
        ("single", &["--set", "suricata.runmode=single", "--set", "suricata.tpacket_v3=false"]),
        ("autofp", &["--set", "suricata.runmode=autofp", "--set", "suricata.checksums=yes"]),
        ("more", &["--set", "suricata.rules=100", "--set", "nic.model=82576"]),
    ] {
        let point = run(name, set);
        assert_conservation(&point);
        assert_eq!(count(&point, "frames_delivered"), count(&point, "frames_offered"), "no frame is lost");
        let [found, named] = ["found", "named"].map(|name| count(stream(&point, name), "frames_offered"));
        assert!(found > 600 && named > 250, "{found} {named}");
        assert_eq!(figure(&point, "detect.alert"), found + named, "{name}");
        assert_eq!(figure(&point, "decoder.tcp"), count(stream(&point, "segments"), "frames_offered"));
        assert_eq!(figure(&point, "decoder.invalid"), 0);
    }
    let without = run("without", &["--set", "suricata.rules=0"]);
    assert_conservation(&without);
    assert_eq!(figure(&without, "detect.alert"), 0);
}

/// An Ethernet frame with a TCP segment or UDP datagram. Datagrams have no checksum (zero).
fn frame(from_client: bool, protocol: IpNumber, [client, server]: [u16; 2], rest: &[u8]) -> Frame {
    let (mut addresses, mut ports) =
        ([Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(10, 2, 0, 2)], [client, server]);
    if !from_client {
        addresses.reverse();
        ports.reverse();
    }
    let mut transport = [&ports.map(u16::to_be_bytes).concat()[..], rest].concat();
    let ([source, destination], payload_len) = (addresses, transport.len() as u16);
    if protocol == IpNumber::TCP {
        let sum = Sum::new().plus_ipv4_pseudo_header(source, destination, protocol.0, payload_len);
        let sum = sum.plus(&transport).finish();
        transport[tcp::CHECKSUM_AT..][..2].copy_from_slice(&sum.to_be_bytes());
    }
    let [source, destination] = [source.octets(), destination.octets()];
    let mut ip = Ipv4Header::new(payload_len, 64, protocol, source, destination).unwrap();
    ip.header_checksum = ip.calc_header_checksum();
    let [source, destination] = [1, 2].map(|last| [2, 0, 0, 0, 1, last]);
    let ethernet = Ethernet2Header { source, destination, ether_type: EtherType::IPV4 };
    let mut bytes = [&ethernet.to_bytes()[..], &ip.to_bytes()].concat();
    bytes.extend(transport);
    bytes.resize(bytes.len().max(Frame::MIN_BYTES_WITH_FCS - Frame::FCS_BYTES), 0);
    Frame::new(bytes)
}

/// A TCP segment after its port numbers: sequence numbers, flags, window, zero checksum and payload.
fn segment(sequence: u32, acknowledged: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let numbers = [sequence.to_be_bytes(), acknowledged.to_be_bytes()].concat();
    [&numbers[..], &[0x50, flags, 0xff, 0xff, 0, 0, 0, 0], payload].concat()
}

fn datagram(payload: &[u8]) -> Vec<u8> {
    [&(8 + payload.len() as u16).to_be_bytes()[..], &[0, 0], payload].concat()
}

/// Writes a capture of 30 connections, every third of which requests a shell, and 40 datagrams, half of them
/// with a command that matches a rule.
fn write_capture(path: &Path) -> u64 {
    let mut file = PcapFile::create(path, WHOLE_FRAMES).unwrap();
    let mut at = Ps::ZERO;
    let mut put = |from_client, protocol, ports, rest: &[u8]| {
        at += Ps::from_us(50);
        file.record(at, &frame(from_client, protocol, ports, rest));
    };
    const SYN: u8 = 0x02;
    const ACK: u8 = 0x10;
    const FIN: u8 = ACK | 0x01;
    const PUSH: u8 = ACK | 0x08;
    for n in 0..30 {
        let ports = [30_000 + n, 4_000];
        let request: &[u8] =
            if n % 3 == 0 { b"please run /bin/sh for me\n" } else { b"please run something else\n" };
        let end = 101 + request.len() as u32;
        for (from_client, rest) in [
            (true, segment(100, 0, SYN, b"")),
            (false, segment(500, 101, SYN | ACK, b"")),
            (true, segment(101, 501, ACK, b"")),
            (true, segment(101, 501, PUSH, request)),
            (false, segment(501, end, PUSH, b"no\n")),
            (true, segment(end, 504, FIN, b"")),
            (false, segment(504, end + 1, FIN, b"")),
            (true, segment(end + 1, 505, ACK, b"")),
        ] {
            put(from_client, IpNumber::TCP, ports, &rest);
        }
    }
    for n in 0..40 {
        let text: &[u8] =
            if n % 2 == 0 { b"start PowerShell, and soon" } else { b"start anything but that one" };
        put(true, IpNumber::UDP, [40_000 + n, 514], &datagram(text));
    }
    file.finish().unwrap()
}

#[test]
#[ignore = "long: make test-long runs it"]
fn suricata_tracks_the_connections_of_a_replayed_capture() {
    let folder = scratch();
    let capture = folder.path().join("watched.pcap");
    let packets = write_capture(&capture);
    let file = folder.path().join("replay.toml");
    fs::write(
        &file,
        format!("[[streams]]\nname = \"copy\"\ncapture = {:?}\n", capture.display().to_string()),
    )
    .unwrap();
    // The first packet is sent after the start of the measurement.
    let options = ["--warmup", "0ns", "--duration", "30ms", "--set", "loadgen.traffic.start_after=1us"];
    let point = suricata(
        &folder.path().join("out"),
        &[&["--traffic", file.to_str().unwrap()], &options[..]].concat(),
    );
    assert_conservation(&point);
    assert_eq!((count(&point, "frames_offered"), count(&point, "frames_delivered")), (packets, packets));
    assert_eq!((figure(&point, "tcp.sessions"), figure(&point, "decoder.udp")), (30, 40));
    assert_eq!(figure(&point, "detect.alert"), 10 + 20, "{point}");
}

#[test]
#[ignore = "long: make test-long runs it"]
fn drops_under_overload_have_causes_and_are_reproducible() {
    let folder = scratch();
    let run = |name: &str, (rate, size): (&str, &str)| {
        let load = ["--rate", rate, "--frame-size", size, "--warmup", "20ms", "--duration", "40ms"];
        suricata(&folder.path().join(name), &[&load[..], &["--set", "suricata.ring=256"]].concat())
    };
    // First more payload than Suricata can search, then more frames than the kernel can receive.
    for (load, guest) in [(("200kpps", "1518"), true), (("1200kpps", "64"), false)] {
        let point = run(load.0, load);
        assert_conservation(&point);
        assert_eq!(count(&point["drops"], "guest") > 1000, guest, "{point}");
        assert!(count(&point, "frames_offered") > count(&point, "frames_delivered") + 1000, "{point}");
        let again = run("again", load);
        for key in ["state_hash", "frames_delivered", "arrived_mpps", "ports"] {
            assert_eq!(point[key], again[key], "{key}");
        }
    }
}
