//! Frames return byte for byte, checked by other programs on the capture: scapy compares all frames, tshark
//! dissects a sample.

use std::path::Path;
use std::process::Command;

use doorbell_acceptance::{doorbell, dropped, repository, scratch, shared_checkpoint, short_or_long};
use serde_json::Value;

/// A load below the guest's capacity.
struct Load {
    mode: &'static str,
    frame_size: u32,
    rate_hz: u64,
    frames: u64,
}

/// Number of frames that tshark dissects.
const SAMPLE: &str = "4000";

#[test]
fn testpmd_returns_every_64_byte_frame_with_swapped_macs() {
    check(&Load {
        mode: "macswap",
        frame_size: 64,
        rate_hz: 8_000_000,
        frames: short_or_long(20_000, 1_000_000),
    });
}

#[test]
fn testpmd_returns_every_1518_byte_frame_with_swapped_macs() {
    check(&Load {
        mode: "macswap",
        frame_size: 1518,
        rate_hz: 3_000_000,
        frames: short_or_long(3_000, 100_000),
    });
}

#[test]
#[ignore = "long: make test-long runs it"]
fn testpmd_in_io_mode_returns_every_frame_unchanged() {
    check(&Load { mode: "io", frame_size: 64, rate_hz: 8_000_000, frames: 1_000_000 });
    check(&Load { mode: "io", frame_size: 1518, rate_hz: 3_000_000, frames: 100_000 });
}

#[test]
fn the_checker_detects_a_changed_byte_a_lost_frame_and_a_wrong_mode() {
    let folder = scratch();
    let load = Load { mode: "macswap", frame_size: 64, rate_hz: 1_000_000, frames: 500 };
    let capture = run(&load, folder.path());
    let whole = std::fs::read(&capture).unwrap();
    // Each frame in a pcap has a 16-byte record header. The last frame of a drained run is a returned one.
    let record = 16 + 60;
    let altered = folder.path().join("altered.pcap");
    let mut changed = whole.clone();
    *changed.last_mut().unwrap() ^= 1;
    for (bytes, mode, complaint) in [
        (changed, "macswap", "neither one sent nor one expected back"),
        (whole[..whole.len() - record].to_vec(), "macswap", "did not come back (1 times)"),
        (whole, "io", "neither one sent nor one expected back"),
    ] {
        std::fs::write(&altered, bytes).unwrap();
        let error = scapy(&altered, &Load { mode, ..load }).unwrap_err();
        assert!(error.contains(complaint), "{error}");
    }
}

fn check(load: &Load) {
    let folder = scratch();
    let capture = run(load, folder.path());
    let figures = scapy(&capture, load).unwrap_or_else(|error| panic!("scapy reports: {error}"));
    let (sent, returned) = figures.trim().strip_prefix("sent ").unwrap().split_once(" returned ").unwrap();
    assert_eq!(sent, returned);
    tshark(&capture);
}

/// Runs the load and returns the capture.
fn run(load: &Load, folder: &Path) -> std::path::PathBuf {
    let guest = match load.mode {
        "macswap" => vec![],
        mode => vec![format!("testpmd.mode={mode}")],
    };
    let checkpoint = shared_checkpoint(&guest.iter().map(String::as_str).collect::<Vec<_>>());
    let mut arguments: Vec<String> =
        ["run", "testpmd", "--json", "--quiet", "--pcap", "--warmup", "1ms", "--arrivals", "constant"]
            .map(Into::into)
            .into();
    for (option, value) in [
        ("--rate", format!("{}pps", load.rate_hz)),
        ("--frame-size", load.frame_size.to_string()),
        ("--frames", load.frames.to_string()),
        ("--out", folder.display().to_string()),
        ("--checkpoint", checkpoint.display().to_string()),
    ] {
        arguments.extend([option.to_owned(), value]);
    }
    guest.iter().for_each(|assignment| arguments.extend(["--set".to_owned(), assignment.clone()]));
    let summary: Value = serde_json::from_str(&doorbell(&arguments).success()).expect("--json prints JSON");
    let of = |name: &str| summary[name].as_u64().unwrap_or_else(|| panic!("no {name} in {summary}"));
    assert_eq!((of("frames_offered"), of("frames_delivered")), (load.frames, load.frames));
    assert_eq!(of("frames_corrupt"), 0);
    assert_eq!(dropped(&summary["drops"]), 0);
    folder.join("wire.pcap")
}

fn scapy(capture: &Path, load: &Load) -> Result<String, String> {
    let script = repository().join("scenarios/testpmd/check_capture.py");
    let mut command = Command::new("/usr/bin/python3");
    command.arg(script).arg(capture).arg(load.mode);
    command.args([load.frames, load.frame_size.into(), load.rate_hz].map(|number: u64| number.to_string()));
    let output = command.output().expect("Debian's python3 runs (packages python3, python3-scapy)");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// Checks that tshark dissects UDP over IPv4 with correct checksums and without expert messages.
fn tshark(capture: &Path) {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(capture).args(["-n", "-c", SAMPLE, "-T", "fields", "-E", "separator=/s"]);
    command.args(["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]);
    for field in
        ["ip.checksum.status", "udp.checksum.status", "frame.protocols", "_ws.malformed", "_ws.expert"]
    {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark runs (package tshark)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(lines.lines().count() > 900, "tshark saw {} frames", lines.lines().count());
    for line in lines.lines() {
        // Checksum status 1 is "good"; the fields for malformed frames and expert messages are empty.
        let fields: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(fields, ["1", "1", "eth:ethertype:ip:udp:data"], "tshark reports: {line}");
    }
}
