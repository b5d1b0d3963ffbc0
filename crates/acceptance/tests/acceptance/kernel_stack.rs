//! The machine under the kernel's network stack: the net image's `nic-check` passes, and tshark finds no
//! errors on the wire. Frames are conserved. Needs tshark.

use std::path::Path;
use std::process::Command;

use doorbell_acceptance::net_guest::{PATIENCE, boot, run};
use doorbell_acceptance::scratch;
use doorbell_machine::{Limits, Machine, Outcome};
use doorbell_sim::Ps;

#[test]
fn the_nic_passes_the_drivers_self_test_with_all_offloads_and_filters() {
    let folder = scratch();
    let pcap = folder.path().join("wire.pcap");
    let mut machine = boot(&[], "doorbell.app=nic-check", "", &[&pcap]);
    let console = run(&mut machine);
    assert!(
        console.contains("nic-check: self-test ok") && console.contains("nic-check: all ok"),
        "{console}"
    );
    assert!(!console.contains("FAILED") && !console.contains("unknown option"), "{console}");

    let port = &mut machine.ports_mut()[0];
    port.capture.take().expect("a capture was set").finish().expect("the capture can be finished");
    let generator = port.loadgen.stats();
    assert_eq!(generator.foreign, 0, "the generator answers all frames of the guest: {generator:?}");
    assert!(generator.arp_answered > 0 && generator.echo_answered > 20 && generator.mirrored > 3_000);
    check_with_tshark(&pcap, generator.received);
    assert!(machine.nic(0).stats().tx_segments > 1_000, "the NIC segments TCP");
}

/// Checks with tshark that all checksums are correct, and that VLAN tags, jumbo frames and TCP occur.
fn check_with_tshark(pcap: &Path, received: u64) {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(pcap).args(["-n", "-T", "fields", "-E", "separator=,", "-E", "occurrence=f"]);
    for protocol in ["ip", "tcp", "udp"] {
        command.arg("-o").arg(format!("{protocol}.check_checksum:TRUE"));
    }
    let fields = [
        "frame.len",
        "vlan.id",
        "ip.checksum.status",
        "tcp.checksum.status",
        "icmp.checksum.status",
        "_ws.malformed",
    ];
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().expect("this check needs tshark (package tshark)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("tshark writes text");
    let (mut frames, mut tagged, mut jumbo, mut tcp) = (0, 0, 0, 0);
    for line in text.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        let [length, vlan, ip_sum, tcp_sum, icmp_sum, malformed] = fields[..] else {
            panic!("frame {frames}: wrong number of fields: {line}");
        };
        let length: u32 = length.parse().expect("a length is a number");
        frames += 1;
        tagged += u32::from(vlan == "5");
        jumbo += u32::from(length > 1518);
        tcp += u32::from(tcp_sum == "1");
        assert!((60..=9018).contains(&length), "frame {frames}: {line}");
        for sum in [ip_sum, tcp_sum, icmp_sum] {
            assert!(sum.is_empty() || sum == "1", "frame {frames} has a wrong checksum: {line}");
        }
        assert!(malformed.is_empty(), "frame {frames} is malformed: {line}");
    }
    // Each received frame was answered, and the capture has both directions.
    assert_eq!(frames, 2 * received);
    assert!(tagged > 1_000 && jumbo > 100 && tcp > 5_000, "{tagged} tagged, {jumbo} jumbo, {tcp} TCP");
}

#[test]
#[ignore = "long: make test-long runs it"]
fn the_kernel_uses_two_nics_as_two_interfaces() {
    let script = "ping -n -q -c 2 -i 0.01 10.0.0.1 && ping -n -q -c 2 -i 0.01 10.0.1.1 && ping -n -q -c 1 10.0.1.254\n";
    let mut machine = boot(&["platform.nics=2"], "doorbell.forward=1 doorbell.app=ours", script, &[]);
    let console = run(&mut machine);
    for expected in ["eth0 10.0.0.2/24 up", "eth1 10.0.1.2/24 up", "doorbell: ports 2", "doorbell: exit 0"] {
        assert!(console.contains(expected), "no \"{expected}\":\n{console}");
    }
    let answered = |port: usize| machine.ports()[port].loadgen.stats().echo_answered;
    assert_eq!((answered(0), answered(1)), (2, 2));
    // The mirror returned the echo request and the guest's reply to it.
    assert_eq!(machine.ports()[1].loadgen.stats().mirrored, 2);
    assert_eq!(machine.ports()[0].loadgen.stats().mirrored, 0);
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_checkpoint_during_kernel_traffic_does_not_change_the_run() {
    let words = "doorbell.app=ours";
    let script = "ping -n -q -c 20 -i 0.002 -s 1400 10.0.0.254\n";
    let straight = {
        let mut machine = boot(&[], words, script, &[]);
        run(&mut machine);
        (machine.instructions(), machine.now())
    };
    let mut first = boot(&[], words, script, &[]);
    // Stop after some of the pings.
    first.console.watch(Some("doorbell: start ours"));
    let outcome = first.run(&Limits { on_marker: true, ..Limits::until(PATIENCE) });
    assert_eq!(outcome, Outcome::Marker);
    first.console.watch(None);
    let later = first.now() + Ps::from_ms(30);
    assert_eq!(first.run(&Limits::until(later)), Outcome::Time);
    let mirrored = first.ports()[0].loadgen.stats().mirrored;
    assert!(
        mirrored > 0 && mirrored < 40,
        "the stop must be between the first and the last ping: {mirrored}"
    );
    let checkpoint = first.checkpoint("net", "test");
    let mut second = Machine::new(first.config().clone(), 1).expect("the machine can be built");
    second.restore(&checkpoint, "net").expect("the checkpoint fits");
    run(&mut second);
    assert_eq!((second.instructions(), second.now()), straight);
}

#[test]
#[ignore = "long: make test-long runs it"]
fn iperf3_measures_the_kernels_loopback() {
    // A slow core, so that a second is simulated quickly.
    let script = "iperf3 -s -1 > /dev/null &\n\
        until ss -Hltn | grep -q :5201; do busybox usleep 1000; done\n\
        iperf3 --json --client 127.0.0.1 --time 1 --interval 0\n";
    let mut machine = boot(&["core.frequency=500MHz"], "doorbell.app=ours", script, &[]);
    let console = run(&mut machine);
    let begin = console.find("\n{\n").unwrap_or_else(|| panic!("no result:\n{console}"));
    let end = begin + console[begin..].find("\n}\n").expect("the result is complete") + 3;
    let result: serde_json::Value = serde_json::from_str(&console[begin..end]).expect("the result is JSON");
    let number = |group: &str, name: &str| result["end"][group][name].as_f64().expect("a number");
    let (sent, received) = (number("sum_sent", "bytes"), number("sum_received", "bytes"));
    // The counts of the two sides differ by at most two blocks of 128 KiB.
    let block = f64::from(128 << 10);
    assert!((sent - received).abs() <= 2.0 * block && sent > 10e6, "{sent} sent, {received} received");
    assert!((0.99..1.1).contains(&number("sum_received", "seconds")), "{result}");
    let rate = number("sum_received", "bits_per_second");
    assert!((rate - received * 8.0 / number("sum_received", "seconds")).abs() < 1e3, "{result}");
    assert_eq!(number("sum_sent", "retransmits"), 0.0);
    // Loopback traffic does not use the NIC.
    assert!(machine.nic(0).stats().tx_frames < 10);
}
