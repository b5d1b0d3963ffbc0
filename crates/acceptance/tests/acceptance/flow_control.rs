//! Flow control by PAUSE between two nodes with the 82576 under Linux' igb driver, told by `ethtool -A`: a server with a short ring and rare
//! interrupts, and a client that sends datagrams as fast as the link goes. Without flow control the server's card drops what its packet buffer has
//! no room for; with it the card asks the client's to wait, and every datagram arrives.

use doorbell_acceptance::net_guest::number;
use doorbell_acceptance::places;
use doorbell_bench::{image_for, read_guest, resolve};
use doorbell_image::{GuestFile, overlay};
use doorbell_machine::{Guest, Limits, Machine, Network, NetworkConfig, NetworkOutcome, Outcome};
use doorbell_sim::Ps;

/// Of simulated time, nearly all of it idle.
const PATIENCE: Ps = Ps(120 * Ps::PER_SECOND);
const OVERRIDES: [&str; 3] = ["nic.model=82576", "nic.pause_frames=true", "link.rate=1Gbps"];

/// What both nodes can call. The driver waits for the link anew where it is told of flow control.
const PRELUDE: &str = r#"
stop() { echo "stop: $1"; read -r _; }
linked() { until read -r up < /sys/class/net/eth0/carrier && [ "$up" = 1 ]; do busybox usleep 10000; done; }
flow_control() {
    ethtool -A eth0 autoneg off rx $1 tx $1
    linked
    echo flow control $(ethtool -a eth0 | busybox grep -E '^(RX|TX):')
}
tell() {
    ethtool -S eth0 | busybox grep -E 'rx_missed_errors|flow_control_xoff' | while read -r name value; do echo "$name $value"; done
    busybox awk '/^Udp: [0-9]/ { print "received", $2, "sent", $5 }' /proc/net/snmp
}
"#;

/// 80 descriptors hold less than a tenth of what comes between two interrupts, and the packet buffer no more.
const SERVER: &str = "
echo 8000000 > /proc/sys/net/core/rmem_default
ethtool -G eth0 rx 80
ethtool -C eth0 rx-usecs 8000
linked
echo negotiated $(ethtool -a eth0 | busybox grep -E '^(RX|TX):')
flow_control off
for port in 5201 5202; do iperf3 -s -D -p $port > /dev/null; done
tell
stop ready
tell
flow_control on
stop again
tell
stop end
";

/// A server of its own for each, since the first one's loses messages too.
const CLIENT: &str = "
linked
flow_control off
stop ready
iperf3 -c 10.0.0.2 -p 5201 -u -b 0 -l 1400 -n 2M > /dev/null
tell
flow_control on
stop again
iperf3 -c 10.0.0.2 -p 5202 -u -b 0 -l 1400 -n 2M > /dev/null
tell
stop end
";

fn guest(image: &str, script: &str, address: &str) -> Guest {
    let image = places().build_image(image, &mut |_| {}).expect("the net image can be built");
    let words = format!("{} doorbell.app=ours doorbell.ip={address}", image.command_line());
    let mut guest = read_guest(&image, words).expect("an image can be read");
    let content = format!("{PRELUDE}{script}").into_bytes();
    let ours = GuestFile { path: "scripts/ours".into(), executable: false, content };
    guest.initramfs.extend(overlay(&[ours]).expect("a script can be laid over an image"));
    guest
}

/// Runs until these nodes have stopped at the word; what each printed meanwhile.
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

fn go_on(machine: &mut Machine) {
    assert_eq!(machine.type_input(b"\n"), 1);
}

#[test]
#[ignore = "long: make test-long runs it"]
fn linux_has_frames_wait_where_they_would_be_dropped() {
    let overrides = OVERRIDES.map(str::to_owned);
    let config = resolve("fast", &overrides).expect("the check's configuration is right");
    let image = image_for("net", &config.machine());
    let cable = NetworkConfig::two_nodes(config.nodes()).expect("a cable joins them");
    let mut pair = Network::new(cable, config.run.seed).expect("two nodes can be built");
    let guests = [guest(&image, SERVER, "10.0.0.2/24"), guest(&image, CLIENT, "10.0.0.3/24")];
    pair.load(&guests).expect("the guests fit");

    let first = run_to(&mut pair, &[0, 1], "ready");
    assert!(first[0].contains("negotiated RX: on TX: on"), "what nic.pause_frames advertises: {}", first[0]);
    assert!(first.iter().all(|text| text.contains("flow control RX: off TX: off")), "{first:?}");

    // What the datagrams did of either kind: those sent and received since the boot, the server's and the client's counters.
    let mut phase = |word: &str| {
        go_on(pair.node_mut(1));
        let client = run_to(&mut pair, &[1], word).remove(0);
        go_on(pair.node_mut(0));
        [run_to(&mut pair, &[0], word).remove(0), client]
    };
    let without = phase("again");
    let with = phase("end");
    pair.check_conservation();
    let [lost, kept] = [&without, &with].map(|[server, _]| number(server, "rx_missed_errors:"));
    let arrived = |[server, client]: &[String; 2]| (number(client, "sent"), number(server, "received"));
    let ((sent, received), (all_sent, all_received)) = (arrived(&without), arrived(&with));
    let told = format!("{without:?}\n{with:?}");
    assert!(lost > 100 && received + 100 < sent, "without flow control the card drops: {told}");
    assert_eq!(number(&without[0], "tx_flow_control_xoff:"), 0, "{told}");
    assert!(without.iter().all(|text| text.contains("flow control RX: on TX: on")), "{told}");
    // With it nothing more is lost, at the card or behind it, since the client's card waits.
    assert_eq!((kept, all_received - received), (lost, all_sent - sent), "{told}");
    assert!(all_sent - sent > 1000, "{told}");
    let asked = number(&with[0], "tx_flow_control_xoff:");
    assert!(asked > 0 && number(&with[1], "rx_flow_control_xoff:") == asked, "{told}");
}
