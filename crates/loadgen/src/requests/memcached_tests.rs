use super::*;
use crate::config::{Kind, LoadGenConfig};
use crate::testbench::Bench;
use crate::{Arrivals, LoadGenStats, TrafficConfig};
use doorbell_sim::{Bytes, Frame, Ps};
use doorbell_wire::LinkConfig;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

const SERVER_MAC: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
const SERVER_IP: [u8; 4] = [10, 0, 0, 2];
const PROCESSING: Ps = Ps::from_us(3);

fn traffic(kind: Kind) -> TrafficConfig {
    TrafficConfig {
        kind,
        rate: "1Mpps".parse().unwrap(),
        source_ip: Ipv4Addr::new(10, 0, 0, 1),
        destination_ip: SERVER_IP.into(),
        destination_port: 11211,
        outstanding: Some(4),
        memcached: MemcachedConfig { keys: 50, value: Bytes(33), clients: 3, ..MemcachedConfig::default() },
        arrivals: Arrivals::Constant,
        ..TrafficConfig::default()
    }
}

fn checksum(bytes: &[u8]) -> u16 {
    Sum::new().plus(bytes).finish()
}

/// The reply to an ARP request for the server.
fn arp_reply(request: &[u8]) -> Option<Vec<u8>> {
    (request[12..14] == [8, 6] && request[38..42] == SERVER_IP).then(|| {
        let mut reply = request.to_vec();
        reply[..6].copy_from_slice(&request[6..12]);
        reply[6..12].copy_from_slice(&SERVER_MAC);
        reply[21] = 2;
        reply[22..28].copy_from_slice(&SERVER_MAC);
        reply[28..32].copy_from_slice(&SERVER_IP);
        reply[32..42].copy_from_slice(&request[22..32]);
        reply
    })
}

/// A stateless server: it answers a `get` with the value that a `set` of that key would store.
fn answer(request: &[u8]) -> Vec<u8> {
    answer_of(&traffic(Kind::MemcachedGet).memcached, request)
}

fn answer_of(config: &MemcachedConfig, request: &[u8]) -> Vec<u8> {
    if let Some(reply) = arp_reply(request) {
        return reply;
    }
    let set = Keyspace::new(config, 0, crate::frame::FrameMaker::key(1, 0));
    let values: BTreeMap<String, Vec<u8>> = (0..50)
        .map(|index| {
            let (mut key, mut value) = (Vec::new(), Vec::new());
            set.put_key(index, &mut key);
            set.put_value(index, &mut value);
            (String::from_utf8(key).unwrap(), value)
        })
        .collect();
    let text = std::str::from_utf8(&request[50..]).unwrap();
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let body = match words[..] {
        ["get", key] => {
            let head = format!("VALUE {key} 0 {}\r\n", values[key].len());
            [head.as_bytes(), &values[key], b"\r\nEND\r\n"].concat()
        }
        ["set", key, "0", "0", length, value] => {
            assert_eq!((value.as_bytes(), length.parse()), (&values[key][..], Ok(value.len())));
            b"STORED\r\n".to_vec()
        }
        _ => panic!("not a request: {text}"),
    };
    let mut frame = [&request[..50], &body].concat();
    frame[..12].rotate_left(6);
    frame[26..34].rotate_left(4);
    frame[34..38].rotate_left(2);
    let length = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&length.to_be_bytes());
    frame[24..26].fill(0);
    let sum = checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame[38..40].copy_from_slice(&(length - 20).to_be_bytes());
    frame[40..42].fill(0);
    frame.resize(frame.len().max(60), 0);
    frame
}

fn serve(_: u64, frame: Frame) -> Vec<(Ps, Frame)> {
    vec![(PROCESSING, Frame::new(answer(&frame.bytes)))]
}

/// Drops every 50th frame and answers every 40th late; the first is an ARP request.
fn serve_badly(n: u64, frame: Frame) -> Vec<(Ps, Frame)> {
    match n {
        _ if n.is_multiple_of(50) => Vec::new(),
        _ if n.is_multiple_of(40) => vec![(Ps::from_us(700), Frame::new(answer(&frame.bytes)))],
        _ => serve(n, frame),
    }
}

fn bench(traffic: TrafficConfig, machine: crate::testbench::Machine) -> Bench {
    let link: LinkConfig = toml::from_str("rate = \"10Gbps\"\nlatency = \"1us\"").unwrap();
    Bench::with_config(link, LoadGenConfig { traffic, ..LoadGenConfig::default() }, machine)
}

#[test]
fn sets_store_each_key_once_and_gets_return_it() {
    for kind in [Kind::MemcachedSet, Kind::MemcachedGet] {
        let mut bench = bench(TrafficConfig { frames: Some(50), ..traffic(kind) }, serve);
        bench.tap = Some(Vec::new());
        bench.generator.begin_window(Ps::ZERO);
        bench.start();
        assert!(bench.generator.is_resolving());
        bench.run();
        let expected = LoadGenStats {
            sent: 50,
            received: 51,
            returned: 50,
            arp_asked: 1,
            arp_replies: 1,
            ..Default::default()
        };
        assert_eq!(*bench.generator.stats(), expected, "{kind:?}");
        bench.generator.assert_conservation();
        let frames = bench.tap.take().unwrap();
        let keys: std::collections::BTreeSet<&[u8]> =
            frames[1..].iter().map(|(_, f)| &f.bytes[54..70]).collect();
        assert_eq!(keys.len() == 50, kind == Kind::MemcachedSet, "{} different keys", keys.len());
        for (_, frame) in &frames[1..] {
            let (_, packet, datagram) = datagram(&frame.bytes).unwrap();
            let ip = packet.header();
            assert!(ipv4::checksum_is_right(&ip));
            assert!(udp::checksum_is_right(&datagram, ip.source_addr(), ip.destination_addr()));
        }
    }
}

/// Facebook's lengths, and every third request sets its key.
fn mixed() -> MemcachedConfig {
    let text =
        "keys = 50\nlengths = \"etc\"\npopularity = { zipf = { skew = 0.9 } }\nsets = 0.333333\nclients = 5";
    toml::from_str(text).unwrap()
}

#[test]
fn mixed_requests_of_varying_length_count_their_own_bytes() {
    let traffic = TrafficConfig { memcached: mixed(), frames: Some(3_000), ..traffic(Kind::MemcachedGet) };
    let mut bench =
        bench(traffic, |_, frame| vec![(PROCESSING, Frame::new(answer_of(&mixed(), &frame.bytes)))]);
    bench.tap = Some(Vec::new());
    bench.generator.begin_window(Ps::ZERO);
    bench.start();
    bench.run();
    let summary = bench.generator.summary(bench.queue.now()).unwrap();
    assert_eq!((summary.frames_offered, summary.frames_delivered, summary.frames_corrupt), (3_000, 3_000, 0));
    let frames = bench.tap.take().unwrap();
    let requests = || frames[1..].iter().map(|(_, frame)| &frame.bytes);
    let sets = requests().filter(|bytes| bytes[50..].starts_with(b"set ")).count();
    assert!((850..1_150).contains(&sets), "{sets} sets");
    let ports: std::collections::BTreeSet<&[u8]> = requests().map(|bytes| &bytes[34..36]).collect();
    assert_eq!(ports.len(), 5, "one port per client");
    // The volume is the bytes sent, with FCS; the configured mean length is close to it.
    let sent: u64 = requests().map(|bytes| bytes.len() as u64 + 4).sum();
    let (offered, ..) = bench.generator.measurement().unwrap().volumes();
    assert_eq!(offered.bytes_l2, sent);
    let mean = bench.generator.traffic().frame_len() as f64 + 4.0;
    assert!((sent as f64 / 3_000.0 / mean - 1.0).abs() < 0.25, "{} and {mean}", sent as f64 / 3_000.0);
}

#[test]
fn each_key_belongs_to_one_shard_and_replies_from_other_ports_are_corrupt() {
    let sharded = MemcachedConfig { shards: 3, ..traffic(Kind::MemcachedGet).memcached };
    let traffic = TrafficConfig { memcached: sharded, frames: Some(300), ..traffic(Kind::MemcachedGet) };
    let run = |machine: crate::testbench::Machine| {
        let mut bench = bench(traffic.clone(), machine);
        bench.tap = Some(Vec::new());
        bench.generator.begin_window(Ps::ZERO);
        bench.start();
        bench.run();
        bench
    };
    let mut right = run(serve);
    assert_eq!((right.generator.stats().returned, right.generator.stats().corrupt), (300, 0));
    let frames = right.tap.take().unwrap();
    let keys_by_port: std::collections::BTreeSet<(&[u8], u16)> = frames[1..]
        .iter()
        .map(|(_, frame)| (&frame.bytes[54..70], u16::from_be_bytes([frame.bytes[36], frame.bytes[37]])))
        .collect();
    let of = |port| keys_by_port.iter().filter(|(_, keys_by_port)| *keys_by_port == port).count();
    assert_eq!([11211, 11212, 11213].map(of), [17, 17, 16], "50 keys, each at one port");
    let moved = run(|_, frame| {
        let mut bytes = answer(&frame.bytes);
        if bytes[12..14] == [8, 0] {
            // Another server's port, with the UDP checksum disabled.
            bytes[35] = if bytes[35] == 0xcb { 0xcc } else { 0xcb };
        }
        vec![(PROCESSING, Frame::new(bytes))]
    });
    assert_eq!((moved.generator.stats().returned, moved.generator.stats().corrupt), (0, 300));
}

#[test]
fn outstanding_limit_holds_and_waiting_counts_as_latency() {
    // Each takes at least 5 µs, one is due per microsecond, and four may be in flight.
    let mut bench = bench(TrafficConfig { frames: Some(100), ..traffic(Kind::MemcachedGet) }, serve);
    bench.generator.begin_window(Ps::ZERO);
    bench.start();
    while bench.step(Ps::MAX) {
        assert!(bench.generator.outstanding() <= 4);
    }
    let summary = bench.generator.summary(bench.queue.now()).unwrap();
    assert_eq!((summary.frames_offered, summary.frames_delivered), (100, 100));
    let (due, sent) = (summary.latency_ns.unwrap(), summary.latency_from_actual_ns.unwrap());
    assert!((5_000.0..5_400.0).contains(&sent.max), "{sent:?}");
    // They leave in groups of four, one microsecond apart. The last of the 25th group was due at 99 µs.
    assert!((3_000.0 + 25.0 * sent.mean - 99_000.0 - due.max).abs() < 1.0, "{due:?} {sent:?}");
}

#[test]
fn lost_requests_time_out_and_later_replies_are_late() {
    let traffic = TrafficConfig {
        frames: Some(1_000),
        timeout: Ps::from_us(100),
        outstanding: Some(1),
        ..traffic(Kind::MemcachedGet)
    };
    let mut bench = bench(traffic, serve_badly);
    bench.generator.begin_window(Ps::ZERO);
    bench.start();
    bench.run();
    let stats = bench.generator.stats().clone();
    // The server received frames 0 to 1001: a lost ARP request, its retry, and 1000 requests.
    assert_eq!((stats.arp_asked, stats.arp_replies, stats.sent), (2, 1, 1_000));
    assert_eq!(
        stats.timed_out,
        20 + 25 - 5,
        "of the numbers up to 1001, 20 requests are lost and 20 are late"
    );
    assert_eq!((stats.late, stats.returned, stats.corrupt), (20, 960, 0));
    let summary = bench.generator.summary(bench.queue.now()).unwrap();
    assert_eq!((summary.frames_lost, summary.frames_timed_out), (40, 40));
    bench.generator.assert_conservation();
}

#[test]
fn checkpoint_with_waiting_requests_changes_nothing() {
    let traffic =
        TrafficConfig { frames: Some(300), timeout: Ps::from_us(50), ..traffic(Kind::MemcachedGet) };
    for at in [500, 40_000, 10_030_000, 10_100_000] {
        let mut whole = bench(traffic.clone(), serve_badly);
        whole.start();
        whole.run_until(Ps::from_ns(at));
        let mut resumed = whole.clone();
        resumed.generator = bench(TrafficConfig::default(), serve).generator;
        let bytes = postcard::to_stdvec(&whole.generator.save()).unwrap();
        resumed.generator.restore(postcard::from_bytes(&bytes).unwrap()).unwrap();
        whole.run();
        resumed.run();
        assert_eq!(resumed.generator.save(), whole.generator.save(), "saved at {at} ns");
        assert!(whole.generator.stats().timed_out > 0);
    }
}

#[test]
fn changed_reply_is_corrupt() {
    let traffic = TrafficConfig { destination: MacAddr(SERVER_MAC), ..traffic(Kind::MemcachedGet) };
    let maker = Memcached::new(&traffic, Operation::Get, 0, crate::frame::FrameMaker::key(1, 0));
    let mut request = Vec::new();
    maker.make(7, &mut request);
    let good = answer(&request);
    assert_eq!((maker.read(8, &good), maker.check(7, &good)), (Some(7), Ok(())));
    // Seven is client 1's request 2; if that was not sent, no request matches.
    assert_eq!(maker.read(7, &good), Some(u64::MAX), "never sent");
    assert_eq!(maker.read(8 + 3 * 65_536, &good), Some(7 + 3 * 65_536), "the latest with that ID");
    for (at, expected) in [
        (0, Mismatch::Addresses),
        (6, Mismatch::Addresses),
        (22, Mismatch::Headers),
        (43, Mismatch::Headers),
        (60, Mismatch::Payload),
        (good.len() - 1, Mismatch::Payload),
    ] {
        let mut changed = good.clone();
        changed[at] ^= 1;
        assert_eq!(maker.check(7, &changed), Err(expected), "byte {at}");
    }
    for at in [12, 29, 35, 36] {
        let mut changed = good.clone();
        changed[at] ^= 0x40;
        assert_eq!(maker.read(8, &changed), None, "byte {at}: not the server's");
    }
    let mut without_length = good.clone();
    without_length[38..40].fill(0);
    assert_eq!(maker.check(7, &without_length), Err(Mismatch::Headers));
}
