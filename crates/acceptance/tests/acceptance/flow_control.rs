//! PAUSE flow control between two nodes with the 82576 and Linux's igb driver, configured by `ethtool -A`.
//!
//! The server has a short ring and rare interrupts; the client sends datagrams at line rate. Without flow
//! control the server's NIC drops frames when its packet buffer is full. With flow control it sends PAUSE
//! frames to the client's NIC, and every datagram arrives.

use doorbell_acceptance::net_guest::number;
use doorbell_acceptance::places;
use doorbell_bench::{read_guest, resolve};
use doorbell_image::{GuestFile, overlay};
use doorbell_machine::{Guest, Limits, Machine, Network, NetworkConfig, NetworkOutcome, Outcome};
use doorbell_sim::Ps;

/// Limit of simulated time; most of it is idle.
const PATIENCE: Ps = Ps(120 * Ps::PER_SECOND);
const OVERRIDES: [&str; 3] = ["nic.model=82576", "nic.pause_frames=true", "link.rate=1Gbps"];

/// Shell functions of both nodes. Changing flow control resets the link, so `flow_control` waits for it.
const PRELUDE: &str = r#"
stop() { echo "stop: $1"; read -r _; }
linked() { until read -r up < /sys/class/net/eth0/carrier && [ "$up" = 1 ]; do busybox usleep 10000; done; }
flow_control() {
    ethtool -A eth0 autoneg off rx $1 tx $1
    linked
    echo flow control $(ethtool -a eth0 | busybox grep -E '^(RX|TX):')
}
counters() {
    ethtool -S eth0 | busybox grep -E 'rx_missed_errors|flow_control_xoff' | while read -r name value; do echo "$name $value"; done
    busybox awk '/^Udp: [0-9]/ { print "received", $2, "sent", $5 }' /proc/net/snmp
}
"#;

/// 80 descriptors hold less than a tenth of the frames between two interrupts, and the packet buffer holds no
/// more.
const SERVER: &str = "
echo 8000000 > /proc/sys/net/core/rmem_default
ethtool -G eth0 rx 80
ethtool -C eth0 rx-usecs 8000
linked
echo negotiated $(ethtool -a eth0 | busybox grep -E '^(RX|TX):')
flow_control off
for port in 5201 5202; do iperf3 -s -D -p $port > /dev/null; done
counters
stop ready
counters
flow_control on
stop again
counters
stop end
";

/// Each transfer uses its own iperf3 server, since the first server also loses control messages.
const CLIENT: &str = "
linked
flow_control off
stop ready
iperf3 -c 10.0.0.2 -p 5201 -u -b 0 -l 1400 -n 2M > /dev/null
counters
flow_control on
stop again
iperf3 -c 10.0.0.2 -p 5202 -u -b 0 -l 1400 -n 2M > /dev/null
counters
stop end
";

fn guest(script: &str, address: &str) -> Guest {
    let image = places().build_image("net", &mut |_| {}).expect("the net image can be built");
    let words = format!("{} doorbell.app=ours doorbell.ip={address}", image.command_line());
    let mut guest = read_guest(&image, words).expect("an image can be read");
    let content = format!("{PRELUDE}{script}").into_bytes();
    let ours = GuestFile { path: "scripts/ours".into(), executable: false, content };
    guest.initramfs.extend(overlay(&[ours]).expect("a script can be added to an image"));
    guest
}

/// Runs until these nodes have called `stop WORD`; returns what each printed meanwhile.
fn run_to(pair: &mut Network, nodes: &[usize], word: &str) -> Vec<String> {
    let before = [0, 1].map(|node| pair.node(node).console.text().len());
    let marker = format!("stop: {word}");
    let mut waiting = nodes.to_vec();
    for &node in nodes {
        pair.node_mut(node).console.watch(Some(&marker));
    }
    let limits = Limits { on_marker: true, ..Limits::until(pair.now() + PATIENCE) };
    while !waiting.is_empty() {
        match pair.run(&limits) {
            NetworkOutcome::Nodes(stopped)
                if stopped.iter().all(|(_, outcome)| *outcome == Outcome::Marker) =>
            {
                waiting.retain(|node| stopped.iter().all(|(index, _)| index != node));
            }
            outcome => {
                let texts = [0, 1].map(|node| pair.node(node).console.last_lines(20));
                panic!("{outcome:?} before {word}: {}\n{}", texts[0], texts[1]);
            }
        }
    }
    let text = |node: usize| pair.node(node).console.text()[before[node]..].to_owned();
    nodes.iter().map(|&node| text(node)).collect()
}

fn resume(machine: &mut Machine) {
    assert_eq!(machine.type_input(b"\n"), 1);
}

#[test]
#[ignore = "long: make test-long runs it"]
fn pause_frames_prevent_drops_with_linux_igb() {
    let overrides = OVERRIDES.map(str::to_owned);
    let config = resolve("fast", &overrides).expect("the check's configuration is valid");
    let cable = NetworkConfig::two_nodes(config.nodes()).expect("a cable connects the nodes");
    let mut pair = Network::new(cable, config.run.seed).expect("two nodes can be built");
    let guests = [guest(SERVER, "10.0.0.2/24"), guest(CLIENT, "10.0.0.3/24")];
    pair.load(&guests).expect("the guests fit");

    let first = run_to(&mut pair, &[0, 1], "ready");
    assert!(first[0].contains("negotiated RX: on TX: on"), "nic.pause_frames advertises PAUSE: {}", first[0]);
    assert!(first.iter().all(|text| text.contains("flow control RX: off TX: off")), "{first:?}");

    // Runs a transfer; returns the console output of server and client, with their counters since boot.
    let mut phase = |word: &str| {
        resume(pair.node_mut(1));
        let client = run_to(&mut pair, &[1], word).remove(0);
        resume(pair.node_mut(0));
        [run_to(&mut pair, &[0], word).remove(0), client]
    };
    let without = phase("again");
    let with = phase("end");
    pair.check_conservation();
    let [missed, missed_later] = [&without, &with].map(|[server, _]| number(server, "rx_missed_errors:"));
    let arrived = |[server, client]: &[String; 2]| (number(client, "sent"), number(server, "received"));
    let ((sent, received), (all_sent, all_received)) = (arrived(&without), arrived(&with));
    let output = format!("{without:?}\n{with:?}");
    assert!(missed > 100 && received + 100 < sent, "without flow control the NIC drops frames: {output}");
    assert_eq!(number(&without[0], "tx_flow_control_xoff:"), 0, "{output}");
    assert!(without.iter().all(|text| text.contains("flow control RX: on TX: on")), "{output}");
    // With flow control no further frame is lost, in the NIC or above it, since the client's NIC pauses.
    assert_eq!((missed_later, all_received - received), (missed, all_sent - sent), "{output}");
    assert!(all_sent - sent > 1000, "{output}");
    let xoff = number(&with[0], "tx_flow_control_xoff:");
    assert!(xoff > 0 && number(&with[1], "rx_flow_control_xoff:") == xoff, "{output}");
}
