//! Our forwarding programs on the host, without a NIC: over captures through DPDK's pcap ports, and over a
//! veth pair through its af_packet port.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use doorbell_acceptance::native::{EAL, build};
use doorbell_acceptance::scratch;

const FLAGS: &str = "-O2 -Wall -Wextra -Werror -fsanitize=address,undefined";

/// Frames of lengths from minimum to maximum, without FCS; all differ.
fn frames() -> Vec<Vec<u8>> {
    let frame = |length: usize| (0..length).map(|at| (at * 7 + length * 13 + at * at / 3) as u8).collect();
    (60..=1514).step_by(11).map(frame).collect()
}

fn swapped(frame: &[u8]) -> Vec<u8> {
    [&frame[6..12], &frame[..6], &frame[12..]].concat()
}

/// A capture in libpcap's file format (Ethernet, microseconds).
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = [0xA1B2_C3D4_u32, 0x0004_0002, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
    for frame in frames {
        let length = frame.len() as u32;
        file.extend([0, 0, length, length].map(u32::to_le_bytes).concat());
        file.extend(frame);
    }
    file
}

fn read_pcap(file: &[u8]) -> Vec<Vec<u8>> {
    let (head, mut rest) = file.split_at(24);
    // DPDK writes timestamps in nanoseconds, with another magic number.
    assert_eq!(head[..4], 0xA1B2_3C4D_u32.to_le_bytes(), "magic number of a pcap file in nanoseconds");
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[8..12].try_into().expect("four bytes")) as usize;
        frames.push(rest[16..16 + length].to_vec());
        rest = &rest[16 + length..];
    }
    frames
}

/// Runs a program on all frames; returns its output, the frames it sent, and the run time.
fn run(name: &str, own: &[&str], folder: &Path) -> (String, Vec<Vec<u8>>, Duration) {
    let (all, given, sent) = (frames(), folder.join("in.pcap"), folder.join("out.pcap"));
    fs::write(&given, pcap(&all)).expect("a scratch folder can be written");
    let ports = format!("--vdev=net_pcap0,rx_pcap={},tx_pcap={}", given.display(), sent.display());
    let mut command = Command::new(folder.join(name));
    command.env("ASAN_OPTIONS", "detect_leaks=0").args(EAL).arg(ports).arg("--");
    command.args(["--total-num-mbufs=1024", &format!("--frames={}", all.len())]).args(own);
    let begin = Instant::now();
    let text = succeeded(command.output().expect("the program starts"));
    (text, read_pcap(&fs::read(sent).expect("the port writes its capture")), begin.elapsed())
}

fn succeeded(output: Output) -> String {
    let texts = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{}", texts.concat());
    texts.concat()
}

/// The line that the programs print for the data they read: the sum over words of a size, with the rest added
/// by bytes.
fn sum(frames: &[Vec<u8>], word: usize) -> String {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    let mut sum = 0_u64;
    for frame in frames {
        let words = frame.chunks_exact(word);
        let rest = words.remainder().iter().map(|&byte| u64::from(byte));
        sum = words.map(number).chain(rest).fold(sum, u64::wrapping_add);
    }
    format!("sum of what was read: {sum:x}\n")
}

#[test]
fn programs_read_every_byte_and_return_every_frame() {
    let folder = scratch();
    for name in ["touchfwd", "touchdrop", "rxptx", "cores"] {
        build(name, FLAGS, folder.path());
    }
    let all = frames();
    let back: Vec<_> = all.iter().map(|frame| swapped(frame)).collect();
    let count = all.len();
    for (word, prefetch) in [(1, 0), (8, 1)] {
        let (load, prefetch) = (format!("--load-bytes={word}"), format!("--prefetch={prefetch}"));
        let (text, sent, _) = run("touchfwd", &[&load, &prefetch], folder.path());
        assert!(text.contains(&sum(&all, word)), "{text}");
        assert!(
            text.contains(&format!("received {count}, transmitted {count}, not transmitted 0")),
            "{text}"
        );
        assert_eq!(sent, back);
        let (text, sent, _) = run("touchdrop", &[&load, &prefetch], folder.path());
        assert!(text.contains(&sum(&all, word)) && text.contains("transmitted 0, "), "{text}");
        assert_eq!(sent.len(), 0);
    }
    // The work of rxptx is done once per burst.
    let (bursts, work) = (count.div_ceil(8) as u32, Duration::from_millis(3));
    let work_ns = format!("--work-ns={}", work.as_nanos());
    let (_, sent, took) = run("rxptx", &["--burst=8", &work_ns], folder.path());
    assert_eq!(sent, back);
    assert!(took >= work * bursts, "{took:?} for {bursts} bursts of {work:?}");
}

#[test]
fn frames_come_back_over_a_pair_of_ethernet_devices() {
    let folder = scratch();
    let program = build("touchfwd", FLAGS, folder.path());
    fs::write(folder.path().join("in.pcap"), pcap(&frames())).expect("a scratch folder can be written");
    // A network namespace, deleted when the program exits. Root can always create one, others only if the
    // host allows it; otherwise tests/short leaves this test out.
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/acceptance/over_veth.py");
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "/usr/bin/python3"]).arg(script);
    command.arg(folder.path().join("in.pcap")).arg(program).args(EAL);
    command.args(["--vdev=net_af_packet0,iface=near", "--", "--total-num-mbufs=1024"]);
    let text = succeeded(command.env("ASAN_OPTIONS", "detect_leaks=0").output().expect("unshare starts"));
    assert!(text.contains(&format!("{} frames returned correctly", frames().len())), "{text}");
}
