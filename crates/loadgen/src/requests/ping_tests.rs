use super::*;
use crate::config::{Kind, LoadGenConfig};
use crate::testbench::Bench;
use crate::{Arrivals, LoadGenStats, ResponderConfig};
use doorbell_sim::{Bytes, Frame, Ps};
use doorbell_wire::LinkConfig;

/// The far end is another generator's responder.
fn respond(_: u64, frame: Frame) -> Vec<(Ps, Frame)> {
    let responder = crate::responder::Responder::new(&ResponderConfig::default(), 1).unwrap();
    let station = MacAddr([2, 0, 0, 0, 0, 2]);
    responder.answer(station, &frame.bytes).into_iter().map(|(_, answer)| (Ps::from_us(2), answer)).collect()
}

fn traffic(frame_size: u64) -> TrafficConfig {
    TrafficConfig {
        kind: Kind::Ping,
        rate: "100kpps".parse().unwrap(),
        frame_size: Bytes(frame_size),
        frames: Some(1_000),
        source_ip: Ipv4Addr::new(10, 0, 1, 9),
        destination_ip: Ipv4Addr::new(10, 0, 1, 1),
        arrivals: Arrivals::Constant,
        ..TrafficConfig::default()
    }
}

fn bench(traffic: TrafficConfig) -> Bench {
    let link: LinkConfig = toml::from_str("rate = \"10Gbps\"\nlatency = \"1us\"").unwrap();
    let responder = ResponderConfig { enabled: false, ..ResponderConfig::default() };
    Bench::with_config(link, LoadGenConfig { traffic, responder, ..LoadGenConfig::default() }, respond)
}

#[test]
fn echo_of_any_size_returns_with_the_latency_of_links_and_machine() {
    for size in [64, 65, 100, 1518] {
        let mut bench = bench(traffic(size));
        bench.generator.begin_window(Ps::ZERO);
        bench.start();
        bench.run();
        let expected = LoadGenStats {
            sent: 1_000,
            received: 1_001,
            returned: 1_000,
            arp_asked: 1,
            arp_replies: 1,
            ..LoadGenStats::default()
        };
        assert_eq!(*bench.generator.stats(), expected);
        let latency = bench.generator.summary(Ps::from_ms(1)).unwrap().latency_ns.unwrap();
        let frame_ns = (size + 8) as f64 * 0.8;
        assert!(
            (latency.min - (4_000.0 + 2.0 * frame_ns)).abs() < 1.0 && latency.max == latency.min,
            "{latency:?}"
        );
    }
}

#[test]
fn changed_reply_is_corrupt() {
    let traffic = TrafficConfig { destination: MacAddr([2, 0, 0, 0, 0, 2]), ..traffic(100) };
    let ping = Ping::new(&traffic, 3, 77);
    let mut request = Vec::new();
    ping.make(0x1_0005, &mut request);
    assert_eq!(request[34..36], [8, 0]);
    assert_eq!(request[38..42], [0, 3, 0, 5], "identifier and sequence number");
    assert_eq!(Sum::new().plus(&request[34..]).finish(), 0);
    assert_eq!(ping.check(0x1_0005, &request), Err(Mismatch::Addresses), "the request itself");
    let (_, answer) = respond(0, Frame::new(request)).remove(0);
    assert_eq!(ping.check(0x1_0005, &answer.bytes), Ok(()));
    assert_eq!(ping.check(0x2_0005, &answer.bytes), Err(Mismatch::Headers), "another one's checksum");
    for (at, expected) in [
        (5, Mismatch::Addresses),
        (6, Mismatch::Addresses),
        (29, Mismatch::Addresses),
        (22, Mismatch::Headers),
        (34, Mismatch::Headers),
        (41, Mismatch::Headers),
        (42, Mismatch::Payload),
        (95, Mismatch::Payload),
    ] {
        let mut changed = answer.bytes.clone();
        changed[at] ^= 1;
        assert_eq!(ping.check(0x1_0005, &changed), Err(expected), "byte {at}");
    }
    assert_eq!(ping.check(0x1_0005, &answer.bytes[..95]), Err(Mismatch::Length));
}

#[test]
fn arp_request_is_repeated_until_answered() {
    let mut bench = bench(traffic(64));
    bench.machine = |n, frame| if n < 3 { Vec::new() } else { respond(n, frame) };
    bench.start();
    bench.run_until(Ps::from_ms(29));
    assert!(bench.generator.is_resolving() && bench.generator.stats().arp_asked == 3);
    bench.run();
    assert_eq!((bench.generator.stats().arp_asked, bench.generator.stats().returned), (4, 1_000));
    let mut silent = bench.clone();
    silent.machine = |_, _| Vec::new();
    silent.start();
    silent.run_until(silent.queue.now() + Ps::from_ms(25));
    silent.generator.stop(silent.queue.now());
    silent.run();
    assert!(!silent.generator.is_resolving() && silent.generator.stats().sent == 1_000);
}
