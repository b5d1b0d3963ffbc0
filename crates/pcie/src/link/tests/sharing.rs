//! Reads and writes share the link upward: beside the closed form and beside a link that goes from nanosecond to nanosecond.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;

/// Something that a forwarding NIC waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A frame is in memory.
    Written,
    /// A frame has been read back.
    Read,
}

/// Forwards frames of `size` bytes without end, as a NIC and a program do that takes frames in bursts: `writes` frames are on their way to
/// memory at a time, a whole burst of frames is asked for at once when its last one is there, and each gives its buffer back
/// when it has been read. Returns the share of the time in which the link upward carries packets.
fn busy_upward(config: &LinkConfig, size: u32, writes: u32) -> f64 {
    const FRAMES: u64 = 4000;
    const BURST: u32 = 32;
    let mut link = PcieLink::new(config);
    let mut memory = Fixed { read: ns(50), write: ns(50), asked: Vec::new() };
    let mut next = BinaryHeap::new();
    let (mut begun, mut writing, mut written, mut buffers) = (0, 0, 0, 8 * BURST);
    let (mut now, mut measured_from) = (Ps::ZERO, None);
    while begun < FRAMES {
        while writing < writes && buffers > 0 {
            (begun, writing, buffers) = (begun + 1, writing + 1, buffers - 1);
            let at = PhysAddr(begun % 64 * 4096);
            next.push(Reverse((link.write(now, at, size, RX, &mut memory), Event::Written)));
        }
        let Some(Reverse((at, event))) = next.pop() else { unreachable!("frames go round") };
        now = at;
        match event {
            Event::Read => buffers += 1,
            Event::Written => {
                (writing, written) = (writing - 1, written + 1);
                for frame in 0..if written % BURST == 0 { BURST } else { 0 } {
                    let at = PhysAddr(u64::from(frame) * 4096);
                    next.push(Reverse((link.read(now, at, size, TX, &mut memory), Event::Read)));
                }
            }
        }
        if begun > FRAMES / 4 {
            measured_from.get_or_insert((now, link.stats().up_bytes));
        }
    }
    let (from, bytes) = measured_from.expect("a quarter was before the end");
    let carried = link.rate.time_for_bits(8 * (link.stats().up_bytes - bytes));
    carried.0 as f64 / (now - from).0 as f64
}

#[test]
fn a_link_that_reads_and_writes_share_is_full_whatever_holds_reads_back() {
    // 57.9 Gbps up are 4.17 million frames of 1518 bytes a second: 1518 + 6·24 to write one and 3·24 to read it. The tags and the
    // interval leave 87 Gbps of reads and more.
    for (tags, interval) in [(16, 2), (32, 2), (48, 2), (64, 2), (256, 2), (32, 30), (256, 30)] {
        let config = LinkConfig { tags, read_issue_interval: ns(interval), ..LinkConfig::default() };
        let busy = busy_upward(&config, 1518, 21);
        assert!(busy > 0.99, "{tags} tags, a read every {interval} ns: {busy:.3}");
    }
}
