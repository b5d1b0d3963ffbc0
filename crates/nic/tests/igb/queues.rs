//! Queues: drops, round robin, head write-back, header split.

use doorbell_nic::NicConfig;
use doorbell_pcie::NetworkFunction as _;
use doorbell_pcie::network::LateDrops;
use doorbell_sim::Ps;

use crate::igb::driver::*;

#[test]
fn a_queue_without_descriptors_blocks_others_unless_drop_en_is_set() {
    for drops in [true, false] {
        let mut bench = IgbBench::running(2);
        bench.set_up_rx(0, 0);
        if drops {
            bench.write(SRRCTL, 1 << 31 | ONE_BUFFER | 2);
        }
        // EtherType filter for the second queue.
        bench.write(ETQF, 1 << 31 | 1 << 26 | 1 << 16 | 0x88b5);
        let mut other = tcp([10, 0, 0, 1], [10, 0, 0, 2], 1, 2, 100);
        // The first two frames belong to a measurement, no matter when they are dropped.
        bench.nic.begin_measurement(Ps::ZERO);
        for _ in 0..2 {
            bench.arrive(&other);
        }
        let now = bench.world.now();
        bench.nic.end_measurement(now);
        bench.run_for(Ps::from_ns(1));
        bench.arrive(&other);
        other[12..14].copy_from_slice(&[0x88, 0xb5]);
        bench.arrive(&other);
        bench.run_for(Ps::from_us(20));
        let received = bench.poll(1).len();
        let counted = bench.nic.queue_stats()[0].clone();
        assert_eq!((received, counted.rx_drop_no_descriptor), if drops { (1, 3) } else { (0, 0) });
        assert_eq!((bench.read(RQDPC), bench.read(RQDPC)), if drops { (3, 0) } else { (0, 0) });
        let late = if drops { LateDrops { core: 2, reset: 0 } } else { LateDrops::default() };
        assert_eq!(bench.nic.late_drops(), late);
        bench.check();
        // Once there are descriptors, all frames that were not dropped are delivered.
        bench.write(0xc018, 8);
        bench.run_for(Ps::from_us(20));
        assert_eq!((bench.poll(0).len(), bench.poll(1).len()), if drops { (0, 0) } else { (3, 1) });
        bench.check();
    }
}

#[test]
fn disabling_a_queue_only_drops_its_own_frames() {
    let mut bench = IgbBench::running(2);
    bench.set_up_rx(0, 0);
    bench.write(ETQF, 1 << 31 | 1 << 26 | 1 << 16 | 0x88b5);
    let mut bytes = tcp([10, 0, 0, 1], [10, 0, 0, 2], 1, 2, 100);
    bench.nic.begin_measurement(Ps::ZERO);
    bench.arrive(&bytes);
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
    bench.arrive(&bytes);
    bench.write(0xc028, 0);
    bench.run_for(Ps::from_us(1));
    // Frames behind the dropped one are delivered.
    bench.arrive(&bytes);
    bench.run_for(Ps::from_us(20));
    assert_eq!(bench.poll(1).len(), 2);
    assert_eq!((bench.nic.queue_stats()[0].rx_drop_reset, bench.nic.stats().rx_drop_reset), (1, 1));
    assert_eq!(bench.nic.late_drops(), LateDrops { core: 0, reset: 1 });
    bench.check();
}

#[test]
fn transmit_queues_are_served_round_robin_by_packet() {
    let mut bench = IgbBench::running_with(NicConfig { reads_in_flight: 1, ..config() }, 3);
    bench.write(TCTL, 0);
    for queue in 0..3u16 {
        for number in 0..3 {
            let bytes = tcp([10, 0, 0, 1], [10, 0, 0, 2], queue, number, 100);
            bench.send(queue.into(), &bytes, 0);
        }
    }
    bench.write(TCTL, 0x0a);
    bench.run_for(Ps::from_us(50));
    let order: Vec<_> =
        bench.world.sent.iter().map(|(_, frame)| (frame.bytes[35], frame.bytes[37])).collect();
    // The first queue's descriptors arrive first, so it starts alone; then all queues take turns.
    let queues: Vec<_> = order.iter().map(|(queue, _)| *queue).collect();
    assert_eq!(queues, [0, 0, 1, 2, 0, 1, 2, 1, 2]);
    for queue in 0..3 {
        let own: Vec<_> = order.iter().filter(|(of, _)| *of == queue).map(|(_, number)| *number).collect();
        assert_eq!(own, [0, 1, 2]);
    }
    assert_eq!(bench.nic.queue_stats()[1].tx_frames, 3);
    bench.check();
}

#[test]
fn head_write_back_replaces_descriptor_write_back() {
    let mut bench = IgbBench::running(1);
    bench.world.put_word(0x8000, u64::MAX);
    bench.write(TDWBAL, 0x8000 | 1);
    let bytes = tcp([10, 0, 0, 1], [10, 0, 0, 2], 1, 2, 100);
    for _ in 0..3 {
        bench.send(0, &bytes, 0);
    }
    bench.run_for(Ps::from_us(20));
    assert_eq!(bench.world.word(0x8000), 0xffff_ffff_0000_0003);
    assert_eq!(bench.tx_status(0, 2) & 1, 0, "descriptors are not written");
}

#[test]
fn srrctl_splits_or_replicates_headers() {
    let bytes = tcp([10, 0, 0, 1], [10, 0, 0, 2], 1, 2, 600);
    for (kind, data, split) in [(2, 546, true), (3, 600, true), (5, 546, true), (1, 600, false)] {
        let mut bench = IgbBench::running(1);
        bench.write(PSRTYPE, 1 << 4);
        bench.write(SRRCTL, kind << 25 | 2 << 8 | 2);
        bench.arrive(&bytes);
        bench.run_for(Ps::from_us(10));
        let frames = bench.poll(0);
        let (received, first, second) = &frames[0];
        assert_eq!((received.len(), second >> 32 & 0xffff), (data, data as u64), "type {kind}");
        assert_eq!((first >> 31 & 1 != 0, first >> 21 & 0x3ff), (split, if split { 54 } else { 0 }));
        let header = (RX_BUFFERS + 1792) as usize;
        assert_eq!(split, bench.world.memory[header..header + 54] == bytes[..54]);
        assert_eq!(
            bench.world.in_memory[0].1.iter().map(|(_, len)| len).sum::<u32>() as usize,
            data + if split { 54 } else { 0 }
        );
        bench.check();
    }
}

#[test]
fn a_frame_longer_than_a_buffer_uses_several_descriptors() {
    let mut bench = IgbBench::running(1);
    bench.write(0x5004, 9000);
    bench.write(RCTL, 0x0400_8022);
    bench.write(SRRCTL, ONE_BUFFER | 1);
    let bytes = tcp([10, 0, 0, 1], [10, 0, 0, 2], 1, 2, 2500);
    bench.arrive(&bytes);
    bench.run_for(Ps::from_us(20));
    let parts = bench.poll(0);
    let ends: Vec<_> = parts.iter().map(|(part, _, second)| (part.len(), second >> 1 & 1)).collect();
    assert_eq!(ends, [(1024, 0), (1024, 0), (452, 1)]);
    assert_eq!(parts.into_iter().flat_map(|(part, ..)| part).collect::<Vec<_>>(), bytes);
    bench.check();
}
