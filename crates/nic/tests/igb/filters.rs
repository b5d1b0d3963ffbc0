//! Which queue a frame goes to.

use doorbell_sim::Ps;

use crate::driver::*;

/// The key of the published verification suite.
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
    // Entry n names queue n modulo 16.
    for at in 0..32u32 {
        let entries = [0, 1, 2, 3].map(|byte| (4 * at + byte) as u8 % 16);
        bench.write(RETA + 4 * u64::from(at), u32::from_le_bytes(entries));
    }
    bench.write(RXCSUM, 0x2300);
    bench.write(MRQC, 2 | 1 << 16);
    bench
}

#[test]
fn rss_spreads_flows_by_the_published_hash_over_sixteen_queues() {
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
    // Another key is used at once.
    bench.write(RSSRK, 0);
    let before = bench.nic.stats().rx_delivered;
    bench.arrive(&tcp([66, 9, 149, 187], [161, 142, 100, 80], 2794, 1766, 100));
    bench.run_for(Ps::from_us(10));
    assert_eq!(bench.nic.stats().rx_delivered, before + 1);
    assert!((0..16).flat_map(|queue| bench.poll(queue)).all(|frame| frame.1 >> 32 != 0x51cc_c178));
    bench.check();
}

#[test]
fn behind_two_tags_nothing_is_found_whether_the_outer_one_is_taken_off_or_not() {
    let mut bench = with_rss();
    let plain = tcp([66, 9, 149, 187], [161, 142, 100, 80], 2794, 1766, 100);
    let tagged = |tags: usize| [&plain[..12], &[0x81, 0, 0, 5].repeat(tags), &plain[12..]].concat();
    for taken_off in [false, true] {
        bench.write(CTRL, 0x41 | u32::from(taken_off) << 30);
        bench.arrive(&tagged(1));
        bench.arrive(&tagged(2));
        bench.run_for(Ps::from_us(10));
        assert_eq!(bench.poll(0x51cc_c178 & 0xf).len(), 1, "{taken_off}");
        let unknown = bench.poll(0);
        assert_eq!((unknown.len(), unknown[0].1 >> 32, unknown[0].1 & 0xf), (1, 0, 0), "{taken_off}");
    }
}

#[test]
fn what_is_not_hashed_goes_to_the_first_queue() {
    let mut bench = with_rss();
    let mut udp = tcp([66, 9, 149, 187], [161, 142, 100, 80], 2794, 1766, 100);
    udp[23] = 17;
    bench.arrive(&udp);
    bench.run_for(Ps::from_us(10));
    let frames = bench.poll(0);
    assert_eq!((frames.len(), frames[0].1 >> 32, frames[0].1 & 0xf), (1, 0, 0));
    // Without RSS it is the default queue.
    bench.write(MRQC, 3 << 3);
    bench.arrive(&udp);
    bench.run_for(Ps::from_us(10));
    assert_eq!(bench.poll(3).len(), 1);
}

#[test]
fn filters_come_before_the_hash() {
    let mut bench = with_rss();
    // Destination port 1766, TCP, to queue 9; SYNs to queue 2.
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
fn of_several_filters_the_one_with_the_highest_priority_counts() {
    let mut bench = with_rss();
    let bytes = tcp([66, 9, 149, 187], [161, 142, 100, 80], 2794, 1766, 100);
    // All TCP to queue 3, destination port 1766 to queue 9; priorities in IMIR's upper bits.
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
