//! The whole program on the host, over DPDK's pcap ports: scapy builds the requests, and scapy and tshark
//! check the responses.

use std::path::Path;
use std::process::Command;

use doorbell_acceptance::native::{EAL, build};
use doorbell_acceptance::{repository, scratch, tshark};

/// Runs `frames.py` and returns the number that it prints.
fn frames(mode: &str, pcap: &Path) -> usize {
    let script = repository().join("scenarios/memcached_dpdk/acceptance/frames.py");
    let output =
        Command::new("/usr/bin/python3").arg(script).arg(mode).arg(pcap).output().expect("python3 and scapy");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

#[test]
fn response_frames_match_scapys_and_are_valid_for_tshark() {
    let folder = scratch();
    let flags = "-O1 -g -Wall -Wextra -Werror -fsanitize=address,undefined";
    let program = build("memcached-dpdk", flags, folder.path());
    let (requests, answers) = (folder.path().join("requests.pcap"), folder.path().join("answers.pcap"));
    let count = frames("make", &requests);
    let run = |own: &[&str]| {
        let ports = format!("--vdev=net_pcap0,rx_pcap={},tx_pcap={}", requests.display(), answers.display());
        // DPDK does not free its memory at exit.
        let mut command = Command::new(&program);
        command.env("ASAN_OPTIONS", "detect_leaks=0").args(EAL).arg(ports).arg("--").args(own);
        let output = command.output().expect("the program starts");
        let texts = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.code(), texts.concat())
    };
    let (code, text) =
        run(&["--memory=1000000", "--total-num-mbufs=1024", "--burst=8", &format!("--frames={count}")]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("doorbell: ready\n"), "{text}");
    assert!(text.contains("frames: requests 14, ARP 1, echo 1, foreign "), "{text}");
    assert!(text.contains("requests: refused 2, replies lost 0; "), "{text}");

    let answered = frames("check", &answers);
    let right = "eth.src == 02:70:63:61:70:00 && (arp.opcode == 2 || (ip.checksum.status == 1 && \
                 (udp.checksum.status == 1 || icmp.checksum.status == 1)))";
    assert_eq!(tshark::count(&answers, right), answered);
    assert_eq!(tshark::count(&answers, "_ws.malformed || _ws.expert.severity >= 0x600000"), 0);
    assert_eq!(tshark::count(&answers, "memcache"), answered - 2);

    for (own, complaint) in [
        ("--memory=4096000000000", "a number from"),
        ("--buckets=12", "must be a power of two"),
        ("--memory=5000 --buckets=2048", "no room for items"),
        ("--memory=1000000000", "give a smaller --memory"),
        ("--surprise", "there is no option --surprise"),
    ] {
        let (code, text) = run(&own.split(' ').collect::<Vec<_>>());
        assert!(code != Some(0) && text.contains(complaint), "{own}: {text}");
    }
}
