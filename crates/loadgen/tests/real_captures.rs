//! Real captures: those shipped with `pcap-parser`, and all in the folder `DOORBELL_CAPTURES` (for example
//! the tests of the tcpdump and tcpreplay source packages). Each must read as in tshark, packet by packet,
//! and the generator must send exactly these packets.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::capture::write_capture;
use doorbell_loadgen::{LoadGen, LoadGenConfig, TrafficConfig};
use doorbell_wire::{Capture, LinkConfig};

/// A packet of a classic nanosecond capture: timestamp, bytes, original length.
type Record = (u128, Vec<u8>, u64);

/// Parses the records of a little-endian nanosecond Ethernet capture; empty for other link types.
fn records(path: &Path) -> Vec<Record> {
    let file = std::fs::read(path).unwrap();
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    assert_eq!(word(0), 0xa1b2_3c4d, "nanoseconds");
    let (mut at, mut records) = (24, Vec::new());
    while word(20) & 0xffff == 1 && at < file.len() {
        let (kept, length) = (word(at + 8) as usize, u64::from(word(at + 12)));
        let stamp = u128::from(word(at)) * 1_000_000_000 + u128::from(word(at + 4));
        records.push((stamp, file[at + 16..at + 16 + kept].to_vec(), length));
        at += 16 + kept;
    }
    records
}

/// The Ethernet packets that tshark reads; none if it rejects the file.
fn by_tshark(path: &Path, folder: &Path) -> Option<Vec<Record>> {
    let out = folder.join("by-tshark.pcap");
    let _ = std::fs::remove_file(&out);
    let mut command = Command::new("tshark");
    command.args(["-Y", "frame.encap_type == 1", "-F", "nsecpcap", "-r"]).arg(path).arg("-w").arg(&out);
    let ended = command.output().expect("tshark starts (tools/setup test installs it)");
    ended.status.success().then(|| records(&out))
}

/// The captures in cargo's unpacked copy of the crate.
fn assets() -> PathBuf {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"))).unwrap();
    let registries = std::fs::read_dir(home.join("registry/src")).unwrap();
    let packages = registries.flat_map(|registry| std::fs::read_dir(registry.unwrap().path()).unwrap());
    let assets = packages.map(|package| package.unwrap().path().join("assets"));
    let of_parser = |path: &PathBuf| path.to_string_lossy().contains("/pcap-parser-") && path.is_dir();
    assets.filter(of_parser).max().expect("cargo has unpacked pcap-parser")
}

fn captures(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kinds = ["pcap", "pcapng", "cap", "pcap.gz"];
        if path.is_dir() {
            captures(&path, found);
        } else if kinds.iter().any(|kind| path.to_string_lossy().ends_with(&format!(".{kind}"))) {
            found.push(path);
        }
    }
    found.sort();
}

/// Sends a capture at a rate and returns the frames on the wire.
fn on_the_wire(path: &Path, folder: &Path) -> Vec<Vec<u8>> {
    let text = format!("[[streams]]\ncapture = {path:?}\nrate = \"50%\"\nreplay = {{ timing = \"rate\" }}\n");
    let traffic: TrafficConfig = toml::from_str(&text).unwrap();
    let wire = folder.join("wire.pcap");
    write_capture(&wire, &[traffic]);
    records(&wire).into_iter().map(|(_, bytes, _)| bytes).collect()
}

/// Compares one file; returns the number of packets compared.
fn compare(path: &Path, folder: &Path) -> usize {
    let Some(expected) = by_tshark(path, folder).filter(|records| !records.is_empty()) else {
        // Files that are damaged or not Ethernet must be refused or skipped without a panic.
        let config = format!("[traffic]\nstreams = [{{ capture = {path:?} }}]");
        let config: LoadGenConfig = toml::from_str(&config).unwrap();
        if let Err(error) = LoadGen::new(0, 1, &config, &LinkConfig::default()) {
            assert!(error.to_string().starts_with("streams[0].capture: "), "{error}");
        }
        return 0;
    };
    let (read, _) = Capture::read(path).unwrap_or_else(|error| panic!("{error}"));
    // In a file with several link types, some packets get a synthetic Ethernet header; the generator sends
    // these too.
    let is_ethernet_alone = read.packets.iter().all(|packet| packet.synthetic_header.is_none());
    let packets: Vec<_> = read.packets.iter().filter(|packet| packet.synthetic_header.is_none()).collect();
    assert_eq!(packets.len(), expected.len(), "{}", path.display());
    for (number, (packet, (stamp, bytes, length))) in packets.into_iter().zip(&expected).enumerate() {
        let at = format!("{}: packet {number}", path.display());
        let kept = (bytes.len() as u64).min(*length) as usize;
        assert_eq!((packet.bytes.as_slice(), packet.original_len), (&bytes[..kept], *length), "{at}");
        // tshark has zero for missing timestamps. For damaged ones whose fraction exceeds a second, it keeps
        // 32 bits of nanoseconds.
        let difference = (packet.at / 1_000).abs_diff(*stamp);
        assert!(difference.is_multiple_of(1 << 32) || *stamp == 0, "{at}: {} for {stamp}", packet.at);
    }
    let as_sent = |(_, mut bytes, length): Record| {
        bytes.resize((length as usize).max(60), 0);
        (bytes.len() + 4 <= 16 << 10).then_some(bytes)
    };
    let expected: Vec<Vec<u8>> = expected.into_iter().filter_map(as_sent).collect();
    if expected.is_empty() || !is_ethernet_alone {
        return 0;
    }
    assert!(on_the_wire(path, folder) == expected, "{}: other packets on the wire", path.display());
    expected.len()
}

#[test]
fn real_captures_read_as_in_tshark_and_are_sent_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    captures(&assets(), &mut files);
    assert!(files.len() > 8, "{files:?}");
    if let Some(more) = std::env::var_os("DOORBELL_CAPTURES") {
        captures(Path::new(&more), &mut files);
    }
    let compared: Vec<usize> = files.iter().map(|path| compare(path, folder.path())).collect();
    let packets: usize = compared.iter().sum();
    println!("{packets} packets of {} files", compared.iter().filter(|count| **count > 0).count());
    assert!(packets > 5_000, "only {packets} packets");
}
