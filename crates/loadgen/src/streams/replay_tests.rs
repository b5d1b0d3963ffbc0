use super::*;
use crate::config::{ConfigError, LoadGenConfig};
use crate::generator::LoadGen;
use crate::testbench::{Bench, Machine, swap};
use doorbell_wire::PcapFile;
use doorbell_wire::pcap::WHOLE_FRAMES;
use std::path::PathBuf;

struct CaptureDir(tempfile::TempDir);

impl CaptureDir {
    /// A capture of packets at these times in nanoseconds.
    fn with(packets: &[(u64, Vec<u8>)]) -> CaptureDir {
        let dir = CaptureDir(tempfile::tempdir().unwrap());
        let mut file = PcapFile::create(&dir.path(), WHOLE_FRAMES).unwrap();
        packets.iter().for_each(|(at, bytes)| file.record(Ps::from_ns(*at), &Frame::new(bytes.clone())));
        file.finish().unwrap();
        dir
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("in.pcap")
    }

    fn traffic(&self, stream: &str, around: &str) -> TrafficConfig {
        let text = format!("{around}\n[[streams]]\ncapture = \"{}\"\n{stream}", self.path().display());
        let traffic: TrafficConfig = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(traffic.validate(), Ok(()));
        traffic
    }

    fn bench(&self, stream: &str, machine: Machine) -> Bench {
        let link = LinkConfig { latency: Ps::from_us(2), ..LinkConfig::default() };
        let mut bench = Bench::new(link, self.traffic(stream, ""), machine);
        bench.tap = Some(Vec::new());
        bench.generator.begin_window(Ps::ZERO);
        bench.start();
        bench.run();
        bench.generator.end_window(bench.queue.now());
        bench.generator.assert_conservation();
        bench
    }
}

/// A UDP packet whose contents are unique to its number.
fn udp(number: u16, payload: usize) -> Vec<u8> {
    let mut bytes = vec![0x52, 0x54, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0];
    let mut header = vec![0x45, 0];
    header.extend((28 + payload as u16).to_be_bytes());
    header.extend(number.to_be_bytes());
    header.extend([0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    crate::responder::put_checksum(&mut header, 10);
    bytes.extend(header);
    bytes.extend([0x10, 0, 0, 53]);
    bytes.extend((8 + payload as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.resize(bytes.len() + payload, number as u8);
    bytes
}

fn sent(bench: &Bench) -> Vec<(u64, Vec<u8>)> {
    bench.tap.as_ref().unwrap().iter().map(|(at, frame)| (at.0, frame.bytes.clone())).collect()
}

fn ten() -> Vec<(u64, Vec<u8>)> {
    (0..10).map(|n| (1_000 + 700 * n + n * n, udp(n as u16, 30 + n as usize))).collect()
}

#[test]
fn packets_are_sent_unchanged_at_their_timestamps_and_matched_on_return() {
    let packets = ten();
    let dir = CaptureDir::with(&packets);
    for (speed, factor) in [("1", 1), ("0.5", 2)] {
        let bench = dir.bench(&format!("replay = {{ speed = {speed} }}\nreturned = \"macswap\""), swap);
        let expected: Vec<(u64, Vec<u8>)> =
            packets.iter().map(|(at, bytes)| ((at - 1_000) * factor * 1_000, bytes.clone())).collect();
        assert_eq!(sent(&bench), expected);
        let summary = bench.generator.summary(Ps::ZERO).unwrap();
        assert_eq!((summary.frames_delivered, summary.frames_reordered, summary.frames_foreign), (10, 0, 0));
        let latency = summary.streams[0].latency_ns.unwrap();
        assert_eq!(latency.frames, 10);
        // Twice the first packet's 72 bytes and 12 more at 0.08 ns each, and twice 2 µs.
        assert!((latency.min - 2.0 * (2_000.0 + 84.0 * 0.08)).abs() < 1.0, "{}", latency.min);
        let stats = summary.streams[0].replay.clone().unwrap();
        assert_eq!(stats, ReplayStats { packets: 10, length_ns: 6_381, ..ReplayStats::default() });
    }
}

#[test]
fn capture_is_repeated_limited_and_sent_at_a_rate() {
    let dir = CaptureDir::with(&ten());
    let bench = dir.bench("replay = { times = 3 }", swap);
    let times: Vec<u64> = sent(&bench).iter().map(|(at, _)| *at).collect();
    // 6381 ns plus the mean interval of 709 ns.
    assert_eq!(
        (times.len(), times[10], times[20] - times[10], times[19] - times[10]),
        (30, 7_090_000, 7_090_000, 6_381_000)
    );
    let bench = dir.bench("replay = { times = 0 }\nduration = \"100us\"", swap);
    assert_eq!(bench.generator.stats().sent, 142, "14 passes, and 2 packets of the 15th");
    let bench = dir
        .bench("rate = \"5Mpps\"\narrivals = \"constant\"\nreplay = { timing = \"rate\", times = 2 }", swap);
    let times: Vec<u64> = sent(&bench).iter().map(|(at, _)| *at).collect();
    assert_eq!(times, (0..20).map(|n| n * 200_000).collect::<Vec<_>>());
    let bench = dir.bench(
        "frames = 500\nrate = \"10%\"\narrivals = \"poisson\"\nreplay = { timing = \"rate\", times = 0 }",
        swap,
    );
    assert_eq!(bench.generator.stats().returned, 500);
    // A total scales the timestamps: ten packets in 7.09 µs are 1.41 Mpps.
    let traffic = dir.traffic("", "total = \"14.104372Mpps\"");
    let mut bench = Bench::new(LinkConfig::default(), traffic, swap);
    bench.tap = Some(Vec::new());
    bench.start();
    bench.run();
    let times: Vec<u64> = sent(&bench).iter().map(|(at, _)| *at).collect();
    assert!(times[9].abs_diff(638_100) < 2_000, "{}", times[9]);
}

#[test]
fn packets_that_cannot_be_sent_unchanged_are_counted() {
    let mut packets = ten();
    packets[3].0 = 50;
    packets.push((9_000, udp(77, 1_600)));
    packets.push((9_100, vec![1; 20]));
    let dir = CaptureDir::with(&packets);
    let bench = dir.bench("replay = { largest = \"1518B\" }", swap);
    let stats = bench.generator.summary(Ps::ZERO).unwrap().streams[0].replay.clone().unwrap();
    assert_eq!(
        stats,
        ReplayStats {
            packets: 11,
            oversize: 1,
            padded: 1,
            backward: 1,
            length_ns: 8_100,
            ..ReplayStats::default()
        }
    );
    let sent = sent(&bench);
    assert!((1..10_000).contains(&(sent[3].0 - sent[2].0)), "as soon as the previous one has left");
    assert_eq!(sent[10].1.len(), 60);
    // A file truncated in a packet, and a packet captured only in part.
    let whole = std::fs::read(dir.path()).unwrap();
    std::fs::write(dir.path(), &whole[..whole.len() - 5]).unwrap();
    let stats = dir.bench("", swap).generator.summary(Ps::ZERO).unwrap().streams[0].replay.clone().unwrap();
    assert_eq!((stats.packets, stats.incomplete), (11, 1));
    let mut short = whole.clone();
    short[24 + 12..24 + 16].copy_from_slice(&100u32.to_le_bytes());
    std::fs::write(dir.path(), &short).unwrap();
    for (truncated, first) in [("pad", 100), ("cut", 72), ("skip", 73)] {
        let bench = dir.bench(&format!("replay = {{ truncated = \"{truncated}\" }}"), swap);
        assert_eq!(bench.tap.as_ref().unwrap()[0].1.bytes.len(), first, "{truncated}");
        let stats = bench.generator.summary(Ps::ZERO).unwrap().streams[0].replay.clone().unwrap();
        assert_eq!(stats.truncated, 1);
    }
}

#[test]
fn packets_without_an_ethernet_header_get_one() {
    let dir = CaptureDir(tempfile::tempdir().unwrap());
    let mac = [2, 0, 0, 0, 0, 0x77];
    let put = |link: u32, head: &[u8]| {
        let words = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, link];
        let mut file: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for (second, packet) in (0..).zip([udp(1, 40), udp(2, 40)]) {
            let packet = [head, &packet[14..]].concat();
            let words = [0, second, packet.len() as u32, packet.len() as u32];
            file.extend(words.iter().flat_map(|word: &u32| word.to_le_bytes()));
            file.extend(packet);
        }
        std::fs::write(dir.path(), file).unwrap();
    };
    let (nic, generator) = ([0x52, 0x54, 0, 0x12, 0x34, 0x56], TrafficConfig::default().source.0);
    let cooked = [&[0, 0, 0, 1, 0, 6][..], &mac, &[0, 0, 8, 0]].concat();
    let own =
        "replay = { ethernet = { source = \"02:00:00:00:00:33\", destination = \"02:00:00:00:00:44\" } }";
    let of_stream = "source = \"02:00:00:00:00:55\"\n";
    for (link, head, stream, destination, source) in [
        (101, &[][..], "", nic, generator),
        (113, &cooked, "", nic, mac),
        (113, &cooked, own, [2, 0, 0, 0, 0, 0x44], [2, 0, 0, 0, 0, 0x33]),
        (113, &cooked, "replay = { stations = \"traffic\" }", nic, generator),
        (0, &[2, 0, 0, 0], &format!("{of_stream}{own}"), [2, 0, 0, 0, 0, 0x44], [2, 0, 0, 0, 0, 0x55]),
    ] {
        put(link, head);
        let bench = dir.bench(stream, swap);
        let frames =
            [udp(1, 40), udp(2, 40)].map(|packet| [&destination[..], &source, &packet[12..]].concat());
        let sent: Vec<Vec<u8>> = sent(&bench).into_iter().map(|(_, bytes)| bytes).collect();
        assert_eq!(sent, frames, "{link} {stream}");
        let summary = bench.generator.summary(Ps::ZERO).unwrap();
        let stats = summary.streams[0].replay.clone().unwrap();
        assert_eq!((stats.header_made, stats.other_links, summary.frames_delivered), (2, 0, 2));
    }
}

#[test]
fn packets_before_and_after_the_window_are_counted() {
    let dir = CaptureDir::with(&ten());
    let count = |stream: &str, from: u64, to: u64| {
        let mut bench = Bench::new(LinkConfig::default(), dir.traffic(stream, ""), swap);
        if from > 0 {
            bench.start();
            bench.run_until(Ps::from_ns(from));
        }
        bench.generator.begin_window(Ps::from_ns(from));
        if from == 0 {
            bench.start();
        }
        bench.run_until(Ps::from_ns(to));
        bench.generator.end_window(Ps::from_ns(to));
        let saved = bench.generator.save();
        let stream = bench.generator.summary(Ps::ZERO).unwrap().streams[0].clone();
        let replay = stream.replay.unwrap();
        // The state round-trips through a snapshot.
        let mut snapshot = doorbell_sim::snapshot::Snapshot::new();
        snapshot.put("loadgen", crate::LoadGenState::VERSION, &saved);
        let restored = snapshot.get::<crate::LoadGenState>("loadgen", crate::LoadGenState::VERSION).unwrap();
        assert!(postcard::to_stdvec(&restored) == postcard::to_stdvec(&saved));
        (replay.sent_before, stream.frames_offered, replay.not_sent)
    };
    // Due at 0, 701, 1404, 2109 … 6381 ns.
    assert_eq!(count("", 1_000, 1_500), (2, 1, 7));
    assert_eq!(count("", 0, 100_000), (0, 10, 0));
    assert_eq!(count("replay = { times = 3 }", 1_000, 1_500), (2, 1, 27));
    assert_eq!(count("frames = 5", 1_000, 1_500), (2, 1, 2));
    assert_eq!(count("replay = { times = 0 }", 1_000, 1_500), (2, 1, 7), "of the first pass");
    assert_eq!(count("replay = { times = 0 }", 8_000, 9_000).2, 0);
    // Out of range: the second packet is five years after the first.
    let dir = CaptureDir::with(&[(0, udp(1, 40)), (0, udp(2, 40))]);
    let mut file = std::fs::read(dir.path()).unwrap();
    let second = 24 + 16 + udp(1, 40).len();
    file[second..second + 4].copy_from_slice(&157_680_000u32.to_le_bytes());
    std::fs::write(dir.path(), file).unwrap();
    let bench = dir.bench("", swap);
    let stream = bench.generator.summary(Ps::ZERO).unwrap().streams[0].clone();
    let replay = stream.replay.unwrap();
    assert_eq!((stream.frames_offered, replay.not_sent, replay.length_ns), (1, 1, 157_680_000_000_000_000));
}

#[test]
fn packets_are_filtered_and_their_addresses_rewritten() {
    let mut packets = ten();
    packets[4].1[14 + 9] = 6;
    packets[5].1[14 + 20 + 3] = 80;
    packets[6].1[14 + 12] = 11;
    packets[7].1[12..14].copy_from_slice(&[0x86, 0xdd]);
    let dir = CaptureDir::with(&packets);
    let numbers = |only: &str| -> Vec<u8> {
        let bench = dir.bench(&format!("replay = {{ only = {{ {only} }} }}"), swap);
        sent(&bench).iter().map(|(_, bytes)| bytes[19]).collect()
    };
    assert_eq!(numbers("protocol = \"tcp\""), [4]);
    assert_eq!(numbers("port = 80"), [5]);
    assert_eq!(numbers("net = \"11.0.0.0/8\""), [6]);
    assert_eq!(
        numbers("network = \"ipv4\", protocol = \"udp\", port = 53, net = \"10.0.0.1\""),
        [0, 1, 2, 3, 8, 9]
    );
    let bench = dir.bench(
        "source = \"02:00:00:00:00:33\"\nreplay = { stations = \"traffic\", source_net = \"172.16.0.0/12\", only = { net = \"10.0.0.1\" } }",
        swap,
    );
    let (_, first) = &sent(&bench)[0];
    assert_eq!(first[..12], [0x52, 0x54, 0, 0x12, 0x34, 0x56, 2, 0, 0, 0, 0, 0x33]);
    assert_eq!(first[26..34], [172, 16, 0, 1, 10, 0, 0, 2]);
    assert_eq!(doorbell_wire::checksum::Sum::new().plus(&first[14..34]).finish(), 0);
    assert_eq!(bench.generator.stats().returned, 8);
}

#[test]
fn identical_packets_have_a_latency_only_if_the_match_is_unique() {
    // The same packet every microsecond, with a round trip of four microseconds: four are in flight at a
    // time.
    let dir = CaptureDir::with(&[(0, udp(1, 40)), (1_000, udp(1, 40))]);
    let bench = dir.bench("replay = { times = 10 }", swap);
    let summary = bench.generator.summary(Ps::ZERO).unwrap();
    assert_eq!((summary.frames_delivered, summary.frames_foreign), (20, 0));
    assert_eq!(summary.latency_ns.unwrap().frames, 1, "the last one, when no other is in flight");
    // Two packets in turn, one of each in flight at a time; the machine drops the third of the first packet.
    let dir = CaptureDir::with(&[(0, udp(1, 40)), (3_000, udp(2, 40))]);
    let bench =
        dir.bench("replay = { times = 10 }", |n, frame| if n == 4 { Vec::new() } else { swap(n, frame) });
    let summary = bench.generator.summary(Ps::ZERO).unwrap();
    let latency = summary.latency_ns.unwrap();
    assert_eq!((summary.frames_delivered, summary.frames_lost, latency.frames), (19, 1, 19));
    assert!(latency.max < 4_100.0, "the lost packet's send time is not used: {}", latency.max);
}

#[test]
fn changed_packet_is_foreign_and_wrong_mac_addresses_are_corrupt() {
    let dir = CaptureDir::with(&ten());
    let bench = dir.bench("returned = \"io\"", |n, mut frame| {
        match n {
            2 => frame.bytes[40] ^= 1,
            3 => frame.bytes[..12].rotate_left(6),
            _ => {}
        }
        vec![(Ps::ZERO, frame)]
    });
    let stats = bench.generator.stats();
    assert_eq!((stats.returned, stats.foreign, stats.corrupt_addresses), (8, 1, 1));
    assert_eq!(bench.generator.summary(Ps::ZERO).unwrap().streams[0].frames_lost, 1);
}

#[test]
fn routed_packet_is_matched_despite_its_ttl() {
    let dir = CaptureDir::with(&ten());
    let bench = dir.bench("returned = \"routed\"", |_, mut frame| {
        frame.bytes[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        frame.bytes[6..12].copy_from_slice(&[0x52, 0x54, 0, 0, 0, 1]);
        frame.bytes[22] -= 1;
        crate::responder::put_checksum(&mut frame.bytes[14..34], 10);
        vec![(Ps::ZERO, frame)]
    });
    assert_eq!(bench.generator.stats().returned, 10);
}

#[test]
fn capture_of_own_frames_is_matched_by_content_not_signature() {
    let own = Bench::new(
        LinkConfig::default(),
        TrafficConfig { frames: Some(20), ..TrafficConfig::default() },
        swap,
    );
    let mut own = Bench { tap: Some(Vec::new()), ..own };
    own.start();
    own.run();
    let packets: Vec<(u64, Vec<u8>)> =
        own.tap.unwrap().into_iter().map(|(at, frame)| (at.0 / 1_000, frame.bytes)).collect();
    let dir = CaptureDir::with(&packets);
    let bench = dir.bench("replay = { times = 2 }", swap);
    let stats = bench.generator.stats();
    assert_eq!((stats.returned, stats.duplicates, stats.never_sent, stats.corrupt), (40, 0, 0, 0));
}

#[test]
fn restored_replay_continues_as_the_original_and_needs_the_same_file() {
    let dir = CaptureDir::with(&ten());
    let stream =
        "replay = { times = 20 }\nreturned = \"macswap\"\n[[streams]]\nrate = \"2Mpps\"\nframes = 300";
    let traffic = dir.traffic(stream, "");
    for steps in [0, 1, 7, 100, 333, 900] {
        let mut bench =
            Bench::new(LinkConfig { frame_loss: 0.05, ..LinkConfig::default() }, traffic.clone(), swap);
        bench.start();
        bench.generator.begin_window(Ps::ZERO);
        (0..steps).for_each(|_| _ = bench.step(Ps::MAX));
        let state = bench.generator.save();
        let mut copy = bench.clone();
        copy.generator = LoadGen::new(0, 9, &LoadGenConfig::default(), bench.there.config()).unwrap();
        copy.generator.restore(state.clone()).unwrap();
        assert_eq!(copy.generator.save(), bench.generator.save());
        for bench in [&mut bench, &mut copy] {
            bench.run();
        }
        assert_eq!(copy.generator.save(), bench.generator.save());
        assert_eq!(bench.generator.stats().sent, 500);
    }
    // Before the traffic has started, no file is needed.
    let mut idle = LoadGen::new(0, 9, &LoadGenConfig::default(), &LinkConfig::default()).unwrap();
    idle.set_traffic(traffic.clone()).unwrap();
    assert_eq!(idle.save().traffic().streams, []);
    let mut bench = Bench::new(LinkConfig::default(), traffic.clone(), swap);
    bench.start();
    bench.run_until(Ps::from_us(3));
    let state = bench.generator.save();
    let other = CaptureDir::with(&ten()[1..]);
    std::fs::copy(other.path(), dir.path()).unwrap();
    let mut fresh = LoadGen::new(0, 9, &LoadGenConfig::default(), bench.there.config()).unwrap();
    let error = fresh.restore(state.clone()).unwrap_err().to_string();
    assert!(error.contains("capture of a stream has changed"), "{error}");
    std::fs::remove_file(dir.path()).unwrap();
    let error = fresh.restore(state).unwrap_err().to_string();
    assert!(error.contains("streams[0].capture: cannot read"), "{error}");
    assert!(matches!(fresh.set_traffic(traffic), Err(ConfigError::Stream(0, _))));
    // The traffic cannot start again without the file; the current run is not disturbed.
    bench.run();
    let sent = bench.generator.stats().sent;
    bench.start();
    bench.run();
    assert_eq!((bench.generator.stats().sent, bench.generator.is_sending()), (sent, false));
}

#[test]
fn settings_in_conflict_with_a_capture_are_refused_by_key() {
    for (stream, part) in [
        ("size = \"128B\"", "size applies to generated frames"),
        ("vlans = [{ id = 1 }]", "vlans applies to generated frames"),
        ("source_ip = \"10.0.0.1\"", "source_ip or destination_ip applies to generated frames"),
        ("sweeps = [{ field = \"source-port\", count = 2 }]", "sweeps applies to generated frames"),
        ("arrivals = \"poisson\"", "timing = \"rate\""),
        ("source = \"01:00:00:00:00:01\"", "source is a group address"),
        (
            "replay = { ethernet = { source = \"01:00:00:00:00:01\" } }",
            "replay.ethernet.source is a group address",
        ),
        ("replay = { speed = 0 }", "replay.speed is 0"),
        ("replay = { speed = 2, timing = \"rate\" }", "replay.speed needs timing"),
        ("replay = { largest = \"20KiB\" }", "replay.largest is 20KiB"),
        ("arrivals = { pareto = { shape = 1 } }\nreplay = { timing = \"rate\" }", "arrivals: shape is 1"),
    ] {
        let traffic: TrafficConfig =
            toml::from_str(&format!("[[streams]]\ncapture = \"x\"\n{stream}")).unwrap();
        let error = traffic.validate().unwrap_err().to_string();
        assert!(error.starts_with("streams[0].") && error.contains(part), "{error}");
    }
    let traffic: TrafficConfig = toml::from_str("[[streams]]\nreplay = { times = 2 }").unwrap();
    assert!(traffic.validate().unwrap_err().to_string().contains("replay needs a capture file"));
    let dir = CaptureDir::with(&ten());
    let traffic = dir.traffic("replay = { only = { port = 9999 } }", "");
    let config = LoadGenConfig { traffic, ..LoadGenConfig::default() };
    let error = LoadGen::new(0, 1, &config, &LinkConfig::default()).unwrap_err().to_string();
    assert!(error.contains("no packet to send: 10 excluded"), "{error}");
}
