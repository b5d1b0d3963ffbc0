//! Path times against closed forms. In the simple cases the link moves 8 Gb/s, so a byte takes a nanosecond.

use super::*;
use DmaPurpose::{RxData, RxDescriptor, TxData};
use proptest::prelude::*;

fn config() -> PathConfig {
    PathConfig {
        latency: Ps::from_ns(300),
        up_bandwidth: BitsPerSec(8_000_000_000),
        down_bandwidth: BitsPerSec(8_000_000_000),
        mmio_latency: Ps::from_ns(300),
        max_payload: Bytes(256),
        max_read_request: Bytes(512),
        request_overhead: Bytes(24),
        completion_overhead: Bytes(20),
    }
}

fn path() -> Path {
    Path::new(config())
}

fn ns(ns: u64) -> Ps {
    Ps::from_ns(ns)
}

#[test]
fn one_write_takes_its_bytes_and_the_latency() {
    assert_eq!(path().write(ns(1000), 64, RxData), ns(1000 + 24 + 64 + 300));
    assert_eq!(path().write(Ps::ZERO, 256, RxData), ns(24 + 256 + 300));
    assert_eq!(path().write(Ps::ZERO, 257, RxData), ns(2 * 24 + 257 + 300), "a second packet");
}

#[test]
fn one_read_takes_its_request_its_data_and_two_latencies() {
    assert_eq!(path().read(ns(1000), 64, TxData), ns(1000 + 24 + 300 + 20 + 64 + 300));
    assert_eq!(path().read(Ps::ZERO, 1518, TxData), ns(3 * 24 + 300 + 6 * 20 + 1518 + 300));
    assert_eq!(path().read(Ps::ZERO, 0, TxData), ns(24 + 300 + 20 + 300), "zero length");
}

#[test]
fn a_direction_is_busy_until_the_last_byte() {
    let first_leaves = 24 + 64;
    let alone = |start: Ps| start + ns(24 + 64 + 300);
    for (start, expected) in [
        (Ps::ZERO, alone(ns(first_leaves))),
        (ns(first_leaves) - Ps(1), alone(ns(first_leaves))),
        (ns(first_leaves), alone(ns(first_leaves))),
        (ns(first_leaves) + Ps(1), alone(ns(first_leaves) + Ps(1))),
    ] {
        let mut path = Path::new(config());
        path.write(Ps::ZERO, 64, RxData);
        assert_eq!(path.write(start, 64, RxData), expected, "{start}");
    }
}

#[test]
fn data_down_do_not_delay_packets_up() {
    let mut path = Path::new(config());
    path.read(Ps::ZERO, 4096, TxData);
    // Eight requests of 24 bytes precede it on the way up; the data do not.
    assert_eq!(path.write(Ps::ZERO, 64, RxData), ns(8 * 24 + 24 + 64 + 300));
}

#[test]
fn maximum_bandwidth_of_a_gen3_x8_slot_is_the_published_one() {
    let gen3 = PathConfig { latency: ns(300), ..PathConfig::of_link(&LinkConfig::default(), 0) };
    let mut path = Path::new(gen3.clone());
    let count = 10_000u64;
    let mut last = Ps::ZERO;
    for _ in 0..count {
        last = path.write(Ps::ZERO, 256, RxData);
    }
    // 57.9 Gbps before headers and 256 of every 280 bytes: 52.9 Gbps.
    let mbps = count * 256 * 8 * 1_000_000 / (last - ns(300)).0;
    assert_eq!(mbps / 100, 529);
    // Reads: 512 of every 552 bytes on the way down: 53.7 Gbps.
    let mut path = Path::new(gen3.clone());
    for _ in 0..count {
        last = path.read(Ps::ZERO, 512, TxData);
    }
    let mbps = count * 512 * 8 * 1_000_000 / (last - ns(600)).0;
    assert_eq!(mbps / 100, 537);
}

#[test]
fn a_register_read_response_follows_the_devices_earlier_writes() {
    let mut path = Path::new(config());
    assert_eq!(path.mmio_arrival(ns(50)), ns(350));
    assert_eq!(path.mmio_answer(ns(350)), ns(650));
    let written = path.write(ns(340), 4096, RxData);
    assert_eq!(written, ns(340 + 16 * 24 + 4096 + 300));
    assert_eq!(path.mmio_answer(ns(350)), written);
    assert_eq!(path.mmio_answer(written), written + ns(300));
}

#[test]
fn bytes_and_packets_are_counted_by_kind_and_direction() {
    let mut path = Path::new(config());
    path.write(Ps::ZERO, 300, RxData);
    path.read(Ps::ZERO, 600, TxData);
    assert_eq!(
        *path.stats(RxData, DmaDirection::Write),
        PathStats {
            requests: 1,
            payload_bytes: 300,
            up_packets: 2,
            up_bytes: 348,
            down_packets: 0,
            down_bytes: 0
        }
    );
    assert_eq!(
        *path.stats(TxData, DmaDirection::Read),
        PathStats {
            requests: 1,
            payload_bytes: 600,
            up_packets: 2,
            up_bytes: 48,
            down_packets: 3,
            down_bytes: 660
        }
    );
    assert_eq!(*path.stats(RxDescriptor, DmaDirection::Read), PathStats::default());
}

#[test]
fn kinds_have_separate_counters_in_listing_order() {
    for (place, (purpose, direction, _)) in KINDS.into_iter().enumerate() {
        assert_eq!(slot(purpose, direction), place);
    }
}

#[test]
fn the_parameters_follow_from_the_link() {
    let link = LinkConfig { generation: 4, lanes: 16, ..LinkConfig::default() };
    let config = PathConfig::of_link(&link, 0);
    assert_eq!((config.max_payload, config.max_read_request), (link.max_payload, link.max_read_request));
    assert_eq!((config.up_bandwidth, config.down_bandwidth), (link.packet_rate(), link.packet_rate()));
    // A read of a cached line takes 600 ns in a slot, of which the cache takes about 50 ns and the packets a
    // few.
    assert_eq!(config.latency, Ps(267_500));
    assert_eq!(config.mmio_latency, Ps(277_500));
}

proptest! {
    #[test]
    fn requests_of_a_direction_finish_in_order_and_a_restored_path_continues(
        requests in prop::collection::vec((any::<bool>(), 0u32..10_000, 0u64..500), 1..80),
        split in 0usize..80,
    ) {
        let mut path = Path::new(config());
        let mut copy = Path::new(config());
        let (mut now, mut last) = (Ps::ZERO, [Ps::ZERO; 2]);
        for (i, (write, len, wait)) in requests.into_iter().enumerate() {
            now += ns(wait);
            if i == split {
                let bytes = postcard::to_stdvec(&path.save()).unwrap();
                copy.restore(postcard::from_bytes(&bytes).unwrap()).unwrap();
            }
            let book = |path: &mut Path| match write {
                true => path.write(now, len, RxData),
                false => path.read(now, len, TxData),
            };
            let done = book(&mut path);
            prop_assert!(done > last[usize::from(write)]);
            let least = now + ns(if write { 300 } else { 600 });
            prop_assert!(done >= least);
            last[usize::from(write)] = done;
            if i >= split {
                prop_assert_eq!(book(&mut copy), done);
            }
        }
    }
}
