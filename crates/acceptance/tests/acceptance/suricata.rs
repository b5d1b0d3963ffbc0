//! suricata watches what the load generator sends: alerts are those that the traffic holds, and every frame is seen or lost under a name. Left to
//! the long run, as it boots an image of its own.

use std::fs;
use std::path::Path;

use doorbell_acceptance::{doorbell, left_to_the_long_run, scratch};
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
fn suricata_alerts_for_each_frame_that_a_rule_names_and_for_no_other() {
    if left_to_the_long_run() {
        return;
    }
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

/// RFC 1071's sum over 16-bit words.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let sum: u32 = bytes.chunks(2).map(word).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    (!(folded + (folded >> 16)) as u16).to_be_bytes()
}

/// A segment or datagram in an Ethernet frame, in a record of a capture. Of datagrams a checksum of zero means that there is none.
fn record(at_us: u32, from_client: bool, protocol: u8, [client, server]: [u16; 2], rest: &[u8]) -> Vec<u8> {
    let (mut addresses, mut ports) = ([[10, 1, 0, 1], [10, 2, 0, 2]], [client, server]);
    if !from_client {
        addresses.reverse();
        ports.reverse();
    }
    let mut transport = [&ports.map(u16::to_be_bytes).concat()[..], rest].concat();
    let bytes = transport.len() as u16;
    if protocol == 6 {
        let pseudo = [&addresses.concat()[..], &[0, 6], &bytes.to_be_bytes(), &transport].concat();
        transport[16..18].copy_from_slice(&checksum(&pseudo));
    }
    let length = (20 + bytes).to_be_bytes();
    let mut header =
        [&[0x45, 0, length[0], length[1], 0, 0, 0x40, 0, 64, protocol, 0, 0][..], &addresses.concat()]
            .concat();
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum);
    let ethernet = [2, 0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 1, 8, 0];
    let mut frame = [&ethernet[..], &header, &transport].concat();
    frame.resize(frame.len().max(60), 0);
    let words = [at_us / 1_000_000, at_us % 1_000_000, frame.len() as u32, frame.len() as u32];
    [&words.map(u32::to_le_bytes).concat()[..], &frame].concat()
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
    let mut file: Vec<u8> = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
    let (mut at, mut packets) = (0, 0);
    let mut put = |from_client, protocol, ports, rest: &[u8]| {
        at += 50;
        packets += 1;
        file.extend(record(at, from_client, protocol, ports, rest));
    };
    const FIN: u8 = 0x11;
    const SYN: u8 = 2;
    const ACK: u8 = 0x10;
    const PUSH: u8 = 0x18;
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
            put(from_client, 6, ports, &rest);
        }
    }
    for n in 0..40 {
        let said: &[u8] =
            if n % 2 == 0 { b"start PowerShell, and soon" } else { b"start anything but that one" };
        put(true, 17, [40_000 + n, 514], &datagram(said));
    }
    fs::write(path, file).unwrap();
    packets
}

#[test]
fn a_capture_that_is_replayed_is_watched_connection_by_connection() {
    if left_to_the_long_run() {
        return;
    }
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
fn what_is_too_much_is_lost_under_a_name_and_the_same_way_each_time() {
    if left_to_the_long_run() {
        return;
    }
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
