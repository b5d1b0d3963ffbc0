//! The load generator's requests, and traffic between ports, checked with the guest's counters and tshark.

use std::path::Path;

use doorbell_acceptance::net_guest::{boot, number, resume, run, run_for, run_to_pause};
use doorbell_acceptance::{quiet, run_point, scratch, session, tshark};
use doorbell_loadgen::{Kind, LoadGenStats, MemcachedConfig, Rate, Returned, TrafficConfig};
use doorbell_machine::Machine;
use doorbell_sim::stats::Stats;
use doorbell_sim::{Bytes, Ps};

fn requests(kind: Kind, frames: u64) -> TrafficConfig {
    TrafficConfig {
        kind,
        frames: Some(frames),
        rate: Rate::Frames(20_000),
        source_ip: [10, 0, 0, 1].into(),
        destination_ip: [10, 0, 0, 2].into(),
        ..TrafficConfig::default()
    }
}

fn finish_captures(machine: &mut Machine) {
    for port in machine.ports_mut() {
        if let Some(capture) = port.capture.take() {
            capture.finish().expect("the capture can be finished");
        }
    }
}

/// Sends traffic on port 0 and waits until all of it is sent and answered.
fn send(machine: &mut Machine, traffic: &TrafficConfig) -> LoadGenStats {
    let before = machine.ports()[0].loadgen.stats().clone();
    machine.start_traffic_at(0, traffic).expect("the traffic is valid");
    for _ in 0..1_000 {
        run_for(machine, Ps::from_ms(1));
        let generator = &machine.ports()[0].loadgen;
        if !generator.is_resolving() && !generator.is_sending() && generator.outstanding() == 0 {
            break;
        }
    }
    machine.ports()[0].loadgen.stats().since(&before)
}

#[test]
fn the_kernel_answers_and_counts_every_ping() {
    let folder = scratch();
    let pcap = folder.path().join("wire.pcap");
    let script = "pause ready\ncounters\n";
    let mut machine = boot(&[], "doorbell.app=ours", script, &[&pcap]);
    run_to_pause(&mut machine, "ready");
    for size in [64, 65, 1518] {
        let stats =
            send(&mut machine, &TrafficConfig { frame_size: Bytes(size), ..requests(Kind::Ping, 200) });
        assert_eq!((stats.sent, stats.returned, stats.arp_replies), (200, 200, 1), "{size}: {stats:?}");
    }
    resume(&mut machine);
    let console = run(&mut machine);
    for key in ["Icmp:InEchos", "Icmp:OutEchoReps"] {
        assert_eq!(number(&console, key), 600, "{key}");
    }
    assert_eq!(number(&console, "Icmp:InErrors"), 0);
    finish_captures(&mut machine);
    assert_eq!(tshark::count(&pcap, "icmp.type == 8 && icmp.resp_in"), 600, "tshark matches each request");
    assert_eq!(tshark::count(&pcap, "icmp.type == 0 && icmp.resp_to && icmp.checksum.status == 1"), 600);
    assert_eq!(tshark::count(&pcap, "_ws.expert || _ws.malformed"), 0);
}

#[test]
fn memcached_answers_every_set_and_every_get_with_the_right_value() {
    let folder = scratch();
    let pcap = folder.path().join("wire.pcap");
    let script = ". /scripts/memcached &\nwait_until busybox nc 127.0.0.1 11211 -e true\npause started\n\
                  { printf 'stats\\r\\n'; busybox sleep 1; } | busybox nc 127.0.0.1 11211\n";
    let mut machine = boot(&[], "doorbell.app=ours", script, &[&pcap]);
    run_to_pause(&mut machine, "started");
    let memcached =
        MemcachedConfig { keys: 300, value: Bytes(500), clients: 7, ..MemcachedConfig::default() };
    let traffic = |kind, frames| TrafficConfig {
        destination_port: 11211,
        outstanding: Some(16),
        memcached: memcached.clone(),
        ..requests(kind, frames)
    };
    let before = send(&mut machine, &traffic(Kind::MemcachedGet, 20));
    assert_eq!((before.corrupt_length, before.returned), (20, 0), "a miss is not a valid reply: {before:?}");
    let sets = send(&mut machine, &traffic(Kind::MemcachedSet, 300));
    assert_eq!((sets.sent, sets.returned), (300, 300), "{sets:?}");
    let gets = send(&mut machine, &traffic(Kind::MemcachedGet, 1_000));
    assert_eq!((gets.sent, gets.returned, gets.foreign), (1_000, 1_000, 0), "{gets:?}");
    resume(&mut machine);
    let console = run(&mut machine);
    for (key, value) in
        [("cmd_set", 300), ("cmd_get", 1_020), ("get_hits", 1_000), ("get_misses", 20), ("curr_items", 300)]
    {
        assert_eq!(number(&console, key), value, "{key}\n{console}");
    }
    finish_captures(&mut machine);
    assert_eq!(tshark::count(&pcap, "udp.checksum.status == 1 && ip.checksum.status == 1"), 2 * 1_320);
    assert_eq!(tshark::count(&pcap, "_ws.malformed || udp.checksum.status == 0"), 0);
}

/// Frames sent on each port, counted as arrived elsewhere, and counted by the other port's generator.
fn crossed(machine: &Machine) -> [(u64, u64, u64); 2] {
    let stats = |port: usize| machine.ports()[port].loadgen.stats();
    [0, 1].map(|port| (stats(port).sent, stats(port).elsewhere, stats(1 - port).of_others))
}

#[test]
fn frames_forwarded_to_another_port_are_counted_at_the_port_that_sent_them() {
    let guest = ["platform.nics=2", "testpmd.mode=io", "testpmd.topology=paired"];
    let session = session(&guest, &["run.warmup=1ms", "run.duration=4ms"]);
    for (rate, lossless) in [("1Mpps", true), ("20Mpps", false)] {
        let point = quiet(|control| run_point(&session, rate.parse().unwrap(), Bytes(64), control)).unwrap();
        let summary = &point.summary;
        assert!(summary.frames_offered >= 2 * 4_000 && summary.frames_delivered > 1_000);
        assert_eq!(summary.drop_rate == 0.0, lossless, "{summary:?}");
        assert_eq!((summary.frames_corrupt, point.measurement.outstanding() == 0), (0, lossless));
        let ports = point.machine.ports();
        for (port, (sent, elsewhere, there)) in crossed(&point.machine).into_iter().enumerate() {
            let (own, nic) = (&ports[port], point.machine.nic(port));
            assert_eq!(
                (elsewhere, point.machine.nic(1 - port).stats().tx_sent),
                (there, there),
                "port {port}: frames that the other NIC sent"
            );
            assert_eq!(own.loadgen.stats().returned, elsewhere, "all frames are intact");
            assert_eq!(own.loadgen.stats().received, nic.stats().tx_sent);
            assert_eq!(nic.stats().rx_arrived, sent);
            assert!(!lossless || sent == there, "{sent} sent at port {port}, {there} arrived at the other");
        }
        // The path crosses two links and the machine, like a round trip over one port.
        let latency = summary.latency_ns.unwrap();
        assert!(latency.min > 2_500.0, "{latency:?}");
        assert!(!lossless || latency.max < 20_000.0, "{latency:?}");
    }
}

/// Compares the frames to `target` in the captures before and after routing.
fn check_route(into: &Path, out: &Path, target: &str, frames: usize, nic_out: &str, station: &str) {
    let fields =
        ["data.data", "ip.ttl", "eth.dst", "eth.src", "ip.checksum.status", "udp.checksum.status", "ip.src"];
    let filter = format!("udp && ip.dst == {target}");
    let (before, after) = (tshark::fields(into, &filter, &fields), tshark::fields(out, &filter, &fields));
    assert_eq!((before.len(), after.len()), (frames, frames), "to {target}");
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((&before[0], &before[6]), (&after[0], &after[6]), "payload, sender and order are kept");
        assert_eq!((before[1].as_str(), after[1].as_str()), ("64", "63"));
        assert_eq!((after[2].as_str(), after[3].as_str()), (station, nic_out));
        assert_eq!((after[4].as_str(), after[5].as_str()), ("1", "1"), "the checksums are correct");
    }
}

#[test]
#[ignore = "long: make test-long runs it"]
fn the_kernel_routes_between_two_ports_in_both_directions() {
    let folder = scratch();
    let pcaps = [folder.path().join("0.pcap"), folder.path().join("1.pcap")];
    let words = "doorbell.forward=1 doorbell.app=ours";
    let mut machine = boot(&["platform.nics=2"], words, "pause ready\ncounters\n", &[&pcaps[0], &pcaps[1]]);
    run_to_pause(&mut machine, "ready");
    let traffic = |source: [u8; 4], destination: [u8; 4]| TrafficConfig {
        rate: Rate::Frames(50_000),
        frame_size: Bytes(200),
        frames: Some(500),
        source_ip: source.into(),
        destination_ip: destination.into(),
        returned: Returned::Routed,
        ..TrafficConfig::default()
    };
    machine.begin_window();
    machine.start_traffic_at(0, &traffic([10, 0, 0, 1], [10, 0, 1, 1])).unwrap();
    machine.start_traffic_at(1, &traffic([10, 0, 1, 1], [10, 0, 0, 1])).unwrap();
    run_for(&mut machine, Ps::from_ms(30));
    machine.end_window();
    assert_eq!(crossed(&machine), [(500, 500, 500); 2]);
    for port in machine.ports() {
        let stats = port.loadgen.stats();
        assert_eq!((stats.returned, stats.corrupt, stats.foreign), (500, 0, 0), "{stats:?}");
        assert_eq!(stats.arp_answered, 1, "the kernel resolves the next hop once");
        let latency = port.loadgen.summary(machine.now()).unwrap().latency_ns.unwrap();
        assert!(latency.frames == 500 && latency.min > 3_000.0 && latency.max < 1e6, "{latency:?}");
    }
    resume(&mut machine);
    let console = run(&mut machine);
    assert_eq!(number(&console, "Ip:ForwDatagrams"), 1_000, "{console}");
    finish_captures(&mut machine);
    let mac = |port: usize| machine.config().nic.mac_of(port).to_string();
    check_route(&pcaps[0], &pcaps[1], "10.0.1.1", 500, &mac(1), "02:00:00:00:00:02");
    check_route(&pcaps[1], &pcaps[0], "10.0.0.1", 500, &mac(0), "02:00:00:00:00:01");
}
