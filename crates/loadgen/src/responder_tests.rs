use super::*;
use crate::config::{LoadGenConfig, TrafficConfig};
use crate::testbench::{Bench, swap};
use crate::{Arrival, LoadGenStats};
use doorbell_sim::Ps;
use doorbell_wire::LinkConfig;

const HOST: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
const TESTER: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

fn responder() -> Responder {
    Responder::new(&ResponderConfig::default(), 0).unwrap()
}

fn framed(destination: [u8; 6], tag: &[u8], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&destination[..], &HOST[..], tag, &ethertype.to_be_bytes()[..], payload].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

fn arp_request(target: [u8; 4]) -> Vec<u8> {
    let head = [0, 1, 8, 0, 6, 4, 0, 1];
    let packet = [&head[..], &HOST[..], &[10, 0, 0, 2], &[0; 6], &target].concat();
    framed([0xff; 6], &[], 0x0806, &packet)
}

/// RFC 1071 literally, independent of the crate's implementation.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn ip_packet(target: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let total = (20 + payload.len()) as u16;
    let mut header = vec![0x45, 0, 0, 0, 0x12, 0x34, 0x40, 0, 7, protocol, 0, 0, 10, 0, 0, 2];
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header.extend(target);
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [header, payload.to_vec()].concat()
}

fn echo_request(target: [u8; 4], data: &[u8]) -> Vec<u8> {
    let mut message = [&[8, 0, 0, 0, 0xbe, 0xef, 0, 5][..], data].concat();
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ip_packet(target, 1, &message)
}

#[test]
fn arp_requests_for_both_addresses_are_answered_and_others_are_not() {
    for address in [[10, 0, 0, 1], [10, 0, 0, 254]] {
        let (answered, reply) = responder().answer(TESTER, &arp_request(address)).unwrap();
        let packet = [&[0, 1, 8, 0, 6, 4, 0, 2][..], &TESTER.0, &address, &HOST, &[10, 0, 0, 2]].concat();
        let mut expected = [&HOST[..], &TESTER.0, &[8, 6], &packet].concat();
        expected.resize(60, 0);
        assert_eq!((answered, reply.bytes), (ReplyKind::Arp, expected));
    }
    assert!(responder().answer(TESTER, &arp_request([10, 0, 0, 3])).is_none());
    let mut reply = arp_request([10, 0, 0, 1]);
    reply[21] = 2;
    assert!(responder().answer(TESTER, &reply).is_none(), "only requests");
}

#[test]
fn echo_request_of_any_length_gets_a_reply_with_valid_checksums() {
    for length in [0, 1, 17, 56, 1471, 1472] {
        let data: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
        let request = framed(TESTER.0, &[], 0x0800, &echo_request([10, 0, 0, 1], &data));
        let (answered, reply) = responder().answer(TESTER, &request).unwrap();
        let (frame, end) = (&reply.bytes, 14 + 28 + length);
        assert_eq!((answered, frame.len()), (ReplyKind::Echo, end.max(60)));
        assert_eq!((&frame[..6], &frame[6..12]), (&HOST[..], &TESTER.0[..]));
        assert_eq!(frame[14 + 12..14 + 20], [10, 0, 0, 1, 10, 0, 0, 2]);
        assert_eq!((checksum(&frame[14..34]), checksum(&frame[34..end])), (0, 0));
        assert_eq!((frame[22], frame[34], &frame[38..42]), (64, 0, &[0xbe, 0xef, 0, 5][..]));
        assert_eq!(frame[42..end], data);
    }
}

#[test]
fn damaged_fragmented_or_misaddressed_packets_are_not_answered() {
    let good = framed(TESTER.0, &[], 0x0800, &echo_request([10, 0, 0, 1], b"12345678"));
    assert!(responder().answer(TESTER, &good).is_some());
    let fix = |mut frame: Vec<u8>| {
        frame[24..26].fill(0);
        let sum = checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    let changed = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        frame
    };
    for (frame, what) in [
        (changed(0, 4), "another station"),
        (changed(6, 1), "a group address as source"),
        (changed(22, 1), "the IPv4 checksum"),
        (changed(44, 0), "the ICMP checksum"),
        (fix(changed(20, 0x20)), "a first fragment"),
        (fix(changed(21, 1)), "a later fragment"),
        (fix(changed(33, 9)), "another address"),
        (fix(changed(23, 17)), "another protocol"),
        (fix(changed(17, 27)), "too short for ICMP"),
        (changed(12, 0x86), "another type"),
        (good[..20].to_vec(), "a truncated packet"),
        (good[..9].to_vec(), "a truncated header"),
        (Vec::new(), "nothing"),
    ] {
        assert!(responder().answer(TESTER, &frame).is_none(), "{what}");
    }
    let broadcast = framed([0xff; 6], &[], 0x0800, &echo_request([10, 0, 0, 1], b""));
    assert!(responder().answer(TESTER, &broadcast).is_none(), "a broadcast echo request");
}

#[test]
fn mirror_swaps_addresses_only_and_keeps_a_vlan_tag() {
    let payload = ip_packet([10, 0, 0, 254], 6, &[0xa5; 33]);
    for tag in [&[][..], &[0x81, 0, 0x60, 5]] {
        let request = framed(TESTER.0, tag, 0x0800, &payload);
        let (answered, back) = responder().answer(TESTER, &request).unwrap();
        let mut expected = request.clone();
        expected[..12].rotate_left(6);
        let at = 14 + tag.len() + 12;
        expected[at..at + 8].rotate_left(4);
        assert_eq!((answered, back.bytes), (ReplyKind::Mirrored, expected));
    }
}

#[test]
fn ports_increment_addresses_and_disabled_responder_is_none() {
    let config = ResponderConfig::default();
    let third = Responder::new(&config, 2).unwrap();
    assert!(third.answer(TESTER, &arp_request([10, 0, 2, 1])).is_some());
    assert!(third.answer(TESTER, &arp_request([10, 0, 2, 254])).is_some());
    assert!(third.answer(TESTER, &arp_request([10, 0, 0, 1])).is_none());
    assert!(Responder::new(&ResponderConfig { enabled: false, ..config }, 0).is_none());
}

fn bench(responder: ResponderConfig) -> Bench {
    let traffic =
        TrafficConfig { rate: "100%".parse().unwrap(), frames: Some(500), ..TrafficConfig::default() };
    let config = LoadGenConfig { traffic, responder, ..LoadGenConfig::default() };
    Bench::with_config(LinkConfig::default(), config, swap)
}

#[test]
fn replies_share_the_link_and_all_frames_are_accounted_for() {
    let mut bench = bench(ResponderConfig::default());
    bench.tap = Some(Vec::new());
    bench.start();
    let request = Frame::new(arp_request([10, 0, 0, 1]));
    let damaged = Frame { fcs_bad: true, ..request.clone() };
    bench.run_until(Ps::from_ns(100));
    let now = bench.queue.now();
    assert_eq!(bench.arrive(now, &request), Arrival::Answered(ReplyKind::Arp));
    assert_eq!(bench.arrive(now, &damaged), Arrival::BadFcs);
    // This test's machine returns the reply, which then counts as foreign.
    bench.run();
    let stats = bench.generator.stats();
    let expected = LoadGenStats {
        sent: 500,
        received: 503,
        returned: 500,
        arp_answered: 1,
        foreign: 1,
        bad_fcs: 1,
        ..LoadGenStats::default()
    };
    assert_eq!(*stats, expected);
    bench.generator.assert_conservation();
    let times: Vec<Ps> = bench.tap.unwrap().iter().map(|(at, _)| *at).collect();
    assert_eq!(times.len(), 501);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= Ps(6_720)), "one at a time on the link");
}

#[test]
fn without_responder_requests_are_foreign() {
    let mut bench = bench(ResponderConfig { enabled: false, ..ResponderConfig::default() });
    let request = Frame::new(arp_request([10, 0, 0, 1]));
    assert_eq!(bench.arrive(Ps::ZERO, &request), Arrival::Foreign);
    assert!(bench.queue.is_empty());
}
