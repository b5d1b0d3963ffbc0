//! Receive queue selection and VLAN filtering.

use doorbell_pcie::NetworkFunction as _;
use doorbell_sim::Ps;

use crate::igb::driver::*;

/// Key of Microsoft's RSS verification suite.
const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

fn with_rss() -> IgbBench {
    let mut bench = IgbBench::running(16);
    for (at, word) in KEY.chunks(4).enumerate() {
        bench.write(RSSRK + 4 * at as u64, u32::from_le_bytes(word.try_into().unwrap()));
    }
    // Entry n selects queue n modulo 16.
    for at in 0..32u32 {
        let entries = [0, 1, 2, 3].map(|byte| (4 * at + byte) as u8 % 16);
        bench.write(RETA + 4 * u64::from(at), u32::from_le_bytes(entries));
    }
    bench.write(RXCSUM, 0x2300);
    bench.write(MRQC, 2 | 1 << 16);
    bench
}

#[test]
fn rss_spreads_flows_over_sixteen_queues_by_the_published_hash() {
    let mut bench = with_rss();
    for (source, from, destination, to, hash) in [
        ([66, 9, 149, 187], 2794, [161, 142, 100, 80], 1766, 0x51cc_c178u64),
        ([199, 92, 111, 2], 14230, [65, 69, 140, 83], 4739, 0xc626_b0ea),
        ([24, 19, 198, 95], 12898, [12, 22, 207, 184], 38024, 0x5c2b_394a),
    ] {
        bench.arrive(&tcp(source, destination, from, to, 100));
        bench.run_for(Ps::from_us(10));
        let queue = hash & 0xf;
        let frames = bench.poll(queue);
        assert_eq!((frames.len(), frames[0].1 >> 32, frames[0].1 & 0xf), (1, hash, 1));
    }
    // A new key takes effect immediately.
    bench.write(RSSRK, 0);
    let before = bench.nic.stats().rx_delivered;
    bench.arrive(&tcp([66, 9, 149, 187], [161, 142, 100, 80], 2794, 1766, 100));
    bench.run_for(Ps::from_us(10));
    assert_eq!(bench.nic.stats().rx_delivered, before + 1);
    assert!((0..16).flat_map(|queue| bench.poll(queue)).all(|frame| frame.1 >> 32 != 0x51cc_c178));
    bench.check();
}

#[test]
fn headers_behind_two_tags_are_not_found_with_or_without_stripping() {
    let mut bench = with_rss();
    let plain = tcp([66, 9, 149, 187], [161, 142, 100, 80], 2794, 1766, 100);
    let tagged = |tags: usize| [&plain[..12], &[0x81, 0, 0, 5].repeat(tags), &plain[12..]].concat();
    for stripped in [false, true] {
        bench.write(CTRL, 0x41 | u32::from(stripped) << 30);
        bench.arrive(&tagged(1));
        bench.arrive(&tagged(2));
        bench.run_for(Ps::from_us(10));
        assert_eq!(bench.poll(0x51cc_c178 & 0xf).len(), 1, "stripped: {stripped}");
        let unhashed = bench.poll(0);
        assert_eq!(
            (unhashed.len(), unhashed[0].1 >> 32, unhashed[0].1 & 0xf),
            (1, 0, 0),
            "stripped: {stripped}"
        );
    }
}

#[test]
fn unhashed_frames_go_to_queue_0() {
    let mut bench = with_rss();
    let mut udp = tcp([66, 9, 149, 187], [161, 142, 100, 80], 2794, 1766, 100);
    udp[23] = 17;
    bench.arrive(&udp);
    bench.run_for(Ps::from_us(10));
    let frames = bench.poll(0);
    assert_eq!((frames.len(), frames[0].1 >> 32, frames[0].1 & 0xf), (1, 0, 0));
    // Without RSS they go to the default queue.
    bench.write(MRQC, 3 << 3);
    bench.arrive(&udp);
    bench.run_for(Ps::from_us(10));
    assert_eq!(bench.poll(3).len(), 1);
}

#[test]
fn filters_take_precedence_over_rss() {
    let mut bench = with_rss();
    // TCP with destination port 1766 goes to queue 9, SYNs go to queue 2.
    bench.write(0x5a80, u32::from(1766u16.to_be()));
    bench.write(0x59e0, 0xe000_0000 | 9 << 16 | 1 << 8 | 6);
    bench.write(SYNQF, 2 << 1 | 1);
    let bytes = tcp([66, 9, 149, 187], [161, 142, 100, 80], 2794, 1766, 100);
    bench.arrive(&bytes);
    let mut syn = tcp([66, 9, 149, 187], [161, 142, 100, 80], 2794, 1767, 100);
    syn[47] = 2;
    bench.arrive(&syn);
    bench.run_for(Ps::from_us(10));
    assert_eq!((bench.poll(9).len(), bench.poll(2).len()), (1, 1));
    bench.check();
}

#[test]
fn the_5_tuple_filter_with_the_highest_priority_wins() {
    let mut bench = with_rss();
    let bytes = tcp([66, 9, 149, 187], [161, 142, 100, 80], 2794, 1766, 100);
    // All TCP goes to queue 3, destination port 1766 to queue 9; priorities are in IMIR's upper bits.
    let any_port = 1 << 17;
    bench.write(0x59e0, 0xe000_0000 | 3 << 16 | 1 << 8 | 6);
    bench.write(0x59e4, 0xe000_0000 | 9 << 16 | 1 << 8 | 6);
    for (all, of_port, queue) in [(1, 7, 9), (2, 1, 3), (5, 5, 3)] {
        bench.write(0x5a80, all << 29 | any_port);
        bench.write(0x5a84, of_port << 29 | u32::from(1766u16.to_be()));
        bench.arrive(&bytes);
        bench.run_for(Ps::from_us(10));
        assert_eq!(bench.poll(queue).len(), 1, "priorities {all} and {of_port}");
    }
    bench.check();
}

/// Registers of the first 5-tuple filter, and bits that exclude a field from the comparison.
const SAQF: u64 = 0x5980;
const DAQF: u64 = 0x59a0;
const SPQF: u64 = 0x59c0;
const FTQF: u64 = 0x59e0;
const IMIR: u64 = 0x5a80;
const ANY_PORT: u32 = 1 << 17;
const ANY_PROTOCOL: u32 = 1 << 28;
const ANY_SOURCE: u32 = 1 << 29;
const ANY_DESTINATION: u32 = 1 << 30;
const ANY_SOURCE_PORT: u32 = 1 << 31;

/// Source and destination address, source and destination port, protocol.
type Tuple = ([u8; 4], [u8; 4], u16, u16, u8);
const TUPLE: Tuple = ([66, 9, 149, 187], [161, 142, 100, 80], 2794, 1766, 6);

/// The tuple itself, and the tuple with a change in one field, for each field.
fn variants() -> [Tuple; 6] {
    let mut variants = [TUPLE; 6];
    // Each change is in one byte: the first of the source address, the last of the destination address.
    variants[1].0[0] ^= 1;
    variants[2].1[3] ^= 1;
    variants[3].2 ^= 0x100;
    variants[4].3 ^= 1;
    variants[5].4 = 17;
    variants
}

fn frame_of_tuple((source, destination, from, to, protocol): Tuple) -> Vec<u8> {
    let mut bytes = tcp(source, destination, from, to, 100);
    bytes[23] = protocol;
    // The length in the UDP header.
    if protocol == 17 {
        bytes[38..40].copy_from_slice(&66u16.to_be_bytes());
    }
    bytes
}

/// Sets filter `number` to a tuple and a queue. Registers contain addresses and ports in network byte order.
fn set_filter(bench: &mut IgbBench, number: u64, (tuple, any): (Tuple, u32), imir: u32, queue: u32) {
    let (source, destination, from, to, protocol) = tuple;
    let at = 4 * number;
    bench.write(SAQF + at, u32::from_le_bytes(source));
    bench.write(DAQF + at, u32::from_le_bytes(destination));
    bench.write(SPQF + at, u32::from(from.to_be()));
    bench.write(IMIR + at, imir | u32::from(to.to_be()));
    bench.write(FTQF + at, any | 1 << 15 | queue << 16 | 1 << 8 | u32::from(protocol));
}

/// Whether a filter sends a frame to queue 9. RSS is off; other frames go to queue 0.
fn matches(bench: &mut IgbBench, frame: &[u8]) -> bool {
    bench.arrive(frame);
    bench.run_for(Ps::from_us(10));
    let [filtered, other] = [9, 0].map(|queue| bench.poll(queue).len());
    assert_eq!(filtered + other, 1, "one frame in either queue");
    filtered == 1
}

#[test]
fn a_5_tuple_filter_compares_all_fields_that_are_not_masked() {
    const MASKS: [u32; 6] = [0, ANY_SOURCE, ANY_DESTINATION, ANY_SOURCE_PORT, ANY_PORT, ANY_PROTOCOL];
    for number in [0, 7] {
        let mut bench = IgbBench::running(16);
        for masked in 0..32u32 {
            let is_masked = |field: usize| field == 0 || masked >> (field - 1) & 1 != 0;
            let masks = (1..6).filter(|field| is_masked(*field));
            let (in_imir, in_ftqf): (Vec<_>, Vec<_>) = masks.partition(|field| MASKS[*field] == ANY_PORT);
            let any = in_ftqf.iter().fold(0, |bits, field| bits | MASKS[*field]);
            let imir = if in_imir.is_empty() { 0 } else { ANY_PORT };
            set_filter(&mut bench, number, (TUPLE, any), imir, 9);
            for (field, tuple) in variants().into_iter().enumerate() {
                let expected = is_masked(field);
                assert_eq!(
                    matches(&mut bench, &frame_of_tuple(tuple)),
                    expected,
                    "{masked:05b}, field {field}"
                );
            }
        }
        bench.check();
    }
}

#[test]
fn a_5_tuple_filter_skips_a_tag_and_options_and_ignores_ports_of_fragments() {
    let mut bench = IgbBench::running(16);
    let plain = frame_of_tuple(TUPLE);
    set_filter(&mut bench, 3, (TUPLE, 0), 0, 9);
    assert!(matches(&mut bench, &plain));
    assert!(matches(&mut bench, &[&plain[..12], &[0x81, 0, 0, 5], &plain[12..]].concat()));
    let with_options = {
        let mut bytes = [&plain[..34], &[1, 1, 1, 0], &plain[34..]].concat();
        bytes[14] = 0x46;
        bytes[16..18].copy_from_slice(&90u16.to_be_bytes());
        bytes
    };
    assert!(matches(&mut bench, &with_options));
    let fragment = {
        let mut bytes = plain.clone();
        bytes[20..22].copy_from_slice(&[0x20, 1]);
        bytes
    };
    assert!(!matches(&mut bench, &fragment), "a fragment has no ports");
    set_filter(&mut bench, 3, (TUPLE, ANY_SOURCE_PORT), ANY_PORT, 9);
    assert!(matches(&mut bench, &fragment), "a fragment has addresses and a protocol");
    // 5-tuple filters do not match IPv6, and a disabled filter selects no queue.
    let mut ipv6 = plain.clone();
    ipv6[12..14].copy_from_slice(&[0x86, 0xdd]);
    let all = ANY_SOURCE | ANY_DESTINATION | ANY_SOURCE_PORT | ANY_PROTOCOL;
    set_filter(&mut bench, 3, (TUPLE, all), ANY_PORT, 9);
    assert!(!matches(&mut bench, &ipv6) && matches(&mut bench, &plain));
    bench.write(FTQF + 12, all | 1 << 15 | 9 << 16);
    assert!(!matches(&mut bench, &plain));
    bench.check();
}

#[test]
fn the_vlan_filter_passes_untagged_frames_and_members_of_the_table() {
    const VFTA: u64 = 0x5600;
    const VFE: u32 = 1 << 18;
    let mut bench = IgbBench::running(1);
    let plain = tcp([10, 0, 0, 1], [10, 0, 0, 2], 80, 81, 100);
    let tagged = |tci: u16| {
        let [high, low] = tci.to_be_bytes();
        [&plain[..12], &[0x81, 0, high, low], &plain[12..]].concat()
    };
    let passes = |bench: &mut IgbBench, frame: &[u8]| {
        bench.arrive(frame);
        bench.run_for(Ps::from_us(10));
        bench.poll(0).len() == 1
    };
    assert!(passes(&mut bench, &tagged(5)), "the filter is off");
    bench.write(RCTL, 0x0400_8002 | VFE);
    let before = bench.nic.stats().rx_delivered;
    // Each VLAN has its own bit, in the word and at the position given by its number, for any priority.
    for vlan in [0u16, 1, 5, 31, 32, 33, 2047, 2048, 4094, 4095] {
        let (word, bit) = (VFTA + 4 * u64::from(vlan / 32), 1u32 << (vlan % 32));
        assert!(!passes(&mut bench, &tagged(vlan)), "{vlan}");
        bench.write(word, !bit);
        assert!(!passes(&mut bench, &tagged(vlan)), "{vlan}");
        bench.write(word, bit);
        assert!(passes(&mut bench, &tagged(vlan)) && passes(&mut bench, &tagged(0xe000 | vlan)), "{vlan}");
        assert!(!passes(&mut bench, &tagged(vlan ^ 1)), "{vlan}");
        bench.write(word, 0);
    }
    assert!(passes(&mut bench, &plain), "without a tag");
    assert_eq!(bench.nic.stats().rx_delivered, before + 21);
    // With two tags the outer one is filtered; stripping happens after the filter.
    bench.write(VFTA, 1 << 5);
    bench.write(CTRL, 0x4000_0041);
    let two = |outer: u16, inner: u16| {
        let [high, low] = inner.to_be_bytes();
        let outer = tagged(outer);
        [&outer[..16], &[0x81, 0, high, low], &outer[16..]].concat()
    };
    assert!(!passes(&mut bench, &two(6, 5)) && passes(&mut bench, &two(5, 6)));
    assert!(passes(&mut bench, &tagged(5)) && !passes(&mut bench, &tagged(6)));
    // With RCTL.CFIEN the CFI bit of the tag must equal RCTL.CFI.
    bench.write(RCTL, 0x0400_8002 | VFE | 1 << 19);
    assert!(passes(&mut bench, &tagged(5)) && !passes(&mut bench, &tagged(0x1005)));
    bench.write(RCTL, 0x0400_8002 | VFE | 1 << 19 | 1 << 20);
    assert!(!passes(&mut bench, &tagged(5)) && passes(&mut bench, &tagged(0x1005)));
    // With another EtherType in VET, these frames are not tagged.
    bench.write(RCTL, 0x0400_8002 | VFE);
    bench.write(0x38, 0x88a8);
    assert!(passes(&mut bench, &tagged(6)));
    bench.check();
}

#[test]
fn rss_queues_are_the_enabled_queues_in_the_redirection_table() {
    let mut bench = with_rss();
    assert_eq!(bench.nic.rss_queues(), 0xffff);
    bench.write(0xc028 + 0x40 * 3, 0);
    assert_eq!(
        (bench.nic.rss_queues(), bench.nic.is_queue_on(3)),
        (0xfff7, true),
        "its transmit queue is still enabled"
    );
    bench.write(0xe028 + 0x40 * 3, 0);
    assert!(!bench.nic.is_queue_on(3));
    for at in 0..32u64 {
        bench.write(RETA + 4 * at, 0x0601_0601);
    }
    assert_eq!(bench.nic.rss_queues(), 0b0100_0010);
    bench.write(MRQC, 0);
    assert_eq!(bench.nic.rss_queues(), 0);
}
