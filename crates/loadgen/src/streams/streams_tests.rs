use super::*;
use crate::arrival::Arrival;
use crate::config::{LoadGenConfig, Returned};
use crate::frame::{Mismatch, Signature};
use crate::generator::LoadGen;
use crate::measure::Summary;
use crate::template::{FlowHeaders, Variations};
use crate::testbench::{Bench, echo, swap};
use doorbell_sim::{Bytes, Frame};
use doorbell_wire::{MacAddr, ipv4};
use etherparse::{EtherType, Ethernet2Slice, Ipv4Slice, Ipv6Slice, TcpSlice, UdpSlice};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Arrivals are constant unless set per stream.
fn traffic(text: &str) -> TrafficConfig {
    let text = format!("arrivals = \"constant\"\n{text}");
    let traffic: TrafficConfig = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(traffic.validate(), Ok(()));
    traffic
}

fn link(rate: &str) -> LinkConfig {
    LinkConfig { rate: rate.parse().unwrap(), latency: Ps::from_us(3), ..LinkConfig::default() }
}

fn sent(link: LinkConfig, traffic: TrafficConfig) -> Bench {
    let mut bench = Bench::new(link, traffic, swap);
    bench.tap = Some(Vec::new());
    bench.generator.begin_window(Ps::ZERO);
    bench.start();
    bench.run();
    bench.generator.end_window(bench.queue.now());
    bench.generator.assert_conservation();
    bench
}

fn frames(bench: &Bench) -> impl Iterator<Item = (Ps, &[u8])> {
    bench.tap.as_ref().unwrap().iter().map(|(at, frame)| (*at, frame.bytes.as_slice()))
}

#[test]
fn frames_to_come_sums_streams_up_to_the_traffic_limit() {
    let two = "[[streams]]\nframes = 3\n[[streams]]\nframes = 4\nsource_port = 2";
    for (frames, to_come) in [("", 7), ("frames = 5\n", 5)] {
        let mut bench = Bench::new(link("100Gbps"), traffic(&format!("{frames}{two}")), swap);
        assert_eq!(bench.generator.frames_to_come(100), 0, "not started");
        bench.start();
        assert_eq!(bench.generator.frames_to_come(100), to_come);
        assert_eq!(bench.generator.frames_to_come(2), 2);
        bench.run();
        assert_eq!(bench.generator.frames_to_come(100), 0);
    }
}

#[test]
fn streams_are_merged_by_due_time() {
    let bench = sent(
        link("100Gbps"),
        traffic(
            "frames = 9\n[[streams]]\nrate = \"1Mpps\"\nsource_port = 1\n[[streams]]\nrate = \"500kpps\"\nsource_port = 2\n\
             [[streams]]\nrate = \"1Mpps\"\nsource_port = 3\nstart_after = \"1500ns\"\nframes = 2",
        ),
    );
    let port = |frame: &[u8]| u16::from_be_bytes([frame[34], frame[35]]);
    let found: Vec<(u64, u16)> = frames(&bench).map(|(at, frame)| (at.0 / 1_000, port(frame))).collect();
    // On a tie the first stream's frame leaves first, the other when the link is free, 6.72 ns later.
    let expected =
        [(0, 1), (6, 2), (1_000, 1), (1_500, 3), (2_000, 1), (2_006, 2), (2_500, 3), (3_000, 1), (4_000, 1)];
    assert_eq!(found, expected);
    let summary = bench.generator.summary(Ps::ZERO).unwrap();
    assert_eq!(summary.streams.iter().map(|stream| stream.frames_offered).collect::<Vec<_>>(), [5, 2, 2]);
    // The second stream's frames were due at the same times as the first one's, so the link wait counts as
    // their latency.
    let latency = |stream: usize| summary.streams[stream].latency_ns.unwrap().min;
    assert!((latency(1) - latency(0) - 6.72).abs() < 1e-9);
}

#[test]
fn bit_and_percent_rates_use_the_mean_size_exactly() {
    let bench =
        sent(link("10Gbps"), traffic("frames = 12001\n[[streams]]\nrate = \"100%\"\nsize = \"imix\""));
    // A round of twelve frames takes the time of its bytes on the line, once the large frames have built a
    // queue.
    let round: u64 = 7 * 84 + 4 * 614 + 1538;
    let times: Vec<Ps> = frames(&bench).map(|(at, _)| at).collect();
    for (n, at) in times.iter().enumerate().skip(24).step_by(12) {
        assert_eq!(at.0, times[24].0 + (n as u64 / 12 - 2) * round * 800, "frame {n}");
    }
    let lag = bench.generator.summary(Ps::ZERO).unwrap().send_lag_ns_max;
    assert!(lag < 2.0 * 1538.0 * 0.8, "{lag}");
    let half =
        sent(link("10Gbps"), traffic("frames = 12001\n[[streams]]\nrate = \"5Gbps-l1\"\nsize = \"imix\""));
    let last = frames(&half).last().unwrap().0;
    assert_eq!(last.0, 1_000 * round * 1_600);
}

#[test]
fn total_rate_scales_all_streams_in_proportion() {
    let streams = "[[streams]]\nrate = \"1Mpps\"\n[[streams]]\nrate = \"3Mpps\"\nsize = \"128B\"\n\
                   [[streams]]\nrate = \"2Mpps\"\nsize = \"256B\"\nramp = { to = \"4Mpps\", over = \"10ns\" }";
    let plain = traffic(streams);
    let counts = |total: &str| {
        let traffic =
            TrafficConfig { duration: Some(Ps::from_ms(1)), ..plain.at_rate(total.parse().unwrap()) };
        let summary = sent(link("100Gbps"), traffic).generator.summary(Ps::ZERO).unwrap();
        summary.streams.iter().map(|stream| stream.frames_offered).collect::<Vec<_>>()
    };
    for (total, expected) in [
        ("1x", [1_000, 3_000, 4_000]),
        ("0.5x", [500, 1_500, 2_000]),
        ("600kpps", [100, 300, 400]),
        // The initial mean of the mix: (64 + 3 · 128 + 2 · 256) / 6 = 160 bytes, 180 on the line.
        ("768Mbps", [100, 300, 400]),
        ("8.64Gbps-l1", [1_000, 3_000, 4_000]),
        ("4.32%", [500, 1_500, 2_000]),
    ] {
        for (found, expected) in counts(total).into_iter().zip(expected) {
            assert!(u64::abs_diff(found, expected) <= 1, "{total}: {found} for {expected}");
        }
    }
    let config = LoadGenConfig { traffic: plain.clone(), ..LoadGenConfig::default() };
    assert_eq!(LoadGen::new(0, 1, &config, &link("100Gbps")).unwrap().mean_frame_size(), Bytes(160));
    assert_eq!(plain.requested_rate().to_string(), "1x");
}

/// All header combinations of streams, each with its smallest frame.
fn all_headers() -> Vec<(String, StreamConfig)> {
    let vlans = |count: u16| (0..count).map(|n| Vlan { id: 100 + n, priority: 5 }).collect::<Vec<_>>();
    let mut all = Vec::new();
    for network in [Network::Ipv4, Network::Ipv6] {
        for transport in [Transport::Udp, Transport::Tcp] {
            for tags in 0..3 {
                let plain = StreamConfig {
                    network: Some(network),
                    transport,
                    vlans: vlans(tags),
                    dscp: 46,
                    ttl: 9,
                    ..StreamConfig::default()
                };
                let size = Sizes::one(Bytes(plain.size_min().0 + u64::from(tags)));
                all.push((format!("{network:?} {transport:?} {tags}"), StreamConfig { size, ..plain }));
            }
        }
    }
    all
}

fn sweep_all_fields(stream: &StreamConfig) -> StreamConfig {
    let mut fields = vec![
        Field::SourceMac,
        Field::DestinationMac,
        Field::SourceIp,
        Field::DestinationIp,
        Field::SourcePort,
        Field::DestinationPort,
    ];
    fields.extend((!stream.vlans.is_empty()).then_some(Field::Vlan));
    let sweep = |(field, count): (Field, u64)| SweepConfig { step: 3, ..SweepConfig::upwards(field, count) };
    StreamConfig { sweeps: fields.into_iter().zip(5..).map(sweep).collect(), ..stream.clone() }
}

/// Checks every field and checksum of a frame with the wire views, independent of the frame builder.
fn assert_frame_is(frame: &[u8], stream: &StreamConfig, index: u64) {
    let swept = |place: usize| index % (5 + place as u64) * 3;
    let low =
        |address: &[u8]| address.iter().rev().take(3).rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    assert_eq!((low(&frame[6..12]), low(&frame[..6])), (1 + swept(0), 0x12_3456 + swept(1)));
    let mut rest = &frame[12..];
    let mut ethertype = || {
        let (kind, after) = rest.split_at(2);
        rest = after;
        u16::from_be_bytes([kind[0], kind[1]])
    };
    for (place, vlan) in stream.vlans.iter().enumerate() {
        let outer = place == 0 && stream.vlans.len() == 2;
        assert_eq!(
            ethertype(),
            if outer { EtherType::PROVIDER_BRIDGING.0 } else { EtherType::VLAN_TAGGED_FRAME.0 }
        );
        let tag = ethertype();
        let inner = place + 1 == stream.vlans.len();
        let id = u64::from(vlan.id) + if inner { swept(6) } else { 0 };
        assert_eq!((u64::from(tag & 0xfff), tag >> 13), (id, 5));
    }
    let kind = ethertype();
    let pseudo_header;
    let transport = if stream.network() == Network::Ipv4 {
        assert_eq!(kind, EtherType::IPV4.0);
        let packet = Ipv4Slice::from_slice(rest).unwrap();
        let ip = packet.header();
        assert!(ipv4::checksum_is_right(&ip));
        assert_eq!((ip.ttl(), ip.dcp().value(), usize::from(ip.total_len())), (9, 46, rest.len()));
        assert_eq!(u64::from(ip.source_addr().to_bits()), 0xc612_0001 + swept(2));
        assert_eq!(u64::from(ip.destination_addr().to_bits()), 0xc612_0101 + swept(3));
        pseudo_header = [ip.source(), ip.destination()].concat();
        packet.payload().payload.to_vec()
    } else {
        assert_eq!(kind, EtherType::IPV6.0);
        let packet = Ipv6Slice::from_slice(rest).unwrap();
        let ip = packet.header();
        let length = usize::from(ip.payload_length()) + 40;
        assert_eq!((ip.hop_limit(), ip.dscp().value(), length), (9, 46, rest.len()));
        let base = |subnet: u128| 0x2001_0002_0000_0000_0000_0000_0000_0001 + (subnet << 64);
        assert_eq!(ip.source_addr().to_bits(), base(0) + u128::from(swept(2)));
        assert_eq!(ip.destination_addr().to_bits(), base(1) + u128::from(swept(3)));
        pseudo_header = [ip.source(), ip.destination()].concat();
        packet.payload().payload.to_vec()
    };
    let (source, destination, protocol) = if stream.transport == Transport::Udp {
        let udp = UdpSlice::from_slice(&transport).unwrap();
        assert_ne!(udp.checksum(), 0);
        (udp.source_port(), udp.destination_port(), 17)
    } else {
        let tcp = TcpSlice::from_slice(&transport).unwrap();
        assert_eq!((tcp.sequence_number(), tcp.ack(), tcp.syn()), (index as u32, true, false));
        (tcp.source_port(), tcp.destination_port(), 6)
    };
    assert_eq!((u64::from(source), u64::from(destination)), (50_001 + swept(4), 50_000 + swept(5)));
    // RFC 1071 literally, over the pseudo-header of RFC 768 or RFC 8200.
    let mut summed =
        [pseudo_header, vec![0, protocol], (transport.len() as u16).to_be_bytes().to_vec(), transport]
            .concat();
    summed.resize(summed.len().next_multiple_of(2), 0);
    let sum = summed.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(pair[1])).sum::<u64>();
    assert_eq!(sum % 0xffff, 0, "a correct checksum makes the sum zero");
}

#[test]
fn all_header_combinations_have_correct_fields_and_signature() {
    for (name, stream) in all_headers() {
        let streams = vec![sweep_all_fields(&stream)];
        let bench =
            sent(link("100Gbps"), TrafficConfig { frames: Some(300), streams, ..TrafficConfig::default() });
        for (index, (_, frame)) in (0..).zip(frames(&bench)) {
            assert_frame_is(frame, &stream, index);
            assert_eq!(Signature::read(frame), Some(Signature { stream: 0, sequence: index }), "{name}");
        }
        assert_eq!(bench.generator.stats().returned, 300, "{name}");
        assert_eq!(bench.generator.summary(Ps::ZERO).unwrap().streams[0].frames_delivered, 300);
    }
}

#[test]
fn returned_frame_is_compared_with_its_streams_frame() {
    for (name, stream) in all_headers() {
        let stream = StreamConfig { returned: Some(Returned::AsSent), ..sweep_all_fields(&stream) };
        let config =
            TrafficConfig { frames: Some(80), streams: vec![stream.clone()], ..TrafficConfig::default() };
        let mut bench = Bench::new(link("100Gbps"), config, |_, _| Vec::new());
        bench.tap = Some(Vec::new());
        bench.start();
        bench.run();
        let now = bench.queue.now();
        let [.., payload_at] = stream.header_offsets();
        for (at, (_, frame)) in bench.tap.take().unwrap().into_iter().enumerate() {
            let mut changed = frame.clone();
            let arrival = match changed.bytes.get_mut(at) {
                None => bench.arrive(now, &frame),
                // The signature's bytes identify the frame.
                Some(_) if (payload_at..payload_at + 16).contains(&at) => continue,
                Some(byte) => {
                    *byte ^= 0x40;
                    bench.arrive(now, &changed)
                }
            };
            let expected = match at {
                _ if at >= frame.bytes.len() => Arrival::Returned,
                0..12 => Arrival::Corrupt(Mismatch::Addresses),
                _ if at < payload_at => Arrival::Corrupt(Mismatch::Headers),
                _ => Arrival::Corrupt(Mismatch::Payload),
            };
            assert_eq!(arrival, expected, "{name}: byte {at}");
        }
    }
}

#[test]
fn routed_frames_of_all_header_combinations_are_accepted() {
    for (name, stream) in all_headers() {
        let stream = StreamConfig { returned: Some(Returned::Routed), ..stream };
        let config =
            TrafficConfig { frames: Some(1), streams: vec![stream.clone()], ..TrafficConfig::default() };
        let mut bench = Bench::new(link("100Gbps"), config, |_, mut frame| {
            frame.bytes[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
            frame.bytes[6..12].copy_from_slice(&[0x52, 0x54, 0, 0, 0, 1]);
            let is_type = |at: usize, kind: EtherType| frame.bytes[at..at + 2] == kind.0.to_be_bytes();
            let ip =
                (12..).step_by(4).find(|at| is_type(*at, EtherType::IPV4) || is_type(*at, EtherType::IPV6));
            let ip = ip.unwrap() + 2;
            if frame.bytes[ip] >> 4 == 4 {
                frame.bytes[ip + 8] -= 1;
                // RFC 1624: the checksum increases by the decrement of the field.
                frame.bytes[ip + 10] += 1;
            } else {
                frame.bytes[ip + 7] -= 1;
            }
            vec![(Ps::ZERO, frame)]
        });
        bench.start();
        bench.run();
        assert_eq!(bench.generator.stats().returned, 1, "{name}: {:?}", bench.generator.stats());
    }
}

#[test]
fn flows_have_results_of_their_own() {
    // Ten flows in turn; the machine drops every frame of the fourth and swaps two adjacent frames of the
    // first.
    let config = traffic(
        "frames = 1000\n[[streams]]\nsweeps = [{ field = \"source-port\", count = 10 }]\n[[streams]]\nrate = \"1pps\"",
    );
    let mut bench = Bench::new(link("100Gbps"), config, |_, frame| {
        let port = u16::from_be_bytes([frame.bytes[34], frame.bytes[35]]) - 50_001;
        match port {
            3 => Vec::new(),
            0 if frame.bytes[50..58] == 101u64.to_be_bytes() => vec![(Ps::from_us(15), frame)],
            _ => echo(0, frame),
        }
    });
    bench.generator.begin_window(Ps::ZERO);
    bench.start();
    bench.run();
    let summary = bench.generator.summary(bench.queue.now()).unwrap();
    let stream = &summary.streams[0];
    let expected = FlowSummary {
        count: 10,
        offered: 10,
        with_loss: 1,
        with_corruption: 0,
        with_reordering: 1,
        frames_reordered: 1,
        frames_offered_max: 100,
        frames_lost_max: 100,
    };
    assert_eq!(stream.flows, Some(expected));
    assert_eq!((stream.frames_offered, stream.frames_lost, stream.frames_reordered), (999, 100, 1));
    assert_eq!((&summary.streams[1].flows, summary.streams[1].frames_delivered), (&None, 1));
    assert_eq!((summary.frames_reordered, stream.drop_rate), (1, 100.0 / 999.0));
}

#[test]
fn flow_headers_match_the_frames_of_the_flow() {
    for (name, stream) in all_headers() {
        let config = TrafficConfig {
            streams: vec![sweep_all_fields(&stream)],
            frames: Some(200),
            ..TrafficConfig::default()
        };
        let stream = &config.streams[0];
        let (headers, variations) = (FlowHeaders::new(&config, stream), Variations::new(&config, stream, 1));
        let bench = sent(link("100Gbps"), config.clone());
        for (index, (_, frame)) in (0..).zip(frames(&bench)) {
            let flow = headers.flow(variations.flow(index));
            assert_eq!(flow.macs.map(|mac| mac.0).concat(), [&frame[6..12], &frame[..6]].concat(), "{name}");
            let [ip_at, transport_at, _] = stream.header_offsets();
            let addresses: Vec<u8> = match flow.addresses {
                [IpAddr::V4(from), IpAddr::V4(to)] => [from.octets(), to.octets()].concat(),
                [IpAddr::V6(from), IpAddr::V6(to)] => [from.octets(), to.octets()].concat(),
                mixed => panic!("{name}: {mixed:?}"),
            };
            assert_eq!(addresses, frame[transport_at - addresses.len()..transport_at], "{name}");
            assert_eq!(
                flow.ports.map(u16::to_be_bytes).concat(),
                frame[transport_at..transport_at + 4],
                "{name}"
            );
            let tag = u16::from_be_bytes([frame[ip_at - 4], frame[ip_at - 3]]) & 0xfff;
            assert_eq!(flow.vlan, (!stream.vlans.is_empty()).then_some(tag), "{name}");
        }
    }
}

#[test]
fn flows_beyond_the_limit_have_no_results() {
    let swept = |count| StreamConfig {
        sweeps: vec![SweepConfig::upwards(Field::SourceIp, count)],
        ..StreamConfig::default()
    };
    assert_eq!(
        flows_kept(&[swept(60_000), swept(6_000), swept(5_000), StreamConfig::default()]),
        [60_000, 0, 5_000, 0]
    );
    assert_eq!(flows_kept(&[swept(u64::from(u32::MAX)), swept(1 << 16)]), [0, 1 << 16]);
}

#[test]
fn frames_of_streams_match_golden_hash() {
    let config = traffic(GOLDEN_TRAFFIC);
    let bench = sent(link("10Gbps"), config);
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    // FNV-1a over times, lengths and bytes.
    let mut add = |bytes: &[u8]| {
        bytes.iter().for_each(|byte| hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
    };
    for (at, frame) in frames(&bench) {
        add(&at.0.to_le_bytes());
        add(&(frame.len() as u64).to_le_bytes());
        add(frame);
    }
    assert_eq!((bench.generator.stats().sent, format!("{hash:016x}").as_str()), (2_000, GOLDEN_HASH));
}

const GOLDEN_HASH: &str = "b303523e988ade2a";
const GOLDEN_TRAFFIC: &str = r#"
    frames = 2000
    [[streams]]
    rate = "10%"
    arrivals = { lognormal = { sigma = 1.5 } }
    size = "imix"
    size_order = "random"
    sweeps = [{ field = "source-ip", count = 1000, order = { zipf = { skew = 1.1 } } }]
    [[streams]]
    rate = "1Gbps"
    network = "ipv6"
    transport = "tcp"
    size = "genome:ccbg"
    vlans = [{ id = 10 }]
    arrivals = { on-off = { on = "20us", off = "20us", lengths = { pareto = { shape = 1.4 } }, gaps = "poisson" } }
    sweeps = [{ field = "vlan", count = 8, order = "random", every = 5 }]
    [[streams]]
    rate = "100kpps"
    ramp = { to = "1Mpps", over = "200us" }
    arrivals = { bursts = { frames = 7, spacing = { uniform = { spread = 0.3 } } } }
"#;

/// Returns, drops, delays, duplicates or corrupts a frame by a hash of its number.
fn faulty(n: u64, mut frame: Frame) -> Vec<(Ps, Frame)> {
    let dice = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let delay = Ps(dice % 977 * 10_000);
    match dice % 9 {
        0 => Vec::new(),
        1 => vec![(Ps::ZERO, frame.clone()), (delay, frame)],
        2 => {
            let at = (dice % 128) as usize % frame.bytes.len();
            frame.bytes[at] ^= 1 + (dice % 255) as u8;
            vec![(delay, frame)]
        }
        3 => vec![(delay, frame)],
        _ => echo(n, frame),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn restored_streams_continue_as_the_original(
        steps in 0usize..9_000, window in 0usize..4_000, percent in 1u64..200, tracked in prop::sample::select(vec![1024u32, 4096]),
    ) {
        let total = format!("{percent}%").parse().unwrap();
        let config = TrafficConfig { returned: Returned::AsSent, ..traffic(GOLDEN_TRAFFIC).at_rate(total) };
        let config = LoadGenConfig { tracked_frames: tracked, traffic: config, ..LoadGenConfig::default() };
        let mut bench = Bench::with_config(LinkConfig { frame_loss: 0.02, ..link("10Gbps") }, config, faulty);
        bench.start();
        for step in 0..steps {
            if step == window {
                bench.generator.begin_window(bench.queue.now());
            }
            bench.step(Ps::MAX);
        }
        let bytes = postcard::to_stdvec(&bench.generator.save()).unwrap();
        let mut copy = bench.clone();
        copy.generator = LoadGen::new(0, 99, &LoadGenConfig::default(), bench.there.config()).unwrap();
        copy.generator.restore(postcard::from_bytes(&bytes).unwrap()).unwrap();
        prop_assert_eq!(copy.generator.save(), bench.generator.save());
        for bench in [&mut bench, &mut copy] {
            bench.run();
            let now = bench.queue.now();
            bench.generator.end_window(now);
            bench.generator.assert_conservation();
        }
        prop_assert_eq!(copy.generator.save(), bench.generator.save());
        let summary = bench.generator.summary(Ps::ZERO);
        prop_assert_eq!(copy.generator.summary(Ps::ZERO), summary.clone());
        if let Some(summary) = summary {
            let total = |count: fn(&StreamSummary) -> u64| summary.streams.iter().map(count).sum::<u64>();
            prop_assert_eq!(total(|stream| stream.frames_offered), summary.frames_offered);
            prop_assert_eq!(total(|stream| stream.frames_delivered), summary.frames_delivered);
            prop_assert_eq!(total(|stream| stream.frames_corrupt), summary.frames_corrupt);
            prop_assert_eq!(total(|stream| stream.frames_lost), summary.frames_lost);
            for (part, batch) in summary.batches.iter().enumerate() {
                let streams = summary.streams.iter().filter_map(|stream| stream.batches.get(part));
                let all = streams.fold((0, 0), |sum, own| (sum.0 + own.offered, sum.1 + own.delivered));
                prop_assert_eq!(all, (batch.offered, batch.delivered));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn manipulated_state_is_refused_or_runs_without_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), steps in 0usize..1_500,
    ) {
        let mut bench = Bench::new(link("10Gbps"), traffic(GOLDEN_TRAFFIC), faulty);
        bench.generator.begin_window(Ps::ZERO);
        bench.start();
        (0..steps).for_each(|_| _ = bench.step(Ps::MAX));
        let mut bytes = postcard::to_stdvec(&bench.generator.save()).unwrap();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let Ok(state) = postcard::from_bytes(&bytes) else { return Ok(()) };
        if bench.generator.restore(state).is_ok() {
            (0..2_000).for_each(|_| _ = bench.step(Ps::MAX));
            let _ = bench.generator.summary(bench.queue.now());
        }
    }
}

#[test]
fn window_across_a_change_of_streams_stays_consistent() {
    let two =
        traffic("frames = 10\n[[streams]]\n[[streams]]\nsweeps = [{ field = \"source-port\", count = 3 }]");
    let three = traffic(
        "frames = 9\n[[streams]]\nsweeps = [{ field = \"source-port\", count = 5 }]\n[[streams]]\n[[streams]]",
    );
    let mut bench = Bench::new(link("100Gbps"), two, swap);
    bench.generator.begin_window(Ps::ZERO);
    bench.start();
    bench.run();
    bench.generator.set_traffic(three).unwrap();
    bench.start();
    bench.run();
    let summary = bench.generator.summary(bench.queue.now()).unwrap();
    assert_eq!((summary.frames_offered, summary.frames_delivered), (19, 19));
    assert_eq!(summary.streams.iter().map(|stream| stream.frames_lost).sum::<u64>(), 0);
    bench.generator.set_traffic(TrafficConfig::default()).unwrap();
    bench.generator.assert_conservation();
}

#[test]
fn streams_use_the_traffics_mac_addresses_unless_set() {
    let config = TrafficConfig {
        destination: MacAddr([0x52, 0x54, 0, 0, 0, 9]),
        ..traffic("frames = 2\n[[streams]]\n[[streams]]\ndestination = \"52:54:00:00:00:07\"")
    };
    let bench = sent(link("100Gbps"), config.for_port(3));
    let stations: BTreeMap<u8, u8> = frames(&bench)
        .map(|(_, frame)| Ethernet2Slice::from_slice_without_fcs(frame).unwrap())
        .map(|view| (view.destination()[5], view.source()[5]))
        .collect();
    assert_eq!(stations, BTreeMap::from([(9, 4), (7, 4)]));
}

#[test]
fn traffic_without_streams_equals_one_equivalent_stream() {
    for rate in ["7Mpps", "33.3%", "1300%", "3Gbps-l1"] {
        let plain =
            TrafficConfig { rate: rate.parse().unwrap(), frames: Some(500), ..TrafficConfig::default() };
        let stream = StreamConfig::from_traffic(&plain);
        let one = TrafficConfig { streams: vec![stream], ..plain.clone() };
        let [plain, one] = [plain, one].map(|traffic| sent(link("10Gbps"), traffic));
        assert!(frames(&plain).eq(frames(&one)), "{rate}");
        let [plain, one] = [plain, one].map(|bench| bench.generator.summary(Ps::ZERO).unwrap());
        assert_eq!((plain.streams.len(), one.streams.len()), (0, 1));
        assert_eq!(plain, Summary { streams: Vec::new(), ..one });
    }
}
