//! Reads and writes share the direction up: utilization of the link when reads wait for tags or the issue
//! rate.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;

/// Event in a forwarding NIC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A received frame is in memory.
    Written,
    /// A frame has been read for transmission.
    Read,
}

/// Forwards frames of `size` bytes in a loop, like a NIC with a program that processes bursts. Up to `writes`
/// frames are being written at a time. When the last frame of a burst is in memory, all its frames are read
/// at once. A frame's buffer is free after its read. Returns the utilization of the direction up.
fn busy_upward(config: &LinkConfig, size: u32, writes: u32) -> f64 {
    const FRAMES: u64 = 4000;
    const BURST: u32 = 32;
    let mut link = PcieLink::new(config);
    let mut memory = Fixed { read: ns(50), write: ns(50), requests: Vec::new() };
    let mut next = BinaryHeap::new();
    let (mut started, mut writing, mut written, mut buffers) = (0, 0, 0, 8 * BURST);
    let (mut now, mut measured_from) = (Ps::ZERO, None);
    while started < FRAMES {
        while writing < writes && buffers > 0 {
            (started, writing, buffers) = (started + 1, writing + 1, buffers - 1);
            let at = PhysAddr(started % 64 * 4096);
            next.push(Reverse((link.write(now, at, size, RX, &mut memory), Event::Written)));
        }
        let Some(Reverse((at, event))) = next.pop() else {
            unreachable!("a read or write is always pending")
        };
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
        if started > FRAMES / 4 {
            measured_from.get_or_insert((now, link.stats().up_bytes));
        }
    }
    let (from, bytes) = measured_from.expect("the loop has passed a quarter of the frames");
    let carried = link.rate.time_for_bits(8 * (link.stats().up_bytes - bytes));
    carried.0 as f64 / (now - from).0 as f64
}

#[test]
fn a_saturated_link_stays_full_whatever_delays_reads() {
    // 57.9 Gbps up are 4.17 million frames of 1518 bytes per second: 1518 + 6·24 bytes to write one and 3·24
    // to read it. Tags and interval alone would allow at least 87 Gbps of reads.
    for (tags, interval) in [(16, 2), (32, 2), (48, 2), (64, 2), (256, 2), (32, 30), (256, 30)] {
        let config = LinkConfig { tags, read_issue_interval: ns(interval), ..LinkConfig::default() };
        let busy = busy_upward(&config, 1518, 21);
        assert!(busy > 0.99, "{tags} tags, a read every {interval} ns: {busy:.3}");
    }
}
