//! Checks stream frames with tshark: no expert messages, all checksums good and all fields as configured, for
//! all header combinations.

use std::process::Command;

use crate::capture::write_capture;
use doorbell_loadgen::TrafficConfig;

const FRAMES_OF_EACH: usize = 60;

/// All combinations of network, transport and number of tags.
fn streams() -> Vec<(&'static str, &'static str, usize)> {
    let mut all = Vec::new();
    for network in ["ipv4", "ipv6"] {
        for transport in ["udp", "tcp"] {
            for tags in 0..3 {
                all.push((network, transport, tags));
            }
        }
    }
    all
}

fn traffic() -> TrafficConfig {
    let mut text = format!("frames = {}\n", FRAMES_OF_EACH * streams().len());
    for (place, (network, transport, tags)) in streams().into_iter().enumerate() {
        let vlans = ["", "{ id = 100, priority = 3 }", "{ id = 200 }, { id = 100, priority = 3 }"][tags];
        let vlan_sweep = if tags > 0 { ", { field = \"vlan\", count = 4 }" } else { "" };
        // In sequence, so that the stream follows from the frame's number.
        text += &format!(
            "[[streams]]\nrate = \"1Mpps\"\nstart_after = \"{}us\"\nframes = {FRAMES_OF_EACH}\nnetwork = \"{network}\"\n\
             transport = \"{transport}\"\nvlans = [{vlans}]\nsize = [\"2x102B\", \"1x1518B\", \"1x103B\"]\ndscp = 46\nttl = 7\n\
             sweeps = [{{ field = \"source-ip\", count = 9, order = \"random\" }}, {{ field = \"source-port\", count = 5 }}, \
             {{ field = \"source-mac\", count = 3, order = \"decrement\" }}{vlan_sweep}]\n",
            place * 100
        );
    }
    toml::from_str(&text).unwrap()
}

#[test]
fn tshark_accepts_all_header_combinations_of_streams() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire.pcap");
    let sent = write_capture(&path, &[traffic()]);
    assert_eq!(sent as usize, FRAMES_OF_EACH * streams().len());
    let fields = [
        "frame.protocols",
        "_ws.expert.message",
        "_ws.malformed",
        "ip.checksum.status",
        "udp.checksum.status",
        "tcp.checksum.status",
        "ieee8021ad.id",
        "vlan.id",
        "ip.dsfield.dscp",
        "ip.ttl",
        "ipv6.tclass.dscp",
        "ipv6.hlim",
        "udp.srcport",
        "tcp.srcport",
        "tcp.seq_raw",
        "frame.len",
    ];
    let checks = ["ip.check_checksum:TRUE", "udp.check_checksum:TRUE", "tcp.check_checksum:TRUE"];
    // There is no connection: TCP sequence numbers count frames.
    let quiet = ["tcp.analyze_sequence_numbers:FALSE"];
    let output = Command::new("tshark")
        .args(checks.iter().chain(&quiet).flat_map(|option| ["-o", option]))
        .args(["-T", "fields", "-r"])
        .arg(&path)
        .args(fields.iter().flat_map(|field| ["-e", field]))
        .output()
        .expect("tshark starts (tools/setup test installs it)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut count = 0;
    for (line, number) in text.lines().zip(0usize..) {
        let found: Vec<&str> = line.split('\t').collect();
        let index = number % FRAMES_OF_EACH;
        let (network, transport, tags) = streams()[number / FRAMES_OF_EACH];
        let is_v4 = network == "ipv4";
        let tagged = [
            "eth:ethertype",
            "eth:ethertype:vlan:ethertype",
            "eth:ethertype:ieee8021ad:ethertype:vlan:ethertype",
        ];
        let protocols = format!("{}:{}:{transport}:data", tagged[tags], if is_v4 { "ip" } else { "ipv6" });
        assert_eq!(found[0], protocols, "frame {number}");
        assert_eq!(found[1..3], ["", ""], "frame {number}: {line}");
        let (ip, udp, tcp) = (if is_v4 { "1" } else { "" }, "1", "1");
        let expected = if transport == "udp" { [ip, udp, ""] } else { [ip, "", tcp] };
        assert_eq!(found[3..6], expected, "frame {number}: {line}");
        let inner = (100 + index % 4).to_string();
        let vlans = [["", ""], ["", &inner], ["200", &inner]][tags];
        assert_eq!(found[6..8], vlans, "frame {number}: {line}");
        let class = if is_v4 { ["46", "7", "", ""] } else { ["", "", "46", "7"] };
        assert_eq!(found[8..12], class, "frame {number}: {line}");
        let port = (50_001 + index % 5).to_string();
        let ports =
            if transport == "udp" { [port.as_str(), "", ""] } else { ["", &port, &index.to_string()] };
        assert_eq!(found[12..15], ports, "frame {number}: {line}");
        let size = [102, 103, 1518, 102];
        assert!(size.contains(&(found[15].parse::<usize>().unwrap() + 4)), "frame {number}: {line}");
        count += 1;
    }
    assert_eq!(count, FRAMES_OF_EACH * streams().len());
}
