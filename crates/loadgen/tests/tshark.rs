//! Checks the generator's frames with tshark: no expert messages and all checksums good.

use std::process::Command;

use crate::capture::write_capture;
use doorbell_loadgen::{Arrivals, TrafficConfig};
use doorbell_sim::Bytes;

const FRAMES_OF_EACH_SIZE: u64 = 2_000;
const SIZES: [u64; 6] = [64, 65, 128, 1023, 1518, 9018];

fn traffics() -> Vec<TrafficConfig> {
    let traffic = |size| TrafficConfig {
        rate: "50%".parse().unwrap(),
        frame_size: Bytes(size),
        arrivals: Arrivals::Constant,
        frames: Some(FRAMES_OF_EACH_SIZE),
        ..TrafficConfig::default()
    };
    SIZES.map(traffic).to_vec()
}

#[test]
fn tshark_accepts_all_frames_and_checksums() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire.pcap");
    assert_eq!(write_capture(&path, &traffics()), FRAMES_OF_EACH_SIZE * SIZES.len() as u64);
    let fields = [
        "frame.protocols",
        "_ws.expert.message",
        "_ws.malformed",
        "ip.checksum.status",
        "udp.checksum.status",
        "frame.time_epoch",
        "frame.len",
        "data.data",
    ];
    let output = Command::new("tshark")
        .args(["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-T", "fields", "-r"])
        .arg(&path)
        .args(fields.iter().flat_map(|field| ["-e", field]))
        .output()
        .expect("tshark starts (tools/setup test installs it)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let (mut at, mut count) = (0u64, 0u64);
    for (sequence, line) in text.lines().enumerate() {
        let found: Vec<&str> = line.split('\t').collect();
        let size = SIZES[sequence / FRAMES_OF_EACH_SIZE as usize];
        assert_eq!(found[0], "eth:ethertype:ip:udp:data", "frame {sequence}");
        assert_eq!(found[1..5], ["", "", "1", "1"], "frame {sequence}: {line}");
        let (seconds, fraction) = found[5].split_once('.').unwrap();
        let stamp = seconds.parse::<u64>().unwrap() * 1_000_000_000 + fraction.parse::<u64>().unwrap();
        let in_run = sequence as u64 % FRAMES_OF_EACH_SIZE;
        if in_run == 0 {
            at = stamp;
        }
        // In tenths of nanoseconds: the frame interval is twice the time of its bytes, 0.8 ns each.
        let due = at * 10 + in_run * 2 * (size + 20) * 8;
        assert!((stamp * 10).abs_diff(due) <= 20, "frame {sequence}: {stamp} for {due}");
        assert_eq!(found[6].parse::<u64>().unwrap(), size - 4);
        let signature = format!("4472624c00000000{sequence:016x}");
        assert!(found[7].starts_with(&signature), "frame {sequence}: {}", found[7]);
        count += 1;
    }
    assert_eq!(count, FRAMES_OF_EACH_SIZE * SIZES.len() as u64);
}
