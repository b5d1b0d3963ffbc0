//! The NIC under the kernel's driver, tested with injected frames and the guest's counters: receive checksum
//! offload, multicast and VLAN filters, promiscuous mode, interrupt moderation, and link loss.

use doorbell_acceptance::net_guest::{boot, number, resume, run, run_for, run_to_pause};
use doorbell_loadgen::{Kind, Rate, TrafficConfig};
use doorbell_machine::Machine;
use doorbell_sim::{Frame, Ps};

const TESTER: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// EtherType for local experiments (IEEE 802), which network stacks ignore.
const EXPERIMENTAL: [u8; 2] = [0x88, 0xb5];

/// Internet checksum, written directly from RFC 1071.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let mut sum: u32 =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

fn frame(destination: [u8; 6], kind: &[u8], payload: &[u8]) -> Frame {
    let mut bytes = [&destination[..], &TESTER, kind, payload].concat();
    bytes.resize(bytes.len().max(60), 0);
    Frame::new(bytes)
}

/// An IPv4 packet from 10.0.0.1 to 10.0.0.2 with a correct header.
fn packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    header[2..4].copy_from_slice(&((20 + payload.len()) as u16).to_be_bytes());
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum);
    [header, payload.to_vec()].concat()
}

/// A transport segment with a correct checksum at offset `at`.
fn transport(protocol: u8, at: usize, mut segment: Vec<u8>) -> Vec<u8> {
    let pseudo =
        [&[10, 0, 0, 1, 10, 0, 0, 2, 0, protocol][..], &(segment.len() as u16).to_be_bytes(), &segment]
            .concat();
    segment[at..at + 2].copy_from_slice(&checksum(&pseudo));
    packet(protocol, &segment)
}

/// A datagram from port 7 to port 9 (closed).
fn udp() -> Vec<u8> {
    transport(17, 6, [&[0, 7, 0, 9, 0, 20, 0, 0][..], b"twelve bytes"].concat())
}

/// A SYN from port 7 to port 9 (closed).
fn tcp() -> Vec<u8> {
    transport(6, 16, vec![0, 7, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0x10, 0, 0, 0, 0, 0])
}

fn inject(machine: &mut Machine, count: usize, frame: &Frame) {
    for _ in 0..count {
        machine.inject(0, frame.clone());
    }
    run_for(machine, Ps::from_ms(3));
}

fn guest_mac(machine: &Machine) -> [u8; 6] {
    machine.config().nic.mac_of(0).0
}

fn ipv4(machine: &Machine, packet: &[u8], damaged: Option<usize>) -> Frame {
    let mut packet = packet.to_vec();
    if let Some(at) = damaged {
        packet[at] ^= 0x10;
    }
    frame(guest_mac(machine), &[8, 0], &packet)
}

#[test]
fn wrong_checksums_are_flagged_by_the_nic_and_counted_by_the_kernel() {
    // The driver reads the chip's statistics every two seconds.
    let script = "pause ready\nsleep 3\ncounters\n\
                  for key in rx_csum_offload_errors rx_csum_offload_good rx_crc_errors; do statistic $key; done\n";
    let mut machine = boot(&[], "doorbell.app=ours", script, &[]);
    run_to_pause(&mut machine, "ready");
    for (count, packet, damaged) in [
        (10, udp(), None),
        (11, udp(), Some(30)),
        // Damage only the header checksum field, so that the packet is otherwise valid.
        (12, udp(), Some(10)),
        (13, tcp(), Some(36)),
        (4, tcp(), None),
    ] {
        let frame = ipv4(&machine, &packet, damaged);
        inject(&mut machine, count, &frame);
    }
    let bad_fcs = Frame { fcs_bad: true, ..ipv4(&machine, &udp(), None) };
    inject(&mut machine, 5, &bad_fcs);
    resume(&mut machine);
    let console = run(&mut machine);
    for (key, expected) in [
        ("Udp:NoPorts", 10),
        ("Udp:InCsumErrors", 11),
        ("IpExt:InCsumErrors", 12),
        ("Tcp:InCsumErrors", 13),
        // A SYN to a closed port is reset.
        ("Tcp:OutRsts", 4),
        ("rx_csum_offload_errors", 11 + 13),
        ("rx_crc_errors", 5),
    ] {
        assert_eq!(number(&console, key), expected, "{key}\n{console}");
    }
    // Valid UDP and TCP checksums, including those in packets with a wrong IP header checksum.
    assert_eq!(number(&console, "rx_csum_offload_good"), 10 + 12 + 4, "{console}");
}

/// Resumes the script until pause `next`; returns the number of received frames that it prints for `port`.
fn arrived(machine: &mut Machine, port: &str, next: &str) -> u64 {
    resume(machine);
    let text = run_to_pause(machine, next);
    number(&text, port)
}

#[test]
fn multicast_filter_passes_subscribed_groups_and_promiscuous_mode_passes_all_frames() {
    let script = r#"
packets() { read -r now < /sys/class/net/eth0/statistics/rx_packets; echo "eth0 $((now - last))"; last=$now; }
last=0
packets
pause none
packets
for group in 00 01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 17 18 19; do
    ip maddress add 01:00:5e:01:00:$group dev eth0
done
pause twenty
packets
pause twenty-again
packets
pause twenty-others
packets
ip link set eth0 promisc on
pause promiscuous
packets
ip link set eth0 promisc off
pause not-promiscuous
packets
ip link set eth0 allmulticast on
pause all-multicast
packets
pause over
"#;
    let mut machine = boot(&[], "doorbell.app=ours", script, &[]);
    run_to_pause(&mut machine, "none");
    // The script's decimal digits, read as hexadecimal ones.
    let digits = |n: u8| n / 10 * 16 + n % 10;
    let groups =
        |fifth: u8| (0..20).map(move |n| frame([1, 0, 0x5e, 1, fifth, digits(n)], &EXPERIMENTAL, b""));
    let other_unicast = frame([0x52, 0x54, 0, 1, 2, 3], &EXPERIMENTAL, b"");
    let all = |machine: &mut Machine, fifth| groups(fifth).for_each(|group| inject(machine, 1, &group));

    all(&mut machine, 0);
    inject(&mut machine, 3, &other_unicast);
    assert_eq!(arrived(&mut machine, "eth0", "twenty"), 0, "neither groups nor other unicast frames");
    all(&mut machine, 0);
    inject(&mut machine, 3, &other_unicast);
    assert_eq!(arrived(&mut machine, "eth0", "twenty-again"), 20, "all groups, but no other unicast frames");
    let before = machine.nic(0).stats().rx_drop_address;
    all(&mut machine, 0x0f);
    // Fourteen exact-match entries hold the first groups, perhaps with the all-hosts group. The other six or
    // seven groups are in the hash filter, which also passes their counterparts with the same hash.
    let same_hash = arrived(&mut machine, "eth0", "twenty-others");
    assert!((6..=7).contains(&same_hash), "{same_hash}");
    assert_eq!(machine.nic(0).stats().rx_drop_address - before, 20 - same_hash);
    all(&mut machine, 0x80);
    assert_eq!(arrived(&mut machine, "eth0", "promiscuous"), 0, "groups with other hashes are filtered");
    all(&mut machine, 0x80);
    inject(&mut machine, 3, &other_unicast);
    assert_eq!(arrived(&mut machine, "eth0", "not-promiscuous"), 23);
    all(&mut machine, 0x80);
    inject(&mut machine, 3, &other_unicast);
    assert_eq!(arrived(&mut machine, "eth0", "all-multicast"), 0);
    all(&mut machine, 0x80);
    inject(&mut machine, 3, &other_unicast);
    assert_eq!(arrived(&mut machine, "eth0", "over"), 20, "all groups, but no other unicast frames");
    resume(&mut machine);
    run(&mut machine);
}

#[test]
fn vlan_interfaces_receive_their_frames_and_other_vlans_are_filtered() {
    let script = r#"
packets() { for port in eth0 five seven; do
    [ -e /sys/class/net/$port ] || continue
    read -r now < /sys/class/net/$port/statistics/rx_packets; echo "$port $now"
done; }
ip link add link eth0 name five type vlan id 5
ip link set five up
pause five
packets
ip link add link eth0 name seven type vlan id 7
ip link set seven up
pause seven
packets
ip link delete five
pause over
packets
pause end
"#;
    let mut machine = boot(&[], "doorbell.app=ours", script, &[]);
    run_to_pause(&mut machine, "five");
    let tagged = |machine: &Machine, id: u8| frame(guest_mac(machine), &[0x81, 0, 0x60, id, 0x88, 0xb5], b"");
    let [fives, sevens, nines] = [5, 7, 9].map(|id| tagged(&machine, id));
    let vlan_drops = |machine: &Machine| machine.nic(0).stats().rx_drop_vlan;
    let send_all = |machine: &mut Machine| {
        for (count, frame) in [(6, &fives), (8, &sevens), (1, &nines)] {
            inject(machine, count, frame);
        }
    };
    send_all(&mut machine);
    assert_eq!(arrived(&mut machine, "five", "seven"), 6);
    assert_eq!(vlan_drops(&machine), 8 + 1);
    send_all(&mut machine);
    resume(&mut machine);
    let text = run_to_pause(&mut machine, "over");
    assert_eq!((number(&text, "five"), number(&text, "seven")), (12, 8), "{text}");
    assert_eq!(vlan_drops(&machine), 9 + 1);
    send_all(&mut machine);
    resume(&mut machine);
    let text = run_to_pause(&mut machine, "end");
    assert_eq!(number(&text, "seven"), 16, "{text}");
    assert_eq!(vlan_drops(&machine), 10 + 6 + 1, "VLAN 5 is filtered again");
    resume(&mut machine);
    run(&mut machine);
}

#[test]
#[ignore = "long: make test-long runs it"]
fn interrupt_moderation_limits_the_interrupt_rate_and_adds_latency() {
    let script = r#"
interrupts() { while read -r _ count rest; do case $rest in *eth0) echo "interrupts $count" ;; esac; done < /proc/interrupts; }
for rate in 0 8000 2000; do
    rmmod e1000
    insmod /lib/modules/e1000.ko InterruptThrottleRate=$rate
    ip address add 10.0.0.2/24 dev eth0
    ip link set eth0 up
    wait_until ping -c 1 -W 1 10.0.0.1
    interrupts
    pause begin-$rate
    interrupts
    pause end-$rate
done
"#;
    let mut machine = boot(&[], "doorbell.app=ours", script, &[]);
    let traffic = TrafficConfig {
        kind: Kind::Ping,
        rate: Rate::Frames(20_000),
        frames: Some(4_000),
        source_ip: [10, 0, 0, 1].into(),
        destination_ip: [10, 0, 0, 2].into(),
        ..TrafficConfig::default()
    };
    let mut measured = Vec::new();
    for rate in [0, 8_000, 2_000] {
        let before = number(&run_to_pause(&mut machine, &format!("begin-{rate}")), "interrupts");
        machine.start_traffic_at(0, &traffic).unwrap();
        machine.begin_window();
        run_for(&mut machine, Ps::from_ms(200));
        resume(&mut machine);
        let after = number(&run_to_pause(&mut machine, &format!("end-{rate}")), "interrupts");
        let summary = machine.ports()[0].loadgen.summary(machine.now()).unwrap();
        assert_eq!((summary.frames_offered, summary.frames_delivered), (4_000, 4_000), "at {rate}");
        measured.push((rate, after - before, summary.latency_ns.unwrap()));
        resume(&mut machine);
    }
    run(&mut machine);
    println!("{measured:#?}");
    let [(_, free, quick), (_, some, _), (_, few, slow)] = measured[..] else { panic!("three rates") };
    // Counts are per 200 ms. Without moderation each frame has its own interrupt, or shares one with the
    // previous reply.
    assert!(free >= 3_900, "{free} interrupts for 4,000 frames");
    assert!((1_500..=1_640).contains(&some), "{some} interrupts, but the limit is 1,600");
    assert!((370..=420).contains(&few), "{few} interrupts, but the limit is 400");
    // On average a frame waits for half an interval, and hardly any waits for more than one interval.
    assert!((200_000.0..300_000.0).contains(&(slow.mean - quick.mean)), "{slow:?} {quick:?}");
    assert!((420_000.0..520_000.0).contains(&slow.p99), "{slow:?}");
}

#[test]
#[ignore = "long: make test-long runs it"]
fn unplugging_the_cable_drops_the_carrier_and_replugging_restores_reception() {
    let script = r#"
carrier() { read -r carrier < /sys/class/net/eth0/carrier && [ "$carrier" = "$1" ]; }
pause up
wait_until carrier 0
read -r changes < /sys/class/net/eth0/carrier_changes; echo "changes $changes"
pause down
wait_until carrier 1
read -r changes < /sys/class/net/eth0/carrier_changes; echo "changes $changes"
pause up-again
counters
"#;
    let mut machine = boot(&[], "doorbell.app=ours", script, &[]);
    run_to_pause(&mut machine, "up");
    let good = ipv4(&machine, &udp(), None);
    inject(&mut machine, 3, &good);
    machine.set_cable(0, false);
    resume(&mut machine);
    let changes = number(&run_to_pause(&mut machine, "down"), "changes");
    inject(&mut machine, 5, &good);
    assert_eq!(machine.nic(0).stats().rx_drop_link_down, 5);
    machine.set_cable(0, true);
    resume(&mut machine);
    assert_eq!(number(&run_to_pause(&mut machine, "up-again"), "changes"), changes + 1);
    inject(&mut machine, 7, &good);
    resume(&mut machine);
    let console = run(&mut machine);
    assert_eq!(number(&console, "Udp:NoPorts"), 3 + 7);
    assert!(console.contains("e1000: eth0 NIC Link is Down") || !console.contains("NIC Link"), "{console}");
}
