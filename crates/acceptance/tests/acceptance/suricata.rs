//! suricata watches what the load generator sends: alerts are those that the traffic holds, and every frame is seen or lost under a name. Left to
//! the long run, as it boots an image of its own.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use doorbell_acceptance::{doorbell, scratch};
use doorbell_sim::{Frame, Ps};
use doorbell_wire::checksum::Sum;
use doorbell_wire::pcap::WHOLE_FRAMES;
use doorbell_wire::{EtherType, EthernetRepr, Ipv4Repr, MacAddr, PcapFile, TcpRepr};
use serde_json::Value;

/// A run into a folder; its summary.
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
    let found = figures.find(|figure| figure["name"] == name).unwrap_or_else(|| panic!("{name} is told"));
    found["value"].as_u64().expect("a count")
}

fn stream<'a>(point: &'a Value, name: &str) -> &'a Value {
    let streams = point["streams"].as_array().expect("streams have figures");
    streams.iter().find(|stream| stream["name"] == name).expect("it is one of the streams")
}

fn count(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key} is a count"))
}

/// Offered are frames that the NIC dropped, that the kernel dropped for want of room in suricata's ring, and that suricata has seen.
fn assert_balanced(point: &Value) {
    let drops = &point["drops"];
    let at_nic: u64 =
        ["dma", "core", "tx", "nic_other", "link"].iter().map(|cause| count(drops, cause)).sum();
    let (seen, lost) = (figure(point, "decoder.pkts"), figure(point, "capture.kernel_drops"));
    assert_eq!(count(point, "frames_offered"), at_nic + lost + seen, "{point}");
    assert_eq!((count(point, "frames_delivered"), count(drops, "guest")), (seen, lost), "{point}");
    assert_eq!(figure(point, "capture.kernel_packets"), seen + lost);
}

/// Two streams that rules of the image name, by what is in them (7777) and by their port alone (7778), which suricata tells once a flow: each frame
/// begins one. The others are named by none.
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
fn suricata_alerts_for_each_frame_that_a_rule_names_and_for_no_other() {
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
        assert_balanced(&point);
        assert_eq!(count(&point, "frames_delivered"), count(&point, "frames_offered"), "nothing is lost");
        let [found, named] = ["found", "named"].map(|name| count(stream(&point, name), "frames_offered"));
        assert!(found > 600 && named > 250, "{found} {named}");
        assert_eq!(figure(&point, "detect.alert"), found + named, "{name}");
        assert_eq!(figure(&point, "decoder.tcp"), count(stream(&point, "segments"), "frames_offered"));
        assert_eq!(figure(&point, "decoder.invalid"), 0);
    }
    let without = run("without", &["--set", "suricata.rules=0"]);
    assert_balanced(&without);
    assert_eq!(figure(&without, "detect.alert"), 0);
}

/// A segment or datagram in an Ethernet frame. Of datagrams a checksum of zero means that there is none.
fn frame(from_client: bool, protocol: u8, [client, server]: [u16; 2], rest: &[u8]) -> Frame {
    let (mut addresses, mut ports) =
        ([Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(10, 2, 0, 2)], [client, server]);
    if !from_client {
        addresses.reverse();
        ports.reverse();
    }
    let mut transport = [&ports.map(u16::to_be_bytes).concat()[..], rest].concat();
    let ([source, destination], payload_len) = (addresses, transport.len() as u16);
    if protocol == TcpRepr::PROTOCOL {
        let sum = Sum::new().plus_ipv4_pseudo_header(source, destination, protocol, payload_len);
        let sum = sum.plus(&transport).finish();
        transport[TcpRepr::CHECKSUM_AT..][..2].copy_from_slice(&sum.to_be_bytes());
    }
    let [source_mac, destination_mac] = [1, 2].map(|last| MacAddr([2, 0, 0, 0, 1, last]));
    let ethernet = EthernetRepr {
        destination: destination_mac,
        source: source_mac,
        tag: None,
        ethertype: EtherType::IPV4,
    };
    let ip = Ipv4Repr { source, destination, protocol, ttl: 64, dscp: 0, payload_len };
    let at = ethernet.header_len();
    let mut bytes = vec![0; at + Ipv4Repr::HEADER_BYTES];
    ethernet.emit(&mut bytes).unwrap();
    ip.emit(&mut bytes[at..]).unwrap();
    bytes.extend(transport);
    bytes.resize(bytes.len().max(Frame::MIN_BYTES_WITH_FCS - Frame::FCS_BYTES), 0);
    Frame::new(bytes)
}

/// A segment's rest behind its ports: numbers, flags, a window, no checksum, and its payload.
fn segment(sequence: u32, acknowledged: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let numbers = [sequence.to_be_bytes(), acknowledged.to_be_bytes()].concat();
    [&numbers[..], &[0x50, flags, 0xff, 0xff, 0, 0, 0, 0], payload].concat()
}

fn datagram(payload: &[u8]) -> Vec<u8> {
    [&(8 + payload.len() as u16).to_be_bytes()[..], &[0, 0], payload].concat()
}

/// 30 connections, in every third of which a shell is asked for, and 40 datagrams, half of them with a command.
fn write_capture(path: &Path) -> u64 {
    let mut file = PcapFile::create(path, WHOLE_FRAMES).unwrap();
    let mut at = Ps::ZERO;
    let mut put = |from_client, protocol, ports, rest: &[u8]| {
        at += Ps::from_us(50);
        file.record(at, &frame(from_client, protocol, ports, rest));
    };
    const SYN: u8 = TcpRepr::SYN;
    const ACK: u8 = TcpRepr::ACK;
    const FIN: u8 = ACK | 0x01;
    const PUSH: u8 = ACK | 0x08;
    for n in 0..30 {
        let ports = [30_000 + n, 4_000];
        let asked: &[u8] =
            if n % 3 == 0 { b"please run /bin/sh for me\n" } else { b"please run something else\n" };
        let end = 101 + asked.len() as u32;
        for (from_client, rest) in [
            (true, segment(100, 0, SYN, b"")),
            (false, segment(500, 101, SYN | ACK, b"")),
            (true, segment(101, 501, ACK, b"")),
            (true, segment(101, 501, PUSH, asked)),
            (false, segment(501, end, PUSH, b"no\n")),
            (true, segment(end, 504, FIN, b"")),
            (false, segment(504, end + 1, FIN, b"")),
            (true, segment(end + 1, 505, ACK, b"")),
        ] {
            put(from_client, TcpRepr::PROTOCOL, ports, &rest);
        }
    }
    for n in 0..40 {
        let said: &[u8] =
            if n % 2 == 0 { b"start PowerShell, and soon" } else { b"start anything but that one" };
        put(true, Ipv4Repr::UDP, [40_000 + n, 514], &datagram(said));
    }
    file.finish().unwrap()
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_capture_that_is_replayed_is_watched_connection_by_connection() {
    let folder = scratch();
    let capture = folder.path().join("watched.pcap");
    let packets = write_capture(&capture);
    let file = folder.path().join("replay.toml");
    fs::write(
        &file,
        format!("[[streams]]\nname = \"copy\"\ncapture = {:?}\n", capture.display().to_string()),
    )
    .unwrap();
    // The first packet leaves when the measurement has begun.
    let options = ["--warmup", "0ns", "--duration", "30ms", "--set", "loadgen.traffic.start_after=1us"];
    let point = suricata(
        &folder.path().join("out"),
        &[&["--traffic", file.to_str().unwrap()], &options[..]].concat(),
    );
    assert_balanced(&point);
    assert_eq!((count(&point, "frames_offered"), count(&point, "frames_delivered")), (packets, packets));
    assert_eq!((figure(&point, "tcp.sessions"), figure(&point, "decoder.udp")), (30, 40));
    assert_eq!(figure(&point, "detect.alert"), 10 + 20, "{point}");
}

#[test]
#[ignore = "long: make test-long runs it"]
fn what_is_too_much_is_lost_under_a_name_and_the_same_way_each_time() {
    let folder = scratch();
    let run = |name: &str, (rate, size): (&str, &str)| {
        let load = ["--rate", rate, "--frame-size", size, "--warmup", "20ms", "--duration", "40ms"];
        suricata(&folder.path().join(name), &[&load[..], &["--set", "suricata.ring=256"]].concat())
    };
    // More payload than suricata can search, and more frames than the kernel can hand to anybody.
    for (load, guest) in [(("200kpps", "1518"), true), (("1200kpps", "64"), false)] {
        let point = run(load.0, load);
        assert_balanced(&point);
        assert_eq!(count(&point["drops"], "guest") > 1000, guest, "{point}");
        assert!(count(&point, "frames_offered") > count(&point, "frames_delivered") + 1000, "{point}");
        let again = run("again", load);
        for key in ["state_hash", "frames_delivered", "arrived_mpps", "ports"] {
            assert_eq!(point[key], again[key], "{key}");
        }
    }
}
